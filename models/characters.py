"""How words are written: the character table of a model, and words as rows of characters.

Characters are code points or grapheme clusters; either way they come with exact counts from the
training text, the most frequent first, ties by UTF-8 bytes. Before them stand reserved entries,
which are ids and no strings of a text: padding, an unknown character, the two ends of a word, and
one character for each reserved entry of a language model, so that ``<s>`` is a word whose only
character no other word has.

A model of characters tells words apart that are all ``<unk>`` to its word softmax. Their ids are
those of *forms* (``forms_of``): the entries of its vocabulary, and behind them every other form of
the text at hand. ``Characters.spell`` makes the rows of all forms once.

Shapes: ``N`` words, ``F`` forms, ``W`` the longest of them with its two ends, ``A`` characters.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.examples import Boundary, Examples
from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED, UNK, Vocabulary

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
"""Padding, a character that is not in the table, and the two ends of a word."""
MARKS = {mark: 4 + i for i, mark in enumerate(LM_RESERVED)}
"""The only character of each reserved entry."""
RESERVED = 4 + len(MARKS)


@dataclass(frozen=True, eq=False)
class Characters:
    """Characters with their ids and counts.

    Attributes:
        unit: what a character is: "code point" or "grapheme".
        characters: the most frequent first; the id of ``characters[i]`` is ``RESERVED + i``.
        counts: (A,) int64, how often each stands in the training text.
    """

    unit: str
    characters: tuple[str, ...]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return RESERVED + len(self.characters)

    @staticmethod
    def of(text: Tokens, min_count: int = 1) -> Characters:
        """The code points of all words of a training text, also of those a vocabulary leaves out.

        Args:
            text: what is counted.
            min_count: one that is seen less often is unknown.
        """
        found: Counter[str] = Counter()
        for part in text.partitions:
            for word, count in zip(part.types, part.counts.tolist(), strict=True):
                for character in word:
                    found[character] += count
        kept = [character for character, count in found.items() if count >= min_count]
        kept.sort(key=lambda c: (-found[c], c.encode("utf-8", "surrogatepass")))
        return Characters("code point", tuple(kept), np.array([found[c] for c in kept], np.int64))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {character: RESERVED + i for i, character in enumerate(self.characters)}

    def encode(
        self, words: Sequence[str], split: Callable[[str], Sequence[str]] = list, *, width: int
    ) -> NDArray[np.int32]:
        """(N, W) int32, W at most ``width``: begin, the characters, end, and padding.

        Args:
            words: N words; what does not fit into the width is cut off at the word's end.
            split: a word to characters; ``list`` gives code points.
            width: at least 3.

        Raises:
            ValueError: a width below 3.
        """
        if width < 3:
            raise ValueError(f"width must be at least 3, not {width}")
        get = self._ids.get
        known = [[get(character, UNKNOWN) for character in split(w)[: width - 2]] for w in words]
        ids = np.full((len(words), max(map(len, known), default=1) + 2), PAD, np.int32)
        for row, word in zip(ids, known, strict=True):
            row[: len(word) + 2] = [BEGIN, *word, END]
        return ids

    def read(self, words: Sequence[str], *, width: int) -> NDArray[np.int32]:
        """``encode``, but ``<unk>`` is its mark, as in a text: somebody has merged words before."""
        rows = self.encode(words, width=width)
        for row, word in zip(rows, words, strict=True):
            if word == UNK:
                row[:] = PAD
                row[:3] = [BEGIN, MARKS[UNK], END]
        return rows

    def spell(self, forms: Vocabulary, longest: int) -> NDArray[np.int32]:
        """(F, W) int32, the rows of all forms; words are cut after ``longest`` characters.

        The only character of a reserved entry is one of its own.
        """
        words = [*(" " for _ in forms.reserved), *forms.words]
        rows = self.encode(words, width=longest + 2)
        rows[: len(forms.reserved), 1] = [MARKS[mark] for mark in forms.reserved]
        return rows

    # --- kept -----------------------------------------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits that two tables share exactly if their entries agree in order."""
        text = json.dumps([self.unit, self.characters], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which ``from_json`` makes the same table."""
        return {
            "unit": self.unit,
            "characters": list(self.characters),
            "counts": self.counts.tolist(),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Characters:
        """The table that ``to_json`` wrote."""
        counts = np.asarray(value["counts"], np.int64)
        return Characters(value["unit"], tuple(value["characters"]), counts)

    def to_array(self) -> NDArray[np.int64]:
        """(A, 2) code points and counts, for the state of a model.

        No vocabulary tells them: words that it leaves out have characters too.

        Raises:
            ValueError: a character is not one code point.
        """
        if self.unit != "code point":
            raise ValueError(f"a table of {self.unit}s is no array")
        points = np.fromiter(map(ord, self.characters), np.int64)
        return np.stack([points, self.counts], 1)

    @staticmethod
    def from_array(array: NDArray[np.int64]) -> Characters:
        """The table that ``to_array`` wrote."""
        characters = tuple(map(chr, array[:, 0].tolist()))
        return Characters("code point", characters, np.asarray(array[:, 1], np.int64))


# --- forms ----------------------------------------------------------------------------------


def forms_of(vocabulary: Vocabulary, texts: Iterable[Sequence[str]]) -> Vocabulary:
    """The entries of a vocabulary, and behind them the other forms of some texts, without counts.

    So the ids of known words are those of the vocabulary, and of unknown ones each has its own. A
    form that is written ``<unk>`` is that entry: somebody has merged words there before us.
    """
    others = dict.fromkeys(f for forms in texts for f in forms if f not in vocabulary and f != UNK)
    counts = np.concatenate([vocabulary.counts, np.zeros(len(others), np.int64)])
    return Vocabulary(vocabulary.reserved, (*vocabulary.words, *others), counts)


def spelt_text(
    characters: Characters, vocabulary: Vocabulary, text: Tokens, longest: int, boundary: Boundary
) -> tuple[NDArray[np.int32], Examples, Examples]:
    """A training text for a model that reads letters.

    Returns:
        (F, W) the characters of its forms, its examples in the ids of the vocabulary, and in those
        of its forms.
    """
    forms = forms_of(vocabulary, (part.types for part in text.partitions))
    words, spelt = (Examples.of(text, ids, 1, boundary) for ids in (vocabulary, forms))
    return characters.spell(forms, longest), words, spelt


def by_form(sentences: Sentences, vocabulary: Vocabulary) -> tuple[Sentences, Vocabulary]:
    """Text under a vocabulary in the ids of its forms, and the forms.

    Where it is not known how tokens are written, unknown ones stay ``<unk>``.
    """
    if sentences.written is None:
        return sentences, vocabulary
    used = np.unique(sentences.written)
    written = [sentences.forms[i] for i in used.tolist()]
    forms = forms_of(vocabulary, [written])
    ids = forms.ids(written)[np.searchsorted(used, sentences.written)]
    return replace(sentences, ids=ids), forms
