from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlflow.pyfunc
import numpy as np
import pytest

from models.fasttext import Config as FastText
from models.ngram import Config as Ngram
from models.nplm import Config as Nplm
from models.quantized import Config
from models.quantized import Model as Quantized
from models.word2vec import Config as Word2vec
from tasks.adopt import adopt
from tasks.artifacts import Artifact
from tasks.errors import ConfigError, InputError
from tasks.export.pull import pull
from tasks.export.pyfunc import family_code
from tasks.models import capabilities, read_model
from tasks.quantize import QUANTIZE, Quantize, configure, word_table
from tasks.registry import open_model, register
from tasks.step import Resources, execute
from tasks.store import Store
from tests.tasks.trained import train_small

SMALL = Word2vec(dim=6, min_count=1)


def quantized(store: Store, parent: Artifact, **how: int) -> Artifact:
    model = read_model(store.reader(parent))
    params = Quantize(configure(model, parent.content, where="it", **how))  # type: ignore[arg-type]
    return execute(QUANTIZE, store, {"model": parent}, params)[0].handle()


def test_a_copy_says_what_it_lost(store: Store) -> None:
    parent = train_small(store, SMALL)
    original = read_model(store.reader(parent))
    artifact = quantized(store, parent, sub_vectors=2)
    copy = read_model(store.reader(artifact))
    assert isinstance(copy, Quantized)
    words = original.vocabulary.words
    assert copy.vocabulary.words == words
    assert copy.vocabulary.counts.tolist() == original.vocabulary.counts.tolist()
    assert capabilities(copy) == ("embeds_words",)
    assert (copy.config.parent, copy.config.parent_family) == (parent.content, "word2vec")

    stats = store.manifest(artifact).stats
    before, after = word_table(original), word_table(copy)
    expected = np.linalg.norm(before - after) / np.linalg.norm(before)
    assert stats["relative_error"] == pytest.approx(expected, rel=1e-5)
    assert stats["bytes_before"] == len(words) * 6 * 4
    assert stats["bytes"] == copy.table.bytes
    # So few words are their own centroids.
    assert copy.config.centroids == len(words)
    assert stats["relative_error"] < 1e-4
    assert stats["neighbours_kept"] == 1


def test_it_is_done_once_and_alike_by_any_threads(store: Store, tmp_path: Path) -> None:
    parent = train_small(store, SMALL)
    model = read_model(store.reader(parent))
    params = Quantize(configure(model, parent.content, where="it"))
    first, reused = execute(QUANTIZE, store, {"model": parent}, params)
    again, found = execute(QUANTIZE, store, {"model": parent}, params)
    assert (reused, found, first.content) == (False, True, again.content)
    elsewhere = Store(str(tmp_path / "elsewhere"), tmp_path / "cache")
    same = train_small(elsewhere, SMALL)
    resources = Resources(threads=3)
    second, _ = execute(QUANTIZE, elsewhere, {"model": same}, params, resources=resources)
    assert second.content == first.content
    other, _ = execute(QUANTIZE, store, {"model": parent}, replace(params, seed=2))
    assert other.recipe != first.recipe


def test_a_model_of_words_and_text_keeps_its_words_alone(store: Store) -> None:
    parent = train_small(store, Nplm(embedding=6, hidden=4, min_count=1))
    copy = read_model(store.reader(quantized(store, parent)))
    original = read_model(store.reader(parent))
    assert copy.vocabulary.words == original.vocabulary.words
    assert copy.vocabulary.reserved == ()
    np.testing.assert_allclose(word_table(copy), word_table(original), atol=1e-4)


def test_words_outside_the_vocabulary_of_fasttext_keep_their_vectors(store: Store) -> None:
    parent = train_small(store, FastText(dim=6, min_count=1, min_n=2, max_n=3, buckets=60))
    artifact = quantized(store, parent, sub_vectors=6)
    copy, original = read_model(store.reader(artifact)), read_model(store.reader(parent))
    asked = ["river", "rivers", "Mühlen", "", "水"]
    before, after = original.word_vectors(asked), copy.word_vectors(asked)  # type: ignore[attr-defined]
    assert np.isfinite(before[:3]).all()
    np.testing.assert_allclose(after, before, atol=1e-4)
    stats = store.manifest(artifact).stats
    assert stats["rows"] == len(original.vocabulary) + 60
    assert stats["bytes_before"] == stats["rows"] * 6 * 4
    assert family_code(copy.config).count("buckets_of") > 1


def test_what_cannot_be_quantized_is_refused(store: Store) -> None:
    parent = train_small(store, SMALL)
    model = read_model(store.reader(parent))
    with pytest.raises(ConfigError, match="6 columns cannot be cut into 7 sub-vectors"):
        configure(model, "c", where="it", sub_vectors=7)
    with pytest.raises(ConfigError, match="into 0 sub-vectors"):
        configure(model, "c", where="it", sub_vectors=0)
    ngram = read_model(store.reader(train_small(store, Ngram(order=2, min_count=1))))
    with pytest.raises(InputError, match="no word vectors to quantize"):
        configure(ngram, "c", where="it")
    copy = read_model(store.reader(quantized(store, parent)))
    with pytest.raises(InputError, match="quantized already"):
        configure(copy, "c", where="it")
    broken = read_model(store.reader(parent))
    word = broken.vocabulary.words[3]
    table = np.array(broken.state()["input"])
    table[3, 0] = np.nan
    broken = broken.config.restore(broken.vocabulary, {**broken.state(), "input": table})
    with pytest.raises(InputError, match=f"vectors of 1 word are not finite.*{word}"):
        word_table(broken)


def test_it_is_registered_served_and_pulled_as_any_model(
    store: Store, tracking_uri: str, workshop: Path
) -> None:
    parent = train_small(store, SMALL)
    artifact = quantized(store, parent, sub_vectors=3)
    labels = {"parent": "small/1", "quantization": "a line"}
    made = register(
        store, artifact, "small-quantized", tracking_uri=tracking_uri, scores=[], tags=labels
    )
    opened = open_model(f"small-quantized/{made.version}", tracking_uri)
    assert opened.version is not None
    tags = opened.version.tags
    assert (tags["input.model"], tags["parent"]) == (parent.content, "small/1")
    assert isinstance(opened.model.config, Config)
    words = list(opened.model.vocabulary.words)
    mlflow.set_tracking_uri(tracking_uri)
    served = mlflow.pyfunc.load_model(f"models:/small-quantized/{made.version}")
    answers = served.predict([{"word": word} for word in words], params={"task": "vectors"})
    expected = word_table(opened.model)
    assert np.array_equal(np.array(answers["vector"].tolist(), np.float32), expected)
    path = pull(
        "small-quantized@challenger", "word2vec", workshop / "v.txt", tracking_uri=tracking_uri
    )
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == f"{len(words)} 6"
    assert np.array(lines[1].split(" ")[1:], np.float32).tolist() == expected[0].tolist()


def test_a_model_from_elsewhere_is_taken_in(
    store: Store, tracking_uri: str, workshop: Path, tmp_path: Path
) -> None:
    parent = train_small(store, SMALL, seed=9)
    register(store, parent, "from-elsewhere", tracking_uri=tracking_uri, scores=[], tags={})
    opened = open_model("from-elsewhere/1", tracking_uri)
    assert adopt(store, opened) == parent
    other = Store(str(tmp_path / "other"), tmp_path / "cache")
    folder = pull("from-elsewhere/1", "native", workshop / "m", tracking_uri=tracking_uri)
    taken = adopt(other, open_model(str(folder), tracking_uri))
    assert taken.content == parent.content
    assert adopt(other, open_model(str(folder), tracking_uri)) == taken
    assert other.reader(taken).path("weights.safetensors").is_file()
