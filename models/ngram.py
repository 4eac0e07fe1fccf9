"""n-gram models: modified Kneser-Ney, and every estimator that came before it.

*Modified Kneser-Ney* (Chen & Goodman 1998), interpolated, is the default. With ``a`` the adjusted
counts, ``c`` a context, ``c'`` the context without its first word and ``N_i(c)`` the number of
words with adjusted count ``i`` (3 means 3 and more) after ``c``::

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
as lmplz does on demand, and the report and the model say so; or the training is refused.

The others: *Kneser-Ney* with one discount an order, interpolated (``models.kneser_ney``) or backing
off as in the first paper; *Katz*, *maximum likelihood* and *add-k* (``models.katz``);
*Jelinek-Mercer*, deleted interpolation (``models.interpolation``). N-grams can be left out by count
or by entropy (``models.pruning``). All of them end as one back-off table (``models.backoff``).

Shapes: ``N`` tokens, ``S`` sentences, ``V`` vocabulary, ``T`` n-grams of all orders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.backoff import BOS, Table
from models.capabilities import Decoder
from models.decoding import Windowed
from models.discounts import Discounts, Smoothing, find_discounts, is_discounted
from models.family import (
    Inputs,
    Report,
    State,
    Style,
    Want,
    WantsNgrams,
    WantsTokens,
    WantsVocabulary,
)
from models.interpolation import Frequencies, fit_weights
from models.katz import add_constant, back_off
from models.kneser_ney import interpolate
from models.pruning import by_count, by_entropy, kept_contexts, without
from models.text import Sentences
from models.trie import Trie
from models.vocabulary import LM_RESERVED, Vocabulary


@dataclass(frozen=True)
class Config:
    """Settings of the n-gram model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["ngram"] = "ngram"
    order: Annotated[
        int, Field(ge=1, le=10, description="Words of an n-gram, context included")
    ] = 5
    smoothing: Annotated[
        Smoothing,
        Field(
            description="How probabilities are estimated; maximum-likelihood holds what it has "
            "not seen for impossible, jelinek-mercer fits its weights to the valid split"
        ),
    ] = "modified-kneser-ney"
    discounts: Annotated[
        Literal["fallback", "refuse"],
        Field(
            description="Where discounts of Kneser-Ney or Katz are undefined: take fixed ones and "
            "say so, or refuse to train"
        ),
    ] = "fallback"
    cutoff: Annotated[
        int, Field(ge=1, le=100, description="Katz: counts above it are not discounted")
    ] = 5
    k: Annotated[
        float, Field(ge=1e-9, le=1e9, description="add-k: what is added to every count")
    ] = 1.0
    buckets: Annotated[
        Literal["average-count", "count"],
        Field(
            description="Jelinek-Mercer: contexts share a weight by how often they occur, or by "
            "how often each word seen after them does on average"
        ),
    ] = "average-count"
    prune: Annotated[
        tuple[int, ...],
        Field(
            description="By order, n-grams that occur so often or less are left out: [0, 0, 1] "
            "leaves out trigrams and longer ones seen once; empty for none"
        ),
    ] = ()
    prune_entropy: Annotated[
        float,
        Field(
            ge=0,
            allow_inf_nan=False,
            description="N-grams are left out that raise the perplexity by a share below this, "
            "such as 1e-8; 0 for none; it serves Kneser-Ney badly",
        ),
    ] = 0.0
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often than this count as <unk>")
    ] = 2
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words; empty for no limit")
    ] = None

    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "n-gram"
    paper: ClassVar[str] = "Chen & Goodman 1998; Heafield et al. 2013"

    def __post_init__(self) -> None:
        self._refuse_what_has_no_part()
        prune = self.prune
        if prune and (prune[0] != 0 or list(prune) != sorted(prune)):
            raise ValueError(
                f"prune ({list(prune)}) has a threshold for each order from the unigrams' on: it "
                "must begin with 0, for unigrams stay, and never fall"
            )
        if len(prune) > self.order:
            raise ValueError(
                f"prune ({list(prune)}) has {len(prune)} thresholds for an order of {self.order}"
            )

    def _refuse_what_has_no_part(self) -> None:
        """A setting that would change nothing was meant to change something."""
        fields = type(self).__dataclass_fields__
        parts = {
            "discounts": is_discounted(self.smoothing),
            "cutoff": self.smoothing == "katz",
            "k": self.smoothing == "add-k",
            "buckets": self.smoothing == "jelinek-mercer",
        }
        for name, has_part in parts.items():
            if not has_part and getattr(self, name) != fields[name].default:
                raise ValueError(
                    f"{name} ({getattr(self, name)}) has no part in {self.smoothing} smoothing; "
                    "leave it out, or take another smoothing"
                )

    def wants(self) -> Mapping[str, Want]:
        """Counts of the highest order, their vocabulary, and held-out text to fit weights to."""
        heldout = {"heldout": WantsTokens("valid")} if self.smoothing == "jelinek-mercer" else {}
        return {
            "ngrams": WantsNgrams(self.order),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, LM_RESERVED),
            **heldout,
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
        # Models were stored without it before discounts had a policy.
        fallback = np.asarray(state.get("fallback_orders", np.zeros(0, np.int64)))
        return Ngram(self, vocabulary, table, tuple(fallback.tolist()))


class Ngram:
    """An n-gram model.

    Attributes:
        fallback_orders: the orders whose discounts could not be estimated and are fixed ones.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        table: Table,
        fallback_orders: tuple[int, ...] = (),
    ) -> None:
        self.config = config
        self.vocabulary = vocabulary
        self.table = table
        self.fallback_orders = fallback_orders

    def state(self) -> State:
        """The arrays of the table, and which orders have fixed discounts."""
        return {
            "sizes": self.table.sizes,
            "keys": self.table.keys,
            "probabilities": self.table.probabilities,
            "weights": self.table.weights,
            "fallback_orders": np.array(self.fallback_orders, np.int64),
        }

    def fit(self, inputs: Inputs) -> Report:
        """Estimate the model from n-gram counts.

        Raises:
            ValueError: there are no counts, or they are not those of a whole text; discounts are
                undefined and are to be refused; there is no held-out text to fit weights to.
        """
        config, counts = self.config, inputs.ngrams()
        if len(counts.ngrams) == 0 or counts.order != config.order:
            raise ValueError(
                f"a model of order {config.order} needs counts of n-grams of that order"
            )
        return self.estimate(Trie.of(counts, len(self.vocabulary)), inputs)

    def estimate(self, trie: Trie, inputs: Inputs) -> Report:
        """Estimate the model from the n-grams of a text; see ``fit``.

        Args:
            trie: all n-grams, in the ids of the vocabulary.
            inputs: with the held-out text, for a smoothing that wants one.
        """
        config = self.config
        report: dict[str, float | int | str] = {"smoothing": config.smoothing}
        found = find_discounts(trie, config.smoothing, config.cutoff)
        if found is not None:
            if found.lacking and config.discounts == "refuse":
                raise ValueError(found.refusal())
            self.fallback_orders = found.lacking
            report |= found.report()
        pruned = by_count(trie, config.prune)
        self.table = self._smoothed(trie, found, pruned, inputs, report)
        self._prune(trie, pruned)
        for order, (size, all_of_it) in enumerate(
            zip(self.table.sizes, trie.sizes, strict=True), 1
        ):
            report[f"order_{order}.ngrams"] = int(size)
            if size < all_of_it:
                report[f"order_{order}.pruned"] = int(all_of_it - size)
        return report

    def _smoothed(
        self,
        trie: Trie,
        found: Discounts | None,
        pruned: NDArray[np.bool_] | None,
        inputs: Inputs,
        report: dict[str, float | int | str],
    ) -> Table:
        """The table of all n-grams, before any leaves it."""
        config = self.config
        if config.smoothing == "jelinek-mercer":
            frequencies = Frequencies(trie, pruned, config.buckets)
            heldout = list(inputs.tokens("heldout").under(self.vocabulary))
            levels, joined = frequencies.levels(heldout)
            if all((part.ids == self.vocabulary.unknown).all() for part in heldout):
                report["warning"] = (
                    "the weights were fitted to held-out text without a word of the vocabulary, so "
                    "they say nothing of other text"
                )
            fitted = fit_weights(levels, 1 / (len(self.vocabulary) - 1))
            report["em_rounds"] = len(fitted.log_likelihoods) - 1
            report["heldout_perplexity"] = math.exp(-fitted.log_likelihoods[-1])
            for order, weights in enumerate(fitted.weights, 1):
                report[f"order_{order}.weights"] = " ".join(f"{w:.3f}" for w in weights)
            return frequencies.table(fitted.weights, joined)
        if config.smoothing == "add-k":
            return add_constant(trie, config.k, pruned)
        if found is None:
            nothing = np.zeros((trie.order, 1))
            return back_off(trie, trie.counts(), nothing, pruned, smooth=False)
        if config.smoothing in ("modified-kneser-ney", "kneser-ney"):
            return interpolate(trie, found.taken, pruned)
        return back_off(trie, found.counts, found.taken, pruned)

    def _prune(self, trie: Trie, pruned: NDArray[np.bool_] | None) -> None:
        """Let n-grams leave the table: those that are marked, and those that matter little."""
        if pruned is not None:
            self.table = without(self.table, pruned)
        if self.config.prune_entropy > 0:
            contexts = trie.contexts if pruned is None else kept_contexts(trie.contexts, pruned)
            table, small = by_entropy(self.table, contexts, self.config.prune_entropy)
            self.table = without(table, small)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) see ``models.capabilities.Scores``; -inf where maximum likelihood has 0."""
        return self.table.log_prob(sentences)

    def next_log_probs(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """(S, V) see ``models.backoff.Table.next_log_probs``."""
        return self.table.next_log_probs(contexts)

    def next_words(self, context: NDArray[np.integer]) -> NDArray[np.float64]:
        """(V,) see ``models.backoff.Table.next_words``."""
        return self.table.next_words(context)

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        return Windowed(self.next_log_probs, self.config.order - 1, prefixes)
