from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.backoff import BOS, framed
from models.family import Inputs
from models.kneser_ney import estimate_discounts
from models.ngram import Config, Ngram
from models.text import NgramCounts, Sentences
from models.vocabulary import LM_RESERVED
from tests.models.ngram_reference import (
    GOLDEN,
    KneserNey,
    fitted,
    golden_text,
    in_suffix_order,
    vocabulary_of,
    windows,
)

tiny_texts = st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=8)
orders = st.integers(1, 5)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# --- parity with lmplz ----------------------------------------------------------------------


def assert_equals_lmplz(text: list[list[str]], golden: dict, **settings: Any) -> dict:
    order = golden["order"]
    model, report = fitted(text, order, **settings)
    for k in range(1, order + 1):
        assert report[f"order_{k}.ngrams"] == golden["sizes"][k - 1]
        assert [report[f"order_{k}.n{i}"] for i in range(1, 5)] == golden["spectra"][k - 1]
        found = [report[f"order_{k}.d{i}"] for i in range(1, 4)]
        np.testing.assert_allclose(found, golden["discounts"][k - 1], rtol=1e-6)
    table, entries = model.table, np.array(model.vocabulary.entries)
    for k in range(1, order + 1):
        here = table.numbers(k)
        lines = [" ".join(entries[gram]) for gram in table.ngrams(k)]
        weights = table.weights[here] if k < order else np.ones(len(lines))
        rows = dict(zip(lines, zip(table.probabilities[here], weights, strict=True), strict=True))
        for ngram, (prob, backoff) in golden["ngrams"].items():
            if ngram.count(" ") == k - 1:
                if ngram != "<s>":
                    assert math.log10(rows[ngram][0]) == pytest.approx(prob, abs=1e-6)
                assert math.log10(rows[ngram][1]) == pytest.approx(backoff, abs=1e-6)
    return report


@pytest.mark.parametrize("golden", GOLDEN["models"], ids=lambda golden: str(golden["order"]))
def test_estimates_are_those_of_lmplz(golden: dict) -> None:
    report = assert_equals_lmplz(golden_text(), golden)
    assert report["fallback_orders"] == ""
    assert "warning" not in report


def test_fallback_discounts_are_those_of_lmplz() -> None:
    golden = GOLDEN["fallback"]
    report = assert_equals_lmplz([line.split() for line in golden["text"]], golden["model"])
    assert report["fallback_orders"] == "2 3"
    assert "order 2, 3" in str(report["warning"])


def test_pruned_by_count_as_lmplz_prunes() -> None:
    golden = GOLDEN["pruned"]
    report = assert_equals_lmplz(golden_text(), golden["model"], prune=tuple(golden["prune"]))
    assert [report[f"order_{k}.pruned"] for k in (3, 4)] == [974, 1143]


# --- the equations --------------------------------------------------------------------------


@few
@given(text=tiny_texts, order=orders, min_count=st.integers(1, 3), heldout=tiny_texts)
def test_equals_the_plain_reference(
    text: list[list[str]], order: int, min_count: int, heldout: list[list[str]]
) -> None:
    model, _ = fitted(text, order, min_count)
    vocabulary = model.vocabulary
    found = windows([vocabulary.ids(sentence) for sentence in text], order)
    reference = KneserNey(found, order, len(vocabulary))
    expected = []
    for gram in (g for s in heldout for g in sequence(vocabulary.ids(s), order)):
        context = gram[:-1]
        while context.count(BOS) > 1:
            context = context[1:]
        expected.append(math.log(reference.probability(gram[-1], context)))
    scores = model.log_prob(Sentences.of(vocabulary, heldout))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def sequence(sentence: np.ndarray, order: int) -> list[tuple[int, ...]]:
    """The windows of a sentence in their order."""
    padded = [BOS] * (order - 1) + sentence.tolist() + [2]
    return [tuple(padded[i : i + order]) for i in range(len(padded) - order + 1)]


@few
@given(text=tiny_texts, order=orders, min_count=st.integers(1, 3), data=st.data())
def test_probabilities_sum_to_one_and_are_finite(
    text: list[list[str]], order: int, min_count: int, data: st.DataObject
) -> None:
    model, _ = fitted(text, order, min_count)
    ids = st.integers(0, len(model.vocabulary) - 1).filter(lambda word: word not in (1, 2))
    words = data.draw(st.lists(ids, max_size=6))
    context = [BOS, *words] if data.draw(st.booleans()) else words
    probabilities = model.next_words(np.array(context, np.int64))
    assert probabilities.sum() == pytest.approx(1, abs=1e-9)
    assert probabilities[BOS] == 0
    assert np.delete(probabilities, BOS).min() > 0
    sentence = Sentences(
        np.array(words, np.int32), np.array([0, len(words)]), np.array([0, 1], np.int64)
    )
    stepwise = [
        model.next_words(np.array([BOS, *words[:i]]))[word] for i, word in enumerate([*words, 2])
    ]
    np.testing.assert_allclose(model.log_prob(sentence), np.log(stepwise), rtol=1e-12)


@pytest.mark.parametrize("order", range(1, 6))
@pytest.mark.parametrize("min_count", [1, 3])
def test_a_real_text_sums_to_one_after_seen_and_unseen_contexts(order: int, min_count: int) -> None:
    model, _ = fitted(golden_text(), order, min_count)
    said = ["<s>", "at the end of the", "the lamp Marta sees", "zebra", "of the zebra", ". . ."]
    for context in [*(words.split() for words in said), []]:
        ids = model.vocabulary.ids(context)
        ids[[word == "<s>" for word in context]] = BOS
        assert model.next_words(ids).sum() == pytest.approx(1, abs=1e-9)


# --- what must not break it -----------------------------------------------------------------


@pytest.mark.parametrize("order", range(1, 6))
def test_rare_words_become_one_unknown_word_and_singletons_vanish(order: int) -> None:
    model, report = fitted(golden_text(), order, min_count=3)
    assert model.vocabulary.entries[0] == "<unk>"
    if order == 1:  # every word is now seen three times or more
        assert report["fallback_orders"] == "1"
    unigrams = model.table.probabilities[model.table.numbers(1)]
    share = sum(n for n in vocabulary_of(golden_text()).counts if n < 3) / 1529
    assert unigrams[0] > share / 2  # <unk> was counted, not left to the uniform distribution
    assert np.isfinite(model.log_prob(Sentences.of(model.vocabulary, golden_text()))).all()


def test_copies_of_a_paragraph_fall_back_and_say_so() -> None:
    text = golden_text()
    fallbacks = []
    for copies in range(1, 7):
        model, report = fitted(text + text[:10] * (copies - 1), 5)
        fallbacks.append(report["fallback_orders"])
        assert ("warning" in report) == bool(report["fallback_orders"])
        assert np.isfinite(model.log_prob(Sentences.of(model.vocabulary, text))).all()
    # More of a text may be worse than less of it, and still more may be good again.
    assert fallbacks == ["", "", "5", "4 5", "", ""]


def test_one_word_is_enough_and_what_was_never_seen_stays_finite() -> None:
    model, report = fitted([["yes"]], 5)
    assert report["fallback_orders"] == "1 2 3 4 5"
    scores = model.log_prob(Sentences.of(model.vocabulary, [["no", "yes"], [], ["yes"]]))
    assert scores.shape == (6,)
    assert np.isfinite(scores).all()
    assert (scores < 0).all()


def test_discounts_need_every_count_and_their_range() -> None:
    assert estimate_discounts(np.array([0, 10, 5, 2, 1])) is not None
    assert estimate_discounts(np.array([0, 0, 5, 2, 1])) is None
    assert estimate_discounts(np.array([0, 10, 5, 0, 1])) is None
    assert estimate_discounts(np.array([0, 10, 5, 2, 9])) is None  # D3 below 0
    # D2 is exactly 0: after words seen twice only, nothing would be left for any other.
    assert estimate_discounts(np.array([0, 2, 1, 4 / 3, 1])) is None


def test_sentences_do_not_see_each_other() -> None:
    model, _ = fitted(golden_text(), 5)
    together = model.log_prob(Sentences.of(model.vocabulary, golden_text()))
    alone = [model.log_prob(Sentences.of(model.vocabulary, [s])) for s in golden_text()]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_sentences_of_a_slice_are_framed() -> None:
    whole = Sentences(np.arange(10, 15, dtype=np.int32), np.array([0, 2, 2, 5]), np.array([0, 3]))
    part = dataclasses.replace(whole, starts=whole.starts[1:])
    np.testing.assert_array_equal(framed(whole), [1, 10, 11, 2, 1, 2, 1, 12, 13, 14, 2])
    np.testing.assert_array_equal(framed(part), [1, 2, 1, 12, 13, 14, 2])


# --- contracts ------------------------------------------------------------------------------


def test_untrained_is_uniform_and_restored_is_the_same() -> None:
    vocabulary = vocabulary_of(golden_text())
    config = Config(order=3)
    model = config.build(Inputs({"vocabulary": vocabulary}), seed=1)
    said = Sentences.of(vocabulary, [["the", "lamp"]])
    np.testing.assert_allclose(model.log_prob(said), -math.log(len(vocabulary) - 1))
    model, _ = fitted(golden_text(), 3)
    restored = config.restore(vocabulary, model.state())
    np.testing.assert_array_equal(restored.log_prob(said), model.log_prob(said))
    with pytest.raises(ValueError, match="order 4"):
        Config(order=4).restore(vocabulary, model.state())


def test_refuses_counts_that_are_not_those_of_a_text() -> None:
    vocabulary = vocabulary_of([["a", "b"]])

    def fit(counts: NgramCounts) -> Ngram:
        inputs = Inputs({"vocabulary": vocabulary, "ngrams": counts})
        model = Config(order=3).build(inputs, seed=1)
        model.fit(inputs)
        return model

    with pytest.raises(ValueError, match="order 3"):
        fit(in_suffix_order(windows([[3, 4]], 2), 2))
    with pytest.raises(ValueError, match="order 3"):
        fit(in_suffix_order(Counter(), 3))
    with pytest.raises(ValueError, match="without its context"):
        fit(in_suffix_order(Counter({(3, 4, 3): 1}), 3))


def test_wants_a_language_model_vocabulary() -> None:
    wants = Config(order=2, min_count=3, max_size=10).wants()
    assert dataclasses.asdict(wants["vocabulary"])["reserved"] == LM_RESERVED
    assert dataclasses.asdict(wants["ngrams"]) == {"order": 2}
