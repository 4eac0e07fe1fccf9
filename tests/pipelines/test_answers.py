"""What is shown of models: on any width whole, and in a pipe never folded."""

from __future__ import annotations

import io
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from pipelines.answers import (
    beside_tables,
    composed_line,
    neighbours_table,
    odd_table,
    rank_line,
    ranking_table,
    similarity_line,
    version_table,
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
    assert len(re.findall(r"harbourmaster +0\.", text)) == len(words)
    assert len(re.findall(r"\[/red\] +0\.", text)) == len(words)
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
        ["looook,", "before-highway", "cosine", "looook,", "after-highway", "cosine"],
        ["look", "0.900", "look", "0.600"],
        ["cook", "0.800"],
        ["his,", "before-highway", "cosine", "his,", "after-highway", "cosine"],
        ["hhs", "0.700", "this", "0.500"],
    ]


def test_a_rank_is_a_line() -> None:
    for place, closer, k, line in (
        (1, [], 10, "rank 1"),
        (3, ["sea", "gull"], 10, "rank 3; nearer: sea, gull"),
        (3, ["sea", "gull"], 1, "rank 3; nearer: sea and 1 more"),
        (3, ["sea", "gull"], 0, "rank 3"),
    ):
        assert rank_line(place, closer, k).plain == line


def test_a_cosine_says_what_it_is_of() -> None:
    pair = ("Germany", "Berlin")
    assert similarity_line(0.5, "sea", "gull").plain == "0.5000  cosine of sea and gull"
    assert similarity_line(0.32719, "France", "Paris", pair).plain == (
        "0.3272  cosine of the offsets Paris - France and Berlin - Germany"
    )
    several = similarity_line(0.5, "red green", "sea").plain
    assert several.endswith("cosine of the mean of 'red green' and sea")


def test_the_odd_one_out_is_named_and_marked() -> None:
    lines = shown(odd_table([("Paris", 0.9), ("London", 0.8), ("[apple]", 0.2)]), 80).splitlines()
    assert lines[0].rstrip() == "the odd one out is [apple]"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["word", "cosine"], ["Paris", "0.900"], ["London", "0.800"], ["[apple]", "0.200"],
    ]  # fmt: skip
    assert [line.rstrip().endswith("the odd one out") for line in lines[2:]] == [False, False, True]


def test_a_word_outside_the_vocabulary_is_told() -> None:
    assert composed_line(["seea"]).plain.startswith("seea is not in the vocabulary: its vector is")
    assert composed_line(["a", "b"]).plain.startswith("a, b are not in the vocabulary: their")


def test_a_version_fits_a_terminal_and_says_that_it_generates() -> None:
    long = Score(
        "similarity.wordsim353", 0.4, "spearman", 350, 353, "pairs",
        "pairs with an unknown word skipped, 346 pairs with a word composed of parts, case "
        "ignored, the most frequent form of a word stands for all",
        interval=(0.3, 0.5),
        details={"other_policies": {"composed words skipped": 0.3}},
    )  # fmt: skip
    one = replace(version("sea-nplm", 1, long), capabilities=("embeds_words", "scores"))
    text = shown(version_table(one), 100)
    assert all(line == "" or line.startswith(" ") for line in text.splitlines())
    assert "embeds_words, scores, generates" in text
    assert all(len(line.rstrip()) <= 100 for line in shown(version_table(one), 10_000).splitlines())
    words = " ".join(text.split())
    assert "0.400 Spearman [0.300, 0.500] | 350 of 353 pairs (99.2%)" in words
    assert "stands for all composed words skipped: 0.300" in words
    assert "generates" not in shown(version_table(VERSIONS[0]), 100)
