"""The inner loop of GloVe; ``glove_reference`` says the same plainly.

A stored pair ``(i, j)`` of a symmetric table stands for two records, ``(i, j)`` and ``(j, i)``. All
that is known of a word lies in one stretch of memory: its vector, its context vector and the
squared gradients of both. So a pair touches two stretches, and both its records are trained
together: they share no parameter, and the weight and logarithm of the pair. Biases are columns of
the vectors, each beside a constant 1 of the other side, so that one product gives
``w . c + b + b'``.

Pairs come in a random order that favours the caches: they are shuffled and cut into batches, and a
batch is dealt into tiles of ``TILE`` columns, whose words stay in the second-level cache while the
rows come past, fetched ahead. All of it is drawn anew for every sweep.

The inverse root of AdaGrad is the integer estimate of the exponent (Lomont 2003), then one step of
Householder's third-order iteration and one of Newton's, which is as good as float32 has it; the
processor's own square root and division take more than twice as long.

Lock-free threads (Niu et al. 2011, "Hogwild!"); one thread gives the same bytes every time.

Shapes: ``V`` vocabulary, ``P`` padded width, ``N`` pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.kernels.lanes import (
    INT64,
    INTEGERS,
    LANES,
    VECTOR,
    broadcast,
    columns,
    compiled,
    fetch,
    fma,
    load,
    splat,
    store,
    total,
)
from models.text import Pairs

Matrix = NDArray[np.float32]
TILE = 256
"""Columns of a tile: with vectors of 100, half a megabyte."""
PER_TILE = 1 << 10
"""Pairs of a batch for each tile, on average. Fewer cost speed, more cost convergence: a chunk
in one batch took 1.3 times as little time, and in the third epoch its loss was 16 % higher."""

# --- one pair, in LLVM vectors --------------------------------------------------------------


def _inverse_root(builder: Any, x: Any) -> Any:
    """``1 / sqrt(x)`` of positive numbers."""
    magic = ir.Constant(INTEGERS, [0x5F3759DF] * LANES)
    half = builder.lshr(builder.bitcast(x, INTEGERS), ir.Constant(INTEGERS, [1] * LANES))
    y = builder.bitcast(builder.sub(magic, half), VECTOR)
    # With e = 1 - x y y: y (1 + e / 2 + 3 e e / 8), then y (1 + e / 2).
    e = fma(builder, builder.fneg(builder.fmul(x, y)), y, splat(1.0))
    y = fma(builder, builder.fmul(y, e), fma(builder, e, splat(0.375), splat(0.5)), y)
    e = fma(builder, builder.fneg(builder.fmul(x, y)), y, splat(1.0))
    return fma(builder, builder.fmul(y, e), splat(0.5), y)


def _move(builder: Any, row: Any, squares: Any, column: Any, x: Any, step: Any) -> None:
    """Take an AdaGrad step from ``x``, which was loaded from the row, and note its square."""
    square = load(builder, squares, column)
    moved = builder.fmul(step, _inverse_root(builder, square))
    store(builder, builder.fsub(x, moved), row, column)
    store(builder, fma(builder, step, step, square), squares, column)


@intrinsic
def _train_pair(
    _: Any, table: Any, rates: Any, i: Any, j: Any, target: Any, weight: Any, back: Any
) -> Any:
    """Train on both records of a pair in place, give their summed loss.

    ``table`` is (V, 4 P); ``i`` and ``j`` are where the two words begin in it; ``rates`` is (2, P).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        base = array.data
        width = builder.udiv(builder.extract_value(array.shape, 1), INT64(4))
        rate = context.make_array(signature.args[1])(context, builder, args[1]).data
        rates_of = (rate, builder.gep(rate, [width]))

        def parts(place: Any) -> list[Any]:
            word = builder.gep(base, [place])
            return [builder.gep(word, [builder.mul(width, INT64(k))]) for k in range(4)]

        one, two = parts(args[2]), parts(args[3])
        records = ((one, two, args[5]), (two, one, args[6]))
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in records]
        for each in sums:
            builder.store(splat(0.0), each)
        with columns(builder, width) as (column, _):
            for each, (row, other, _w) in zip(sums, records, strict=True):
                x, y = load(builder, row[0], column), load(builder, other[2], column)
                builder.store(fma(builder, x, y, builder.load(each)), each)
        loss, slopes = None, []
        for each, (_r, _o, record_weight) in zip(sums, records, strict=True):
            difference = builder.fsub(total(builder, builder.load(each)), args[4])
            slope = builder.fmul(record_weight, difference)
            cost = builder.fmul(slope, difference)
            loss = cost if loss is None else builder.fadd(loss, cost)
            slopes.append(broadcast(builder, slope))
        with columns(builder, width) as (column, _):
            by_side = [load(builder, each, column) for each in rates_of]
            for slope, (row, other, _w) in zip(slopes, records, strict=True):
                x, y = load(builder, row[0], column), load(builder, other[2], column)
                step = builder.fmul(builder.fmul(slope, y), by_side[0])
                _move(builder, row[0], row[1], column, x, step)
                step = builder.fmul(builder.fmul(slope, x), by_side[1])
                _move(builder, other[2], other[3], column, y, step)
        return loss

    return types.float32(table, rates, i, j, target, weight, back), generate


# --- the order of the pairs -----------------------------------------------------------------


@compiled
def _next(state: Any) -> Any:
    """The state of a splitmix64 generator (Steele et al. 2014), and its number."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    x = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, x ^ (x >> np.uint64(31))


@compiled
def _shuffle(items: Any, state: Any) -> Any:
    """Fisher and Yates's shuffle, in place."""
    for i in range(len(items) - 1, 0, -1):
        state, random = _next(state)
        j = np.int64(((random >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        items[i], items[j] = items[j], items[i]
    return state


@compiled
def order(columns: Any, n_words: Any, tile: Any, per_tile: Any, seed: Any) -> Any:
    """(N,) int32: all pairs in random order, but for each batch by tiles, which come at random."""
    tiles = np.arange((n_words + tile - 1) // tile)
    batch = len(tiles) * per_tile
    ends = np.empty(len(tiles) + 1, np.int64)
    shuffled = np.arange(len(columns)).astype(np.int32)
    state = _shuffle(shuffled, np.uint64(seed))
    ordered = np.empty(len(columns), np.int32)
    for first in range(0, len(columns), batch):
        drawn = shuffled[first : first + batch]
        state = _shuffle(tiles, state)
        ends[:] = 0
        ends[0] = first
        for k in drawn:
            ends[tiles[columns[k] // tile] + 1] += 1
        for n in range(len(tiles)):
            ends[n + 1] += ends[n]
        for k in drawn:
            place = tiles[columns[k] // tile]
            ordered[ends[place]] = k
            ends[place] += 1
    return ordered


# --- the loop -------------------------------------------------------------------------------


@compiled
def _train(
    table: Any,
    rates: Any,
    rows: Any,
    columns: Any,
    weights: Any,
    ordered: Any,
    symmetric: Any,
    x_max: Any,
    alpha: Any,
) -> Any:
    """Train on pairs in a given order: the number of records and their summed loss."""
    width, records, loss = table.shape[1], 0, 0.0
    for n in range(len(ordered)):
        if n + 1 < len(ordered):
            fetch(table, np.int64(rows[ordered[n + 1]]) * width)
        k = ordered[n]
        i, j = np.int64(rows[k]), np.int64(columns[k])
        target = math.log(weights[k])
        weight = np.float32(math.exp(alpha * min(0.0, target - math.log(x_max))))
        both = symmetric and i != j
        back = weight if both else np.float32(0)
        loss += _train_pair(table, rates, i * width, j * width, np.float32(target), weight, back)
        records += 2 if both else 1
    return records, loss


# --- one sweep ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tables:
    """What a sweep works on; ``D`` is the width of the vectors.

    Attributes:
        memory: (V, 4 P), a row holds for its word, each in P columns: the vector, bias and a 1;
            their squared gradients; the context vector, a 1 and its bias; their squared gradients.
        dim: D.
    """

    memory: Matrix
    dim: int

    @staticmethod
    def of(arrays: Sequence[Matrix]) -> Tables:
        """The tables that hold copies of arrays in the order of ``arrays``."""
        n_words, dim = arrays[0].shape
        padded = -(-(dim + 2) // LANES) * LANES
        memory = np.zeros(n_words * 4 * padded + LANES, np.float32)
        skip = -memory.ctypes.data % 64 // 4
        tables = Tables(memory[skip : skip + n_words * 4 * padded].reshape(n_words, -1), dim)
        sides = tables.memory.reshape(n_words, 2, 2, padded)
        sides[:, :, 1] = 1
        sides[:, 0, 0, dim + 1] = sides[:, 1, 0, dim] = 1
        for mine, given in zip(tables.arrays(), arrays, strict=True):
            mine[:] = given
        return tables

    def arrays(self) -> list[Matrix]:
        """Views of the vectors (V, D), biases (V,) and the squares of both, a side at a time."""
        sides = self.memory.reshape(len(self.memory), 2, 2, -1)
        return [
            array
            for side in (0, 1)
            for kind in (0, 1)
            for array in (sides[:, side, kind, : self.dim], sides[:, side, kind, self.dim + side])
        ]

    def rates(self, rate: float) -> Matrix:
        """(2, P) of each side by column: biases learn at rate 1, and a constant does not."""
        rates = np.zeros((2, self.memory.shape[1] // 4), np.float32)
        rates[:, : self.dim] = rate
        rates[0, self.dim] = rates[1, self.dim + 1] = 1
        return rates


@dataclass(frozen=True, eq=False)
class Tally:
    """What a sweep did: records trained on, and their summed loss."""

    records: int
    loss: float


def sweep(
    tables: Tables,
    pairs: Pairs,
    *,
    x_max: float,
    alpha: float,
    rate: float,
    seed: int,
    threads: int,
    tile: int = TILE,
    per_tile: int = PER_TILE,
) -> Tally:
    """Train on N pairs, in place.

    Args:
        tables: what is trained.
        pairs: words below V.
        x_max: the weight from which on a record counts fully.
        alpha: the power of the weight below that.
        rate: the learning rate.
        seed: seeds the order.
        threads: at work at once, each on its part of the pairs.
        tile: columns that are worked on together.
        per_tile: pairs of a batch for each tile, on average.
    """
    rates = tables.rates(rate)
    seeds = np.random.SeedSequence(seed).generate_state(threads, np.uint64)

    def train(part: int, low: int, high: int) -> tuple[int, float]:
        rows, columns = pairs.rows[low:high], pairs.columns[low:high]
        ordered = order(columns, len(tables.memory), tile, per_tile, seeds[part])
        tally: tuple[int, float] = _train(
            tables.memory, rates, rows, columns, pairs.weights[low:high], ordered,
            pairs.symmetric, x_max, alpha,
        )  # fmt: skip
        return tally

    ends = np.linspace(0, len(pairs), threads + 1).astype(np.int64).tolist()
    with ThreadPoolExecutor(threads) as pool:
        tallies = list(pool.map(train, range(threads), ends[:-1], ends[1:]))
    return Tally(sum(n for n, _ in tallies), math.fsum(loss for _, loss in tallies))
