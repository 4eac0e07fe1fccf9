"""Which words of a vocabulary an evaluation looks at, and how a word of a test set is found there.

"The N most frequent words" go by their counts, whatever the order of the rows in which somebody
stored them; equal counts go by the bytes of the word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.capabilities import EmbedsWords
from models.family import FloatArray, Model
from models.vocabulary import Vocabulary
from tasks.errors import InputError

BLOCK = 1 << 15
"""Words whose vectors are read at a time where all are."""

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


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a model as a test set asks for them; shared by all sets of an evaluation.

    Attributes:
        model: one that ``EmbedsWords``.
        case: see ``Lexicon``.
    """

    model: Model
    case: Case = "fold"

    @cached_property
    def lexicon(self) -> Lexicon:
        """All words."""
        return Lexicon.of(self.model.vocabulary, self.case)

    def vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) vectors of the forms that stand for words, NaN where a word has none."""
        return self._embeds(self.lexicon.form(word) for word in words)

    def seen(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(N,) whether a word, or a form that stands for it, is in the vocabulary."""
        return np.array([self.lexicon.find(word) >= 0 for word in words], dtype=np.bool_)

    def counts(self, words: Sequence[str]) -> NDArray[np.int64]:
        """(N,) how often the forms stand in the training text, 0 where the vocabulary has none."""
        vocabulary = self.model.vocabulary
        places = vocabulary.ids(self.lexicon.form(word) for word in words).astype(np.int64)
        return np.append(vocabulary.counts, 0)[np.maximum(places - len(vocabulary.reserved), -1)]

    @cached_property
    def mean(self) -> FloatArray:
        """(D,) the mean of the vectors of all words."""
        words, total, known = self.model.vocabulary.words, 0.0, 0
        for start in range(0, len(words), BLOCK):
            rows = self._embeds(words[start : start + BLOCK])
            rows = rows[np.isfinite(rows).all(axis=1)]
            total, known = total + rows.sum(axis=0, dtype=np.float64), known + len(rows)
        return np.asarray(total / max(1, known), dtype=np.float32)

    def restricted(self, restrict: int) -> tuple[Lexicon, FloatArray]:
        """The most frequent words that have a vector, with (N, D) these vectors."""
        return vectors_of(self.model, Lexicon.of(self.model.vocabulary, self.case, restrict))

    def _embeds(self, words: Iterable[str]) -> FloatArray:
        if not isinstance(self.model, EmbedsWords):
            raise TypeError(f"{type(self.model).__name__} has no word vectors")
        return self.model.word_vectors([*words])


def vectors_of(model: Model, lexicon: Lexicon) -> tuple[Lexicon, FloatArray]:
    """The words of a lexicon that a model has a vector for, with (N, D) these vectors."""
    if not isinstance(model, EmbedsWords):
        raise TypeError(f"{type(model).__name__} has no word vectors")
    vectors = model.word_vectors(lexicon.words)
    known = np.flatnonzero(np.isfinite(vectors).all(axis=1))
    if len(known) == len(vectors):
        return lexicon, vectors
    return Lexicon(tuple(lexicon.words[i] for i in known), lexicon.case), vectors[known]
