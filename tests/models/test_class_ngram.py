from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.backoff import BOS, EOS
from models.class_ngram import ClassNgram, Config
from models.family import Inputs
from models.text import NgramCounts, Sentences
from models.vocabulary import LM_RESERVED
from tests.models.ngram_reference import (
    fitted,
    golden_text,
    in_suffix_order,
    vocabulary_of,
    windows,
)

METHODS = ("brown", "exchange", "predictive-exchange")
texts = st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=8).filter(
    lambda text: any(text)
)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def trained(text: list[list[str]], config: Config) -> tuple[ClassNgram, dict[str, Any]]:
    vocabulary = vocabulary_of(text, config.min_count)
    counts = in_suffix_order(
        windows([vocabulary.ids(s).tolist() for s in text], config.order), config.order
    )
    inputs = Inputs({"vocabulary": vocabulary, "ngrams": counts})
    model = config.build(inputs, seed=1)
    return model, dict(model.fit(inputs))


def test_it_is_the_ngram_model_of_classes_times_the_share_of_a_word() -> None:
    """Told by replacing every word by the name of its class."""
    text = golden_text()
    model, _ = trained(text, Config(order=3, classes=12, min_count=1))
    ids = [model.vocabulary.ids(sentence) for sentence in text]
    renamed = [[f"c{c}" for c in model.clusters.classes[s]] for s in ids]
    plain, _ = fitted(renamed, 3)
    classes = plain.log_prob(Sentences.of(plain.vocabulary, renamed))
    words, members = Counter(itertools.chain(*text)), Counter(itertools.chain(*renamed))
    expected, at = [], 0
    for sentence, names in zip(text, renamed, strict=True):
        for word, name in zip(sentence, names, strict=True):
            expected.append(classes[at] + math.log(words[word] / members[name]))
            at += 1
        expected.append(classes[at])
        at += 1
    scores = model.log_prob(Sentences.of(model.vocabulary, text))
    np.testing.assert_allclose(scores, expected, rtol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_as_many_classes_as_words_are_the_ngrams_of_words(method: str) -> None:
    text = golden_text()
    config = Config(order=2, classes=100_000, clustering=method, min_count=2)  # type: ignore[arg-type]
    model, report = trained(text, config)
    plain, _ = fitted(text, 2, min_count=2)
    sentences = Sentences.of(model.vocabulary, [*text, ["zebra", "the"], []])
    np.testing.assert_allclose(model.log_prob(sentences), plain.log_prob(sentences), rtol=1e-12)
    assert report["classes"] == len(model.vocabulary.words)
    assert "each is a class of its own" in report["fewer_classes"]


def test_one_class_knows_no_word_but_by_its_share() -> None:
    text = golden_text()
    model, _ = trained(text, Config(order=3, classes=1, min_count=1))
    scores = model.log_prob(Sentences.of(model.vocabulary, [["the", "lamp"], ["of", "lamp"]]))
    assert scores[1] == pytest.approx(scores[4])
    counts = Counter(itertools.chain(*text))
    assert scores[0] - scores[3] == pytest.approx(math.log(counts["the"] / counts["of"]))
    assert set(model.paths()) == {"0"}


@few
@given(
    text=texts,
    order=st.integers(2, 5),
    classes=st.integers(1, 4),
    method=st.sampled_from(METHODS),
    min_count=st.integers(1, 2),
    data=st.data(),
)
def test_probabilities_sum_to_one(
    text: list[list[str]],
    order: int,
    classes: int,
    method: str,
    min_count: int,
    data: st.DataObject,
) -> None:
    config = Config(order=order, classes=classes, clustering=method, min_count=min_count)  # type: ignore[arg-type]
    if not vocabulary_of(text, min_count).words:
        with pytest.raises(ValueError, match="0 words"):
            trained(text, config)
        return
    model, _ = trained(text, config)
    ids = st.integers(0, len(model.vocabulary) - 1).filter(lambda word: word not in (BOS, EOS))
    words = data.draw(st.lists(ids, max_size=5))
    padded = [BOS] * (order - 1) + words
    contexts = np.array([padded[i : i + order - 1] for i in range(len(words) + 1)], np.int32)
    found = model.next_log_probs(contexts)
    assert found.shape == (len(words) + 1, len(model.vocabulary))
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-9)
    assert (found[:, BOS] == -np.inf).all()
    assert np.isfinite(np.delete(found, BOS, axis=1)).all()
    sentence = Sentences(
        np.array(words, np.int32), np.array([0, len(words)]), np.array([0, 1], np.int64)
    )
    stepwise = found[np.arange(len(words) + 1), [*words, EOS]]
    np.testing.assert_allclose(model.log_prob(sentence), stepwise, rtol=1e-9)


def test_sentences_are_scored_wherever_they_begin() -> None:
    model, _ = trained(golden_text(), Config(order=3, classes=9, min_count=1))
    whole = Sentences.of(model.vocabulary, [["the", "lamp"], ["of"], ["a", "lamp"]])
    later = Sentences(whole.ids, whole.starts[1:], np.array([0, 2]))
    np.testing.assert_array_equal(model.log_prob(later), model.log_prob(whole)[3:])


def test_texts_go_on_word_by_word() -> None:
    model, _ = trained(golden_text(), Config(order=3, classes=9, min_count=1))
    ends = np.array([EOS, EOS], np.int32)
    decoder = model.decoder(Sentences.of(model.vocabulary, [["the"], []]))
    steps = [model.vocabulary.ids(words) for words in (["lamp", "a"], ["of", "lamp"])]
    found = []
    for words in [*steps, ends]:
        found.append(decoder.log_probs()[np.arange(2), words])
        decoder.append(words)
    whole = Sentences.of(model.vocabulary, [["the", "lamp", "of"], ["a", "lamp"]])
    scores = model.log_prob(whole)
    np.testing.assert_allclose([each[0] for each in found], scores[1:4], rtol=1e-9)
    np.testing.assert_allclose([each[1] for each in found], scores[4:], rtol=1e-9)


def test_an_untrained_model_is_uniform_and_bad_counts_are_refused() -> None:
    vocabulary = vocabulary_of([["a", "b"]])
    none = NgramCounts(3, np.zeros((0, 3), np.int32), np.zeros(0, np.int64))
    inputs = Inputs({"vocabulary": vocabulary, "ngrams": none})
    model = Config(order=3).build(inputs, seed=1)
    found = model.log_prob(Sentences.of(vocabulary, [["a", "x"]]))
    np.testing.assert_allclose(found, math.log(1 / 4))
    with pytest.raises(ValueError, match="order 3 needs counts"):
        model.fit(inputs)
    with pytest.raises(ValueError, match="classes of 5 entries"):
        Config().restore(vocabulary_of([["a"]]), model.state())
    assert vocabulary.reserved == LM_RESERVED


def test_discounts_that_cannot_be_estimated_are_told_as_those_of_classes() -> None:
    _, report = trained(golden_text(), Config(order=2, classes=2, min_count=1))
    assert report["fallback_orders"] == "2"
    assert "too few classes" in report["warning"]
    assert report["information.classes"] < report["information.words"]
    assert report["rounds"] >= 1
