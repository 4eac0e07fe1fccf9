from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import pytest
from mlflow import MlflowClient

from models.ngram import Config as Ngram
from models.nplm import Config as Nplm
from models.word2vec import Config as Word2vec
from tasks import registry
from tasks.artifacts import Artifact
from tasks.errors import ConfigError, InputError
from tasks.evaluation.score import Score
from tasks.mlflow_client import connect
from tasks.registry import Registered, check_name, find_version, list_models, open_model, register
from tasks.store import Store
from tasks.versions import replicates
from tests.tasks.trained import train_small

SMALL = Word2vec(dim=6, min_count=1)
LABELS = {"experiment": "registered", "corpus": "c0ffee", "git_commit": "beef"}
SCORE = Score("similarity.pairs", 0.41, "spearman", 8, 10, "pairs", "case ignored")


def enter(store: Store, uri: str, name: str, model: Artifact, *scores: Score) -> Registered:
    return register(store, model, name, tracking_uri=uri, scores=scores, tags=LABELS)


def test_names_are_checked() -> None:
    for name in ("a", "sample-word2vec", "9lives", "x_1", "ml-a_model_123", "m-12", "A" * 128):
        check_name(name)
    bad = ("", "ml.a.model_123", "a/b", "x:1", "ünï", "-a", "_a", "a b", "a@b", "a" * 129, "a\n")
    for name in bad:
        with pytest.raises(ConfigError, match="cannot be the name"):
            check_name(name)


def test_one_version_for_every_content(store: Store, tracking_uri: str) -> None:
    name = "one-version_123"
    first = train_small(store, SMALL)
    once = enter(store, tracking_uri, name, first, SCORE)
    again = enter(store, tracking_uri, name, first, SCORE)
    assert (once.version, once.reused, again.version, again.reused) == (1, False, 1, True)
    assert once.run_id == again.run_id
    second = enter(store, tracking_uri, name, train_small(store, SMALL, seed=2))
    assert second.version == 2
    elsewhere = enter(store, tracking_uri, "another-name", first)
    assert (elsewhere.version, elsewhere.run_id) == (1, once.run_id)

    newest, oldest = (v for v in list_models(tracking_uri) if v.name == name)
    assert (newest.version, newest.aliases) == (2, ("challenger",))
    assert (oldest.version, oldest.aliases, oldest.scores) == (1, (), (SCORE,))
    assert (oldest.family, oldest.capabilities) == ("word2vec", ("embeds_words",))
    assert oldest.content == first.content
    assert oldest.tags["score.similarity.pairs"] == "0.410"
    assert oldest.tags["input.train"] == "ab" * 32
    assert (oldest.tags["corpus"], oldest.tags["recipe"]) == ("c0ffee", first.recipe)
    run = connect(tracking_uri).get_run(once.run_id)
    assert run.data.metrics["similarity.pairs"] == 0.41
    assert run.data.metrics["training.tokens_per_second"] == 1000
    assert run.data.params["dim"] == "6"
    assert [a.path for a in connect(tracking_uri).list_artifacts(once.run_id)] == ["scores.json"]
    assert [output.model_id for output in run.outputs.model_outputs]
    # The older version comes back, and the newer one stays the challenger.
    enter(store, tracking_uri, name, first, SCORE)
    assert find_version(f"{name}@challenger", tracking_uri).version == 2


def test_seeds_of_one_setting_are_known_as_such(store: Store, tracking_uri: str) -> None:
    name = "seeds"
    for seed in (1, 2, 3):
        enter(store, tracking_uri, name, train_small(store, SMALL, seed=seed), SCORE)
    enter(store, tracking_uri, name, train_small(store, replace(SMALL, dim=7)), SCORE)
    enter(store, tracking_uri, "other-seeds", train_small(store, SMALL), SCORE)

    def same(version: int) -> list[int]:
        found = find_version(f"{name}/{version}", tracking_uri)
        return [one.version for one in replicates(found, tracking_uri)]

    assert [same(version) for version in (1, 3, 4)] == [[1, 2, 3], [1, 2, 3], [4]]
    before = replace(find_version(f"{name}/1", tracking_uri), tags={})
    assert replicates(before, tracking_uri) == [before]


def test_scores_longer_than_a_tag_keep_all_but_their_parts(
    store: Store, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = replace(SCORE, details={"covered": "x", "sections": {str(i): i for i in range(99)}})
    monkeypatch.setattr(registry, "LONGEST_TAG", 400)
    model = train_small(store, SMALL)
    found = enter(store, tracking_uri, "long-scores", model, long)
    (kept,) = find_version("long-scores/1", tracking_uri).scores
    assert kept == replace(long, details={"covered": "x"})
    client = connect(tracking_uri)
    with open(client.download_artifacts(found.run_id, "scores.json")) as file:
        assert Score.from_json(json.load(file)[0]) == long


def test_a_name_with_a_number_is_read_back(store: Store, tracking_uri: str) -> None:
    for name in ("ml-a_model_123", "9", "m-12"):
        enter(store, tracking_uri, name, train_small(store, SMALL))
        assert find_version(f"{name}/1", tracking_uri).name == name
        mlflow.set_tracking_uri(tracking_uri)
        loaded = mlflow.pyfunc.load_model(f"models:/{name}@challenger")
        assert loaded.predict([{"word": "cat"}])["word"].tolist() == ["cat"]


def test_two_processes_at_once_on_a_fresh_database(store: Store, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'fresh' / 'mlflow.db'}"
    model = train_small(store, SMALL)
    program = """
        import json, sys
        from pathlib import Path
        from tasks.artifacts import Artifact
        from tasks.registry import register
        from tasks.store import Store

        url, uri, model = sys.argv[1:]
        found = register(Store(url, Path(url)), Artifact(**json.loads(model)), "twice",
                         tracking_uri=uri, scores=[], tags={})
        print(json.dumps([found.version, found.reused]))
    """
    arguments = [store.url, uri, json.dumps(model.to_json())]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), *arguments], stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert sorted(answers) == [[1, False], [1, True]]
    assert [version.version for version in list_models(uri)] == [1]


def test_an_interrupted_registration_is_made_good(
    store: Store, tracking_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = train_small(store, SMALL, seed=3)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    # Before the version is made, and before it is given its scores and its alias.
    for method in ("create_model_version", "set_model_version_tag"):
        with monkeypatch.context() as patch:
            patch.setattr(MlflowClient, method, die)
            with pytest.raises(KeyboardInterrupt):
                enter(store, tracking_uri, "interrupted", model, SCORE)
    found = enter(store, tracking_uri, "interrupted", model, SCORE)
    assert (found.version, found.reused) == (1, True)
    version = find_version("interrupted@challenger", tracking_uri)
    assert (version.version, version.scores) == (1, (SCORE,))


@pytest.mark.parametrize("overtaken", [False, True])
def test_of_two_stores_the_later_one_gives_way(
    overtaken: bool,
    store: Store,
    tracking_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Also where the other one sees it first, and deletes the later version itself."""
    other, name = Store(str(tmp_path / "other"), tmp_path / "cache"), f"shared-{overtaken}"
    enter(other, tracking_uri, name, train_small(other, SMALL))
    # This store looks before the other one has made its version.
    monkeypatch.setattr(registry, "_with_content", lambda *_: None)
    every = registry._all_with_content

    def seen(client: Any, *about: str) -> Any:
        found = every(client, *about)
        if overtaken:
            client.delete_model_version(name, "2")
        return found

    monkeypatch.setattr(registry, "_all_with_content", seen)
    found = enter(store, tracking_uri, name, train_small(store, SMALL))
    assert (found.version, found.reused) == (1, True)
    assert [v.version for v in list_models(tracking_uri) if v.name == name] == [1]


@pytest.mark.parametrize(
    "family", [Ngram(order=3), SMALL, Nplm(embedding=5, hidden=4, min_count=1)], ids=str
)
def test_a_model_is_opened_by_name(store: Store, tracking_uri: str, family: Any) -> None:
    artifact = train_small(store, family)
    enter(store, tracking_uri, f"opened-{family.family}", artifact)
    for reference in ("@challenger", "/1"):
        opened = open_model(f"opened-{family.family}{reference}", tracking_uri)
        assert opened.model.config == family
        assert opened.reference == f"opened-{family.family}/1"
        assert opened.version is not None
        assert opened.version.content == artifact.content
    assert open_model(f"models:/opened-{family.family}/1", tracking_uri).about["family"] == (
        family.family
    )


def test_what_is_not_there_is_said(store: Store, tracking_uri: str) -> None:
    enter(store, tracking_uri, "known", train_small(store, SMALL))
    for reference, problem in {
        "known@champion": "there is no champion of this model",
        "known/7": "there is no version 7 of this model",
        "unknown/1": "there is no such registered model",
        "unknown@champion": "there is no such registered model",
    }.items():
        with pytest.raises(InputError, match=problem):
            find_version(reference, tracking_uri)
    for reference in ("known", "no/such/folder", "a.b@champion", str(Path(__file__).parent)):
        with pytest.raises(InputError, match="neither a registered model nor a folder"):
            find_version(reference, tracking_uri)


def test_changed_files_are_refused(store: Store, tracking_uri: str) -> None:
    enter(store, tracking_uri, "damaged", train_small(store, SMALL, seed=4))
    opened = open_model("damaged/1", tracking_uri)
    weights = opened.folder / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(InputError, match="damaged: its hash"):
        open_model("damaged/1", tracking_uri)
    mlflow.set_tracking_uri(tracking_uri)
    with pytest.raises(Exception, match="damaged: its hash"):
        mlflow.pyfunc.load_model("models:/damaged/1")
