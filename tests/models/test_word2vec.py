"""The word2vec family: settings, chunks, learning rate, state."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from models import vectors, word2vec
from models.capabilities import EmbedsWords
from models.family import Inputs, Sweeps
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import Vocabulary, select


def corpus(sentences: list[list[str]], partitions: int = 1) -> Tokens:
    """Sentences as a corpus of so many partitions, each with its own table of types."""
    parts = []
    for chosen in np.array_split(np.arange(len(sentences)), partitions):
        texts = [sentences[i] for i in chosen]
        types = sorted({word for text in texts for word in text}, reverse=True)
        index = Vocabulary((), tuple(types), np.ones(len(types), np.int64))
        text = Sentences.of(index, texts)
        counts = np.bincount(text.ids, minlength=len(types)).astype(np.int64)
        parts.append(TokenPartition(types, counts, text))
    return Tokens(parts)


def inputs_of(tokens: Tokens, min_count: int = 1) -> Inputs:
    counts: dict[str, int] = {}
    for part in tokens.partitions:
        for word, count in zip(part.types, part.counts.tolist(), strict=True):
            counts[word] = counts.get(word, 0) + count
    vocabulary = select(
        list(counts), np.array(list(counts.values())),
        min_count=min_count, max_size=None, reserved=(),
    )  # fmt: skip
    return Inputs({"train": tokens, "vocabulary": vocabulary})


def two_topics(n: int = 400) -> list[list[str]]:
    """Sentences about the sea or the kitchen, never both."""
    topics = "ship wave sail harbour anchor storm", "pan oven flour butter spoon plate"
    random = np.random.default_rng(0)
    return [list(random.choice(topics[i % 2].split(), 8)) for i in range(n)]


@pytest.mark.parametrize(
    "settings",
    [
        {"negatives": 0},
        {"window": 0},
        {"dim": 0},
        {"epochs": 0},
        {"min_count": 0},
        {"learning_rate": 0},
        {"learning_rate": float("inf")},
        {"learning_rate": 0.01, "min_learning_rate": 0.02},
        {"sample": -1e-3},
        {"sample": float("nan")},
        {"negative": 5},
        {"objective": "none"},
        {"architecture": "glove"},
    ],
)
def test_settings_that_train_nothing_or_mean_nothing_are_refused(settings: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(word2vec.Config).validate_python(settings)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"cbow": "sum"}, "cbow (sum) has no part in training where architecture is skip-gram"),
        ({"cbow_corrected": True}, "leave it out, or make architecture cbow"),
        ({"architecture": "cbow", "cbow": "sum", "cbow_corrected": True}, "make cbow mean"),
        ({"objective": "hierarchical-softmax", "negatives": 9}, "negatives (9) has no part"),
        ({"objective": "softmax", "noise_power": 1.0}, "make objective negative-sampling or nce"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: Any, remedy: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(word2vec.Config).validate_python(settings)
    assert remedy in str(refusal.value)


def test_the_family_keeps_its_contracts() -> None:
    inputs = inputs_of(corpus(two_topics(10)))
    model = word2vec.Config(dim=10).build(inputs, seed=1)
    assert isinstance(model, Sweeps)
    assert isinstance(model, EmbedsWords)
    assert word2vec.Config().wants()["vocabulary"].reserved == ()  # type: ignore[union-attr]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=9), max_size=12),
    st.integers(1, 20),
)
def test_chunks_are_the_text_whatever_the_partitions(
    sentences: list[list[str]], words: int
) -> None:
    vocabulary = Vocabulary((), ("a", "b", "c"), np.ones(3, np.int64))
    expected = [vocabulary.ids(sentence).tolist() for sentence in sentences]
    cut = []
    for partitions in (1, 3):
        chunks = word2vec.Chunks(corpus(sentences, partitions), vocabulary, words)
        texts = [
            [c.ids[a:b].tolist() for a, b in zip(c.starts[:-1], c.starts[1:], strict=True)]
            for c in chunks
        ]
        cut.append(texts)
        assert [sentence for chunk in texts for sentence in chunk] == expected
        longest = max(map(len, sentences), default=0)
        assert all(len(c.ids) < words + longest for c in chunks)
    assert cut[0] == cut[1]


def trained(threads: int = 1, **settings: Any) -> tuple[word2vec.Model, list[float]]:
    inputs = inputs_of(corpus(two_topics()))
    config = word2vec.Config(dim=20, sample=0, learning_rate=0.1, **settings)
    model = config.build(inputs, seed=1)
    chunks = [model.chunks(inputs)[0]] * 10
    rates = [
        model.sweep(chunk, seed=i, done=i / 10, until=(i + 1) / 10, threads=threads).learning_rate
        for i, chunk in enumerate(chunks)
    ]
    return model, rates


WAYS = [
    {"architecture": "skip-gram"},
    {"architecture": "cbow"},
    {"architecture": "cbow", "cbow": "sum"},
    {"architecture": "cbow", "cbow_corrected": True},
]
OBJECTIVES = ["negative-sampling", "hierarchical-softmax", "nce", "softmax"]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


@every_way
@every_objective
def test_the_loss_falls_the_same_for_any_threads(way: Any, objective: str) -> None:
    inputs = inputs_of(corpus(two_topics()))
    config = word2vec.Config(dim=20, sample=0, objective=objective, **way)  # type: ignore[arg-type]
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
        # Nobody knows more of a word than its topic: softmaxes cannot fall below that.
        if objective.endswith("softmax"):
            assert np.log(6) * 0.98 < losses[threads][-1] < np.log(12)
    # In the first sweep of so small a text everything is learnt, by threads that do not yet see
    # what the others learn; after it only the counting could tell them apart.
    np.testing.assert_allclose(losses[4][:1], losses[1][:1], rtol=0.15)
    np.testing.assert_allclose(losses[4][1:], losses[1][1:], rtol=0.03)


def in_sea(words: Sequence[str]) -> np.ndarray:
    """Which words are about the sea."""
    return np.isin(words, ["ship", "wave", "sail", "harbour", "anchor", "storm"])


def test_words_of_a_topic_become_neighbours() -> None:
    model, _ = trained(threads=2)
    words = model.vocabulary.words
    units, sea = vectors.unit(model.word_vectors(words)), in_sea(words)
    for i in range(len(words)):
        ids, _ = vectors.neighbours(units, units[i], 5, exclude=[i])
        assert (sea[ids] == sea[i]).all()


@every_way
@every_objective
def test_words_are_more_like_those_of_their_topic(way: Any, objective: str) -> None:
    model, _ = trained(objective=objective, **way)
    words = model.vocabulary.words
    units, sea = vectors.unit(model.word_vectors(words)), in_sea(words)
    cosines, same = units @ units.T, sea[:, None] == sea
    others = same & ~np.eye(len(words), dtype=bool)
    near = [cosines[i][others[i]].mean() for i in range(len(words))]
    far = [cosines[i][~same[i]].mean() for i in range(len(words))]
    assert (np.subtract(near, far) > 0.3).all()


@pytest.mark.parametrize("threads", [1, 4])
def test_the_learning_rate_is_one_straight_line(threads: int) -> None:
    _, rates = trained(threads=threads)
    np.testing.assert_allclose(rates, np.linspace(0.1, 1e-4, 11)[1:])


def test_state_makes_the_same_model_which_trains_on() -> None:
    model, _ = trained()
    state = {name: array.copy() for name, array in model.state().items()}
    assert {name: array.shape for name, array in state.items()} == {
        "input": (12, 20), "output": (12, 20),
    }  # fmt: skip
    for array in state.values():
        array.flags.writeable = False  # as a memory-mapped file is
    again = model.config.restore(model.vocabulary, state)
    found = again.word_vectors(["ship", "submarine", "pan"])
    np.testing.assert_array_equal(found, model.word_vectors(["ship", "submarine", "pan"]))
    assert found.dtype == np.float32
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()
    chunk = model.chunks(inputs_of(corpus(two_topics())))[0]
    for each in (model, again):
        each.sweep(chunk, seed=9, done=0, until=1, threads=1)
    np.testing.assert_array_equal(model.input, again.input)
    assert not np.array_equal(state["input"], again.input)


def test_the_tree_of_hierarchical_softmax_has_a_row_less() -> None:
    model, _ = trained(objective="hierarchical-softmax")
    state = model.state()
    assert {name: array.shape for name, array in state.items()} == {
        "input": (12, 20), "nodes": (11, 20),
    }  # fmt: skip
    again = model.config.restore(model.vocabulary, state)
    np.testing.assert_array_equal(again.output, model.output)


PROGRAM = """
import hashlib
from tests.models.test_word2vec import OBJECTIVES, WAYS, trained
for way in WAYS:
    for objective in OBJECTIVES:
        model, _ = trained(objective=objective, **way)
        digests = [hashlib.sha256(array).hexdigest() for array in model.state().values()]
        print(way, objective, *digests)
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
    lines = printed[0].splitlines()
    assert len(lines) == len({line.split()[-1] for line in lines}) == len(WAYS) * len(OBJECTIVES)


def test_the_start_is_small_and_depends_on_the_seed() -> None:
    inputs = inputs_of(corpus(two_topics(20)))
    first, same, other = (word2vec.Config(dim=50).build(inputs, seed=s) for s in (1, 1, 2))
    assert 0.9 / 50 < np.abs(first.input).max() <= 1 / 50
    assert first.input.std() == pytest.approx(1 / 50 / 3**0.5, rel=0.1)
    assert not first.output.any()
    np.testing.assert_array_equal(first.input, same.input)
    assert not np.array_equal(first.input, other.input)


# --- training that goes on ------------------------------------------------------------------


def test_nodes_of_a_tree_go_on_where_they_mean_the_same() -> None:
    config = word2vec.Config(dim=4, objective="hierarchical-softmax", min_count=1)
    words = tuple("abcdefgh")
    counts = np.array([80, 40, 20, 10, 5, 3, 2, 1])
    base = config.build(Inputs({"vocabulary": Vocabulary((), words, counts)}), seed=1)
    base.output[:] = np.random.default_rng(2).standard_normal(base.output.shape)
    same = Vocabulary((), words, counts * 2)
    model = config.build(Inputs({"vocabulary": same}), seed=3)
    model.grow_from(base)
    assert np.array_equal(model.output, base.output)
    assert np.array_equal(model.input, base.input)
    # A new word in the middle makes the node that parts it from the rarer ones, and no other.
    counted = np.array([1000, 500, 250, 120, 60, 30, 15, 7, 4])
    more = Vocabulary((), (*words[:4], "new", *words[4:]), counted)
    model = config.build(Inputs({"vocabulary": more}), seed=3)
    model.grow_from(base)
    fresh = [i for i, row in enumerate(model.output) if not row.any()]
    assert len(fresh) == 1
    kept = np.delete(model.output, fresh, axis=0)
    assert np.array_equal(np.abs(kept), np.abs(base.output))
    # In another order of counts hardly a node is the same; what is not begins at zero.
    turned = Vocabulary((), words[::-1], counts)
    model = config.build(Inputs({"vocabulary": turned}), seed=3)
    model.grow_from(base)
    assert np.array_equal(model.word_vectors(words), base.word_vectors(words))
    assert not model.output[-2:].any()
