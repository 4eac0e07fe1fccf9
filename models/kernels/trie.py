"""Kernels of the trie of n-grams: growing it from counts or from a text, and linking contexts.

All is in suffix order, as in ``models.kernels.ngram``. The plain reference, with dictionaries, is
``tests/models/ngram_reference.py``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from models.kernels.ngram import AHEAD, BOS
from models.kernels.words import prefetch
from models.threads import each, processors


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


def link(
    keys: NDArray[np.int64], first: NDArray[np.int64], bases: NDArray[np.int64]
) -> NDArray[np.int64]:
    """(nodes,) the node of every n-gram without its last word, its context; -1 for unigrams.

    Args:
        keys: of every node from ``bases[2]`` on, as ``grow`` returns them.
        first: (nodes + 1,) the first child of every node.
        bases: as for ``grow``.

    Returns:
        the contexts, with -2 where one is missing in the table.
    """
    n_words, threads = int(bases[2]), processors(len(keys))
    contexts = np.full(bases[-1], -1, np.int64)
    n_pairs = int(bases[min(3, len(bases) - 1)]) - n_words
    contexts[n_words : n_words + n_pairs] = keys[:n_pairs] % n_words
    for begin, end in pairwise(bases[2:-1].tolist()):
        cuts = [begin + (end - begin) * part // threads for part in range(threads + 1)]
        each(link_children, [(keys, first, n_words, *part, contexts) for part in pairwise(cuts)])
    return contexts


@njit(cache=True, nogil=True)
def link_children(
    keys: NDArray[np.int64],
    first: NDArray[np.int64],
    n_words: int,
    begin: int,
    end: int,
    contexts: NDArray[np.int64],
) -> None:
    """Write the contexts of the children of the nodes ``begin`` to ``end``, whose own are known.

    The context of ``w s`` is ``w s'`` with ``s'`` the context of ``s``: the children of a node are
    found among the children of its context, both ordered by their word.
    """
    for node in range(begin, end):
        ahead = contexts[min(node + AHEAD, end - 1)]
        prefetch(first, ahead)
        ahead = contexts[min(node + AHEAD // 2, end - 1)]
        if ahead >= 0:
            prefetch(keys, first[ahead] - n_words)
        shorter = contexts[node]
        at = first[shorter] - n_words if shorter >= 0 else 0
        last = first[shorter + 1] - n_words if shorter >= 0 else 0
        for child in range(first[node], first[node + 1]):
            wanted = keys[child - n_words] + (shorter - node) * n_words
            step = 1
            while at + step < last and keys[at + step] <= wanted:
                at += step
                step *= 2
            while step > 0:
                if at + step < last and keys[at + step] <= wanted:
                    at += step
                step //= 2
            contexts[child] = at + n_words if at < last and keys[at] == wanted else -2


# --- from a text ----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def compare_windows(
    stream: NDArray[np.int32],
    positions: NDArray[np.int32],
    begin: int,
    end: int,
    order: int,
    shapes: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """How windows at sorted positions differ from the ones before them.

    Args:
        stream: (N,) sentences, each as ``<s> words </s>``.
        positions: as ``sort_windows`` gives them.
        begin: the first row, whose last word is not that of the row before, and
        end: that behind the last.
        order: the width of a window.
        shapes: (rows, 2) takes how many last words a row shares with the one before it, and how
            many it has, ``<s>`` included.

    Returns:
        (order + 1,) how many distinct k-grams end the rows, by k.
    """
    sizes = np.zeros(order + 1, np.int64)
    for row in range(begin, end):
        prefetch(stream, np.int64(positions[min(row + AHEAD, end - 1)] - order + 1))
        here, before, shared, depth = positions[row], positions[max(begin, row - 1)], 0, 1
        while depth < order and stream[here - depth + 1] != BOS:
            depth += 1
        while row > begin and shared < depth and stream[here - shared] == stream[before - shared]:
            shared += 1
        shapes[row, 0], shapes[row, 1] = shared, depth
        for k in range(shared + 1, depth + 1):
            sizes[k] += 1
    return sizes


@njit(cache=True, nogil=True)
def number_places(
    positions: NDArray[np.int32],
    begin: int,
    end: int,
    shapes: NDArray[np.uint8],
    cursor: NDArray[np.int64],
    nodes: NDArray[Any],
) -> None:
    """Write at every position the nodes of the k-grams that end there, from 2 to order - 1 words.

    Args:
        positions: as ``sort_windows`` gives them.
        begin: as for ``compare_windows``.
        end: as there.
        shapes: as it wrote them.
        cursor: (order + 1,) the first node of each order here; it moves.
        nodes: (N, order - 2) takes the nodes; what is beyond ``<s>`` has no meaning.
    """
    path = np.zeros(nodes.shape[1] + 2, np.int64)
    for row in range(begin, end):
        prefetch(nodes, np.int64(positions[min(row + AHEAD, end - 1)]) * nodes.shape[1])
        for k in range(max(2, shapes[row, 0] + 1), min(len(path) - 1, shapes[row, 1]) + 1):
            path[k] = cursor[k]
            cursor[k] += 1
        for k in range(2, len(path)):
            nodes[positions[row], k - 2] = path[k]


@njit(cache=True, nogil=True)
def grow_text(
    stream: NDArray[np.int32],
    positions: NDArray[np.int32],
    begin: int,
    end: int,
    shapes: NDArray[np.uint8],
    cursor: NDArray[np.int64],
    nodes: NDArray[Any],
    n_words: int,
    keys: NDArray[np.int64],
    contexts: NDArray[Any],
    adjusted: NDArray[Any],
) -> None:
    """Write what ``grow`` and ``link`` find, for the n-grams of some rows.

    The context of an n-gram ends one position before it, where ``nodes`` says its node.

    Args:
        stream: as for ``compare_windows``.
        positions: as there.
        begin: as there.
        end: as there.
        shapes: as it wrote them.
        cursor: (order + 1,) the first node of each order here; it moves.
        nodes: as ``number_places`` wrote them, for all rows.
        n_words: V.
        keys: as ``grow`` returns them.
        contexts: (nodes,) as ``link`` returns them.
        adjusted: (nodes,) zeros; takes what ``grow`` returns.
    """
    order = len(cursor) - 1
    path = np.zeros(order + 1, np.int64)
    for row in range(begin, end):
        ahead = np.int64(positions[min(row + AHEAD, end - 1)])
        prefetch(stream, ahead - order + 1)
        prefetch(nodes, (ahead - 1) * nodes.shape[1])
        here, depth = positions[row], shapes[row, 1]
        for k in range(shapes[row, 0] + 1, depth + 1):
            word = np.int64(stream[here - k + 1])
            if k == 1:
                path[k] = word
                continue
            path[k] = cursor[k]
            cursor[k] += 1
            keys[path[k] - n_words] = path[k - 1] * n_words + word
            adjusted[path[k - 1]] += 1
            contexts[path[k]] = stream[here - 1] if k == 2 else nodes[here - 1, k - 3]
        adjusted[path[depth]] += 1
