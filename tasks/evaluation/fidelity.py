"""What a copy of a table of vectors has kept of the original: a quantized one, for example.

Three figures, none of which needs a test set: the error of the vectors, the cosine of a vector with
its copy, and how many of a word's nearest neighbours are still its nearest neighbours. The last is
asked of words of all frequencies, by bands of rank, since rare words tend to lose more.

Shapes: ``V`` words, most frequent first, ``D`` width, ``Q`` words asked about, ``k`` neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.family import Progress
from models.vectors import Matrix, unit

NEIGHBOURS = 10
ASKED = 200
"""Words of a band that are asked for their neighbours: the share that a band keeps is known to
about 0.02 then."""
TOGETHER = 64
"""Questions answered at a time; each takes 4 bytes for every word."""


@dataclass(frozen=True)
class Fidelity:
    """What a copy has kept.

    Attributes:
        relative_error: length of all differences over length of all vectors (Frobenius norms).
        mean_cosine: of a vector with its copy; vectors of zeros are left out.
        neighbours_kept: the share of the ``k`` nearest neighbours, mean over the bands' words.
        bands: the same by ranks, "1-1000".
        k: neighbours of each word.
        asked: words asked about.
    """

    relative_error: float
    mean_cosine: float
    neighbours_kept: float
    bands: Mapping[str, float]
    k: int
    asked: int


def measure(
    original: Matrix, copy: Matrix, progress: Progress = lambda done, total, unit: None
) -> Fidelity:
    """Hold a copy against the original.

    Args:
        original: (V, D), finite, at least two rows.
        copy: the same shape.
        progress: told about words asked about.
    """
    off, whole = 0.0, 0.0
    cosines = []
    for first in range(0, len(original), 1 << 14):
        a, b = original[first : first + (1 << 14)], copy[first : first + (1 << 14)]
        off += float(np.square(a - b, dtype=np.float64).sum())
        whole += float(np.square(a, dtype=np.float64).sum())
        shown = np.einsum("nd,nd->n", unit(a), unit(b), dtype=np.float64)
        cosines.append(shown[(a != 0).any(axis=1)])
    asked = {band: _spread(ranks) for band, ranks in _bands(len(original)).items()}
    ids = np.concatenate(list(asked.values()))
    k = min(NEIGHBOURS, len(original) - 1)
    total = 2 * len(ids)
    before = _nearest(original, ids, k, lambda done: progress(done, total, "words"))
    after = _nearest(copy, ids, k, lambda done: progress(len(ids) + done, total, "words"))
    kept = (before[:, :, None] == after[:, None, :]).any(axis=2).mean(axis=1)
    ends = np.cumsum([len(chosen) for chosen in asked.values()])[:-1]
    return Fidelity(
        relative_error=(off / whole) ** 0.5 if whole else 0.0,
        mean_cosine=float(np.concatenate(cosines).mean()) if whole else 1.0,
        neighbours_kept=float(kept.mean()),
        bands={
            band: float(one.mean()) for band, one in zip(asked, np.split(kept, ends), strict=True)
        },
        k=k,
        asked=len(ids),
    )


def _bands(n: int) -> dict[str, range]:
    """Ranks by thousands, ten thousands, ... as positions."""
    edges = [0] + [10**power for power in range(3, 12) if 10**power < n] + [n]
    return {f"{first + 1}-{last}": range(first, last) for first, last in pairwise(edges)}


def _spread(ranks: range) -> NDArray[np.int64]:
    n = min(ASKED, len(ranks))
    return np.linspace(ranks.start, ranks.stop - 1, n).astype(np.int64)


def _nearest(
    table: Matrix, ids: NDArray[np.int64], k: int, progress: Callable[[int], None]
) -> NDArray[np.int64]:
    """(Q, k) the nearest rows by cosine, in no order."""
    units = unit(table)
    found = np.empty((len(ids), k), np.int64)
    for first in range(0, len(ids), TOGETHER):
        chosen = ids[first : first + TOGETHER]
        cosines = units[chosen] @ units.T
        cosines[np.arange(len(chosen)), chosen] = -np.inf
        found[first : first + len(chosen)] = np.argpartition(cosines, len(units) - k)[:, -k:]
        progress(first + len(chosen))
    return found
