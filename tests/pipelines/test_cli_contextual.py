"""Encoders from a recipe to contextual vectors: joined, pulled, asked, served."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow.pyfunc
import numpy as np
import pyarrow.parquet as pq
import pytest

from models.text import Sentences
from tasks.registry import find_version, open_model

from .conftest import Cli

SMALL = "units: 8, embedding: 8, epochs: 1, min_count: 1"


@pytest.fixture(scope="module")
def recipe_of_encoders(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three encoders."""
    recipe = tmp_path_factory.mktemp("encoders") / "encoders.yaml"
    recipe.write_text(
        f"corpus: {{name: enc, train: {{paths: [{corpus_file}]}}, "
        "split: {valid: 0.2, test: 0.2}}\n"
        "families:\n"
        f"  ahead: {{family: rnnlm, boundary: sentence, {SMALL}}}\n"
        f"  back: {{family: rnnlm, boundary: sentence, direction: backward, {SMALL}}}\n"
        f"  mask: {{family: birnn, objective: mask, {SMALL}}}\n"
        "evaluation: {similarity: [], analogy: []}\n"
    )
    return recipe


@pytest.fixture
def encoders(cli: Cli, recipe_of_encoders: Path, corpus_file: Path) -> Path:
    """They are trained, or have been; the text that they were trained on."""
    done = cli("run", str(recipe_of_encoders), "--direct", "--json")
    assert done.code == 0, done.err
    rows = {row["name"]: row for row in json.loads(done.out)["leaderboard"]}
    scores = {name: [s["name"] for s in row["scores"]] for name, row in rows.items()}
    assert scores["mask"] == ["pseudo_perplexity.test"]
    assert "heldout_masked_perplexity" in rows["mask"]["training"]
    assert "heldout_perplexity" not in rows["mask"]["training"]
    return corpus_file


def test_two_directions_joined_registered_pulled_asked_and_served(
    cli: Cli, encoders: Path, tmp_path: Path, cli_home: Path
) -> None:
    parts = ("enc-ahead@champion", "enc-back@champion")
    done = cli("join", *parts, "--name", "two-ways", "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    assert made["model"] == "two-ways/1"
    assert made["layers"] == ["embedding", "1"]
    assert cli("pull", "two-ways/1", "--out", str(tmp_path / "both")).code == 0
    uri = f"sqlite:///{cli_home}/mlflow.db"
    joined, *alone = (open_model(name, uri).model for name in ("two-ways/1", *parts))
    lines = encoders.read_text().splitlines()[:40]
    (tmp_path / "some.txt").write_text("\n".join(lines))

    out = tmp_path / "vectors.parquet"
    for model in ("two-ways/1", str(tmp_path / "both")):
        done = cli("query", "tokens", model, "--file", str(tmp_path / "some.txt"),
                   "--layer", "1", "--out", str(out), "--json")  # fmt: skip
        assert done.code == 0, done.err
        table = pq.read_table(out)
        tokens: list[list[str]] = [[] for _ in range(json.loads(done.out)["sentences"])]
        for row in table.select(["sentence", "token"]).to_pylist():
            tokens[row["sentence"]].append(row["token"])
        text = Sentences.of(joined.vocabulary, tokens)
        states = [m.token_vectors(text)[-1] for m in alone]  # type: ignore[attr-defined]
        found = np.array(table["vector"].to_pylist(), np.float32)
        np.testing.assert_allclose(found, np.concatenate(states, 1), rtol=0, atol=1e-6)

    served = mlflow.pyfunc.load_model(find_version("two-ways/1", uri).location)
    questions = [{"tokens": sentence} for sentence in tokens]
    answer = served.predict(questions, params={"task": "token_vectors", "layer": "1"})
    np.testing.assert_allclose(np.concatenate(list(answer["vectors"])), found, atol=1e-6)
    answer = served.predict(questions, params={"task": "sentence_vectors"})
    expected = joined.sentence_vectors(text)  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.stack(list(answer["vector"])), expected, atol=1e-6)
    done = cli("join", "enc-ahead@champion", "two-ways/1", "--name", "more")
    assert done.code == 2
    assert "made of others" in done.err
    done = cli("join", parts[0], "--name", "one")
    assert done.code == 2
    assert "cannot be joined" in done.err


def test_senses_and_sentences_on_a_terminal_and_served(
    cli: Cli, encoders: Path, tmp_path: Path, cli_home: Path
) -> None:
    model, file = "enc-mask@champion", str(encoders)
    done = cli("query", "senses", model, "the", "--file", file, "-k", "2", "-n", "3", "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert len(answer["near"]) == 3
    place, near = answer["near"][0]
    assert place["tokens"][place["position"]] == "the"
    assert [p["tokens"][p["position"]] for p in near] == ["the", "the"]
    done = cli("query", "senses", model, "the", "--file", file, "-n", "1")
    assert "'the' stands" in done.out
    served = mlflow.pyfunc.load_model(
        find_version(model, f"sqlite:///{cli_home}/mlflow.db").location
    )
    text = [line.split() for line in encoders.read_text().splitlines()]
    found = served.predict([{"tokens": t} for t in text], params={"task": "senses", "word": "the"})
    first = found.iloc[0]
    assert text[first["row"]][first["position"]] == "the"
    assert first["similarities"] == sorted(first["similarities"], reverse=True)
    assert [text[r][p] for r, p in zip(first["rows"], first["positions"], strict=True)] == [
        "the"
    ] * 10

    like = " ".join(text[7])
    done = cli("query", "sentences", model, "--file", file, "--like", like, "-k", "3", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0]["cosine"] == pytest.approx(1)
    done = cli("query", "sentences", model, "--file", file, "--out", str(tmp_path / "s.parquet"))
    assert done.code == 0, done.err
    assert len(pq.read_table(tmp_path / "s.parquet")) == len(text)
    done = cli("query", "perplexity", model, "the ship")
    assert done.code == 2
    assert "gives no probability of text" in done.err
    done = cli("query", "tokens", model, "--text", "a b", "--layer", "9", "--out", "x.parquet")
    assert done.code == 2
    assert "no layer '9'" in done.err


def test_what_is_registered_says_that_it_has_contextual_vectors(cli: Cli, encoders: Path) -> None:
    shown = cli("models", "show", "enc-mask@champion").out
    assert "embeds_tokens" in shown
    assert "embeds_sentences" in shown
    assert "fills_in" in shown
