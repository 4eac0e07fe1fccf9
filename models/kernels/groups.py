"""One moving vector against a group of rows whose number is compiled in, in LLVM vectors.

The products are summed with one register a row; then the rows move, and the vector itself, which is
what ``rows.push`` does not do. Why LLVM vectors: see ``sgns``.

Numba's cache compares the time of the file that holds the compiled function, not of this one: after
a change here, touch the kernels that use it.

Shapes: ``P`` padded width, ``R`` rows of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from models.kernels.rows import TOGETHER, totals


@dataclass(frozen=True)
class _Group:
    """The code of one group.

    Attributes:
        rows: R pointers to rows of the output table.
        likely: how many of them stand for words that are there; the others are noise.
        weights: pointer to R floats, how often each target counts, padded to whole vectors.
        steps: pointer to as many floats to work with.
        hidden: pointer to P floats, the mean.
        width: P.
    """

    builder: Any
    rows: list[Any]
    likely: int
    weights: Any
    steps: Any
    hidden: Any
    width: Any

    def forward(self, rate: Any) -> Any:
        """Compute the steps; give the summed loss."""
        builder, losses = self.builder, splat(0.0)
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in self.rows]
        for each in sums:
            builder.store(splat(0.0), each)
        with columns(builder, self.width) as (column, _):
            h = load(builder, self.hidden, column)
            for each, row in zip(sums, self.rows, strict=True):
                u = load(builder, row, column)
                builder.store(fma(builder, h, u, builder.load(each)), each)
        vectors, rates = [builder.load(each) for each in sums], broadcast(builder, rate)
        for first in range(0, len(vectors), LANES):
            z = self._logits(vectors[first : first + LANES])
            signs = [-1.0 if first + lane < self.likely else 1.0 for lane in range(LANES)]
            sign = ir.Constant(VECTOR, signs)
            sigmoid, loss = sigmoid_and_loss(builder, builder.fmul(z, sign))
            weight = load(builder, self.weights, INT64(first))
            losses = fma(builder, loss, weight, losses)
            step = builder.fmul(builder.fmul(sigmoid, weight), builder.fmul(rates, sign))
            store(builder, builder.fneg(step), self.steps, INT64(first))
        return total(builder, losses)

    def _logits(self, vectors: list[Any]) -> Any:
        """The sums of up to ``LANES`` vectors, in the lanes of one."""
        vectors = vectors + [splat(0.0)] * (-len(vectors) % LANES)
        halves = [totals(self.builder, vectors[i : i + TOGETHER]) for i in (0, TOGETHER)]
        lanes = ir.Constant(ir.VectorType(INT32, LANES), list(range(LANES)))
        return self.builder.shuffle_vector(*halves, lanes)

    def backward(self, moved: Any) -> None:
        """Move the rows by the steps, and the mean; add what it moved by to ``moved``."""
        builder = self.builder
        each = range(len(self.rows))
        steps = [builder.load(builder.gep(self.steps, [INT64(k)])) for k in each]
        steps = [broadcast(builder, step) for step in steps]
        with columns(builder, self.width) as (column, _):
            h = load(builder, self.hidden, column)
            changes = [splat(0.0), splat(0.0)]  # two, for what waits on each other is slow
            for k, (row, step) in enumerate(zip(self.rows, steps, strict=True)):
                u = load(builder, row, column)  # after the stores before: a row may come twice
                changes[k % 2] = fma(builder, step, u, changes[k % 2])
                store(builder, fma(builder, step, h, u), row, column)
            change = builder.fadd(*changes)
            store(builder, builder.fadd(h, change), self.hidden, column)
            before = load(builder, moved, column)
            store(builder, builder.fadd(before, change), moved, column)


@intrinsic
def train_group(
    _: Any,
    outputs: Any,
    places: Any,
    weights: Any,
    steps: Any,
    hidden: Any,
    moved: Any,
    rate: Any,
    likely: Any,
    noise: Any,
) -> Any:
    """``fasttext_reference.train_group``: in place, gives the summed loss."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:6], args[:6], strict=True)
        ]
        table, at = arrays[0].data, arrays[1].data
        places = [
            builder.load(builder.gep(at, [INT64(k)])) for k in range(len(likely) + len(noise))
        ]
        group = _Group(
            builder,
            rows=[builder.gep(table, [place]) for place in places],
            likely=len(likely),
            weights=arrays[2].data,
            steps=arrays[3].data,
            hidden=arrays[4].data,
            width=builder.extract_value(arrays[0].shape, 1),
        )
        loss = group.forward(args[6])
        group.backward(arrays[5].data)
        return loss

    arguments = outputs, places, weights, steps, hidden, moved, rate, likely, noise
    return types.float32(*arguments), generate
