from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.backoff import framed
from models.kernels.ngram import distinct_windows, frozen, sort_windows
from models.text import NgramCounts, Sentences
from models.trie import Trie
from tests.models.ngram_reference import golden_text, in_suffix_order, vocabulary_of, windows

texts = st.lists(st.lists(st.integers(0, 7), max_size=7), min_size=1, max_size=12)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def stream_of(text: list[list[int]]) -> np.ndarray:
    """Words with ids over 2, except that 0 is the unknown one."""
    ids = [word + 2 if word else 0 for sentence in text for word in sentence]
    starts = np.concatenate([[0], np.cumsum([len(sentence) for sentence in text])])
    return framed(Sentences(np.array(ids, np.int32), starts, np.array([0, len(text)])))


@few
@given(text=texts, order=st.integers(1, 6), threads=st.integers(1, 4))
def test_windows_are_sorted_by_any_number_of_threads(
    text: list[list[int]], order: int, threads: int
) -> None:
    stream = frozen(stream_of(text))
    positions = frozen(sort_windows(stream, order, 10, threads))
    ngrams, counts = distinct_windows(stream, positions, order)
    sentences = [[word + 2 if word else 0 for word in sentence] for sentence in text]
    expected = in_suffix_order(windows(sentences, order), order)
    np.testing.assert_array_equal(ngrams, expected.ngrams)
    np.testing.assert_array_equal(counts, expected.counts)


@few
@given(text=texts, order=st.integers(1, 6), threads=st.integers(1, 4))
def test_a_text_grows_the_trie_of_its_counts(
    text: list[list[int]], order: int, threads: int
) -> None:
    stream = frozen(stream_of(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("models.trie.processors", lambda _: threads)
        found = Trie.of_text(stream, order, 10)
    table = distinct_windows(stream, frozen(sort_windows(stream, order, 10)), order)
    assert_equal(found, Trie.of(NgramCounts(order, *table), 10))


def test_a_real_text_grows_the_trie_of_its_counts() -> None:
    vocabulary = vocabulary_of(golden_text())
    said = Sentences.of(vocabulary, golden_text())
    counts = windows([vocabulary.ids(sentence) for sentence in golden_text()], 5)
    expected = Trie.of(in_suffix_order(counts, 5), len(vocabulary))
    assert_equal(Trie.of_text(framed(said), 5, len(vocabulary)), expected)


def assert_equal(found: Trie, expected: Trie) -> None:
    for name in ("sizes", "keys", "contexts", "adjusted"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


def test_no_text_has_no_trie() -> None:
    with pytest.raises(ValueError, match="0 words"):
        Trie.of_text(np.zeros(0, np.int32), 3, 5)
