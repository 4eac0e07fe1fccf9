"""Kernels of co-occurrence counting: a row at a time in an accumulator that fits the cache.

All places of one word are visited together, and what stands around them is added to one dense row
("sparse accumulator", Gilbert, Moler & Schreiber 1992; Gustavson's product is the same idea). No
pair is ever written down to be sorted: a row of as many int64 as there are words stays in the
second-level cache, most additions hit its beginning because ids go by falling frequency, and a
bitmap of what was touched gives the columns in order. Adding up finished tables works likewise.

Weights are integers: multiples of the least common multiple of the distances, so that sums are
exact and their order cannot matter.

Between steps a table is bytes: for each row its columns as differences and its sums, both as
LEB128 numbers, about 3.5 bytes an entry instead of 12.

Shapes: ``N`` tokens, ``V`` words, ``W`` window, ``M`` entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

LONGEST = 15
"""No entry takes more bytes: five for its column, ten for its sum."""


@dataclass(frozen=True, eq=False)
class Row:
    """The accumulator, empty between two rows.

    Attributes:
        sums: (V + 1,) int64; the last takes what is not wanted.
        touched: (V + 2,) uint32, columns in the order of their first appearance.
        bits: one bit a column, in uint64.
        summary: one bit for each of ``bits``.
    """

    sums: NDArray[np.int64]
    touched: NDArray[np.uint32]
    bits: NDArray[np.uint64]
    summary: NDArray[np.uint64]

    @staticmethod
    def of(n_words: int) -> Row:
        """An empty row."""
        n_bits = n_words // 64 + 1
        return Row(
            np.zeros(n_words + 1, np.int64),
            np.zeros(n_words + 2, np.uint32),
            np.zeros(n_bits, np.uint64),
            np.zeros(n_bits // 64 + 1, np.uint64),
        )

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """As the kernels take it."""
        return self.sums, self.touched, self.bits, self.summary


@intrinsic
def trailing_zeros(_: Any, value: Any) -> Any:
    """The number of zero bits below the lowest one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def lay_out(
    ids: NDArray[np.int32], edges: NDArray[np.int64], ranks: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """A text as one stream of ranks, with the number of words as a wall around every segment.

    Args:
        ids: (N,) tokens.
        edges: (S + 1,) segment ``s`` is ``ids[edges[s]:edges[s + 1]]``.
        ranks: (V,) the rank of each id.
    """
    stream = np.empty(edges[-1] - edges[0] + len(edges), np.uint32)
    wall = np.uint32(len(ranks))
    stream[0] = wall
    at = 1
    for s in range(len(edges) - 1):
        for i in range(edges[s], edges[s + 1]):
            stream[at] = ranks[ids[i]]
            at += 1
        stream[at] = wall
        at += 1
    return stream[:at]


@njit(cache=True, nogil=True)
def places(stream: NDArray[np.uint32], n_words: int) -> tuple[NDArray[np.uint32], NDArray[Any]]:
    """All places of each word: (N,) places, and (V + 1,) where those of a word begin."""
    starts = np.zeros(n_words + 2, np.int64)
    for word in stream:
        starts[word + 1] += 1
    starts = np.cumsum(starts)
    found = np.empty(starts[n_words], np.uint32)
    cursor = starts.copy()
    for i in range(len(stream)):
        word = stream[i]
        if word != n_words:
            found[cursor[word]] = i
            cursor[word] += 1
    return found, starts[: n_words + 1]


@njit(cache=True, nogil=True)
def empty_row(
    row: tuple[Any, ...], n: int, columns: NDArray[np.uint32], sums: NDArray[np.int64], at: int
) -> int:
    """Write the touched columns in order, and their sums; returns where they end."""
    totals, touched, bits, summary = row
    for i in range(n):
        c = np.uint64(touched[i])
        k = c >> np.uint64(6)
        bits[k] |= np.uint64(1) << (c & np.uint64(63))
        summary[k >> np.uint64(6)] |= np.uint64(1) << (k & np.uint64(63))
    for s in range(len(summary)):
        high = summary[s]
        summary[s] = 0
        while high:
            k = np.uint64(s * 64) + trailing_zeros(high)
            high &= high - np.uint64(1)
            low = bits[k]
            bits[k] = 0
            while low:
                c = k * np.uint64(64) + trailing_zeros(low)
                low &= low - np.uint64(1)
                columns[at] = c
                sums[at] = totals[c]
                totals[c] = 0
                at += 1
    return at


@njit(cache=True, nogil=True)
def count_rows(
    stream: NDArray[np.uint32],
    found: NDArray[np.uint32],
    starts: NDArray[np.int64],
    weights: NDArray[np.int64],
    sides: tuple[bool, bool],
    begin: int,
    row: tuple[Any, ...],
    columns: NDArray[np.uint32],
    sums: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> int:
    """Count whole rows, from ``begin`` on, as long as the output surely takes another.

    Args:
        stream: as ``lay_out`` makes it.
        found: (N,) and
        starts: (V + 1,) as ``places`` makes them.
        weights: (W + 1,) by distance; the first is not used.
        sides: whether to look to the left, and to the right.
        begin: the first row.
        row: the accumulator.
        columns: at least V, takes the columns of all rows, and
        sums: their sums.
        ends: (V,) takes where each row ends in them.

    Returns:
        the row after the last.
    """
    totals, touched = row[0], row[1]
    n_words = len(starts) - 1
    wall = np.uint32(n_words)
    left, right = sides
    at, word = 0, begin
    while word < n_words and at + n_words <= len(columns):
        n = 0
        for t in range(starts[word], starts[word + 1]):
            place = np.uint64(found[t])
            if left:
                for d in range(1, len(weights)):
                    c = stream[place - np.uint64(d)]
                    if c == wall:
                        break
                    old = totals[c]
                    touched[n] = c
                    n += old == 0
                    totals[c] = old + weights[d]
            if right:
                for d in range(1, len(weights)):
                    c = stream[place + np.uint64(d)]
                    if c == wall:
                        break
                    old = totals[c]
                    touched[n] = c
                    n += old == 0
                    totals[c] = old + weights[d]
        at = empty_row(row, n, columns, sums, at)
        ends[word] = at
        word += 1
    return word


@njit(cache=True, nogil=True)
def put(out: NDArray[np.uint8], at: int, value: int) -> int:
    """Write a number, seven bits a byte, the lowest first; returns where it ends."""
    rest = np.uint64(value)
    while rest >= np.uint64(128):
        out[at] = np.uint8(rest & np.uint64(127) | np.uint64(128))
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@njit(cache=True, nogil=True)
def get(data: NDArray[np.uint8], at: int) -> tuple[np.uint64, int]:
    """The number that begins at a byte, and where it ends."""
    byte = data[at]
    value = np.uint64(byte & 127)
    shift = np.uint64(7)
    while byte >= 128:
        at += 1
        byte = data[at]
        value |= np.uint64(byte & 127) << shift
        shift += np.uint64(7)
    return value, at + 1


@njit(cache=True, nogil=True)
def encode_rows(
    columns: NDArray[np.uint32],
    sums: NDArray[np.int64],
    ends: NDArray[np.int64],
    out: NDArray[np.uint8],
    sizes: NDArray[np.uint32],
) -> int:
    """Write rows as bytes.

    Args:
        columns: (M,) rising within a row.
        sums: (M,) their sums.
        ends: (R,) where each row ends in them.
        out: takes the bytes, ``LONGEST`` an entry at most.
        sizes: (R,) takes the number of bytes of each row.

    Returns:
        the number of bytes.
    """
    at = i = 0
    for r in range(len(ends)):
        began, last = at, np.uint32(0)
        while i < ends[r]:
            at = put(out, at, columns[i] - last)
            at = put(out, at, sums[i])
            last = columns[i]
            i += 1
        sizes[r] = at - began
    return at


@njit(cache=True, nogil=True)
def gather(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    rows: NDArray[np.int32],
    out: NDArray[np.uint8],
    at: int,
) -> int:
    """Copy the bytes of some rows of a table, one after the other; returns where they end."""
    for row in rows:
        size = starts[row + 1] - starts[row]
        out[at : at + size] = data[starts[row] : starts[row + 1]]
        at += size
    return at


@njit(cache=True, nogil=True)
def add_rows(
    data: NDArray[np.uint8],
    pieces: tuple[Any, ...],
    names: NDArray[np.uint32],
    upper: bool,
    begin: int,
    row: tuple[Any, ...],
    columns: NDArray[np.uint32],
    sums: NDArray[np.int64],
    words: NDArray[np.int32],
    ends: NDArray[np.int64],
) -> tuple[int, int, bool]:
    """Add up encoded rows of the same word, as long as the output surely takes another row.

    Args:
        data: encoded rows.
        pieces: of each row its new word, rising; its first byte; its last; and where in ``names``
            the columns of its table begin.
        names: the new id of every column of every table; V where it is not wanted.
        upper: leave out what stands before the diagonal.
        begin: the first piece.
        row: the accumulator.
        columns: at least V, takes the columns, and
        sums: their sums.
        words: takes the word of every row, and
        ends: where it ends.

    Returns:
        the piece after the last; the number of rows, an empty one is left out; and whether a sum
        was too large for 64 bits.
    """
    totals, touched = row[0], row[1]
    word_of, first, last, base = pieces
    n_words = np.uint32(len(totals) - 1)
    at = n_rows = 0
    piece = begin
    signs = np.int64(0)
    while piece < len(word_of) and at + n_words <= len(columns):
        word = word_of[piece]
        least = np.uint32(word if upper else 0)
        n = 0
        totals[n_words] = 1  # never touched for the first time
        while piece < len(word_of) and word_of[piece] == word:
            byte = first[piece]
            old_column = np.uint64(base[piece])
            while byte < last[piece]:
                step, byte = get(data, byte)
                value, byte = get(data, byte)
                old_column += step
                c = names[old_column]
                c = c if c >= least else n_words
                old = totals[c]
                touched[n] = c
                n += old == 0
                new = old + np.int64(value)
                signs |= new
                totals[c] = new
            piece += 1
        totals[n_words] = 0
        before = at
        at = empty_row(row, n, columns, sums, at)
        if at > before:
            words[n_rows], ends[n_rows] = word, at
            n_rows += 1
    return piece, n_rows, bool(signs < 0)
