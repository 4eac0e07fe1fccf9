"""Kernels of the unigram language model: all segmentations of every word, or the best one.

A word is a run of places; ``table[i, k]`` is the piece of ``k + 1`` characters that begins at place
``i``, or -1. A piece that was removed keeps its number and has log-probability minus infinity.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True)
def _add(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@njit(cache=True)
def expected_counts(table: NDArray[np.int32], starts: Ints, counts: Ints, logs: Floats) -> Floats:
    """(P,) how often each piece is expected, over all segmentations of all words.

    Args:
        table: (N, K) see the module.
        starts: (W + 1,) places at which words begin.
        counts: (W,) of the words.
        logs: (P,) log-probabilities.
    """
    width = table.shape[1]
    expected = np.zeros(len(logs))
    longest = 0
    for w in range(len(counts)):
        longest = max(longest, starts[w + 1] - starts[w])
    before, after = np.empty(longest + 1), np.empty(longest + 1)
    for w in range(len(counts)):
        begin = starts[w]
        n = starts[w + 1] - begin
        before[: n + 1] = -np.inf
        after[: n + 1] = -np.inf
        before[0] = after[n] = 0.0
        for i in range(n):
            for k in range(min(width, n - i)):
                piece = table[begin + i, k]
                if piece >= 0 and logs[piece] > -np.inf:
                    before[i + k + 1] = _add(before[i + k + 1], before[i] + logs[piece])
        for i in range(n - 1, -1, -1):
            for k in range(min(width, n - i)):
                piece = table[begin + i, k]
                if piece >= 0 and logs[piece] > -np.inf:
                    after[i] = _add(after[i], logs[piece] + after[i + k + 1])
                    share = before[i] + logs[piece] + after[i + k + 1] - before[n]
                    expected[piece] += counts[w] * math.exp(share)
    return expected


@njit(cache=True)
def _best(
    table: NDArray[np.int32], begin: int, n: int, logs: Floats, without: int, path: Ints
) -> int:
    """The best segmentation of a run that does not use one piece, backwards into ``path``.

    Returns:
        its number of pieces; 0 if there is none.
    """
    width = table.shape[1]
    score = np.full(n + 1, -np.inf)
    score[0] = 0.0
    last = np.full(n + 1, -1)
    for i in range(n):
        if score[i] == -np.inf:
            continue
        for k in range(min(width, n - i)):
            piece = table[begin + i, k]
            if piece >= 0 and piece != without and score[i] + logs[piece] > score[i + k + 1]:
                score[i + k + 1] = score[i] + logs[piece]
                last[i + k + 1] = k
    if n and last[n] < 0:
        return 0
    size, end = 0, n
    while end > 0:
        k = last[end]
        path[size] = table[begin + end - k - 1, k]
        size += 1
        end -= k + 1
    return size


@njit(cache=True)
def viterbi_counts(table: NDArray[np.int32], starts: Ints, counts: Ints, logs: Floats) -> Ints:
    """(P,) how often each piece is used if every word is cut in its most probable way."""
    used = np.zeros(len(logs), np.int64)
    longest = 0
    for w in range(len(counts)):
        longest = max(longest, starts[w + 1] - starts[w])
    path = np.empty(longest + 1, np.int64)
    for w in range(len(counts)):
        size = _best(table, starts[w], starts[w + 1] - starts[w], logs, -1, path)
        for i in range(size):
            used[path[i]] += counts[w]
    return used


@njit(cache=True)
def removal_losses(
    table: NDArray[np.int32], example: Ints, length: Ints, used: Ints, logs: Floats
) -> Floats:
    """(P,) the log-likelihood that is lost if a piece goes and its uses fall to others.

    Its uses fall to the best segmentation of the piece itself into others. Infinite where there is
    none; minus one for pieces that are never used.
    """
    losses = np.full(len(logs), -1.0)
    total = float(used.sum())
    path = np.empty(table.shape[1] + 1, np.int64)
    for piece in range(len(logs)):
        if used[piece] == 0 or logs[piece] == -np.inf:
            continue
        size = _best(table, example[piece], length[piece], logs, piece, path)
        if size == 0:
            losses[piece] = np.inf
            continue
        uses = float(used[piece])
        instead = 0.0
        rest = math.log(total + uses * (size - 1))
        for i in range(size):
            instead += math.log(used[path[i]] + uses) - rest
        losses[piece] = uses * (math.log(uses) - math.log(total) - instead)
    return losses
