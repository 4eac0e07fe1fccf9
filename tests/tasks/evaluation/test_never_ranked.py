"""Perplexities on other terms stand nowhere in an order: one test a place where scores meet."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from pipelines.answers import versions_table
from tasks import promotion
from tasks.evaluation.compare import spreads
from tasks.evaluation.score import Baseline, Score
from tasks.leaderboard import (
    BEST,
    Row,
    leaderboard,
    leaderboard_json,
    leaderboard_markdown,
    standing,
)
from tasks.promotion import Gate, Promotion, beside_champion, objections
from tasks.published import Published, published_markdown, published_table
from tasks.report import _pictures
from tasks.versions import Version

TERMS = {
    "vocabulary": "v1", "direction": "left to right", "sentence_ends_counted": True,
    "context_crosses_sentences": False, "text": "t1", "tokens": 900,
}  # fmt: skip


def perplexity(value: float, **terms: object) -> Score:
    details = {**TERMS, "unknown_share": 0.01, **terms}
    return Score(
        "perplexity.test", value, "perplexity", 1000, 1000, "tokens and sentence ends", "",
        baselines=(Baseline("unigram", 500.0),), details=details,
    )  # fmt: skip


OTHERS = {
    "vocabulary": (perplexity(50.0, vocabulary="v2"), "vocabularies differ"),
    "text": (perplexity(50.0, text="t2"), "different texts"),
    "unit": (perplexity(50.0, tokens=4000), "different tokens"),
    "direction": (perplexity(50.0, direction="right to left"), "different directions"),
    "ends": (perplexity(50.0, sentence_ends_counted=False), "sentence ends"),
    "context": (perplexity(50.0, context_crosses_sentences=True), "across sentences"),
}
OURS = perplexity(100.0)
other_terms = pytest.mark.parametrize(("other", "why"), OTHERS.values(), ids=OTHERS)


def row(name: str, score: Score) -> Row:
    return Row("ngram", name, "", {}, (score,), name=name)


def version(number: int, *scores: Score, **more: Any) -> Version:
    known: dict[str, Any] = {"created": 1e9, "tags": {}, **more}
    return Version(
        name="m", version=number, aliases=(), family="ngram", content=str(number), run_id="",
        capabilities=("scores",), vocabulary="", location="", scores=scores, **known,
    )  # fmt: skip


@other_terms
def test_a_leaderboard_gives_no_place(other: Score, why: str) -> None:
    rows = [row("a", OURS), row("b", other)]
    for one in rows:
        found = standing(one.scores[0], one, rows)
        assert (found.place, found.best) == (None, False)
        assert why in found.reason
    file = io.StringIO()
    Console(file=file, width=120).print(leaderboard(rows))
    for text in (file.getvalue(), leaderboard_markdown(rows)):
        assert BEST not in text
        assert "**50" not in text
        assert f"not ranked: {standing(OURS, rows[0], rows).reason}" in text
    assert [one["scores"][0]["place"] for one in leaderboard_json(rows)] == [None, None]
    # Among others that do compare it has no say either.
    three = [row("a", OURS), row("b", other), row("c", perplexity(120.0))]
    assert [standing(one.scores[0], one, three).place for one in three] == [1, None, 2]


@other_terms
def test_a_report_draws_it_in_a_chart_apart(other: Score, why: str) -> None:
    pictures = _pictures([row("a", OURS), row("b", other), row("c", perplexity(120.0))])
    assert pictures.count("<svg") == 2
    assert why in pictures
    assert _pictures([row("a", OURS), row("c", perplexity(120.0))]).count("<svg") == 1


@other_terms
@pytest.mark.parametrize("better", [True, False])
def test_a_gate_holds_it_against_no_champion(other: Score, why: str, better: bool) -> None:
    candidate = replace(other, value=50.0 if better else 1000.0)
    new, champion = version(2, candidate), version(1, OURS)
    assert objections(Gate(slack=0.0), new, champion) == ()
    (objection,) = objections(Gate(no_regression={"perplexity.test": 1e9}), new, champion)
    assert "cannot be compared with that of the champion" in objection
    assert why in objection


@other_terms
def test_a_score_does_not_stand_beside_such_a_champion(
    other: Score, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotion, "find_version", lambda name, uri: version(1, other))
    decided = Promotion("m", 2, True, 2, 1)
    (score,) = beside_champion([OURS], decided, "")
    assert [base.name for base in score.baselines] == ["unigram"]
    monkeypatch.setattr(promotion, "find_version", lambda name, uri: version(1, perplexity(50.0)))
    (score,) = beside_champion([OURS], decided, "")
    assert [base.name for base in score.baselines] == ["unigram", "last champion"]


@other_terms
def test_two_have_no_mean(other: Score, why: str) -> None:
    (spread,) = spreads([[OURS], [other]])
    assert (spread.mean, spread.deviation) == (None, None)
    assert why in spread.reason
    assert spread.values == (100.0, 50.0)


PAPER = Published(source="P", against="a", scores={"a": {"perplexity.test": 300}})


@other_terms
def test_a_table_beside_a_papers_has_no_ratio_but_across_sentences(other: Score, why: str) -> None:
    rows = [row("a", OURS), row("b", other), row("c", perplexity(80.0))]
    _, lines = published_table(rows, PAPER)
    ratio = "0.500" if "across" in why else ""
    assert [line[2:4] for line in lines] == [["100.0", "1.000"], ["50.0", ratio], ["80.0", "0.800"]]
    text = published_markdown(rows, PAPER)
    assert "Beside a, of b: " in text
    assert why in text
    assert "Beside" not in published_markdown(rows[::2], PAPER)


def test_versions_are_listed_by_name_and_number_whatever_they_score() -> None:
    listed = [version(3, OURS), version(2, perplexity(9.0, vocabulary="v2")), version(1, OURS)]
    file = io.StringIO()
    Console(file=file, width=200).print(versions_table(listed))
    lines = file.getvalue().splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["3", "2", "1"]
    assert BEST not in file.getvalue()
