"""Leaving out n-grams: by count, and by how little the model changes without them.

*By count*, as in KenLM: an n-gram of order k goes if it occurs no more often than the threshold of
that order says; thresholds never fall from an order to the next, and unigrams stay. Discounts are
estimated before, and the counts that go are given to the shorter contexts.

*By entropy* (Stolcke 1998, "Entropy-based pruning of backoff language models"): without ``h w``,
and with a new weight ``b'(h)`` for its context, what follows ``h`` moves away from the model by ::

    D = -P(h) (P(w|h) (log P(w|h') + log b'(h) - log P(w|h)) + left(h) (log b'(h) - log b(h)))

where ``left`` is what all listed words leave. The n-gram goes if the perplexity rises by a share
below a threshold: ``exp(D) - 1 < threshold``. Each is judged as if it alone went, the longest
first, and afterwards the weights are computed anew so that all contexts still sum to 1. ``P(h)`` is
the model's own, that of ``<s>`` taken to be that of ``</s>``.

An n-gram stays whole where a longer one that stays begins with it or ends with it: the trie is read
from the last word to the first.

Shapes: ``V`` vocabulary, ``T`` n-grams of all orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, EOS, Table
from models.trie import Trie


def by_count(trie: Trie, thresholds: Sequence[int]) -> NDArray[np.bool_] | None:
    """(T,) which n-grams occur no more often than their order's threshold; None where none may.

    Args:
        trie: T n-grams.
        thresholds: by order from the unigrams' 0 on; the last one is for all higher orders too.
    """
    if not any(thresholds):
        return None
    counts, pruned = trie.counts(), np.zeros(len(trie.adjusted), np.bool_)
    for k in range(2, trie.order + 1):
        here = trie.numbers(k)
        pruned[here] = counts[here] <= thresholds[min(k, len(thresholds)) - 1]
    return pruned


def by_entropy(
    table: Table, contexts: NDArray[np.int64], threshold: float
) -> tuple[Table, NDArray[np.bool_]]:
    """The table with its new weights, and (T,) which of its n-grams can leave it.

    Args:
        table: T n-grams.
        contexts: (T,) the number of each without its last word.
        threshold: the share by which the perplexity may rise for an n-gram.
    """
    n_words, joint = int(table.sizes[0]), _joint(table, contexts)
    pruned, needed = (np.zeros(len(contexts), np.bool_) for _ in range(2))
    weights = table.weights.copy()
    for k in range(table.order, 1, -1):
        here, below = table.numbers(k), table.numbers(k - 1)
        context, size = contexts[here] - below.start, int(table.sizes[k - 2])
        shorter = table.keys[here.start - n_words : here.stop - n_words] // n_words
        own, lower = table.probabilities[here], table.probabilities[shorter]
        rest = np.maximum(1 - np.bincount(context, lower, size), 0.0)
        left = table.weights[below] * rest
        cost = _cost(own, lower, left[context], rest[context], joint[below][context])
        gone = (np.expm1(cost) < threshold) & ~needed[here]
        changed = np.bincount(context, gone, size) > 0
        # What is left in place of what was, with the n-grams that go: no difference of near 1s.
        left = left + np.bincount(context, own * gone, size)
        rest = rest + np.bincount(context, lower * gone, size)
        np.divide(left, rest, out=weights[below], where=changed & (rest > 0))
        needed[contexts[here][~gone]] = True
        needed[shorter[~gone]] = True
        pruned[here] = gone
    return Table(table.sizes, table.keys, table.probabilities, weights), pruned


def without(table: Table, pruned: NDArray[np.bool_]) -> Table:
    """The table without some n-grams, none of which a longer one that stays begins or ends with."""
    kept, n_words = ~pruned, int(table.sizes[0])
    number = np.cumsum(kept) - 1
    ends = np.cumsum(table.sizes)
    sizes = np.diff(np.concatenate([[0], number[ends - 1] + 1]))
    shorter, first = np.divmod(table.keys[kept[n_words:]], n_words)
    return Table(
        sizes.astype(np.int64),
        number[shorter] * n_words + first,
        table.probabilities[kept],
        table.weights[kept[: len(table.weights)]],
    )


def kept_contexts(contexts: NDArray[np.int64], pruned: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The contexts of the n-grams that stay, as they are numbered in the table without the rest."""
    number = np.cumsum(~pruned) - 1
    contexts = contexts[~pruned]
    return np.where(contexts >= 0, number[contexts], -1)


def _joint(table: Table, contexts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(T,) the probability of all words of an n-gram, one after another."""
    joint = table.probabilities.copy()
    joint[BOS] = joint[EOS]
    for k in range(2, table.order + 1):
        here = table.numbers(k)
        joint[here] *= joint[contexts[here]]
    return joint


def _cost(
    own: NDArray[np.float64],
    lower: NDArray[np.float64],
    left: NDArray[np.float64],
    rest: NDArray[np.float64],
    context: NDArray[np.float64],
) -> NDArray[np.float64]:
    """(M,) nats by which the model moves away, for each of some n-grams of one order.

    Args:
        own: their probabilities.
        lower: the same after the shorter contexts.
        left: what the listed words of their contexts leave,
        rest: and what the same words leave after the shorter contexts.
        context: the probability of the context itself.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        new = np.log(left + own) - np.log(rest + lower)
        word = own * (np.log(lower) + new - np.log(own))
        other = left * (new - np.log(left) + np.log(rest))
    moved: NDArray[np.float64] = np.where(own > 0, word, 0.0)
    moved += np.where((left > 0) & (rest > 0), other, 0.0)
    return -context * moved
