"""The back-off table: all n-grams of a model, and how text is scored by it.

Whatever estimates an n-gram model leaves such a table. With ``p`` the probability of a listed
n-gram and ``b`` the weight of a listed context (1 where it is not listed), for words ``w``, a
context ``c`` and ``c'`` without its first word (Katz 1987, equation 2)::

    P(w | c) = p(c w)          where c w is listed
               b(c) P(w | c')  else

An interpolated model is the same with ``p`` already holding its share of the shorter contexts.

Shapes: ``N`` tokens, ``S`` sentences, ``V`` vocabulary, ``T`` n-grams of all orders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.text import Sentences
from models.vocabulary import LM_RESERVED

FEW, MANY = 1 << 10, 1 << 15
"""Below FEW tokens a hash table of n-grams is not made first. Text is scored MANY tokens at a time,
so that processors end at the same time; a quarter as many took a sixth longer."""

REFUSED = "the table has too many n-grams or words to be searched by hashing"

BOS, EOS = LM_RESERVED.index("<s>"), LM_RESERVED.index("</s>")


@dataclass(frozen=True, eq=False)
class Table:
    """All n-grams of all orders, as a trie that is read from the last word to the first.

    The number of a unigram is its word's id. The others follow by order, and within an order by
    the number of their last words, then by their first word.

    Attributes:
        sizes: (order,) int64, n-grams by order; the first is V.
        keys: (T - V,) int64, for the n-grams of two words and more in order of their numbers:
            number of the n-gram without its first word, times V, plus the first word. They rise,
            so a binary search finds an n-gram.
        probabilities: (T,) float64, of the last word after the others.
        weights: float64, of all but the highest order: what the probabilities after a shorter
            context are multiplied by if the word was never seen after this n-gram; else 1.
    """

    sizes: NDArray[np.int64]
    keys: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def order(self) -> int:
        """The highest order."""
        return len(self.sizes)

    def numbers(self, order: int) -> slice:
        """The numbers of the n-grams of an order."""
        end = int(self.sizes[:order].sum())
        return slice(end - int(self.sizes[order - 1]), end)

    def find(
        self, order: int, shorter: NDArray[np.int64], first: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The numbers of n-grams by that of all but their first word and by this; -1 if absent."""
        n_words, base = int(self.sizes[0]), self.numbers(order).start
        keys = self.keys[base - n_words : self.numbers(order).stop - n_words]
        if len(keys) == 0:
            return np.full(len(shorter), -1, np.int64)
        wanted = shorter * n_words + first
        # In order, look-ups walk through the table and find it in the processor's caches.
        rows = np.argsort(wanted)
        at = np.empty_like(wanted)
        at[rows] = np.minimum(np.searchsorted(keys, wanted[rows]), len(keys) - 1)
        return np.where(keys[at] == wanted, at + base, -1)

    def ngrams(self, order: int) -> NDArray[np.int32]:
        """(sizes[order - 1], order) the words of all n-grams of an order, by number."""
        return next(words for k, words in enumerate(self.levels(), 1) if k == order)

    def levels(self) -> Iterator[NDArray[np.int32]]:
        """The words of all n-grams by number, as ``ngrams`` gives them, order by order."""
        n_words = int(self.sizes[0])
        words = np.arange(n_words, dtype=np.int32)[:, None]
        yield words
        for k in range(2, self.order + 1):
            here = self.numbers(k)
            keys = self.keys[here.start - n_words : here.stop - n_words]
            shorter, first = np.divmod(keys, n_words)
            rest = words[shorter - self.numbers(k - 1).start]
            words = np.concatenate([first.astype(np.int32)[:, None], rest], axis=1)
            yield words

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every token and, after those of each sentence, of its ``</s>``.

        Few tokens are scored in float64; many, and all once an ``Index`` is there, by its float32,
        which is off by some 5e-7 at most.

        Args:
            sentences: S sentences with N tokens, each conditioned on its start alone.
        """
        n_scored = len(sentences) + int(sentences.starts[-1] - sentences.starts[0])
        try:
            if n_scored < FEW and "_index" not in self.__dict__:
                return self.plain_log_prob(sentences)
            index = self._index
        except ImportError:  # a model that is served needs numpy only
            return self.plain_log_prob(sentences)
        pieces = 1 + n_scored // MANY
        cuts = [len(sentences) * i // pieces for i in range(pieces + 1)]
        parts = [replace(sentences, starts=sentences.starts[a : b + 1]) for a, b in pairwise(cuts)]
        with ThreadPoolExecutor(min(pieces, len(os.sched_getaffinity(0)))) as pool:
            return np.concatenate(list(pool.map(index.log_prob, parts)))

    def next_log_probs(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """(S, V) nats of every entry of the vocabulary after each context; ``<s>`` has -inf.

        Args:
            contexts: (S, n) ids of the words before, filled on the left with ``<s>``; what is
                beyond the order of the model has no part.
        """
        try:
            found = self._index.next_words(contexts)
        except ImportError:
            found = np.empty((len(contexts), int(self.sizes[0])))
            for row, context in enumerate(contexts):
                begin = np.flatnonzero(np.append(True, context == BOS))[-1]
                found[row] = self.next_words(context[max(0, begin - 1) :])
        with np.errstate(divide="ignore"):
            return np.log(found)

    @cached_property
    def _index(self) -> Index:
        return Index(self)

    def plain_log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """The same as ``log_prob``, by numpy alone: slower for many tokens, faster for few."""
        stream = framed(sentences).astype(np.int64)
        scored = np.flatnonzero(stream != BOS)
        # Logarithms: a product of probabilities may be smaller than any number.
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities[stream])
        number = stream  # of the n-gram of k words that ends at a position, -1 if there is none
        for k in range(2, self.order + 1):
            # An n-gram that begins with <s> is never longer, so none crosses into a sentence.
            known = scored[number[scored] >= 0]
            known = known[known >= k - 1]
            longer = np.full(len(stream), -1, np.int64)
            longer[known] = self.find(k, number[known], stream[known - k + 1])
            found = longer[scored] >= 0
            context = number[scored - 1]
            backing = scored[~found & (context >= 0)]
            with np.errstate(divide="ignore"):
                logs[backing] += np.log(self.weights[number[backing - 1]])
                logs[scored[found]] = np.log(self.probabilities[longer[scored[found]]])
            number = longer
        return logs[scored]

    def next_words(self, context: NDArray[np.integer]) -> NDArray[np.float64]:
        """(V,) the probability of every entry of the vocabulary after a context; they sum to 1.

        Args:
            context: ids of the words before, ``<s>`` included where the sentence begins.
        """
        word = np.arange(int(self.sizes[0]))
        probabilities = np.array(self.probabilities[word])
        number, before = word, np.zeros(1, np.int64)
        for k in range(2, min(self.order, len(context) + 1) + 1):
            first = np.array([context[-k + 1]], np.int64)
            before = first if k == 2 else self.find(k - 1, before, first)
            if before[0] < 0:
                break
            longer = np.full(len(word), -1, np.int64)
            known = word[number >= 0]
            longer[known] = self.find(k, number[known], np.repeat(first, len(known)))
            seen = longer >= 0
            probabilities *= self.weights[before[0]]
            probabilities[seen] = self.probabilities[longer[seen]]
            number = longer
        return probabilities


class Index:
    """The n-grams of a table in a hash table, for the kernels; it is made in memory.

    It takes 40 bytes an n-gram, and about 50 ns to make, which a few thousand tokens are worth.
    The table itself stays where it is, in a mapped file, of which only keys are read once.

    Args:
        table: of less than 2**32 n-grams.
    """

    def __init__(self, table: Table) -> None:
        from models.kernels.backoff import LINE, SPILL, fill, has_contexts
        from models.kernels.ngram import frozen

        keys, n_words = frozen(table.keys), int(table.sizes[0])
        # The half of a scattered key that a slot keeps and its place tell the key: of those that
        # agree in this half, no two may be so near that a run of slots in use leads to both.
        width = max(32, (int(table.sizes[:-1].sum()) * n_words).bit_length())
        # Half full it is slower by a tenth. A line is where memory is fetched from.
        n_slots = max(5 * len(keys) // 2, 512 << (width - 32)) // LINE * LINE
        if int(table.sizes.sum()) >> 32 or n_slots >> 32:
            raise ValueError(REFUSED)
        # Not zeros: numpy asks for large pages where it does not get zeros from the system.
        room = np.empty(2 * (n_slots + SPILL + LINE), np.uint64)
        room.fill(0)
        to_line = -room.ctypes.data % 64 // room.itemsize
        slots = room[to_line : to_line + 2 * (n_slots + SPILL)].reshape(-1, 2)
        logs = slots.view(np.float32)
        self._values = frozen(table.probabilities), frozen(table.weights)
        if fill(keys, *self._values, width, slots, logs) + LINE >= n_slots >> (width - 32):
            raise ValueError(REFUSED)
        words = np.zeros((n_words, 2), np.float32)
        with np.errstate(divide="ignore"):
            for column, values in enumerate(self._values):
                words[: len(values), column] = np.log(values[:n_words])
        self.order, self.closed = table.order, has_contexts(keys, table.sizes, slots, width)
        self._slots, self._logs, self._words, self._width = slots, logs, words, width

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._slots.nbytes + self._words.nbytes

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) see ``Table.log_prob``; float32 as KenLM's are, off by some 5e-7 at most."""
        from models.kernels.backoff import score_stream

        stream = framed(sentences)
        out = np.empty(max(1, len(stream) - len(sentences)))
        score_stream(
            stream, self.order, self._slots, self._width, self._logs, self._words, self.closed, out
        )
        return out[: len(stream) - len(sentences)]

    def next_words(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """(S, V) probabilities, see ``Table.next_log_probs``."""
        from models.kernels.backoff import score_next

        found: NDArray[np.float64] = score_next(
            np.ascontiguousarray(contexts, np.int32),
            self.order,
            self._slots,
            self._width,
            *self._values,
            len(self._words),
        )
        return found


def framed(sentences: Sentences) -> NDArray[np.int32]:
    """(N + 2 S,) the sentences back to back, each as ``<s> words </s>``."""
    lengths = np.diff(sentences.starts)
    ends = np.cumsum(lengths + 2)
    stream = np.empty(int(lengths.sum()) + 2 * len(lengths), np.int32)
    inside = np.ones(len(stream), np.bool_)
    inside[ends - 1] = inside[ends - lengths - 2] = False
    stream[ends - 1], stream[ends - lengths - 2] = EOS, BOS
    stream[inside] = sentences.ids[sentences.starts[0] : sentences.starts[-1]]
    return stream
