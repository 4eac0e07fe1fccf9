"""Several models on the same sets: the spread over them, and the difference between two.

One score says little where another seed gives another one. The spread is the mean and the standard
deviation over models, meant for models that differ by their seed alone. The difference of two
models is taken on the items that both cover, and its interval is that of a paired bootstrap: both
are judged on the same resamples, so what is hard about an item falls on both. An interval without 0
says that the items do not explain the difference; whether the seeds do, the spread says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.evaluation import bootstrap
from tasks.evaluation.analogy import METHODS, Asked, pairs_of
from tasks.evaluation.lexicon import Words
from tasks.evaluation.score import LEAST_SCORED, Score, incomparable, show
from tasks.evaluation.sets import AnalogySet, PairSet, read_analogies, read_pairs
from tasks.evaluation.similarity import Judged, spearman


@dataclass(frozen=True)
class Spread:
    """One score over several models.

    Attributes:
        name: of the score.
        unit: of the score.
        values: of the models, None where undefined.
        mean: of the defined ones; None if there is none, or they do not compare.
        deviation: their standard deviation, with n - 1; None of fewer than two.
        reason: why they do not compare, if they do not.
    """

    name: str
    unit: str
    values: tuple[float | None, ...]
    mean: float | None
    deviation: float | None
    reason: str = ""

    @property
    def shown(self) -> str:
        """For people: "0.421 ± 0.012"."""
        if self.deviation is None:
            return show(self.mean, self.unit)
        percent = self.unit == "accuracy"
        spread = f"{self.deviation:.1%}" if percent else show(self.deviation, self.unit)
        return f"{show(self.mean, self.unit)} ± {spread}"

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def spreads(models: Sequence[Sequence[Score]]) -> tuple[Spread, ...]:
    """The spread of every score that all models have, in the order of the first model's."""
    found = []
    for score in models[0]:
        same = [next((s for s in scores if s.name == score.name), None) for scores in models]
        if all(same):
            found.append(_spread([s for s in same if s is not None]))
    return tuple(found)


def _spread(scores: Sequence[Score]) -> Spread:
    reason = next(filter(None, (incomparable(scores[0], other) for other in scores[1:])), "")
    # Figures that do not compare have no mean either.
    values = [score.value for score in scores if score.value is not None and not reason]
    return Spread(
        scores[0].name,
        scores[0].unit,
        tuple(score.value for score in scores),
        float(np.mean(values)) if values else None,
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
        reason,
    )


@dataclass(frozen=True)
class Difference:
    """One score of a model less that of another, on what both cover.

    Attributes:
        name: of the score.
        unit: of the score.
        first: of the first model, on the items that both cover.
        second: of the second model on the same.
        value: the first less the second; None where either is undefined.
        interval: of the difference, by the paired bootstrap.
        scored: items that both cover.
        total: items of the set.
    """

    name: str
    unit: str
    first: float | None
    second: float | None
    value: float | None
    interval: bootstrap.Interval | None
    scored: int
    total: int

    @property
    def shown(self) -> str:
        """For people: "+0.031 [-0.004, 0.066]: may be chance"."""
        if self.value is None:
            return "undefined"
        ends = [f"{self._scaled(end):+.3f}" for end in self.interval or ()]
        shown = f"{self._scaled(self.value):+.3f}{self._sign} [{', '.join(ends)}]"
        if self.interval is None:
            return shown
        low, high = self.interval
        return shown + (": may be chance" if low <= 0 <= high else ": more than chance")

    @property
    def covered(self) -> str:
        """What it rests on, for people."""
        return f"{self.scored:,} of {self.total:,} covered by both"

    @property
    def _sign(self) -> str:
        return " points" if self.unit == "accuracy" else ""

    def _scaled(self, value: float) -> float:
        return 100 * value if self.unit == "accuracy" else value

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def differences(
    kind: str, name: str, files: Mapping[str, Path], words: tuple[Words, Words], restrict: int
) -> tuple[Difference, ...]:
    """The differences of two models on a set of word pairs or of analogies; none for others.

    Args:
        kind: of the set.
        name: of the set.
        files: of the set, by name.
        words: of the two models.
        restrict: analogies look at so many of the most frequent words.

    Raises:
        InputError: a file cannot be read as such a set.
    """
    label = f"{kind}.{name}"
    if kind == "similarity":
        return (_of_pairs(label, read_pairs(next(iter(files.values())), name), words),)
    if kind == "analogy":
        return tuple(_of_questions(label, read_analogies(files, name), words, restrict))
    return ()


def _of_pairs(label: str, pairs: PairSet, words: tuple[Words, Words]) -> Difference:
    one, two = (Judged.of(side, pairs.pairs) for side in words)
    both = one.known & two.known
    gold, cosines = one.gold[both], np.stack([one.cosines[both], two.cosines[both]], axis=1)
    first, second = (spearman(gold, column)[0] for column in cosines.T)
    figures = np.full((1, 2), np.nan)
    if first is not None and second is not None and len(gold) >= LEAST_SCORED:
        figures = bootstrap.spearmans(gold, cosines)
    return _difference(label, "spearman", first, second, figures, len(gold), len(both))


def _of_questions(
    label: str, questions: AnalogySet, words: tuple[Words, Words], restrict: int
) -> list[Difference]:
    one, two = (Asked.of(side, questions, restrict) for side in words)
    found = []
    for method in METHODS:
        sections = []
        for section, rows in questions.sections.items():
            both = one.known(section) & two.known(section)
            answers = np.stack([one.right(section, method), two.right(section, method)], axis=1)
            if both.any():
                sections.append((pairs_of(rows)[both], answers[both]))
        scored = sum(len(pairs) for pairs, _ in sections)
        figures, first, second = np.full((1, 2), np.nan), None, None
        if scored >= LEAST_SCORED:
            figures = bootstrap.crossed(sections)
            first, second = np.concatenate([right for _, right in sections]).mean(axis=0).tolist()
        name = label if method == METHODS[0] else f"{label}.{method}"
        total = len(questions.questions)
        found.append(_difference(name, "accuracy", first, second, figures, scored, total))
    return found


def _difference(
    name: str,
    unit: str,
    first: float | None,
    second: float | None,
    figures: bootstrap.Figures,
    scored: int,
    total: int,
) -> Difference:
    ends = bootstrap.interval(figures[:, 0] - figures[:, 1])
    defined = first is not None and second is not None and ends is not None
    value = first - second if defined and first is not None and second is not None else None
    return Difference(name, unit, first, second, value, ends, scored, total)
