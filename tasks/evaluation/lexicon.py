"""Which words of a vocabulary an evaluation looks at, and how a word of a test set is found there.

"The N most frequent words" go by their counts, whatever the order of the rows in which somebody
stored them; equal counts go by the bytes of the word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.family import EmbedsWords, FloatArray, Model
from models.vocabulary import Vocabulary
from tasks.errors import InputError

Case = Literal["fold", "exact"]
CASE_POLICY: dict[Case, str] = {
    "fold": "case ignored, the most frequent form of a word stands for all",
    "exact": "case respected",
}


@dataclass(frozen=True)
class Lexicon:
    """Words, the most frequent first.

    Attributes:
        words: at most ``restrict`` of them; under ``fold`` one form of each.
        case: whether words are compared without case.
    """

    words: tuple[str, ...]
    case: Case

    @staticmethod
    def of(vocabulary: Vocabulary, case: Case, restrict: int | None = None) -> Lexicon:
        """The ``restrict`` most frequent words of a vocabulary, all of them if None.

        Of several forms of a word (under ``fold``) only the most frequent stays.

        Raises:
            InputError: ``restrict`` asks for the most frequent words, but there are no counts.
        """
        words, counts = vocabulary.words, vocabulary.counts
        if restrict is not None and restrict < len(words) and not counts.any():
            raise InputError(
                f"which are the {restrict:,} most frequent words? This vocabulary has no counts",
                where="restrict",
                remedy="evaluate on all its words",
            )
        chosen = _by_frequency(words, counts)[:restrict]
        if case == "fold":
            first: dict[str, str] = {}
            for word in chosen:
                first.setdefault(word.casefold(), word)
            chosen = tuple(first.values())
        return Lexicon(chosen, case)

    def _key(self, word: str) -> str:
        return word.casefold() if self.case == "fold" else word

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {self._key(word): i for i, word in enumerate(self.words)}

    def find(self, word: str) -> int:
        """The position of a word, or of the form that stands for it; -1 if there is none."""
        return self._positions.get(self._key(word), -1)

    def form(self, word: str) -> str:
        """The form that stands for a word; the word itself if there is none."""
        position = self.find(word)
        return word if position < 0 else self.words[position]


def _by_frequency(words: tuple[str, ...], counts: NDArray[np.int64]) -> tuple[str, ...]:
    keys = [
        (-n, w.encode("utf-8", "surrogatepass"))
        for w, n in zip(words, counts.tolist(), strict=True)
    ]
    return tuple(words[i] for i in sorted(range(len(words)), key=keys.__getitem__))


def vectors_of(model: Model, lexicon: Lexicon) -> tuple[Lexicon, FloatArray]:
    """The words of a lexicon that a model has a vector for, with (N, D) these vectors."""
    if not isinstance(model, EmbedsWords):
        raise TypeError(f"{type(model).__name__} has no word vectors")
    vectors = model.word_vectors(lexicon.words)
    known = np.flatnonzero(np.isfinite(vectors).all(axis=1))
    if len(known) == len(vectors):
        return lexicon, vectors
    return Lexicon(tuple(lexicon.words[i] for i in known), lexicon.case), vectors[known]
