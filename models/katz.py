"""Models that back off: Katz (1987), the first Kneser-Ney (1995), relative frequencies and add-k.

Some of every count is taken away, and only words that were never seen after a context share what
became free, in proportion to their probabilities after the shorter context (Katz, equation 2)::

    P(w | c) = (r - taken(r)) / sum_x r(c x)                            r = r(c w) > 0
               P(w | c') * free(c) / (1 - sum_(x seen after c) P(x | c'))    else

*Katz* takes by Good-Turing of counts up to a cut-off k (his equations 6 and 7, k = 5)::

    r* = (r + 1) n_(r+1) / n_r        m = (k + 1) n_(k+1) / n_1
    taken(r) = r - r (r*/r - m) / (1 - m)

*Back-off Kneser-Ney* takes one discount of every count, of adjusted counts below the highest order.
*Relative frequencies* (maximum likelihood) take nothing: what was never seen after a context that
was seen has the probability 0, and after a context that was not, the shorter one decides.

Where all words have occurred, so nothing is left to give to, no unigram count is discounted by
Good-Turing. What is free among the unigrams is shared evenly by the words that never occurred, or
by all words where there is none. A context after which all counts are too high to be discounted
would leave nothing for other words; its total counts as one higher then, as in the CMU toolkit and
SRILM (credited to Doug Paul).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, Table
from models.kneser_ney import taken
from models.trie import Trie

HALF = 0.5
"""What is taken of every count up to the cut-off where Good-Turing cannot be estimated."""
TINY = 1e-300


def good_turing(spectrum: NDArray[np.int64], cutoff: int) -> tuple[float, ...] | None:
    """What is taken of the counts 0 to ``cutoff``, and 0.0, which is for all higher ones.

    Args:
        spectrum: (cutoff + 2,) numbers of n-grams by count.
        cutoff: counts above it are trusted as they are.

    Returns:
        None where a number to be divided by is 0, or a count would be left with nothing or with
        more than it was.
    """
    n = spectrum.astype(np.float64)
    if n[1 : cutoff + 1].min() == 0:
        return None
    cut = (cutoff + 1) * n[cutoff + 1] / n[1]
    if cut >= 1:
        return None
    r = np.arange(1, cutoff + 1)
    ratios = ((r + 1) * n[2:] / (r * n[1:-1]) - cut) / (1 - cut)
    if not ((ratios > 0) & (ratios <= 1)).all():
        return None
    return (0.0, *(r * (1 - ratios)).tolist(), 0.0)


def good_turing_fallback(cutoff: int) -> tuple[float, ...]:
    """A half of every count up to the cut-off."""
    return (0.0, *[HALF] * cutoff, 0.0)


def back_off(
    trie: Trie,
    counts: NDArray[np.int64],
    discounts: NDArray[np.float64],
    pruned: NDArray[np.bool_] | None = None,
    *,
    smooth: bool = True,
) -> Table:
    """The back-off model of some counts.

    Args:
        trie: T n-grams.
        counts: (T,) of what is counted.
        discounts: (order, R) what is taken by count.
        pruned: (T,) n-grams that will leave the table: all of their count is taken.
        smooth: leave something for unseen words after every context.
    """
    n_words = trie.n_words
    probabilities, weights = np.empty(len(counts)), np.ones(trie.numbers(trie.order).start)
    probabilities[:n_words] = _unigrams(counts[:n_words], discounts[0], smooth)
    for k in range(2, trie.order + 1):
        here, context = trie.numbers(k), trie.followed(k)
        dropped = None if pruned is None else pruned[here]
        free = taken(counts[here], discounts[k - 1], dropped)
        size = int(trie.sizes[k - 2])
        totals, left = np.bincount(context, counts[here], size), np.bincount(context, free, size)
        if smooth:
            stuck = (totals > 0) & (left == 0)
            totals, left = totals + stuck, left + stuck
        totals = np.maximum(totals, 1)
        probabilities[here] = (counts[here] - free) / totals[context]
        weigh(trie, k, probabilities, weights, left / totals, dropped)
    return Table(trie.sizes, trie.keys, probabilities, weights)


def weigh(
    trie: Trie,
    order: int,
    probabilities: NDArray[np.float64],
    weights: NDArray[np.float64],
    left: NDArray[np.float64],
    pruned: NDArray[np.bool_] | None,
) -> None:
    """Set the weights of contexts so that all words after each sum to 1, in place.

    Args:
        trie: T n-grams.
        order: of the n-grams that are listed; their contexts are a word shorter.
        probabilities: (T,) those of a context after which every word is listed are scaled.
        weights: those of the order below are set.
        left: by context, what the listed n-grams leave for all others.
        pruned: which n-grams of the order are not listed.
    """
    here, below, context = trie.numbers(order), trie.numbers(order - 1), trie.followed(order)
    listed = np.ones(len(context)) if pruned is None else 1.0 - pruned
    followers = np.bincount(context, listed, len(left))
    lower = np.bincount(context, listed * probabilities[trie.shorter(order)], len(left))
    complete = followers == trie.n_words - 1
    some = (followers > 0) & ~complete
    np.divide(left, np.maximum(1 - lower, TINY), out=weights[below], where=some)
    probabilities[here] /= np.where(complete, 1 - left, 1.0)[context]


def add_constant(trie: Trie, k: float, pruned: NDArray[np.bool_] | None = None) -> Table:
    """Add-k (Lidstone): ``P(w | c) = (r(c w) + k) / (r(c) + k (V - 1))``, in full contexts alone.

    All words unseen after a context are equally likely. So as a back-off table it lists n-grams
    of the highest order, and those that begin with ``<s>``, over lower orders that are uniform:
    the weight of a context is ``k (V - 1) / (r(c) + k (V - 1))``, of an unseen one 1.
    """
    words = trie.n_words - 1
    probabilities, weights = np.empty(len(trie.adjusted)), np.ones(trie.numbers(trie.order).start)
    for order in range(1, trie.order + 1):
        here = trie.numbers(order)
        counts = trie.adjusted[here]
        if order < trie.order:  # uniform, as if nothing had been counted
            counts = np.where(trie.begins(order), counts, 0)
        if order == 1:
            probabilities[here] = (counts + k) / (counts.sum() + k * words)
            probabilities[BOS] = 0.0
            continue
        context, dropped = trie.followed(order), None if pruned is None else pruned[here]
        size = int(trie.sizes[order - 2])
        gone = np.zeros(len(counts)) if dropped is None else 1.0 * dropped
        totals = np.bincount(context, counts, size) + k * words
        left = k * words - np.bincount(context, k - gone * (counts + k), size)
        probabilities[here] = (counts + k) / totals[context]
        weigh(trie, order, probabilities, weights, left / totals, dropped)
    return Table(trie.sizes, trie.keys, probabilities, weights)


def _unigrams(
    counts: NDArray[np.int64], discounts: NDArray[np.float64], smooth: bool
) -> NDArray[np.float64]:
    free = taken(counts, discounts, None)
    total, left, unseen = counts.sum(), free.sum(), counts == 0
    unseen[BOS] = False
    if unseen.any():
        if smooth and left == 0:
            total, left = total + 1, 1.0
    else:
        unseen[:] = True
        unseen[BOS] = False
    found: NDArray[np.float64] = (counts - free) / total
    found += unseen * (left / total / unseen.sum())
    return found
