"""Units of a text side by side in padded batches, for models that read in both directions.

A unit is a document or a sentence. A *piece* is a stretch of its examples (words and sentence
ends); it is read with the entry before it, which is ``<s>`` at the beginning of the unit::

    a b </s> c </s>         is read as      <s> a b </s> c </s>

Short pieces are padded behind with ``<s>``. Whatever reads them must not let that matter.

Shapes: ``P`` pieces, ``T`` entries of the longest piece, ``B`` pieces of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.examples import START, Examples, shuffled
from models.family import Plan

POOL = 64
"""Batches whose pieces are sorted by length together: of 64, padding is under a twentieth."""
AT_ONCE = 1 << 13
"""Entries that are read at a time where nothing is learnt."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Stretches of the examples of a text.

    Attributes:
        begins: (P,) the first example that is read.
        ends: (P,) behind the last one.
        firsts: (P,) the first example that counts; those before it are only read.
        lasts: (P,) behind the last one that counts.
    """

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begins)

    def some(self, index: NDArray[np.int64]) -> Pieces:
        """Those of the given numbers."""
        return Pieces(self.begins[index], self.ends[index], self.firsts[index], self.lasts[index])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(P,) examples that are read."""
        return self.ends - self.begins


def pieces(examples: Examples, size: int, around: int = 0) -> Pieces:
    """All units, those that are longer cut into pieces.

    Every example counts in one piece.

    Args:
        examples: of the text.
        size: examples of a unit that is not cut, at most: more are cut into pieces of which so
            many count, less those around.
        around: examples on either side of what counts that are read besides, within the unit.
    """
    limits = [
        end - len(part.ids) - len(part) + np.unique(own)
        for end, part, own in zip(examples.ends, examples.parts, examples.limits, strict=True)
    ]
    first = np.concatenate([np.zeros(0, np.int64), *limits])
    end = np.append(first[1:], len(examples))
    step = np.where(end - first > size, size - 2 * around, np.maximum(end - first, 1))
    number = -(-(end - first) // step)
    unit = np.repeat(np.arange(len(first)), number)
    within = np.arange(len(unit)) - np.repeat(np.cumsum(number) - number, number)
    firsts = first[unit] + within * step[unit]
    lasts = np.minimum(firsts + step[unit], end[unit])
    begins = np.maximum(firsts - around, first[unit])
    return Pieces(begins, np.minimum(lasts + around, end[unit]), firsts, lasts)


def padded(examples: Examples, some: Pieces) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(T, B) the entries of pieces and the one before each, and (B,) how many they are."""
    sizes = some.sizes + 1
    entries = np.full((int(sizes.max(initial=1)), len(some)), START, np.int64)
    if len(some):
        entries[0] = examples.at(some.begins)[0][:, 0]
        index = some.begins + np.arange(len(entries) - 1)[:, None]
        there = index < some.ends
        entries[1:][there] = examples.at(index[there])[1]
    return entries, sizes


def n_batches(pieces: Pieces, size: int) -> int:
    """Batches of an epoch."""
    return -(-len(pieces) // size)


def batches(pieces: Pieces, size: int, plan: Plan) -> Iterator[tuple[int, Pieces, Pieces]]:
    """The number of a batch, its pieces, and this rank's part of them.

    Pieces of about equal length come together. Of the training text their order is drawn anew in
    every epoch, a pool of batches is sorted by length, and the batches of all pools come in an
    order that is drawn as well. Ranks take turns, so that theirs are of about equal lengths.

    Args:
        pieces: of the text.
        size: of a batch of all ranks.
        plan: the part.
    """
    n = n_batches(pieces, size)
    sizes, draws = pieces.sizes, plan.role == "train"
    for number in range(plan.start, n):
        at = (
            int(shuffled(np.array([number]), n, (plan.seed, plan.epoch, 1))[0]) if draws else number
        )
        pool = at // POOL
        first, last = pool * POOL * size, min((pool + 1) * POOL * size, len(pieces))
        index = np.arange(first, last, dtype=np.int64)
        if draws:
            index = shuffled(index, len(pieces), (plan.seed, plan.epoch))
        index = index[np.argsort(sizes[index], kind="stable")]
        index = index[at * size - first :][:size]
        yield number, pieces.some(index), pieces.some(index[plan.rank :: plan.world])


def piles(pieces: Pieces, at_once: int = AT_ONCE) -> Iterator[Pieces]:
    """All pieces, those of about equal length together, about so many entries at a time."""
    order = np.argsort(-pieces.sizes, kind="stable")
    at = 0
    while at < len(order):
        n = max(1, at_once // int(pieces.sizes[order[at]] + 1))
        yield pieces.some(order[at : at + n])
        at += n
