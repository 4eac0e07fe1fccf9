"""Pseudo-perplexity of any model that ``FillsIn``: each token hidden in turn, all others seen.

    exp(-(1 / N) sum over tokens of log P(token | all other tokens))

J. Salazar, D. Liang, T. Nguyen, K. Kirchhoff, *Masked language model scoring* (2020). What is seen
on both sides makes it far lower than a perplexity, and the probabilities multiply to no probability
of the text: it has a unit of its own, so that it is never ranked with perplexities
(``score.incomparable``). Two of them compare over one vocabulary and text, by equal context.

A token takes a reading of all its sentence, so of a long text sentences (or documents, by a model
that reads these as one) at even distances are scored, about ``LIMIT`` tokens together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from models.capabilities import FillsIn
from models.examples import token_examples
from models.family import Model, Progress
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary
from tasks.errors import TrainingError
from tasks.evaluation import bootstrap
from tasks.evaluation.perplexity import LARGEST, RUNS, chunks, reads_on, unigram
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score

LIMIT = 20_000
"""Tokens that are scored, about; of so many the interval is some 3 % on either side."""
CHUNK = 1 << 12
"""Tokens that a model is given at a time."""

DIRECTION = "from both sides"
POLICY = (
    "pseudo-perplexity, not comparable with perplexities: each token hidden in turn and predicted "
    "from both sides; unknown words scored as <unk>, sentence ends not scored"
)


def measure(
    split: str,
    model: Model,
    text: Tokens,
    *,
    source: str = "",
    train: Tokens | None = None,
    progress: Progress = lambda done, total, unit: None,
) -> Score:
    """The pseudo-perplexity of a model on a text, beside a unigram model's perplexity of its words.

    Args:
        split: names the score: "pseudo_perplexity.test".
        model: one that ``FillsIn``.
        text: what is scored.
        source: the content hash of the text; figures on different texts do not compare.
        train: the training text, for the baseline; none without.
        progress: told about tokens.

    Raises:
        TrainingError: the model gave what is no log-probability.
    """
    if not isinstance(model, FillsIn):
        raise TypeError(f"{type(model).__name__} fills in no hidden words")
    vocabulary, whole = model.vocabulary, reads_on(model)
    base = unigram(vocabulary, train) if train else None
    every = max(1, -(-text.n_tokens // LIMIT))
    sums, sizes, base_sum, unknown = list[float](), list[int](), 0.0, 0
    for some in _chosen(text, vocabulary, every, whole=whole):
        said = _checked(np.asarray(model.masked_log_prob(some), np.float64), some)
        unknown += int((some.ids == vocabulary.unknown).sum())
        if base:
            base_sum += float(base(some)[token_examples(some)].sum())
        for first, last in zip(some.starts[:-1], some.starts[1:], strict=True):
            sums.append(float(said[first:last].sum()))
            sizes.append(int(last - first))
        progress(sum(sizes), -(-text.n_tokens // every), "tokens")
    scored = sum(sizes)
    reason = "" if scored else "the text is empty"
    context = "the document" if whole else "the sentence"
    drawn = f", every {every}th {'document' if whole else 'sentence'}" if every > 1 else ""
    baselines: tuple[Baseline, ...] = ()
    if base and scored:
        note = "a perplexity: add-one estimates from the training text, of the same words"
        baselines = (Baseline("unigram", _exp(-base_sum / scored), note),)
    return Score(
        f"pseudo_perplexity.{split}",
        None if reason else _exp(-sum(sums) / scored),
        unit="pseudo_perplexity",
        scored=scored,
        total=text.n_tokens,
        items="tokens",
        policy=f"{unknown / max(1, scored):.2%} <unk>; {POLICY}; {context} is seen{drawn}",
        undefined=reason,
        baselines=baselines,
        details={
            "vocabulary": vocabulary.hash,
            "vocabulary_entries": len(vocabulary),
            "direction": DIRECTION,
            "context_crosses_sentences": whole,
            "unknown_policy": "scored as <unk>",
            "unknown_share": unknown / max(1, scored),
            "every": every,
            "tokens": scored,
            "text": source,
        },
        interval=_interval(np.array(sums), np.array(sizes)),
    )


def _chosen(
    text: Tokens, vocabulary: Vocabulary, every: int, *, whole: bool
) -> Iterator[Sentences]:
    """Every so many-th sentence or document of a text, some at a time."""
    number = 0
    for part in text.under(vocabulary):
        documents = part.documents if whole else np.arange(len(part) + 1, dtype=np.int64)
        chosen = np.flatnonzero((number + np.arange(len(documents) - 1)) % every == 0)
        number += len(documents) - 1
        if len(chosen):
            some = _documents(part, documents, chosen)
            yield from (chunk for chunk, _ in chunks(some, CHUNK, whole=True))


def _documents(
    text: Sentences, documents: NDArray[np.int64], chosen: NDArray[np.int64]
) -> Sentences:
    """Some documents of a text, in order."""
    lengths = np.diff(documents)
    keep = np.zeros(len(lengths), dtype=bool)
    keep[chosen] = True
    sizes = np.diff(text.starts)
    sentences = np.repeat(keep, lengths)
    tokens = np.repeat(sentences, sizes)
    written = None if text.written is None else text.written[tokens]
    starts, borders = _sums(sizes[sentences]), _sums(lengths[chosen])
    return Sentences(text.ids[tokens], starts, borders, written, text.forms)


def _sums(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)


def _checked(said: NDArray[np.float64], text: Sentences) -> NDArray[np.float64]:
    if said.shape != text.ids.shape:
        raise ValueError(f"{said.shape} log-probabilities for {len(text.ids)} tokens")
    if not (said <= 1e-6).all():
        raise TrainingError(
            "the model gives a log-probability that is above 0 or not a number",
            remedy="train it again, with a lower learning rate if it has one",
        )
    return said


def _interval(sums: NDArray[np.float64], sizes: NDArray[np.int64]) -> bootstrap.Interval | None:
    """Runs of whole sentences resampled, as of a perplexity."""
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]
    if len(sums) < LEAST_SCORED:
        return None
    runs = np.linspace(0, len(sums), min(RUNS, len(sums)), endpoint=False).astype(np.int64)
    means = -bootstrap.ratios(np.add.reduceat(sums, runs), np.add.reduceat(sizes, runs))
    return bootstrap.interval(np.exp(np.minimum(means, LARGEST)))


def _exp(value: float) -> float:
    return math.exp(min(value, LARGEST))
