"""Phrases in a text: which neighbours there are, and what it looks like with some of them joined.

What ``tasks.phrases`` counts and finds, and what a model carries to treat later text alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.text import Sentences

MAX_BETWEEN = 2
"""Connectors in a row inside a phrase, at most."""

Phrase = tuple[str, str, str]
"""The first token, the connectors between with blanks, the last token."""


@dataclass(frozen=True)
class Joining:
    """Phrases that were found, for text that comes later.

    Attributes:
        passes: the phrases of each pass.
        connectors: see ``Phrases``.
    """

    passes: tuple[tuple[Phrase, ...], ...]
    connectors: tuple[str, ...] = ()

    def sentences(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Sentences with their phrases joined."""
        numbers: dict[str, int] = {}
        ids = [numbers.setdefault(token, len(numbers)) for tokens in sentences for token in tokens]
        starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        text = Sentences(np.array(ids, np.int32), starts, np.array([0, len(sentences)], np.int64))
        types = list(numbers)
        for phrases in self.passes:
            types, text = join_phrases(types, text, phrases, self.connectors)
        tokens = [types[i] for i in text.ids.tolist()]
        bounds = text.starts.tolist()
        return [tokens[a:b] for a, b in pairwise(bounds)]


@dataclass(frozen=True, eq=False)
class Pairs:
    """All neighbours in a text, with at most ``MAX_BETWEEN`` connectors between.

    Attributes:
        at: (M,) where the first token stands.
        to: (M,) where the last one stands.
        keys: (M,) int64, one number for each distinct phrase.
        order: (M,) pairs with successive numbers share a token.
    """

    at: NDArray[np.int64]
    to: NDArray[np.int64]
    keys: NDArray[np.int64]
    order: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairTable:
    """A table of types with the connectors in it, and how a phrase becomes a number."""

    types: Sequence[str]
    connectors: tuple[str, ...]

    def pairs(self, text: Sentences) -> Pairs:
        """All neighbours in a text whose ids point into this table."""
        rank = np.zeros(len(self.types), np.int64)  # 1 + its place among the connectors
        for i, word in enumerate(self.types):
            if word in self.connectors:
                rank[i] = 1 + self.connectors.index(word)
        sentence = np.repeat(np.arange(len(text)), np.diff(text.starts))
        ranks = rank[text.ids]
        content = np.flatnonzero(ranks == 0)
        at, to = content[:-1], content[1:]
        order = np.arange(len(at))
        near = (sentence[at] == sentence[to]) & (to - at <= 1 + MAX_BETWEEN)
        at, to, order = at[near], to[near], order[near]
        between = np.zeros(len(at), np.int64)
        for k in range(1, 1 + MAX_BETWEEN):
            inside = at + k < to
            between[inside] = between[inside] * self.base + ranks[at[inside] + k]
        keys = self.number(text.ids[at].astype(np.int64), between, text.ids[to].astype(np.int64))
        return Pairs(at, to, keys, order)

    @property
    def base(self) -> int:
        """Connectors and none."""
        return 1 + len(self.connectors)

    def number(self, first: Any, between: Any, second: Any) -> Any:
        """One number of three."""
        return (first * len(self.types) + second) * self.base**MAX_BETWEEN + between

    def phrase(self, key: int) -> Phrase:
        """The phrase with a number."""
        rest, between = divmod(key, self.base**MAX_BETWEEN)
        first, second = divmod(rest, len(self.types))
        words: list[str] = []
        while between:
            between, rank = divmod(between, self.base)
            words.insert(0, self.connectors[rank - 1])
        return self.types[first], " ".join(words), self.types[second]


def phrase_name(first: str, between: str, second: str) -> str:
    """A phrase as one token."""
    return "_".join([first, *between.split(), second])


def join_phrases(
    types: Sequence[str],
    text: Sentences,
    phrases: Sequence[Phrase],
    connectors: tuple[str, ...],
) -> tuple[list[str], Sentences]:
    """A text with its phrases joined, from left to right.

    Args:
        types: the table of the text's types.
        text: ids into it.
        phrases: to join.
        connectors: that were allowed inside of phrases.

    Returns:
        types in the order of first appearance, and the text in ids into them.
    """
    table = PairTable(types, connectors)
    pairs = table.pairs(text)
    ids = {word: i for i, word in enumerate(types)}
    wanted: dict[int, str] = {}
    for first, between, second in phrases:
        if first in ids and second in ids:
            code = 0
            for word in between.split():
                code = code * table.base + 1 + connectors.index(word)
            wanted[table.number(ids[first], code, ids[second])] = phrase_name(
                first, between, second
            )
    keys = np.array(sorted(wanted), np.int64)
    found = np.flatnonzero(np.isin(pairs.keys, keys))
    # Of pairs that share a token the first is joined, the next not, the one after it is.
    run = np.concatenate([[True], np.diff(pairs.order[found]) > 1])[: len(found)]
    begin = np.maximum.accumulate(np.where(run, np.arange(len(found)), 0))
    chosen = found[(np.arange(len(found)) - begin) % 2 == 0]
    numbers = text.ids.astype(np.int64)
    numbers[pairs.at[chosen]] = len(types) + np.searchsorted(keys, pairs.keys[chosen])
    keep = np.ones(len(numbers), np.bool_)
    for k in range(1, 2 + MAX_BETWEEN):
        inside = pairs.at[chosen] + k
        keep[inside[inside <= pairs.to[chosen]]] = False
    names = [*types, *(wanted[key] for key in keys.tolist())]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
    renamed, new_ids = _renumber(names, numbers[keep])
    return renamed, Sentences(new_ids, ends[text.starts], text.documents)


def _renumber(
    names: Sequence[str], numbers: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int32]]:
    """Ids in the order of first appearance; equal names, such as a word ``new_york``, share one."""
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    types: dict[str, int] = {}
    ids = np.zeros(len(distinct), np.int32)
    for i in np.argsort(first).tolist():
        ids[i] = types.setdefault(names[distinct[i]], len(types))
    return list(types), ids[inverse]
