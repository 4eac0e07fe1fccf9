"""Every word and sentence end of a text as something to predict from the words before it.

Examples are made only when asked for, from partitions that stay memory-mapped, and any stretch of
a shuffled order is known without making all of it.

Shapes: ``B`` examples, ``N`` context words, ``S`` sentences, ``P`` partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary

START, END = LM_RESERVED.index("<s>"), LM_RESERVED.index("</s>")
Boundary = Literal["sentence", "document"]


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of a text; a sentence has one more than words, for its end.

    Attributes:
        parts: the partitions, their ids still memory-mapped.
        tables: for each partition, the vocabulary's id of each of its own ids.
        firsts: for each partition, (S,) the first example of each sentence.
        limits: for each partition, (S,) the first example that a context of each sentence may
            reach back to.
        ends: (P,) examples up to and with each partition.
        context: the number of context words.
    """

    parts: Sequence[Sentences]
    tables: Sequence[NDArray[np.int32]]
    firsts: Sequence[NDArray[np.int64]]
    limits: Sequence[NDArray[np.int64]]
    ends: NDArray[np.int64]
    context: int

    @staticmethod
    def of(
        text: Tokens, vocabulary: Vocabulary, context: int, boundary: Boundary = "sentence"
    ) -> Examples:
        """The examples of a corpus."""
        tables = [vocabulary.ids(part.types) for part in text.partitions]
        return Examples._of([part.text for part in text.partitions], tables, context, boundary)

    @staticmethod
    def over(sentences: Sentences, context: int, boundary: Boundary = "sentence") -> Examples:
        """The examples of text that is under the vocabulary already."""
        size = int(sentences.ids.max(initial=0)) + 1
        return Examples._of([sentences], [np.arange(size, dtype=np.int32)], context, boundary)

    @staticmethod
    def _of(
        parts: Sequence[Sentences],
        tables: Sequence[NDArray[np.int32]],
        context: int,
        boundary: Boundary,
    ) -> Examples:
        sizes = np.array([len(part.ids) + len(part) for part in parts], dtype=np.int64)
        firsts = [part.starts[:-1] + np.arange(len(part)) for part in parts]
        limits = firsts
        if boundary == "document":
            limits = [_of_documents(first, part) for first, part in zip(firsts, parts, strict=True)]
        return Examples(parts, tables, firsts, limits, np.cumsum(sizes), context)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def at(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Contexts (B, N), the nearest word first, and targets (B,) of the numbered examples.

        Where a context reaches over its limit it is filled with ``<s>``; where it reaches over the
        end of a sentence within a document, ``</s>`` is one of its words.
        """
        words = np.full((len(index), self.context + 1), START, dtype=np.int64)
        owners = np.searchsorted(self.ends, index, side="right")
        for p in np.unique(owners):
            mine = np.flatnonzero(owners == p)
            part, firsts = self.parts[p], self.firsts[p]
            offset = index[mine] - (self.ends[p] - len(part.ids) - len(part))
            limit = self.limits[p][np.searchsorted(firsts, offset, side="right") - 1]
            before = offset[:, None] - np.arange(self.context + 1)
            rows, columns = np.nonzero(before >= limit[:, None])
            words[mine[rows], columns] = self._words(p, before[rows, columns])
        return words[:, 1:], words[:, 0]

    def units(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(B,) the first example of what no context of the numbered ones reaches over; its end."""
        first, end = np.empty_like(index), np.empty_like(index)
        owners = np.searchsorted(self.ends, index, side="right")
        for p in np.unique(owners):
            mine = np.flatnonzero(owners == p)
            size = len(self.parts[p].ids) + len(self.parts[p])
            base, limits = self.ends[p] - size, self.limits[p]
            offset = index[mine] - base
            own = limits[np.searchsorted(self.firsts[p], offset, side="right") - 1]
            first[mine] = base + own
            end[mine] = base + np.append(limits, size)[np.searchsorted(limits, own, side="right")]
        return first, end

    def _words(self, p: int, offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """What examples of a partition predict."""
        part, table = self.parts[p], self.tables[p]
        sentence = np.searchsorted(self.firsts[p], offset, side="right") - 1
        token = offset - sentence
        found = np.full(len(offset), END, dtype=np.int64)
        inside = np.flatnonzero(token < part.starts[sentence + 1])
        found[inside] = table[part.ids[token[inside]]]
        return found


def token_examples(sentences: Sentences) -> NDArray[np.int64]:
    """(N,) the example that each token of a text is; the others are sentence ends."""
    sizes = np.diff(sentences.starts)
    return np.arange(len(sentences.ids)) + np.repeat(np.arange(len(sizes)), sizes)


def _of_documents(firsts: NDArray[np.int64], part: Sentences) -> NDArray[np.int64]:
    """(S,) the first example of each sentence's document."""
    sizes = np.diff(part.documents)
    opening = part.documents[:-1][sizes > 0]
    return np.repeat(firsts[opening], sizes[sizes > 0])


def shuffled(
    index: NDArray[np.int64], total: int, seed: Sequence[int], rounds: int = 4
) -> NDArray[np.int64]:
    """Where a seeded random permutation of ``range(total)`` sends each index.

    A Feistel network permutes the next power of four, and what leaves the range is sent on until
    it is back (Black and Rogaway 2002): any part of the order is known without making all of it.
    """
    half = np.uint64(max(1, -(-(total - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)
    keys = np.random.SeedSequence(list(seed)).generate_state(rounds, np.uint64)
    result = index.astype(np.uint64)
    astray = np.arange(len(index))
    while len(astray):
        left, right = result[astray] >> half, result[astray] & mask
        for key in keys:
            left, right = right, left ^ (_mix(right + key) & mask)
        result[astray] = left << half | right
        astray = astray[result[astray] >= total]
    return result.astype(np.int64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit sways every other."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
