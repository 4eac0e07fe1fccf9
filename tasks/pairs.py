"""Sorted tables of pairs in bounded memory: counted from text, kept as bytes, added up.

A table is read and written a block at a time, rows in order, so nothing here grows with it. What
does grow is an accumulator of one row a thread and a few numbers for each row of each table.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.cooccurrence import (
    LONGEST,
    Row,
    add_rows,
    count_rows,
    encode_rows,
    gather,
    lay_out,
    places,
)
from models.kernels.ngram import frozen
from tasks.errors import InputError
from tasks.spool import Spool, in_order

_ENTRIES = 1 << 20
"""Entries of a block at most, besides those of one row; less of it with little memory."""


@dataclass(frozen=True, eq=False)
class Block:
    """Whole rows of a table.

    Attributes:
        words: (R,) int32 rising.
        ends: (R,) int64 where each ends in the others.
        columns: (M,) uint32, rising in a row.
        sums: (M,) int64.
    """

    words: NDArray[np.int32]
    ends: NDArray[np.int64]
    columns: NDArray[np.uint32]
    sums: NDArray[np.int64]

    def copy(self) -> Block:
        """The same in memory of its own."""
        return Block(self.words.copy(), self.ends.copy(), self.columns.copy(), self.sums.copy())


@dataclass(frozen=True, eq=False)
class Table:
    """An encoded table, with a new name for each of its words.

    Attributes:
        data: the bytes of all rows.
        starts: (T + 1,) int64 where each begins.
        names: (T,) uint32 the new word of each; V where it is not wanted.
        rows: (K,) int32 the wanted rows that are not empty, by their new word.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    names: NDArray[np.uint32]
    rows: NDArray[np.int32]

    @staticmethod
    def of(arrays: dict[str, NDArray[Any]], names: NDArray[np.uint32], n_words: int) -> Table:
        """The table in the arrays of a part."""
        sizes = np.asarray(arrays["sizes"])
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        wanted = np.flatnonzero((names < n_words) & (sizes > 0)).astype(np.int32)
        rows = wanted[np.argsort(names[wanted], kind="stable")]
        return Table(arrays["data"], starts, names, rows)

    def copy(self, begin: int, end: int, out: NDArray[np.uint8], at: int) -> int:
        """Copy the bytes of ``rows[begin:end]``, and give back the memory of the mapped file."""
        at = gather(frozen(self.data), self.starts, self.rows[begin:end], out, at)
        mapped: Any = self.data.base
        if isinstance(mapped, mmap.mmap):
            mapped.madvise(mmap.MADV_DONTNEED)
        return at


def count_text(
    ids: NDArray[np.int32],
    edges: NDArray[np.int64],
    ranks: NDArray[np.uint32],
    weights: NDArray[np.int64],
    sides: tuple[bool, bool],
    memory: int,
) -> Iterator[Block]:
    """The table of a text, a block at a time; the arrays of a block are overwritten by the next.

    Args:
        ids: tokens.
        edges: (S + 1,) where segments begin and end in ``ids``.
        ranks: (V,) row and column of each id.
        weights: (W + 1,) by distance.
        sides: whether to look to the left, and to the right.
        memory: bytes for blocks.
    """
    stream = lay_out(frozen(ids), frozen(edges), ranks)
    found, starts = places(stream, len(ranks))
    columns, sums = _buffers(len(ranks), memory)
    ends = np.zeros(len(ranks), np.int64)
    row, begin = Row.of(len(ranks)), 0
    while begin < len(ranks):
        end = count_rows(
            stream, found, starts, weights, sides, begin, row.arrays, columns, sums, ends
        )
        n = int(ends[end - 1])
        yield Block(np.arange(begin, end, dtype=np.int32), ends[begin:end], columns[:n], sums[:n])
        begin = end


def write_rows(out: Spool, blocks: Iterator[Block], n_words: int) -> int:
    """Append a table as bytes, ``data`` and ``sizes``; returns the number of entries."""
    sizes, entries, buffer = np.zeros(n_words, np.uint32), 0, np.empty(0, np.uint8)
    for block in blocks:
        if len(buffer) < LONGEST * len(block.columns):
            buffer = np.empty(LONGEST * len(block.columns), np.uint8)
        here = np.empty(len(block.words), np.uint32)
        n_bytes = encode_rows(block.columns, block.sums, block.ends, buffer, here)
        sizes[block.words] = here
        out.append(data=buffer[:n_bytes])
        entries += len(block.columns)
    out.append(sizes=sizes)
    return entries


def add_tables(
    tables: Sequence[Table],
    n_words: int,
    *,
    upper: bool,
    memory: int,
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Block]:
    """The sum of tables under the new names of their words, a block at a time in order.

    Args:
        tables: any number.
        n_words: V.
        upper: leave out what stands before the diagonal.
        memory: bytes for blocks.
        threads: blocks that are worked on at a time.
        progress: is told words done, of all.

    Raises:
        InputError: a sum does not fit in 64 bits.
    """
    if n_words == 0 or not tables:
        return
    names = np.concatenate([table.names for table in tables])
    bases = np.cumsum([0, *(len(table.names) for table in tables)])
    loads = np.zeros(n_words, np.int64)
    for table in tables:
        sizes = np.diff(table.starts)[table.rows]
        loads += np.bincount(table.names[table.rows], sizes, n_words).astype(np.int64)
    # An entry is two bytes at least, and 12 when it is read: seven times the bytes in all.
    limit = max(1 << 16, min(1 << 24, memory // (16 * (threads + 1))))
    spans = _spans(loads, limit)
    spare = [Row.of(n_words) for _ in range(threads)]

    def work(span: tuple[int, int]) -> list[Block]:
        row = spare.pop()
        try:
            pieces, data = _gathered(tables, bases, span, int(loads[slice(*span)].sum()))
            return _added(pieces, data, names, upper, n_words, row, memory // (threads + 1))
        finally:
            spare.append(row)

    for (_, end), blocks in zip(spans, in_order(work, spans, threads), strict=True):
        yield from blocks
        progress(end, n_words)


def _buffers(n_words: int, memory: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    n = n_words + max(1 << 10, min(_ENTRIES, memory // 128))
    return np.empty(n, np.uint32), np.empty(n, np.int64)


def _spans(loads: NDArray[np.int64], limit: int) -> list[tuple[int, int]]:
    """Stretches of words with ``limit`` bytes at most, or one word."""
    ends = np.cumsum(loads)
    spans, begin = [], 0
    while begin < len(loads):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + limit, side="right")))
        spans.append((begin, end))
        begin = end
    return spans


def _gathered(
    tables: Sequence[Table], bases: NDArray[np.int64], span: tuple[int, int], n_bytes: int
) -> tuple[tuple[NDArray[Any], ...], NDArray[np.uint8]]:
    """The rows of some words out of all tables, as the kernel takes them, and their bytes."""
    data, at = np.empty(n_bytes, np.uint8), 0
    words, firsts, sizes, base = [], [], [], []
    for table, start in zip(tables, bases, strict=False):
        new = table.names[table.rows]
        begin, end = np.searchsorted(new, span)
        rows = table.rows[begin:end]
        lengths = table.starts[rows + 1] - table.starts[rows]
        words.append(new[begin:end])
        firsts.append(at + np.cumsum(lengths) - lengths)
        sizes.append(lengths)
        base.append(np.full(len(rows), start, np.int64))
        at = table.copy(int(begin), int(end), data, at)
    word, first, size, names = map(np.concatenate, (words, firsts, sizes, base))
    order = np.argsort(word, kind="stable")
    pieces = (
        word[order].astype(np.int32),
        first[order],
        (first + size)[order],
        names[order],
    )
    return pieces, data


def _added(
    pieces: tuple[NDArray[Any], ...],
    data: NDArray[np.uint8],
    names: NDArray[np.uint32],
    upper: bool,
    n_words: int,
    row: Row,
    memory: int,
) -> list[Block]:
    columns, sums = _buffers(n_words, memory)
    words, ends = np.empty(len(pieces[0]), np.int32), np.empty(len(pieces[0]), np.int64)
    blocks, begin = [], 0
    while begin < len(pieces[0]):
        begin, rows, overflow = add_rows(
            data, pieces, names, upper, begin, row.arrays, columns, sums, words, ends
        )
        if overflow:
            raise InputError(
                "a co-occurrence count does not fit in 64 bits",
                remedy="take a smaller window, or flat weights",
            )
        if rows:
            n = int(ends[rows - 1])
            block = Block(words[:rows], ends[:rows], columns[:n], sums[:n])
            blocks.append(block.copy())
    return blocks
