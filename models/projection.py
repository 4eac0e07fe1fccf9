"""Vectors as points of a plane: principal components (Pearson 1901, Hotelling 1933).

Shapes: ``N`` vectors, ``D`` width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def principal_components(
    vectors: NDArray[np.floating], n: int = 2
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The coordinates of vectors along the directions in which they differ most.

    The sign of a direction is free; the entry of it that is largest in size is made positive.

    Args:
        vectors: (N, D), finite.
        n: how many directions; where there are fewer, further coordinates are 0.

    Returns:
        (N, n) the coordinates, around 0, and (n,) each direction's share of the variance.
    """
    centred = vectors - vectors.mean(axis=0, dtype=np.float64)
    left, values, directions = np.linalg.svd(centred, full_matrices=False)
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    points, shares = np.zeros((len(vectors), n)), np.zeros(n)
    found = min(n, len(values))
    points[:, :found] = (left * values * signs)[:, :found]
    total = np.square(values).sum()
    shares[:found] = np.square(values[:found]) / (total if total > 0 else 1.0)
    return points, shares
