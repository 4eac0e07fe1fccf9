"""What ``batched`` does, in plain Python and numpy: slow, of any precision, for tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from models.kernels.windows import Pooling

Array = NDArray[np.floating]


class _Gains:
    """What rows of a table gain from a batch, and how often they were met."""

    def __init__(self, table: Array) -> None:
        self.table, self.gain = table, np.zeros_like(table)
        self.met: dict[int, float] = defaultdict(float)

    def add(self, row: int, gain: Array, times: float) -> None:
        self.gain[row] += gain
        self.met[row] += times

    def apply(self, limit: float) -> None:
        for row, times in self.met.items():
            self.table[row] += self.gain[row] * min(1.0, limit / max(times, 1e-9))


def train_windows(
    inputs: Array,
    outputs: Array,
    windows: Sequence[tuple[int, Sequence[int]]],
    noise: Sequence[Sequence[int]],
    *,
    negatives: int,
    pooling: Pooling,
    rate: float,
    limit: float,
    bags: Sequence[Sequence[int]] | None = None,
) -> tuple[int, float]:
    """Train on a batch, in place: the number of examples and their summed loss.

    Args:
        inputs: (V, D); with bags (R, D).
        outputs: (V, D).
        windows: centres with their contexts; equally many for each row of noise.
        noise: words for each group of windows.
        negatives: K.
        pooling: see ``windows``.
        rate: the learning rate.
        limit: see ``batched``.
        bags: of fastText the rows of each word.
    """
    rows_of = [list(bag) for bag in bags or ([word] for word in range(len(inputs)))]
    to_inputs, to_outputs = _Gains(inputs), _Gains(outputs)
    examples, loss, each = 0, 0.0, len(windows) // len(noise)
    for n, (centre, contexts) in enumerate(windows):
        hiddens = [(rows_of[word], inputs[rows_of[word]].mean(0)) for word in contexts]
        if pooling != "none":
            rows = [row for word in contexts for row in rows_of[word]]
            share = 1 / len(rows) if "mean" in pooling and rows else 1.0
            hiddens = [(rows, inputs[rows].sum(0) * share)] if rows else []
        for rows, hidden in hiddens:
            change = np.zeros_like(hidden)
            decisions = [(centre, -1.0, 1.0)]
            decisions += [
                (word, 1.0, negatives / len(noise[0]))
                for word in noise[n // each]
                if word != centre
            ]
            for word, sign, weight in decisions:
                logit = sign * (hidden @ outputs[word])
                loss += weight * float(np.logaddexp(0, logit))
                step = -rate * weight * sign / (1 + np.exp(-logit))
                change += step * outputs[word]
                to_outputs.add(word, step * hidden, weight)
            back = share if pooling == "corrected-mean" else 1.0
            for row in rows:
                to_inputs.add(row, back * change, 1.0)
            examples += 1
    to_inputs.apply(limit)
    to_outputs.apply(limit)
    return examples, loss


def train_records(
    sides: Sequence[Mapping[str, Array]],
    records: Iterable[tuple[int, int, float, float]],
    *,
    rate: float,
    limit: float,
) -> float:
    """Train GloVe on a batch of records, in place, and give their summed loss.

    Args:
        sides: see ``batched.train_records``.
        records: row, column, logarithm and weight.
        rate: of vectors.
        limit: see ``batched``.
    """
    one, two = sides
    loss = 0.0
    gains = [(_Gains(side["vectors"]), _Gains(side["biases"])) for side in sides]
    for i, j, log, weight in records:
        w, c = one["vectors"][i], two["vectors"][j]
        difference = w @ c + one["biases"][i] + two["biases"][j] - log
        slope = weight * difference
        loss += slope * difference
        for row, other, (vector, bias) in ((i, c, gains[0]), (j, w, gains[1])):
            vector.add(row, rate * slope * other, 1.0)
            bias.add(row, slope, 1.0)
    for side, both in zip(sides, gains, strict=True):
        for gain, squares in zip(both, (side["vector_squares"], side["bias_squares"]), strict=True):
            for row, times in gain.met.items():
                step = gain.gain[row] * min(1.0, limit / times)
                squares[row] += step * step
                gain.table[row] -= step / np.sqrt(squares[row])
    return loss
