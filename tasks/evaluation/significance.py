"""Whether one language model is better than another on a text, or chance would do.

Both score the same sentences. Resamples are drawn by the paired bootstrap (Koehn 2004, "Statistical
significance tests for machine translation evaluation"), and what is drawn are sentences, or runs of
neighbours where there are more than 1,000, for neighbours are alike and drawing them one by one
would make intervals too narrow. Two models are compared by

* nats a prediction, where they predict the same: one vocabulary, one way to read the text. The
  exponential of the difference is the ratio of their perplexities.
* bits a character, where their vocabularies or tokens differ; every unknown word is spelt out, see
  ``tasks.evaluation.perplexity``.

What does not compare is refused with the reason (``score.incomparable``).

The p-value is two-sided: twice the share of resamples in which the difference is not on the side
where it was found, each counted with one resample more (Davison & Hinkley 1997, section 4.2). Of
1,000 resamples it is at least 0.002.

Shapes: ``S`` sentences, ``R`` resamples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.counted import counted
from tasks.evaluation import bootstrap
from tasks.evaluation.by_sentence import SentenceScores
from tasks.evaluation.perplexity import LARGEST, RUNS
from tasks.evaluation.score import LEAST_SCORED, Score, incomparable, too_few

NATS, BITS = "nats a prediction", "bits a character"
CHANCE = 1 - bootstrap.LEVEL
"""A p-value from which on chance may explain a difference."""


@dataclass(frozen=True)
class TextDifference:
    """One figure of a language model less that of another, on the same text; lower is better.

    Attributes:
        name: "perplexity.test", "bits_per_character.test".
        unit: ``NATS`` or ``BITS``.
        first: of the first model.
        second: of the second one.
        value: the first less the second; None where it is refused or undefined.
        interval: of the value, by the paired bootstrap.
        ratio: of the perplexities, the first over the second; None of bits a character.
        ratio_interval: of the ratio.
        p: two-sided.
        sentences: of the text.
        runs: of sentences, that were drawn.
        reason: why there is no value, else empty.
    """

    name: str
    unit: str
    first: float | None = None
    second: float | None = None
    value: float | None = None
    interval: bootstrap.Interval | None = None
    ratio: float | None = None
    ratio_interval: bootstrap.Interval | None = None
    p: float | None = None
    sentences: int = 0
    runs: int = 0
    reason: str = ""

    @property
    def shown(self) -> str:
        """For people: "-0.043 nats a prediction [-0.055, -0.031], ..., p = 0.002: ..."."""
        if self.value is None or self.interval is None or self.p is None:
            return f"not compared: {self.reason}"
        parts = [f"{self.value:+.4f} {self.unit} {_ends(self.interval, '+.4f')}"]
        if self.ratio is not None and self.ratio_interval is not None:
            ends = _ends(self.ratio_interval, ".4f")
            parts.append(f"ratio of perplexities {self.ratio:.4f} {ends}")
        verdict = "may be chance" if self.p > CHANCE else "more than chance"
        return ", ".join([*parts, f"p = {self.p:.3f}: {verdict}"])

    @property
    def covered(self) -> str:
        """What it rests on, for people; empty where nothing was compared."""
        runs = counted(self.runs, "runs")
        return "" if self.reason else f"{counted(self.sentences, 'sentences')} in {runs}"

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def text_differences(
    name: str,
    scores: tuple[Sequence[Score], Sequence[Score]],
    by_sentence: Callable[[], Iterable[SentenceScores]],
) -> list[TextDifference]:
    """The differences of two models on a text, of perplexity and of bits a character.

    A score that neither has, such as that of two models that fill in hidden words, is left out.

    Args:
        name: of the text, "test" in "perplexity.test".
        scores: of the two models; those on this text say whether they compare.
        by_sentence: scores the text by both; only called where something compares.
    """
    units = {f"perplexity.{name}": NATS, f"bits_per_character.{name}": BITS}
    names = [one for one in units if any(s.name == one for found in scores for s in found)]
    reasons = [_reason(one, scores) for one in names]
    sides: list[SentenceScores] = []
    if not all(reasons):
        sides = list(by_sentence())
        if not np.array_equal(sides[0].characters, sides[1].characters):
            # Other sentences are other ends to predict, and runs would not be of the same text.
            reasons = [reason or "they cut the text into different sentences" for reason in reasons]
    return [
        TextDifference(one, units[one], reason=reason)
        if reason
        else _difference(one, units[one], *sides)
        for one, reason in zip(names, reasons, strict=True)
    ]


def _reason(name: str, scores: tuple[Sequence[Score], Sequence[Score]]) -> str:
    """Why two models do not compare by a score."""
    first, second = (next((s for s in found if s.name == name), None) for found in scores)
    if first is None or second is None:
        return "one of them gives no probability of text"
    return first.undefined or second.undefined or incomparable(first, second)


def _difference(
    name: str, unit: str, first: SentenceScores, second: SentenceScores
) -> TextDifference:
    sentences = len(first.nats)
    if sentences < LEAST_SCORED:
        return TextDifference(name, unit, reason=too_few(sentences, "sentences"))
    by_tokens = unit == NATS
    columns = (first.nats, second.nats) if by_tokens else (first.bits, second.bits)
    return paired(name, unit, np.stack(columns, 1), first.scored if by_tokens else first.characters)


def paired(
    name: str, unit: str, costs: NDArray[np.float64], wholes: NDArray[np.int64]
) -> TextDifference:
    """The difference of the mean costs of two models, with what the paired bootstrap says of it.

    Args:
        name: of the figure.
        unit: ``NATS`` has a ratio of perplexities as well.
        costs: (S, 2) of every sentence for both models, finite.
        wholes: (S,) what they are divided by: predictions, or characters.
    """
    sentences = len(costs)
    runs = np.linspace(0, sentences, min(RUNS, sentences), endpoint=False).astype(np.int64)
    means = bootstrap.ratios(np.add.reduceat(costs, runs), np.add.reduceat(wholes, runs))
    drawn = means[:, 0] - means[:, 1]
    first, second = (costs.sum(axis=0) / wholes.sum()).tolist()
    ends = bootstrap.interval(drawn)
    ratio = ratio_ends = None
    if unit == NATS and ends is not None:
        ratio, ratio_ends = _exp(first - second), (_exp(ends[0]), _exp(ends[1]))
        first, second = _exp(first), _exp(second)
    value = float(costs.sum(axis=0) @ [1, -1] / wholes.sum())
    p = p_value(drawn)
    return TextDifference(
        name, unit, first, second, value, ends, ratio, ratio_ends, p, sentences, len(runs)
    )


def p_value(differences: bootstrap.Figures) -> float:
    """Two-sided, from (R,) differences in resamples."""
    sides = (int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (min(sides) + 1) / (len(differences) + 1))


def _exp(value: float) -> float:
    return math.exp(min(value, LARGEST))


def _ends(interval: bootstrap.Interval, form: str) -> str:
    return f"[{', '.join(format(end, form) for end in interval)}]"
