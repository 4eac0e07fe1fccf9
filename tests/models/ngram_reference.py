"""Counting and Kneser-Ney estimation written down plainly, with dictionaries, as the reference."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.backoff import BOS, EOS
from models.family import Inputs
from models.kneser_ney import FALLBACK
from models.ngram import Config, Ngram
from models.text import NgramCounts, Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary, select

Gram = tuple[int, ...]

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "kenlm_small.json").read_text("utf-8")
)


def golden_text() -> list[list[str]]:
    return [line.split() for line in GOLDEN["text"]]


def vocabulary_of(text: Sequence[Sequence[str]], min_count: int = 1) -> Vocabulary:
    counts = Counter(word for sentence in text for word in sentence)
    words, numbers = list(counts), np.array(list(counts.values()), np.int64)
    return select(words, numbers, min_count=min_count, max_size=None, reserved=LM_RESERVED)


def windows(text: Sequence[Sequence[int]], order: int) -> Counter[Gram]:
    found: Counter[Gram] = Counter()
    for sentence in text:
        padded = [BOS] * (order - 1) + [int(word) for word in sentence] + [EOS]
        found.update(tuple(padded[i : i + order]) for i in range(len(padded) - order + 1))
    return found


def in_suffix_order(found: Counter[Gram], order: int) -> NgramCounts:
    rows = sorted(found, key=lambda gram: gram[::-1])
    ngrams = np.array(rows, np.int32).reshape(len(rows), order)
    return NgramCounts(order, ngrams, np.array([found[row] for row in rows], np.int64))


def tokens_of(text: Sequence[Sequence[str]]) -> Tokens:
    """A text as one partition of a corpus."""
    types = Counter(word for sentence in text for word in sentence)
    ids = {word: i for i, word in enumerate(types)}
    flat = np.array([ids[word] for sentence in text for word in sentence], np.int32)
    starts = np.concatenate([[0], np.cumsum([len(s) for s in text])]).astype(np.int64)
    counts = np.array(list(types.values()), np.int64)
    sentences = Sentences(flat, starts, np.array([0, len(text)], np.int64))
    return Tokens([TokenPartition(tuple(types), counts, sentences)])


def fitted(
    text: Sequence[Sequence[str]],
    order: int,
    min_count: int = 1,
    heldout: Sequence[Sequence[str]] = (),
    **settings: Any,
) -> tuple[Ngram, dict[str, float | int | str]]:
    vocabulary = vocabulary_of(text, min_count)
    counts = in_suffix_order(windows([vocabulary.ids(s) for s in text], order), order)
    inputs = Inputs({"vocabulary": vocabulary, "ngrams": counts, "heldout": tokens_of(heldout)})
    model = Config(order=order, min_count=min_count, **settings).build(inputs, seed=1)
    return model, dict(model.fit(inputs))


class Occurrences:
    """How often every n-gram with at most one ``<s>`` ends a place, and what is derived of it."""

    def __init__(self, found: Counter[Gram], order: int) -> None:
        self.order = order
        self.raw, befores = Counter[Gram](), defaultdict[Gram, set[int]](set)
        for gram, count in found.items():
            for k in range(1, order + 1):
                if gram[order - k :].count(BOS) <= 1:
                    self.raw[gram[order - k :]] += count
                    if k > 1:
                        befores[gram[order - k + 1 :]].add(gram[order - k])
        self.adjusted = Counter(
            {
                gram: count if len(gram) == order or gram[0] == BOS else len(befores[gram])
                for gram, count in self.raw.items()
            }
        )
        self.followers = defaultdict[Gram, list[Gram]](list)
        for gram in self.raw:
            self.followers[gram[:-1]].append(gram)

    def spectrum(self, counts: Counter[Gram], k: int) -> Counter[int]:
        return Counter(count for gram, count in counts.items() if len(gram) == k)


class KneserNey:
    """The equations of ``models/ngram.py``, evaluated by recursion."""

    def __init__(self, found: Counter[Gram], order: int, n_words: int) -> None:
        self.n_words = n_words
        occurrences, befores = Counter[Gram](), defaultdict[Gram, set[int]](set)
        for gram, count in found.items():
            for k in range(1, order + 1):
                if gram[order - k :].count(BOS) <= 1:
                    occurrences[gram[order - k :]] += count
                    if k > 1:
                        befores[gram[order - k + 1 :]].add(gram[order - k])
        self.adjusted = {
            gram: count if len(gram) == order or gram[0] == BOS else len(befores[gram])
            for gram, count in occurrences.items()
        }
        self.discounts = [self._estimate(k) for k in range(1, order + 1)]
        self.followers = defaultdict[Gram, list[Gram]](list)
        for gram in self.adjusted:
            self.followers[gram[:-1]].append(gram)

    def _estimate(self, k: int) -> tuple[float, ...]:
        n = Counter(a for gram, a in self.adjusted.items() if len(gram) == k)
        if not (n[1] and n[2] and n[3]):
            return FALLBACK
        y = n[1] / (n[1] + 2 * n[2])
        found = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
        return (0.0, *found) if all(0 < d <= i for i, d in enumerate(found, 1)) else FALLBACK

    def probability(self, word: int, context: Gram) -> float:
        discounts = self.discounts[len(context)]
        followers = self.followers[context]
        lower = self.probability(word, context[1:]) if context else 1 / (self.n_words - 1)
        if not followers:
            return lower
        total = sum(self.adjusted[gram] for gram in followers)
        left = sum(discounts[min(self.adjusted[gram], 3)] for gram in followers) / total
        own = self.adjusted.get((*context, word), 0)
        return (own - discounts[min(own, 3)]) / total + left * lower
