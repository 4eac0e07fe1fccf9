from __future__ import annotations

from io import StringIO

import pytest
from pydantic import ValidationError
from rich.console import Console

from tasks.evaluation.score import Score
from tasks.leaderboard import Row
from tasks.published import Published, published_markdown, published_table, show_published

PAPER = Published(
    source="A. Author 2003, table 1",
    against="trigram",
    notes=("Its text had other tokens.",),
    scores={
        "trigram": {"perplexity.valid": 200, "perplexity.test": 250.5},
        "net": {"perplexity.test": 200.4},
        "untrained": {"perplexity.test": 1.0},
        "trigram of bytes": {"bits.test": 1.0},
    },
)


def row(name: str, **perplexities: float | None) -> Row:
    details = {"sentence_ends_counted": True, "unknown_share": 0.0}
    scores = tuple(
        Score(
            f"perplexity.{split}", value, unit="perplexity", scored=9, total=9, items="tokens",
            policy="", undefined="" if value else "no text", baselines=(), details=details,
        )
        for split, value in perplexities.items()
    )  # fmt: skip
    return Row("ngram", "N-gram", "A paper", {"training_seconds": 61.0}, scores, name=name)


ROWS = [row("net", test=90.0), row("trigram", test=120.0, valid=None), row("ours", test=60.0)]


def test_ratios_are_to_the_same_model_on_both_sides() -> None:
    head, lines = published_table(ROWS, PAPER)
    assert head == [
        "model", "trained in", "perplexity valid", "ratio", "published", "ratio",
        "perplexity test", "ratio", "published", "ratio",
    ]  # fmt: skip
    time = "1 min 01 s"
    assert lines == [
        ["net", time, "", "", "", "", "90.0", "0.750", "200.4", "0.800"],
        ["trigram", time, "", "", "200.0", "1.000", "120.0", "1.000", "250.5", "1.000"],
        ["ours", time, "", "", "", "", "60.0", "0.500", "", ""],
    ]


def test_without_the_model_ratios_are_empty() -> None:
    _, lines = published_table(ROWS[:1], PAPER)
    assert lines == [["net", "1 min 01 s", "90.0", "", "200.4", "0.800"]]


def test_what_is_printed_says_what_it_is() -> None:
    console = Console(file=StringIO(), width=200)
    console.print(show_published(ROWS, PAPER))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    markdown = published_markdown(ROWS, PAPER)
    for text in (printed, markdown):
        assert "A. Author 2003, table 1. Ratios are to trigram. Its text had other" in text
        assert "0.800" in text
    assert markdown.startswith("| model | trained in | perplexity valid | ratio |")


def test_figures_need_a_source() -> None:
    with pytest.raises(ValidationError):
        Published.model_validate({"against": "a", "scores": {"a": {"perplexity.test": 1.0}}})
