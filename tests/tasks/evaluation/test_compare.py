"""Spread over models, and the difference of two on the same resamples."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tasks.evaluation.compare import differences, spreads
from tasks.evaluation.lexicon import Words
from tasks.evaluation.score import Score
from tasks.evaluation.sets import read_pairs
from tasks.evaluation.similarity import measure
from tests.tasks.evaluation.table import Table


def score(value: float | None, covered: str = "p") -> Score:
    details = {"covered": covered, "case_policy": "x"}
    why = "" if value is not None else "none"
    return Score("s", value, "spearman", 9, 9, "pairs", "", why, details=details)


def test_spread_by_hand() -> None:
    (one,) = spreads([[score(0.2)], [score(0.3)], [score(0.4)]])
    assert (one.mean, one.deviation) == (pytest.approx(0.3), pytest.approx(0.1))
    assert one.shown == "0.300 ± 0.100"
    assert not one.reason
    (some,) = spreads([[score(0.2)], [score(None)]])
    assert (some.mean, some.deviation, some.values) == (0.2, None, (0.2, None))
    (other,) = spreads([[score(0.2)], [score(0.4, "q")]])
    assert other.reason == "they cover different pairs"
    assert spreads([[score(0.2)], []]) == ()


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pairs whose gold scores are the cosines of ``true``."""
    path = tmp_path / "pairs.tsv"
    words = [f"w{i}" for i in range(80)]
    units = true() / np.linalg.norm(true(), axis=1, keepdims=True)
    rows = [
        f"{a}\t{b}\t{units[i] @ units[i + 1]:.9f}"
        for i, (a, b) in enumerate(itertools.pairwise(words))
    ]
    path.write_text("\n".join([*rows, "w0\tnobody\t1"]), "utf-8")
    return path


def true() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((80, 6))


def noisy(noise: float, seed: int, n: int = 80) -> Words:
    rows = true() + noise * np.random.default_rng(seed).standard_normal((80, 6))
    return Words(Table.of([f"w{i}" for i in range(n)], rows[:n]))


def test_a_difference_is_taken_on_what_both_cover(pairs: Path) -> None:
    better, worse = noisy(0.2, 1), noisy(1.5, 2, n=70)
    (found,) = differences("similarity", "x", {"all": pairs}, (better, worse), 100)
    assert (found.scored, found.total) == (69, 80)
    alone = measure("x", worse, read_pairs(pairs))
    assert found.second == pytest.approx(alone.value)
    assert found.value == pytest.approx(found.first - found.second)
    low, high = found.interval
    assert 0 < low < found.value < high
    assert found.shown.startswith("+")
    (back,) = differences("similarity", "x", {"all": pairs}, (worse, better), 100)
    assert (back.value, back.interval) == (
        pytest.approx(-found.value),
        pytest.approx((-high, -low)),
    )


def test_pairing_makes_an_interval_narrower_and_equals_differ_by_nothing(pairs: Path) -> None:
    one, two = noisy(0.5, 1), noisy(0.5, 1)
    (same,) = differences("similarity", "x", {"all": pairs}, (one, two), 100)
    assert (same.value, same.interval) == (0.0, (0.0, 0.0))
    near = noisy(0.55, 1)
    (found,) = differences("similarity", "x", {"all": pairs}, (one, near), 100)
    low, high = measure("x", one, read_pairs(pairs)).interval
    assert found.interval[1] - found.interval[0] < (high - low) / 2


def test_analogies_and_what_cannot_be_compared(tmp_path: Path, pairs: Path) -> None:
    questions = tmp_path / "questions.txt"
    rows = "\n".join(f"w{i}\tw{i + 1}" for i in range(0, 20, 2))
    questions.write_text(f": one\n{rows}\n", "utf-8")
    add, mul = differences("analogy", "q", {"all": questions}, (noisy(0, 1), noisy(1, 1)), 100)
    assert (add.scored, add.total, mul.name) == (90, 90, "analogy.q.3cosmul")
    assert add.value == pytest.approx(add.first - add.second)
    assert add.interval[0] <= add.value <= add.interval[1]
    assert differences("outliers", "x", {"all": pairs}, (noisy(0, 1), noisy(1, 1)), 100) == ()
    stranger = Words(Table.of(["a", "b"], np.eye(2)))
    (none,) = differences("similarity", "x", {"all": pairs}, (noisy(0, 1), stranger), 100)
    assert (none.value, none.shown, none.scored) == (None, "undefined", 0)
    for difference in differences("analogy", "q", {"all": questions}, (noisy(0, 1), stranger), 9):
        assert (difference.value, difference.scored) == (None, 0)
