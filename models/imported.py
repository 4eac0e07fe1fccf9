"""Vectors that another program has made and that were read from a file.

The file is known by its content and format (``tasks.importing`` reads it); nothing else is known of
how the vectors came about. Words are in the order of the file, by custom that of falling frequency;
counts are 0 where the file has none.

Shapes: ``V`` vocabulary, ``D`` width, ``N`` words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.capabilities import TableName
from models.family import FloatArray, Inputs, State, Style, Want
from models.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where vectors come from."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Imported vectors"
    paper: ClassVar[str] = "made by another program"

    family: Literal["imported"] = "imported"
    format: Annotated[str, Field(description="Of the file")]
    sha256: Annotated[str, Field(description="Of the file's bytes")]
    dim: Annotated[int, Field(ge=1, description="Width of the vectors")]

    def wants(self) -> Mapping[str, Want]:
        """Nothing of a corpus: they are there."""
        return {}

    def build(self, inputs: Inputs, *, seed: int) -> Model:
        """There is no untrained one.

        Raises:
            TypeError: always.
        """
        raise TypeError("imported vectors are read from a file, by `lexloom import`")

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the array that ``Model.state`` gave."""
        return Model(self, vocabulary, state["input"])


class Model:
    """A table of vectors.

    Attributes:
        input: (V, D) float32.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, input: NDArray[np.float32]) -> None:
        self.config, self.vocabulary, self.input = config, vocabulary, input

    def state(self) -> State:
        """The table."""
        return {"input": self.input}

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32; NaN for a word outside the vocabulary."""
        ids = self.vocabulary.ids(words)
        vectors = np.full((len(ids), self.config.dim), np.nan, np.float32)
        vectors[ids >= 0] = self.input[ids[ids >= 0]]
        return vectors

    @property
    def own_table(self) -> TableName:
        """There is one table only."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The word vectors."""
        return {"input": self.input}
