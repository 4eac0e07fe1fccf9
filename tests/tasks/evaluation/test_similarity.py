"""Word similarity: parity with gensim, and the traps of word-pair files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from gensim.models.keyedvectors import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.errors import InputError
from tasks.evaluation import similarity
from tasks.evaluation.lexicon import Case, Words
from tasks.evaluation.names import find_set
from tasks.evaluation.score import Score
from tasks.evaluation.sets import PairSet, WordPair, read_pairs
from tasks.evaluation.similarity import spearman
from tests.tasks.evaluation.table import Table


def measure(name: str, table: Table, pairs: PairSet, case: Case = "fold") -> Score:
    return similarity.measure(name, Words(table, case), pairs)


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
    assert few.undefined == "only 3 pairs covered: too few to tell from chance (20 are needed)"
    assert few.details["covered"]


@pytest.mark.parametrize("reference", ["wordsim353", "simlex999"])
def test_equals_gensim(reference: str) -> None:
    """Gensim is told what it would otherwise not see: every form is lower-case here."""
    _, path = find_set(reference, "similarity")
    pairs = read_pairs(path)
    words = sorted({w.lower() for pair in pairs.pairs for w in (pair.first, pair.second)})
    rng = np.random.default_rng(5)
    words = [word for word in words if rng.random() < 0.8]
    table = Table.of(words, rng.standard_normal((len(words), 20)))
    theirs = KeyedVectors(20)
    theirs.add_vectors(words, table.rows)
    score = measure("x", table, pairs)
    pearson, rho, unknown = theirs.evaluate_word_pairs(str(path))
    assert score.value == pytest.approx(rho.statistic, abs=1e-6)
    assert score.details["pearson"] == pytest.approx(pearson.statistic, abs=1e-6)
    assert 100 * score.details["unknown_share"] == pytest.approx(unknown)
    pearson, rho, _ = theirs.evaluate_word_pairs(str(path), dummy4unknown=True)
    as_zero = score.details["other_policies"]["unknown pairs as 0"]
    assert as_zero == pytest.approx(rho.statistic, abs=1e-6)
    assert score.details["pearson_with_unknown_as_0"] == pytest.approx(pearson.statistic, abs=1e-6)


def test_unknown_pairs_are_counted_once_and_both_figures_shown() -> None:
    score = measure("x", CIRCLE, pair_set(*FOUR, ("n", "nowhere", 8.0)))
    assert (score.scored, score.total) == (4, 5)
    assert score.details["unknown_pairs"] == 1
    assert score.details["unknown_share"] == pytest.approx(0.2)
    assert score.value == pytest.approx(0.8)
    # Cosine ranks 5, 3, 2, 1, 4 against gold ranks 5, 2, 3, 1, 4: rho = 1 - 6*2/120.
    assert score.details["other_policies"]["unknown pairs as 0"] == pytest.approx(0.9)
    assert "unknown pairs as 0: 0.900" in score.line


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([(a, b, 3.0) for a, b, _ in FOUR], "gold scores are equal"),
        (FOUR[:1], "1 pair covered"),
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
    with pytest.raises(InputError, match=r"0 of \d lines? parsed") as caught:
        read_pairs(write(tmp_path / "pairs", text))
    if text:
        assert repr(text.splitlines()[0])[1:-1] in str(caught.value)


def test_a_file_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_bytes(b"caf\xe9\tb\t1\n")
    with pytest.raises(InputError, match="not UTF-8 in line 1 at byte 4"):
        read_pairs(path)


def test_self_pairs_and_repeated_pairs_stay(tmp_path: Path) -> None:
    read = read_pairs(write(tmp_path / "p", "a\ta\t10\na\tb\t1\nb\ta\t2\n"))
    assert len(read.pairs) == 3
    assert (read.self_pairs, read.repeated) == (1, 1)


LAYOUTS = {
    "wordsim353": "Word 1\tWord 2\tHuman (mean)\nMoss\tstone\t3.5\nreed\tbank\t6\n",
    "with subjects": "Word 1,Word 2,Human (mean),1,2\nMoss,stone,3.5,3,4\nreed,bank,6,5,7\n",
    "simlex999": (
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\tconc(w2)\tconcQ\tAssoc(USF)\tSimAssoc333"
        "\tSD(SimLex)\n"
        "Moss\tstone\tN\t3.5\t4.9\t5\t4\t0\t0\t1.2\nreed\tbank\tN\t6\t4.8\t4\t3\t1.5\t1\t0.9\n"
    ),
    "men": "Moss stone 3.500000\nreed bank 6.000000\n",
    "men lemmas": "Moss-n stone-n 3.500000\nreed-n bank-v 6.000000\n",
    "rg65": "Moss;stone;3.5\nreed;bank;6\n",
    "mturk771": "Moss,stone,3.5000000000\nreed,bank,6.00000000000\n",
    "rw": "Moss\tstone\t3.5\t3\t4\t3\t4\nreed\tbank\t6\t5\t7\t6\t6\n",
    "simverb3500": "Moss\tstone\tV\t3.5\tNONE\nreed\tbank\tV\t6\tSYNONYMS\n",
    "tr9856": 'topic,term1,term2,score,x\nthe sea,Moss,stone,3.5,1\n"a, b",reed,bank,6,0\n',
    "scores before words": "score\tword1\tword2\n3.5\tMoss\tstone\n6\treed\tbank\n",
    "carriage returns": "Moss\tstone\t3.5\rreed\tbank\t6",
}
"""Rows of our own, laid out as the known sets are."""


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_known_layouts(text: str, tmp_path: Path) -> None:
    read = read_pairs(write(tmp_path / "pairs", text))
    assert read.pairs == (WordPair("Moss", "stone", 3.5), WordPair("reed", "bank", 6.0))
    assert read.unread == 0


def test_a_part_of_speech_is_only_taken_off_where_every_word_has_one(tmp_path: Path) -> None:
    read = read_pairs(write(tmp_path / "pairs", "vitamin-a sun 1\nx-n y-n 2\n"))
    assert [pair.first for pair in read.pairs] == ["vitamin-a", "x-n"]


# --- unknown words, frequency and intervals -------------------------------------------------


@dataclass(frozen=True, eq=False)
class Composing(Table):
    """Composes a vector of any word that begins with a known one."""

    def word_vectors(self, words: Sequence[str]) -> np.ndarray:
        return super().word_vectors([w if w in self.vocabulary else w.split("+")[0] for w in words])


def many(n: int = 60, dim: int = 8) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(2)
    return [f"w{i}" for i in range(n)], rng.standard_normal((n, dim))


def test_every_policy_for_unknown_words_is_shown() -> None:
    words, rows = many()
    table = Table.of(words, rows)
    judged = [(a, b, float(i % 7)) for i, (a, b) in enumerate(itertools.pairwise(words))]
    score = measure("x", table, pair_set(*judged, ("w0", "none", 9.0), ("none", "nor", 1.0)))
    assert (score.scored, score.total) == (59, 61)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = [float(units[i] @ units[i + 1]) for i in range(59)]
    mean = rows.astype(np.float32).mean(axis=0)
    mean /= np.linalg.norm(mean)
    gold = [g for *_, g in judged]

    def rho(*more: tuple[float, float]) -> float:
        return stats.spearmanr([*gold, *(g for g, _ in more)], [*cosines, *(c for _, c in more)])[0]

    others = score.details["other_policies"]
    assert score.value == pytest.approx(rho())
    assert others["unknown pairs as 0"] == pytest.approx(rho((9, 0), (1, 0)))
    with_mean = rho((9, float(units[0] @ mean)), (1, 1.0))
    assert others["unknown words as the mean vector"] == pytest.approx(with_mean, abs=1e-3)
    assert "composed words skipped" not in others
    assert "unknown words as the mean vector: " in score.line


def test_composed_words_count_and_are_told_apart() -> None:
    words, rows = many()
    vocabulary = Table.of(words, rows).vocabulary
    model = Composing(vocabulary, rows.astype(np.float32))
    judged = [(a, b, float(i % 7)) for i, (a, b) in enumerate(itertools.pairwise(words))]
    composed = [(f"{a}+s", b, 10 - g) for a, b, g in judged[:25]]
    score = measure("x", model, pair_set(*judged, *composed))
    assert (score.scored, score.details["composed_pairs"]) == (84, 25)
    plain = measure("x", model, pair_set(*judged))
    assert score.details["other_policies"] == {"composed words skipped": pytest.approx(plain.value)}
    bands = {band["band"]: band for band in score.details["bands"]}
    assert bands["not in the vocabulary"]["scored"] == 25


def test_bands_go_by_the_rarer_word() -> None:
    words, rows = many(6)
    counts = [20_000, 10_000, 999, 100, 9, 1]
    table = Table.of(words, rows, counts)
    pairs = [("w0", "w1"), ("w0", "w2"), ("w3", "w1"), ("w3", "w4"), ("w0", "w5"), ("w0", "none")]
    score = measure("x", table, pair_set(*((a, b, float(i)) for i, (a, b) in enumerate(pairs))))
    found = {band["band"]: (band["scored"], band["total"]) for band in score.details["bands"]}
    assert found == {
        "10,000 and more": (1, 1), "100 to 999": (2, 2), "1 to 9": (2, 2),
        "not in the vocabulary": (0, 1),
    }  # fmt: skip
    assert all(band["value"] is not None or band["undefined"] for band in score.details["bands"])
    assert measure("x", Table.of(words, rows, [0] * 6), pair_set(*FOUR)).details["bands"] == []


def test_an_interval_stands_beside_the_score() -> None:
    words, rows = many()
    pairs = pair_set(*((a, b, float(i % 7)) for i, (a, b) in enumerate(itertools.pairwise(words))))
    score = measure("x", Table.of(words, rows), pairs)
    low, high = score.interval
    assert low < score.value < high
    assert score.range in score.line
    assert Score.from_json(json.loads(json.dumps(score.to_json()))) == score
    old = {key: value for key, value in score.to_json().items() if key != "interval"}
    assert Score.from_json(old).interval is None


@pytest.mark.parametrize("scales", [[1, 1, 1, 1, 1], [0.3, 7, 11, 1e-5, 13]])
def test_vectors_in_one_direction_are_undefined(scales: list[float]) -> None:
    row = np.array([0.1, 0.7, 0.3])
    table = Table.of(["n", "ne", "e", "se", "s"], np.outer(scales, row))
    score = measure("x", table, pair_set(*FOUR))
    assert score.undefined == "all cosines are equal"
    assert score.interval is None
