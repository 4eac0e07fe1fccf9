"""A score: a figure that always carries its coverage, its policy and its baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tasks.counted import counted

UNITS = {
    "perplexity": "lower",
    "pseudo_perplexity": "lower",
    "bits_per_character": "lower",
    "spearman": "higher",
    "accuracy": "higher",
    "purity": "higher",
}
"""The units of scores, and which way is better."""


@dataclass(frozen=True)
class Baseline:
    """What a score is to be held against.

    Attributes:
        name: "unigram model", "random vectors", "champion".
        value: in the unit of the score; None where it is undefined.
        note: how it was made.
    """

    name: str
    value: float | None
    note: str = ""


@dataclass(frozen=True)
class Score:
    """One figure about one model.

    Attributes:
        name: "perplexity.test", "similarity.wordsim353", "analogy.google".
        value: None means undefined (nothing covered, constant gold scores): never 0, never NaN.
        unit: a key of ``UNITS``.
        scored: how many items (tokens, pairs, questions) the value rests on.
        total: how many there were.
        items: what the items are, "pairs".
        policy: what was done with unknown words and with case, in one line for people.
        undefined: why there is no value.
        interval: the ends of its 95 % confidence interval (``bootstrap``); None where there is
            none, as for a likelihood.
        baselines: what to hold it against, the most telling first.
        details: everything else, as JSON. ``other_policies`` holds what the value would be if
            unknown words were treated otherwise.
    """

    name: str
    value: float | None
    unit: str
    scored: int
    total: int
    items: str
    policy: str
    undefined: str = ""
    baselines: tuple[Baseline, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"{self.unit!r} is none of the units {sorted(UNITS)}")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.name} is {self.value}: an undefined score is None")
        if (self.value is None) != bool(self.undefined):
            raise ValueError(f"{self.name}: a score without a value says why, any other does not")

    @property
    def coverage(self) -> float:
        """The share of items that the value rests on; 0 where there were none."""
        return self.scored / self.total if self.total else 0.0

    @property
    def lower_is_better(self) -> bool:
        """Which way is better."""
        return UNITS[self.unit] == "lower"

    @property
    def shown(self) -> str:
        """The value for people: "142.7", "0.613", "23.5 %", "undefined"."""
        return show(self.value, self.unit)

    @property
    def range(self) -> str:
        """The confidence interval for people: "[0.31, 0.52]"; empty where there is none."""
        return shown_range(self.interval, self.unit)

    @property
    def otherwise(self) -> str:
        """For people: what other policies for unknown words would give, "as 0: 0.310"."""
        others: Mapping[str, float | None] = self.details.get("other_policies", {})
        return "; ".join(f"{name}: {show(value, self.unit)}" for name, value in others.items())

    @property
    def line(self) -> str:
        """The whole score in one line for people, coverage and policy included."""
        unit = " Spearman" if self.unit == "spearman" else ""
        value = f"{self.shown} ({self.undefined})" if self.undefined else f"{self.shown}{unit}"
        parts = [" ".join(filter(None, [f"{self.name}: {value}", self.range]))]
        parts += [f"{b.name} {show(b.value, self.unit)}" for b in self.baselines]
        covered = f"{self.scored:,} of {counted(self.total, self.items)} ({self.coverage:.1%})"
        return " | ".join(filter(None, [*parts, covered, self.policy, self.otherwise]))

    def beside(self, baseline: Baseline) -> Score:
        """The same score with one more baseline."""
        return replace(self, baselines=(*self.baselines, baseline))

    def to_json(self) -> dict[str, Any]:
        """A JSON object that ``from_json`` takes back."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Score:
        """The score that ``to_json`` wrote."""
        baselines = tuple(Baseline(**baseline) for baseline in value["baselines"])
        ends = value.get("interval")
        interval = (float(ends[0]), float(ends[1])) if ends else None
        return Score(**{**value, "baselines": baselines, "interval": interval})


LEAST_SCORED = 20
"""Pairs or questions that a score takes; of fewer, chance decides: random vectors rank 20 pairs
with a correlation that strays by 0.23 from zero (one over the root of 19)."""


def too_few(scored: int, items: str) -> str:
    """Why so little is no score."""
    return (
        f"only {counted(scored, items)} covered: too few to tell from chance "
        f"({LEAST_SCORED} are needed)"
    )


def incomparable(a: Score, b: Score) -> str:
    """Why two scores must not be ranked against each other; empty if they may be."""
    if (a.name, a.unit) != (b.name, b.unit):
        return f"one is {a.name} in {a.unit}, the other {b.name} in {b.unit}"
    for key, why in TERMS[a.unit].items():
        if a.details.get(key) != b.details.get(key):
            return why
    return ""


TERMS: dict[str, dict[str, str]] = {
    "perplexity": {
        "vocabulary": "their vocabularies differ: what one predicts, the other calls <unk>",
        "direction": "they read in different directions",
        "sentence_ends_counted": "one counts sentence ends, the other does not",
        "context_crosses_sentences": "one sees across sentences, the other does not",
        "text": "they were measured on different texts",
        "tokens": "they were measured on different tokens",
    },
    "pseudo_perplexity": {
        "vocabulary": "their vocabularies differ: what one predicts, the other calls <unk>",
        "context_crosses_sentences": "one sees across sentences, the other does not",
        "text": "they were measured on different texts",
        "tokens": "they were measured on different tokens",
    },
    "bits_per_character": {
        "direction": "they read in different directions",
        "sentence_ends_counted": "one counts sentence ends, the other does not",
        "context_crosses_sentences": "one sees across sentences, the other does not",
        "text": "they were measured on different texts",
        "characters": "they were measured on different texts",
    },
    "spearman": {
        "covered": "they cover different pairs",
        "case_policy": "they treat case differently",
    },
    "accuracy": {
        "covered": "they cover different questions",
        "case_policy": "they treat case differently",
        "candidates": "they choose among different numbers of words",
    },
    "purity": {
        "covered": "they cover different words",
        "case_policy": "they treat case differently",
    },
}
"""What must agree for two scores to compare, and what it means where it does not."""


def show(value: float | None, unit: str) -> str:
    """A value for people."""
    if value is None:
        return "undefined"
    if unit == "accuracy":
        return f"{value:.1%}" if value >= 0.001 or value == 0 else f"{value:.3%}"
    if not unit.endswith("perplexity"):
        return f"{value:.3f}"
    return f"{value:,.1f}" if value < 1e9 else f"{value:.1e}"


def shown_range(interval: Sequence[float] | None, unit: str) -> str:
    """An interval for people: "[0.31, 0.52]"; empty where there is none."""
    return f"[{', '.join(show(end, unit) for end in interval)}]" if interval else ""
