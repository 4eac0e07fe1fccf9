from __future__ import annotations

import json
from pathlib import Path

import mlflow.pyfunc
import numpy as np
import pytest

from models.text import Sentences
from pipelines.config import parse
from pipelines.plain import choose
from tasks.errors import ConfigError
from tasks.registry import find_version, open_model

from .conftest import Cli


@pytest.fixture(scope="module")
def language_models(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of two n-gram models and a mixture."""
    path = tmp_path_factory.mktemp("mix") / "tongues.yaml"
    path.write_text(
        f"corpus: {{name: tongues, train: {{paths: [{corpus_file}]}}, "
        "split: {valid: 0.2, test: 0.2}}\n"
        "families:\n"
        "  one: {family: ngram, order: 1}\n"
        "  three: {family: ngram, order: 3}\n"
        "mixtures:\n"
        "  both: {parts: [one, three]}\n"
        "evaluation: {splits: [valid, test]}\n"
    )
    return path


def test_models_of_a_run_are_mixed_evaluated_and_registered(
    cli: Cli, language_models: Path, tmp_path: Path, cli_home: Path
) -> None:
    done = cli("run", str(language_models), "--direct", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    scores = {
        row["name"]: {score["name"]: score["value"] for score in row["scores"]}
        for row in result["leaderboard"]
    }
    assert list(scores) == ["one", "three", "both"]
    valid = {name: found["perplexity.valid"] for name, found in scores.items()}
    assert valid["both"] <= min(valid.values()) + 1e-6
    # Weights by hand over the same models; and what MLflow serves says the same as the model.
    options = ("--name", "mixed", "--weights", "0.25,0.75", "--score", str(tmp_path / "text.txt"))
    (tmp_path / "text.txt").write_text("the ship meets a wave .\nthe gull lifts a zebra\n")
    parts = ("tongues-one@champion", "tongues-three@champion")
    done = cli("mix", *parts, *options, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert made["weights"] == {"tongues-one/1": 0.25, "tongues-three/1": 0.75}
    uri = f"sqlite:///{cli_home}/mlflow.db"
    mixture, *alone = (open_model(name, uri) for name in ("mixed/1", *parts))
    text = [["the", "ship", "meets", "a", "zebra"]]
    said = Sentences.of(mixture.model.vocabulary, text)
    one, three = (np.exp(opened.model.log_prob(said)) for opened in alone)  # type: ignore[attr-defined]
    found = mixture.model.log_prob(said)  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.exp(found), 0.25 * one + 0.75 * three, rtol=1e-12)
    served = mlflow.pyfunc.load_model(find_version("mixed/1", uri).location)
    answer = served.predict([{"tokens": text[0]}], params={"task": "log_prob"})
    np.testing.assert_allclose(answer["log_probs"][0], found, rtol=1e-12)


def test_a_mixture_that_cannot_be_is_refused_before_anything_is_trained(
    cli: Cli, language_models: Path
) -> None:
    for change, problem in {
        "mixtures.both.parts=[one, two]": "mixtures.both.parts.1: the model 'two' is not there",
        "mixtures.both.parts=[one, one]": "'one' stands here twice",
        "mixtures.both.weights=[0.5, 0.6]": "weights must sum to 1, not to 1.1",
        "mixtures.both.weights=[0.5]": "2 models need 2 weights, not 1",
        "corpus.split.valid=0": "there is no validation text to fit weights on",
    }.items():
        done = cli("run", str(language_models), "--direct", "--set", change)
        assert (done.code, problem in done.err) == (2, True), (change, done.err)


PLAIN = {
    "families": {
        "a": {"family": "ngram"},
        "b": {"family": "nplm"},
        "c": {"family": "ngram", "order": 2},
        "v": {"family": "word2vec"},
    },
    "mixtures": {"ab": {"parts": ["a", "b"]}, "abc": {"parts": ["ab", "c"]}},
    "corpus": {},
}


def test_a_mixture_that_is_chosen_brings_its_parts() -> None:
    chosen = choose(PLAIN, ["abc", "v"])
    assert list(chosen["families"]) == ["a", "b", "c", "v"]
    assert list(chosen["mixtures"]) == ["ab", "abc"]
    assert choose(PLAIN, ["a", "b"])["mixtures"] == {}
    assert list(parse(chosen).mixtures) == ["ab", "abc"]
    with pytest.raises(ConfigError, match="there is no family 'abd'") as caught:
        choose(PLAIN, ["abd"])
    assert "this recipe has: a, b, c, v, ab, abc" in caught.value.remedy


def test_what_has_no_probabilities_is_no_part() -> None:
    value = {**PLAIN, "mixtures": {"av": {"parts": ["a", "v"]}}}
    with pytest.raises(ConfigError, match="'v' gives no probability of text") as caught:
        parse(value)
    assert caught.value.remedy == "a mixture may be of: a, b, c"


def test_models_that_do_not_go_together_are_refused_before_a_text_is_read(
    cli: Cli, language_models: Path, tmp_path: Path
) -> None:
    small = tmp_path / "small.yaml"
    small.write_text(
        language_models.read_text()
        .replace("name: tongues", "name: small")
        .replace("{family: ngram, order: 1}", "{family: ngram, order: 1, max_size: 9}")
        .replace("  three: {family: ngram, order: 3}\n", "")
        .replace("mixtures:\n  both: {parts: [one, three]}\n", "")
    )
    for recipe in (language_models, small):
        done = cli("run", str(recipe), "--direct", "--json")
        assert done.code == 0, done.err
    text = tmp_path / "text.txt"
    text.write_text("the ship meets a wave .\n")
    for others, problem in (
        (["small-one/1"], "models that are mixed must predict the same words"),
        ([], "one model makes no mixture"),
    ):
        done = cli("mix", "tongues-one/1", *others, "--name", "mixed", "--fit", str(text))
        assert (done.code, problem in done.err) == (2, True), done.err
        assert "ingest" not in done.err


def test_the_command_says_what_it_needs(cli: Cli) -> None:
    parts = ("tongues-one@champion", "tongues-three@champion")
    done = cli("mix", *parts, "--name", "mixed")
    assert (done.code, "weights are given, or fitted on a text" in done.err) == (2, True)
    done = cli("mix", *parts, "--name", "mixed", "--weights", "half,half")
    assert (done.code, "unlike 'half,half'" in done.err) == (2, True)
