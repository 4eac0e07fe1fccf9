"""Tables of n-grams added up in bounded memory, under other ids than they were counted in.

Tables are in suffix order, so the n-grams that end in the same words stand together in each of
them. Renaming changes the order of the words but not who stands together: the table under new ids
is put together word by word, from the stretches of all tables that end in it; where those are too
many, from the stretches that end in two words, and so on ("most significant digit first").
Nothing is merged and nothing is written twice.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.ngram import add_equal, frozen, gather_rows, sort_rows, splits
from tasks.spool import Spool, in_order


@dataclass(frozen=True, eq=False)
class Table:
    """Counted n-grams and the new ids of their words.

    Attributes:
        ngrams: (M, order) int32 in suffix order, usually memory-mapped.
        counts: (M,) int64.
        names: int32, by id.
    """

    ngrams: NDArray[np.int32]
    counts: NDArray[np.int64]
    names: NDArray[np.int32]

    def let_go(self) -> None:
        """Give back the memory of the mapped file; it is read again when it is needed."""
        for array in (self.ngrams, self.counts):
            mapped: Any = array.base
            if isinstance(mapped, mmap.mmap):
                mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Rows of tables: stretch ``s`` is rows ``begins[s]`` to ``ends[s]`` of ``tables[s]``."""

    tables: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The rows of each."""
        return self.ends - self.begins

    def __getitem__(self, which: slice | NDArray[Any]) -> Stretches:
        return Stretches(self.tables[which], self.begins[which], self.ends[which])


def add_up(
    out: Spool, tables: Sequence[Table], n_ids: int, *, memory: int, threads: int = 1
) -> tuple[int, int]:
    """Append the sum of tables, ``ngrams`` and ``counts``, in suffix order under the new ids.

    Args:
        out: takes it.
        tables: at least one; all of one order.
        n_ids: new ids are smaller than this.
        memory: bytes for rows.
        threads: that sort.

    Returns:
        the number of n-grams, and the sum of their counts.
    """
    order = tables[0].ngrams.shape[1]
    # Each row is there twice while it is sorted, with its count and its place.
    limit = max(1 << 10, min(1 << 19, memory // (threads * (8 * order + 32))))
    whole = Stretches(
        np.arange(len(tables)),
        np.zeros(len(tables), np.int64),
        np.array([len(table.ngrams) for table in tables], np.int64),
    )
    whole = whole[whole.sizes > 0]

    def work(chosen: Stretches) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        ngrams, counts = _gathered(tables, chosen)
        rows = sort_rows(ngrams, n_ids)
        added: tuple[NDArray[np.int32], NDArray[np.int64]] = add_equal(ngrams, counts, rows)
        return added

    last, rows, total = np.zeros((0, order), np.int32), 0, 0
    pending = np.zeros(0, np.int64)
    for ngrams, counts in in_order(work, _chunks(tables, whole, order - 1, limit), threads):
        total += int(counts.sum())
        # Only n-grams that become one and the same can be too many for a chunk.
        if np.array_equal(last, ngrams[:1]):
            counts[0] += pending[0]
        else:
            out.append(ngrams=last, counts=pending)
            rows += len(last)
        out.append(ngrams=ngrams[:-1], counts=counts[:-1])
        rows += len(ngrams) - 1
        last, pending = ngrams[-1:], counts[-1:]
    out.append(ngrams=last, counts=pending)
    return rows + len(last), total


def _chunks(
    tables: Sequence[Table], stretches: Stretches, column: int, limit: int
) -> Iterator[Stretches]:
    """All rows in chunks that can be sorted by themselves, of ``limit`` rows or little more.

    Args:
        tables: the tables.
        stretches: of rows that are equal behind the column, under their new ids.
        column: to cut by, if they are too many.
        limit: rows.
    """
    if int(stretches.sizes.sum()) <= limit:
        if len(stretches.sizes):
            yield stretches
        return
    if column < 0:
        yield from _cut(stretches, limit)
        return
    finer, words = _finer(tables, stretches, column)
    order = np.argsort(words, kind="stable")
    finer, words = finer[order], words[order]
    edges = np.append(np.flatnonzero(np.diff(words, prepend=-1)), len(words))
    done = np.append(0, np.cumsum(finer.sizes))[edges]
    group = 0
    while group < len(edges) - 1:
        end = int(np.searchsorted(done, done[group] + limit, side="right")) - 1
        chosen = finer[edges[group] : edges[max(end, group + 1)]]
        if end > group:
            yield chosen
        else:
            yield from _chunks(tables, chosen, column - 1, limit)
        group = max(end, group + 1)


def _finer(
    tables: Sequence[Table], stretches: Stretches, column: int
) -> tuple[Stretches, NDArray[np.int32]]:
    """Stretches cut wherever the word in a column changes, and that word's new id for each."""
    found: list[tuple[NDArray[Any], ...]] = []
    for number in np.unique(stretches.tables):
        table, mine = tables[number], stretches[stretches.tables == number]
        words, begins, ends = splits(frozen(table.ngrams), mine.begins, mine.ends, column)
        found.append((np.full(len(words), number), begins, ends, table.names[words]))
        table.let_go()
    columns = [np.concatenate(each) for each in zip(*found, strict=True)]
    return Stretches(*columns[:3]), columns[3]


def _cut(stretches: Stretches, limit: int) -> Iterator[Stretches]:
    """The same rows, ``limit`` at a time."""
    for s, size in enumerate(stretches.sizes.tolist()):
        for offset in range(0, size, limit):
            begin = stretches.begins[s : s + 1] + offset
            end = np.minimum(begin + limit, stretches.ends[s])
            yield Stretches(stretches.tables[s : s + 1], begin, end)


def _gathered(
    tables: Sequence[Table], chosen: Stretches
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The rows of stretches under their new ids, and their counts."""
    n_rows, at = int(chosen.sizes.sum()), 0
    ngrams = np.empty((n_rows, tables[0].ngrams.shape[1]), np.int32)
    counts = np.empty(n_rows, np.int64)
    for number in np.unique(chosen.tables):
        table, mine = tables[number], chosen[chosen.tables == number]
        source = frozen(table.ngrams), frozen(table.counts)
        at = gather_rows(*source, (mine.begins, mine.ends), table.names, ngrams, counts, at)
        table.let_go()
    return ngrams, counts
