"""Kernels of the back-off table: probabilities of text and of all next words.

Text is scored in blocks. Within a block all n-grams of two words are looked up, then those of three
words of which the last two were found, and so on: look-ups that do not wait for each other, so the
processor fetches for many of them at once. A block's nodes stay in its caches. What is known after
a word is at the same time the context of the next word, so contexts cost no look-ups of their own
(as in KenLM, Heafield 2011).

An n-gram is looked up by hashing with linear probing. Keys are scattered by a multiplication that
can be undone; a slot begins with 8 bytes, the number of the n-gram and the low half of its
scattered key. Where the slot lies tells the rest, so a slot tells exactly which key is there. In
its other 8 bytes are the logarithms of the n-gram's probability and weight, as float32, in which
a score of a word is off by some 5e-7 at most.

Most of the time goes by waiting for memory. So a cache line is asked for as soon as its place is
known, for all n-grams of a block before the first of them is read, no n-gram is looked for of which
the context is not there, and what is said of an n-gram lies where it is found.

The plain reference is ``models.backoff.Table.plain_log_prob``.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from models.kernels.words import prefetch

BOS = 1
BLOCK = 1 << 9
"""Tokens of a block; with 256 and 1024 times differed by less than a tenth."""
LINE = 4
"""Slots of a cache line, at the start of which the search for a key begins."""
SPILL = 1 << 10
"""Slots beyond those from which keys are searched on, into which the last run of slots may go."""
AHEAD = 16
"""So many keys before its turn the slot of a key is fetched when the table is written."""

_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@njit(cache=True, nogil=True)
def fill(
    keys: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    weights: NDArray[np.float64],
    width: int,
    slots: NDArray[np.uint64],
    logs: NDArray[np.float32],
) -> int:
    """Write a hash table of n-grams by their keys; returns the longest run of slots in use.

    Args:
        keys: as in ``models.backoff.Table``.
        probabilities: likewise.
        weights: likewise.
        width: at least 32; no key that is asked for is above ``2**width``.
        slots: (n + SPILL, 2) zeros; n a multiple of LINE, by far more than there are keys, less
            than 2**32. It begins with a cache line.
        logs: (n + SPILL, 4) the same memory.
    """
    n_slots = len(slots) - SPILL
    n_words = len(probabilities) - len(keys)
    for i in range(len(keys)):
        ahead = np.uint64(keys[min(i + AHEAD, len(keys) - 1)])
        prefetch(slots, np.int64(2 * _home(_scatter(ahead, width), width, n_slots)))
        scattered = _scatter(np.uint64(keys[i]), width)
        at = _home(scattered, width, n_slots)
        while slots[at, 0] != 0:
            at += _ONE
        # The last slots stay empty, so that searches end.
        if at >= np.uint64(len(slots) - 2 * LINE):
            return len(slots)
        slots[at, 0] = (scattered << _HALF) | np.uint64(i + n_words)
        logs[at, 2] = np.log(probabilities[i + n_words])
        logs[at, 3] = np.log(weights[i + n_words]) if i + n_words < len(weights) else 0.0
    longest = run = 0
    for at in range(len(slots)):
        run = (run + 1) * (slots[at, 0] != 0)
        longest = max(longest, run)
    return longest


@njit(cache=True, nogil=True)
def _scatter(key: np.uint64, width: int) -> np.uint64:
    scattered: np.uint64 = (key * _SCATTER) & ((_ONE << np.uint64(width)) - _ONE)
    return scattered


@njit(cache=True, nogil=True)
def _home(scattered: np.uint64, width: int, n_slots: int) -> np.uint64:
    """The slot from which a key is searched on: its upper 32 bits, as a share of the lines."""
    line = ((scattered >> np.uint64(width - 32)) * np.uint64(n_slots // LINE)) >> _HALF
    home: np.uint64 = line * np.uint64(LINE)
    return home


@njit(cache=True, nogil=True)
def ask(
    slots: NDArray[np.uint64],
    width: int,
    key: np.uint64,
    j: int,
    places: NDArray[np.uint64],
    scattered: NDArray[np.uint64],
) -> None:
    """Have the slot of a key fetched, and note as the j-th what ``look_up`` needs of it."""
    code = _scatter(key, width)
    places[j] = _home(code, width, len(slots) - SPILL)
    scattered[j] = code & _LOW
    prefetch(slots, 2 * np.int64(places[j]))


@njit(cache=True, nogil=True)
def look_up(
    slots: NDArray[np.uint64],
    places: NDArray[np.uint64],
    scattered: NDArray[np.uint64],
    waiting: NDArray[np.int64],
    numbers: NDArray[np.uint64],
) -> None:
    """Write the numbers of the n-grams that were asked for, 0 where there is none.

    Args:
        slots: as ``fill`` wrote them.
        places: (n or more,) as ``ask`` wrote them; become where the n-grams are.
        scattered: (n or more,) as ``ask`` wrote them.
        waiting: (n or more,) room.
        numbers: (n,) the result.
    """
    # Most are decided by the first cache line: without a branch, as none could be foretold.
    n_waiting = 0
    for j in range(len(numbers)):
        at, wanted = places[j], scattered[j]
        a, b, c, d = slots[at, 0], slots[at + _ONE, 0], slots[at + _TWO, 0], slots[at + _THREE, 0]
        # The code of a key may be 0, as that of an empty slot is.
        in_b = np.uint64((b >> _HALF == wanted) & (b != 0))
        in_c = np.uint64((c >> _HALF == wanted) & (c != 0))
        in_d = np.uint64((d >> _HALF == wanted) & (d != 0))
        in_a = np.uint64(a >> _HALF == wanted)
        number = (a * in_a + b * in_b + c * in_c + d * in_d) & _LOW
        numbers[j] = number
        places[j] = at + in_b + _TWO * in_c + _THREE * in_d
        waiting[n_waiting] = j
        n_waiting += (d != 0) & (number == 0)
    for o in range(n_waiting):
        j = waiting[o]
        at = places[j] + np.uint64(LINE)
        while slots[at, 0] != 0 and slots[at, 0] >> _HALF != scattered[j]:
            at += _ONE
        places[j] = at
        numbers[j] = slots[at, 0] & _LOW  # an empty slot is 0


@njit(cache=True, nogil=True)
def has_contexts(
    keys: NDArray[np.int64], sizes: NDArray[np.int64], slots: NDArray[np.uint64], width: int
) -> bool:
    """Whether every n-gram without its last word is an n-gram of the table too.

    Args:
        keys: as in ``models.backoff.Table``.
        sizes: as in the table.
        slots: as ``fill`` wrote them.
        width: as there.
    """
    n_words = sizes[0]
    contexts = np.empty(n_words + len(keys), np.uint32)  # n-grams without their last words
    places, scattered = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    numbers, waiting = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    start = 0
    for k in range(2, len(sizes) + 1):
        end = start + sizes[k - 1]
        for begin in range(start, end, BLOCK):
            size = min(BLOCK, end - begin)
            for j in range(size):
                shorter = keys[begin + j] // n_words
                first = np.uint64(keys[begin + j] - shorter * n_words)
                numbers[j] = first
                if k > 2:
                    key = np.uint64(contexts[shorter]) * np.uint64(n_words) + first
                    ask(slots, width, key, j, places, scattered)
            if k > 2:
                look_up(slots, places, scattered, waiting, numbers[:size])
            for j in range(size):
                if k > 2 and numbers[j] == 0:
                    return False
                contexts[n_words + begin + j] = numbers[j]
        start = end
    return True


@njit(cache=True, nogil=True)
def score_stream(
    stream: NDArray[np.int32],
    order: int,
    slots: NDArray[np.uint64],
    width: int,
    logs: NDArray[np.float32],
    words: NDArray[np.float32],
    closed: bool,
    out: NDArray[np.float64],
) -> None:
    """Write the log probability of every word of a stream but ``<s>``, in nats.

    Args:
        stream: (N + 2 S,) sentences, each as ``<s> words </s>``.
        order: the highest order.
        slots: as ``fill`` wrote them.
        width: as there.
        logs: as there.
        words: (V, 2) the logs of the probability and the weight of every word.
        closed: what ``has_contexts`` says of the table. If so, an n-gram is only looked for where
            its context was found, which spares a fifth of the look-ups.
        out: (N + S,).
    """
    n_words = len(words)
    # Column 0 is the last word before the block.
    weights = np.zeros((order + 1, BLOCK + 1), np.float32)  # of the n-grams found, by their length
    lengths = np.zeros(BLOCK + 1, np.int32)
    total = np.empty(BLOCK, np.float64)
    nodes, known = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    places, scattered = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    numbers, waiting = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    written = 0
    for begin in range(0, len(stream), BLOCK):
        size = min(BLOCK, len(stream) - begin)
        weights[2:, 1:] = 0
        lengths[1:] = 1
        n_known = 0
        for i in range(size):
            word = stream[begin + i]
            before = stream[max(0, begin + i - 1)]
            # Asked for here, while there is other work: six nanoseconds a token fewer.
            key = np.uint64(word) * np.uint64(n_words) + np.uint64(before)
            ask(slots, width, key, n_known, places, scattered)
            nodes[i] = word
            total[i] = words[word, 0]
            weights[1, i + 1] = words[word, 1]
            known[n_known] = i
            n_known += word != BOS
        for k in range(2, order + 1):
            for j in range(n_known if k > 2 else 0):
                # An n-gram that begins with <s> is never longer: none crosses into a sentence.
                first = stream[max(0, begin + known[j] - k + 1)]
                key = nodes[known[j]] * np.uint64(n_words) + np.uint64(first)
                ask(slots, width, key, j, places, scattered)
            look_up(slots, places, scattered, waiting, numbers[:n_known])
            n_longer = 0
            for j in range(n_known):
                number = numbers[j]
                known[n_longer] = known[j]
                numbers[n_longer] = number
                places[n_longer] = places[j]
                n_longer += number != 0
            n_known = 0
            for j in range(n_longer):
                i = known[j]
                nodes[i] = numbers[j]
                lengths[i + 1] = k
                total[i] = logs[places[j], 2]
                weights[k, i + 1] = logs[places[j], 3]
                known[n_known] = i
                n_known += (lengths[i] >= k) | (not closed)  # the context, which was found before
        for k in range(1, order):
            for i in range(size):
                total[i] += weights[k, i] if lengths[i + 1] <= k else np.float32(0)
        for i in range(size):
            out[written] = total[i]
            written += stream[begin + i] != BOS
        lengths[0] = lengths[size]
        weights[:, 0] = weights[:, size]


@njit(cache=True, nogil=True)
def score_next(
    contexts: NDArray[np.int32],
    order: int,
    slots: NDArray[np.uint64],
    width: int,
    probabilities: NDArray[np.float64],
    weights: NDArray[np.float64],
    n_words: int,
) -> NDArray[np.float64]:
    """(S, V) the probability of every next word after (S, n) contexts.

    Contexts are filled on the left with ``<s>``; probabilities and weights are those of the
    ``models.backoff.Table``, the others as in ``score_stream``.
    """
    out = np.empty((len(contexts), n_words), np.float64)
    nodes = np.zeros(order + 1, np.int64)  # of the context, by its length
    known = np.empty(BLOCK, np.int64)
    places, scattered = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    numbers, waiting = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.int64)
    for text in range(len(contexts)):
        words = contexts[text, ::-1]
        length = 0  # words of the longest known context
        while length < min(len(words), order - 1):
            numbers[0] = words[length]
            if length:
                key = np.uint64(nodes[length]) * np.uint64(n_words) + numbers[0]
                ask(slots, width, key, 0, places, scattered)
                look_up(slots, places, scattered, waiting, numbers[:1])
                if numbers[0] == 0:
                    break
            length += 1
            nodes[length] = numbers[0]
            if words[length - 1] == BOS:
                break
        for begin in range(0, n_words, BLOCK):
            n_known = min(BLOCK, n_words - begin)
            for j in range(n_known):
                known[j] = begin + j
                numbers[j] = begin + j
                out[text, begin + j] = probabilities[begin + j]
            for k in range(1, length + 1):
                # Of the words that were not found before, all shorter contexts are behind them.
                for word in range(begin, min(begin + BLOCK, n_words)):
                    out[text, word] *= weights[nodes[k]]
                for j in range(n_known):
                    key = numbers[j] * np.uint64(n_words) + np.uint64(words[k - 1])
                    ask(slots, width, key, j, places, scattered)
                look_up(slots, places, scattered, waiting, numbers[:n_known])
                n_longer = 0
                for j in range(n_known):
                    number = numbers[j]
                    prefetch(probabilities, np.int64(number))
                    known[n_longer] = known[j]
                    numbers[n_longer] = number
                    n_longer += number != 0
                n_known = n_longer
                for j in range(n_known):
                    out[text, known[j]] = probabilities[numbers[j]]
        out[text, BOS] = 0.0
    return out
