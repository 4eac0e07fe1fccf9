"""The inner loop with the full softmax; ``objectives_reference`` says the same plainly.

    loss = -log p(o | h)        p(w | h) = exp(u_w . h) / sum_w' exp(u_w' . h)

It is what the other objectives stand in for (Mikolov et al. 2013b, equation 2). Each step reads and
writes the whole output table, so time grows with the vocabulary: it is for small ones, and to judge
the others by. The hidden vector ``h`` is a context word, or the sum or mean of all.

Shapes: ``V`` vocabulary, ``P`` padded width, ``M`` tokens kept, ``S`` sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.lanes import Matrix, compiled
from models.kernels.replicas import Replica
from models.kernels.rows import TOGETHER, gather, products, push, scatter
from models.kernels.sampling import Chances
from models.kernels.windows import Pooling, Tally, Train, below, flags, over_windows, random_at
from models.text import Sentences


@dataclass(frozen=True, eq=False)
class Tables:
    """What a sweep works on.

    Attributes:
        inputs: (V, P) ``aligned`` table of the word vectors.
        outputs: (V, P) the same of the words as targets.
        keep: (V,) the chances of the words to be kept.
    """

    inputs: Matrix
    outputs: Matrix
    keep: Chances


@compiled
def _loss(logits: Any, n: Any, target: Any, rate: Any, steps: Any) -> Any:
    """The loss of a target among n logits, and the steps down it."""
    highest, total = logits[:n].max(), 0.0
    for k in range(n):
        power = math.exp(logits[k] - highest)
        steps[k] = power
        total += power
    for k in range(n):
        steps[k] *= -rate / total
    steps[target] += rate
    return math.log(total) + highest - logits[target]


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
    pooling: Any,
    seed: Any,
    rate: Any,
    last_rate: Any,
) -> Any:
    """Train on the centres ``low <= i < high``: the number of examples and their summed loss."""
    (words, width), (pooled, mean, corrected) = outputs.shape, pooling
    places = np.zeros((words + TOGETHER - 1) // TOGETHER * TOGETHER, np.int64)
    places[:words] = np.arange(words) * width
    logits, steps = np.zeros(len(places), np.float32), np.zeros(len(places), np.float32)
    contexts = np.empty(2 * window, np.int64)
    hidden, change = np.empty(width, np.float32), np.empty(width, np.float32)
    one, examples, loss = np.float32(1), 0, 0.0
    for i in range(low, high):
        while bounds[sentence + 1] <= i:
            sentence += 1
        n, radius = 0, 1 + below(random_at(seed, i), window)
        for j in range(
            max(bounds[sentence], i - radius), min(bounds[sentence + 1], i + radius + 1)
        ):
            if j != i:
                contexts[n] = np.int64(kept[j]) * width
                n += 1
        falling = rate + (last_rate - rate) * ((i - low) / (high - low))
        size = n if pooled else 1
        share = np.float32(1 / n) if mean else one
        back = share if corrected else one
        for first in range(0, n, size):
            gather(inputs, contexts, first, first + size, share, hidden)
            products(outputs, places, words, hidden, logits)
            loss += _loss(logits, words, kept[i], falling, steps)
            push(outputs, places, words, hidden, steps, change)
            scatter(inputs, contexts, first, first + size, back, change)
            examples += 1
    return examples, loss


def sweep(
    tables: Tables,
    text: Sentences,
    *,
    window: int,
    pooling: Pooling,
    seed: int,
    rates: tuple[float, float],
    threads: int,
) -> Tally:
    """``binary.sweep`` with the full softmax; windows and examples are the same."""

    def begin(_: Sequence[Replica]) -> Train:
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
                window, flags(pooling), seed, *rates,
            )  # fmt: skip
            return tally

        return train

    return over_windows(text, tables.keep, begin, (), seed=seed, rates=rates, threads=threads)
