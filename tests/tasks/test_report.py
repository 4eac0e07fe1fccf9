"""The leaderboard ranks only what compares; the report is one sound file that hides nothing."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tasks import charts
from tasks.artifacts import Artifact
from tasks.corpus import Corpus, CorpusConfig
from tasks.evaluation.compare import spreads
from tasks.evaluation.score import Baseline, Score
from tasks.leaderboard import duration, standing
from tasks.report import (
    Registered,
    Row,
    leaderboard,
    leaderboard_json,
    leaderboard_markdown,
    write_report,
)
from tasks.runner import Outcome
from tasks.step import Step, execute
from tasks.store import Store
from tasks.vocabulary import TYPES_SCHEMA, TYPES_TABLE


def perplexity(value: float | None, vocabulary: str, unknown: float = 0.031) -> Score:
    details = {
        "vocabulary": vocabulary,
        "direction": "left to right",
        "sentence_ends_counted": True,
        "context_crosses_sentences": False,
        "unknown_share": unknown,
        "tokens": 43_000,
        "text": "t",
    }
    return Score(
        "perplexity.test", value, "perplexity", 45_012, 45_012, "tokens and sentence ends",
        "unknown words scored as <unk>", "" if value else "the text is empty",
        (Baseline("unigram", 812.4),), details,
    )  # fmt: skip


def similarity(value: float, covered: str, scored: int = 300) -> Score:
    return Score(
        "similarity.wordsim353", value, "spearman", scored, 353, "pairs", "unknown pairs skipped",
        baselines=(Baseline("random", 0.013, "mean of 20 tables"),),
        details={
            "covered": covered, "case_policy": "case ignored",
            "other_policies": {"unknown pairs as 0": 0.1, "unknown words as the mean vector": None},
            "bands": [
                {"band": "1 to 9", "scored": 4, "total": 30, "value": None,
                 "undefined": "only 4 pairs <covered>", "interval": None},
                {"band": "10 to 99", "scored": 296, "total": 300, "value": -0.2,
                 "undefined": "", "interval": [-0.3, 0.1]},
            ],
        },
    )  # fmt: skip


def analogy() -> Score:
    tally = {"correct": 40, "scored": 110, "total": 506, "accuracy": 40 / 110}
    unasked = {"correct": 0, "scored": 0, "total": 866, "accuracy": None}
    return Score(
        "analogy.google", 0.15, "accuracy", 7_220, 19_544, "questions", "3CosAdd",
        baselines=(Baseline("random", 0.0001),),
        details={
            "method": "3CosAdd", "covered": "q", "candidates": 9_912, "case_policy": "case ignored",
            "sections": {"capital-common-countries": tally, "currency": unasked},
            "subsets": {"semantic": tally},
        },
    )  # fmt: skip


NGRAM = Row(
    "ngram", "n-gram", "Chen & Goodman 1998", {"training_seconds": 12.1},
    (perplexity(142.7, "one"),), content="c0" * 32, registered=Registered("sample-ngram", 1),
    clusters={"0110": ["lamp", "<i>candle"]},
)  # fmt: skip
WORD2VEC = Row(
    "word2vec", "word2vec (skip-gram)", "Mikolov et al. 2013",
    {"training_seconds": 9.2, "tokens_per_second": 1_204_000.4},
    (similarity(0.412, "p"), analogy()), reused=True,
    registered=Registered("sample-word2vec", 3, ("champion",)),
    curves={"loss": [(0, 4.0), (50, math.nan), (100, 2.0)], "learning_rate": [(0, 0.1), (9, 0.05)]},
    neighbours={"<b>river": [("sea & sand", 0.71)]},
)  # fmt: skip
NPLM = Row(
    "nplm", "Neural probabilistic LM", "Bengio et al. 2003", {"training_seconds": 75.5},
    (perplexity(181.0, "one"), similarity(0.11, "p")),
)  # fmt: skip
ROWS = (NGRAM, WORD2VEC, NPLM)


# --- places ---------------------------------------------------------------------------------


def places(*scores: Score) -> list[int | None]:
    rows = [Row(str(i), "", "", {}, (score,)) for i, score in enumerate(scores)]
    return [standing(row.scores[0], row, rows).place for row in rows]


def test_places_go_to_what_compares() -> None:
    scores = [perplexity(181.0, "a"), perplexity(142.7, "a"), perplexity(142.7, "a")]
    assert places(*scores) == [3, 1, 1]
    assert places(similarity(0.1, "p"), similarity(0.4, "p")) == [2, 1]
    assert places(*scores, perplexity(90.0, "b")) == [3, 1, 1, None]
    assert places(similarity(0.1, "p"), similarity(0.4, "q", 290)) == [None, None]
    assert places(perplexity(181.0, "a"), perplexity(None, "a")) == [1, None]


def test_intervals_and_seeds_are_shown_where_there_is_room() -> None:
    ranged = replace(similarity(0.412, "p"), interval=(0.31, 0.498))
    over = spreads([[ranged], [similarity(0.4, "p")]])
    rows = [replace(WORD2VEC, scores=(ranged, analogy()), spreads=over)]
    wide, narrow = shown(rows, 160), shown(rows, 60)
    assert "[0.310, 0.498]" in wide
    assert "[0.310" not in narrow
    for text in (wide, narrow, leaderboard_markdown(rows)):
        assert "over 2 seeds: wordsim353 0.406 ± 0.008" in " ".join(text.split())
    assert "[0.310, 0.498]" in leaderboard_markdown(rows)
    assert leaderboard_json(rows)[0]["scores"][0]["interval"] == (0.31, 0.498)
    # Figures on different pairs have no common mean.
    mixed = spreads([[ranged], [similarity(0.4, "q")]])
    assert "seeds" not in shown([replace(WORD2VEC, spreads=mixed)], 160)


def test_what_is_not_ranked_is_marked_and_says_why() -> None:
    rows = [NGRAM, Row("b", "B", "", {}, (perplexity(90.0, "two", 0.3),))]
    text = shown(rows, 100)
    assert "142.7*" in text
    assert "90.0*" in text
    assert "* not ranked: their vocabularies differ" in text
    assert "not ranked" in leaderboard_markdown(rows)
    board = leaderboard_json(rows)
    assert [row["scores"][0]["place"] for row in board] == [None, None]
    assert "vocabularies differ" in board[0]["scores"][0]["reason"]


# --- leaderboards ---------------------------------------------------------------------------


def shown(rows: list[Row] | tuple[Row, ...], width: int) -> str:
    file = io.StringIO()
    Console(width=width, file=file).print(leaderboard(rows))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal_shows_everything_in_80_columns(width: int) -> None:
    text = shown(ROWS, width)
    for expected in (
        "n-gram", "12.1 s", "1,204,000 tokens/s, reused", "1 min 16 s",
        "sample-word2vec v3 @champion", "142.7", "unigram 812.4", "45,012 tokens+</s>, 3.1% <unk>",
        "0.412", "random 0.013", "300 of 353 pairs (85%)",
        "google 3CosAdd", "15.0%", "7,220 of 19,544 questions (37%)",
    ):  # fmt: skip
        assert expected in text
    assert "…" not in text


@pytest.mark.parametrize("width", [30, 50, 64, 80, 100])
def test_names_and_values_are_whole_on_any_width(width: int) -> None:
    champions = (*perplexity(None, "one").baselines, Baseline("champion", 140.25))
    undefined = replace(perplexity(None, "one"), baselines=champions)
    long = replace(NGRAM, scores=(undefined, perplexity(98_142.7, "one").beside(champions[1])))
    text = shown((long, *ROWS[1:]), width)
    for whole in ("perplexity test", "undefined", "98,142.7", "google 3CosAdd"):
        assert whole in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    if width >= 64:
        assert "champion 140.2" in text
        assert "questions" in text


def test_markdown_has_a_row_a_model() -> None:
    lines = leaderboard_markdown(ROWS).splitlines()
    assert len([line for line in lines if line.startswith("| **")]) == len(ROWS)
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    assert "**142.7** (unigram 812.4; 45,012 tokens+</s>, 3.1% <unk>)" in lines[2]


def test_json_is_json() -> None:
    board = json.loads(json.dumps(leaderboard_json(ROWS), allow_nan=False))
    assert [row["family"] for row in board] == ["ngram", "word2vec", "nplm"]
    assert board[1]["registered"] == {
        "name": "sample-word2vec", "version": 3, "aliases": ["champion"]
    }  # fmt: skip
    assert board[1]["scores"][1]["details"]["sections"]["currency"]["accuracy"] is None
    assert board[0]["scores"][0]["place"] == 1


def test_durations() -> None:
    assert [duration(s) for s in (0.44, 59.94, 75.5, 3599.6, 11_220)] == [
        "0.4 s", "59.9 s", "1 min 16 s", "1 h 00 min", "3 h 07 min"
    ]  # fmt: skip


# --- the report -----------------------------------------------------------------------------


class Sound(HTMLParser):
    """Fails on tags that do not match, collects text and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.addresses += [value or "" for key, value in attrs if key in ("href", "src")]
        assert tag != "script"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def small_corpus(store: Store) -> Corpus:
    table = [pa.array(["the", "<i>", "\u6c34"], pa.large_string()), pa.array([70, 20, 9])]

    def write(context, readers, params) -> dict:
        context.out.table(TYPES_TABLE, pa.table(table, schema=TYPES_SCHEMA))
        return {}

    types = execute(Step("types", 1, "types", write), store, {}, None)[0].handle()
    tokens = {
        s: Artifact("tokens", "tokenize", "r" * 64, s * 8) for s in ("train", "valid", "test")
    }
    stats = {
        "ingest train": {"read": 230, "dropped.redirect": 20, "dropped.empty": 0, "kept": 210},
        "tokenize train": {"documents": 200, "sentences": 900, "tokens": 41_400},
    }
    return Corpus(CorpusConfig(), tokens, tokens, types, stats)


def test_the_report_is_one_sound_file_that_tells_everything(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    corpus = small_corpus(store)
    made = Artifact("vocabulary", "vocabulary", "r" * 64, "feed" * 16)
    counted = {"size": 23, "types": 25, "covered": 42, "tokens": 43}
    write_report(
        path,
        title="<script>alert(1)</script>",
        corpus=corpus,
        rows=ROWS,
        outcomes=[
            Outcome(made, "vocabulary ngram", False, 0.3, 1, 1, counted),
            Outcome(made, "train ngram", True, 0.01, 0, 1, {}),
        ],
        facts={"store": "/some/<where>"},
        store=store,
    )
    page = path.read_text("utf-8")
    parser = Sound()
    parser.feed(page)
    assert parser.open == []
    assert all(address.startswith("#") for address in parser.addresses)
    assert not re.search(r"https?://|@import|url\(", page)
    text = " ".join(parser.text)
    for expected in (
        "<script>alert(1)</script>", "/some/<where>", "<b>river", "sea & sand",
        "0110", "lamp, <i>candle",
        "redirect 20", "41,400", "97.67%",  # dropped and why, tokens, vocabulary coverage
        "45,012 tokens+</s>, 3.1% <unk>", "unigram 812.4", "capital-common-countries",
        "undefined of 0 asked", "reused", "feedfeedfeed", corpus.content, "c0" * 32,
        "sample-word2vec", "@champion", "Count by rank", "learning rate",
    ):  # fmt: skip
        assert expected in text, expected
    assert "nan" not in page.replace("nano", "").lower()
    for part in (
        "by the count of the rarer word", "10 to 99", "-0.200 of 296 of 300",
        "unknown pairs as 0: 0.100; unknown words as the mean vector: undefined",
    ):  # fmt: skip
        assert part in page


def test_a_report_without_models_steps_or_store(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, title="t", corpus=small_corpus(store), rows=(), outcomes=(), facts={})
    Sound().feed(path.read_text("utf-8"))


# --- charts ---------------------------------------------------------------------------------

numbers = st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 3))


@given(numbers, st.floats(1e-3, 1e9), st.booleans())
def test_ticks_lie_on_the_axis(low: float, span: float, log: bool) -> None:
    low = abs(low) + 1e-3 if log else low
    span += 1e-6 * abs(low)  # closer values have no ticks of their own
    axis = charts.Axis(low, low + span, 0, 100, log)
    ticks = axis.ticks()
    assert len(ticks) <= (13 if log else 11)
    assert log or len(ticks) >= 3
    assert all(a < b for a, b in itertools.pairwise(ticks))
    assert all(-1e-3 <= axis(tick) <= 100.001 for tick in ticks)


@given(st.lists(st.tuples(numbers, numbers), max_size=40), st.booleans())
def test_lines_stay_inside_the_picture(points: list, log: bool) -> None:
    svg = charts.lines({"a": points}, x="x", y="y", log_x=log, log_y=log)
    drawn = re.search(r'points="([^"]*)"', svg)
    for pair in (drawn[1] if drawn else "").split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 520
        assert 0 <= y <= 250


@given(st.lists(st.one_of(st.none(), st.floats(-5, 1e4)), min_size=1, max_size=6))
def test_bars_start_at_zero_and_are_as_long_as_their_values(values: list[float | None]) -> None:
    svg = charts.bars([charts.Bar("x" * 60, value, "shown") for value in values])
    widths = np.array(re.findall(r'<rect [^>]*width="([\d.]+)"', svg), dtype=float)
    sizes = np.abs([value or 0.0 for value in values])
    assert len(widths) == len(values)
    np.testing.assert_allclose(
        widths * sizes.max(), sizes * widths.max(), atol=0.11 * sizes.max() + 1e-9
    )
