"""What ``binary`` and ``softmax`` do, in plain Python and numpy: slow, for tests and readers.

Tables are of any precision and (V, D); an objective is a function that trains on one hidden vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.kernels.binary import Sampled
from models.kernels.huffman import Tree
from models.kernels.sampling import Chances
from models.kernels.sgns_reference import Table, random, take, thinned
from models.kernels.windows import Pooling, Tally
from models.text import Sentences

Vector = NDArray[np.floating]
Objective = Callable[[Table, int, Vector, int, float], tuple[float, Vector]]
"""Of the output table, the centre word, the hidden vector, a random number and the rate: updates
the table and gives the loss and the step that the hidden vector should make."""


def logistic_step(
    outputs: Table, rows: list[int], labels: list[int], offsets: list[float], h: Vector, rate: float
) -> tuple[float, Vector]:
    """One decision a row, all seen with the rows as they were; then row after row is moved."""
    signs = 1.0 - 2.0 * np.array(labels)
    z = signs * (outputs[rows] @ h + np.array(offsets))
    steps, change = -rate * signs / (1 + np.exp(-z)), np.zeros_like(h)
    for row, step in zip(rows, steps, strict=True):
        change += step * outputs[row]
        outputs[row] += step * h
    return float(np.logaddexp(0, z).sum()), change


def sampled(decisions: Sampled) -> Objective:
    """Negative sampling or noise-contrastive estimation."""

    def train(outputs: Table, word: int, h: Vector, draw: int, rate: float) -> tuple[float, Vector]:
        drawn = [take(decisions.noise, random(draw, k + 1)) for k in range(decisions.negatives)]
        noise = [other for other in drawn if not (decisions.skips and other == word)]
        rows, labels = [word, *noise], [1] + [0] * len(noise)
        offsets = decisions.offsets[rows].tolist()
        return logistic_step(outputs, rows, labels, offsets, h, rate)

    return train


def hierarchical(tree: Tree) -> Objective:
    """Hierarchical softmax."""

    def train(outputs: Table, word: int, h: Vector, _: int, rate: float) -> tuple[float, Vector]:
        path = slice(tree.starts[word], tree.starts[word + 1])
        rows, labels = tree.nodes[path].tolist(), [int(sign < 0) for sign in tree.signs[path]]
        return logistic_step(outputs, rows, labels, [0.0] * len(rows), h, rate)

    return train


def softmax(outputs: Table, word: int, h: Vector, _: int, rate: float) -> tuple[float, Vector]:
    """The full softmax."""
    z = outputs @ h
    log_total = float(np.logaddexp.reduce(z))
    steps = rate * ((np.arange(len(z)) == word) - np.exp(z - log_total))
    change = steps @ outputs
    outputs += np.outer(steps, h)
    return log_total - float(z[word]), change


def train_group(
    inputs: Table,
    outputs: Table,
    contexts: list[int],
    centre: int,
    objective: Objective,
    *,
    corrected: bool,
    mean: bool,
    draw: int,
    rate: float,
) -> float:
    """Train on one hidden vector, made of context words of which one may be there twice."""
    share = 1 / len(contexts) if mean else 1.0
    loss, change = objective(outputs, centre, share * inputs[contexts].sum(0), draw, rate)
    for context in contexts:
        inputs[context] += change * (share if corrected else 1.0)
    return loss


def sweep(
    inputs: Table,
    outputs: Table,
    keep: Chances,
    objective: Objective,
    text: Sentences,
    *,
    window: int,
    pooling: Pooling,
    seed: int,
    rates: tuple[float, float],
    own_draws: int = 0,
) -> Tally:
    """``binary.sweep`` or ``softmax.sweep`` with one thread.

    Each pair has a draw of its own where ``own_draws``, the number of noise words, is given.
    """
    keep_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64).tolist()
    sentences = thinned(text, keep, keep_seed)
    kept, position, losses = sum(map(len, sentences)), 0, []
    for words in sentences:
        for i, centre in enumerate(words):
            draw = random(draw_seed, position)
            radius = 1 + (draw >> 32) * window // 2**32
            contexts = words[max(0, i - radius) : i] + words[i + 1 : i + 1 + radius]
            groups = [[context] for context in contexts] if pooling == "none" else [contexts]
            rate = rates[0] + (rates[1] - rates[0]) * position / kept
            how = {"mean": pooling.endswith("mean"), "corrected": pooling.startswith("corrected")}
            for n, group in enumerate(groups):
                own = random(draw, own_draws + n) if own_draws and n else draw
                loss = train_group(
                    inputs, outputs, group, centre, objective, draw=own, rate=rate, **how
                )
                losses.append(loss)
            position += 1
    return Tally(kept, len(losses), math.fsum(losses))
