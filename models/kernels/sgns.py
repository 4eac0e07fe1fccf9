"""The inner loop of skip-gram with negative sampling; ``sgns_reference`` says the same plainly.

The ``n`` context words of a window share one set of targets, the centre word and ``K`` noise words
(Ji et al. 2016, arXiv:1604.04661), so a window is a small dense problem over ``R = 1 + K`` rows.
The kernel takes it in two passes over the width, with all it touches in the first-level cache:

1. *forward*: for each context row, its products with all targets at once; sigmoid and loss are
   computed on the vector of logits that comes out;
2. *backward*: for each 16 columns the target rows stay in registers while every context row
   passes by once, is updated, and adds to the gradients of the targets.

Two things keep a compiler from doing this to plain loops: rows may overlap, and it prefers half
the width of AVX-512. So the two passes are written as LLVM vectors. The number of targets belongs
to the type of an argument, hence is compiled in. Rows of the next window are fetched ahead.

What a position draws (kept or not, window, noise) is a pure function of the seed and the position,
so any number of threads trains on the same examples. Lock-free threads (Niu et al. 2011,
"Hogwild!") differ in the order of updates only; one thread gives the same bytes every time.

Shapes: ``V`` vocabulary, ``P`` padded width, ``N`` tokens, ``M`` tokens kept, ``S`` sentences,
``R`` targets, ``n`` contexts of a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.kernels.lanes import (
    INT32,
    INT64,
    LANES,
    VECTOR,
    Matrix,
    broadcast,
    columns,
    compiled,
    fetch,
    fma,
    load,
    sigmoid_and_loss,
    splat,
    store,
    total,
)
from models.kernels.replicas import Replica, Shared, place
from models.kernels.sampling import Chances, Noise
from models.kernels.windows import LOW, Tally, Train, below, over_windows, random_at
from models.text import Sentences

# --- one window, in LLVM vectors ------------------------------------------------------------


@dataclass(frozen=True)
class _Window:
    """The code of one window.

    Attributes:
        x: pointer to the input table.
        targets: R pointers to rows of the output table.
        places: pointer to n int64, where the context rows begin in the input table.
        n: contexts.
        width: P.
        mask: pointer to R floats, 0 for a noise word that is the centre word, else 1.
        weights: pointer to n times R floats: how much of each target is added to each context.
    """

    builder: Any
    x: Any
    targets: list[Any]
    places: Any
    n: Any
    width: Any
    mask: Any
    weights: Any

    def _context(self, j: Any) -> tuple[Any, Any]:
        """Row j of the contexts, and its row of weights, which is padded to whole vectors."""
        place = self.builder.load(self.builder.gep(self.places, [j]))
        padded = -(-len(self.targets) // LANES) * LANES
        weights = self.builder.gep(self.weights, [self.builder.mul(j, INT64(padded))])
        return self.builder.gep(self.x, [place]), weights

    def forward(self, rate: Any) -> Any:
        """Compute the weights; give the summed loss."""
        builder = self.builder
        losses = cgutils.alloca_once(builder, VECTOR)
        builder.store(splat(0.0), losses)
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in self.targets]
        rates = broadcast(builder, rate)
        with cgutils.for_range(builder, self.n) as contexts:
            row, weights = self._context(contexts.index)
            for each in sums:
                builder.store(splat(0.0), each)
            with columns(builder, self.width) as (column, _):
                x = load(builder, row, column)
                for each, target in zip(sums, self.targets, strict=True):
                    u = load(builder, target, column)
                    builder.store(fma(builder, x, u, builder.load(each)), each)
            for first in range(0, len(sums), LANES):
                z = splat(0.0)
                for lane, each in enumerate(sums[first : first + LANES]):
                    z = builder.insert_element(z, total(builder, builder.load(each)), INT32(lane))
                signs = [-1.0 if first + lane == 0 else 1.0 for lane in range(LANES)]
                z = builder.fmul(z, ir.Constant(VECTOR, signs))
                sigmoid, loss = sigmoid_and_loss(builder, z)
                mask = load(builder, self.mask, INT64(first))
                builder.store(fma(builder, loss, mask, builder.load(losses)), losses)
                weight = builder.fmul(builder.fmul(sigmoid, mask), rates)
                store(builder, weight, weights, INT64(first))
        return total(builder, builder.load(losses))

    def backward(self) -> None:
        """Update all rows by the weights."""
        builder = self.builder
        gradients = [cgutils.alloca_once(builder, VECTOR) for _ in self.targets]
        with columns(builder, self.width) as (column, _):
            us = [load(builder, target, column) for target in self.targets]
            for gradient in gradients:
                builder.store(splat(0.0), gradient)
            with cgutils.for_range(builder, self.n) as contexts:
                row, weights = self._context(contexts.index)
                x = moved = load(builder, row, column)
                for k, (u, gradient) in enumerate(zip(us, gradients, strict=True)):
                    weight = broadcast(builder, builder.load(builder.gep(weights, [INT64(k)])))
                    weight = builder.fneg(weight) if k else weight
                    moved = fma(builder, weight, u, moved)
                    builder.store(fma(builder, weight, x, builder.load(gradient)), gradient)
                store(builder, moved, row, column)
            for target, gradient in zip(self.targets, gradients, strict=True):
                u = load(builder, target, column)  # again: a noise word may be there twice
                store(builder, builder.fadd(u, builder.load(gradient)), target, column)


@intrinsic
def _train_window(
    _: Any,
    inputs: Any,
    outputs: Any,
    contexts: Any,
    n: Any,
    targets: Any,
    mask: Any,
    weights: Any,
    rate: Any,
    shape: Any,
) -> Any:
    """``sgns_reference.train_window``: train on one window in place, give its summed loss."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def array(i: int) -> Any:
            return context.make_array(signature.args[i])(context, builder, args[i])

        x, u = array(0), array(1).data
        at = [builder.load(builder.gep(array(4).data, [INT64(k)])) for k in range(len(shape))]
        window = _Window(
            builder,
            x=x.data,
            targets=[builder.gep(u, [place]) for place in at],
            places=array(2).data,
            n=args[3],
            width=builder.extract_value(x.shape, 1),
            mask=array(5).data,
            weights=array(6).data,
        )
        loss = window.forward(args[7])
        window.backward()
        return loss

    arguments = (inputs, outputs, contexts, n, targets, mask, weights, rate, shape)
    return types.float32(*arguments), generate


# --- the loops ------------------------------------------------------------------------------


@compiled
def _train(
    inputs: Any,
    outputs: Any,
    kept: Any,
    bounds: Any,
    sentence: Any,
    low: Any,
    high: Any,
    window: Any,
    chance: Any,
    other: Any,
    seed: Any,
    rate: Any,
    last_rate: Any,
    shape: Any,
    own: Any,
) -> Any:
    """Train on the centres ``low <= i < high``: the number of examples and their summed loss."""
    rows, width = len(shape), inputs.shape[1]
    lanes = (rows + LANES - 1) // LANES * LANES
    mask = np.zeros(lanes, np.float32)
    mask[0] = 1
    weights = np.empty(2 * window * lanes, np.float32)
    contexts = np.empty(2 * window, np.int64)
    targets, upcoming = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    reach, examples, loss = 0, 0, 0.0
    for i in range(low - 1, high):
        # Draw for the next centre now, so that its rows are on their way while this one trains.
        targets, upcoming, radius = upcoming, targets, reach
        if i + 1 < high:
            random = random_at(seed, i + 1)
            reach = 1 + below(random, window)
            upcoming[0] = place(kept[i + 1], width, own[1])
            fetch(outputs, upcoming[0])
            for k in range(1, rows):
                draw = random_at(random, k)
                noise = below(draw, len(chance))
                if (draw & LOW) > np.uint64(chance[noise]):
                    noise = np.int64(other[noise])
                upcoming[k] = place(noise, width, own[1])
                fetch(outputs, upcoming[k])
            if i + 1 + window < len(kept):
                fetch(inputs, place(kept[i + 1 + window], width, own[0]))
        if i < low:
            continue
        while bounds[sentence + 1] <= i:
            sentence += 1
        n = 0
        for j in range(
            max(bounds[sentence], i - radius), min(bounds[sentence + 1], i + radius + 1)
        ):
            if j != i:
                contexts[n] = place(kept[j], width, own[0])
                n += 1
        for k in range(1, rows):
            mask[k] = np.float32(targets[k] != targets[0])
        now = np.float32(rate + (last_rate - rate) * ((i - low) / (high - low)))
        loss += _train_window(inputs, outputs, contexts, n, targets, mask, weights, now, shape)
        examples += n
    return examples, loss


# --- one sweep ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tables:
    """What a sweep works on.

    Attributes:
        inputs: (V, P) ``aligned`` table of the word vectors.
        outputs: (V, P) the same of the words as targets.
        keep: (V,) the chances of the words to be kept.
        noise: the distribution of noise words.
    """

    inputs: Matrix
    outputs: Matrix
    keep: Chances
    noise: Noise


def sweep(
    tables: Tables,
    text: Sentences,
    *,
    window: int,
    negatives: int,
    seed: int,
    rates: tuple[float, float],
    threads: int,
) -> Tally:
    """Train on a text, in place.

    Args:
        tables: what is trained.
        text: ids below V; negative ones are unknown words.
        window: words on each side, at most.
        negatives: K.
        seed: seeds everything random.
        rates: the learning rate at the start and at the end.
        threads: at work at once.
    """
    targets = (0,) * (1 + negatives)
    noise = tables.noise
    # Without copies of busy rows, with which it is a twentieth faster and scores 0.01 less on
    # WordSim-353 and SimLex-999 (17 M words of novels, 3 seeds).
    shared = Shared.first(tables.inputs).alone(), Shared.first(tables.outputs).alone()

    def begin(replicas: Sequence[Replica]) -> Train:
        own = tuple(replica.own for replica in replicas)

        def train(
            kept: NDArray[np.int32],
            bounds: NDArray[np.int64],
            sentence: int,
            low: int,
            high: int,
            seed: np.uint64,
            rates: tuple[float, float],
        ) -> tuple[int, float]:
            tally: tuple[int, float] = _train(
                tables.inputs, tables.outputs, kept, bounds, sentence, low, high,
                window, noise.chance, noise.other, seed, *rates, targets, own,
            )  # fmt: skip
            return tally

        return train

    return over_windows(text, tables.keep, begin, shared, seed=seed, rates=rates, threads=threads)
