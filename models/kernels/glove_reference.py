"""What ``glove`` does, in plain Python and numpy: slow, of any precision, for tests and readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def train(
    arrays: Sequence[Array],
    records: Iterable[tuple[int, int, float]],
    *,
    x_max: float,
    alpha: float,
    rate: float,
) -> float:
    """Train on records in their order, in place, and give their summed loss.

    Args:
        arrays: (V, D) vectors and (V,) biases of words, the sums of squares of both, then the
            same four of contexts.
        records: row, column and weight.
        x_max: the weight from which on a record counts fully.
        alpha: the power of the weight below that.
        rate: the learning rate of vectors; that of biases is 1.
    """
    w, b, w_squares, b_squares, c, d, c_squares, d_squares = arrays
    losses = []
    for i, j, weight in records:
        difference = w[i] @ c[j] + b[i] + d[j] - math.log(weight)
        slope = min(1.0, (weight / x_max) ** alpha) * difference
        losses.append(slope * difference)
        steps = (slope * rate * c[j], slope, slope * rate * w[i], slope)
        squares = (w_squares, b_squares, c_squares, d_squares)
        for table, square, word, step in zip(
            (w, b, c, d), squares, (i, i, j, j), steps, strict=True
        ):
            table[word] -= step / np.sqrt(square[word])
            square[word] += step * step
    return math.fsum(losses)
