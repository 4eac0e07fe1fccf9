"""Perplexity of any model that ``Scores``: exp of the mean negative log-likelihood.

The mean runs over tokens and sentence ends, each sentence conditioned on its start alone, or, by a
model that reads on, also on the sentences before it in its document. An unknown word is scored as
``<unk>``, which makes a model with a small vocabulary look good: so two perplexities compare only
over one vocabulary (``score.incomparable``). Across vocabularies the bits a character compare:
there every unknown word is charged its spelling besides, at 8 bits for each of its UTF-8 bytes and
8 for its end, a code that knows nothing and is the same for all models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.capabilities import (
    ReadsBackward,
    ReadsOn,
    Scores,
    ScoresBackward,
    SpellsWords,
)
from models.family import Model, Progress
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import BOS, EOS, Vocabulary
from tasks.counted import counted
from tasks.errors import TrainingError
from tasks.evaluation import bootstrap
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score

CHUNK = 1 << 16
RUNS = 1000
"""Runs of sentences at most that are resampled for a confidence interval."""
LARGEST = 709.0
"""Nats whose exponential is still a finite number."""

FORWARD, BACKWARD = "left to right", "right to left"
SPELLING = "in bits a character: unknown words spelt at 8 bits a UTF-8 byte and their end"


@dataclass(frozen=True)
class Tally:
    """Sums over scored text; they add up over chunks.

    Attributes:
        tokens: words and marks of the text, sentence ends not among them.
        ends: sentence ends.
        unknown: tokens that are not in the vocabulary.
        impossible: tokens and ends with the probability zero.
        nll: summed negative log-probability of everything, in nats.
        nll_known: the part of it that fell on known tokens and on ends.
        characters: of the text as it was written, sentence ends included; 0 where not known.
        spelling_bytes: UTF-8 bytes of the unknown tokens, and one each for their ends.
    """

    tokens: int = 0
    ends: int = 0
    unknown: int = 0
    impossible: int = 0
    nll: float = 0.0
    nll_known: float = 0.0
    characters: int = 0
    spelling_bytes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Tally)))

    @property
    def perplexity(self) -> float:
        """Over all tokens and sentence ends."""
        return _exp(self.nll / max(1, self.tokens + self.ends))

    @property
    def perplexity_of_known(self) -> float | None:
        """Over known tokens and sentence ends; None if it has no finite value."""
        known = self.tokens + self.ends - self.unknown
        return _exp(self.nll_known / known) if known and math.isfinite(self.nll_known) else None

    @property
    def bits_per_character(self) -> float:
        """Bits a character of the text, every unknown word spelt out besides."""
        return (self.nll / math.log(2) + 8 * self.spelling_bytes) / max(1, self.characters)


LogProb = Callable[[Sentences], NDArray[np.float64]]


def tally(
    log_prob: LogProb,
    vocabulary: Vocabulary,
    text: Tokens,
    progress: Progress = lambda done, total, unit: None,
    size: int = CHUNK,
    *,
    whole: bool = False,
) -> Tally:
    """Score a text, a chunk of sentences at a time.

    Args:
        log_prob: as ``Scores.log_prob``.
        vocabulary: of the model.
        text: S sentences with N tokens.
        progress: told about tokens.
        size: about so many tokens are scored at a time.
        whole: never cut a document, for a model that reads on from sentence to sentence.

    Raises:
        TrainingError: the model gave a log-probability that is above 0 or not a number.
        ValueError: it gave another number of them than N + S.
    """
    sums, done = Tally(), 0
    for part in text.partitions:
        spelling = spelling_of(part)
        surfaces = part.text.ids
        if part.characters is not None:
            sums += Tally(characters=int(part.characters.sum()))
        for chunk, first in chunks(part.under(vocabulary), size, whole=whole):
            scores = checked(log_prob(chunk), chunk)
            n = len(chunk.ids)
            here = surfaces[first : first + n]
            unknown = chunk.ids == vocabulary.unknown
            spelt = int(spelling[here[unknown]].sum())
            sums += replace(tally_of(chunk, scores, unknown), spelling_bytes=spelt)
            done += n
            progress(done, text.n_tokens, "tokens")
    return sums


def checked(scores: NDArray[np.float64], text: Sentences) -> NDArray[np.float64]:
    """What a model gave for a text, if it can be log-probabilities of it.

    Raises:
        TrainingError: one is above 0 or not a number.
        ValueError: there is another number of them than N + S.
    """
    scores = np.asarray(scores, dtype=np.float64)
    n, s = len(text.ids), len(text)
    if scores.shape != (n + s,):
        raise ValueError(f"{scores.shape} log-probabilities for {n} tokens and {s} ends")
    # Rounding may lift a probability a hair above one; NaN fails the comparison too.
    if not (scores <= 1e-6).all():
        raise TrainingError(
            "the model gives a log-probability that is above 0 or not a number",
            remedy="train it again, with a lower learning rate if it has one",
        )
    return scores


def unknown_to(model: Model, text: Sentences) -> NDArray[np.bool_]:
    """(N,) which tokens a model takes for ``<unk>``: none, if it spells words.

    Args:
        model: whose vocabulary the text is under.
        text: N tokens.
    """
    if isinstance(model, SpellsWords):
        return np.zeros(len(text.ids), np.bool_)
    return np.asarray(text.ids == model.vocabulary.unknown)


def tally_of(text: Sentences, scores: NDArray[np.float64], unknown: NDArray[np.bool_]) -> Tally:
    """The sums of a scored text; what its characters and its spelling come to is not known here.

    Args:
        text: S sentences with N tokens under the vocabulary.
        scores: (N + S,) of a model.
        unknown: (N,) which tokens it takes for ``<unk>``.
    """
    n, s = len(text.ids), len(text)
    positions = np.arange(n) + np.repeat(np.arange(s), np.diff(text.starts))
    return Tally(
        tokens=n,
        ends=s,
        unknown=int(unknown.sum()),
        impossible=int(np.isneginf(scores).sum()),
        nll=-float(scores.sum()),
        nll_known=-float(np.delete(scores, positions[unknown]).sum()),
    )


class Heard:
    """A model's ``log_prob`` that keeps what each sentence summed up to, for the interval."""

    def __init__(self, log_prob: LogProb) -> None:
        self._log_prob = log_prob
        self._sums: list[NDArray[np.float64]] = []
        self._sizes: list[NDArray[np.int64]] = []

    def __call__(self, sentences: Sentences) -> NDArray[np.float64]:
        """What the model says."""
        scores = self._log_prob(sentences)
        if len(scores) == len(sentences.ids) + len(sentences) and len(sentences):
            starts = np.asarray(sentences.starts[:-1]) + np.arange(len(sentences))
            self._sums.append(np.add.reduceat(scores, starts, dtype=np.float64))
            self._sizes.append(np.diff(sentences.starts).astype(np.int64) + 1)
        return scores

    def interval(self) -> bootstrap.Interval | None:
        """The confidence interval of the perplexity, runs of whole sentences resampled."""
        sums = np.concatenate(self._sums) if self._sums else np.zeros(0)
        if len(sums) < LEAST_SCORED:
            return None
        # Neighbours are alike, so that long runs of them are what is drawn where there are many.
        runs = np.linspace(0, len(sums), min(RUNS, len(sums)), endpoint=False).astype(np.int64)
        sizes = np.add.reduceat(np.concatenate(self._sizes), runs)
        means = -bootstrap.ratios(np.add.reduceat(sums, runs), sizes)
        return bootstrap.interval(np.exp(np.minimum(means, LARGEST)))


def reads_on(model: Model) -> bool:
    """Whether a model sees the sentences before; see ``models.capabilities.ReadsOn``."""
    return isinstance(model, ReadsOn) and model.reads_on


def direction_of(model: Model) -> str:
    """In which direction a model reads; see ``models.capabilities.ReadsBackward``."""
    backward = isinstance(model, ReadsBackward) and model.reads_backward
    return BACKWARD if backward else FORWARD


def chunks(text: Sentences, size: int, *, whole: bool = False) -> Iterator[tuple[Sentences, int]]:
    """Runs of whole sentences with at least ``size`` tokens, and the index of their first token.

    Each sentence is a document of its own, so that no context crosses sentences; or else documents
    are as they are, and ``whole``.
    """
    begin = 0
    while begin < len(text):
        first = int(text.starts[begin])
        end = int(np.searchsorted(text.starts, first + size, side="left"))
        end = min(max(end, begin + 1), len(text))
        documents = np.arange(begin, end + 1, dtype=np.int64)
        if whole:
            last = int(np.searchsorted(text.documents, end, side="left"))
            from_ = int(np.searchsorted(text.documents, begin, side="right")) - 1
            documents = np.asarray(text.documents[from_ : last + 1])
            end = int(documents[-1])
        yield text.stretch(begin, end, documents - begin), first
        begin = end


def spelling_of(part: TokenPartition) -> NDArray[np.int64]:
    """For every type its UTF-8 bytes with their end."""
    sizes = [len(word.encode("utf-8", "surrogatepass")) + 1 for word in part.types]
    return np.array(sizes, dtype=np.int64)


def unigram(vocabulary: Vocabulary, train: Tokens) -> LogProb:
    """A unigram model over a vocabulary: add-one estimates from the training text.

    It predicts every entry but ``<s>``; ``<unk>`` has the training tokens outside the vocabulary.
    A vocabulary that has grown has counts of earlier texts too, so words are counted in this one.
    """
    counts = np.ones(len(vocabulary), dtype=np.float64)
    for part in train.partitions:
        np.add.at(counts, vocabulary.ids(part.types), part.counts)
    counts[vocabulary.reserved.index(EOS)] += train.n_sentences
    counts[vocabulary.reserved.index(BOS)] = 0
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(counts / counts.sum())
    end = log_probabilities[vocabulary.reserved.index(EOS)]

    def log_prob(sentences: Sentences) -> NDArray[np.float64]:
        return np.insert(log_probabilities[sentences.ids], sentences.starts[1:], end)

    return log_prob


def uniform(vocabulary: Vocabulary) -> LogProb:
    """A model that holds every entry but ``<s>`` for equally likely."""

    def log_prob(sentences: Sentences) -> NDArray[np.float64]:
        return np.full(len(sentences.ids) + len(sentences), -math.log(len(vocabulary) - 1))

    return log_prob


def measure(
    split: str,
    model: Model,
    text: Tokens,
    *,
    source: str = "",
    train: Tokens | None = None,
    progress: Progress = lambda done, total, unit: None,
) -> tuple[Score, ...]:
    """The perplexity of a model on a text and its bits a character, beside a unigram model's.

    Args:
        split: names the scores: "perplexity.test", "bits_per_character.test"; of a model that
            reads in both directions also "perplexity_backward.test".
        model: one that ``Scores``.
        text: what is scored.
        source: the content hash of the text; figures on different texts do not compare.
        train: the training text, for the unigram model; without it the baseline is the uniform
            distribution over the vocabulary.
        progress: told about tokens.
    """
    if not isinstance(model, Scores):
        raise TypeError(f"{type(model).__name__} gives no probability of text")
    vocabulary = model.vocabulary
    heard, crosses = Heard(model.log_prob), reads_on(model)
    sums = tally(heard, vocabulary, text, progress, whole=crosses)
    spells = isinstance(model, SpellsWords)
    if spells:
        sums = replace(sums, unknown=0, nll_known=sums.nll, spelling_bytes=0)
    base = tally(unigram(vocabulary, train) if train else uniform(vocabulary), vocabulary, text)
    against = None if spells else base.perplexity
    trained = train is not None
    made = _Made(split, {**terms_of(model), "text": source}, base, against, trained=trained)
    scores = [made.perplexity("perplexity", sums, heard), made.bits(sums)]
    if isinstance(model, ScoresBackward) and model.scores_backward:
        back = Heard(model.log_prob_backward)
        sums = tally(back, vocabulary, text, progress, whole=crosses)
        made = replace(made, terms={**made.terms, "direction": BACKWARD})
        scores.append(made.perplexity("perplexity_backward", sums, back))
    return tuple(scores)


@dataclass(frozen=True)
class _Made:
    """Scores out of sums, all on the same terms and beside the same baseline."""

    split: str
    terms: dict[str, Any]
    base: Tally
    against: float | None
    trained: bool

    def perplexity(self, name: str, sums: Tally, heard: Heard) -> Score:
        positions, items = sums.tokens + sums.ends, "tokens and sentence ends"
        undefined, value = self._undefined(sums), sums.perplexity
        score = self._score(
            name, "perplexity", value, self.against, positions, items, undefined, sums
        )
        return score if undefined else replace(score, interval=heard.interval())

    def bits(self, sums: Tally) -> Score:
        uncounted = "" if sums.characters else "the characters of the text are not known"
        name, undefined = "bits_per_character", self._undefined(sums) or uncounted
        value, against = sums.bits_per_character, self.base.bits_per_character
        total, items = sums.characters, "characters"
        return self._score(name, name, value, against, total, items, undefined, sums)

    def _undefined(self, sums: Tally) -> str:
        if sums.impossible:
            return f"the model holds {counted(sums.impossible, 'tokens')} for impossible"
        return "the text is empty" if sums.tokens == 0 else ""

    def _score(
        self,
        name: str,
        unit: str,
        value: float,
        against: float | None,
        total: int,
        items: str,
        undefined: str,
        sums: Tally,
    ) -> Score:
        terms = {**self.terms, **_counts(sums)}
        crosses = terms["context_crosses_sentences"]
        context = f"{'' if crosses else 'no '}context across sentences"
        return Score(
            f"{name}.{self.split}",
            None if undefined else value,
            unit=unit,
            scored=total,
            total=total,
            items=items,
            policy=f"{terms['unknown_share']:.2%} {policy(terms)}, {context}, {terms['direction']}",
            undefined=undefined,
            baselines=(_baseline(against if sums.tokens else None, self.trained),),
            details=terms,
        )


def policy(terms: Mapping[str, Any]) -> str:
    """What is scored, for people; of ``terms_of``."""
    return f"unknown words {terms['unknown_policy']}, sentence ends counted"


def _baseline(value: float | None, trained: bool) -> Baseline:
    if trained:
        return Baseline("unigram", value, "add-one estimates from the training text")
    return Baseline("uniform", value, "every entry but <s> equally likely")


def terms_of(model: Model) -> dict[str, Any]:
    """On what terms a figure is: two perplexities compare only on the same."""
    vocabulary, spells = model.vocabulary, isinstance(model, SpellsWords)
    return {
        "vocabulary": vocabulary.hash,
        "vocabulary_entries": len(vocabulary),
        "direction": direction_of(model),
        "sentence_ends_counted": True,
        "context_crosses_sentences": reads_on(model),
        "unknown_policy": "spelt out" if spells else "scored as <unk>",
        "spelling": "by the model itself" if spells else SPELLING,
    }


def _counts(sums: Tally) -> dict[str, Any]:
    return {
        "tokens": sums.tokens,
        "sentence_ends": sums.ends,
        "unknown_tokens": sums.unknown,
        "unknown_share": sums.unknown / sums.tokens if sums.tokens else 0.0,
        "perplexity_of_known": sums.perplexity_of_known,
        "characters": sums.characters,
        "spelling_bytes": sums.spelling_bytes,
        "nats": sums.nll if math.isfinite(sums.nll) else None,
    }


def _exp(value: float) -> float:
    """exp, with the largest float in place of an overflow."""
    return math.exp(min(value, LARGEST))
