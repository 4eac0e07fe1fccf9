"""Kernels of n-gram counting and of the n-gram model: sorting, merging, and growing the trie.

Everything here is in *suffix order*: n-grams compare by their last word, then the one before it,
and so on. In that order the n-grams that share their last k words stand together, so one sort
serves all orders at once ("1-Sort", Pibiri & Venturini 2019), and a window over a text is sorted
from the windows that are one word shorter, of which the order is known.

The plain reference, with dictionaries, is ``tests/models/ngram_reference.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

BOS, EOS = 1, 2
"""The ids of ``<s>`` and ``</s>``."""


@njit(cache=True, nogil=True)
def sort_windows(stream: NDArray[np.int32], order: int, n_ids: int) -> NDArray[np.int32]:
    """The positions of all words that are predicted, sorted by the windows that end there.

    The order by k words is the order by k - 1 words of the positions before, sorted stably by the
    word itself: ``order`` counting sorts of positions, whatever the number of words.

    Args:
        stream: (N,) sentences, each as ``<s> words </s>``; words have ids over 2.
        order: the width of a window; to the left of ``<s>`` there is only more of it.
        n_ids: ids are smaller than this.
    """
    starts = np.zeros(n_ids + 1, np.int64)
    for word in stream:
        if word != BOS:
            starts[word + 1] += 1
    starts = np.cumsum(starts)
    positions = np.empty(starts[n_ids], np.int32)
    shorter = np.empty(starts[n_ids], np.int32)
    cursor = starts.copy()
    for i in range(len(stream)):
        word = stream[i]
        if word != BOS:
            positions[cursor[word]] = i
            cursor[word] += 1
    for _ in range(order - 1):
        positions, shorter = shorter, positions
        cursor[:] = starts
        # <s> is the smallest word that comes before another, and all that begins there is equal.
        for i in range(1, len(stream)):
            if stream[i - 1] == BOS:
                word = stream[i]
                positions[cursor[word]] = i
                cursor[word] += 1
        for before in shorter:
            if stream[before] != EOS:
                word = stream[before + 1]
                positions[cursor[word]] = before + 1
                cursor[word] += 1
    return positions


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


# --- the trie -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def shared_words(ngrams: NDArray[np.int32], row: int) -> int:
    """How many last words a row shares with the row before it."""
    order = ngrams.shape[1]
    k = 0
    while row > 0 and k < order and ngrams[row, order - 1 - k] == ngrams[row - 1, order - 1 - k]:
        k += 1
    return k


@njit(cache=True, nogil=True)
def level_sizes(ngrams: NDArray[np.int32]) -> NDArray[np.int64]:
    """(order + 1,) how many distinct k-grams with at most one ``<s>`` end the rows, by k."""
    order = ngrams.shape[1]
    sizes = np.zeros(order + 1, np.int64)
    for row in range(len(ngrams)):
        for k in range(shared_words(ngrams, row) + 1, order + 1):
            sizes[k] += 1
            if ngrams[row, order - k] == BOS:
                break
    return sizes


@njit(cache=True, nogil=True)
def grow(
    ngrams: NDArray[np.int32], counts: NDArray[np.int64], bases: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The trie of all k-grams that end the rows, read from right to left.

    The node of a unigram is its word. The nodes of order k are numbered from ``bases[k]`` in
    suffix order, so the children of a node (k-grams with one more word on the left) are
    neighbours, ordered by that word.

    Args:
        ngrams: (M, order) in suffix order.
        counts: (M,) their counts.
        bases: (order + 2,), the last is the number of nodes; ``bases[2]`` is that of the words.

    Returns:
        ``keys``, of every node from ``bases[2]`` on: parent * words + word; sorted.
        ``children``, (nodes,) of every node.
        ``adjusted``, (nodes,) the adjusted counts of Kneser and Ney: the count of an n-gram of
        the highest order or one that begins with ``<s>``, else the number of words seen before it.
    """
    order, n_words, n_nodes = ngrams.shape[1], bases[2], bases[-1]
    keys = np.empty(n_nodes - n_words, np.int64)
    children = np.zeros(n_nodes, np.int64)
    adjusted = np.zeros(n_nodes, np.int64)
    path = np.zeros(order + 1, np.int64)
    cursor = bases.copy()
    for row in range(len(ngrams)):
        for k in range(shared_words(ngrams, row) + 1, order + 1):
            word = ngrams[row, order - k]
            if k == 1:
                path[k] = word
            else:
                path[k] = cursor[k]
                cursor[k] += 1
                keys[path[k] - n_words] = path[k - 1] * n_words + word
                children[path[k - 1]] += 1
                adjusted[path[k - 1]] += 1
            if k == order or word == BOS:
                adjusted[path[k]] = counts[row]
                break
    return keys, children, adjusted


@njit(cache=True, nogil=True)
def link(
    keys: NDArray[np.int64], first: NDArray[np.int64], bases: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(nodes,) the node of every n-gram without its last word, its context; -1 for unigrams.

    The context of ``w s`` is ``w s'`` with ``s'`` the context of ``s``: the children of a node are
    found among the children of its context, both ordered by their word.

    Args:
        keys: of every node from ``bases[2]`` on, as ``grow`` returns them.
        first: (nodes + 1,) the first child of every node.
        bases: as for ``grow``.

    Returns:
        the contexts, with -2 where one is missing in the table.
    """
    n_words, n_nodes = bases[2], bases[-1]
    context = np.full(n_nodes, -1, np.int64)
    for node in range(n_words, bases[3] if len(bases) > 3 else n_nodes):
        context[node] = keys[node - n_words] % n_words
    for node in range(n_words, bases[-2]):
        shorter = context[node]
        at = first[shorter] - n_words if shorter >= 0 else 0
        end = first[shorter + 1] - n_words if shorter >= 0 else 0
        for child in range(first[node], first[node + 1]):
            wanted = keys[child - n_words] + (shorter - node) * n_words
            step = 1
            while at + step < end and keys[at + step] <= wanted:
                at += step
                step *= 2
            while step > 0:
                if at + step < end and keys[at + step] <= wanted:
                    at += step
                step //= 2
            context[child] = at + n_words if at < end and keys[at] == wanted else -2
    return context


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: kernels are compiled once for mapped files and for arrays in memory."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
