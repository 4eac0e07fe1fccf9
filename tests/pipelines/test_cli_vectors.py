from __future__ import annotations

import itertools
import json
from pathlib import Path

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


def test_a_model_is_quantized_once_and_asked_like_any_other(
    cli: Cli, trained: str, pairs: Path
) -> None:
    arguments = ("quantize", trained, "--sub-vectors", "4", "--similarity", str(pairs))
    done = cli(*arguments, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    name = trained.split("/")[0]
    assert made["model"] == f"{name}-quantized/1"
    assert (made["parent"], made["reused"], made["promoted"]) == (trained, False, True)
    (score,) = made["scores"]
    assert score["baselines"][0]["name"] == "original"
    assert score["value"] == pytest.approx(score["baselines"][0]["value"], abs=0.1)
    assert made["stats"]["bytes"] > 0
    assert "centroids instead of 256" in made["notes"][0]

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
    assert ["parent", trained] in lines
    assert "of nearest neighbours kept" in shown
    twice = cli("quantize", champion)
    assert (twice.code, "quantized already" in twice.err) == (2, True)
    wide = cli("quantize", trained, "--sub-vectors", "9")
    assert wide.code == 2
    assert "8 columns cannot be cut into 9 sub-vectors" in wide.err


def test_a_map_is_written_as_its_name_says(cli: Cli, trained: str, tmp_path: Path) -> None:
    for file, begin in (("map.html", b"<!doctype html>"), ("map.png", b"\x89PNG")):
        done = cli("map", trained, *NOUNS, "--frequent", "5", "--out", str(tmp_path / file))
        assert done.code == 0, done.err
        assert done.out.strip().endswith(file)
        assert (tmp_path / file).read_bytes().startswith(begin)
    done = cli("map", trained, "--out", str(tmp_path / "map.svg"))
    assert (done.code, (tmp_path / "map.svg").exists()) == (2, False)
    assert "name a file map.html or map.png" in done.err
