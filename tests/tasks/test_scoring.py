"""Scores of every word of a file: what they add up to, how two models differ, bad files."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.text import Sentences
from models.vocabulary import LM_RESERVED, Vocabulary
from tasks import scoring
from tasks.errors import InputError, TrainingError
from tests.tasks.trained import TEXT

WORDS = Vocabulary(LM_RESERVED, ("a", "b"), np.array([2, 1]))


@dataclass(frozen=True, eq=False)
class Scorer:
    """A unigram model."""

    probabilities: tuple[float, ...] = (0.1, 0.0, 0.2, 0.4, 0.3)
    vocabulary: Vocabulary = WORDS
    config: Any = None

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def log_prob(self, sentences: Sentences) -> np.ndarray:
        with np.errstate(divide="ignore"):
            row = np.log(np.array(self.probabilities))
        return np.insert(row[sentences.ids], sentences.starts[1:], row[2])


def scored(model: Any, path: Path, lines: int = 3) -> Any:
    return scoring.score_text(model, TEXT, scoring.read_blocks(str(path), lines), where="m")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("a b new\n\nb\na a\nb b ü\n\n".encode()))
    return path


def test_rows_are_tokens_and_sentence_ends(text: Path, tmp_path: Path) -> None:
    tokens, sentences = tmp_path / "t.parquet", tmp_path / "s.parquet"
    sums = scoring.write_scores(scored(Scorer(), text), tokens, "token", {"model": "m/1"})
    again = scoring.write_scores(scored(Scorer(), text, 99), sentences, "sentence", {})
    assert replace(again, nll=0, nll_unknown=0) == replace(sums, nll=0, nll_unknown=0)
    assert again.nll == pytest.approx(sums.nll)
    rows = pq.read_table(tokens).to_pylist()
    assert [row["token"] for row in rows] == [
        *("a", "b", "new", "</s>", "b", "</s>", "a", "a", "</s>", "b", "b", "ü", "</s>")
    ]
    assert [row["sentence"] for row in rows] == [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert [row["id"] for row in rows][:4] == [3, 4, 0, 2]
    assert [row["token"] for row in rows if row["unknown"]] == ["new", "ü"]
    assert rows[0]["log_prob"] == math.log(0.4)
    assert pq.read_schema(tokens).metadata[b"model"] == b"m/1"
    by = pq.read_table(sentences).to_pylist()
    assert [row["tokens"] for row in by] == [3, 1, 2, 3]
    assert [row["unknown"] for row in by] == [1, 0, 0, 1]
    assert [row["characters"] for row in by] == [8, 2, 4, 6]
    assert sum(row["log_prob"] for row in by) == pytest.approx(sum(r["log_prob"] for r in rows))
    assert by[1]["log_prob"] == pytest.approx(math.log(0.3 * 0.2))
    found = scoring.summary(sums, Scorer())
    assert found["perplexity"] == pytest.approx(
        math.exp(-np.mean([row["log_prob"] for row in rows]))
    )
    bits = -sum(row["log_prob"] for row in rows) / math.log(2) + 8 * (4 + 3)
    assert found["bits_per_character"] == pytest.approx(bits / 20)


def test_what_is_there_stays_and_nothing_is_left_by_a_failure(text: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    target.write_text("mine")
    with pytest.raises(InputError, match="something already"):
        scoring.write_scores(scored(Scorer(), text), target, "token", {})
    assert target.read_text() == "mine"
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"a\nb\na\na \xff\n")
    with pytest.raises(InputError, match="line 4"):
        scoring.write_scores(scored(Scorer(), bad), target, "token", {}, force=True)
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n\n")
    with pytest.raises(InputError, match="no words"):
        scoring.write_scores(scored(Scorer(), empty), target, "token", {}, force=True)
    assert target.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    with pytest.raises(InputError, match="no such file"):
        list(scored(Scorer(), tmp_path / "none.txt"))


def test_what_is_impossible_or_unknown_is_said(text: Path, tmp_path: Path) -> None:
    sums = sum((b.tally for b in scored(Scorer((0, 0, 0.3, 0.4, 0.3)), text)), scoring.Tally())
    found = scoring.summary(sums, Scorer())
    assert (found["perplexity"], found["bits_per_character"]) == (None, None)
    assert "2 of its words" in found["undefined"]
    strange = tmp_path / "strange.txt"
    strange.write_text("who knows\n")
    only = scoring.summary(next(iter(scored(Scorer(), strange))).tally, Scorer())
    assert (only["unknown"], only["tokens"]) == (2, 2)
    assert math.isfinite(only["perplexity"])
    nan: Callable[..., Any] = lambda s: np.full(len(s.ids) + len(s), np.nan)  # noqa: E731
    broken = Scorer()
    object.__setattr__(broken, "log_prob", nan)
    with pytest.raises(TrainingError, match="not a number"):
        list(scored(broken, text))


def test_a_difference_and_whether_it_is_chance(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    path = tmp_path / "t.txt"
    path.write_text(
        "\n".join(" ".join(draw.choice(["a", "b"], 5, p=[0.7, 0.3])) for _ in range(200))
    )
    right, wrong = Scorer((0.1, 0, 0.2, 0.5, 0.2)), Scorer((0.1, 0, 0.2, 0.2, 0.5))
    found = scoring.compare(scored(right, path), scored(wrong, path), where="t")
    assert found.unit == "perplexity"
    assert found.difference == pytest.approx(found.first - found.second)
    assert found.interval is not None
    assert found.interval[0] < found.difference < found.interval[1] < 0
    assert found.p_value == pytest.approx(2 / 1001)
    other = scoring.compare(scored(wrong, path), scored(right, path), where="t")
    assert other.difference == pytest.approx(-found.difference)
    same = scoring.compare(scored(right, path), scored(right, path), where="t")
    assert (same.difference, same.interval, same.p_value) == (0, (0, 0), 1)


def test_perplexities_of_two_vocabularies_are_never_set_beside_each_other(text: Path) -> None:
    small = replace(Scorer((0.4, 0, 0.2, 0.4)), vocabulary=Vocabulary(LM_RESERVED, ("a",), np.ones(1, np.int64)))  # fmt: skip # noqa: E501
    found = scoring.compare(scored(Scorer(), text), scored(small, text), where="t")
    assert found.unit == "bits_per_character"
    assert "perplexities do not" in found.note
    sums = sum((b.tally for b in scored(small, text)), scoring.Tally())
    assert found.second == pytest.approx(sums.bits_per_character)
    assert (found.interval, found.p_value) == (None, None)
    with pytest.raises(InputError, match="impossible"):
        scoring.compare(scored(Scorer((0, 0, 0.3, 0.4, 0.3)), text), scored(small, text), where="t")
