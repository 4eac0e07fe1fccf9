"""``lexloom lr-find``, from the command line to the picture; nothing is registered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cli


@pytest.fixture(scope="module")
def neural(tmp_path_factory: pytest.TempPathFactory, corpus_file: Path) -> Path:
    path = tmp_path_factory.mktemp("neural") / "sea.yaml"
    small = "units: 8, embedding: 8, min_count: 1, batch_size: 8"
    path.write_text(
        f"corpus: {{name: sea, train: {{paths: [{corpus_file}]}}, deduplicate: false}}\n"
        "families:\n"
        "  word2vec: {dim: 8}\n"
        f"  awd: {{family: awd-lstm, {small}}}\n"
        f"  rnn: {{family: rnnlm, {small}}}\n"
    )
    return path


def test_a_rate_is_found_and_nothing_is_kept(cli: Cli, neural: Path, tmp_path: Path) -> None:
    picture = tmp_path / "rates.html"
    ask = ["lr-find", str(neural), "--family", "awd", "--steps", "30", "--out", str(picture)]
    done = cli(*ask, "--json", home=tmp_path)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["family"] == "awd"
    assert len(found["rates"]) == len(found["losses"]) == 30
    assert found["rates"][0] == pytest.approx(1e-6)
    if found["fell"]:
        assert 0 < found["suggested"] == pytest.approx(found["lowest"] / 10, rel=0.05)
    else:
        assert found["suggested"] is None
    assert "polyline" in picture.read_text("utf-8")
    told = cli(*ask, home=tmp_path)
    said = f"learning_rate {found['suggested']:g}" if found["fell"] else "no suggestion"
    assert said in told.out
    assert "lowest" in told.out
    assert not (tmp_path / "store" / "train").exists()
    assert not (tmp_path / "store" / "checkpoint").exists()
    assert json.loads(cli("models", "list", "--json", home=tmp_path).out) == []


def test_bases_of_other_families_have_no_part(cli: Cli, neural: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "based.yaml"
    recipe.write_text(neural.read_text() + "bases: {rnn: nowhere/1}\n")
    done = cli("lr-find", str(recipe), "--family", "awd", "--steps", "30", home=tmp_path)
    assert done.code == 0, done.err
    done = cli("lr-find", str(recipe), "--family", "rnn", "--steps", "30", home=tmp_path)
    assert done.code == 2
    assert "nowhere" in done.err


MISTAKES: dict[str, list[str]] = {
    "several families of the recipe learn by gradients": [],
    "'word2vec' is none of the families that learn": ["--family", "word2vec"],
    "no range of learning rates": ["--family", "rnn", "--steps", "3"],
    ".html or .png": ["--family", "rnn", "--out", "rates.pdf"],
}


def test_a_mistake_is_one_message(cli: Cli, neural: Path, recipe: Path) -> None:
    for message, options in MISTAKES.items():
        done = cli("lr-find", str(neural), *options)
        assert done.code == 2
        assert message in done.err
        assert "Traceback" not in done.err
        assert "ingest" not in done.err  # it is told before anything is read
    done = cli("lr-find", str(recipe))
    assert done.code == 2
    assert "no family of the recipe learns by gradients" in done.err
