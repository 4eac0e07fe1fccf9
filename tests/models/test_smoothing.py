"""Every smoothing but modified Kneser-Ney: against dictionaries, NLTK, and numbers by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.lm import MLE, KneserNeyInterpolated, Lidstone
from nltk.lm.preprocessing import padded_everygram_pipeline

from models.backoff import BOS, EOS
from models.discounts import is_discounted
from models.interpolation import LEAST, MOST, Frequencies, Level, fit_weights
from models.katz import good_turing
from models.ngram import Config, Ngram
from models.text import Sentences
from models.trie import Trie
from tests.models.ngram_reference import (
    Gram,
    Occurrences,
    fitted,
    golden_text,
    in_suffix_order,
    tokens_of,
    vocabulary_of,
    windows,
)
from tests.models.smoothing_reference import (
    AddK,
    BackOff,
    Interpolated,
    JelinekMercer,
    katz_discounts,
    single_discounts,
)

Text = list[list[str]]
SMOOTHINGS = (
    "modified-kneser-ney",
    "kneser-ney",
    "backoff-kneser-ney",
    "katz",
    "jelinek-mercer",
    "add-k",
    "maximum-likelihood",
)
every = pytest.mark.parametrize("smoothing", SMOOTHINGS)
tiny_texts = st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=8)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

REFERENCES: dict[str, Callable[[Occurrences, int], Any]] = {
    "kneser-ney": lambda seen, v: Interpolated(seen, single_discounts(seen, v), v),
    "backoff-kneser-ney": lambda seen, v: BackOff(
        seen, seen.adjusted, single_discounts(seen, v), v
    ),
    "katz": lambda seen, v: BackOff(seen, seen.raw, katz_discounts(seen, v), v),
    "add-k": lambda seen, v: AddK(seen, 0.3, v),
    "maximum-likelihood": lambda seen, v: BackOff(
        seen, seen.raw, lambda k, r: 0.0, v, smooth=False
    ),
}


def own(smoothing: str) -> dict[str, Any]:
    return {"smoothing": smoothing} | ({"k": 0.3} if smoothing == "add-k" else {})


def occurrences(model: Ngram, text: Text) -> Occurrences:
    ids = [model.vocabulary.ids(sentence) for sentence in text]
    return Occurrences(windows(ids, model.config.order), model.config.order)


def places(model: Ngram, text: Text) -> list[tuple[int, Gram]]:
    """Every scored word with its context."""
    found = []
    for sentence in text:
        ids = [BOS, *model.vocabulary.ids(sentence).tolist(), EOS]
        for i in range(1, len(ids)):
            found.append((ids[i], tuple(ids[max(0, i - model.config.order + 1) : i])))
    return found


def assert_equals(model: Ngram, reference: Any, text: Text) -> None:
    expected = [reference.probability(word, context) for word, context in places(model, text)]
    found = np.exp(model.log_prob(Sentences.of(model.vocabulary, text)))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


# --- the equations --------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", REFERENCES)
@few
@given(text=tiny_texts, order=st.integers(1, 5), min_count=st.integers(1, 3), heldout=tiny_texts)
def test_equals_the_plain_reference(
    smoothing: str, text: Text, order: int, min_count: int, heldout: Text
) -> None:
    model, _ = fitted(text, order, min_count, **own(smoothing))
    reference = REFERENCES[smoothing](occurrences(model, text), len(model.vocabulary))
    assert_equals(model, reference, heldout)


@pytest.mark.parametrize("smoothing", REFERENCES)
def test_a_real_text_equals_the_plain_reference(smoothing: str) -> None:
    model, report = fitted(golden_text(), 3, **own(smoothing))
    if smoothing == "katz":  # its pairs and triples do have the discounts of the paper
        assert "2" not in str(report["fallback_orders"]).split() or report["order_2.n6"] == 0
    reference = REFERENCES[smoothing](occurrences(model, golden_text()), len(model.vocabulary))
    said = [["the", "end", "of", "zebra", "the", "lamp"], *golden_text()[::19]]
    assert_equals(model, reference, said)


@every
@few
@given(text=tiny_texts, order=st.integers(1, 4), min_count=st.integers(1, 3), data=st.data())
def test_sums_to_one_after_any_context(
    smoothing: str, text: Text, order: int, min_count: int, data: st.DataObject
) -> None:
    prune = data.draw(st.sampled_from([(), (0, 1), (0, 0, 1), (0, 1, 2)]))
    entropy = data.draw(st.sampled_from([0.0, 1e-3, 0.1]))
    model, _ = fitted(
        text, order, min_count, text[:3], **own(smoothing),
        prune=prune[:order], prune_entropy=entropy,
    )  # fmt: skip
    ids = st.integers(0, len(model.vocabulary) - 1).filter(lambda word: word not in (1, 2))
    words = data.draw(st.lists(ids, max_size=6))
    context = [BOS, *words] if data.draw(st.booleans()) else words
    probabilities = model.next_words(np.array(context, np.int64))
    assert probabilities.sum() == pytest.approx(1, abs=1e-9)
    assert probabilities[BOS] == 0
    rest = np.delete(probabilities, BOS)
    assert (rest >= 0).all()
    if smoothing != "maximum-likelihood":
        assert rest.min() > 0


def test_good_turing_by_hand() -> None:
    # 1* = 2 * 40 / 100 = 0.8, 2* = 3 * 20 / 40 = 1.5, (k + 1) n_3 / n_1 = 3 * 20 / 100 = 0.6:
    # d_1 = (0.8 - 0.6) / 0.4 = 0.5 and d_2 = (0.75 - 0.6) / 0.4 = 0.375.
    found = good_turing(np.array([0, 100, 40, 20]), 2)
    assert found == pytest.approx((0, 0.5, 1.25, 0))
    assert good_turing(np.array([0, 100, 0, 20]), 2) is None  # a division by 0
    assert good_turing(np.array([0, 0, 40, 20]), 2) is None
    assert good_turing(np.array([0, 60, 40, 20]), 2) is None  # nothing would stay at all
    assert good_turing(np.array([0, 100, 60, 20]), 2) is None  # 1* is above 1
    # What is taken in total is n_1, the estimate for all that was never seen.
    n = np.array([0, 1000, 400, 220, 140, 95, 70])
    taken = good_turing(n, 5)
    assert taken is not None
    assert np.dot(n[:6], taken[:6]) == pytest.approx(n[1])


def test_katz_by_hand() -> None:
    """After ``a``: b twice and a once, of three; half of each is free where it is not estimated."""
    model, report = fitted([["a", "b"], ["a", "b"], ["a", "a"]], 2, smoothing="katz", cutoff=2)
    assert report["fallback_orders"] == "1 2"
    a, b = model.vocabulary.id("a"), model.vocabulary.id("b")
    # Unigrams a 4, b 2, </s> 3 of 9 lose a half of 2; <unk> alone never occurred and has it all.
    unigram = model.next_words(np.array([], np.int64))
    np.testing.assert_allclose(unigram[[0, EOS, a, b]], [0.5 / 9, 3 / 9, 4 / 9, 1.5 / 9])
    # After a, of 4: b 2 - 0.5, a 1 - 0.5, </s> 1 - 0.5; only <unk> is left and has 1.5.
    after = model.next_words(np.array([a], np.int64))
    np.testing.assert_allclose(after[[0, EOS, a, b]], [1.5 / 4, 0.5 / 4, 0.5 / 4, 1.5 / 4])
    # After b, of 2: </s> 2 - 0.5; the others share 0.25 as their unigrams do, of 0.5 + 4 + 1.5.
    after = model.next_words(np.array([b], np.int64))
    np.testing.assert_allclose(
        after[[0, EOS, a, b]], [0.25 / 12, 0.75, 0.25 * 4 / 6, 0.25 * 1.5 / 6]
    )


def test_a_context_without_low_counts_still_leaves_something() -> None:
    text = [["a", "b"]] * 9 + [["b", "b"]]
    model, _ = fitted(text, 2, smoothing="katz", cutoff=1)
    a, b = model.vocabulary.id("a"), model.vocabulary.id("b")
    assert model.next_words(np.array([a]))[b] == pytest.approx(9 / 10)


# --- beside NLTK ----------------------------------------------------------------------------


def nltk_model(kind: Any, text: Text, order: int, **settings: float) -> Any:
    grams, words = padded_everygram_pipeline(order, text)
    model = kind(order=order, **settings)
    model.fit(grams, words)
    return model


@pytest.mark.parametrize("order", [2, 3])
def test_nltk_agrees_on_relative_frequencies_and_add_k(order: int) -> None:
    """NLTK has ``<s>`` among the words that may come next, so its add-k shares with one more."""
    text = golden_text()
    mle, lidstone = nltk_model(MLE, text, order), nltk_model(Lidstone, text, order, gamma=0.3)
    said, words = text[::5], len(lidstone.vocab) - 1
    likely, _ = fitted(text, order, smoothing="maximum-likelihood")
    added, _ = fitted(text, order, smoothing="add-k", k=0.3)
    assert words == len(added.vocabulary) - 1
    expected = []
    for sentence in said:
        padded = ["<s>"] * (order - 1) + sentence + ["</s>"]
        for i in range(order - 1, len(padded)):
            word, context = padded[i], tuple(padded[i - order + 1 : i])
            total = lidstone.context_counts(context).N()
            ratio = (total + 0.3 * (words + 1)) / (total + 0.3 * words)
            expected.append((mle.score(word, context), lidstone.score(word, context) * ratio))
    found = [np.exp(m.log_prob(Sentences.of(m.vocabulary, said))) for m in (likely, added)]
    np.testing.assert_allclose(np.stack(found, axis=1), expected, rtol=1e-12)


def test_nltk_agrees_on_kneser_ney_of_pairs() -> None:
    """Only of pairs: between the orders NLTK has no continuation counts.

    Its unigrams are neither discounted nor mixed with the uniform distribution; here are ours.
    """
    text = golden_text()
    model, report = fitted(text, 2, smoothing="kneser-ney")
    discount = float(report["order_2.d1"])
    nltk = nltk_model(KneserNeyInterpolated, text, 2, discount=discount)
    unigrams = model.next_words(np.array([], np.int64))
    for context in ["the", "of", "Marta", "<s>", "."]:
        ids = np.array([BOS if context == "<s>" else model.vocabulary.id(context)])
        after = model.next_words(ids)
        for word in ["the", "lamp", "</s>", "of", "was"]:
            alpha, gamma = nltk.estimator.alpha_gamma(word, (context,))
            number = EOS if word == "</s>" else model.vocabulary.id(word)
            assert after[number] == pytest.approx(alpha + gamma * unigrams[number])


# --- deleted interpolation ------------------------------------------------------------------


def ladders(text: Text, heldout: Text, order: int, by: Any) -> tuple[Frequencies, Any, Any, int]:
    vocabulary = vocabulary_of(text)
    found = windows([vocabulary.ids(sentence) for sentence in text], order)
    trie = Trie.of(in_suffix_order(found, order), len(vocabulary))
    frequencies = Frequencies(trie, None, by)
    levels, joined = frequencies.levels(tokens_of(heldout).under(vocabulary))
    return frequencies, levels, joined, len(vocabulary)


@pytest.mark.parametrize("by", ["count", "average-count"])
def test_jelinek_mercer_equals_the_plain_reference(by: str) -> None:
    text, heldout = golden_text()[::2], golden_text()[1::2]
    _, levels, joined, n_words = ladders(text, heldout, 3, by)
    fit = fit_weights(levels, 1 / (n_words - 1))
    assert [len(w) for w in fit.weights] == [level.n_buckets for level in levels]
    assert max(len(w) for w in fit.weights) > 2
    model, report = fitted(text, 3, heldout=heldout, smoothing="jelinek-mercer", buckets=by)
    seen = occurrences(model, text)

    def weight(context: Gram) -> float:
        counts = [seen.raw[gram] for gram in seen.followers[context]]
        trust = sum(counts) / (len(counts) if by == "average-count" else 1)
        step = math.floor(2 * math.log2(trust)) if context else 0
        return float(fit.weights[len(context)][joined[len(context)][step]])

    reference = JelinekMercer(seen, weight, n_words)
    assert_equals(model, reference, heldout)
    mean = model.log_prob(Sentences.of(model.vocabulary, heldout)).mean()
    assert report["heldout_perplexity"] == pytest.approx(math.exp(-mean))
    assert mean == pytest.approx(fit.log_likelihoods[-1])


@few
@given(text=tiny_texts, heldout=tiny_texts, order=st.integers(1, 4), by=st.sampled_from(["count"]))
def test_em_never_lowers_the_likelihood(text: Text, heldout: Text, order: int, by: str) -> None:
    _, levels, _, n_words = ladders(text, heldout, order, by)
    fit = fit_weights(levels, 1 / (n_words - 1), rounds=30)
    assert (np.diff(fit.log_likelihoods) >= -1e-12).all()
    for weights in fit.weights:
        assert ((weights >= 0) & (weights <= MOST)).all()


def test_em_finds_the_optimum_that_scipy_finds() -> None:
    from scipy.optimize import minimize

    rng, n = np.random.default_rng(3), 500
    levels = []
    for n_buckets in (1, 2, 3):
        own = np.where(rng.random(n) < 0.6, rng.random(n), 0.0)
        bucket = rng.integers(0, n_buckets + (n_buckets > 1), n)
        levels.append(Level(own, np.ones(n), bucket, n_buckets))

    def mean(flat: np.ndarray) -> float:
        p, at = np.full(n, 0.05), 0
        for level in levels:
            weights = np.append(flat[at : at + level.n_buckets], 0.0)[level.bucket]
            at += level.n_buckets
            p = weights * level.own + (1 - weights) * p
        return -float(np.log(p).mean())

    best = minimize(mean, np.full(6, 0.3), bounds=[(0, MOST)] * 6, tol=1e-12)
    fit = fit_weights(levels, 0.05, rounds=2000)
    assert -fit.log_likelihoods[-1] == pytest.approx(best.fun, abs=2e-5)
    np.testing.assert_allclose(np.concatenate(fit.weights), best.x, atol=0.01)


def test_buckets_are_joined_until_each_has_met_enough() -> None:
    _, levels, _, _ = ladders(golden_text()[::2], golden_text()[1::2], 3, "count")
    for level in levels:
        met = np.bincount(level.bucket, minlength=level.n_buckets)[: level.n_buckets]
        assert level.n_buckets == 1 or met.min() >= LEAST


def test_jelinek_mercer_wants_held_out_text() -> None:
    assert "heldout" in Config(smoothing="jelinek-mercer").wants()
    assert not any(
        "heldout" in Config(smoothing=s).wants() for s in SMOOTHINGS if "mercer" not in s
    )
    with pytest.raises(ValueError, match="held-out text"):
        fitted(golden_text(), 2, smoothing="jelinek-mercer")
    model, report = fitted(golden_text(), 3, 2, [["zebra", "gnu"]], smoothing="jelinek-mercer")
    assert math.isfinite(float(report["heldout_perplexity"]))
    assert "without a word of the vocabulary" in str(report["warning"])
    assert np.isfinite(model.log_prob(Sentences.of(model.vocabulary, golden_text()))).all()
    _, report = fitted(golden_text(), 3, 2, [["the"], ["gnu"]], smoothing="jelinek-mercer")
    assert "warning" not in report


# --- discounts ------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [s for s in SMOOTHINGS if is_discounted(s)])
def test_undefined_discounts_are_refused_or_recorded(smoothing: str) -> None:
    text = [["one", "line", "again"]] * 4
    model, report = fitted(text, 3, smoothing=smoothing)
    assert report["fallback_orders"] == "1 2 3"
    assert "order 1, 2, 3" in str(report["warning"])
    restored = model.config.restore(model.vocabulary, model.state())
    assert restored.fallback_orders == (1, 2, 3)
    old = {k: v for k, v in model.state().items() if k != "fallback_orders"}
    assert model.config.restore(model.vocabulary, old).fallback_orders == ()
    with pytest.raises(ValueError, match=r"order 1, 2, 3 .*order 3: n1=0, n2=0, n3=0, n4=3"):
        fitted(text, 3, smoothing=smoothing, discounts="refuse")
    if smoothing != "katz":
        _, report = fitted(golden_text(), 3, smoothing=smoothing, discounts="refuse")
        assert report["fallback_orders"] == ""


@every
@pytest.mark.parametrize(
    "text", [[[]], [["yes"]], [["yes"]] * 50, [["a", "a", "a"]], [["one", "line", "again"]] * 9],
    ids=["no word", "one word", "copies", "one type", "a line"],
)  # fmt: skip
def test_hardly_any_text_has_defined_values(smoothing: str, text: Text) -> None:
    model, _ = fitted(text, 6, heldout=[["nothing", "known"]], **own(smoothing))
    scores = model.log_prob(Sentences.of(model.vocabulary, [["no", "yes"], [], *text[:1]]))
    assert not np.isnan(scores).any()
    assert (scores <= 1e-12).all()
    assert np.isfinite(scores).all() == (smoothing != "maximum-likelihood")
    for context in ([BOS], [0], [EOS - 2, 0], [BOS, 0, 0, 0, 0, 0]):
        assert model.next_words(np.array(context)).sum() == pytest.approx(1, abs=1e-9)


@every
def test_no_text_is_refused(smoothing: str) -> None:
    with pytest.raises(ValueError, match="needs counts"):
        fitted([], 3, smoothing=smoothing)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"k": 0.5}, r"k \(0.5\) has no part in modified-kneser-ney"),
        ({"cutoff": 7, "smoothing": "kneser-ney"}, "cutoff"),
        ({"buckets": "count", "smoothing": "katz"}, "buckets"),
        ({"discounts": "refuse", "smoothing": "add-k"}, "discounts"),
        ({"prune": (1, 1)}, "must begin with 0"),
        ({"prune": (0, 2, 1)}, "never fall"),
        ({"prune": (0, 0, 1), "order": 2}, "3 thresholds for an order of 2"),
    ],
)
def test_settings_without_a_part_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Config(**settings)


# --- pruning --------------------------------------------------------------------------------


def listed(model: Ngram) -> set[Gram]:
    orders = range(1, model.table.order + 1)
    return {tuple(gram) for k in orders for gram in model.table.ngrams(k).tolist()}


@pytest.mark.parametrize("smoothing", ["kneser-ney", "backoff-kneser-ney", "katz"])
def test_pruned_by_count(smoothing: str) -> None:
    text, thresholds = golden_text()[:40], (0, 0, 1, 2)
    model, report = fitted(text, 4, smoothing=smoothing, prune=thresholds)
    seen, n_words = occurrences(model, text), len(model.vocabulary)

    def pruned(gram: Gram) -> bool:
        return len(gram) > 1 and seen.raw[gram] <= thresholds[len(gram) - 1]

    kept = {gram for gram in seen.raw if not pruned(gram)}
    assert listed(model) == kept | {(word,) for word in range(n_words)}
    counts = seen.raw if smoothing == "katz" else seen.adjusted
    if smoothing == "kneser-ney":
        take = single_discounts(seen, n_words)
        reference: Any = Interpolated(seen, take, n_words, pruned)
    else:
        take = (katz_discounts if smoothing == "katz" else single_discounts)(seen, n_words)
        reference = BackOff(seen, counts, take, n_words, pruned=pruned)
    assert_equals(model, reference, [["the", "end", "of", "zebra"], *text[::7]])
    gone = [gram for gram in seen.raw if len(gram) == 3 and pruned(gram)]
    assert report["order_3.pruned"] == len(gone) > 0
    whole, _ = fitted(text, 4, smoothing=smoothing)
    same, report = fitted(text, 4, smoothing=smoothing, prune=(0, 0))
    assert "order_3.pruned" not in report
    np.testing.assert_array_equal(whole.table.probabilities, same.table.probabilities)


@pytest.mark.parametrize(
    ("smoothing", "order", "threshold"),
    [
        ("modified-kneser-ney", 2, 2e-4),
        ("modified-kneser-ney", 3, 2e-4),
        ("katz", 3, 2e-4),
        ("add-k", 2, 1e-4),
        ("add-k", 3, 1e-6),
    ],
)
def test_pruned_by_how_far_the_model_moves_away(
    smoothing: str, order: int, threshold: float
) -> None:
    """Against the relative entropy summed over all words, with each n-gram removed by itself."""
    text = golden_text()[:25]
    whole, _ = fitted(text, order, **own(smoothing))
    model, _ = fitted(text, order, **own(smoothing), prune_entropy=threshold)
    after: dict[Gram, Any] = {}
    for gram in {()} | listed(whole):
        after[gram] = whole.next_words(np.array(gram, np.int64))
    followers: dict[Gram, set[int]] = {}
    for gram in listed(whole):
        followers.setdefault(gram[:-1], set()).add(gram[-1])
    said = np.arange(len(whole.vocabulary)) != BOS
    expected = set()
    for gram in (gram for gram in listed(whole) if len(gram) == order):
        h, w = gram[:-1], gram[-1]
        p, lower = after[h], after[h[1:]]
        others = said & ~np.isin(np.arange(len(p)), list(followers[h] - {w}))
        q = np.where(others, lower * p[others].sum() / lower[others].sum(), p)
        chance = math.prod(after[h[:i]][EOS if word == BOS else word] for i, word in enumerate(h))
        if math.expm1(chance * (p[said] * np.log(p[said] / q[said])).sum()) < threshold:
            expected.add(gram)
    gone = {gram for gram in listed(whole) - listed(model) if len(gram) == order}
    assert gone == expected
    assert 0 < len(gone) < int(whole.table.sizes[-1])
    for gram in listed(model):  # what a longer one needs stays
        assert len(gram) == 1 or {gram[1:], gram[:-1]} <= listed(model)
    for gram in list(after)[:60]:
        assert model.next_words(np.array(gram, np.int64)).sum() == pytest.approx(1, abs=1e-9)


# --- long n-grams ---------------------------------------------------------------------------


def test_orders_up_to_ten() -> None:
    text = golden_text()
    model, _ = fitted(text, 10, smoothing="backoff-kneser-ney")
    reference = REFERENCES["backoff-kneser-ney"](occurrences(model, text), len(model.vocabulary))
    assert_equals(model, reference, text[:3])
