"""Kneser-Ney discounts, and the interpolated model that is made with them.

Modified Kneser-Ney (Chen & Goodman 1998) as KenLM's lmplz makes it; its equations are in
``models.ngram``. The first Kneser-Ney (Kneser & Ney 1995; Ney, Essen & Kneser 1994) has one
discount for all counts of an order, ``D = n_1 / (n_1 + 2 n_2)``.

A table of discounts has a row an order, and says what is taken of the counts 0, 1, 2 and so on; the
last column is for all higher counts too.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, Table
from models.threads import each, processors
from models.trie import Trie

NOTHING = np.zeros(0, np.bool_)

FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""Modified discounts of an order whose own cannot be estimated, by adjusted count."""
FALLBACK_SINGLE = (0.0, 0.75, 0.75, 0.75)
"""The same where an order has a single discount."""


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


def estimate_single(spectrum: NDArray[np.int64]) -> tuple[float, ...] | None:
    """(0, D, D, D) from numbers of n-grams by adjusted count.

    Returns:
        None where there are none with count 1, or none with count 2: D would be 0 or 1.
    """
    n = spectrum.astype(np.float64)
    if n[1:3].min() == 0:
        return None
    d = float(n[1] / (n[1] + 2 * n[2]))
    return (0.0, d, d, d)


def taken(
    counts: NDArray[np.int64], discounts: NDArray[np.float64], pruned: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """(M,) what is taken of some counts: a discount, or all of what is pruned."""
    found: NDArray[np.float64] = discounts[np.minimum(counts, len(discounts) - 1)]
    return found if pruned is None else np.where(pruned, counts, found)


def interpolate(
    trie: Trie, discounts: NDArray[np.float64], pruned: NDArray[np.bool_] | None = None
) -> Table:
    """The probabilities of the unigrams, then of each order from those of the one below.

    Args:
        trie: T n-grams.
        discounts: (order, R) by adjusted count.
        pruned: (T,) n-grams that will leave the table: their counts go to the shorter contexts.
    """
    from models.kernels.kneser_ney import interpolate_rows, sum_contexts
    from models.kernels.ngram import frozen

    sizes, n_words = trie.sizes, trie.n_words
    probabilities = np.empty(len(trie.adjusted))
    weights = np.empty(trie.numbers(trie.order).start)
    counts = trie.adjusted[:n_words]
    free = taken(counts, discounts[0], None)
    left = free.sum() / counts.sum() / (n_words - 1)
    probabilities[:n_words] = (counts - free) / counts.sum() + left
    probabilities[BOS] = 0.0
    given = {}
    for k in range(2, trie.order + 1):
        below, here = trie.numbers(k - 1), trie.numbers(k)
        gone = NOTHING if pruned is None else pruned[here]
        sums = np.zeros(sizes[k - 2], trie.adjusted.dtype), weights[below]
        each_row = trie.adjusted[here], trie.contexts[here], below.start
        given[k] = (*each_row, discounts[k - 1], gone, *sums)
    each(sum_contexts, given.values())
    threads = processors(len(trie.adjusted))
    for k, arrays in given.items():
        here, size = trie.numbers(k), int(sizes[k - 1])
        keys = frozen(trie.keys[here.start - n_words : here.stop - n_words])
        shorter = probabilities[: here.start], n_words, probabilities[here]
        cuts = [size * part // threads for part in range(threads + 1)]
        each(interpolate_rows, [(*part, *arrays, keys, *shorter) for part in pairwise(cuts)])
    return Table(sizes, trie.keys, probabilities, weights)
