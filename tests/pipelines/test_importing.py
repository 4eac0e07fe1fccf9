"""`lexloom import`: a file becomes a registered model like any other, and leaves in any format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.fasttext import Config, Model
from models.vocabulary import Vocabulary
from tasks.export.fasttext import write_fasttext
from tests.pipelines.conftest import Cli

WORDS = ["harbour", "ship", "sailor", "gull", "Mühle"]
TABLE = np.random.default_rng(5).normal(0, 1, (5, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "sea.vec"
    rows = zip(WORDS, TABLE.tolist(), strict=True)
    lines = [" ".join([word, *(f"{x:.9g}" for x in row)]) for word, row in rows]
    path.write_text("\n".join(["5 4", *lines, ""]), "utf-8")
    return path


def test_a_file_becomes_a_model(cli: Cli, vectors: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\t{i}\n" for i, (a, b) in enumerate(
        (a, b) for a in WORDS for b in WORDS if a != b)), "utf-8")  # fmt: skip
    done = cli("import", str(vectors), "--name", "sea", "--similarity", str(pairs))
    assert done.code == 0, done.err
    assert "sea v1 @challenger @champion\n5 words, read as word2vec\n" in done.out
    # The same bytes are the same version, whatever the file is called; its scores stay.
    copy = tmp_path / "copy.txt"
    copy.write_bytes(vectors.read_bytes())
    again = json.loads(cli("import", str(copy), "--name", "sea", "--json").out)
    assert (again["version"], again["reused"]) == (1, True)
    assert [score["name"] for score in again["scores"]] == ["similarity.pairs"]
    shown = json.loads(cli("models", "show", "sea@champion", "--json").out)
    assert (shown["family"], shown["tags"]["file"]) == ("imported", "sea.vec")
    assert "input.vectors" in shown["tags"]
    asked = cli("query", "similarity", "sea@champion", "ship", "gull")
    a, b = TABLE[1], TABLE[3]
    assert float(asked.out.split()[0]) == pytest.approx(
        a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-4
    )


@pytest.mark.parametrize("format", ["word2vec", "word2vec-bin", "glove", "parquet", "native"])
def test_every_format_comes_back(format: str, cli: Cli, vectors: Path, tmp_path: Path) -> None:
    name, out = f"back-{format}", tmp_path / "out"
    assert cli("import", str(vectors), "--name", name).code == 0
    assert cli("pull", f"{name}/1", "--format", format, "--out", str(out)).code == 0
    done = json.loads(cli("import", str(out), "--name", name, "--json").out)
    assert done["stats"]["format"] == format
    # The native folder is the very model; of the others the vectors are the same.
    assert done["version"] == (1 if format in ("native", "word2vec") else 2)
    final = tmp_path / "final.txt"
    assert cli("pull", f"{name}@challenger", "--format", "word2vec", "--out", str(final)).code == 0
    assert final.read_bytes() == vectors.read_bytes()


def test_fasttext_keeps_its_unknown_words(cli: Cli, tmp_path: Path) -> None:
    config = Config(dim=4, buckets=20, min_count=1)
    rows = np.random.default_rng(2).normal(0, 1, (25, 4)).astype(np.float32)
    model = Model(config, Vocabulary((), tuple(WORDS), np.arange(5, 0, -1)), rows, TABLE)
    write_fasttext(model, tmp_path / "in.bin")
    assert "read as fasttext" in cli("import", str(tmp_path / "in.bin"), "--name", "grams").out
    out = tmp_path / "out.bin"
    assert cli("pull", "grams@champion", "--format", "fasttext", "--out", str(out)).code == 0
    assert out.read_bytes() == (tmp_path / "in.bin").read_bytes()
    plain = cli("pull", "grams@champion", "--format", "word2vec", "--out", str(tmp_path / "v"))
    assert "without n-grams" in plain.err


def test_what_is_told_of_files_that_cannot_be_used(cli: Cli, vectors: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"2 1\na 1\n\xff 2\n")
    done = cli("import", str(bad), "--name", "bad")
    assert done.code == 2
    assert "bad.txt: line 3: the word" in done.err
    assert "Traceback" not in done.err
    lenient = cli("import", str(bad), "--name", "bad", "--errors", "reject")
    assert "1 word, read as word2vec; invalid utf8 1" in lenient.out
    assert cli("import", str(vectors), "--name", "no good").code == 2
    for line, problem in ((b"a\0b 1", "has a NUL in it"), (b"huge 3e38", "above 1e+15")):
        bad.write_bytes(b"2 1\na 1\n" + line + b"\n")
        done = cli("import", str(bad), "--name", "bad")
        assert (done.code, problem in done.err) == (2, True), done.err


def test_vectors_alone_are_nothing_to_go_on_from(
    cli: Cli, cli_home: Path, vectors: Path, tmp_path: Path
) -> None:
    assert cli("import", str(vectors), "--name", "alone").code == 0
    text = tmp_path / "new.txt"
    text.write_text("a ship and a gull\n")
    before = sorted(cli_home.rglob("*.yaml"))
    done = cli("continue", "alone@champion", "--text", str(text))
    assert done.code == 2
    assert "training cannot go on from" in done.err
    assert sorted(cli_home.rglob("*.yaml")) == before


def test_words_that_cancel_out_have_no_neighbours(cli: Cli, vectors: Path) -> None:
    assert cli("import", str(vectors), "--name", "zero").code == 0
    for asked in ("ship - ship", "1e308 * ship + gull"):
        done = cli("query", "neighbours", "zero@champion", asked)
        assert done.code == 2, done.out
        assert "zeros" in done.err or "no sum of words" in done.err


def test_a_pulled_model_answers_in_mlflow(cli: Cli, cli_home: Path, vectors: Path) -> None:
    import mlflow

    assert cli("import", str(vectors), "--name", "served").code == 0
    mlflow.set_tracking_uri(f"sqlite:///{cli_home / 'mlflow.db'}")
    model: Any = mlflow.pyfunc.load_model("models:/served/1")
    found = model.predict([{"word": "ship"}], params={"task": "vectors"})
    assert np.array_equal(np.array(found["vector"][0], np.float32), TABLE[1])
