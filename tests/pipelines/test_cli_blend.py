from __future__ import annotations

import json
from pathlib import Path

import mlflow.pyfunc
import numpy as np
import pytest

from tasks.registry import find_version, open_model

from .conftest import Cli


@pytest.fixture(scope="module")
def forms(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of a model of meaning and one of spelling."""
    path = tmp_path_factory.mktemp("blend") / "forms.yaml"
    path.write_text(
        f"corpus: {{name: forms, train: {{paths: [{corpus_file}]}}}}\n"
        "families:\n"
        "  meaning: {family: ppmi, dim: 8, window: 3, min_count: 2}\n"
        "  spelling: {family: char-birnn, units: 5, epochs: 1, min_count: 1}\n"
        "evaluation: {similarity: [], analogy: []}\n"
    )
    return path


@pytest.fixture
def parts(cli: Cli, forms: Path) -> list[str]:
    """Both, registered; trained by the first test that asks."""
    done = cli("run", str(forms), "--direct")
    assert done.code == 0, done.err
    return ["forms-meaning@champion", "forms-spelling@champion"]


def test_models_are_blended_scored_beside_their_parts_registered_and_served(
    cli: Cli, parts: list[str], tmp_path: Path, cli_home: Path
) -> None:
    uri = f"sqlite:///{cli_home}/mlflow.db"
    meaning, spelling = (open_model(part, uri).model for part in parts)
    words = meaning.vocabulary.words[:8]
    pairs = [
        f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(zip(words * 4, words[1:] * 4, strict=False))
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join([*pairs, f"{words[0]}\tzebra\t3"]))
    options = ("--name", "both", "--similarity", str(tmp_path / "pairs.tsv"))
    done = cli("blend", *parts, *options, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert made["model"] == "both/1"
    assert made["stats"]["dim"] == 18
    assert list(made["scores"]) == ["forms-meaning/1", "forms-spelling/1", "both/1"]
    scored = [own[0]["scored"] for own in made["scores"].values()]
    assert scored == [len(pairs), len(pairs) + 1, len(pairs) + 1]
    both = open_model("both/1", uri).model
    asked = [words[0], "zebra"]
    found = both.word_vectors(asked)  # type: ignore[attr-defined]
    for part, columns in ((meaning, slice(0, 8)), (spelling, slice(8, 18))):
        own = part.word_vectors(asked)  # type: ignore[attr-defined]
        own = np.nan_to_num(own / np.linalg.norm(own, axis=1, keepdims=True))
        np.testing.assert_allclose(found[:, columns], own, atol=1e-6)
    served = mlflow.pyfunc.load_model(find_version("both/1", uri).location)
    answer = served.predict([{"word": word} for word in asked], params={"task": "vectors"})
    np.testing.assert_allclose(np.array(answer["vector"].tolist()), found, atol=1e-6)
    # The same in words, with the bands of frequency, and reused.
    done = cli("blend", *parts, *options)
    assert (done.code, "similarity.pairs" in done.out) == (0, True), done.err
    assert "not in the vocabulary" in done.out


def test_a_sum_takes_a_projection_that_is_learnt_or_given(
    cli: Cli, parts: list[str], tmp_path: Path
) -> None:
    sets = ("--similarity", str(tmp_path / "pairs.tsv"))
    (tmp_path / "pairs.tsv").write_text("a\tb\t1\n")
    done = cli("blend", *parts, "--name", "sum", "--how", "sum", *sets)
    assert done.code == 2
    assert "has 8 dimensions and forms-spelling/1 has 10: a sum needs as many" in done.err
    way = ("--project", "least-squares")
    done = cli("blend", *parts, "--name", "sum", "--how", "sum", *way, *sets, "--json")
    assert (done.code, json.loads(done.out)["stats"]["dim"]) == (0, 8), done.err
    np.save(tmp_path / "map.npy", np.ones((10, 8)))
    way = ("--project", str(tmp_path / "map.npy"))
    done = cli("blend", *parts, "--name", "given", "--how", "sum", *way, *sets, "--json")
    assert (done.code, json.loads(done.out)["stats"]["dim"]) == (0, 8), done.err


def test_what_cannot_be_blended_is_told(cli: Cli, parts: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_text("no matrix")
    (tmp_path / "pairs.tsv").write_text("a\tb\t1\n")
    sets = ("--similarity", str(tmp_path / "pairs.tsv"))
    for more, problem in {
        ("--weights", "1,half"): "weights are numbers with commas between, unlike '1,half'",
        ("--weights", "1"): "2 models need as many weights above 0, unlike 1.0",
        ("--weights", "1,0"): "2 models need as many weights above 0",
        ("--weights", "inf,1"): "2 models need as many weights above 0",
        ("--weights", "1e308,1"): "2 models need as many weights above 0",
        ("--project", "rotate"): "'rotate' is no way to project",
        ("--project", str(tmp_path / "none.npy")): "there is no such file",
        ("--project", str(tmp_path / "bad.npy")): "this is no projection",
    }.items():
        done = cli("blend", *parts, "--name", "bad", *more, *sets)
        assert (done.code, problem in done.err) == (2, True), (more, done.err)
    done = cli("blend", parts[0], parts[0], "--name", "bad", *sets)
    assert (done.code, "this model is named twice" in done.err) == (2, True)
    done = cli("blend", parts[0], "--name", "bad", *sets)
    assert (done.code, "1 model makes no blend" in done.err) == (2, True)


def test_a_blend_is_tuned_in_a_language_model_and_scored_beside_it(
    cli: Cli, parts: list[str], tmp_path: Path, corpus_file: Path, cli_home: Path
) -> None:
    words = ["ship", "harbour", "sailor", "wave", "rope", "gull", "lantern", "island"]
    pairs = [
        f"{a}\t{b}\t{i}" for i, (a, b) in enumerate(zip(words * 3, words[1:] * 4, strict=False))
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs))
    sets = ("--similarity", str(tmp_path / "pairs.tsv"))
    done = cli("blend", *parts, "--name", "tunable", *sets)
    assert done.code == 0, done.err
    small = ("--set", "epochs=2", "--set", "units=8", "--set", "batch_size=4")
    done = cli("tune", "tunable/1", str(corpus_file), "--name", "tuned", *small, *sets, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert list(made["scores"]) == ["tunable/1", "tuned/1"]
    named = {score["name"]: score["value"] for score in made["scores"]["tuned/1"]}
    assert named["perplexity.test"] == pytest.approx(made["stats"]["heldout_perplexity"], rel=0.01)
    uri = f"sqlite:///{cli_home}/mlflow.db"
    tuned, blend = (open_model(name, uri).model for name in ("tuned/1", "tunable/1"))
    asked = ["ship", "zebra"]
    found, before = (m.word_vectors(asked) for m in (tuned, blend))  # type: ignore[attr-defined]
    cosines = (
        (found * before).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(before, axis=1)
    )
    assert (cosines > 0.5).all()
    assert (cosines < 0.99999).all()
    served = mlflow.pyfunc.load_model(find_version("tuned/1", uri).location)
    answer = served.predict([{"word": word} for word in asked], params={"task": "vectors"})
    np.testing.assert_allclose(np.array(answer["vector"].tolist()), found, atol=1e-6)
    for model, change, problem in (
        (parts[0], "units=8", "only blends are tuned"),
        ("tunable/1", "unitz=8", "unitz"),
        ("tunable/1", "units", "'units' is not KEY=VALUE"),
        ("tunable/1", "units=[", "units: Input should be a valid integer"),
        ("tunable/1", "dim=99", "dim is that of the blend"),
    ):
        done = cli("tune", model, str(corpus_file), "--name", "bad", "--set", change, *sets)
        assert (done.code, problem in done.err) == (2, True), done.err
