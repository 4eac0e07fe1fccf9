from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.class_ngram import Config as ClassNgramConfig
from models.fasttext import Config as FasttextConfig
from models.glove import Config as GloveConfig
from models.ngram import Config as NgramConfig
from models.nplm import Config as NplmConfig
from models.ppmi import Config as PpmiConfig
from models.vocabulary import Vocabulary
from models.word2vec import Config as Word2vecConfig
from tasks.errors import InputError
from tasks.export.aside import written_aside
from tasks.export.paths import read_paths
from tasks.export.pull import formats, pull
from tasks.export.word2vec import write_word2vec_binary, write_word2vec_text
from tasks.models import read_model
from tasks.registry import open_model, register
from tasks.store import Store
from tests.tasks.trained import train_small

CONFIGS = [
    NgramConfig(order=3, min_count=1),
    ClassNgramConfig(order=3, classes=4, min_count=1),
    Word2vecConfig(dim=6, min_count=1),
    FasttextConfig(dim=6, buckets=300, min_count=1),
    NplmConfig(embedding=5, hidden=4, min_count=1),
    GloveConfig(dim=6, min_count=1),
    PpmiConfig(dim=6, min_count=1),
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, tracking_uri: str) -> str:
    """A registry with a model of every family, named by the family."""
    folder = tmp_path_factory.mktemp("store")
    store = Store(str(folder), folder / "cache")
    for config in CONFIGS:
        name = f"pulled-{config.family}"
        register(
            store, train_small(store, config), name, tracking_uri=tracking_uri, scores=[], tags={}
        )
    return tracking_uri


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.family)
def test_a_native_folder_is_the_model(config: Any, uri: str, workshop: Path) -> None:
    out = workshop / "model"
    assert pull(f"pulled-{config.family}@challenger", "native", out, tracking_uri=uri) == out
    names = ["config.json", "manifest.json", "text.json", "vocabulary.json", "weights.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert list(workshop.iterdir()) == [out]
    opened = open_model(str(out), "")
    registered = open_model(f"pulled-{config.family}/1", uri)
    assert opened.version is None
    assert opened.text == registered.text
    assert opened.model.vocabulary.hash == registered.model.vocabulary.hash
    assert opened.about["registered"] == {
        "name": f"pulled-{config.family}", "version": 1, "scores": {}
    }  # fmt: skip
    before, after = registered.model.state(), opened.model.state()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    # From a folder, over a model that was pulled before, to a folder again.
    pull(str(out), "native", workshop / "again", tracking_uri="")
    pull(str(out), "native", workshop / "again", tracking_uri="")
    assert open_model(str(workshop / "again"), "").about == opened.about


@pytest.mark.parametrize("family", ["word2vec", "fasttext", "nplm", "glove", "ppmi"])
def test_gensim_reads_what_was_written(family: str, uri: str, workshop: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    model: Any = open_model(f"pulled-{family}/1", uri).model
    words = list(model.vocabulary.words)
    expected = model.word_vectors(words)
    for format, binary in (("word2vec", False), ("word2vec-bin", True)):
        out = pull(f"pulled-{family}/1", format, workshop / format, tracking_uri=uri)  # type: ignore[arg-type]
        loaded = keyed.load_word2vec_format(str(out), binary=binary)
        assert loaded.index_to_key == words
        assert np.array_equal(loaded.vectors, expected)


class Vectors:
    """A table of vectors as a model."""

    def __init__(self, words: tuple[str, ...], table: np.ndarray[Any, Any]) -> None:
        self.config = Word2vecConfig()
        self.vocabulary = Vocabulary((), words, np.ones(len(words), np.int64))
        self._table = dict(zip(words, table, strict=True))

    def state(self) -> dict[str, Any]:
        return {}

    def word_vectors(self, words: Any) -> Any:
        return np.array([self._table[word] for word in words], np.float32)


def test_odd_words_and_numbers_come_back(workshop: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    words = (
        "a\u00a0b",
        "a\u3000b",
        "a\u2028",
        "a",
        "\u0085x",
        "q\tr",
        "ﬁ",
        "e\u0301",
        "é",
        "😀",
        "#",
    )
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (len(words), 64), dtype=np.uint32).view(np.float32)
    table = np.where(np.isfinite(bits), bits, np.float32(1.1754942e-38))  # denormal numbers too
    table[0, :4] = [0.1, 1 / 3, 3.4028235e38, 1e-45]
    model: Any = Vectors(words, table)
    for write, binary in ((write_word2vec_text, False), (write_word2vec_binary, True)):
        write(model, workshop / "vectors")
        loaded = keyed.load_word2vec_format(str(workshop / "vectors"), binary=binary)
        assert loaded.index_to_key == list(words)
        assert loaded.vectors.tobytes() == table.astype("<f4").tobytes()
    lines = (workshop / "vectors").read_bytes()
    assert lines.startswith(b"11 64\n")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("a b",), "'a b'"),
        (("",), "''"),
        (("x\n",), r"'x\\n'"),
        (("\ud800",), r"'\\ud800'"),
        (("a", "b", "a"), "1 of the words: 'a'"),
    ],
)
def test_words_that_a_format_cannot_hold(
    words: tuple[str, ...], shown: str, workshop: Path
) -> None:
    model: Any = Vectors(words, np.zeros((len(words), 2), np.float32))
    with pytest.raises(InputError, match=shown):
        write_word2vec_text(model, workshop / "vectors")


def test_vectors_that_are_no_numbers(workshop: Path) -> None:
    model: Any = Vectors(("a", "b"), np.array([[0, 1], [np.nan, 1]], np.float32))
    with pytest.raises(InputError, match="vector of 'b' is not finite"):
        write_word2vec_binary(model, workshop / "vectors")


def test_a_format_that_a_family_has_not(uri: str, workshop: Path) -> None:
    with pytest.raises(InputError, match="it comes as native, arpa"):
        pull("pulled-ngram/1", "word2vec", workshop / "x", tracking_uri=uri)
    with pytest.raises(InputError, match="it comes as native, word2vec, word2vec-bin"):
        pull("pulled-word2vec/1", "arpa", workshop / "x", tracking_uri=uri)
    has = formats(open_model("pulled-nplm/1", uri).model)
    assert has == ("native", "word2vec", "word2vec-bin", "glove", "parquet")
    assert list(workshop.iterdir()) == []


def test_an_arpa_file(uri: str, workshop: Path) -> None:
    text = pull("pulled-ngram/1", "arpa", workshop / "m.arpa", tracking_uri=uri).read_text()
    assert text.startswith("\\data\\")
    assert text.rstrip().endswith("\\end\\")


def test_classes_as_paths_and_as_features(uri: str, workshop: Path) -> None:
    model = open_model("pulled-class-ngram/1", uri).model
    assert formats(model) == ("native", "parquet", "paths")
    found = pull("pulled-class-ngram/1", "paths", workshop / "paths", tracking_uri=uri)
    read = read_paths(found)
    assert read.keys() == set(model.vocabulary.words)
    assert len({path for path, _ in read.values()}) == 4
    table = pq.read_table(
        pull("pulled-class-ngram/1", "parquet", workshop / "features", tracking_uri=uri)
    )
    assert table["path"].to_pylist() == [read[word][0] for word in table["word"].to_pylist()]


def test_nothing_else_is_overwritten(uri: str, workshop: Path) -> None:
    precious = workshop / "notes"
    precious.write_text("mine")
    folder = workshop / "folder"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    for out in (precious, folder):
        for format in ("native", "word2vec"):
            with pytest.raises(InputError, match="something here already"):
                pull("pulled-word2vec/1", format, out, tracking_uri=uri)  # type: ignore[arg-type]
    assert (precious.read_text(), (folder / "mine").read_text()) == ("mine", "mine")
    with pytest.raises(InputError, match="would be lost"):
        pull("pulled-word2vec/1", "native", folder, tracking_uri=uri, force=True)
    assert (folder / "mine").read_text() == "mine"
    pull("pulled-word2vec/1", "native", precious, tracking_uri=uri, force=True)
    assert open_model(str(precious), "").about["family"] == "word2vec"
    pull("pulled-word2vec/1", "word2vec", precious, tracking_uri=uri, force=True)
    assert precious.is_file()


def test_a_device_or_a_place_without_room_is_no_place(uri: str, workshop: Path) -> None:
    pipe = workshop / "pipe"
    os.mkfifo(pipe)
    for out, problem in ((pipe, "neither a file nor a folder"), (Path("/proc/x"), "be written")):
        with pytest.raises(InputError, match=problem):
            pull("pulled-word2vec/1", "word2vec", out, tracking_uri=uri, force=True)
    assert pipe.is_fifo()


def test_a_damaged_folder_is_refused(uri: str, workshop: Path) -> None:
    out = pull("pulled-word2vec/1", "native", workshop / "m", tracking_uri=uri)
    weights = out / "weights.safetensors"
    whole = weights.read_bytes()
    swapped = whole[: len(whole) // 2] + whole[len(whole) // 2 :][::-1]
    for data, problem in ((swapped, "its hash"), (whole[:-4], "bytes long, not")):
        weights.write_bytes(data)
        with pytest.raises(InputError, match=problem):
            open_model(str(out), "")
    weights.unlink()
    with pytest.raises(InputError, match=r"weights\.safetensors is missing"):
        open_model(str(out), "")
    weights.write_bytes(whole)
    read_model(out)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**manifest, "lexloom": 99}))
    with pytest.raises(InputError, match="of format 99, not 1"):
        open_model(str(out), "")


def test_a_killed_writer_leaves_nothing(workshop: Path) -> None:
    out = workshop / "model"
    with pytest.raises(ZeroDivisionError), written_aside(out) as aside:
        aside.write_text(str(1 / 0))
    assert list(workshop.iterdir()) == []
    program = """
        import sys, time
        from pathlib import Path
        from tasks.export.aside import written_aside

        with written_aside(Path(sys.argv[1])) as aside:
            aside.mkdir()
            (aside / "half").write_text("half")
            print("half", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(out)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    (left,) = workshop.iterdir()
    long_ago = time.time() - 3600
    os.utime(left, (long_ago, long_ago))
    with written_aside(out) as aside:
        aside.write_text("a file")
    assert left.exists()  # somebody is still at it
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    os.utime(left, (long_ago, long_ago))
    with written_aside(out) as aside:
        aside.mkdir()
        (aside / "whole").write_text("whole")
    assert [path.name for path in workshop.iterdir()] == ["model"]
    assert (out / "whole").read_text() == "whole"
