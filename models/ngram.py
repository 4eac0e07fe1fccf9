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

from models.family import Inputs, Report, State, Style, Want, WantsNgrams, WantsVocabulary
from models.text import Sentences
from models.vocabulary import LM_RESERVED, Vocabulary

BOS, EOS = LM_RESERVED.index("<s>"), LM_RESERVED.index("</s>")
FALLBACK = (0.0, 0.5, 1.0, 1.5)
"""The discounts of an order whose own cannot be estimated, by adjusted count."""


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
        n_words = int(self.sizes[0])
        words = np.arange(n_words, dtype=np.int32)[:, None]
        for k in range(2, order + 1):
            here = self.numbers(k)
            keys = self.keys[here.start - n_words : here.stop - n_words]
            shorter, first = np.divmod(keys, n_words)
            rest = words[shorter - self.numbers(k - 1).start]
            words = np.concatenate([first.astype(np.int32)[:, None], rest], axis=1)
        return words


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
        self.table = _interpolate(sizes, keys, contexts, adjusted, discounts)
        lacking = [k for k, found in enumerate(estimates, 1) if found is None]
        return _report(sizes, spectra, discounts, lacking)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """Log-probabilities in nats, left to right, each sentence conditioned on its start alone.

        Args:
            sentences: S sentences with N tokens, under the model's vocabulary.

        Returns:
            (N + S,) for every sentence the tokens in order and then its ``</s>``.
        """
        table, stream = self.table, framed(sentences).astype(np.int64)
        scored = np.flatnonzero(stream != BOS)
        log_prob = np.zeros(len(stream))
        log_prob[scored] = np.log(table.probabilities[stream[scored]])
        number = stream  # of the n-gram of k words that ends at a position, -1 if there is none
        for k in range(2, table.order + 1):
            # An n-gram that begins with <s> is never longer, so none crosses into a sentence.
            known = scored[number[scored] >= 0]
            known = known[known >= k - 1]
            longer = np.full(len(stream), -1, np.int64)
            longer[known] = table.find(k, number[known], stream[known - k + 1])
            found = longer[scored] >= 0
            context = number[scored - 1]
            backing = scored[~found & (context >= 0)]
            log_prob[backing] += np.log(table.weights[number[backing - 1]])
            log_prob[scored[found]] = np.log(table.probabilities[longer[scored[found]]])
            number = longer
        return log_prob[scored]

    def next_words(self, context: NDArray[np.integer]) -> NDArray[np.float64]:
        """(V,) the probability of every entry of the vocabulary after a context; they sum to 1.

        Args:
            context: ids of the words before, ``<s>`` included where the sentence begins.
        """
        table = self.table
        word = np.arange(len(self.vocabulary))
        probabilities = np.array(table.probabilities[word])
        number, before = word, np.zeros(1, np.int64)
        for k in range(2, min(table.order, len(context) + 1) + 1):
            first = np.array([context[-k + 1]], np.int64)
            before = first if k == 2 else table.find(k - 1, before, first)
            if before[0] < 0:
                break
            longer = np.full(len(word), -1, np.int64)
            known = word[number >= 0]
            longer[known] = table.find(k, number[known], np.repeat(first, len(known)))
            seen = longer >= 0
            probabilities *= table.weights[before[0]]
            probabilities[seen] = table.probabilities[longer[seen]]
            number = longer
        return probabilities


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


def estimate_discounts(spectrum: NDArray[np.int64]) -> tuple[float, ...] | None:
    """(0, D_1, D_2, D_3+) from (5,) the numbers of n-grams with adjusted count 0 to 4.

    Returns:
        None where the equation cannot be used: a number it divides by is 0, or a discount is not
        above 0 (a context could lose all mass for words unseen after it) or takes more than all.
    """
    n = spectrum.astype(np.float64)
    if n[1:4].min() == 0:
        return None
    y = n[1] / (n[1] + 2 * n[2])
    found = (0.0, *(float(i - (i + 1) * y * n[i + 1] / n[i]) for i in (1, 2, 3)))
    return found if all(0 < found[i] <= i for i in (1, 2, 3)) else None


def _interpolate(
    sizes: NDArray[np.int64],
    keys: NDArray[np.int64],
    contexts: NDArray[np.int64],
    adjusted: NDArray[np.int64],
    discounts: NDArray[np.float64],
) -> Table:
    """The probabilities of the unigrams, then of each order from those of the one below.

    Args:
        sizes: (order,) n-grams by order.
        keys: (T - V,) as in ``Table``.
        contexts: (T,) the number of each n-gram without its last word.
        adjusted: (T,) adjusted counts.
        discounts: (order, 4) by adjusted count, the last for 3 and more.
    """
    n_words = int(sizes[0])
    bases = np.concatenate([[0], np.cumsum(sizes)])
    probabilities = np.empty(len(adjusted))
    weights = np.ones(int(bases[-2]))
    counts = adjusted[:n_words]
    taken = discounts[0][np.minimum(counts, 3)]
    left = taken.sum() / counts.sum() / (n_words - 1)
    probabilities[:n_words] = (counts - taken) / counts.sum() + left
    probabilities[BOS] = 0.0
    for k in range(1, len(sizes)):
        below, here = slice(bases[k - 1], bases[k]), slice(bases[k], bases[k + 1])
        counts, context = adjusted[here], contexts[here] - bases[k - 1]
        taken = discounts[k][np.minimum(counts, 3)]
        totals = np.bincount(context, counts, sizes[k - 1])
        mass = np.bincount(context, taken, sizes[k - 1])
        np.divide(mass, totals, out=weights[below], where=totals > 0)
        shorter = keys[here.start - n_words : here.stop - n_words] // n_words
        probabilities[here] = (counts - taken) / totals[context]
        probabilities[here] += weights[below][context] * probabilities[shorter]
    return Table(sizes, keys, probabilities, weights)


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
