"""The character table of a text, from the counts of its types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import regex

from models.characters import Characters
from tasks.artifacts import Stats
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.vocabulary import read_types

CHARACTERS_PART = "characters.json"
_GRAPHEME = regex.compile(r"\X")


@dataclass(frozen=True)
class CountCharacters:
    """Which characters make a table.

    Attributes:
        unit: what a character is.
        min_count: one that is seen less often is unknown.
        max_size: the most frequent, ties by UTF-8 bytes; None for no limit.
        unicode_data: of the library that finds graphemes.
    """

    unit: Literal["code point", "grapheme"] = "code point"
    min_count: int = 1
    max_size: int | None = None
    unicode_data: str = regex.__version__


def split_word(word: str, unit: str) -> list[str]:
    """The characters of a word."""
    return list(word) if unit == "code point" else _GRAPHEME.findall(word)


def count_characters(
    context: Context, readers: Mapping[str, Reader], params: CountCharacters
) -> Stats:
    """Count the characters of every word as often as it stands in the text."""
    words, counts = read_types(readers["types"])
    found: Counter[str] = Counter()
    for word, count in zip(words, counts.tolist(), strict=True):
        for character in split_word(word, params.unit):
            found[character] += count
    kept = [character for character, count in found.items() if count >= params.min_count]
    kept.sort(key=lambda character: (-found[character], character.encode()))
    kept = kept[: params.max_size]
    table = Characters(
        params.unit, tuple(kept), np.array([found[character] for character in kept], np.int64)
    )
    context.out.json(CHARACTERS_PART, table.to_json())
    return {"size": len(table), "distinct": len(found), "characters": sum(found.values())}


CHARACTERS: Step[CountCharacters] = Step("characters", 1, "characters", count_characters)


def read_characters(reader: Reader) -> Characters:
    """The table in an artifact."""
    return Characters.from_json(reader.json(CHARACTERS_PART))
