"""Kernels of n-gram counting: sorting windows and rows, adding up, merging.

Everything here is in *suffix order*: n-grams compare by their last word, then the one before it,
and so on. In that order the n-grams that share their last k words stand together, so one sort
serves all orders at once ("1-Sort", Pibiri & Venturini 2019), and a window over a text is sorted
from the windows that are one word shorter, of which the order is known.

The plain reference, with dictionaries, is ``tests/models/ngram_reference.py``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from models.kernels.words import prefetch
from models.threads import each

BOS, EOS = 1, 2
"""The ids of ``<s>`` and ``</s>``."""
AHEAD = 16
"""So many rows before its turn what a row needs is fetched; twice as many took as long."""


def sort_windows(
    stream: NDArray[np.int32], order: int, n_ids: int, threads: int = 1
) -> NDArray[np.int32]:
    """The positions of all words that are predicted, sorted by the windows that end there.

    The order by k words is the order by k - 1 words of the positions before, sorted stably by the
    word itself: ``order`` counting sorts of positions, whatever the number of words. A thread takes
    the positions of a range of words along; as these are the same at every turn, where they go is
    counted once.

    Args:
        stream: (N,) sentences, each as ``<s> words </s>``, read-only.
        order: the width of a window; to the left of ``<s>`` there is only more of it.
        n_ids: ids are smaller than this.
        threads: that work on it.
    """
    starts, firsts = count_places(stream, n_ids)
    cuts = np.searchsorted(starts, starts[-1] * np.arange(1, threads) // threads)
    words = list(pairwise([0, *cuts.tolist(), n_ids]))
    positions, shorter = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    each(place_words, [(stream, *part, starts[:-1].copy(), positions) for part in words])
    follow = np.array(each(count_next, [(stream, *part, n_ids) for part in words]))
    ahead = starts[:-1] + np.cumsum(follow, 0) - follow
    unknown = count_next(stream, 0, BOS, n_ids)
    for turn in range(order - 1):
        positions, shorter = shorter, positions
        if turn < 2:  # they stay where they are
            place_firsts(stream, starts[:-1] + unknown, positions)
        rows = [shorter[starts[low] : starts[high]] for low, high in words]
        each(
            place_longer,
            [(stream, *part, firsts, positions) for part in zip(rows, ahead.copy(), strict=True)],
        )
    return positions


@njit(cache=True, nogil=True)
def count_places(
    stream: NDArray[np.int32], n_ids: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n_ids + 1,) where the positions of each word begin, (n_ids,) how many of them are first."""
    starts, firsts = np.zeros(n_ids + 1, np.int64), np.zeros(n_ids, np.int64)
    for i in range(1, len(stream)):
        word = stream[i]
        starts[word + 1] += word != BOS
        firsts[word] += stream[i - 1] == BOS
    return np.cumsum(starts), firsts


@njit(cache=True, nogil=True)
def place_words(
    stream: NDArray[np.int32], low: int, high: int, at: NDArray[np.int64], out: NDArray[np.int32]
) -> None:
    """Write the positions of the words of a range; ``at`` says where, by word, and moves."""
    for i in range(len(stream)):
        word = stream[i]
        if low <= word < high and word != BOS:
            out[at[word]] = i
            at[word] += 1


@njit(cache=True, nogil=True)
def count_next(stream: NDArray[np.int32], low: int, high: int, n_ids: int) -> NDArray[np.int64]:
    """(n_ids,) how often each word follows the words of a range, marks left out."""
    counts = np.zeros(n_ids, np.int64)
    for i in range(len(stream) - 1):
        word = stream[i]
        counts[stream[i + 1]] += low <= word < high and word != BOS and word != EOS
    return counts


@njit(cache=True, nogil=True)
def place_firsts(stream: NDArray[np.int32], at: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    """Write the positions of the first words of sentences; ``at`` says where, and moves."""
    for i in range(1, len(stream)):
        if stream[i - 1] == BOS:
            word = stream[i]
            out[at[word]] = i
            at[word] += 1


@njit(cache=True, nogil=True)
def place_longer(
    stream: NDArray[np.int32],
    shorter: NDArray[np.int32],
    at: NDArray[np.int64],
    firsts: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None:
    """Write the positions behind those that are sorted; ``at`` says where, by word, and moves.

    What stands first in a sentence comes behind ``<unk>``, before all else: room is left for it.
    """
    left, last = False, len(shorter) - 1
    for row in range(len(shorter)):
        before = shorter[row]
        # A row is read and written at random: both places are fetched in time for it.
        prefetch(stream, np.int64(shorter[min(row + 2 * AHEAD, last)]))
        follows = min(shorter[min(row + AHEAD, last)] + 1, len(stream) - 1)
        prefetch(out, at[stream[follows]])
        if not left and stream[before] > BOS:
            at += firsts
            left = True
        if stream[before] != EOS:
            word = stream[before + 1]
            out[at[word]] = before + 1
            at[word] += 1


@njit(cache=True, nogil=True)
def distinct_windows(
    stream: NDArray[np.int32], positions: NDArray[np.int32], order: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct windows at sorted positions, (M, order), and (M,) how often each occurs."""
    ngrams = np.empty((len(positions), order), np.int32)
    counts = np.zeros(len(positions), np.int64)
    last = -1
    for row in range(len(positions)):
        end = positions[row]
        same = row > 0
        begun = False
        for k in range(order):
            if not same:
                break
            word = stream[end - k]
            same = word == stream[positions[row - 1] - k]
            if word == BOS:
                break
        if not same:
            last += 1
            for k in range(order):
                begun = begun or stream[end - k] == BOS
                ngrams[last, order - 1 - k] = BOS if begun else stream[end - k]
        counts[last] += 1
    return ngrams[: last + 1], counts[: last + 1]


@njit(cache=True, nogil=True)
def sort_rows(ngrams: NDArray[np.int32], n_ids: int) -> NDArray[np.int64]:
    """The stable permutation that puts n-grams in suffix order."""
    n_rows, order = ngrams.shape
    rows = np.arange(n_rows)
    before = np.empty(n_rows, np.int64)
    for column in range(order):
        rows, before = before, rows
        cursor = np.zeros(n_ids + 1, np.int64)
        for row in range(n_rows):
            cursor[ngrams[row, column] + 1] += 1
        cursor = np.cumsum(cursor)
        for at in range(n_rows):
            word = ngrams[before[at], column]
            rows[cursor[word]] = before[at]
            cursor[word] += 1
    return rows


@njit(cache=True, nogil=True)
def compare(a: NDArray[np.int32], i: int, b: NDArray[np.int32], j: int) -> int:
    """-1, 0 or 1 as row i of a stands before, equals or stands behind row j of b."""
    for column in range(a.shape[1] - 1, -1, -1):
        if a[i, column] != b[j, column]:
            return -1 if a[i, column] < b[j, column] else 1
    return 0


@njit(cache=True, nogil=True)
def splits(
    ngrams: NDArray[np.int32], begins: NDArray[np.int64], ends: NDArray[np.int64], column: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Cut stretches of sorted rows wherever the word in a column changes.

    Args:
        ngrams: (M, order) rows that, within a stretch, are equal behind the column.
        begins: (S,) and
        ends: (S,) of the stretches, none of which is empty.
        column: counted from 0.

    Returns:
        the word, the begin and the end of each of the finer stretches.
    """
    n = 0
    for s in range(len(begins)):
        for row in range(begins[s], ends[s]):
            n += row == begins[s] or ngrams[row, column] != ngrams[row - 1, column]
    words, firsts, lasts = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for s in range(len(begins)):
        for row in range(begins[s], ends[s]):
            if row == begins[s] or ngrams[row, column] != ngrams[row - 1, column]:
                words[n], firsts[n] = ngrams[row, column], row
                n += 1
            lasts[n - 1] = row + 1
    return words, firsts, lasts


@njit(cache=True, nogil=True)
def gather_rows(
    ngrams: NDArray[np.int32],
    counts: NDArray[np.int64],
    stretches: tuple[NDArray[np.int64], NDArray[np.int64]],
    names: NDArray[np.int32],
    out: NDArray[np.int32],
    sums: NDArray[np.int64],
    at: int,
) -> int:
    """Copy stretches of a table, its words renamed; returns where they end.

    Args:
        ngrams: (M, order) and
        counts: (M,) the table.
        stretches: where they begin, and where they end.
        names: the new id of every word.
        out: takes the rows, and
        sums: their counts.
        at: where in them.
    """
    begins, ends = stretches
    for s in range(len(begins)):
        for row in range(begins[s], ends[s]):
            for column in range(ngrams.shape[1]):
                out[at, column] = names[ngrams[row, column]]
            sums[at] = counts[row]
            at += 1
    return at


@njit(cache=True, nogil=True)
def add_equal(
    ngrams: NDArray[np.int32], counts: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct n-grams of a table in the order of ``rows``, which puts equal ones together."""
    out = np.empty_like(ngrams)
    sums = np.zeros_like(counts)
    last = -1
    for at in range(len(rows)):
        row = rows[at]
        if at == 0 or compare(ngrams, row, ngrams, rows[at - 1]) != 0:
            last += 1
            out[last] = ngrams[row]
        sums[last] += counts[row]
    return out[: last + 1], sums[: last + 1]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: kernels are compiled once for mapped files and for arrays in memory."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
