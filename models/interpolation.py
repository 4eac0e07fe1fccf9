"""Deleted interpolation (Jelinek & Mercer 1980; Bahl, Jelinek & Mercer 1983), recursively.

With ``f`` the relative frequencies in the training text and ``b(c)`` the bucket of a context::

    P(w | c) = L_b(c) f(w | c) + (1 - L_b(c)) P(w | c')

down to the uniform distribution; an unseen context has the weight 0. A bucket holds contexts that
deserve about equal trust: those that occur about equally often (the first papers, and Bengio et al.
2003), or whose words occur about equally often on average (Chen & Goodman 1998, found better).

The weights make held-out text as likely as can be, by EM over all orders at once: a word is thought
to come down from the longest context, staying at each order with the probability of its weight.
Neither step lowers the likelihood, and a weight is never above ``MOST``, so something is always
left for what was never seen.

Buckets are half-octaves of the count or the average, joined from below until each has met
``LEAST`` words of the held-out text.

Shapes: ``N`` words of held-out text with the ends of sentences, ``T`` n-grams of all orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, Table
from models.text import Sentences
from models.trie import Trie

Buckets = Literal["count", "average-count"]
Floats = NDArray[np.float64]

MOST = 1 - 1e-6
"""The largest weight of a context's own frequencies."""
LEAST = 100
"""Held-out words that a bucket has met, at least, unless there is no other."""
ROUNDS = 200
CLOSE = 1e-6
"""EM ends when a round raises the mean log-likelihood by less, in nats."""


@dataclass(frozen=True, eq=False)
class Level:
    """What held-out words meet at an order.

    Attributes:
        own: (N,) their frequencies after their contexts; 0 for pruned n-grams.
        share: (N,) what all listed n-grams of the context sum to: 1 but for pruned ones.
        bucket: (N,) of the context; the last one is that of contexts that are not in the trie.
        n_buckets: without this last one.
    """

    own: Floats
    share: Floats
    bucket: NDArray[np.int64]
    n_buckets: int


@dataclass(frozen=True, eq=False)
class Fitted:
    """The weights that EM found.

    Attributes:
        weights: by order, (buckets,).
        log_likelihoods: the mean in nats before every round, and at the end.
    """

    weights: tuple[Floats, ...]
    log_likelihoods: tuple[float, ...]


def fit_weights(levels: Sequence[Level], uniform: float, *, rounds: int = ROUNDS) -> Fitted:
    """The weights that make held-out words most likely, from one half each."""
    weights = [np.append(np.full(level.n_buckets, 0.5), 0.0) for level in levels]
    history: list[float] = []
    while True:
        ladder = [np.full(len(levels[0].own), uniform)]
        for level, weight in zip(levels, weights, strict=True):
            chosen = weight[level.bucket]
            ladder.append(chosen * level.own + (1 - chosen * level.share) * ladder[-1])
        history.append(float(np.log(ladder[-1]).mean()))
        if len(history) > rounds or (len(history) > 1 and history[-1] - history[-2] < CLOSE):
            return Fitted(tuple(weight[:-1] for weight in weights), tuple(history))
        weights = _expected(levels, weights, ladder)


def _expected(
    levels: Sequence[Level], weights: Sequence[Floats], ladder: Sequence[Floats]
) -> list[Floats]:
    """One round: how often words stay at an order, of those that come down to it."""
    arriving, found = np.ones(len(levels[0].own)), []
    for k in range(len(levels) - 1, -1, -1):
        level, below, here = levels[k], ladder[k], ladder[k + 1]
        chosen = weights[k][level.bucket]
        # What stays and meets a pruned n-gram goes down all the same.
        staying = arriving * chosen * (level.own + (1 - level.share) * below) / here
        stayed = np.bincount(level.bucket, staying, level.n_buckets + 1)
        came = np.bincount(level.bucket, arriving, level.n_buckets + 1)
        weight = weights[k].copy()
        np.divide(stayed, came, out=weight, where=came > 0)
        weight[-1] = 0.0
        found.append(np.minimum(weight, MOST))
        arriving = arriving * (1 - chosen * level.share) * below / here
    return found[::-1]


class Frequencies:
    """Relative frequencies of all n-grams, and the buckets of all contexts.

    Args:
        trie: T n-grams.
        pruned: (T,) those that will leave the table; their frequencies are 0.
        by: what contexts are told apart by.
    """

    def __init__(self, trie: Trie, pruned: NDArray[np.bool_] | None, by: Buckets) -> None:
        self.trie = trie
        counts = trie.counts()
        unigrams = counts[: trie.n_words]
        self.own = [unigrams / unigrams.sum()]
        self.shares, self.steps = [np.ones(1)], [np.zeros(1, np.int64)]
        for k in range(2, trie.order + 1):
            here, context, size = trie.numbers(k), trie.followed(k), int(trie.sizes[k - 2])
            totals = np.bincount(context, counts[here], size)
            kept = counts[here] if pruned is None else np.where(pruned[here], 0, counts[here])
            words = np.bincount(context, minlength=size) if by == "average-count" else 1
            trust = totals / np.maximum(1, words)
            self.own.append(kept / totals[context])
            self.shares.append(np.bincount(context, kept, size) / np.maximum(1, totals))
            steps = np.floor(2 * np.log2(np.maximum(1, trust))).astype(np.int64)
            self.steps.append(np.where(totals > 0, steps, -1))

    def levels(self, heldout: Iterable[Sentences]) -> tuple[list[Level], list[NDArray[np.int64]]]:
        """What held-out text meets, by order; and the buckets of the steps, (steps,) by order.

        Raises:
            ValueError: there is no held-out text.
        """
        traces = [self.trie.trace(sentences) for sentences in heldout if len(sentences)]
        if not traces:
            raise ValueError(
                "deleted interpolation fits its weights to held-out text, and there is none; "
                "give a valid split"
            )
        found, contexts = (np.concatenate(parts, axis=1) for parts in zip(*traces, strict=True))
        levels, joined = [], []
        for k, (number, context) in enumerate(zip(found, contexts, strict=True), 1):
            own, share, step = np.zeros(len(number)), np.ones(len(number)), np.full(len(number), -1)
            known = number >= 0
            own[known] = self.own[k - 1][number[known] - self.trie.numbers(k).start]
            if k == 1:
                step[:] = 0
            else:
                known = context >= 0
                at = context[known] - self.trie.numbers(k - 1).start
                share[known], step[known] = self.shares[k - 1][at], self.steps[k - 1][at]
            buckets = _join(step, int(self.steps[k - 1].max(initial=0)) + 1)
            n_buckets = int(buckets.max()) + 1
            bucket = np.where(step >= 0, buckets[np.maximum(step, 0)], n_buckets)
            levels.append(Level(own, share, bucket, n_buckets))
            joined.append(buckets)
        return levels, joined

    def table(self, weights: Sequence[Floats], joined: Sequence[NDArray[np.int64]]) -> Table:
        """The model with weights by order and bucket."""
        trie, words = self.trie, self.trie.n_words - 1
        own, backing = np.empty(len(trie.adjusted)), np.ones(trie.numbers(trie.order).start)
        own[: trie.n_words] = weights[0][0] * self.own[0] + (1 - weights[0][0]) / words
        own[BOS] = 0.0
        for k in range(2, trie.order + 1):
            here, context, steps = trie.numbers(k), trie.followed(k), self.steps[k - 1]
            chosen = np.where(steps >= 0, weights[k - 1][joined[k - 1][np.maximum(steps, 0)]], 0.0)
            left = 1 - chosen * self.shares[k - 1]
            backing[trie.numbers(k - 1)] = left
            own[here] = chosen[context] * self.own[k - 1]
            own[here] += left[context] * own[trie.shorter(k)]
        return Table(trie.sizes, trie.keys, own, backing)


def _join(steps: NDArray[np.int64], n_steps: int) -> NDArray[np.int64]:
    """(n_steps,) the bucket of every step, by how many held-out words are on each (-1: none)."""
    met = np.bincount(steps[steps >= 0], minlength=n_steps)
    buckets, bucket, size = np.zeros(len(met), np.int64), 0, 0
    for step, n in enumerate(met.tolist()):
        if size >= LEAST:
            bucket, size = bucket + 1, 0
        buckets[step] = bucket
        size += n
    if bucket > 0 and size < LEAST:  # the last one has met too few
        buckets[buckets == bucket] = bucket - 1
    return buckets
