from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Cli

NOUNS = ["ship", "harbour", "sailor", "wave", "rope", "gull", "lantern", "island"]


@pytest.fixture
def trained(cli: Cli, recipe: Path) -> str:
    done = cli("run", str(recipe), "--direct", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert 'aria-label="map of words"' in Path(result["report"]).read_text("utf-8")
    found = result["models"][0]
    return f"{found['name']}/{found['version']}"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "pairs.tsv"
    rows = [f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(itertools.combinations(NOUNS, 2))]
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> str:
    """A model with so many words that codes save room."""
    words = [*NOUNS, *(f"word{i}" for i in range(592))]
    rows = np.random.default_rng(3).normal(size=(600, 8)).tolist()
    lines = [" ".join(map(str, [word, *row])) for word, row in zip(words, rows, strict=True)]
    (tmp_path / "many.txt").write_text("\n".join(["600 8", *lines]))
    done = cli("import", str(tmp_path / "many.txt"), "--name", "many")
    assert done.code == 0, done.err
    return "many/1"


def test_a_model_is_quantized_once_and_asked_like_any_other(
    cli: Cli, imported: str, pairs: Path
) -> None:
    arguments = ("quantize", imported, "--sub-vectors", "4", "--similarity", str(pairs))
    done = cli(*arguments, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    name = imported.split("/")[0]
    assert made["model"] == f"{name}-quantized/1"
    assert (made["parent"], made["reused"], made["promoted"]) == (imported, False, True)
    (score,) = made["scores"]
    assert score["baselines"][0]["name"] == "original"
    assert score["value"] == pytest.approx(score["baselines"][0]["value"], abs=0.1)
    assert 0 < made["stats"]["bytes"] < made["stats"]["bytes_before"]

    again = cli(*arguments)
    assert again.code == 0
    assert "reused" in again.err
    assert "nearest neighbours kept" in again.out
    assert "similarity.pairs" in again.out

    champion = f"{name}-quantized@champion"
    near = json.loads(cli("query", "neighbours", champion, "ship", "--json").out)
    assert len(near["ship"]) == 10
    shown = cli("models", "show", champion).out
    lines = [line.split() for line in shown.splitlines()]
    assert ["parent", imported] in lines
    assert "of nearest neighbours kept" in shown
    twice = cli("quantize", champion)
    assert (twice.code, "quantized already" in twice.err) == (2, True)
    wide = cli("quantize", imported, "--sub-vectors", "9")
    assert wide.code == 2
    assert "8 columns cannot be cut into 9 sub-vectors" in wide.err


def test_a_model_that_would_become_larger_is_not_quantized(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("ship 1 2\ngull 3 4\n")
    assert cli("import", str(tmp_path / "two.txt"), "--name", "two").code == 0
    done = cli("quantize", "two@champion")
    assert done.code == 2
    assert "two/1: its vectors take 16 bytes, and quantized they would take" in done.err
    assert "two-quantized" not in cli("models", "list").out


def test_a_map_is_written_as_its_name_says(cli: Cli, trained: str, tmp_path: Path) -> None:
    for file, begin in (("map.html", b"<!doctype html>"), ("map.png", b"\x89PNG")):
        done = cli("map", trained, *NOUNS, "--frequent", "5", "--out", str(tmp_path / file))
        assert done.code == 0, done.err
        assert done.out.strip().endswith(file)
        assert (tmp_path / file).read_bytes().startswith(begin)
    done = cli("map", trained, "--out", str(tmp_path / "map.svg"))
    assert (done.code, (tmp_path / "map.svg").exists()) == (2, False)
    assert "name a file map.html or map.png" in done.err
