"""The commands about text: figures, scores in a file, text that a model makes, two models."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from models.char_cnn import Config as CharCnnConfig
from models.word2vec import Config as Word2vecConfig
from tests.pipelines.conftest import Cli
from tests.tasks.speaking import NGRAM, speaking, trained, write_folder
from tests.tasks.trained import sentences


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Models as they are pulled, by name."""
    folder = tmp_path_factory.mktemp("models")
    characters = CharCnnConfig(widths=(1, 2, 3), filters=(4, 8, 8), units=8, min_count=1)
    models = {
        **speaking(),
        "vectors": trained(Word2vecConfig(dim=4, min_count=1)),
        "characters": trained(characters),
    }
    return {name: str(write_folder(folder / name, model)) for name, model in models.items()}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A packed text of 100 sentences."""
    path = tmp_path_factory.mktemp("text") / "held.txt.gz"
    lines = [" ".join(words) for words in sentences(100, seed=9)]
    path.write_bytes(gzip.compress("\n".join([*lines, "a gannet"]).encode()))
    return str(path)


@pytest.mark.parametrize("name", ["ngram", "nplm", "rnnlm", "mixture", "on"])
def test_scores_of_a_file_and_their_totals(
    name: str, folders: dict[str, str], text: str, cli: Cli, tmp_path: Path
) -> None:
    whole = json.loads(cli("query", "perplexity", folders[name], "--file", text, "--json").out)
    assert (whole["tokens"], whole["sentence_ends"], whole["unknown"]) == (602, 101, 1)
    for by, rows in (("token", 703), ("sentence", 101)):
        out = tmp_path / f"{by}.parquet"
        asked = ("query", "score", folders[name], text, "--out", str(out), "--by", by)
        told = json.loads(cli(*asked, "--json").out)
        assert told == {"out": str(out), "by": by, **whole}
        table = pq.read_table(out)
        assert table.num_rows == rows
        assert -sum(table["log_prob"].to_pylist()) == pytest.approx(whole["nats"])
        line = cli(*asked).out
        assert f"{rows} rows, one a {by}" in line
        assert f"perplexity {whole['perplexity']:,.2f}" in line
        assert whole["vocabulary"] in line


def test_a_text_is_shown_word_by_word(folders: dict[str, str], cli: Cli) -> None:
    done = cli("query", "perplexity", folders["ngram"], "the cat gannet")
    lines = done.out.splitlines()
    assert lines[0].startswith("perplexity ")
    assert "3 tokens and 1 sentence end, 1 unknown (33.33%)" in done.out
    assert [line.split()[0] for line in lines[-4:]] == ["the", "cat", "gannet", "</s>"]
    assert lines[-2].split()[-1] == "<unk>"
    assert "with <unk> left out (of known words and sentence ends)" in done.out
    assert "log-probability (nats)" in done.out


@pytest.mark.parametrize("name", ["ngram", "nplm", "rnnlm", "mixture", "on"])
def test_text_is_made_anew_for_a_seed_and_the_same_for_the_same(
    name: str, folders: dict[str, str], cli: Cli
) -> None:
    def made(*more: str) -> list[str]:
        done = cli("query", "generate", folders[name], "--prefix", "the cat", *more)
        assert done.code == 0, done.err
        return done.out.splitlines()

    three = made("-n", "3", "--length", "6")
    assert len(three) == 3
    assert all(line.startswith("the cat") and len(line.split()) <= 8 for line in three)
    assert three[:1] == made("--length", "6")
    assert three != made("-n", "3", "--length", "6", "--seed", "2")
    assert len(set(made("-n", "4", "--temperature", "0"))) == 1
    narrowed = ("--top-k", "1", "--top-p", "0.5", "--seed", "9")
    assert made(*narrowed) == made("--temperature", "0")
    told = json.loads(cli("query", "generate", folders[name], "--prefix", "a gannet", "--json").out)
    assert told["unknown_in_prefix"] == 1
    assert told["texts"][0]["prefix"] == ["a", "gannet"]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (("generate", "ngram", "--temperature", "-1"), "temperature is a number from 0 on, not -1"),
        (("generate", "ngram", "--temperature", "nan"), "not nan"),
        (("generate", "ngram", "--top-k", "0"), "top-k is 1 or more words, not 0"),
        (("generate", "ngram", "--top-p", "0"), "top-p is a share above 0 and up to 1"),
        (("generate", "ngram", "--top-p", "1.5"), "top-p is a share above 0 and up to 1"),
        (("generate", "ngram", "--length", "0"), "length is 1 or more, not 0"),
        (("generate", "ngram", "-n", "0"), "count is 1 or more, not 0"),
        (("generate", "vectors"), "gives no probability of text"),
        (("perplexity", "ngram", ""), "no words in this text"),
        (("perplexity", "ngram", "--file", "/nowhere"), "cannot be read: No such file"),
        (("score", "ngram", "/nowhere", "--out", "x.parquet"), "cannot be read: No such file"),
        (("score", "vectors", "/nowhere", "--out", "x.parquet"), "gives no probability"),
        (("perplexity", "ngram"), "either a TEXT or a --file"),
        (("perplexity", "ngram", "the", "--file", "x"), "either a TEXT or a --file"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_told_in_a_line(
    asked: tuple[str, ...], problem: str, folders: dict[str, str], cli: Cli,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    command, name, *rest = asked
    done = cli("query", command, folders[name], *rest)
    assert done.code == 2
    assert problem in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_two_models_are_held_against_each_other(
    folders: dict[str, str], cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "held.txt"
    file.write_text("\n".join(" ".join(words) for words in sentences(100, seed=9)))
    small = write_folder(tmp_path / "small", trained(type(NGRAM)(order=2, max_size=8, min_count=1)))
    done = cli("evaluate", folders["ngram"], folders["nplm"], "--text", str(file))
    assert "nats a prediction [" in done.out
    assert "more than chance, 100 sentences in 100 runs" in done.out
    done = cli("evaluate", folders["ngram"], str(small), "--text", str(file))
    assert "not compared: their vocabularies differ" in done.out
    assert "bits a character [" in done.out


def test_registered_models_are_held_against_each_other_on_a_split(
    corpus_file: Path, folders: dict[str, str], cli: Cli, tmp_path: Path
) -> None:
    recipe = tmp_path / "split.yaml"
    recipe.write_text(
        f"corpus: {{name: held, train: {{paths: [{corpus_file}]}}, "
        "split: {valid: 0.2, test: 0.2}}\n"
        "families:\n"
        "  one: {family: ngram, order: 1}\n"
        "  two: {family: ngram, order: 2}\n"
        "  few: {family: ngram, order: 2, max_size: 9}\n"
        "evaluation: {splits: [valid, test]}\n"
    )
    done = cli("run", str(recipe), "--direct", "--json")
    assert done.code == 0, done.err
    board = {
        row["name"]: {score["name"]: score["value"] for score in row["scores"]}
        for row in json.loads(done.out)["leaderboard"]
    }
    asked = ("evaluate", "held-one/1", "held-two/1", "--split", "test", "--json")
    nats, bits = json.loads(cli(*asked).out)["difference"]
    assert nats["name"] == "perplexity.test"
    for side, name in (("first", "one"), ("second", "two")):
        assert nats[side] == pytest.approx(board[name]["perplexity.test"], rel=1e-9)
        assert bits[side] == pytest.approx(board[name]["bits_per_character.test"], rel=1e-9)
    assert nats["ratio"] > nats["ratio_interval"][0] > 1
    assert 0.001 < nats["p"] < 0.01
    other = cli("evaluate", "held-two/1", "held-few/1", "--split", "valid").out
    assert "not compared: their vocabularies differ" in other
    assert "bits a character [" in other
    alone = cli("evaluate", "held-two/1", "--split", "valid")
    assert (alone.code, "perplexity.valid" in alone.out) == (0, True)
    pulled = cli("evaluate", folders["ngram"], "held-two/1", "--split", "test")
    assert (pulled.code, "no score of it on the split 'test'" in pulled.err) == (2, True)
    unknown = cli("evaluate", "held-two/1", "--split", "tset")
    assert (unknown.code, "no score of it on the split 'tset'" in unknown.err) == (2, True)


def test_neighbours_of_a_made_up_word_before_and_after_the_highway(
    folders: dict[str, str], cli: Cli
) -> None:
    layers = ("--vectors", "before-highway", "--beside", "after-highway")
    asked = ("query", "neighbours", folders["characters"], "rivver", "cat", "-k", "3")
    both = json.loads(cli(*asked, *layers, "--json").out)
    assert list(both) == ["before-highway", "after-highway"]
    for choice, found in both.items():
        assert list(found) == ["rivver", "cat"]
        alone = json.loads(cli(*asked, "--vectors", choice, "--json").out)
        assert found == alone
        assert len(found["rivver"]) == 3
    assert both["before-highway"]["rivver"][0][0] == "river"
    assert both["before-highway"] != both["after-highway"]
    shown = cli(*asked, *layers).out
    assert "rivver is not in the vocabulary: its vector is composed of characters" in shown
    assert "rivver, before-highway" in shown
    assert "cat, after-highway" in shown
    refused = cli(*asked[:2], folders["vectors"], "cat", "--vectors", "before-highway")
    assert refused.code == 2
    assert "choose among own, input, output" in refused.err
