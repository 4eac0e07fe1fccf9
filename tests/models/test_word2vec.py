"""The word2vec family: settings, chunks, learning rate, state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from models import vectors, word2vec
from models.family import EmbedsWords, Inputs, Sweeps
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
    ],
)
def test_settings_that_train_nothing_or_mean_nothing_are_refused(settings: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(word2vec.Config).validate_python(settings)


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


def test_words_of_a_topic_become_neighbours() -> None:
    model, _ = trained(threads=2)
    words = model.vocabulary.words
    units = vectors.unit(model.word_vectors(words))
    sea = {"ship", "wave", "sail", "harbour", "anchor", "storm"}
    for i, word in enumerate(words):
        ids, _ = vectors.neighbours(units, units[i], 5, exclude=[i])
        assert {words[j] in sea for j in ids} == {word in sea}


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


def test_the_start_is_that_of_word2vec_and_depends_on_the_seed() -> None:
    inputs = inputs_of(corpus(two_topics(20)))
    first, same, other = (word2vec.Config(dim=50).build(inputs, seed=s) for s in (1, 1, 2))
    assert np.abs(first.input).max() <= 0.5 / 50
    assert first.input.std() == pytest.approx(1 / 50 / 12**0.5, rel=0.1)
    assert not first.output.any()
    np.testing.assert_array_equal(first.input, same.input)
    assert not np.array_equal(first.input, other.input)
