"""Copies of the busiest rows of a table, one for each thread, brought together now and then.

Threads that write to one row wait for each other: a cache line that another core has written comes
late. The few rows that most windows touch cause nearly all of that, those of frequent words, or of
the nodes near the root of a Huffman tree. So each thread trains a copy of its own of these, and now
and then what it has added joins what the others have. A kernel names a row by the distance of its
first element from the table's, and the copy of a row is only another distance (``place``), so its
loops stay as they are. The rows that are busiest are brought together most often, as
``tasks.training.exchange`` does between processes, and by the same rule: what two threads added is
summed as far as it differs and averaged as far as it is the same (Maleki et al. 2021,
arXiv:2006.02924), for a frequent row is moved to the same place by each of them.

Numba's cache compares the time of the file that holds the compiled function, not of this one: after
a change here, touch the kernels that use it.

Shapes: ``V`` rows of a table, ``P`` padded width, ``K`` busy rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.kernels.lanes import (
    FLOAT,
    Matrix,
    aligned,
    broadcast,
    columns,
    compiled,
    fma,
    load,
    splat,
    store,
    total,
)

BUSY = 1024
"""Rows of a table that each thread copies. Two threads on 2 cores then ran, between the moments when
rows are brought together, at 95 to 102 % of the rate of two with tables of their own; with no copies
at 92 % (skip-gram, d = 100), 85 % (d = 300), 74 % (CBOW) and 51 % (hierarchical softmax). Copies of
4,096 rows brought no more."""
FIRST = 64
"""Rows that are brought together every time; twice as many every second time, and so on."""

Own = tuple[int, int, int]
"""Rows ``first <= row < last`` are the thread's own; they begin ``away`` elements further on."""


@compiled
def place(row: Any, width: Any, own: Any) -> Any:
    """The distance of a row, or of the thread's copy of it, from the first element of a table."""
    first, last, away = own
    at = np.int64(row) * width
    return at + away if first <= row < last else at


@intrinsic
def _join(_: Any, table: Any, own: Any, base: Any, theirs: Any, ours: Any) -> Any:
    """Bring one row together: all three become the base and what both have added to it.

    ``theirs`` is the place of the row in the table, ``ours`` that in ``own`` and ``base``.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:3], args[:3], strict=True)
        ]
        width = builder.extract_value(arrays[0].shape, 1)
        at = args[3], args[4], args[4]
        rows = [builder.gep(array.data, [place]) for array, place in zip(arrays, at, strict=True)]

        def added(column: Any) -> tuple[Any, Any, Any]:
            shared, ours, before = (load(builder, row, column) for row in rows)
            return before, builder.fsub(shared, before), builder.fsub(ours, before)

        squares = cgutils.alloca_once_value(builder, splat(0.0))
        common = cgutils.alloca_once_value(builder, splat(0.0))
        with columns(builder, width) as (column, _):
            _, a, b = added(column)
            so_far = fma(builder, a, a, builder.load(squares))
            builder.store(fma(builder, b, b, so_far), squares)
            builder.store(fma(builder, a, b, builder.load(common)), common)
        # (|a|^2 + |b|^2) / |a + b|^2, and 1 where that is more or is nothing by nothing.
        square = total(builder, builder.load(squares))
        twice = builder.fmul(total(builder, builder.load(common)), ir.Constant(FLOAT, 2.0))
        ratio = builder.fdiv(square, builder.fadd(square, twice))
        agree = builder.fcmp_ordered(">", twice, ir.Constant(FLOAT, 0.0))
        share = broadcast(builder, builder.select(agree, ratio, ir.Constant(FLOAT, 1.0)))
        with columns(builder, width) as (column, _):
            before, a, b = added(column)
            joined = fma(builder, share, builder.fadd(a, b), before)
            for row in rows:
                store(builder, joined, row, column)
        return context.get_dummy_value()

    return types.void(table, own, base, theirs, ours), generate


@compiled
def _join_all(table: Any, own: Any, base: Any, rows: Any, first: Any, last: Any) -> None:
    width = table.shape[1]
    for k in range(first, last):
        _join(table, own, base, rows[k] * width, k * width)


@dataclass(frozen=True, eq=False)
class Shared:
    """A table that threads share but for its busiest rows.

    Attributes:
        table: (V, P) ``aligned``.
        busy: (K,) int64 rows.
        rising: whether the busiest of them is the last, not the first.
    """

    table: Matrix
    busy: NDArray[np.int64]
    rising: bool = False

    @staticmethod
    def first(table: Matrix) -> Shared:
        """A table whose first rows are its busiest."""
        return Shared(table, np.arange(min(BUSY, len(table))))

    @staticmethod
    def last(table: Matrix) -> Shared:
        """A table whose last rows are its busiest."""
        return Shared(table, np.arange(max(0, len(table) - BUSY), len(table)), rising=True)

    def alone(self) -> Shared:
        """The table without busy rows, for a thread that shares it with none."""
        return Shared(self.table, self.busy[:0])


class Replica:
    """A thread's copies of the busy rows of a table."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._own, self._base = (aligned(shared.table[shared.busy]) for _ in range(2))

    @property
    def size(self) -> int:
        """K."""
        return len(self._own)

    @property
    def away(self) -> int:
        """Elements between the first of the table and the first of the copies."""
        return (self._own.ctypes.data - self._shared.table.ctypes.data) // self._own.itemsize

    @property
    def own(self) -> Own:
        """What ``place`` asks for, where the busy rows are neighbours in the table."""
        busy = self._shared.busy
        first = int(busy[0]) if len(busy) else 0
        return first, first + len(busy), self.away - first * self._own.shape[1]

    def join(self, number: int | None = None) -> None:
        """Bring rows together the ``number``-th time, from 1, or the last time, which takes all."""
        k = len(self._shared.busy)
        n = k if number is None else min(k, FIRST * (number & -number))
        first, last = (k - n, k) if self._shared.rising else (0, n)
        _join_all(self._shared.table, self._own, self._base, self._shared.busy, first, last)
