"""The layers of a model that can be asked for, and vectors that are near each other.

Shapes: ``N`` vectors, ``D`` width, ``k`` neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.family import FloatArray

AT_ONCE = 1 << 22
"""Cosines that are in memory at a time."""


def chosen_layers(names: Sequence[str], asked: Sequence[str]) -> list[int]:
    """The numbers of the layers that somebody names.

    Args:
        names: of all layers, from the input up.
        asked: some of them; "last", or "all".

    Raises:
        ValueError: there is no such layer.
    """
    if list(asked) == ["all"]:
        return list(range(len(names)))
    found = list[int]()
    for name in asked:
        if name != "last" and name not in names:
            raise ValueError(f"there is no layer {name!r}; there are {', '.join(names)}, last, all")
        number = len(names) - 1 if name == "last" else names.index(name)
        if number not in found:
            found.append(number)
    return found


def unit_vectors(vectors: FloatArray) -> NDArray[np.float64]:
    """(N, D) float64 of length 1; zeros stay."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    found: NDArray[np.float64] = np.divide(exact, lengths, out=exact, where=lengths > 0)
    return found


def nearest_others(
    vectors: FloatArray, rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of some vectors the ``k`` nearest among all others by cosine, best first.

    Of equal ones the first comes first.

    Args:
        vectors: (N, D).
        rows: (R,) the numbers of those that are asked about.
        k: neighbours of each; fewer where there are fewer others.

    Returns:
        (R, k) their numbers, and their cosines.
    """
    units = unit_vectors(vectors)
    k = min(k, max(0, len(units) - 1))
    numbers, cosines = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    step = max(1, AT_ONCE // max(1, len(units)))
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        near = units[some] @ units.T
        near[np.arange(len(some)), some] = -np.inf
        best = np.argsort(-near, axis=1, kind="stable")[:, :k]
        numbers[first : first + step] = best
        cosines[first : first + step] = np.take_along_axis(near, best, axis=1)
    return numbers, cosines
