"""Word similarity: parity with gensim, and the traps of word-pair files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.evaluation.sets import PairSet, WordPair, find_set, read_pairs
from tasks.evaluation.similarity import measure, spearman
from tests.tasks.evaluation.table import Table


def on_a_circle(**degrees: float) -> Table:
    angles = np.deg2rad(list(degrees.values()))
    return Table.of(list(degrees), np.stack([np.cos(angles), np.sin(angles)], axis=1))


def pair_set(*pairs: tuple[str, str, float]) -> PairSet:
    return PairSet(tuple(WordPair(*pair) for pair in pairs))


CIRCLE = on_a_circle(n=0, ne=45, e=91, se=135, s=180)
FOUR = (("n", "ne", 9.0), ("n", "e", 5.0), ("n", "se", 6.0), ("n", "s", 1.0))


def test_by_hand() -> None:
    # Cosines fall in the order of the pairs; the gold ranks are 4, 2, 3, 1: rho = 1 - 6*2/60.
    score = measure("similarity.x", CIRCLE, pair_set(*FOUR))
    assert score.value == pytest.approx(0.8)
    assert (score.scored, score.total, score.unit) == (4, 4, "spearman")
    assert score.baselines[0].name == "random"
    assert "4 of 4 pairs" in score.line
    assert "unknown word skipped" in score.line


def test_of_a_few_pairs_chance_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.evaluation.similarity.LEAST_SCORED", 4)
    assert measure("x", CIRCLE, pair_set(*FOUR)).value == pytest.approx(0.8)
    few = measure("x", CIRCLE, pair_set(*FOUR[:3], ("n", "unknown", 2.0)))
    assert few.value is None
    assert few.undefined == "only 3 pairs covered; under 20 chance decides"
    assert few.details["covered"]


@pytest.mark.parametrize("reference", ["wordsim353", "simlex999"])
def test_equals_gensim(reference: str) -> None:
    """Gensim is told what it would otherwise not see: every form is lower-case here."""
    keyedvectors = pytest.importorskip("gensim.models.keyedvectors")
    _, path = find_set(reference, {"wordsim353": "wordsim353.tsv", "simlex999": "simlex999.txt"})
    pairs = read_pairs(path)
    words = sorted({w.lower() for pair in pairs.pairs for w in (pair.first, pair.second)})
    rng = np.random.default_rng(5)
    words = [word for word in words if rng.random() < 0.8]
    table = Table.of(words, rng.standard_normal((len(words), 20)))
    theirs = keyedvectors.KeyedVectors(20)
    theirs.add_vectors(words, table.rows)
    score = measure("x", table, pairs)
    pearson, rho, unknown = theirs.evaluate_word_pairs(str(path))
    assert score.value == pytest.approx(rho.statistic, abs=1e-6)
    assert score.details["pearson"] == pytest.approx(pearson.statistic, abs=1e-6)
    assert 100 * score.details["unknown_share"] == pytest.approx(unknown)
    pearson, rho, _ = theirs.evaluate_word_pairs(str(path), dummy4unknown=True)
    assert score.details["spearman_with_unknown_as_0"] == pytest.approx(rho.statistic, abs=1e-6)
    assert score.details["pearson_with_unknown_as_0"] == pytest.approx(pearson.statistic, abs=1e-6)


def test_unknown_pairs_are_counted_once_and_both_figures_shown() -> None:
    score = measure("x", CIRCLE, pair_set(*FOUR, ("n", "nowhere", 8.0)))
    assert (score.scored, score.total) == (4, 5)
    assert score.details["unknown_pairs"] == 1
    assert score.details["unknown_share"] == pytest.approx(0.2)
    assert score.value == pytest.approx(0.8)
    # Cosine ranks 5, 3, 2, 1, 4 against gold ranks 5, 2, 3, 1, 4: rho = 1 - 6*2/120.
    assert score.details["spearman_with_unknown_as_0"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([(a, b, 3.0) for a, b, _ in FOUR], "gold scores are equal"),
        (FOUR[:1], "1 pairs covered"),
        ([("no", "where", 1.0), ("nor", "here", 2.0)], "0 pairs covered"),
    ],
)
def test_undefined_is_neither_zero_nor_nan(pairs: Sequence, why: str) -> None:
    score = measure("x", CIRCLE, pair_set(*pairs))
    assert score.value is None
    assert why in score.undefined
    assert "undefined" in score.line


def test_a_table_of_zeros_is_undefined() -> None:
    table = Table.of(["n", "ne", "e", "se", "s"], np.zeros((5, 2)))
    assert measure("x", table, pair_set(*FOUR)).undefined == "all cosines are equal"


@given(st.lists(st.integers(0, 4), min_size=3, max_size=30), st.randoms())
def test_ties_get_average_ranks(gold: list[int], random) -> None:
    values = [random.randint(0, 3) for _ in gold]

    def ranks(numbers: Sequence[int]) -> list[float]:
        below = [sum(m < n for m in numbers) for n in numbers]
        return [b + (1 + numbers.count(n)) / 2 for b, n in zip(below, numbers, strict=True)]

    rho, why = spearman(np.array(gold, float), np.array(values, float))
    if len(set(gold)) == 1 or len(set(values)) == 1:
        assert rho is None
        assert why
    else:
        assert rho == pytest.approx(np.corrcoef(ranks(gold), ranks(values))[0, 1])


def test_the_more_frequent_form_stands_for_a_word_whatever_the_case_of_the_question() -> None:
    rows = [[1, 0], [0, 1], [1, 1], [3, 1], [1, 2]]
    table = Table.of(["Paris", "paris", "france", "x", "y"], rows, counts=[9, 2, 8, 7, 6])
    rest = (("x", "y", 1.0), ("france", "x", 2.0))
    upper = measure("x", table, pair_set(("Paris", "France", 3.0), *rest))
    lower = measure("x", table, pair_set(("paris", "france", 3.0), *rest))
    assert upper.value == lower.value
    assert upper.details["pearson"] == lower.details["pearson"]
    assert upper.scored == lower.scored == 3
    exact = measure("x", table, pair_set(("Paris", "France", 3.0), *rest), case="exact")
    assert exact.scored == 2
    assert exact.details["case_policy"] == "case respected"


# --- files ----------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "pairs", "unread"),
    [
        ("a\tb\t1\nc\td\t2.5\n", [("a", "b", 1.0), ("c", "d", 2.5)], 0),
        ("Word 1,Word 2,Human (mean)\na,b,1\n", [("a", "b", 1.0)], 0),
        ("# a comment\r\na b 1\r\nc d 2\r\n", [("a", "b", 1.0), ("c", "d", 2.0)], 0),
        ("\ufeffa;b;1\n\nc;d;oops\n", [("a", "b", 1.0)], 1),
        ("new york\tcity\t7\nlos angeles\tcity\t7.5\n", [("new york", "city", 7.0)], 0),
        ("word1\tword2\tPOS\tscore\told\nold\tnew\tA\t1.58\t2\n", [("old", "new", 1.58)], 0),
        ("a\tb\tnan\nc\td\t1\ne\tf\tinf\n", [("c", "d", 1.0)], 1),
    ],
)
def test_pair_files(tmp_path: Path, text: str, pairs: list, unread: int) -> None:
    read = read_pairs(write(tmp_path / "pairs", text))
    assert [(p.first, p.second, p.gold) for p in read.pairs][: len(pairs)] == pairs
    assert read.unread == unread


@pytest.mark.parametrize("text", ["a\tb\n\nc\td\n", "no numbers here\n", ""])
def test_a_file_without_pairs_is_an_error_with_an_example(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"0 of \d lines parsed") as caught:
        read_pairs(write(tmp_path / "pairs", text))
    if text:
        assert repr(text.splitlines()[0])[1:-1] in str(caught.value)


def test_a_file_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_bytes(b"caf\xe9\tb\t1\n")
    with pytest.raises(InputError, match="not UTF-8 at byte 3"):
        read_pairs(path)


def test_self_pairs_and_repeated_pairs_stay(tmp_path: Path) -> None:
    read = read_pairs(write(tmp_path / "p", "a\ta\t10\na\tb\t1\nb\ta\t2\n"))
    assert len(read.pairs) == 3
    assert (read.self_pairs, read.repeated) == (1, 1)


def test_unknown_sets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no such evaluation set.*\n.*wordsim353"):
        find_set("wordsim", {"wordsim353": "wordsim353.tsv"})
    monkeypatch.setattr("tasks.evaluation.sets.find_spec", lambda name: None)
    with pytest.raises(InputError, match="gensim, which is not installed"):
        find_set("wordsim353", {"wordsim353": "wordsim353.tsv"})
