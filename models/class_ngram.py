"""The class-based n-gram model of Brown et al. (1992).

"Class-based n-gram models of natural language", Computational Linguistics 18(4), equation 17. With
``c(w)`` the class of a word::

    P(w_i | w_1 ... w_(i-1)) = P(c(w_i) | c(w_(i-n+1)) ... c(w_(i-1))) P(w_i | c(w_i))

The classes come from ``models.clustering``. Their n-grams are a back-off table like that of words
(interpolated modified Kneser-Ney, ``models.ngram``), and the share of a word in its class is that
of the text. ``<unk>``, ``<s>`` and ``</s>`` are classes of their own, so unknown words have the
probability of a class and ``<s>`` is never predicted.

Shapes: ``N`` tokens, ``S`` sentences, ``V`` vocabulary, ``C`` classes of words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.backoff import BOS, Table
from models.clustering import (
    FIXED,
    Bigrams,
    Clustering,
    Clusters,
    cluster,
    mutual_information,
    paths,
)
from models.decoding import Windowed
from models.family import Inputs, Report, State, Style, Want, WantsNgrams, WantsVocabulary
from models.text import NgramCounts, Sentences
from models.vocabulary import LM_RESERVED, Vocabulary


@dataclass(frozen=True)
class Config:
    """Settings of the class-based n-gram model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["class-ngram"] = "class-ngram"
    order: Annotated[
        int, Field(ge=2, le=5, description="Classes of an n-gram, context included")
    ] = 3
    classes: Annotated[
        int, Field(ge=1, description="Of words; with fewer words each is a class of its own")
    ] = 500
    clustering: Annotated[
        Clustering, Field(description="Agglomeration by mutual information, or exchange of words")
    ] = "exchange"
    iterations: Annotated[
        int, Field(ge=1, description="Times that an exchange goes through the words, at most")
    ] = 20
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often than this count as <unk>")
    ] = 2
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words; empty for no limit")
    ] = None

    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Class-based n-gram"
    paper: ClassVar[str] = "Brown et al. 1992; Martin, Liermann & Ney 1998"

    def wants(self) -> Mapping[str, Want]:
        """Counts of the highest order, and the vocabulary that they are in."""
        return {
            "ngrams": WantsNgrams(self.order),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, LM_RESERVED),
        }

    def build(self, inputs: Inputs, *, seed: int) -> ClassNgram:
        """A model to ``fit``, of one class, uniform until then; nothing about it is random."""
        vocabulary = inputs.vocabulary()
        classes = np.full(len(vocabulary), FIXED, np.int32)
        classes[:FIXED] = np.arange(FIXED)
        words = max(1, len(vocabulary.words))
        shares = np.full(len(vocabulary), 1 / words)
        shares[:FIXED] = 1.0
        total = words + FIXED - 1
        uniform = np.array([1.0, 0.0, 1.0, words]) / total
        sizes = np.array([FIXED + 1] + [0] * (self.order - 1), np.int64)
        table = Table(sizes, np.zeros(0, np.int64), uniform, np.ones(FIXED + 1))
        clusters = Clusters(classes, np.zeros((0, 2), np.int32))
        return ClassNgram(self, vocabulary, clusters, shares, table)

    def restore(self, vocabulary: Vocabulary, state: State) -> ClassNgram:
        """The model whose ``state`` this is.

        Raises:
            ValueError: the arrays are not of this vocabulary.
        """
        names = ("sizes", "keys", "probabilities", "weights")
        table = Table(*(np.asarray(state[name]) for name in names))
        clusters = Clusters(np.asarray(state["classes"]), np.asarray(state["merges"]))
        shares = np.asarray(state["shares"])
        if not len(clusters.classes) == len(shares) == len(vocabulary):
            raise ValueError(
                f"there are classes of {len(clusters.classes)} entries, not of a vocabulary of "
                f"{len(vocabulary)}"
            )
        return ClassNgram(self, vocabulary, clusters, shares, table)


class ClassNgram:
    """A class-based n-gram model.

    Attributes:
        clusters: the classes of words and their tree.
        shares: (V,) of every entry in its class.
        table: of n-grams of classes.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        clusters: Clusters,
        shares: NDArray[np.float64],
        table: Table,
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.clusters, self.shares, self.table = clusters, shares, table

    def state(self) -> State:
        """The classes, their tree, the shares, and the arrays of the table."""
        return {
            "classes": self.clusters.classes,
            "merges": self.clusters.merges,
            "shares": self.shares,
            "sizes": self.table.sizes,
            "keys": self.table.keys,
            "probabilities": self.table.probabilities,
            "weights": self.table.weights,
        }

    def fit(self, inputs: Inputs) -> Report:
        """Cluster the words, and estimate the model from n-gram counts.

        Raises:
            ValueError: there are no counts, or they are not those of a whole text.
        """
        from models.kernels.classes import counts_of_classes, estimate

        counts, n_words = inputs.ngrams(), len(self.vocabulary)
        if len(counts.ngrams) == 0 or counts.order != self.config.order:
            raise ValueError(
                f"a model of order {self.config.order} needs counts of n-grams of that order"
            )
        bigrams = Bigrams.of(counts, n_words)
        self.clusters = cluster(
            bigrams, self.config.clustering, self.config.classes, self.config.iterations
        )
        classes = self.clusters.classes
        self.shares = shares_of(counts, classes)
        n_classes = FIXED + len(self.clusters)
        self.table, report = estimate(counts_of_classes(counts, classes), n_classes)
        return {**self._report(bigrams), **_reworded(report)}

    def _report(self, bigrams: Bigrams) -> Report:
        report: dict[str, float | int | str] = {
            "classes": len(self.clusters),
            "information.words": mutual_information(bigrams),
            "information.classes": mutual_information(bigrams.under(self.clusters.classes)),
        }
        if self.clusters.moves:
            report["rounds"] = len(self.clusters.moves)
            report["moved_last"] = self.clusters.moves[-1]
        if len(self.clusters) < self.config.classes:
            report["fewer_classes"] = (
                f"{self.config.classes} were asked for, but the vocabulary has "
                f"{len(self.clusters)} words: each is a class of its own"
            )
        return report

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) see ``models.capabilities.Scores``."""
        ids = sentences.ids[sentences.starts[0] : sentences.starts[-1]]
        starts = sentences.starts - sentences.starts[0]
        classes = Sentences(self.clusters.classes[ids], starts, sentences.documents)
        scores = self.table.log_prob(classes)
        ends = np.zeros(len(scores), np.bool_)
        ends[starts[1:] + np.arange(len(sentences))] = True
        scores[~ends] += np.log(self.shares[ids])
        return scores

    def next_log_probs(self, contexts: NDArray[np.integer]) -> NDArray[np.float64]:
        """(S, V) nats of every entry of the vocabulary as the next word.

        Args:
            contexts: (S, n) the words before, ``<s>`` where the sentence begins.
        """
        different, which = np.unique(self.clusters.classes[contexts], axis=0, return_inverse=True)
        chances = np.array([self.table.next_words(context) for context in different])
        with np.errstate(divide="ignore"):  # <s> is never predicted
            logs = np.log(chances).reshape(len(different), int(self.table.sizes[0]))
        found: NDArray[np.float64] = logs[which.ravel()][:, self.clusters.classes]
        return found + np.log(self.shares)

    def decoder(self, prefixes: Sentences) -> Windowed:
        """See ``models.capabilities.Predicts``."""
        return Windowed(self.next_log_probs, self.config.order - 1, prefixes)

    def paths(self) -> tuple[str, ...]:
        """The path of every word of the vocabulary in the tree of classes."""
        found = paths(self.clusters.merges)
        return tuple(found[c - FIXED] for c in self.clusters.classes[FIXED:].tolist())


def shares_of(counts: NgramCounts, classes: NDArray[np.int32]) -> NDArray[np.float64]:
    """(V,) the share of every entry among the occurrences of its class.

    What never occurs has its part of a count that is spread over its class.
    """
    words = np.asarray(counts.ngrams[:, -1])
    occurrences = np.bincount(words, np.asarray(counts.counts), len(classes)).astype(np.float64)
    occurrences[BOS] = 1.0  # it is never predicted
    members = np.bincount(classes)
    unseen = np.bincount(classes, occurrences == 0)
    spread = occurrences + (unseen > 0)[classes] / members[classes]
    shares: NDArray[np.float64] = spread / np.bincount(classes, spread)[classes]
    return shares


def _reworded(report: Report) -> Report:
    """The report of the n-grams, whose warning is about classes here."""
    if "warning" not in report:
        return report
    orders = str(report["fallback_orders"]).replace(" ", ", ")
    return {
        **report,
        "warning": f"the discounts of order {orders} could not be estimated and are 0.5, 1 and "
        "1.5: there are too few classes, or too little text, for n-grams that are seen once",
    }
