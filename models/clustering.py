"""Classes of words from the bigrams of a text, and the tree of the classes.

Three ways, all of which seek classes whose bigrams make the text likely:

* ``brown``: agglomeration (Brown, Della Pietra, deSouza, Lai & Mercer 1992, "Class-based n-gram
  models of natural language"). Words come by falling count into a window of so many classes; with
  one more, the two are merged whose merge loses least of the average mutual information of
  neighbouring classes; bigrams with words that are still to come do not count yet.
* ``exchange``: every word in turn moves to the class that makes the text most likely under
  ``p(class | class before) p(word | class)``, until none moves (Kneser & Ney 1993; Martin, Liermann
  & Ney 1998, "Algorithms for bigram and trigram word clustering"). It seeks what Brown's does.
* ``predictive-exchange``: the same with ``p(class | word before)`` (Uszkoreit & Brants 2008,
  "Distributed word clustering for large scale class-based language modeling").

The reserved entries are classes of their own: contexts of the words, never with one of them. The
classes of an exchange are merged afterwards as Brown's are, so all have a tree, in which the path
to a class is a string of 0 and 1 whose beginnings are ever wider classes.

Nothing is random, and sums are integers: the same counts give the same classes everywhere.

Shapes: ``V`` vocabulary, ``C`` classes of words; with the reserved entries there are 3 more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.text import NgramCounts
from models.vocabulary import LM_RESERVED

Clustering = Literal["brown", "exchange", "predictive-exchange"]
FIXED = len(LM_RESERVED)
LENGTHS = (4, 6, 10, 20)
"""Of beginnings of paths that are features, those of Turian, Ratinov & Bengio (2010)."""


@dataclass(frozen=True, eq=False)
class Bigrams:
    """The bigrams of a text in the ids of a language-model vocabulary.

    Attributes:
        n_words: V.
        firsts: (M,) int32 the word before.
        seconds: (M,) int32 the word, rising; of equal ones ``firsts`` rises.
        counts: (M,) int64.
    """

    n_words: int
    firsts: NDArray[np.int32]
    seconds: NDArray[np.int32]
    counts: NDArray[np.int64]

    @staticmethod
    def of(counts: NgramCounts, n_words: int) -> Bigrams:
        """The bigrams that end the n-grams of an order above 1, added up."""
        if counts.order < 2 or len(counts.counts) == 0:
            raise ValueError("words are clustered by their bigrams, and there are none")
        pairs = np.asarray(counts.ngrams[:, -2:])
        new = np.flatnonzero(np.any(pairs[1:] != pairs[:-1], axis=1)) + 1
        first = np.concatenate([np.zeros(1, np.int64), new])
        sums = np.add.reduceat(np.asarray(counts.counts), first)
        return Bigrams(n_words, pairs[first, 0], pairs[first, 1], sums)

    def under(self, classes: NDArray[np.int32]) -> Bigrams:
        """The bigrams of classes of words."""
        n = int(classes.max()) + 1
        cells = classes[self.seconds].astype(np.int64) * n + classes[self.firsts]
        found, at = np.unique(cells, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, at, self.counts)
        seconds, firsts = np.divmod(found, n)
        return Bigrams(n, firsts.astype(np.int32), seconds.astype(np.int32), sums)

    def sides(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]], ...]:
        """What stands before every word and what stands behind it, as ``kernels`` want it."""
        rows = np.argsort(self.firsts, kind="stable")
        return (
            (self._starts(self.seconds), np.ascontiguousarray(self.firsts), self.counts),
            (self._starts(self.firsts), self.seconds[rows], self.counts[rows]),
        )

    def _starts(self, words: NDArray[np.int32]) -> NDArray[np.int64]:
        sizes = np.bincount(words, minlength=self.n_words)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Classes of words.

    Attributes:
        classes: (V,) int32 the class of every entry: 0, 1 and 2 are the reserved ones, the others
            are numbered by their most frequent word.
        merges: (C - 1, 2) int32, the tree from its leaves: at each step the second class becomes
            part of the first.
        moves: how many words moved in each round of an exchange.
    """

    classes: NDArray[np.int32]
    merges: NDArray[np.int32]
    moves: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.merges) + 1


def cluster(bigrams: Bigrams, method: Clustering, n_classes: int, rounds: int = 20) -> Clusters:
    """Put the words of a vocabulary, ordered by falling count, into classes.

    Args:
        bigrams: of the text.
        method: see above.
        n_classes: C, of words; with fewer words each has a class of its own.
        rounds: how often an exchange goes through the words, at most.

    Raises:
        ValueError: there are no words or no classes, or too many tokens.
    """
    n_words = bigrams.n_words - FIXED
    if n_words < 1 or n_classes < 1:
        raise ValueError(f"{n_words} words cannot be put into {n_classes} classes")
    n_classes = min(n_classes, n_words)
    if method == "brown":
        return _agglomerated(bigrams, n_classes)
    from models.kernels.clustering import terms
    from models.kernels.exchange import exchange, exchange_predictive

    # The most frequent words begin in classes of their own, the others are dealt out.
    classes = np.arange(bigrams.n_words, dtype=np.int32)
    classes[FIXED:] = FIXED + np.arange(n_words) % n_classes
    before, after = bigrams.sides()
    total = int(bigrams.counts.sum())
    kind = np.int32 if total < 1 << 31 else np.int64
    bounds, f = (FIXED, rounds), terms(total)
    if method == "exchange":
        forth = np.zeros((FIXED + n_classes, FIXED + n_classes), kind)
        moves = exchange(classes, before, after, forth, bounds, f)
    else:
        forth = np.zeros((bigrams.n_words, FIXED + n_classes), kind)
        moves = exchange_predictive(classes, before, forth, bounds, f)
    classes = numbered(classes)
    merges = _agglomerated(bigrams.under(classes), n_classes).merges
    return Clusters(classes, merges, tuple(moves.tolist()))


def _agglomerated(bigrams: Bigrams, n_classes: int) -> Clusters:
    """Brown's classes, of words or of classes of words."""
    from models.kernels.clustering import agglomerate, terms

    before, after = bigrams.sides()
    f = terms(int(bigrams.counts.sum()))
    merges = agglomerate(before, after, FIXED, n_classes, f)
    within = len(merges) - (n_classes - 1)
    heads = list(range(bigrams.n_words))
    # A class that goes into another has the head that this one has in the end.
    for stays, goes in merges[:within][::-1].tolist():
        heads[goes] = heads[stays]
    classes = numbered(np.array(heads, np.int32))
    return Clusters(classes, classes[merges[within:]])


def numbered(classes: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same classes, numbered by where they first occur."""
    _, first, which = np.unique(classes, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), np.int32)
    ranks[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return ranks[which]


def paths(merges: NDArray[np.int32]) -> tuple[str, ...]:
    """The path of every class of words, from the root: 0 to the class that stays, 1 to the other.

    A class that is alone has the path "0".
    """
    found = [""] * (len(merges) + 1)
    for stays, goes in (merges[::-1] - FIXED).tolist():
        found[stays], found[goes] = found[stays] + "0", found[stays] + "1"
    return tuple(found) if len(found) > 1 else ("0",)


def prefixes(path: str, lengths: Sequence[int] = LENGTHS) -> tuple[str, ...]:
    """The beginnings of a path, as features of a word: wide classes to narrow ones.

    A shorter path is taken whole.
    """
    return tuple(path[:length] for length in lengths)


def mutual_information(bigrams: Bigrams) -> float:
    """The average mutual information of neighbours, in bits."""
    total = int(bigrams.counts.sum())
    lefts = np.bincount(bigrams.firsts, bigrams.counts, bigrams.n_words)
    rights = np.bincount(bigrams.seconds, bigrams.counts, bigrams.n_words)
    free = lefts[bigrams.firsts] * rights[bigrams.seconds]
    ratios = bigrams.counts / free * total
    return math.fsum((bigrams.counts / total * np.log2(ratios)).tolist())
