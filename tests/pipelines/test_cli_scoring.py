"""The questions to language models on the command line, on a model that was pulled."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.export.native import FILES, write_folder_manifest
from tasks.store import Store
from tests.pipelines.conftest import Cli
from tests.tasks.trained import train_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An n-gram model in the native format."""
    from models import ngram

    root = tmp_path_factory.mktemp("lm")
    store = Store(str(root / "store"), root / "cache")
    model = train_small(store, ngram.Config(order=3, min_count=1))
    reader = store.reader(model)
    target = root / "model"
    target.mkdir()
    for name in FILES:
        (target / name).write_bytes(reader.path(name).read_bytes())
    write_folder_manifest(target, {"content": model.content})
    return str(target)


def test_generate(cli: Cli, folder: str) -> None:
    ask = ("query", "generate", folder, "--prefix", "the unheard", "--count", "3", "--seed", "4")
    first, again = cli(*ask, "--json"), cli(*ask, "--json")
    assert (first.code, first.out) == (0, again.out)
    found = json.loads(first.out)
    assert found["unknown_words"] == ["unheard"]
    assert len(found["texts"]) == 3
    assert all(text["text"].startswith("the unheard ") for text in found["texts"])
    assert "<unk>" not in " ".join(word for text in found["texts"] for word in text["tokens"])
    said = cli(*ask)
    assert ("read as <unk>: unheard" in said.err, len(said.out.splitlines())) == (True, 3)
    greedy = cli("query", "generate", folder, "--count", "2", "--temperature", "0")
    assert len(set(greedy.out.splitlines())) == 1
    for wrong in (("--temperature", "-1"), ("--top-p", "0"), ("--top-p", "1.5"), ("--top-k", "0")):
        refused = cli("query", "generate", folder, *wrong)
        assert (refused.code, wrong[0].removeprefix("--") in refused.err) == (2, True)
    assert cli("query", "generate", folder, "--length", "0").code == 2


def test_scores_and_perplexity_of_a_file(cli: Cli, folder: str, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "scores.parquet"
    text.write_text("the cat sees a river .\nthe unheard turns a cat !\n" * 15)
    done = cli("query", "score", folder, str(text), "--out", str(out), "--json")
    assert done.code == 0
    assert pq.read_table(out).num_rows == 30 * 7
    by_file = json.loads(cli("query", "perplexity", folder, "--file", str(text), "--json").out)
    assert by_file["perplexity"] == json.loads(done.out)["perplexity"]
    inline = json.loads(cli("query", "perplexity", folder, text.read_text(), "--json").out)
    assert inline["perplexity"] == pytest.approx(by_file["perplexity"])
    compared = cli("query", "compare", folder, folder, str(text))
    assert (compared.code, "p = 1 " in compared.out) == (0, True)
    assert cli("query", "perplexity", folder).code == 2
    assert cli("query", "score", folder, str(text), "--out", str(out)).code == 2
