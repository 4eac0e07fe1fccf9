"""Learning subwords: the merges of the plain algorithm, and pieces that gain likelihood."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels.unigram import expected_counts
from models.subwords import MIN_PAIR, learn_merges, learn_pieces

Words = dict[str, int]
some_words = st.dictionaries(
    st.text("abc", min_size=1, max_size=6), st.integers(1, 4), min_size=1, max_size=12
)


def naive(words: Words, size: int) -> list[tuple[str, str]]:
    """Byte-pair encoding by counting all pairs again before every merge."""
    tokens = sorted(set("".join(words)))
    split = {word: list(word) for word in words}
    merges: list[tuple[str, str]] = []
    while len(tokens) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(split[word]):
                pairs[pair] += count
        frequent = [(-n, tokens.index(a), tokens.index(b)) for (a, b), n in pairs.items()]
        if not frequent or -min(frequent)[0] < MIN_PAIR:
            break
        _, i, j = min(frequent)
        merges.append((tokens[i], tokens[j]))
        for parts in split.values():
            k = 0
            while k < len(parts) - 1:
                if parts[k : k + 2] == [tokens[i], tokens[j]]:
                    parts[k : k + 2] = [tokens[i] + tokens[j]]
                k += 1
        if tokens[i] + tokens[j] not in tokens:
            tokens.append(tokens[i] + tokens[j])
    return merges


def merges(words: Words, size: int, **options: str) -> list[tuple[str, str]]:
    counts = np.array([*words.values()], np.int64)
    learnt = learn_merges([*words], counts, size=size, alphabet="abcd", **options)
    return list(learnt.merges)


@settings(max_examples=200, deadline=None)
@given(words=some_words, size=st.integers(1, 20))
def test_merges_are_those_of_the_plain_algorithm(words: Words, size: int) -> None:
    assert merges(words, size) == naive(words, size)


@given(words=some_words, seed=st.integers(0, 9))
def test_the_order_of_the_words_does_not_matter(words: Words, seed: int) -> None:
    shuffled = random.Random(seed).sample([*words.items()], len(words))
    assert merges(words, 20) == merges(dict(shuffled), 20)
    assert merges(words, 20, continuing="##") == merges(dict(shuffled), 20, continuing="##")


def test_equal_counts_go_by_ids() -> None:
    for text in ("bbbaaaddddcccc", "aaabbbccccdddd"):
        assert merges({text: 1}, 6) == [("c", "c"), ("d", "d")]


def test_a_character_outside_the_alphabet_breaks_a_word() -> None:
    learnt = learn_merges(["abxab"], np.array([5]), size=9, alphabet="ab")
    assert learnt.tokens == ("a", "b", "ab")
    pieces = learn_pieces(["abxab"], np.array([5]), size=9, alphabet="ab")
    assert {piece for piece, _ in pieces} <= {"a", "b", "ab"}


def test_expected_counts_by_hand() -> None:
    # "aa" is "a a" with probability 1/16 or "aa" with 1/2; seen 9 times.
    table = np.array([[0, 1], [0, -1]], np.int32)
    logs = np.log([0.25, 0.5])
    expected = expected_counts(table, np.array([0, 2]), np.array([9]), logs)
    assert expected == pytest.approx([2 * 9 / 9, 9 * 8 / 9])


def test_pieces_are_the_parts_that_words_are_made_of() -> None:
    rng = random.Random(3)
    stems = ["".join(rng.choices("abcdefghij", k=5)) for _ in range(12)]
    endings = ["xyz", "zyx", "yyzz", "wxw"]
    words = [stem + ending for stem in stems for ending in endings]
    counts = np.ones(len(words), np.int64)  # so whole words are no candidates
    pieces = learn_pieces(words, counts, size=32, alphabet=sorted(set("".join(words))))
    assert {piece for piece, _ in pieces} == {*stems, *endings, *"".join(words)}
    logs = [log for _, log in pieces]
    assert logs == sorted(logs, reverse=True)
    assert 0.8 < np.exp(logs).sum() <= 1  # the digamma function takes a little from all
    again = learn_pieces(words[::-1], counts, size=32, alphabet="zyxwjihgfedcba")
    assert again == pieces


def test_every_character_that_occurs_is_a_piece() -> None:
    pieces = dict(learn_pieces(["abab", "q"], np.array([9, 1]), size=2, alphabet="abqz"))
    assert set(pieces) == {"a", "b", "q"}
    assert pieces["q"] < pieces["a"] == pieces["b"]
    assert learn_pieces([], np.zeros(0, np.int64), size=9, alphabet="a") == []
