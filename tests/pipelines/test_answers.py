"""What is shown of models: on any width whole, and in a pipe never folded."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from rich.console import Console

from pipelines.answers import (
    beside_tables,
    neighbours_table,
    rank_line,
    ranking_table,
    versions_table,
)
from tasks.evaluation.score import Score
from tasks.versions import Version


def score(name: str, value: float | None) -> Score:
    why = "" if value is not None else "nothing is covered"
    return Score(name, value, "spearman", 9, 10, "pairs", "skipped", why)


def version(name: str, number: int, *scores: Score) -> Version:
    return Version(
        name=name, version=number, aliases=("challenger", "champion"), family="word2vec",
        content="c0", run_id="r", created=1e9, capabilities=("embeds_words",), vocabulary="v",
        location="file:///a", scores=scores, tags={},
    )  # fmt: skip


VERSIONS = [
    version("harbour-chronicles-word2vec", 12, score("similarity.wordsim353", None)),
    version(
        "sea-word2vec", 3, score("similarity.simlex999", 0.4), score("similarity.wordsim353", None)
    ),
]


def shown(what: Any, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(what)
    return file.getvalue()


@pytest.mark.parametrize("width", [45, 60, 80, 100, 200])
def test_versions_are_never_cut(width: int) -> None:
    text = shown(versions_table(VERSIONS), width)
    for whole in (
        "harbour-chronicles-word2vec", "12", "sea-word2vec", "similarity.wordsim353 undefined",
        "similarity.simlex999 0.400", "champion",
    ):  # fmt: skip
        assert whole in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_a_wide_terminal_shows_a_line_a_version() -> None:
    text = shown(versions_table(VERSIONS), 200)
    assert len(text.splitlines()) == 1 + len(VERSIONS)
    assert "created" in text


@pytest.mark.parametrize("width", [25, 80])
def test_neighbours_are_whole_words_whatever_they_look_like(width: int) -> None:
    draw = random.Random(1)
    words = ["[/red]", "lighthouse", "[bold]", "sea", "harbourmaster"]
    answer = {word: [(other, draw.random()) for other in words] for word in words}
    text = shown(neighbours_table(answer), width)
    assert text.count("harbourmaster 0.") == len(words)
    assert text.count("[/red] 0.") == len(words)
    assert "…" not in text
    assert "..." not in text
    assert "[bold]  " in shown(ranking_table(answer["sea"]), width)


def test_two_layers_stand_side_by_side_a_table_a_word() -> None:
    answers = {
        "before-highway": {"looook": [("look", 0.9), ("cook", 0.8)], "his": [("hhs", 0.7)]},
        "after-highway": {"looook": [("look", 0.6)], "his": [("this", 0.5)]},
    }
    lines = [line.split() for line in shown(beside_tables(answers), 80).splitlines()]
    assert lines == [
        ["looook,", "before-highway", "looook,", "after-highway"],
        ["look", "0.900", "look", "0.600"],
        ["cook", "0.800"],
        ["his,", "before-highway", "his,", "after-highway"],
        ["hhs", "0.700", "this", "0.500"],
    ]


def test_a_rank_is_a_line() -> None:
    assert rank_line(1, [], 10) == "rank 1"
    assert rank_line(3, ["sea", "gull"], 10) == "rank 3; nearer: sea, gull"
    assert rank_line(3, ["sea", "gull"], 1) == "rank 3; nearer: sea and 1 more"
    assert rank_line(3, ["sea", "gull"], 0) == "rank 3"
