"""fastText's .bin, written and read: the same answers as gensim's reader of the same bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.fasttext import Config, Model
from models.vocabulary import Vocabulary
from tasks.errors import InputError
from tasks.export.fasttext import write_fasttext
from tasks.importing.steps import import_model
from tasks.models import read_model
from tasks.runner import Runner
from tasks.store import Store

WORDS = ("the", "Mühle", "głowa", "дом", "水車", "😀", "a", "river")
UNSEEN = ["Mühlrad", "głowy", "дома", "水", "rivers"]


@pytest.fixture
def runner(store: Store) -> Runner:
    return Runner(store)


def model_of(**how: Any) -> Model:
    config = Config(dim=6, buckets=50, sample=1e-3, window=4, epochs=2, min_count=1, **how)
    rng = np.random.default_rng(1)
    rows = len(WORDS) - (config.objective == "hierarchical-softmax")
    table = rng.normal(0, 1, (len(WORDS) + config.n_buckets, 6)).astype(np.float32)
    counts = np.arange(len(WORDS), 0, -1) * 3
    return Model(
        config, Vocabulary((), WORDS, counts), table, rng.normal(0, 1, (rows, 6)).astype("f4")
    )


def read(runner: Runner, path: Path, errors: Any = "strict", format: Any = "auto") -> Any:
    artifact = import_model(runner, str(path), format, errors)
    return read_model(runner.store.reader(artifact))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"architecture": "cbow", "objective": "hierarchical-softmax"},
        {"min_n": 0, "max_n": 0},
        {"min_n": 1, "max_n": 3},
    ],
)
def test_it_comes_back(how: dict[str, Any], runner: Runner, tmp_path: Path) -> None:
    model = model_of(**how)
    write_fasttext(model, tmp_path / "model.bin")
    again = read(runner, tmp_path / "model.bin")
    assert isinstance(again, Model)
    expected = (
        model.config if model.config.n_buckets else Config(**{**vars(model.config), "buckets": 1})
    )
    assert again.config == expected
    assert again.vocabulary.words == WORDS
    assert again.vocabulary.counts.tolist() == model.vocabulary.counts.tolist()
    for name, array in model.state().items():
        assert np.array_equal(again.state()[name], array), name


def test_gensim_answers_the_same(runner: Runner, tmp_path: Path) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext")
    model = model_of()
    write_fasttext(model, tmp_path / "ours.bin")
    theirs = fasttext.load_facebook_model(str(tmp_path / "ours.bin")).wv
    asked = [*WORDS, *UNSEEN]
    expected = np.array([theirs[word] for word in asked])
    np.testing.assert_allclose(model.word_vectors(asked), expected, rtol=1e-5, atol=1e-6)
    assert [theirs.get_vecattr(word, "count") for word in WORDS] == [24, 21, 18, 15, 12, 9, 6, 3]


def test_a_file_of_gensim_answers_the_same(runner: Runner, tmp_path: Path) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext")
    text = [list(WORDS), [*WORDS[::-1], "дом", "the", "the"]] * 5
    theirs = fasttext.FastText(text, vector_size=8, bucket=64, min_count=1, sg=1, seed=1, workers=1)
    fasttext.save_facebook_model(theirs, str(tmp_path / "theirs.bin"))
    model = read(runner, tmp_path / "theirs.bin")
    assert (model.config.architecture, model.config.dim, model.config.buckets) == (
        "skip-gram",
        8,
        64,
    )
    assert list(model.vocabulary.words) == theirs.wv.index_to_key
    asked = [*WORDS, *UNSEEN]
    expected = np.array([theirs.wv[word] for word in asked])
    np.testing.assert_allclose(model.word_vectors(asked), expected, rtol=1e-5, atol=1e-6)


def old_format(new: bytes, n_words: int) -> bytes:
    """The file as it was written before it had a magic, pruned n-grams and quantization."""
    head, rest = new[8:64], new[64:]
    sizes, rest = rest[:20], rest[28:]
    for _ in range(n_words):
        sizes, rest = sizes + rest[: rest.index(b"\0") + 10], rest[rest.index(b"\0") + 10 :]
    rows, columns = struct.unpack_from("<2q", rest, 1)
    end = 17 + rows * columns * 4
    return head + sizes + rest[1:end] + rest[end + 1 :]


def test_the_old_format(runner: Runner, tmp_path: Path) -> None:
    model = model_of()
    write_fasttext(model, tmp_path / "new.bin")
    (tmp_path / "old.bin").write_bytes(old_format((tmp_path / "new.bin").read_bytes(), len(WORDS)))
    again = read(runner, tmp_path / "old.bin")
    assert again.config == model.config
    assert np.array_equal(again.word_vectors(UNSEEN), model.word_vectors(UNSEEN))


def patched(data: bytes, form: str, offset: int, value: Any) -> bytes:
    buffer = bytearray(data)
    struct.pack_into(form, buffer, offset, value)
    return bytes(buffer)


def test_what_is_refused(runner: Runner, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write_fasttext(model_of(), path)
    good = path.read_bytes()
    at = good.index(b"river\0") + 15  # behind the words
    for data, problem in [
        (patched(good, "<i", 4, 99), "version 99"),
        (patched(good, "<i", 36, 3), "supervised"),
        (patched(good, "<i", 32, 3), "loss 3"),
        (patched(good, "<i", 8, -5), "dim"),
        (patched(good, "<i", 64, 2**31 - 1), "entries"),
        (
            patched(patched(good, "<i", 64, 2**31 - 1), "<i", 68, 2**31 - 1),
            "list of words is damaged",
        ),
        (patched(good, "<q", 84, 7), "pruned"),
        (patched(good, "<?", at, True), "quantized"),
        (patched(good, "<q", at + 1, 2**60), "cut off"),
        (patched(good, "<q", at + 1, -1), "a table of it is -1 by 6"),
        (patched(good, "<f", at + 17, np.nan), "not finite"),
        (good + b"junk", "more bytes behind the tables"),
        (good.replace(b"river\0", b"riv\xe9r\0"), "word 8: the word 'riv.* is no UTF-8"),
    ]:
        path.write_bytes(data)
        with pytest.raises(InputError, match=problem):
            read(runner, path)
    for data, problem in [
        (b"", "the file is empty"),
        (b"12345678 300\nriver " + bytes(1200), 'begins with a line "words width"'),
        (b"river 1 2\n" * 30, "begins neither with the format's number nor with settings"),
    ]:
        path.write_bytes(data)
        with pytest.raises(InputError, match=problem):
            read(runner, path, format="fasttext")
    for size in [*range(0, len(good), 97), len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(InputError):
            read(runner, path)


def test_words_that_are_no_text(runner: Runner, tmp_path: Path) -> None:
    model, path = model_of(), tmp_path / "model.bin"
    write_fasttext(model, path)
    path.write_bytes(path.read_bytes().replace("дом".encode(), b"\xff\xfe\xff\xfe\xff\xfe"))
    left = [word for word in WORDS if word != "дом"]
    rejected = read(runner, path, "reject")
    assert list(rejected.vocabulary.words) == left
    assert len(rejected.output) == len(left)
    assert np.array_equal(rejected.word_vectors(left), model.word_vectors(left))
    replaced = read(runner, path, "replace")
    assert replaced.vocabulary.words[3] == "\ufffd" * 6
