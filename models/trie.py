"""The n-grams of a text as a trie with their counts: what every estimator starts from.

The numbering is that of ``models.backoff.Table``: the trie is read from the last word of an n-gram
to the first, and an n-gram's number rises with its order.

Shapes: ``V`` vocabulary, ``T`` n-grams of all orders, ``N`` scored tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, framed
from models.text import NgramCounts, Sentences
from models.threads import each, processors


@dataclass(frozen=True, eq=False)
class Trie:
    """All n-grams of a text.

    Attributes:
        sizes: (order,) int64, n-grams by order; the first is V.
        keys: (T - V,) int64, as in ``models.backoff.Table``.
        contexts: (T,) integers, the number of each n-gram without its last word; -1 for unigrams.
        adjusted: (T,) integers, counts for n-grams of the highest order and those that begin with
            ``<s>``, for all others the number of different words before (Kneser & Ney 1995).
    """

    sizes: NDArray[np.int64]
    keys: NDArray[np.int64]
    contexts: NDArray[Any]
    adjusted: NDArray[Any]

    @staticmethod
    def of(counts: NgramCounts, n_words: int) -> Trie:
        """Grow the trie of all n-grams that end the counted ones.

        Raises:
            ValueError: the counts are not those of whole sentences.
        """
        from models.kernels.ngram import frozen
        from models.kernels.trie import grow, level_sizes, link

        ngrams, occurrences = frozen(counts.ngrams), frozen(counts.counts)
        sizes = level_sizes(ngrams)[1:]
        sizes[0] = n_words
        bases = np.concatenate([[0, 0], np.cumsum(sizes)])
        keys, children, adjusted = grow(ngrams, occurrences, bases)
        contexts = link(keys, np.concatenate([[0], np.cumsum(children)]) + n_words, bases)
        if contexts.min() < -1:
            raise ValueError("an n-gram is counted without its context; count whole sentences")
        return Trie(sizes, keys, contexts, adjusted)

    @staticmethod
    def of_text(stream: NDArray[np.int32], order: int, n_words: int) -> Trie:
        """The trie of a text, without a table of its n-grams in between.

        Args:
            stream: sentences, each as ``<s> words </s>`` (``models.backoff.framed``), all in all
                fewer than 2**31 entries.
            order: the highest.
            n_words: V.

        Raises:
            ValueError: the text has no sentences, or is too long.
        """
        from models.kernels.ngram import frozen, sort_windows
        from models.kernels.trie import compare_windows, grow_text, number_places

        if not 0 < len(stream) < 1 << 31:
            raise ValueError(f"a text of {len(stream):,} words and marks is not counted at once")
        threads = processors(len(stream))
        stream = frozen(stream)
        positions = frozen(sort_windows(stream, order, n_words, threads))
        shapes = np.empty((len(positions), 2), np.uint8)
        rows = list(pairwise(_cuts(stream, positions, threads)))
        found = np.array(
            each(compare_windows, [(stream, positions, *part, order, shapes) for part in rows])
        )
        found[:, 1] = 0
        sizes = found.sum(axis=0)
        sizes[1] = n_words
        parts = list(zip(rows, np.cumsum(sizes) - sizes + np.cumsum(found, 0) - found, strict=True))
        total = int(sizes.sum())
        number = np.int32 if total < 1 << 31 else np.int64
        nodes = np.empty((len(stream), max(0, order - 2)), number)
        each(
            number_places,
            [(positions, *part, shapes, first.copy(), nodes) for part, first in parts],
        )
        keys = np.empty(total - n_words, np.int64)
        contexts, adjusted = np.full(total, -1, number), np.zeros(total, np.int32)
        out = nodes, n_words, keys, contexts, adjusted
        each(
            grow_text,
            [(stream, positions, *part, shapes, first, *out) for part, first in parts],
        )
        return Trie(sizes[1:], keys, contexts, adjusted)

    @property
    def order(self) -> int:
        """The highest order."""
        return len(self.sizes)

    @property
    def n_words(self) -> int:
        """V."""
        return int(self.sizes[0])

    def numbers(self, order: int) -> slice:
        """The numbers of the n-grams of an order."""
        end = int(self.sizes[:order].sum())
        return slice(end - int(self.sizes[order - 1]), end)

    def shorter(self, order: int) -> NDArray[np.int64]:
        """The numbers of the n-grams of an order without their first word; the order is over 1."""
        here = self.numbers(order)
        return self.keys[here.start - self.n_words : here.stop - self.n_words] // self.n_words

    def begins(self, order: int) -> NDArray[np.bool_]:
        """Which n-grams of an order begin a sentence: their first word is ``<s>``, and never said.

        Of the unigrams it is none, for ``<s>`` itself does not occur.
        """
        here = self.numbers(order)
        if order == 1:
            return np.zeros(self.n_words, np.bool_)
        keys = self.keys[here.start - self.n_words : here.stop - self.n_words]
        return np.equal(keys % self.n_words, BOS)

    def followed(self, order: int) -> NDArray[np.int64]:
        """Of each n-gram of an order over 1 its context, counted from the first of its order."""
        context: NDArray[np.int64] = self.contexts[self.numbers(order)]
        return context - np.int64(self.numbers(order - 1).start)

    def counts(self) -> NDArray[np.int64]:
        """(T,) how often each n-gram occurs as the last words of a place in the text."""
        counts = self.adjusted.copy()
        for k in range(self.order, 1, -1):
            here, below = self.numbers(k), self.numbers(k - 1)
            # The n-grams that continue one to the left are neighbours, and all of its places.
            parents = self.shorter(k)
            first = np.flatnonzero(np.diff(parents, prepend=-1))
            if len(first):
                counts[below][parents[first] - below.start] = np.add.reduceat(counts[here], first)
        return counts

    def spectrum(self, counts: NDArray[np.int64], order: int, highest: int) -> NDArray[np.int64]:
        """(highest + 1,) how many n-grams of an order have the counts 0, 1, ... ``highest``."""
        within = np.minimum(counts[self.numbers(order)], highest + 1)
        return np.bincount(within, minlength=highest + 2)[: highest + 1]

    def trace(self, sentences: Sentences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where a text goes through the trie.

        Returns:
            (order, N) the number of the n-gram of each order that ends at a scored token, and
            (order, N) that of its context; -1 where it is not in the trie, or reaches over the
            start of the sentence. Scored are words and ``</s>``.
        """
        stream = framed(sentences).astype(np.int64)
        scored = np.flatnonzero(stream != BOS)
        found = np.full((self.order, len(scored)), -1, np.int64)
        context = np.full((self.order, len(scored)), -1, np.int64)
        number = stream
        found[0] = stream[scored]
        for k in range(2, self.order + 1):
            context[k - 1] = number[scored - 1]
            known = scored[number[scored] >= 0]
            known = known[known >= k - 1]
            wanted = number[known] * self.n_words + stream[known - k + 1]
            number = np.full(len(stream), -1, np.int64)
            number[known] = self._find(k, wanted)
            found[k - 1] = number[scored]
        return found, context

    def _find(self, order: int, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the n-grams of an order that have the keys; -1 where there is none."""
        here = self.numbers(order)
        keys = self.keys[here.start - self.n_words : here.stop - self.n_words]
        if len(keys) == 0:
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, at + here.start, -1)


def _cuts(stream: NDArray[np.int32], positions: NDArray[np.int32], parts: int) -> list[int]:
    """Bounds of about equal stretches of sorted positions that part no two of the same word."""
    n, cuts = len(positions), [0]
    for part in range(1, parts):
        word = stream[positions[n * part // parts]]
        cuts.append(bisect_left(range(n), word, key=lambda row: stream[positions[row]]))
    return [*cuts, n]
