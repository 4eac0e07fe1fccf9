"""Every smoothing but modified Kneser-Ney written down plainly, with dictionaries, by recursion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache

from models.backoff import BOS
from tests.models.ngram_reference import Gram, Occurrences

Take = Callable[[int, int], float]
"""What is taken of a count, by order and count."""


def single_discounts(seen: Occurrences, n_words: int) -> Take:
    found = {}
    for k in range(1, seen.order + 1):
        n = seen.spectrum(seen.adjusted, k)
        found[k] = n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else 0.75
    return lambda k, r: found[k] if r else 0.0


def katz_discounts(seen: Occurrences, n_words: int, cutoff: int = 5) -> Take:
    """By exact fractions, in the words of the paper."""
    found: dict[int, list[float]] = {}
    for k in range(1, seen.order + 1):
        n = seen.spectrum(seen.raw, k)
        found[k] = [0.0] + [0.5] * cutoff
        if k == 1 and sum(len(gram) == 1 for gram in seen.raw) == n_words - 1:
            found[k] = [0.0] * (cutoff + 1)
        elif all(n[r] for r in range(1, cutoff + 1)):
            cut = Fraction((cutoff + 1) * n[cutoff + 1], n[1])
            if cut < 1:
                stars = [Fraction((r + 1) * n[r + 1], n[r]) for r in range(1, cutoff + 1)]
                d = [(star / r - cut) / (1 - cut) for r, star in enumerate(stars, 1)]
                if all(0 < x <= 1 for x in d):
                    found[k] = [0.0] + [float(r * (1 - x)) for r, x in enumerate(d, 1)]
    return lambda k, r: found[k][r] if r <= cutoff else 0.0


class BackOff:
    """What is set free goes to words that were not seen, by their probability in shorter contexts.

    ``pruned`` n-grams are as good as not seen, but for the total of their context.
    """

    def __init__(
        self,
        seen: Occurrences,
        counts: Counter[Gram],
        take: Take,
        n_words: int,
        *,
        smooth: bool = True,
        pruned: Callable[[Gram], bool] = lambda gram: False,
    ) -> None:
        self.seen, self.counts, self.take, self.n_words = seen, counts, take, n_words
        self.smooth, self.pruned = smooth, pruned
        self.probability = cache(self._probability)

    def _probability(self, word: int, context: Gram) -> float:
        if not context:
            return self._unigram(word)
        followers, k = self.seen.followers[context], len(context) + 1
        total = float(sum(self.counts[gram] for gram in followers))
        listed = {
            gram[-1]: self.counts[gram] - self.take(k, self.counts[gram])
            for gram in followers
            if not self.pruned(gram)
        }
        if not followers:
            return self.probability(word, context[1:])
        left = total - math.fsum(listed.values())
        kept = all(self.take(k, self.counts[g]) == 0 and not self.pruned(g) for g in followers)
        if self.smooth and kept:
            total, left = total + 1, 1.0
        others = [w for w in range(self.n_words) if w != BOS and w not in listed]
        if not others:
            return listed[word] / math.fsum(listed.values())
        if word in listed:
            return listed[word] / total
        lower = math.fsum(self.probability(w, context[1:]) for w in others)
        share = self.probability(word, context[1:])
        return left / total * share / lower if lower else 0.0

    def _unigram(self, word: int) -> float:
        words = [w for w in range(self.n_words) if w != BOS]
        kept = {w: self.counts[(w,)] - self.take(1, self.counts[(w,)]) for w in words}
        total = sum(self.counts[(w,)] for w in words)
        unseen = [w for w in words if self.counts[(w,)] == 0]
        if unseen and self.smooth and total == math.fsum(kept.values()):
            total += 1
        share = unseen or words
        left = (total - math.fsum(kept.values())) / total
        return kept[word] / total + (left / len(share) if word in share else 0.0)


class Interpolated:
    """Kneser-Ney with one discount an order; all counts of pruned n-grams go to what is shorter."""

    def __init__(
        self,
        seen: Occurrences,
        take: Take,
        n_words: int,
        pruned: Callable[[Gram], bool] = lambda gram: False,
    ) -> None:
        self.seen, self.take, self.n_words, self.pruned = seen, take, n_words, pruned

    def probability(self, word: int, context: Gram) -> float:
        lower = self.probability(word, context[1:]) if context else 1 / (self.n_words - 1)
        followers = self.seen.followers[context]
        if not followers:
            return lower
        total = sum(self.seen.adjusted[gram] for gram in followers)
        left = total - math.fsum(self._kept(gram) for gram in followers)
        return (self._kept((*context, word)) + left * lower) / total

    def _kept(self, gram: Gram) -> float:
        count = self.seen.adjusted[gram]
        return 0.0 if self.pruned(gram) else count - self.take(len(gram), count)


class AddK:
    def __init__(self, seen: Occurrences, k: float, n_words: int) -> None:
        self.seen, self.k, self.words = seen, k, n_words - 1

    def probability(self, word: int, context: Gram) -> float:
        total = sum(self.seen.raw[gram] for gram in self.seen.followers[context])
        return (self.seen.raw[(*context, word)] + self.k) / (total + self.k * self.words)


class JelinekMercer:
    def __init__(self, seen: Occurrences, weight: Callable[[Gram], float], n_words: int) -> None:
        self.seen, self.weight, self.n_words = seen, weight, n_words

    def probability(self, word: int, context: Gram) -> float:
        lower = self.probability(word, context[1:]) if context else 1 / (self.n_words - 1)
        total = sum(self.seen.raw[gram] for gram in self.seen.followers[context])
        if not total:
            return lower
        weight = self.weight(context)
        return weight * self.seen.raw[(*context, word)] / total + (1 - weight) * lower
