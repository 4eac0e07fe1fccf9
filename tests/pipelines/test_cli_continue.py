"""``lexloom continue`` and ``models compare``, from the command line to the registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.config import RunConfig
from pipelines.continuing import recipe_for
from pipelines.recipes import resolve
from pipelines.train import TRAIN_FLOWS, train_word2vec
from tasks.continuing import find_base
from tasks.store import Store

from .conftest import Cli


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory, corpus_file: Path) -> Path:
    """The same sea with a whale in it, and without an island."""
    text = corpus_file.read_text().replace("gull", "whale").replace("island", "whale")
    path = tmp_path_factory.mktemp("later") / "whales.txt"
    path.write_text(text)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_model_goes_on_from_the_command_line(
    cli: Cli, recipe: Path, later: Path, tmp_path: Path
) -> None:
    assert cli("run", str(recipe), "--direct", "--set", "corpus.normalize.lowercase=true").code == 0
    first = json.loads(cli("models", "show", "sea-word2vec@champion", "--json").out)
    files = contents(Path(first["location"].removeprefix("file://")))
    quiet = ["--set", "evaluation.similarity=[]", "--set", "evaluation.analogy=[]", "--direct"]
    ask = ["continue", f"sea-word2vec/{first['version']}", "--text", str(later), "--epochs", "2"]
    done = cli(*ask, *quiet, "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["leaderboard"]
    assert row["base"] == f"sea-word2vec/{first['version']}"
    change = row["change"]
    assert change["new"] == 1
    assert change["absent"] >= 2  # gull and island
    assert 0 < change["overlap"] <= 1
    assert contents(Path(first["location"].removeprefix("file://"))) == files

    again = json.loads(cli(*ask, *quiet, "--json").out)
    assert all(step["reused"] for step in again["steps"])
    assert "forgetting word2vec" in [step["name"] for step in again["steps"]]
    version = again["models"][0]["version"]
    assert version == first["version"] + 1
    shown = cli("models", "show", f"sea-word2vec/{version}").out
    assert f"sea-word2vec/{first['version']}" in shown
    assert first["content"] in shown
    report = Path(again["report"]).read_text("utf-8")
    assert f"What became of sea-word2vec/{first['version']}" in report
    assert f"goes on from sea-word2vec/{first['version']}" in report
    for word in ("whale", "gull", "island"):
        assert cli("query", "neighbours", f"sea-word2vec/{version}", word).code == 0
    assert cli("query", "neighbours", f"sea-word2vec/{first['version']}", "whale").code == 2

    told = cli("models", "compare", row["base"], f"sea-word2vec/{version}", "--json")
    assert json.loads(told.out) == {
        "before": row["base"], "after": f"sea-word2vec/{version}", **change
    }  # fmt: skip
    assert "changed most" in cli("models", "compare", row["base"], f"sea-word2vec/{version}").out
    backwards = cli("models", "compare", f"sea-word2vec/{version}", row["base"], "--json")
    assert json.loads(backwards.out)["absent"] is None

    # The recipe that was written reads the text as the model's own was read.
    written = next((Path(again["report"]).parent.parent / "recipes").glob("*.yaml"))
    config = resolve(str(written))
    assert config.corpus.normalize.lowercase
    assert config.families["word2vec"].dim == 8
    assert config.families["word2vec"].epochs == 2
    plan = cli("plan", str(written), "--set", "evaluation.similarity=[]",
               "--set", "evaluation.analogy=[]", "--json")  # fmt: skip
    assert all(step["cached"] for step in json.loads(plan.out)["steps"])
    longer = cli("plan", str(written), "--set", "families.word2vec.epochs=3", "--json")
    to_do = [step["name"] for step in json.loads(longer.out)["steps"] if not step["cached"]]
    assert to_do == ["train word2vec", "evaluate word2vec", "forgetting word2vec"]


MISTAKES: dict[str, list[str]] = {
    "corpus.normalize.digits: sea-word2vec/1 was trained": ["corpus.normalize.digits=zero"],
    "families.word2vec.dim: sea-word2vec/1 has dim 8": ["families.word2vec.dim=9"],
    "there is no version 99": ["bases.word2vec=sea-word2vec/99"],
    "bases.glove: there is a base for 'glove'": ["bases.glove=sea-word2vec/1"],
}


def test_a_base_that_does_not_fit_is_one_message_and_a_recipe_is_complete(
    cli: Cli, recipe: Path, tmp_path: Path
) -> None:
    assert cli("run", str(recipe), "--direct", home=tmp_path).code == 0
    for message, changes in MISTAKES.items():
        given = ["bases.word2vec=sea-word2vec/1", *changes]
        options = [part for change in given for part in ("--set", change)]
        done = cli("run", str(recipe), "--direct", *options, home=tmp_path)
        assert done.code == 2
        assert message in done.err
        assert "Traceback" not in done.err
    store = Store(str(tmp_path / "store"), tmp_path / "cache")
    base = find_base(store, "sea-word2vec/1", f"sqlite:///{tmp_path / 'mlflow.db'}")
    value: dict[str, Any] = recipe_for(base, ["a.jsonl.gz"], name="more", changes={"epochs": 7})
    assert value["corpus"]["name"] == "more"
    assert value["corpus"]["train"]["format"] == "jsonl"
    assert Path(value["corpus"]["train"]["paths"][0]).is_absolute()
    assert value["families"]["word2vec"]["epochs"] == 7
    assert value["families"]["word2vec"]["min_count"] == 1
    assert value["bases"] == {"word2vec": "sea-word2vec/1"}


def test_forms_of_families_that_grow_ask_for_a_base() -> None:
    asking = {flow.name for flow in TRAIN_FLOWS if "base" in flow.parameters.properties}
    assert {"train-word2vec", "train-glove", "train-nplm"} <= asking
    assert not asking & {"train-ngram", "train-ppmi"}


class Asked(Exception):
    """Carries the config that a flow would have run."""


def test_a_form_and_a_recipe_say_what_a_flow_goes_on_from(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(config: RunConfig) -> None:
        raise Asked(config)

    monkeypatch.setattr("pipelines.train.job", ask)

    def bases(recipe: Path, **form: Any) -> dict[str, str]:
        with pytest.raises(Asked) as asked:
            train_word2vec.fn(recipe=str(recipe), seed=1, **form)
        config: RunConfig = asked.value.args[0]
        return config.bases

    assert bases(recipe) == {}
    assert bases(recipe, base="sea-word2vec/1", epochs=2) == {"word2vec": "sea-word2vec/1"}
    said = recipe.with_name("said.yaml")
    said.write_text(recipe.read_text() + "bases: {word2vec: sea-word2vec/7}\n")
    assert bases(said) == {"word2vec": "sea-word2vec/7"}
    assert bases(said, base="sea-word2vec/1") == {"word2vec": "sea-word2vec/1"}
