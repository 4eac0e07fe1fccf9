"""The fastText family: settings, rows of words, vectors of unseen words, state."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from models import fasttext, vectors
from models.characters_ngrams import bucket_ids
from models.tables import choices, chosen, rows
from models.vocabulary import Vocabulary
from models.word_vectors import WordVectors
from tests.models.test_word2vec import corpus, in_sea, inputs_of, two_topics

WAYS: list[dict[str, Any]] = [
    {"architecture": architecture, "objective": objective}
    for architecture in ("skip-gram", "cbow")
    for objective in ("negative-sampling", "hierarchical-softmax")
]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))


def trained(threads: int = 1, **settings: Any) -> fasttext.Model:
    inputs = inputs_of(corpus(two_topics()))
    config = fasttext.Config(dim=20, buckets=400, sample=0, learning_rate=0.1, **settings)
    model = config.build(inputs, seed=1)
    for i in range(10):
        chunk = model.chunks(inputs)[0]
        model.sweep(chunk, seed=i, done=i / 10, until=(i + 1) / 10, threads=threads)
    return model


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"min_n": 7}, "min_n (7) must not be above max_n (6); for no n-grams"),
        ({"learning_rate": 0.01, "min_learning_rate": 0.02}, "must not be above learning_rate"),
        ({"objective": "hierarchical-softmax", "negatives": 9}, "negatives (9) has no part"),
        ({"buckets": 0}, "greater than or equal to 1"),
        ({"bucket": 9}, "Unexpected keyword"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: Any, remedy: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(fasttext.Config).validate_python(settings)
    assert remedy in str(refusal.value)


@pytest.mark.parametrize("max_n", [0, 6])
def test_a_vector_is_the_mean_of_its_rows(max_n: int) -> None:
    words = ("cat", "Äpfel", "a")
    config = fasttext.Config(dim=8, min_n=3, max_n=max_n, buckets=50)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(3 + config.n_buckets, 8)).astype(np.float32)
    vocabulary = Vocabulary((), words, np.ones(3, np.int64))
    model = fasttext.Model(config, vocabulary, table, np.zeros((3, 8), np.float32))
    asked = ["cats", *words, "cat", "", "Äpfelchen"]
    found = model.word_vectors(asked)
    for word, vector in zip(asked, found, strict=True):
        rows = [words.index(word)] if word in words else []
        rows += [3 + bucket for bucket in bucket_ids(word, 3, max_n, 50)]
        if rows:
            np.testing.assert_allclose(vector, table[rows].mean(axis=0), rtol=1e-5, atol=1e-6)
        else:
            assert np.isnan(vector).all()
    assert np.isnan(found).all(axis=1).tolist() == [
        (not max_n and word not in words) or word == "" for word in asked
    ]
    assert model.word_vectors([]).shape == (0, 8)


@every_way
def test_vectors_can_be_chosen(way: Any) -> None:
    model = trained(**way)
    words = list(model.vocabulary.words)
    own = model.word_vectors(words)
    if model.config.outputs == "nodes":  # the rows of which are no words
        assert choices(model) == ("own", "input")
    else:
        assert choices(model) == ("own", "input", "output", "sum")
        expected = {"output": model.output, "sum": own + model.output}
        for choice in ("output", "sum"):
            np.testing.assert_array_equal(rows(model, choice).at(slice(None)), expected[choice])
            asked = chosen(model, choice).word_vectors([*words[:2], "unseen"])  # type: ignore[attr-defined]
            np.testing.assert_array_equal(asked[:2], expected[choice][:2])
            assert np.isnan(asked[2]).all()
            assert not WordVectors(model, choice).knows("unseen")
    np.testing.assert_array_equal(rows(model, "input").at(slice(None)), own)
    read = WordVectors(model, "input").vectors(["unseen"])
    np.testing.assert_array_equal(read, model.word_vectors(["unseen"]))


@every_way
def test_words_seen_or_not_are_like_those_of_their_topic(way: Any) -> None:
    model = trained(threads=2, **way)
    words = model.vocabulary.words
    units, sea = vectors.unit(model.word_vectors(words)), in_sea(words)
    unseen = vectors.unit(model.word_vectors(["harbours", "anchored", "butters", "spoonful"]))
    for unit, about_sea in zip(unseen, [True, True, False, False], strict=True):
        cosines = units @ unit
        assert (cosines[sea].mean() > cosines[~sea].mean() + 0.1) == about_sea
    cosines, same = units @ units.T, sea[:, None] == sea
    assert cosines[same].mean() > cosines[~same].mean() + 0.3


@every_way
def test_the_loss_falls_the_same_for_any_threads(way: Any) -> None:
    inputs = inputs_of(corpus(two_topics()))
    config = fasttext.Config(dim=20, buckets=400, sample=0, **way)
    losses = {}
    for threads in (1, 4):
        model = config.build(inputs, seed=1)
        chunk = model.chunks(inputs)[0]
        stats = [
            model.sweep(chunk, seed=i, done=i / 20, until=(i + 1) / 20, threads=threads)
            for i in range(20)
        ]
        losses[threads] = [each.loss / each.examples for each in stats]
        assert losses[threads][-1] < losses[threads][0] * 0.98
    np.testing.assert_allclose(losses[4][1:], losses[1][1:], rtol=0.03)


def test_state_makes_the_same_model_which_trains_on() -> None:
    model = trained()
    state = {name: array.copy() for name, array in model.state().items()}
    shapes = {name: array.shape for name, array in state.items()}
    assert shapes == {"input": (412, 20), "output": (12, 20)}
    for array in state.values():
        array.flags.writeable = False  # as a memory-mapped file is
    again = model.config.restore(model.vocabulary, state)
    asked = ["ship", "submarine", "pan"]
    np.testing.assert_array_equal(again.word_vectors(asked), model.word_vectors(asked))
    chunk = model.chunks(inputs_of(corpus(two_topics())))[0]
    for each in (model, again):
        each.sweep(chunk, seed=9, done=0, until=1, threads=1)
    np.testing.assert_array_equal(model.input, again.input)
    assert not np.array_equal(state["input"], again.input)


PROGRAM = """
import hashlib
from tests.models.test_fasttext import WAYS, trained
for way in WAYS:
    model = trained(**way)
    digests = [hashlib.sha256(array).hexdigest() for array in model.state().values()]
    print(way, *digests)
"""


def test_one_thread_gives_the_same_bytes_in_every_process() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert printed[0] == printed[1]
    assert len({line.split()[-1] for line in printed[0].splitlines()}) == len(WAYS)
