"""Sparse matrices of pointwise mutual information, and their products with dense ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.lanes import compiled
from models.text import CooccurrenceCounts

Dense = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sparse:
    """A (V, V) matrix of which the entries of row ``i`` are ``starts[i]`` to ``starts[i + 1]``.

    Attributes:
        starts: (V + 1,) int64.
        columns: (M,) int32.
        values: (M,) float32.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Dense

    def times(self, dense: Dense) -> Dense:
        """(V, K) the product with a (V, K) matrix."""
        out = np.zeros_like(dense)
        _times(self.starts, self.columns, self.values, dense, out)
        return out

    def transposed_times(self, dense: Dense) -> Dense:
        """(V, K) the product of the transpose with a (V, K) matrix."""
        out = np.zeros_like(dense)
        _transposed_times(self.starts, self.columns, self.values, dense, out)
        return out


def positive_pmi(table: CooccurrenceCounts, *, smoothing: float, shift: float) -> Sparse:
    """``max(0, ln(p(i, j) / (p(i) q(j))) - shift)``, ``q`` in proportion to ``p ** smoothing``.

    The table is read three times, a part at a time; only what is above 0 is kept, 8 bytes an entry.
    """
    rows, columns = np.zeros(table.n_words), np.zeros(table.n_words)
    for row, column, weights in table.entries(whole=True):
        rows += np.bincount(row, weights, table.n_words)
        columns += np.bincount(column, weights, table.n_words)
    smooth = columns**smoothing
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # of words without neighbours, which no entry asks for
        by_row, by_column = -np.log(rows), np.log(smooth.sum()) - np.log(smooth) - shift
    ends = np.zeros(table.n_words + 1, np.int64)
    for row, column, weights in table.entries(whole=True):
        _count(row, column, weights, by_row, by_column, ends)
    starts = np.cumsum(ends)
    filled, held = starts[:-1].copy(), int(starts[-1])
    sparse = Sparse(starts, np.empty(held, np.int32), np.empty(held, np.float32))
    for row, column, weights in table.entries(whole=True):
        _fill(row, column, weights, by_row, by_column, filled, sparse.columns, sparse.values)
    return sparse


@compiled
def _count(rows: Any, columns: Any, weights: Any, by_row: Any, by_column: Any, counts: Any) -> None:
    for k in range(len(rows)):
        value = math.log(weights[k]) + by_row[rows[k]] + by_column[columns[k]]
        counts[rows[k] + 1] += int(value > 0)


@compiled
def _fill(
    rows: Any,
    columns: Any,
    weights: Any,
    by_row: Any,
    by_column: Any,
    filled: Any,
    out: Any,
    values: Any,
) -> None:
    for k in range(len(rows)):
        value = math.log(weights[k]) + by_row[rows[k]] + by_column[columns[k]]
        if value > 0:
            place = filled[rows[k]]
            out[place], values[place] = columns[k], value
            filled[rows[k]] += 1


@compiled
def _times(starts: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    for i in range(len(starts) - 1):
        for place in range(starts[i], starts[i + 1]):
            j, value = columns[place], values[place]
            for k in range(dense.shape[1]):
                out[i, k] += value * dense[j, k]


@compiled
def _transposed_times(starts: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    for i in range(len(starts) - 1):
        for place in range(starts[i], starts[i + 1]):
            j, value = columns[place], values[place]
            for k in range(dense.shape[1]):
                out[j, k] += value * dense[i, k]
