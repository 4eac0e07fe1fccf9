"""Analogies: a is to b as c is to d (Mikolov et al. 2013; 3CosMul: Levy & Goldberg 2014).

Answers come from the ``restrict`` most frequent words, the three words of the question left out.
A question with a word outside them is skipped, and the coverage tells how many were not; the
accuracy with skipped questions counted as wrong stands in the details.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import vectors
from models.family import Model, Progress
from tasks.artifacts import digest
from tasks.evaluation.lexicon import CASE_POLICY, Case, Lexicon, vectors_of
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score, too_few
from tasks.evaluation.sets import AnalogySet

RESTRICT = 300_000
METHODS: tuple[vectors.Method, ...] = ("3cosadd", "3cosmul")


@dataclass(frozen=True)
class Tally:
    """What became of some questions.

    Attributes:
        correct: answered as the set says.
        scored: asked, for all their words are known.
        total: in the set.
    """

    correct: int = 0
    scored: int = 0
    total: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.correct + other.correct, self.scored + other.scored, self.total + other.total
        )

    @property
    def accuracy(self) -> float | None:
        """The share of questions asked that was answered right; None if none was asked."""
        return self.correct / self.scored if self.scored else None

    def to_json(self) -> dict[str, Any]:
        """Counts and accuracy."""
        counts = {"correct": self.correct, "scored": self.scored, "total": self.total}
        return {**counts, "accuracy": self.accuracy}


def measure(
    name: str,
    model: Model,
    questions: AnalogySet,
    *,
    restrict: int = RESTRICT,
    case: Case = "fold",
    progress: Progress = lambda done, total, unit: None,
) -> tuple[Score, Score]:
    """The accuracies of 3CosAdd and of 3CosMul.

    Args:
        name: of the first score, "analogy.google"; the second is "analogy.google.3cosmul".
        model: one that ``EmbedsWords``.
        questions: the set.
        restrict: answers and questions are among so many of the most frequent words.
        case: see ``Lexicon``.
        progress: told about questions.
    """
    lexicon, table = vectors_of(model, Lexicon.of(model.vocabulary, case, restrict))
    units = vectors.unit(table)
    ids = {
        section: np.array([[lexicon.find(word) for word in (q.a, q.b, q.c, q.d)] for q in rows])
        for section, rows in questions.sections.items()
    }
    known = np.concatenate([rows.min(axis=1) >= 0 for rows in ids.values()])
    asked = [q for q, keep in zip(questions.questions, known, strict=True) if keep]
    terms = {
        "covered": digest(asked),
        "unknown_policy": "questions with an unknown word are skipped",
        "case_policy": CASE_POLICY[case],
        "restrict": restrict,
        "candidates": len(lexicon.words),
        "unread_lines": questions.unread,
    }
    total = len(METHODS) * len(questions.questions)
    done, scores = 0, []
    for method in METHODS:
        sections: dict[str, Tally] = {}
        for section, rows in ids.items():
            sections[section] = _ask(units, rows, method)
            done += len(rows)
            progress(done, total, "questions")
        scores.append(_score(name, method, sections, terms))
    return scores[0], scores[1]


def _ask(units: vectors.Matrix, ids: NDArray[np.int64], method: vectors.Method) -> Tally:
    """Questions as (Q, 4) positions, -1 for an unknown word."""
    known = ids[(ids >= 0).all(axis=1)]
    answers = vectors.analogies(units, known[:, :3], method) if len(known) else known[:, 3]
    return Tally(int((answers == known[:, 3]).sum()), len(known), len(ids))


def _score(
    name: str, method: vectors.Method, sections: Mapping[str, Tally], terms: Mapping[str, Any]
) -> Score:
    overall, candidates = sum(sections.values(), Tally()), terms["candidates"]
    title = {"3cosadd": "3CosAdd", "3cosmul": "3CosMul"}[method]
    # Of random vectors every word that is not in the question is as likely as any other.
    chance = 1 / (candidates - 3) if candidates > 3 else None
    undefined = "" if overall.scored else "no question has all its words in the vocabulary"
    if 0 < overall.scored < LEAST_SCORED:
        undefined = too_few(overall.scored, "questions")
    return Score(
        name if method == "3cosadd" else f"{name}.{method}",
        None if undefined else overall.accuracy,
        unit="accuracy",
        scored=overall.scored,
        total=overall.total,
        items="questions",
        policy=(
            f"{title} among the {candidates:,} most frequent words, "
            f"{terms['unknown_policy']}, {terms['case_policy']}"
        ),
        undefined=undefined,
        baselines=(
            Baseline("random", chance, "expected of random vectors: one over the candidates"),
        ),
        details={
            **terms,
            "method": title,
            "correct": overall.correct,
            "unknown_questions": overall.total - overall.scored,
            "accuracy_with_unknown_as_wrong": overall.correct / overall.total,
            "subsets": {part: tally.to_json() for part, tally in _subsets(sections).items()},
            "sections": {section: tally.to_json() for section, tally in sections.items()},
        },
    )


def _subsets(sections: Mapping[str, Tally]) -> dict[str, Tally]:
    """Semantic and syntactic totals, where sections are named as in Google's set (``gram...``)."""
    syntactic = {name for name in sections if name.startswith("gram")}
    if not syntactic:
        return {}
    parts = {
        "semantic": [tally for name, tally in sections.items() if name not in syntactic],
        "syntactic": [tally for name, tally in sections.items() if name in syntactic],
    }
    return {part: sum(tallies, Tally()) for part, tallies in parts.items()}
