"""One hidden vector against many rows of a table, from which kernels of windows are put together.

All rows are padded to whole vectors of ``lanes``; a row is named by the place of its first element.
The hidden vector is a row of words, or the sum of several; so skip-gram is a group of one row after
the other, and CBOW one group of all rows of the window.

Numba's cache compares the time of the file that holds the compiled function, not of this one: after
a change here, touch the kernels that use it.

Shapes: ``P`` padded width, ``m`` rows of a group, ``R`` targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from models.kernels.lanes import (
    INT32,
    INT64,
    LANES,
    VECTOR,
    broadcast,
    columns,
    fma,
    load,
    sigmoid_and_loss,
    splat,
    store,
    total,
)

TOGETHER = (
    8  # targets whose products are summed in registers at once; 4 took CBOW 1.2 times as long
)


def _intrinsic(returns: Any, emit: Callable[..., Any]) -> Any:
    """What ``intrinsic`` wants, of a function of a builder, the width of a matrix, and LLVM values.

    Arrays come to it as pointers to their first element.
    """

    def typing(*arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values, width = [], None
            for kind, value in zip(signature.args, args, strict=True):
                if isinstance(kind, types.Array):
                    array = context.make_array(kind)(context, builder, value)
                    if kind.ndim == 2:
                        width = builder.extract_value(array.shape, 1)
                    value = array.data
                values.append(value)
            result = emit(builder, width, *values)
            return context.get_dummy_value() if result is None else result

        return returns(*arguments), generate

    return typing


def _row(builder: Any, table: Any, places: Any, k: Any) -> Any:
    return builder.gep(table, [builder.load(builder.gep(places, [k]))])


def _at(builder: Any, values: Any, k: Any) -> Any:
    """Value k of an array in all lanes."""
    return broadcast(builder, builder.load(builder.gep(values, [k])))


def totals(builder: Any, vectors: list[Any]) -> Any:
    """The sums of ``TOGETHER`` vectors, in the lanes of one.

    Two vectors become one with half the lanes for each, until one holds them all.
    """
    lanes = LANES
    while lanes > 1:
        halves = [range(start, start + lanes // 2) for start in range(0, 2 * LANES, lanes)]
        first = [lane for half in halves for lane in half]
        vectors = [
            _folded(builder, a, b, first, lanes // 2)
            for a, b in zip(vectors[::2], vectors[1::2] or vectors, strict=True)
        ]
        lanes //= 2
    return builder.shuffle_vector(vectors[0], vectors[0], _lanes(range(TOGETHER)))


def _folded(builder: Any, a: Any, b: Any, first: list[int], apart: int) -> Any:
    """Lanes of two vectors plus those that stand so far apart from them."""
    low = builder.shuffle_vector(a, b, _lanes(first))
    high = builder.shuffle_vector(a, b, _lanes(lane + apart for lane in first))
    return builder.fadd(low, high)


def _lanes(chosen: Iterable[int]) -> Any:
    numbers = list(chosen)
    return ir.Constant(ir.VectorType(INT32, len(numbers)), numbers)


@intrinsic
def gather(_: Any, table: Any, places: Any, first: Any, last: Any, scale: Any, hidden: Any) -> Any:
    """Make hidden (P,) scale times the sum of the rows ``places[first:last]``."""

    def emit(
        builder: Any,
        width: Any,
        table: Any,
        places: Any,
        first: Any,
        last: Any,
        scale: Any,
        to: Any,
    ) -> None:
        scales, sums = broadcast(builder, scale), cgutils.alloca_once(builder, VECTOR)
        with columns(builder, width) as (column, _):
            builder.store(splat(0.0), sums)
            with cgutils.for_range_slice(builder, first, last, INT64(1)) as (j, _):
                x = load(builder, _row(builder, table, places, j), column)
                builder.store(builder.fadd(builder.load(sums), x), sums)
            store(builder, builder.fmul(builder.load(sums), scales), to, column)

    return _intrinsic(types.void, emit)(table, places, first, last, scale, hidden)


@intrinsic
def scatter(_: Any, table: Any, places: Any, first: Any, last: Any, scale: Any, change: Any) -> Any:
    """Add scale times change (P,) to the rows ``places[first:last]``, one after the other."""

    def emit(
        builder: Any,
        width: Any,
        table: Any,
        places: Any,
        first: Any,
        last: Any,
        scale: Any,
        by: Any,
    ) -> None:
        scales = broadcast(builder, scale)
        with columns(builder, width) as (column, _):
            change = builder.fmul(load(builder, by, column), scales)
            with cgutils.for_range_slice(builder, first, last, INT64(1)) as (j, _):
                row = _row(builder, table, places, j)
                store(builder, builder.fadd(load(builder, row, column), change), row, column)

    return _intrinsic(types.void, emit)(table, places, first, last, scale, change)


@intrinsic
def products(_: Any, table: Any, places: Any, n: Any, hidden: Any, logits: Any) -> Any:
    """Make logits[k] the product of hidden and row ``places[k]``, for k below n.

    ``places`` and ``logits`` must be as long as n rounded up to a multiple of ``TOGETHER``, and the
    places after n must be places too; their products come out as well.
    """

    def emit(
        builder: Any, width: Any, table: Any, places: Any, n: Any, hidden: Any, logits: Any
    ) -> None:
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(TOGETHER)]
        with cgutils.for_range_slice(builder, INT64(0), n, INT64(TOGETHER)) as (k, _):
            at = [builder.add(k, INT64(i)) for i in range(TOGETHER)]
            rows = [_row(builder, table, places, each) for each in at]
            for each in sums:
                builder.store(splat(0.0), each)
            with columns(builder, width) as (column, _):
                h = load(builder, hidden, column)
                for each, row in zip(sums, rows, strict=True):
                    u = load(builder, row, column)
                    builder.store(fma(builder, h, u, builder.load(each)), each)
            summed = totals(builder, [builder.load(each) for each in sums])
            to = builder.bitcast(builder.gep(logits, [k]), summed.type.as_pointer())
            builder.store(summed, to, align=4)

    return _intrinsic(types.void, emit)(table, places, n, hidden, logits)


@intrinsic
def logistic(_: Any, logits: Any, signs: Any, offsets: Any, n: Any, rate: Any, steps: Any) -> Any:
    """The steps (R,) down the logistic loss of each logit plus its offset; gives the summed loss.

    ``signs`` is -1 for what should be likely, 1 for what should not be, 0 for what takes no part.
    All arrays are padded to whole vectors, with signs of 0.
    """

    def emit(
        builder: Any, _: Any, logits: Any, signs: Any, offsets: Any, n: Any, rate: Any, steps: Any
    ) -> Any:
        losses, rates = cgutils.alloca_once(builder, VECTOR), broadcast(builder, rate)
        builder.store(splat(0.0), losses)
        with cgutils.for_range_slice(builder, INT64(0), n, INT64(LANES)) as (k, _):
            sign = load(builder, signs, k)
            z = builder.fadd(load(builder, logits, k), load(builder, offsets, k))
            sigmoid, loss = sigmoid_and_loss(builder, builder.fmul(sign, z))
            counted = builder.fmul(sign, sign)
            builder.store(fma(builder, loss, counted, builder.load(losses)), losses)
            step = builder.fmul(builder.fmul(sigmoid, rates), builder.fneg(sign))
            store(builder, step, steps, k)
        return total(builder, builder.load(losses))

    return _intrinsic(types.float32, emit)(logits, signs, offsets, n, rate, steps)


@intrinsic
def push(_: Any, table: Any, places: Any, n: Any, hidden: Any, steps: Any, change: Any) -> Any:
    """Add steps[k] hidden to row ``places[k]``; make change the sum of steps[k] row k before that.

    Row after row: where a row comes twice, its second turn sees what the first has made of it.
    """

    def emit(
        builder: Any, width: Any, table: Any, places: Any, n: Any, hidden: Any, steps: Any, to: Any
    ) -> None:
        sums = cgutils.alloca_once(builder, VECTOR)
        with columns(builder, width) as (column, _):
            h = load(builder, hidden, column)
            builder.store(splat(0.0), sums)
            with cgutils.for_range(builder, n) as targets:
                k = targets.index
                row, step = _row(builder, table, places, k), _at(builder, steps, k)
                u = load(builder, row, column)
                builder.store(fma(builder, step, u, builder.load(sums)), sums)
                store(builder, fma(builder, step, h, u), row, column)
            store(builder, builder.load(sums), to, column)

    return _intrinsic(types.void, emit)(table, places, n, hidden, steps, change)
