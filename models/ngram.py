"""The interpolated modified Kneser-Ney n-gram model of Chen and Goodman (1998).

With ``a`` the adjusted counts, ``c`` a context, ``c'`` the context without its first word and
``N_i(c)`` the number of words with adjusted count ``i`` (3 means 3 and more) after ``c``::

    P(w | c) = (a(c w) - D(a(c w))) / sum_x a(c x) + g(c) P(w | c')
    g(c)     = (D_1 N_1(c) + D_2 N_2(c) + D_3 N_3(c)) / sum_x a(c x)

down to the uniform distribution over the words, ``<unk>`` and ``</s>`` below the unigrams.
``a`` is the count for n-grams of the highest order and those that begin with ``<s>``, else the
number of different words before (Kneser & Ney 1995). Each order has its own discounts (Chen &
Goodman, equation 26), from the number ``n_i`` of its n-grams with adjusted count ``i``::

    Y = n_1 / (n_1 + 2 n_2)        D_i = i - (i + 1) Y n_(i+1) / n_i        D(a) = D_min(a, 3)

These are the conventions of KenLM's lmplz (Heafield et al. 2013), whose numbers these are, with
three differences. ``<unk>`` may occur in the counts (words too rare for the vocabulary are counted
as this one word) and then is estimated like any word; without occurrences it has its share of the
uniform distribution. ``<s>`` is never predicted, so its probability is 0. Where an equation above
cannot be used (no n-grams with count 1, 2 or 3, or a discount outside ``0 < D_i <= i``: tiny texts,
texts with copies, vocabularies without rare words), that order takes the discounts 0.5, 1 and 1.5,
as lmplz does on demand, and the report says so.

Shapes: ``N`` tokens, ``S`` sentences, ``V`` vocabulary, ``T`` n-grams of all orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.backoff import BOS, Table
from models.decoding import Windowed
from models.family import (
    Decoder,
    Inputs,
    Report,
    State,
    Style,
    Want,
    WantsNgrams,
    WantsVocabulary,
)
from models.kneser_ney import FALLBACK, estimate_discounts, interpolate
from models.text import Sentences
from models.vocabulary import LM_RESERVED, Vocabulary


@dataclass(frozen=True)
class Config:
    """Settings of the n-gram model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["ngram"] = "ngram"
    order: Annotated[int, Field(ge=1, le=5, description="Words of an n-gram, context included")] = 5
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often than this count as <unk>")
    ] = 2
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words; empty for no limit")
    ] = None

    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Kneser-Ney n-gram"
    paper: ClassVar[str] = "Chen & Goodman 1998; Heafield et al. 2013"

    def wants(self) -> Mapping[str, Want]:
        """Counts of the highest order, and the vocabulary that they are in."""
        return {
            "ngrams": WantsNgrams(self.order),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, LM_RESERVED),
        }

    def build(self, inputs: Inputs, *, seed: int) -> Ngram:
        """A model to ``fit``, uniform until then; nothing about it is random."""
        vocabulary = inputs.vocabulary()
        uniform = np.full(len(vocabulary), 1 / (len(vocabulary) - 1))
        uniform[BOS] = 0.0
        sizes = np.array([len(vocabulary)] + [0] * (self.order - 1), np.int64)
        weights = np.ones(len(vocabulary) if self.order > 1 else 0)
        return Ngram(self, vocabulary, Table(sizes, np.zeros(0, np.int64), uniform, weights))

    def restore(self, vocabulary: Vocabulary, state: State) -> Ngram:
        """The model whose ``state`` this is; mapped arrays stay mapped.

        Raises:
            ValueError: the arrays are not of this order or vocabulary.
        """
        names = ("sizes", "keys", "probabilities", "weights")
        table = Table(*(np.asarray(state[name]) for name in names))
        if len(table.sizes) != self.order or table.sizes[0] != len(vocabulary):
            raise ValueError(
                f"the n-gram table has {table.sizes.tolist()} n-grams by order, which is not that "
                f"of a model of order {self.order} over {len(vocabulary)} words"
            )
        return Ngram(self, vocabulary, table)


class Ngram:
    """An n-gram model."""

    def __init__(self, config: Config, vocabulary: Vocabulary, table: Table) -> None:
        self.config = config
        self.vocabulary = vocabulary
        self.table = table

    def state(self) -> State:
        """The arrays of the table."""
        return {
            "sizes": self.table.sizes,
            "keys": self.table.keys,
            "probabilities": self.table.probabilities,
            "weights": self.table.weights,
        }

    def fit(self, inputs: Inputs) -> Report:
        """Estimate the model from n-gram counts.

        Raises:
            ValueError: there are no counts, or they are not those of a whole text.
        """
        from models.kernels.ngram import frozen, grow, level_sizes, link

        counts, n_words, order = inputs.ngrams(), len(self.vocabulary), self.config.order
        if len(counts.ngrams) == 0 or counts.order != order:
            raise ValueError(f"a model of order {order} needs counts of n-grams of that order")
        ngrams, occurrences = frozen(counts.ngrams), frozen(counts.counts)
        sizes = level_sizes(ngrams)[1:]
        sizes[0] = n_words
        bases = np.concatenate([[0, 0], np.cumsum(sizes)])
        keys, children, adjusted = grow(ngrams, occurrences, bases)
        contexts = link(keys, np.concatenate([[0], np.cumsum(children)]) + n_words, bases)
        if contexts.min() < -1:
            raise ValueError("an n-gram is counted without its context; count whole sentences")
        spectra = [
            np.bincount(np.minimum(adjusted[bases[k] : bases[k + 1]], 5), minlength=6)[:5]
            for k in range(1, order + 1)
        ]
        estimates = [estimate_discounts(spectrum) for spectrum in spectra]
        discounts = np.array([FALLBACK if found is None else found for found in estimates])
        self.table = interpolate(sizes, keys, contexts, adjusted, discounts)
        lacking = [k for k, found in enumerate(estimates, 1) if found is None]
        return _report(sizes, spectra, discounts, lacking)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) see ``models.family.Scores``."""
        return self.table.log_prob(sentences)

    def next_log_probs(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """(S, V) see ``models.backoff.Table.next_log_probs``."""
        return self.table.next_log_probs(contexts)

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.family.Predicts``."""
        return Windowed(self.next_log_probs, self.table.order - 1, prefixes)

    def next_words(self, context: NDArray[np.integer]) -> NDArray[np.float64]:
        """(V,) see ``models.backoff.Table.next_words``."""
        return self.table.next_words(context)


def _report(
    sizes: NDArray[np.int64],
    spectra: list[NDArray[np.int64]],
    discounts: NDArray[np.float64],
    lacking: list[int],
) -> Report:
    report: dict[str, float | int | str] = {"fallback_orders": " ".join(map(str, lacking))}
    for k, size in enumerate(sizes, 1):
        report[f"order_{k}.ngrams"] = int(size)
        report |= {f"order_{k}.n{i}": int(spectra[k - 1][i]) for i in range(1, 5)}
        report |= {f"order_{k}.d{i}": float(discounts[k - 1][i]) for i in range(1, 4)}
    if lacking:
        report["warning"] = (
            f"the discounts of order {', '.join(map(str, lacking))} could not be estimated and are "
            "0.5, 1 and 1.5: the text is small, has copies, or its vocabulary has no rare words"
        )
    return report
