"""The nearest rows of a large table: a shortlist from 8-bit codes, judged by the rows themselves.

A unit row ``u`` is kept as integers ``z`` in -127..127 with a scale ``s`` and the length ``e`` of
what is lost, ``u = s z + r``, ``|r| = e``. A unit question ``q`` is rounded likewise, to some 15
bits: ``q = t y + f``. By the Cauchy-Schwarz inequality::

    |u . q  -  s t (z . y)|  <=  |r . q| + |s z . f|  <=  e + (1 + e) |f|

So every row has a floor and a ceiling under its cosine. The k-th highest floor is a cosine that k
rows reach; a row whose ceiling is lower cannot be among the k nearest. The others, some dozens to
hundreds of rows, are looked up in the table and judged by their true cosines: the answer is that of
a full scan, from a quarter of its memory traffic, and the table itself is hardly touched.

The product of 8-bit and 16-bit integers is written as LLVM vectors that compilers know to turn into
the multiply-and-add of integers (``vpmaddwd``) that processors have.

Shapes: ``V`` rows, ``D`` width, ``P`` padded width, ``Q`` questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.kernels.lanes import INT32, INT64, compiled
from models.tables import Rows
from models.vectors import Ids, Matrix, best, unit

STEP = 32
"""Products a time; rows of codes are padded to a multiple of it."""
HIGHEST = 127
CODE = np.dtype(np.int8)
SLACK = 2e-6
"""Added to every error, for the rounding of the 32-bit arithmetic of bounds and cosines."""
ROWS_AT_ONCE = 256
"""Rows that all questions of a block pass over before the next ones; they stay in the cache."""
QUERIES_AT_ONCE = 16
JUDGED_AT_ONCE = 4096
"""Rows of a shortlist that are read from the table at a time."""


# --- codes ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Codes:
    """A table of unit rows in 8 bits.

    Attributes:
        codes: (V, P) int8.
        scales: (V,) float32; NaN for a row that is not finite, which is never found.
        errors: (V,) float32, the length of what the codes miss.
    """

    codes: NDArray[np.int8]
    scales: Matrix
    errors: Matrix

    @staticmethod
    def of(rows: Rows, threads: int) -> Codes:
        """The codes of a table, which is read once."""
        size, width = rows.shape
        made = Codes(
            np.zeros((size, -(-width // STEP) * STEP), CODE),
            np.empty(size, np.float32),
            np.empty(size, np.float32),
        )
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda some: made._fill(rows, some), _parts(size, threads * 4)))
        for array in made.arrays().values():
            array.flags.writeable = False  # as where they are mapped: one kernel is enough
        return made

    def _fill(self, rows: Rows, part: slice) -> None:
        width = rows.shape[1]
        for first in range(part.start, part.stop, ROWS_AT_ONCE):
            some = slice(first, min(first + ROWS_AT_ONCE, part.stop))
            with np.errstate(invalid="ignore"):
                units = unit(rows.at(some))
                scales = np.abs(units).max(axis=1, initial=0) / np.float32(HIGHEST)
                scaled = units / np.where(scales == 0, 1, scales)[:, None]
            rounded = np.rint(np.nan_to_num(scaled))
            self.codes[some, :width] = rounded
            rounded *= scales[:, None]
            units -= rounded
            self.scales[some] = np.where(np.isfinite(scales), scales, np.nan)
            self.errors[some] = np.sqrt(np.einsum("nd,nd->n", units, units)) * (1 + 1e-5) + SLACK

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """By the names of the attributes; ``Codes(**arrays)`` is the same again."""
        return {"codes": self.codes, "scales": self.scales, "errors": self.errors}


def _parts(size: int, n: int) -> list[slice]:
    ends = np.linspace(0, size, min(n, max(1, size)) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


# --- search ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shortlist:
    """A ``models.word_vectors.Search`` that answers as a full scan would.

    Attributes:
        rows: the table.
        codes: of its rows.
        threads: at work at once.
    """

    rows: Rows
    codes: Codes
    threads: int = 1

    def __call__(self, queries: Matrix, k: int, among: int) -> list[tuple[Ids, Matrix]]:
        """See ``models.word_vectors.Search``."""
        found: list[tuple[Ids, Matrix]] = []
        for first in range(0, len(queries), QUERIES_AT_ONCE):
            some = queries[first : first + QUERIES_AT_ONCE]
            lists = self._shortlists(some, min(k, among), among)
            found += [self._judge(ids, query, k) for ids, query in zip(lists, some, strict=True)]
        return found

    def _shortlists(self, queries: Matrix, k: int, among: int) -> list[Ids]:
        """For each question the rows that may be among its k nearest, in order."""
        rounded, steps, misses = _rounded(queries, self.codes.codes.shape[1])
        arrays = (self.codes.codes, self.codes.scales, self.codes.errors, rounded, steps, misses)

        def look(part: slice) -> tuple[Any, Any, Any, Any]:
            shape = len(queries), part.stop - part.start
            ids, ceilings = np.empty(shape, np.int32), np.empty(shape, np.float32)
            floors = np.full((len(queries), k), -np.inf, np.float32)
            sizes = np.zeros(len(queries), np.int64)
            _look(*arrays, part.start, part.stop, ids, ceilings, floors, sizes)
            return ids, ceilings, floors, sizes

        parts = _parts(among, self.threads)
        if len(parts) == 1:
            looks = [look(parts[0])]
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                looks = list(pool.map(look, parts))
        lists = []
        for q in range(len(queries)):
            floors = np.concatenate([floors[q] for _, _, floors, _ in looks])
            floor = np.partition(floors, len(floors) - k)[len(floors) - k]
            lists.append(
                np.concatenate([i[q, : n[q]][c[q, : n[q]] >= floor] for i, c, _, n in looks])
            )
        return lists

    def _judge(self, ids: Ids, query: Matrix, k: int) -> tuple[Ids, Matrix]:
        """The k of some rows that are nearest, by their own numbers."""
        cosines = np.empty(len(ids), np.float32)
        for first in range(0, len(ids), JUDGED_AT_ONCE):
            some = slice(first, first + JUDGED_AT_ONCE)
            cosines[some] = unit(self.rows.at(ids[some])) @ query
        places, scores = best(cosines, min(k, len(ids)))
        return ids[places].astype(np.int64), scores


def _rounded(queries: Matrix, padded: int) -> tuple[NDArray[np.int16], Matrix, Matrix]:
    """(Q, P) integers for unit rows, their (Q,) scales, and the lengths of what they miss.

    They are as large as they can be without a sum of products that leaves 32 bits.
    """
    highest = min(2**15 - 1, (2**31 - 1) // (HIGHEST * padded))
    scales = np.abs(queries).max(axis=1, initial=0).astype(np.float64) / highest
    integers = np.rint(queries / np.where(scales == 0, 1, scales)[:, None])
    misses = np.sqrt(((queries - integers * scales[:, None]) ** 2).sum(axis=1))
    rounded = np.zeros((len(queries), padded), np.int16)
    rounded[:, : queries.shape[1]] = integers
    return rounded, scales.astype(np.float32), misses.astype(np.float32)


@compiled
def _look(  # type: ignore[no-untyped-def]
    codes, scales, errors, queries, steps, misses, first, last, ids, ceilings, floors, sizes
):
    """Note every row whose ceiling reaches the k-th highest floor that has been seen so far.

    ``floors`` (Q, k) are heaps with the lowest first.
    """
    k = floors.shape[1]
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        for q in range(len(queries)):
            n, lowest, step, miss = sizes[q], floors[q, 0], steps[q], misses[q]
            for row in range(begin, end):
                near = np.float32(_product(codes, row, queries, q)) * (scales[row] * step)
                error = errors[row] + (np.float32(1) + errors[row]) * miss
                if near + error >= lowest:
                    ids[q, n], ceilings[q, n] = row, near + error
                    n += 1
                    if near - error > lowest:
                        _replace_lowest(floors[q], k, near - error)
                        lowest = floors[q, 0]
            sizes[q] = n


@compiled
def _replace_lowest(heap, size, value):  # type: ignore[no-untyped-def]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@intrinsic
def _product(_: Any, codes: Any, row: Any, queries: Any, query: Any) -> Any:
    """The product of a row of int8 and a row of int16, whose width is a multiple of ``STEP``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        left = context.make_array(signature.args[0])(context, builder, args[0])
        right = context.make_array(signature.args[2])(context, builder, args[2])
        width = builder.extract_value(left.shape, 1)
        a = builder.gep(left.data, [builder.mul(args[1], width)])
        b = builder.gep(right.data, [builder.mul(args[3], width)])
        wide = ir.VectorType(INT32, STEP)
        total = cgutils.alloca_once_value(builder, ir.Constant(wide, None))
        with cgutils.for_range_slice(builder, INT64(0), width, INT64(STEP)) as (column, _):
            factors = [
                builder.sext(_vector(builder, builder.gep(place, [column]), bits), wide)
                for place, bits in ((a, 8), (b, 16))
            ]
            builder.store(builder.add(builder.load(total), builder.mul(*factors)), total)
        kind = ir.FunctionType(INT32, [wide])
        add = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.vector.reduce.add.v{STEP}i32"
        )
        return builder.call(add, [builder.load(total)])

    return types.int32(codes, row, queries, query), generate


def _vector(builder: Any, place: Any, bits: int) -> Any:
    kind = ir.VectorType(ir.IntType(bits), STEP)
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=bits // 8)
