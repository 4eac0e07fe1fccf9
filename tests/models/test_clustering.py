"""Word clustering against brute force: every loss and every likelihood computed anew."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.clustering import (
    FIXED,
    Bigrams,
    Clustering,
    Clusters,
    cluster,
    mutual_information,
    numbered,
    paths,
    prefixes,
)
from models.kernels.clustering import SCALE, terms
from tests.models.ngram_reference import golden_text, in_suffix_order, vocabulary_of, windows

METHODS: tuple[Clustering, ...] = ("brown", "exchange", "predictive-exchange")
texts = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=7), min_size=1, max_size=12).filter(
    lambda text: any(text)
)
few = settings(max_examples=80, deadline=None)


def bigrams_of(text: list[list[str]], order: int = 2, min_count: int = 1) -> Bigrams:
    vocabulary = vocabulary_of(text, min_count)
    counts = in_suffix_order(windows([vocabulary.ids(s).tolist() for s in text], order), order)
    return Bigrams.of(counts, len(vocabulary))


# --- what the words of this file are worth, plainly -----------------------------------------


def f(x: float) -> int:
    return round(x * math.log2(x) * SCALE) if x else 0


def worth(cells: Counter[tuple[int, int]], lefts: Counter[int], rights: Counter[int]) -> int:
    whole = sum(map(f, cells.values()))
    return whole - sum(map(f, lefts.values())) - sum(map(f, rights.values()))


def worth_of(bigrams: Bigrams, classes: dict[int, int], kept: set[int]) -> int:
    """Of classes in which only bigrams of the words in ``kept`` count."""
    cells, lefts, rights = Counter[tuple[int, int]](), Counter[int](), Counter[int]()
    for a, b, n in zip(bigrams.firsts, bigrams.seconds, bigrams.counts.tolist(), strict=True):
        if a in kept and b in kept:
            cells[classes[a], classes[b]] += n
            lefts[classes[a]] += n
            rights[classes[b]] += n
    return worth(cells, lefts, rights)


def brown_by_force(bigrams: Bigrams, width: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The class of every word, named by a word of it, and the merges of such names after that."""
    slots: list[int | None] = [None] * (width + 1)
    classes = {i: i for i in range(FIXED)}
    merges: list[tuple[int, int]] = []
    found: list[int] = []

    def merge() -> None:
        before = worth_of(bigrams, classes, set(classes))
        best: tuple[int, int, int] | None = None
        for i, a in enumerate(slots):
            for j, b in enumerate(slots[i + 1 :], i + 1):
                if a is not None and b is not None:
                    after = {w: a if c == b else c for w, c in classes.items()}
                    loss = before - worth_of(bigrams, after, set(classes))
                    if best is None or loss < best[0]:
                        best = loss, i, j
        assert best is not None
        _, i, j = best
        a, b = slots[i], slots[j]
        assert a is not None
        assert b is not None
        for word, name in classes.items():
            if name == b:
                classes[word] = a
        slots[j] = None
        merges.append((a, b))

    for word in range(FIXED, bigrams.n_words):
        classes[word] = word
        slots[slots.index(None)] = word
        if None not in slots:
            merge()
    found = [classes[word] for word in range(bigrams.n_words)]
    within = len(merges)
    while sum(name is not None for name in slots) > 1:
        merge()
    return found, merges[within:]


@few
@given(text=texts, width=st.integers(1, 6), min_count=st.integers(1, 2))
def test_brown_makes_the_merges_of_brute_force(
    text: list[list[str]], width: int, min_count: int
) -> None:
    bigrams = bigrams_of(text, min_count=min_count)
    if bigrams.n_words == FIXED:
        return
    names, merges = brown_by_force(bigrams, min(width, bigrams.n_words - FIXED))
    classes = numbered(np.array(names, np.int32))
    found = cluster(bigrams, "brown", width)
    assert found.classes.tolist() == classes.tolist()
    assert found.merges.tolist() == [[classes[a], classes[b]] for a, b in merges]


def likelihood(bigrams: Bigrams, clusters: Clusters, method: Clustering) -> float:
    """Bits of the text, all but what no class changes."""
    classes = clusters.classes
    before = classes if method == "exchange" else np.arange(bigrams.n_words)
    cells, lefts, rights = Counter[tuple[int, int]](), Counter[int](), Counter[int]()
    for a, b, n in zip(bigrams.firsts, bigrams.seconds, bigrams.counts.tolist(), strict=True):
        cells[before[a], classes[b]] += n
        lefts[before[a]] += n
        rights[classes[b]] += n
    return worth(cells, lefts, rights) / SCALE


@few
@given(
    text=texts,
    n_classes=st.integers(1, 5),
    method=st.sampled_from(["exchange", "predictive-exchange"]),
)
def test_an_exchange_never_makes_the_text_less_likely_and_ends_where_no_word_gains(
    text: list[list[str]], n_classes: int, method: Clustering
) -> None:
    bigrams = bigrams_of(text)
    rounds = [cluster(bigrams, method, n_classes, n) for n in range(1, 6)]
    worths = [likelihood(bigrams, each, method) for each in rounds]
    assert worths == sorted(worths)
    last = cluster(bigrams, method, n_classes, 100)
    assert last.moves[-1] == 0
    sizes = Counter(last.classes[FIXED:].tolist())
    assert len(sizes) == min(n_classes, bigrams.n_words - FIXED)
    best = likelihood(bigrams, last, method)
    for word in range(FIXED, bigrams.n_words):
        for other in sizes:
            if sizes[int(last.classes[word])] > 1:
                moved = last.classes.copy()
                moved[word] = other
                assert likelihood(bigrams, Clusters(moved, last.merges), method) <= best + 1e-9


def test_mutual_information_by_hand() -> None:
    # <s> a </s> and <s> b </s>, each twice: a word tells which mark follows it, not which word.
    bigrams = bigrams_of([["a"], ["a"], ["b"], ["b"]])
    # Eight bigrams; 1/4 each, <s> 1/2 before, a and b 1/4 before and after, </s> 1/2 after:
    # (<s>, a): 1/4 log2(1/4 / (1/2 * 1/4)) = 1/4, and so for all four.
    assert mutual_information(bigrams) == pytest.approx(1.0)
    # One class for both: still <s> x or x </s>, so nothing is lost.
    assert mutual_information(bigrams.under(np.array([0, 1, 2, 3, 3], np.int32))) == 1.0
    # a b, b a: <s>a <s>b ab ba a</s> b</s>, all 1/6; every left and right share is 1/3.
    bigrams = bigrams_of([["a", "b"], ["b", "a"]])
    assert mutual_information(bigrams) == pytest.approx(math.log2(9 / 6))


def test_words_that_stand_in_the_same_places_come_together() -> None:
    """Three kinds of words, told by order alone."""
    rng = np.random.default_rng(3)
    kinds = [["the", "a", "my"], ["dog", "cat", "owl", "fox"], ["runs", "sleeps", "eats"]]
    text = [[str(rng.choice(kind)) for kind in kinds] for _ in range(300)]
    vocabulary = vocabulary_of(text)
    # Brown's window of three words has no contexts for them yet, and must merge all the same.
    for method in METHODS[1:]:
        found = cluster(bigrams_of(text), method, 3).classes
        classes = [{int(found[i]) for i in vocabulary.ids(kind)} for kind in kinds]
        assert [len(each) for each in classes] == [1, 1, 1], method
        assert len(set.union(*classes)) == 3, method


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_classes", [1, 7, 10_000])
def test_limits(method: Clustering, n_classes: int) -> None:
    bigrams = bigrams_of(golden_text(), order=3)
    found = cluster(bigrams, method, n_classes)
    n_words = bigrams.n_words - FIXED
    assert len(found) == min(n_classes, n_words)
    assert sorted(set(found.classes.tolist())) == list(range(len(found) + FIXED))
    assert found.classes[:FIXED].tolist() == [0, 1, 2]
    first = [found.classes.tolist().index(c) for c in range(len(found) + FIXED)]
    assert first == sorted(first)
    names = paths(found.merges)
    assert len(set(names)) == len(names) == len(found)
    assert not any(a != b and b.startswith(a) for a in names for b in names)
    if n_classes > n_words:
        assert mutual_information(bigrams.under(found.classes)) == mutual_information(bigrams)
    again = cluster(bigrams, method, n_classes)
    assert again.classes.tobytes() == found.classes.tobytes()
    assert again.merges.tobytes() == found.merges.tobytes()


def test_one_word_and_none() -> None:
    for method in METHODS:
        found = cluster(bigrams_of([["a", "a"], ["a"]]), method, 5)
        assert found.classes.tolist() == [0, 1, 2, 3]
        assert paths(found.merges) == ("0",)
        with pytest.raises(ValueError, match="0 words"):
            cluster(bigrams_of([["a"]], min_count=2), method, 5)
        with pytest.raises(ValueError, match="into 0 classes"):
            cluster(bigrams_of([["a"]]), method, 0)
    with pytest.raises(ValueError, match="there are none"):
        bigrams_of([["a"]], order=1)


def test_paths_and_their_beginnings() -> None:
    # Classes 3 to 6; 5 goes into 3, 6 into 4, 4 into 3.
    merges = np.array([[3, 5], [4, 6], [3, 4]], np.int32)
    assert paths(merges) == ("00", "10", "01", "11")
    assert prefixes("0110100") == ("0110", "011010", "0110100", "0110100")
    assert prefixes("0110", (1, 2)) == ("0", "01")


def test_terms_are_looked_up_or_computed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    bigrams = bigrams_of(golden_text())
    expected = [cluster(bigrams, method, 9) for method in METHODS]
    monkeypatch.setattr("models.kernels.clustering.terms", lambda total: terms(2))
    for method, known in zip(METHODS, expected, strict=True):
        found = cluster(bigrams, method, 9)
        assert found.classes.tolist() == known.classes.tolist()
        assert found.merges.tolist() == known.merges.tolist()
