"""Estimates of interpolated modified Kneser-Ney, as KenLM's lmplz makes them.

The equations are in ``models.ngram``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, Table

FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""The discounts of an order whose own cannot be estimated, by adjusted count."""


def estimate_discounts(spectrum: NDArray[np.int64]) -> tuple[float, ...] | None:
    """(0, D_1, D_2, D_3+) from (5,) the numbers of n-grams with adjusted count 0 to 4.

    Returns:
        None where the equation cannot be used: a number it divides by is 0, or a discount is not
        above 0 (a context could lose all mass for words unseen after it) or takes more than all.
    """
    n = spectrum.astype(np.float64)
    if n[1:4].min() == 0:
        return None
    y = n[1] / (n[1] + 2 * n[2])
    found = (0.0, *(float(i - (i + 1) * y * n[i + 1] / n[i]) for i in (1, 2, 3)))
    return found if all(0 < found[i] <= i for i in (1, 2, 3)) else None


def interpolate(
    sizes: NDArray[np.int64],
    keys: NDArray[np.int64],
    contexts: NDArray[np.int64],
    adjusted: NDArray[np.int64],
    discounts: NDArray[np.float64],
) -> Table:
    """The probabilities of the unigrams, then of each order from those of the one below.

    Args:
        sizes: (order,) n-grams by order.
        keys: (T - V,) as in ``Table``.
        contexts: (T,) the number of each n-gram without its last word.
        adjusted: (T,) adjusted counts.
        discounts: (order, 4) by adjusted count, the last for 3 and more.
    """
    n_words = int(sizes[0])
    bases = np.concatenate([[0], np.cumsum(sizes)])
    probabilities = np.empty(len(adjusted))
    weights = np.ones(int(bases[-2]))
    counts = adjusted[:n_words]
    taken = discounts[0][np.minimum(counts, 3)]
    left = taken.sum() / counts.sum() / (n_words - 1)
    probabilities[:n_words] = (counts - taken) / counts.sum() + left
    probabilities[BOS] = 0.0
    for k in range(1, len(sizes)):
        below, here = slice(bases[k - 1], bases[k]), slice(bases[k], bases[k + 1])
        counts, context = adjusted[here], contexts[here] - bases[k - 1]
        taken = discounts[k][np.minimum(counts, 3)]
        totals = np.bincount(context, counts, sizes[k - 1])
        mass = np.bincount(context, taken, sizes[k - 1])
        np.divide(mass, totals, out=weights[below], where=totals > 0)
        shorter = keys[here.start - n_words : here.stop - n_words] // n_words
        probabilities[here] = (counts - taken) / totals[context]
        probabilities[here] += weights[below][context] * probabilities[shorter]
    return Table(sizes, keys, probabilities, weights)
