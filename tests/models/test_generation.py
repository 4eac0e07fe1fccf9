from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from models import ngram, nplm
from models.family import Family, Predicts
from models.generation import (
    Sampling,
    adjusted,
    draw,
    generate,
    tempered,
    top_k,
    top_p,
    without,
)
from models.text import Sentences
from tests.tasks.trained import inputs, sentences

ROW = np.log(np.array([[0.1, 0.4, 0.2, 0.3]]))
NONE = np.zeros(0, np.int32)


def model(config: Family) -> Predicts:
    data = inputs(config, sentences())
    made = config.build(data, seed=3)
    if isinstance(config, ngram.Config):
        made.fit(data)
    assert isinstance(made, Predicts)
    return made


@pytest.fixture(scope="module", params=["ngram", "unigram", "nplm"])
def trained(request: pytest.FixtureRequest) -> Predicts:
    return model(
        {
            "ngram": ngram.Config(order=3, min_count=1),
            "unigram": ngram.Config(order=1, min_count=1),
            "nplm": nplm.Config(embedding=4, hidden=4, min_count=1),
        }[request.param]
    )


def test_small_numbers() -> None:
    np.testing.assert_allclose(np.exp(top_k(ROW, 2)), [[0, 4 / 7, 0, 3 / 7]])
    np.testing.assert_allclose(np.exp(top_k(ROW, 9)), np.exp(ROW))
    np.testing.assert_allclose(np.exp(top_p(ROW, 0.7)), [[0, 4 / 7, 0, 3 / 7]])
    np.testing.assert_allclose(np.exp(top_p(ROW, 0.71)), [[0, 4 / 9, 2 / 9, 3 / 9]])
    np.testing.assert_allclose(np.exp(top_p(ROW, 1e-9)), [[0, 1, 0, 0]])
    np.testing.assert_allclose(np.exp(tempered(ROW, 0.5)), [[1 / 30, 16 / 30, 4 / 30, 9 / 30]])
    np.testing.assert_array_equal(np.exp(tempered(ROW, 0)), [[0, 1, 0, 0]])
    np.testing.assert_allclose(np.exp(tempered(ROW, 1e-308)), [[0, 1, 0, 0]])
    np.testing.assert_allclose(np.exp(without(ROW, [1])), [[1 / 6, 0, 2 / 6, 3 / 6]])


def test_the_edges_of_a_draw() -> None:
    row = np.log(np.maximum(1e-300, np.array([[0.0, 0.5, 0.0, 0.5]])))
    row[0, [0, 2]] = -np.inf
    for uniform, word in ((0.0, 1), (0.4999, 1), (0.5, 3), (np.nextafter(1, 0), 3)):
        assert draw(row, np.array([uniform])).tolist() == [word]


def test_samples_have_the_probabilities(trained: Predicts) -> None:
    sampling = Sampling(temperature=1.3, seed=11)
    drawn = generate(trained, NONE, count=4000, length=1, sampling=sampling, batch=500)  # type: ignore[arg-type]
    size = len(trained.vocabulary)  # type: ignore[attr-defined]
    counts = np.bincount([text[0] for text in drawn], minlength=size)
    begin = trained.decoder(Sentences(NONE, np.zeros(2, np.int64), np.arange(2)))
    expected = 4000 * np.exp(adjusted(begin.log_probs(), sampling, [0, 1]))[0]
    assert counts[:2].tolist() == [0, 0]
    often = expected >= 5
    seen = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum())
    keep = wanted > 0
    assert chisquare(seen[keep], wanted[keep]).pvalue > 1e-3


def test_a_decoder_says_what_the_model_scores(trained: Predicts) -> None:
    vocabulary = trained.vocabulary  # type: ignore[attr-defined]
    texts = Sentences.of(vocabulary, [["the", "cat", "sees", "a"], ["a", "unheard", "river", "."]])
    scores = trained.log_prob(texts).reshape(2, 5)
    decoder = trained.decoder(Sentences(NONE, np.zeros(3, np.int64), np.arange(3)))
    for place, words in enumerate([*texts.ids.reshape(2, 4).T, np.array([2, 2])]):
        found = decoder.log_probs()
        np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-9)
        assert np.isneginf(found[:, 1]).all()
        np.testing.assert_allclose(found[[0, 1], words], scores[:, place], atol=1e-9)
        decoder.append(words.astype(np.int32))


def test_texts_do_not_depend_on_the_batch(trained: Predicts) -> None:
    def texts(batch: int, **how: float) -> list[list[int]]:
        sampling = Sampling(seed=5, **how)  # type: ignore[arg-type]
        prefix = trained.vocabulary.ids(["the", "cat"])  # type: ignore[attr-defined]
        made = generate(trained, prefix, count=9, length=6, sampling=sampling, batch=batch)  # type: ignore[arg-type]
        return [text.tolist() for text in made]

    alone, together = texts(1), texts(9)
    assert alone == together
    assert len({tuple(text) for text in alone}) > 1
    greedy = texts(4, temperature=0)
    assert greedy == [greedy[0]] * 9
    for text in alone:
        assert not {0, 1} & set(text)
        assert text.count(2) == (text[-1] == 2)
        assert len(text) - text.count(2) <= 6


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top-p"),
        ({"top_p": 1.1}, "top-p"),
        ({"top_k": 0}, "top-k"),
        ({"seed": -1}, "seed"),
    ],
)
def test_numbers_that_mean_nothing(how: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Sampling(**how)  # type: ignore[arg-type]


def test_no_text_has_no_words() -> None:
    unigram = model(ngram.Config(order=1, min_count=1))
    for bad in ({"count": 0, "length": 3}, {"count": 3, "length": 0}):
        with pytest.raises(ValueError, match="at least 1, not 0"):
            list(generate(unigram, NONE, sampling=Sampling(), **bad))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no word for possible"):
        without(ROW, [0, 1, 2, 3])
