"""Confidence intervals by the percentile bootstrap (Efron 1979), seeded and without a loop.

A resample is not drawn item by item: it is the row of counts of how often each item was drawn, and
every figure here is computed of weighted items. So ranks take one sort for all resamples, and
figures of several models on the same rows are paired by themselves.

Items that hang together are drawn together. The questions of an analogy section are made of every
two of its word pairs, so it is the word pairs that are drawn, and a question counts as often as
both of its pairs do (the pigeonhole bootstrap of Owen 2007, "The pigeonhole bootstrap", Annals of
Applied Statistics 1). Drawing questions as if they were independent gave intervals that are several
times too narrow.

Shapes: ``R`` resamples, ``n`` items, ``K`` models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
SEED = 1
BLOCK = 1 << 18
"""Weights that are held at a time; what stays in the cache is faster."""
METHOD = f"{LEVEL:.0%} percentile bootstrap, {RESAMPLES:,} resamples"

Figures = NDArray[np.float64]
Interval = tuple[float, float]


def resamples(n: int, *, size: int = 0, seed: Sequence[int] = (SEED,)) -> Iterator[Figures]:
    """How often each of n items is drawn, in blocks of rows, a row a resample, R rows in all.

    Args:
        n: items, at least one.
        size: what a row is blown up to by its user, if that is more than n.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    rows = max(1, BLOCK // max(n, size))
    for start in range(0, RESAMPLES, rows):
        count = min(rows, RESAMPLES - start)
        drawn = rng.integers(0, n, (count, n)) + n * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * n).reshape(count, n).astype(np.float64)


def interval(figures: Figures) -> Interval | None:
    """The middle 95 % of (R,) figures; None where they are undefined in every tenth resample."""
    finite = figures[np.isfinite(figures)]
    if len(finite) < 0.9 * len(figures) or not len(finite):
        return None
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(finite, [tail, 1 - tail])
    return float(low), float(high)


def spearmans(gold: Figures, values: Figures) -> Figures:
    """Spearman's correlations with average ranks for ties, of every resample.

    Args:
        gold: (n,).
        values: (n, K).

    Returns:
        (R, K), NaN where all that was drawn is equal.
    """
    columns = [gold, *values.T]
    ties = [_ties(column) for column in columns]
    found = []
    for weights in resamples(len(gold)):
        target, *others = [_centred_ranks(weights, *tie) for tie in ties]
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append(np.stack([_correlation(weights, target, x) for x in others], axis=1))
    return np.concatenate(found)


def _ties(values: Figures) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The order of values, where equal ones begin in it, and the group of each value."""
    order = np.argsort(values, kind="stable")
    _, starts, groups = np.unique(values, return_index=True, return_inverse=True)
    first = np.searchsorted(values[order], values[starts])
    return order, first, groups


def _centred_ranks(
    weights: Figures, order: NDArray[np.int64], first: NDArray[np.int64], groups: NDArray[np.int64]
) -> Figures:
    """(R, n) average ranks of weighted items, their mean taken off."""
    sums = np.add.reduceat(weights[:, order], first, axis=1)
    ranks = np.cumsum(sums, axis=1) - (sums - 1) / 2
    centred: Figures = ranks[:, groups] - (weights.shape[1] + 1) / 2
    return centred


def _correlation(weights: Figures, x: Figures, y: Figures) -> Figures:
    weighted = weights * x
    covariance = np.einsum("rn,rn->r", weighted, y)
    variances = np.einsum("rn,rn->r", weighted, x) * np.einsum("rn,rn,rn->r", weights, y, y)
    correlation: Figures = np.where(variances > 0, covariance / np.sqrt(variances), np.nan)
    return correlation


def ratios(parts: NDArray[Any], wholes: NDArray[Any]) -> Figures:
    """The sum of the parts over the sum of the wholes, of every resample.

    Args:
        parts: (n,) or (n, K), what each item adds: right answers.
        wholes: (n,), of how many.

    Returns:
        (R,) or (R, K).
    """
    found = []
    for weights in resamples(len(wholes)):
        with np.errstate(invalid="ignore"):
            found.append(((weights @ parts).T / (weights @ wholes)).T)
    return np.concatenate(found)


def crossed(sections: Sequence[tuple[NDArray[np.int64], NDArray[Any]]]) -> Figures:
    """The share of right answers to questions that are made of every two of some word pairs.

    Args:
        sections: for each the two pairs of every question, (Q, 2) ids from 0 on, and whether it
            was answered right, (Q, K). Pairs are drawn within their section.

    Returns:
        (R, K) shares; NaN where no question was drawn.
    """
    width = sections[0][1].shape[1]
    right, asked = np.zeros((RESAMPLES, width)), np.zeros(RESAMPLES)
    for number, (pairs, answers) in enumerate(sections):
        done = 0
        pool = 1 + int(pairs.max(initial=0))
        for weights in resamples(pool, size=len(pairs), seed=(SEED, number)):
            times = weights[:, pairs[:, 0]] * weights[:, pairs[:, 1]]
            right[done : done + len(times)] += times @ answers
            asked[done : done + len(times)] += times.sum(axis=1)
            done += len(times)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Figures = right / asked[:, None]
    return shares
