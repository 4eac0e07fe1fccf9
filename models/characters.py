"""The character table of models that read words letter by letter.

Characters are code points or grapheme clusters; either way they come with exact counts from the
training text, the most frequent first, ties by UTF-8 bytes. Before them stand four reserved
entries, which are ids and no strings of a text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
"""Padding, a character that is not in the table, and the two ends of a word."""

RESERVED = 4


@dataclass(frozen=True, eq=False)
class Characters:
    """Characters with their ids and counts.

    Attributes:
        unit: what a character is: "code point" or "grapheme".
        characters: the most frequent first; the id of ``characters[i]`` is ``RESERVED + i``.
        counts: (len(characters),) int64, how often each stands in the training text.
    """

    unit: str
    characters: tuple[str, ...]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return RESERVED + len(self.characters)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {character: RESERVED + i for i, character in enumerate(self.characters)}

    def encode(
        self, words: Sequence[str], split: Callable[[str], Sequence[str]] = list, *, width: int
    ) -> NDArray[np.int32]:
        """(N, width) int32: begin, the characters, end, and padding.

        Args:
            words: N words; what does not fit into the width is cut off at the word's end.
            split: a word to characters; ``list`` gives code points.
            width: at least 3.

        Raises:
            ValueError: a width below 3.
        """
        if width < 3:
            raise ValueError(f"width must be at least 3, not {width}")
        ids = np.full((len(words), width), PAD, np.int32)
        for row, word in zip(ids, words, strict=True):
            known = [self._ids.get(character, UNKNOWN) for character in split(word)[: width - 2]]
            row[: len(known) + 2] = [BEGIN, *known, END]
        return ids

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
