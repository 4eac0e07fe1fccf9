"""Analogies: a is to b as c is to d (Mikolov et al. 2013; 3CosMul: Levy & Goldberg 2014).

Answers come from the ``restrict`` most frequent words, the three words of the question left out. A
question may have several right answers, any of which will do (BATS: Gladkova et al. 2016). One
with a word outside these, or none of whose answers could be given, is skipped, and the coverage
tells how many were not; beside the accuracy stands that with skipped questions counted as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import vectors
from models.family import Progress
from tasks.artifacts import digest
from tasks.evaluation import bootstrap
from tasks.evaluation.lexicon import CASE_POLICY, Lexicon, Words
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score, too_few
from tasks.evaluation.sets import AnalogySet, Question

RESTRICT = 300_000
METHODS: tuple[vectors.Method, ...] = ("3cosadd", "3cosmul")

Ids = NDArray[np.int64]
Answers = NDArray[np.bool_]


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


@dataclass(frozen=True, eq=False)
class Asked:
    """The questions of a set as a model is asked them.

    Attributes:
        units: (V, D) unit rows of the words among which answers are looked for.
        places: by section, (Q, 3) positions of ``a``, ``b`` and ``c``, -1 for an unknown word.
        answers: by section, (Q, N) positions of right answers, -1 for no answer: an unknown word,
            or one of the question, which is never given.
    """

    units: vectors.Matrix
    places: Mapping[str, Ids]
    answers: Mapping[str, Ids]

    @staticmethod
    def of(words: Words, questions: AnalogySet, restrict: int) -> Asked:
        """The questions under the most frequent words of a model that have a vector."""
        lexicon, table = words.restricted(restrict)
        places, answers = {}, {}
        for section, rows in questions.sections.items():
            places[section] = np.array([[lexicon.find(w) for w in (q.a, q.b, q.c)] for q in rows])
            answers[section] = _positions(lexicon, [q.answers for q in rows])
            own = (answers[section][:, :, None] == places[section][:, None, :]).any(axis=2)
            answers[section][own] = -1
        return Asked(vectors.unit(table), places, answers)

    def known(self, section: str) -> NDArray[np.bool_]:
        """(Q,) whether a question can be answered: its words are known, and an answer is."""
        some_answer = (self.answers[section] >= 0).any(axis=1)
        return np.asarray((self.places[section] >= 0).all(axis=1) & some_answer)

    def right(self, section: str, method: vectors.Method) -> NDArray[np.bool_]:
        """(Q,) whether a question is answered as the set says; False where it is not known."""
        known = self.known(section)
        right = np.zeros(len(known), dtype=np.bool_)
        if known.any():
            given = vectors.analogies(self.units, self.places[section][known], method)
            right[known] = (self.answers[section][known] == given[:, None]).any(axis=1)
        return right


def _positions(lexicon: Lexicon, answers: Sequence[Sequence[str]]) -> Ids:
    """(Q, N) positions, each row filled up with -1."""
    table = np.full((len(answers), max(map(len, answers))), -1, dtype=np.int64)
    for row, words in zip(table, answers, strict=True):
        row[: len(words)] = [lexicon.find(word) for word in words]
    return table


def pairs_of(questions: Sequence[Question]) -> Ids:
    """(Q, 2) the two word pairs of each question, as ids of the distinct pairs of a section."""
    ids: dict[tuple[str, str], int] = {}
    rows = [
        [ids.setdefault(pair, len(ids)) for pair in ((q.a, q.b), (q.c, q.answers[0]))]
        for q in questions
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def measure(
    name: str,
    words: Words,
    questions: AnalogySet,
    *,
    restrict: int = RESTRICT,
    progress: Progress = lambda done, total, unit: None,
) -> tuple[Score, Score]:
    """The accuracies of 3CosAdd and of 3CosMul.

    Args:
        name: of the first score, "analogy.google"; the second is "analogy.google.3cosmul".
        words: of the model.
        questions: the set.
        restrict: answers and questions are among so many of the most frequent words.
        progress: told about questions.
    """
    asked = Asked.of(words, questions, restrict)
    known = {section: asked.known(section) for section in questions.sections}
    covered = [
        q
        for section, rows in questions.sections.items()
        for q, keep in zip(rows, known[section], strict=True)
        if keep
    ]
    terms = {
        "covered": digest(covered),
        "unknown_policy": "questions with an unknown word are skipped",
        "case_policy": CASE_POLICY[words.case],
        "restrict": restrict,
        "candidates": len(asked.units),
        "unread_lines": questions.unread,
        "interval_method": f"{bootstrap.METHOD} of the word pairs of each section",
    }
    total = len(METHODS) * len(questions.questions)
    done, scores = 0, []
    for method in METHODS:
        right = {}
        for section, rows in questions.sections.items():
            right[section] = asked.right(section, method)
            done += len(rows)
            progress(done, total, "questions")
        scores.append(_score(name, method, right, known, terms, _interval(questions, right, known)))
    return scores[0], scores[1]


def _interval(
    questions: AnalogySet, right: Mapping[str, Answers], known: Mapping[str, Answers]
) -> bootstrap.Interval | None:
    sections = [
        (pairs_of(rows)[known[section]], right[section][known[section], None])
        for section, rows in questions.sections.items()
        if known[section].any()
    ]
    return bootstrap.interval(bootstrap.crossed(sections)[:, 0]) if sections else None


def _score(
    name: str,
    method: vectors.Method,
    right: Mapping[str, Answers],
    known: Mapping[str, Answers],
    terms: Mapping[str, Any],
    interval: bootstrap.Interval | None,
) -> Score:
    sections = {
        section: Tally(int(right[section].sum()), int(keep.sum()), len(keep))
        for section, keep in known.items()
    }
    overall, candidates = sum(sections.values(), Tally()), terms["candidates"]
    title = {"3cosadd": "3CosAdd", "3cosmul": "3CosMul"}[method]
    # Of random vectors every word that is not in the question is as likely as any other.
    chance = 1 / (candidates - 3) if candidates > 3 else None
    undefined = "" if overall.scored else "no question has all its words in the vocabulary"
    if 0 < overall.scored < LEAST_SCORED:
        undefined = too_few(overall.scored, "questions")
    skipped = overall.total - overall.scored
    as_wrong = {"unknown questions as wrong": overall.correct / overall.total}
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
        interval=None if undefined else interval,
        baselines=(
            Baseline("random", chance, "expected of random vectors: one over the candidates"),
        ),
        details={
            **terms,
            "method": title,
            "correct": overall.correct,
            "unknown_questions": skipped,
            "other_policies": as_wrong if skipped else {},
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
