"""Character n-grams and their hash."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.characters_ngrams import bucket_ids, buckets_of, fnv, ngrams


def test_ngrams_come_by_start_and_a_mark_alone_is_none() -> None:
    assert ngrams("cat", 3, 4) == ["<ca", "<cat", "cat", "cat>", "at>"]
    assert ngrams("of", 3, 6) == ["<of", "<of>", "of>"]
    assert ngrams("a", 1, 2) == ["<a", "a", "a>"]
    assert ngrams("Åß", 2, 3) == ["<Å", "<Åß", "Åß", "Åß>", "ß>"]
    assert ngrams("a", 4, 6) == ngrams("cat", 3, 0) == ngrams("</s>", 3, 6) == []


@pytest.mark.parametrize(
    ("ngram", "value"),
    [
        ("", 0x811C9DC5),
        ("a", 0xE40C292C),  # these three as in the tables of the authors of FNV
        ("foobar", 0xBF9CF968),
        ("<the>", None),
        ("é", None),
        ("дом>", None),
        ("<水", None),
        ("😀", None),
    ],
)
def test_the_hash_takes_bytes_for_signed(ngram: str, value: int | None) -> None:
    expected = np.array([0x811C9DC5], np.uint32)
    for byte in np.frombuffer(ngram.encode(), np.int8):
        expected = (expected ^ np.uint32(int(byte) % 2**32)) * np.uint32(16777619)
    assert fnv(ngram) == expected[0]
    assert value is None or fnv(ngram) == value


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.just("</s>")),
    st.integers(0, 4),
    st.integers(0, 7),
    st.sampled_from([1, 7, 2_000_000, 2**31 - 1]),
)
def test_many_words_at_once_are_the_same(
    words: list[str], min_n: int, max_n: int, buckets: int
) -> None:
    found = buckets_of(words, min_n, max_n, buckets)
    expected = [bucket_ids(word, min_n, max_n, buckets) for word in words]
    bounds = list(zip(found.starts[:-1], found.starts[1:], strict=True))
    assert [found.ids[a:b].tolist() for a, b in bounds] == expected
    assert found.starts.dtype == found.ids.dtype == np.int64
    assert found.starts[-1] == len(found.ids)


def test_buckets_are_those_of_the_original() -> None:
    """As version 0.9.3 of the authors' package tells them, with its 2,000,000 buckets."""
    assert bucket_ids("дом", 3, 6, 2_000_000) == [928921, 995829, 1129105, 590795, 804399, 279811]
    assert bucket_ids("水", 3, 6, 2_000_000) == [457047]
    assert bucket_ids("été", 3, 4, 2_000_000) == [1908133, 59617, 187927, 196363, 1291535]
