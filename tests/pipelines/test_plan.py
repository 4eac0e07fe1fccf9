from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.recipes import resolve
from pipelines.sampling import Growth, take_sample

from .conftest import Cli


def plan(cli: Cli, recipe: Path, *arguments: str, home: Path | None = None) -> Any:
    where = {"home": home} if home else {}
    done = cli("plan", str(recipe), "--json", *arguments, **where)
    assert done.code == 0, done.err
    return json.loads(done.out)


def to_do(made: Any) -> list[str]:
    return [step["name"] for step in made["steps"] if not step["cached"]]


@pytest.fixture
def run(cli: Cli, recipe: Path) -> Any:
    done = cli("run", str(recipe), "--direct", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_plan_lists_the_steps_of_the_run_in_their_order(
    cli: Cli, recipe: Path, run: Any, tmp_path: Path
) -> None:
    fresh = plan(cli, recipe, home=tmp_path)
    assert to_do(fresh) == [step["name"] for step in run["steps"]]
    assert fresh["seconds"] > fresh["seconds_direct"] > 0
    assert fresh["disk"] > 0
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "mlflow.db").exists()


def test_a_plan_knows_what_is_cached(cli: Cli, recipe: Path, run: Any) -> None:
    cached = plan(cli, recipe)
    assert to_do(cached) == []
    assert cached["tokens"] == pytest.approx(600 * 9.5, rel=0.2)
    wider = plan(cli, recipe, "--set", "families.word2vec.dim=13")
    assert to_do(wider) == ["train word2vec", "evaluate word2vec"]
    assert "cached" in cli("plan", str(recipe)).out


def test_a_run_says_how_far_off_the_plan_was(cli: Cli, recipe: Path, run: Any) -> None:
    change = ("--set", "families.word2vec.dim=17")
    assert plan(cli, recipe, *change)["disk"] > 0
    again = json.loads(cli("run", str(recipe), "--direct", "--json", *change).out)
    assert set(again["plan"]) == {"time", "memory", "disk"}
    for figures in again["plan"].values():
        assert min(figures["foretold"], figures["took"]) > 0
    assert again["plan"]["time"]["took"] >= again["seconds"]
    assert again["plan"]["memory"]["took"] > 50 * 2**20
    # A plan is held against one run only, and never against a run that had less to do.
    assert json.loads(cli("run", str(recipe), "--direct", "--json", *change).out)["plan"] is None
    plan(cli, recipe, *change)
    assert json.loads(cli("run", str(recipe), "--direct", "--json", *change).out)["plan"] is None


def test_a_plan_refuses_what_a_run_refuses(cli: Cli, recipe: Path) -> None:
    missing = cli("plan", str(recipe), "--set", "corpus.train.paths=[/no/such.txt]")
    assert (missing.code, "/no/such.txt" in missing.err) == (2, True)
    assert cli("plan", str(recipe), "--set", "corpus.name=a/b").code == 2


def test_a_sample_tells_the_size_of_a_corpus_that_is_larger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample is a twentieth of the text; words come by a power law, as in real text."""
    draw = np.random.default_rng(1)
    words = [f"w{n}" for n in draw.zipf(1.5, 400_000) % 50_000]
    lines = [" ".join(words[i : i + 20]) for i in range(0, len(words), 20)]
    path = tmp_path / "zipf.txt"
    path.write_text("\n".join(lines))
    monkeypatch.setattr("pipelines.sampling.SAMPLE_BYTES", path.stat().st_size // 20)
    config = resolve("sample", overrides=[f"corpus.train={{paths: [{path}]}}"])
    sample = take_sample(config.corpus)
    assert sample.factor == pytest.approx(20, rel=0.1)
    train = sample.n_tokens("train")
    assert train == pytest.approx(0.9 * len(words), rel=0.1)
    kept = words[: int(0.9 * len(words))]
    assert sample.n_types(1) == pytest.approx(len(set(kept)), rel=0.5)
    bigrams = len(set(itertools.pairwise(kept)))
    assert sample.n_ngrams(2) == pytest.approx(bigrams, rel=0.5)


def test_growth_is_a_power_of_the_text() -> None:
    assert Growth(50, 100).at(8) == pytest.approx(800)
    assert Growth(100, 100).at(8) == 100
    assert Growth(0, 0).at(8) == 0
    assert Growth(10, 100).at(8) == 800  # never faster than the text


def test_a_model_that_no_memory_holds_is_refused_before_anything_is_read(
    cli: Cli, recipe: Path, tmp_path: Path
) -> None:
    huge = "families.huge={family: nplm, hidden: 1000000000}"
    for command in (("plan", str(recipe)), ("run", str(recipe), "--direct")):
        done = cli(*command, "--set", huge, home=tmp_path)
        assert done.code != 0
        assert "GiB of memory at least" in done.err
        assert "families.huge" in done.err
    assert not [*(tmp_path / "store").glob("ingest/*")]
