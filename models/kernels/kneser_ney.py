"""Kernels of interpolated Kneser-Ney: the sums of every context, and probabilities from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from models.kernels.ngram import AHEAD
from models.kernels.words import prefetch


@njit(cache=True, nogil=True)
def sum_contexts(
    counts: NDArray[Any],
    contexts: NDArray[Any],
    base: int,
    discounts: NDArray[np.float64],
    pruned: NDArray[np.bool_],
    totals: NDArray[Any],
    freed: NDArray[np.float64],
) -> None:
    """Add up the counts after every context, and what is taken of them for unseen words.

    Args:
        counts: (M,) adjusted counts of the n-grams of an order.
        contexts: (M,) the number of each one's context.
        base: the number of the first n-gram of the order below.
        discounts: (R,) what is taken of a count, the last for all higher ones.
        pruned: (M,) of which all is taken; empty for none.
        totals: (contexts,) zeros; takes the sums of counts.
        freed: (contexts,) takes the shares that are freed; 1 where the context has no words.
    """
    freed[:] = 0.0
    last = len(counts) - 1
    for i in range(len(counts)):
        ahead = contexts[min(i + AHEAD, last)] - base
        prefetch(totals, ahead)
        prefetch(freed, ahead)
        at, count = contexts[i] - base, counts[i]
        totals[at] += count
        whole = len(pruned) > 0 and pruned[i]
        freed[at] += count if whole else discounts[min(count, len(discounts) - 1)]
    for at in range(len(totals)):
        freed[at] = freed[at] / totals[at] if totals[at] > 0 else 1.0


@njit(cache=True, nogil=True)
def interpolate_rows(
    begin: int,
    end: int,
    counts: NDArray[Any],
    contexts: NDArray[Any],
    base: int,
    discounts: NDArray[np.float64],
    pruned: NDArray[np.bool_],
    totals: NDArray[Any],
    freed: NDArray[np.float64],
    keys: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    n_words: int,
    out: NDArray[np.float64],
) -> None:
    """Write the probabilities of n-grams ``begin`` to ``end`` of an order.

    Args:
        begin: counted from the first of the order.
        end: as well.
        counts: and what follows, as for ``sum_contexts``, which has been at work.
        contexts: as there.
        base: as there.
        discounts: as there.
        pruned: as there.
        totals: as there.
        freed: as there.
        keys: (M,) as in ``models.backoff.Table``.
        probabilities: of all n-grams of lower orders.
        n_words: V.
        out: (M,).
    """
    shorter = keys[begin] // n_words if begin < end else 0
    for i in range(begin, end):
        ahead = contexts[min(i + AHEAD, end - 1)] - base
        prefetch(totals, ahead)
        prefetch(freed, ahead)
        while keys[i] >= (shorter + 1) * n_words:  # they rise by little: no division
            shorter += 1
        at, count = contexts[i] - base, counts[i]
        whole = len(pruned) > 0 and pruned[i]
        taken = count if whole else discounts[min(count, len(discounts) - 1)]
        out[i] = (count - taken) / totals[at] + freed[at] * probabilities[shorter]
