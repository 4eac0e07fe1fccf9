"""Kernels of the back-off table: probabilities of text and of all next words.

Text is scored in blocks. Within a block all n-grams of two words are looked up, then those of three
words of which the last two were found, and so on: look-ups that do not wait for each other, so the
processor fetches for many of them at once. A block's nodes stay in its caches. What is known after
a word is at the same time the context of the next word, so contexts cost no look-ups of their own
(as in KenLM, Heafield 2011).

An n-gram is looked up by hashing with linear probing. Keys are scattered by a multiplication that
can be undone; a slot is 8 bytes, the number of the n-gram and the low half of its scattered key.
The high half is where the slot lies, so a slot tells exactly which key is there.

The plain reference is ``models.backoff.Table.plain_log_prob``.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

BOS = 1
BLOCK = 1 << 10
"""Tokens of a block; with 256 and 512 times differed by less than a tenth."""

_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def fill(
    keys: NDArray[np.int64], n_words: int, width: int, bits: int, slots: NDArray[np.uint64]
) -> int:
    """Write a hash table of n-grams by their keys; returns the longest way to a free slot.

    Args:
        keys: as in ``models.backoff.Table``.
        n_words: V, the number of the first key's n-gram.
        width: no key that is asked for is above ``2**width``.
        bits: log2 of how many slots there are.
        slots: (2**bits,) zeros, more than there are keys by far.
    """
    mask, shift, wrap = _ones(width), np.uint64(width - bits), _ones(bits)
    longest = 0
    for i in range(len(keys)):
        scattered = (np.uint64(keys[i]) * _SCATTER) & mask
        at, way = scattered >> shift, 0
        while slots[at] != 0:
            at = (at + _ONE) & wrap
            way += 1
        longest = max(longest, way)
        slots[at] = (scattered << _HALF) | np.uint64(i + n_words)
    return longest


@njit(cache=True, nogil=True)
def _ones(bits: int) -> np.uint64:
    ones: np.uint64 = (_ONE << np.uint64(bits)) - _ONE
    return ones


@njit(cache=True, nogil=True)
def find(slots: NDArray[np.uint64], scattered: np.uint64, at: np.uint64) -> np.uint64:
    """The number of an n-gram by its scattered key, searched from a slot on; 0 if absent."""
    wrap, wanted = np.uint64(len(slots) - 1), scattered & _LOW
    slot = slots[at]
    while slot != 0:
        if slot >> _HALF == wanted:
            number: np.uint64 = slot & _LOW
            return number
        at = (at + _ONE) & wrap
        slot = slots[at]
    return np.uint64(0)


@njit(cache=True, nogil=True)
def score_stream(
    stream: NDArray[np.int32],
    order: int,
    slots: NDArray[np.uint64],
    width: int,
    bits: int,
    probabilities: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_words: int,
    out: NDArray[np.float64],
) -> None:
    """Write the probability of every word of a stream but ``<s>``.

    Args:
        stream: (N + 2 S,) sentences, each as ``<s> words </s>``.
        order: the highest order.
        slots: as ``fill`` wrote them.
        width: as there.
        bits: as there.
        probabilities: as in ``models.backoff.Table``.
        weights: as in the table.
        n_words: V.
        out: (N + S,).
    """
    mask, shift = _ones(width), np.uint64(width - bits)
    # Row 0 is the last word before the block.
    nodes = np.empty((BLOCK + 1, order + 1), np.uint32)
    lengths = np.zeros(BLOCK + 1, np.int64)
    known, waiting = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    scattered, read = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    written = 0
    for begin in range(0, len(stream), BLOCK):
        size = min(BLOCK, len(stream) - begin)
        n_known = 0
        for i in range(size):
            word = stream[begin + i]
            nodes[i + 1, 1] = word
            lengths[i + 1] = 1
            known[n_known] = i
            n_known += word != BOS
        for k in range(2, order + 1):
            for j in range(n_known):
                i = known[j]
                # An n-gram that begins with <s> is never longer: none crosses into a sentence.
                first = np.uint64(stream[max(0, begin + i - k + 1)])
                key = np.uint64(nodes[i + 1, k - 1]) * np.uint64(n_words) + first
                scattered[j] = (key * _SCATTER) & mask
                read[j] = slots[scattered[j] >> shift]
            # Most are decided by their first slot: without a branch, as none could be foretold.
            n_waiting = 0
            for j in range(n_known):
                slot = read[j]
                hit = (slot != 0) & (slot >> _HALF == scattered[j] & _LOW)
                nodes[known[j] + 1, k] = (slot & _LOW) * hit
                waiting[n_waiting] = j
                n_waiting += (slot != 0) & (not hit)
            for o in range(n_waiting):
                j = waiting[o]
                at = ((scattered[j] >> shift) + _ONE) & np.uint64(len(slots) - 1)
                nodes[known[j] + 1, k] = find(slots, scattered[j], at)
            n_longer = 0
            for j in range(n_known):
                i = known[j]
                found = nodes[i + 1, k] != 0
                lengths[i + 1] += found
                known[n_longer] = i
                n_longer += found
            n_known = n_longer
        for i in range(size):
            out[written] = probabilities[nodes[i + 1, lengths[i + 1]]]
            known[i] = written
            written += nodes[i + 1, 1] != BOS
        for i in range(size):
            if nodes[i + 1, 1] != BOS:
                for context in range(lengths[i + 1], min(lengths[i], order - 1) + 1):
                    out[known[i]] *= weights[nodes[i, context]]
        nodes[0], lengths[0] = nodes[size], lengths[size]


@njit(cache=True, nogil=True)
def score_next(
    contexts: NDArray[np.int32],
    order: int,
    slots: NDArray[np.uint64],
    width: int,
    bits: int,
    probabilities: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_words: int,
) -> NDArray[np.float64]:
    """(S, V) the probability of every next word after (S, n) contexts.

    The arguments are those of ``score_stream``; contexts are filled on the left with ``<s>``.
    """
    mask, shift = _ones(width), np.uint64(width - bits)
    out = np.empty((len(contexts), n_words), np.float64)
    nodes = np.zeros(order + 1, np.uint64)  # of the context, by its length
    for text in range(len(contexts)):
        words = contexts[text, ::-1]
        length = 0  # words of the longest known context
        while length < min(len(words), order - 1):
            node = np.uint64(words[length])
            if length:
                scattered = ((nodes[length] * np.uint64(n_words) + node) * _SCATTER) & mask
                node = find(slots, scattered, scattered >> shift)
                if node == 0:
                    break
            length += 1
            nodes[length] = node
            if words[length - 1] == BOS:
                break
        for word in range(n_words):
            node, known = np.uint64(word), 1
            while known <= length:
                key = node * np.uint64(n_words) + np.uint64(words[known - 1])
                scattered = (key * _SCATTER) & mask
                longer = find(slots, scattered, scattered >> shift)
                if longer == 0:
                    break
                node = longer
                known += 1
            probability = probabilities[node]
            for context in range(known, length + 1):
                probability *= weights[nodes[context]]
            out[text, word] = probability
        out[text, BOS] = 0.0
    return out
