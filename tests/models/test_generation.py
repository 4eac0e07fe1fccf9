"""Text that is drawn: by hand where it is small, by frequencies where it is random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from models.capabilities import Decoder, LanguageModel, Predicts
from models.decoding import Windowed
from models.generation import TEXTS_AT_ONCE, Sampling, drawn, generate, narrowed
from models.text import Sentences
from models.vocabulary import LM_RESERVED, Vocabulary
from tests.tasks.speaking import speaking

P = np.log([[0.1, 1e-300, 0.2, 0.4, 0.2, 0.1]])
P[0, 1] = -np.inf


def shares(**how: object) -> list[float]:
    return [round(p, 6) for p in narrowed(P, Sampling(**how), 0)[0]]  # type: ignore[arg-type]


def test_a_distribution_is_narrowed_as_by_hand() -> None:
    assert shares(unknown=True) == [0.1, 0, 0.2, 0.4, 0.2, 0.1]
    assert shares() == [0, 0, 0.222222, 0.444444, 0.222222, 0.111111]
    assert shares(temperature=0) == [0, 0, 0, 1, 0, 0]
    assert shares(temperature=1e-300) == [0, 0, 0, 1, 0, 0]
    # Squares: 4, 16, 4, 1 of 25.
    assert shares(temperature=0.5) == [0, 0, 0.16, 0.64, 0.16, 0.04]
    # Of two equal words the one with the lower id.
    assert shares(top_k=2) == [0, 0, 0.333333, 0.666667, 0, 0]
    assert shares(top_k=99) == shares()
    # 4/9 is less than a half, so the next one is kept as well.
    assert shares(top_p=0.5) == [0, 0, 0.333333, 0.666667, 0, 0]
    assert shares(top_p=0.4) == [0, 0, 0, 1, 0, 0]
    assert shares(top_p=1e-12) == [0, 0, 0, 1, 0, 0]
    # top-p is of what top-k left: 0.5 of {0.4, 0.2} is 0.3, and 0.4 holds it.
    assert shares(top_k=2, top_p=0.5) == [0, 0, 0, 1, 0, 0]


def test_the_table_of_the_model_stays_as_it_is() -> None:
    before = P.copy()
    narrowed(P, Sampling(top_k=1), 0)
    np.testing.assert_array_equal(P, before)


def test_a_draw_is_by_the_sums_and_never_impossible() -> None:
    p = np.array([[0.0, 0.25, 0.0, 0.75, 0.0]])
    for uniform, id_ in [(0.0, 1), (0.2499, 1), (0.25, 3), (math.nextafter(1, 0), 3)]:
        assert drawn(p, np.array([uniform])).tolist() == [id_]


@given(
    st.lists(st.floats(-700, 0), min_size=3, max_size=8),
    st.floats(0.01, 50), st.integers(1, 9), st.floats(1e-9, 1),
)  # fmt: skip
def test_what_is_drawn_by_is_a_distribution(
    logits: list[float], temperature: float, k: int, p: float
) -> None:
    table = np.array([[-np.inf, *logits]])
    with np.errstate(all="raise", under="ignore"):
        found = narrowed(table, Sampling(temperature, k, p), -1)[0]
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    assert found[0] == 0
    assert 1 <= np.count_nonzero(found) <= k
    # The kept ones are the likeliest, but for ties and what is too unlikely for a number.
    if found[found > 0].min() < 1:
        assert table[0][found > 0].min() >= table[0][found == 0].max() - 1e-9


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"temperature": -0.1}, "temperature is a number from 0 on, not -0.1"),
        ({"temperature": math.nan}, "not nan"),
        ({"temperature": math.inf}, "not inf"),
        ({"top_k": 0}, "top-k is 1 or more words, not 0"),
        ({"top_p": 0.0}, r"top-p is a share above 0 and up to 1, not 0\.0"),
        ({"top_p": 1.1}, r"not 1\.1"),
        ({"top_p": math.nan}, "not nan"),
    ],
)
def test_what_is_no_way_to_draw(how: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Sampling(**how)  # type: ignore[arg-type]


# --- whole texts ------------------------------------------------------------------------------


MODELS = speaking()


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return MODELS[request.param]


def prefixes(model: LanguageModel, *texts: str) -> Sentences:
    return Sentences.of(model.vocabulary, [text.split() for text in texts])


PLAIN = Sampling()


def texts(model: LanguageModel, begun: Sentences, how: Sampling = PLAIN, **kw: int) -> list:
    assert isinstance(model, Predicts)
    asked = {"length": 12, "seed": 7, "unknown": model.vocabulary.unknown, **kw}
    return generate(model, begun, how=how, **asked)


def test_a_decoder_and_a_score_are_of_one_model(model: LanguageModel) -> None:
    assert isinstance(model, Predicts)
    decoder = model.decoder(prefixes(model, "the river", "", "a b c d e"))
    for word in ("turns", "a"):
        p = np.exp(decoder.log_probs())
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
        assert not p[:, LM_RESERVED.index("<s>")].any()
        decoder.append(np.full(3, model.vocabulary.id(word), np.int32))
    after = decoder.log_probs()
    for row, text in enumerate(["the river turns a", "turns a", "a b c d e turns a"]):
        for word in ("cat", "!"):
            scored = model.log_prob(prefixes(model, f"{text} {word}"))[-2]
            # What n-grams are scored by is float32.
            assert after[row, model.vocabulary.id(word)] == pytest.approx(scored, abs=1e-6)


def test_a_text_is_scored_as_the_model_scores_it(model: LanguageModel) -> None:
    begun = prefixes(model, *["the cat"] * 5)
    for found in texts(model, begun, Sampling(1.5, unknown=True)):
        ids = np.concatenate([begun.ids[:2], found.ids]).astype(np.int32)
        line = Sentences(ids, np.array([0, len(ids)]), np.array([0, 1]))
        scores = model.log_prob(line)[2:]
        expected = scores if found.ended else scores[:-1]
        assert found.log_prob == pytest.approx(float(expected.sum()), abs=1e-5)
        assert found.ended or len(found.ids) == 12


def test_a_text_is_the_same_whatever_is_made_beside_it(model: LanguageModel) -> None:
    many = texts(model, prefixes(model, *[""] * (TEXTS_AT_ONCE + 6)))
    few = texts(model, prefixes(model, *[""] * 3))
    other = texts(model, prefixes(model, "", "the cat sees", ""))
    for i in range(3):
        assert few[i].ids.tolist() == many[i].ids.tolist()
    assert other[2].ids.tolist() == many[2].ids.tolist()
    assert len({tuple(found.ids.tolist()) for found in many}) > TEXTS_AT_ONCE // 2
    assert texts(model, prefixes(model, ""), seed=8)[0].ids.tolist() != few[0].ids.tolist()


def test_the_likeliest_is_the_same_for_every_seed(model: LanguageModel) -> None:
    greedy = [
        texts(model, prefixes(model, "", "the"), Sampling(temperature=0), seed=seed)
        for seed in (1, 2)
    ]
    for a, b in zip(*greedy, strict=True):
        assert a.ids.tolist() == b.ids.tolist()
    narrow = texts(model, prefixes(model, "", "the"), Sampling(top_k=1))
    assert [t.ids.tolist() for t in narrow] == [t.ids.tolist() for t in greedy[0]]


@pytest.mark.parametrize(
    "how", [Sampling(), Sampling(0.7, unknown=True), Sampling(1.3, 6), Sampling(top_p=0.8)]
)
def test_words_are_drawn_as_often_as_they_are_likely(model: LanguageModel, how: Sampling) -> None:
    assert isinstance(model, Predicts)
    n = 4000
    begun = prefixes(model, *["the river"] * n)
    found = texts(model, begun, how, length=1, seed=11)
    first = [int(text.ids[0]) if len(text.ids) else LM_RESERVED.index("</s>") for text in found]
    one = model.decoder(prefixes(model, "the river")).log_probs()
    expected = n * narrowed(one, how, model.vocabulary.unknown)[0]
    seen = np.bincount(first, minlength=len(expected))
    assert not seen[expected == 0].any()
    likely = expected >= 5
    pooled = [*expected[likely], expected[~likely].sum()]
    counted = [*seen[likely], seen[~likely].sum()]
    kept = [(c, e) for c, e in zip(counted, pooled, strict=True) if e > 0]
    assert chisquare(*zip(*kept, strict=True)).pvalue > 0.001


class Only:
    """A model that holds one entry for certain."""

    def __init__(self, entry: str) -> None:
        self.vocabulary = Vocabulary(LM_RESERVED, (), np.zeros(0, np.int64))
        self._row = np.full(3, -np.inf)
        self._row[LM_RESERVED.index(entry)] = 0.0

    def log_prob(self, sentences: Sentences) -> np.ndarray:
        end = self._row[LM_RESERVED.index("</s>")]
        return np.insert(self._row[sentences.ids], sentences.starts[1:], end)

    def decoder(self, prefixes: Sentences) -> Decoder:
        return Windowed(lambda contexts: np.tile(self._row, (len(contexts), 1)), 0, prefixes)


def test_what_leaves_nothing_to_draw() -> None:
    only = Only("<unk>")
    begun = prefixes(only, "", "x")  # type: ignore[arg-type]
    asked = {"unknown": 0, "length": 3, "seed": 0}
    with pytest.raises(ValueError, match="nothing but <unk> for possible"):
        generate(only, begun, how=Sampling(), **asked)  # type: ignore[arg-type]
    with np.errstate(all="raise"):
        (a, _) = generate(only, begun, how=Sampling(unknown=True), **asked)  # type: ignore[arg-type]
    assert (a.ids.tolist(), a.ended, a.log_prob) == ([0, 0, 0], False, 0.0)
    (c, _) = generate(Only("</s>"), begun, how=Sampling(0.0), **asked)  # type: ignore[arg-type]
    assert (c.ids.tolist(), c.ended) == ([], True)
    with pytest.raises(ValueError, match="length is 1 or more words, not 0"):
        generate(only, begun, how=Sampling(), **{**asked, "length": 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed is 0 or more"):
        generate(only, begun, how=Sampling(), **{**asked, "seed": -1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a number"):
        narrowed(np.array([[np.nan, 0.0]]), Sampling(), -1)
    assert generate(only, prefixes(only), how=Sampling(), **asked) == []  # type: ignore[arg-type]
