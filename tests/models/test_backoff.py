from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import backoff
from models.backoff import BOS, Index, Table
from models.text import Sentences
from models.vocabulary import UNK
from tests.models.ngram_reference import fitted, golden_text

texts = st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=8)


def kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FEW", 0)


@settings(max_examples=60, deadline=None)
@given(text=texts, order=st.integers(1, 5), heldout=texts)
def test_the_kernel_equals_the_plain_way(
    text: list[list[str]], order: int, heldout: list[list[str]]
) -> None:
    model, _ = fitted(text, order, min_count=2)
    said = Sentences.of(model.vocabulary, heldout)
    found = model.table._index.log_prob(said)
    np.testing.assert_allclose(found, model.table.plain_log_prob(said), rtol=1e-6)


@pytest.mark.parametrize("order", range(1, 6))
def test_a_real_text_across_blocks_threads_and_slices(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = fitted(golden_text(), order)
    text = [[*line, "zebra"] for line in golden_text() * 3] + [[]]
    said = Sentences.of(model.vocabulary, text)
    expected = model.table.plain_log_prob(said)
    np.testing.assert_allclose(model.log_prob(said), expected, rtol=1e-6)
    monkeypatch.setattr(backoff, "MANY", 10)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(3))
    np.testing.assert_allclose(model.log_prob(said), expected, rtol=1e-6)
    part = Sentences(said.ids, said.starts[5:], said.documents)
    np.testing.assert_allclose(model.log_prob(part), expected[int(said.starts[5]) + 5 :])
    assert model.log_prob(Sentences.of(model.vocabulary, [])).shape == (0,)


def test_mapped_arrays_are_searched_where_they_lie(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels_only(monkeypatch)
    model, _ = fitted(golden_text(), 4)
    state = {}
    for name, array in model.state().items():
        np.save(f"{tmp_path}/{name}.npy", array)
        state[name] = np.load(f"{tmp_path}/{name}.npy", mmap_mode="r")
    mapped = model.config.restore(model.vocabulary, state)
    said = Sentences.of(model.vocabulary, golden_text())
    np.testing.assert_array_equal(mapped.log_prob(said), model.log_prob(said))


@pytest.mark.parametrize("order", range(1, 6))
def test_next_words_are_what_the_text_scores(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels_only(monkeypatch)
    model, _ = fitted(golden_text(), order, min_count=2)
    lines = golden_text()[:20]
    ids = [model.vocabulary.ids(line) for line in lines]
    contexts = np.full((sum(map(len, ids)), 6), BOS, np.int32)
    following = np.concatenate(ids)
    row = 0
    for line in ids:
        for i in range(len(line)):
            before = line[max(0, i - 6) : i]
            contexts[row, 6 - len(before) :] = before
            row += 1
    found = model.next_log_probs(contexts)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-12)
    assert np.isneginf(found[:, BOS]).all()
    scores = model.log_prob(Sentences.of(model.vocabulary, lines))
    ends = np.cumsum([len(line) + 1 for line in ids]) - 1
    expected = np.delete(scores, ends)
    np.testing.assert_allclose(found[np.arange(row), following], expected, rtol=1e-6)
    narrow = model.next_log_probs(np.full((1, 0), BOS, np.int32))
    np.testing.assert_allclose(np.exp(narrow).sum(), 1)


def test_without_numba_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = fitted(golden_text(), 3, min_count=2)
    contexts = model.vocabulary.ids(["the", "old", UNK, "of", "the", "pier"]).reshape(2, 3)
    contexts[0, :2] = BOS
    said = Sentences.of(model.vocabulary, golden_text())
    words, scores = model.next_log_probs(contexts), model.log_prob(said)
    monkeypatch.setitem(sys.modules, "models.kernels.backoff", None)
    plain = dataclasses.replace(model.table)
    np.testing.assert_allclose(plain.next_log_probs(contexts), words, rtol=1e-12)
    np.testing.assert_allclose(plain.log_prob(said), scores, rtol=1e-6)


def test_an_ngram_is_found_whose_context_is_not_listed() -> None:
    n_words, (a, b, c) = 6, (3, 4, 5)
    unigrams = [0.05, 0, 0.2, 0.25, 0.2, 0.3]
    table = Table(  # b c and a b c, but not a b
        sizes=np.array([n_words, 1, 1]),
        keys=np.array([c * n_words + b, n_words * n_words + a]),
        probabilities=np.array([*unigrams, 0.5, 0.75]),
        weights=np.array([1, 1, 1, 0.5, 0.25, 0.125, 0.0625]),
    )
    index = Index(table)
    assert not index.closed
    said = Sentences(np.array([a, b, c, a], np.int32), np.array([0, 4]), np.array([0, 1]))
    expected = [0.25, 0.2 * 0.5, 0.75, 0.25 * 0.0625 * 0.125, 0.2 * 0.5]
    np.testing.assert_allclose(np.exp(index.log_prob(said)), expected, rtol=1e-6)
    np.testing.assert_allclose(index.log_prob(said), table.plain_log_prob(said), rtol=1e-6)
    fitted_table = fitted(golden_text(), 4)[0].table
    assert Index(fitted_table).closed


def test_an_ngram_of_unknown_words_alone_is_told_from_an_empty_slot() -> None:
    """Its key is 0, and so is what a slot says that holds none."""
    model, _ = fitted(golden_text(), 2, min_count=2)
    assert model.table.keys[0] == 0
    said = Sentences.of(model.vocabulary, [["zebra"] * 3])
    index = Index(model.table)
    np.testing.assert_allclose(index.log_prob(said), model.table.plain_log_prob(said), rtol=1e-6)


def test_few_ngrams_of_many_words_are_told_apart() -> None:
    rng = np.random.default_rng(1)
    n_words, n_bigrams = 1 << 21, 300
    first, last = rng.integers(3, n_words, (2, n_bigrams))
    keys = np.unique(last * n_words + first)
    table = Table(
        sizes=np.array([n_words, len(keys)]),
        keys=keys,
        probabilities=np.append(np.full(n_words, 0.25), rng.uniform(0.5, 1, len(keys))),
        weights=np.full(n_words, 0.5),
    )
    words = np.stack([first, last, np.roll(first, 1)], axis=1).astype(np.int32).ravel()
    said = Sentences(words, np.array([0, len(words)]), np.array([0, 1]))
    expected = table.plain_log_prob(said)
    np.testing.assert_allclose(Index(table).log_prob(said), expected, rtol=1e-6)
