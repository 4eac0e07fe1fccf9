"""An n-gram model that another program has estimated and that was read from a file.

The file is known by its content and format (``tasks.importing`` reads it); nothing else is known of
how the probabilities came about.

Shapes: ``N`` tokens, ``S`` sentences, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.backoff import Table
from models.capabilities import Decoder
from models.decoding import Windowed
from models.family import Inputs, State, Style, Want
from models.text import Sentences
from models.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where an n-gram model comes from."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Imported n-gram"
    paper: ClassVar[str] = "made by another program"

    family: Literal["imported-ngram"] = "imported-ngram"
    format: Annotated[str, Field(description="Of the file")]
    sha256: Annotated[str, Field(description="Of the file's bytes")]
    order: Annotated[int, Field(ge=1, description="Words of an n-gram, context included")]

    def wants(self) -> Mapping[str, Want]:
        """Nothing of a corpus: it is there."""
        return {}

    def build(self, inputs: Inputs, *, seed: int) -> Model:
        """There is no untrained one.

        Raises:
            TypeError: always.
        """
        raise TypeError("an imported model is read from a file, by `lexloom import`")

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the arrays that ``Model.state`` gave."""
        names = ("sizes", "keys", "probabilities", "weights")
        return Model(self, vocabulary, Table(*(np.asarray(state[name]) for name in names)))


class Model:
    """A back-off table."""

    def __init__(self, config: Config, vocabulary: Vocabulary, table: Table) -> None:
        self.config, self.vocabulary, self.table = config, vocabulary, table

    def state(self) -> State:
        """The arrays of the table."""
        return {
            "sizes": self.table.sizes,
            "keys": self.table.keys,
            "probabilities": self.table.probabilities,
            "weights": self.table.weights,
        }

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) see ``models.capabilities.Scores``."""
        return self.table.log_prob(sentences)

    def next_log_probs(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """(S, V) see ``models.backoff.Table.next_log_probs``."""
        return self.table.next_log_probs(contexts)

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        return Windowed(self.next_log_probs, self.config.order - 1, prefixes)
