from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import backoff
from models.backoff import BOS
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
    np.testing.assert_allclose(found, model.table.plain_log_prob(said), rtol=1e-14)


@pytest.mark.parametrize("order", range(1, 6))
def test_a_real_text_across_blocks_threads_and_slices(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = fitted(golden_text(), order)
    text = [[*line, "zebra"] for line in golden_text() * 3] + [[]]
    said = Sentences.of(model.vocabulary, text)
    expected = model.table.plain_log_prob(said)
    np.testing.assert_allclose(model.log_prob(said), expected, rtol=1e-14)
    monkeypatch.setattr(backoff, "MANY", 10)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(3))
    np.testing.assert_allclose(model.log_prob(said), expected, rtol=1e-14)
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
    np.testing.assert_allclose(found[np.arange(row), following], expected, rtol=1e-14)
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
    np.testing.assert_allclose(plain.log_prob(said), scores, rtol=1e-12)
