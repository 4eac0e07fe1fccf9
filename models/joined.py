"""Contextual vectors of several models side by side, as of two that read in opposite directions.

Trained apart, a forward and a backward language model know each their half of a token's context;
put together their states are what a bidirectional encoder has (so did the two character models of
A. Akbik, D. Blythe and R. Vollgraf, *Contextual string embeddings for sequence labeling*, 2018).
Nothing is trained here. Layers are put together from the last one down, as far as the part with the
fewest goes, and so are the vectors of sentences and of words.

All parts share one vocabulary, and so does what they are joined to.

Shapes: ``N`` tokens or words, ``S`` sentences, ``D`` width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.bidirectional import Combine
from models.birnn import Config as BirnnConfig
from models.capabilities import EmbedsSentences, EmbedsTokens, EmbedsWords, ReadsOn
from models.elmo import Config as ElmoConfig
from models.family import FloatArray, Inputs, Model, State, Style, Want
from models.parts import state_of_part, state_of_parts
from models.rnnlm import Config as RnnlmConfig
from models.text import Sentences
from models.vocabulary import Vocabulary

Joinable = RnnlmConfig | BirnnConfig | ElmoConfig
"""The settings of whatever can be joined."""


class Contextual(Model, EmbedsTokens, EmbedsSentences, EmbedsWords, Protocol):
    """A part: a model with vectors of tokens, of sentences and of words."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which models are joined, and how."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Joined encoders"
    paper: ClassVar[str] = "Akbik, Blythe & Vollgraf 2018"

    family: Literal["joined"] = "joined"
    parts: Annotated[
        tuple[Annotated[Joinable, Field(discriminator="family")], ...],
        Field(min_length=2, description="Settings of each part"),
    ]
    names: Annotated[tuple[str, ...], Field(description="What each part is called")]
    contents: Annotated[tuple[str, ...], Field(description="Content hash of each part")]
    combine: Annotated[Combine, Field(description="How the vectors of the parts become one")] = (
        "concatenation"
    )

    def __post_init__(self) -> None:
        if not len(self.parts) == len(self.names) == len(self.contents):
            raise ValueError("parts, names and contents are of different numbers")

    def wants(self) -> Mapping[str, Want]:
        """Nothing of a corpus: it is made of other models."""
        return {}

    def build(self, inputs: Inputs, *, seed: int) -> Joined:
        """There is no untrained one.

        Raises:
            TypeError: always.
        """
        raise TypeError("joined encoders are made of other models, by `lexloom join`")

    def restore(self, vocabulary: Vocabulary, state: State) -> Joined:
        """The model whose ``state`` this is."""
        parts = []
        for k, config in enumerate(self.parts):
            parts.append(config.restore(vocabulary, state_of_part(state, k)))
        return Joined(self, vocabulary, parts)


class Joined:
    """Several encoders that answer as one."""

    def __init__(self, config: Config, vocabulary: Vocabulary, parts: Sequence[Contextual]) -> None:
        self.config, self.vocabulary, self.parts = config, vocabulary, tuple(parts)

    def state(self) -> State:
        """The arrays of all parts, each under the number of its part."""
        return state_of_parts(self.parts)

    @property
    def reads_on(self) -> bool:
        """Whether any part does."""
        return any(isinstance(part, ReadsOn) and part.reads_on for part in self.parts)

    @property
    def layers(self) -> tuple[str, ...]:
        """By the name that the parts have for each, or all their names."""
        each = zip(*(_last(part.layers, self._depth) for part in self.parts), strict=True)
        return tuple("+".join(dict.fromkeys(names)) for names in each)

    @property
    def _depth(self) -> int:
        return min(len(part.layers) for part in self.parts)

    def token_vectors(self, sentences: Sentences) -> Sequence[FloatArray]:
        """See ``models.capabilities.EmbedsTokens``."""
        found = [_last(part.token_vectors(sentences), self._depth) for part in self.parts]
        return [self._together(layer) for layer in zip(*found, strict=True)]

    def sentence_vectors(self, sentences: Sentences) -> FloatArray:
        """See ``models.capabilities.EmbedsSentences``."""
        return self._together([part.sentence_vectors(sentences) for part in self.parts])

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32; NaN for a word that is not in the vocabulary."""
        return self._together([part.word_vectors(words) for part in self.parts])

    def _together(self, vectors: Sequence[FloatArray]) -> NDArray[np.float32]:
        found: Any
        match self.config.combine:
            case "concatenation":
                found = np.concatenate(vectors, axis=1)
            case "sum":
                found = np.sum(vectors, axis=0)
            case "average":
                found = np.mean(vectors, axis=0)
            case "product":
                found = np.prod(vectors, axis=0)
        return np.asarray(found, np.float32)


def _last(values: Sequence[Any], n: int) -> Sequence[Any]:
    return values[len(values) - n :]
