"""Every question that gensim's KeyedVectors answer, against gensim where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models import glove, word2vec
from models.kernels.shortlist import Codes, Shortlist
from models.tables import choices, chosen, rows
from models.vocabulary import Vocabulary
from models.word_vectors import UnknownWord, WordVectors

V, D = 600, 24
WORDS = tuple(f"w{i}" for i in range(V))
VOCABULARY = Vocabulary((), WORDS, np.arange(V, 0, -1))


def tables() -> tuple[Any, Any]:
    """Vectors around a few centres and of many lengths, as trained ones are."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(12, D))
    table = centres[rng.integers(12, size=V)] + 0.7 * rng.normal(size=(V, D))
    table *= rng.lognormal(size=(V, 1))
    return table.astype(np.float32), rng.normal(size=(V, D)).astype(np.float32)


INPUT, OUTPUT = tables()


def model(dim: int = D, **settings: Any) -> word2vec.Model:
    return word2vec.Model(word2vec.Config(dim=dim, **settings), VOCABULARY, INPUT, OUTPUT)


@pytest.fixture(scope="module")
def peer() -> Any:
    keyed = pytest.importorskip("gensim.models").KeyedVectors(D)
    keyed.add_vectors(list(WORDS), INPUT)
    return keyed


@pytest.fixture(scope="module", params=["scan", "shortlist"])
def ours(request: Any) -> WordVectors:
    asked = WordVectors(model())
    if request.param == "shortlist":
        asked.search = Shortlist(asked.table, Codes.of(asked.table, threads=2), threads=2)
    return asked


def same(found: Any, expected: Any) -> None:
    assert [word for word, _ in found] == [word for word, _ in expected]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in expected], atol=1e-5)


SUMS = [
    (["w1"], []), (["w3", "w9"], ["w4"]), (["w8"], ["w2", "w77"]),
    (["w5", INPUT[6] * 3, -INPUT[90]], ["w7"]), ([INPUT[12]], []),
]  # fmt: skip


@pytest.mark.parametrize(("positive", "negative"), SUMS)
def test_most_similar(ours: WordVectors, peer: Any, positive: Any, negative: Any) -> None:
    same(
        ours.most_similar(positive, negative, 9),
        peer.most_similar(positive=positive, negative=negative, topn=9),
    )
    same(
        ours.most_similar(positive, negative, 9, restrict=100),
        peer.most_similar(positive=positive, negative=negative, topn=9, restrict_vocab=100),
    )


def test_most_similar_with_weights(ours: WordVectors, peer: Any) -> None:
    weighted = [("w1", 2.0), ("w2", -0.5), ("w3", 0.25)]
    words, weights = zip(*weighted, strict=True)
    same(ours.most_similar(words, weights=weights), peer.most_similar(positive=weighted))
    same(
        ours.most_similar(["w1"], ["w2"], weights=[2.0, 0.5]),
        peer.most_similar(positive=[("w1", 2.0)], negative=[("w2", -0.5)]),
    )


@pytest.mark.parametrize(("positive", "negative"), SUMS[:3])
def test_most_similar_cosmul(ours: WordVectors, peer: Any, positive: Any, negative: Any) -> None:
    same(
        ours.most_similar_cosmul(positive, negative, 9),
        peer.most_similar_cosmul(positive=positive, negative=negative, topn=9),
    )


def test_vectors_and_means(ours: WordVectors, peer: Any) -> None:
    same(ours.similar_by_vector(OUTPUT[0], 7), peer.similar_by_vector(OUTPUT[0], topn=7))
    words, weights = ["w1", "w5", "w9"], [1.0, -2.0, 0.5]
    for before in (True, False):
        for after in (True, False):
            np.testing.assert_allclose(
                ours.mean_vector(words, weights, pre_normalize=before, post_normalize=after),
                peer.get_mean_vector(words, weights, pre_normalize=before, post_normalize=after),
                atol=1e-5,
            )
    np.testing.assert_array_equal(ours.vectors(words), INPUT[[1, 5, 9]])


def test_similarities(ours: WordVectors, peer: Any) -> None:
    assert ours.similarity("w1", "w2") == pytest.approx(peer.similarity("w1", "w2"), abs=1e-5)
    sets = ["w1", "w2", "w3"], ["w40", "w50"]
    assert ours.n_similarity(*sets) == pytest.approx(peer.n_similarity(*sets), abs=1e-5)
    for pair in (("w1", "w2"), ("w9", "w8")):
        assert ours.relative_cosine_similarity(*pair, 6) == pytest.approx(
            peer.relative_cosine_similarity(*pair, topn=6), abs=1e-5
        )
    units = INPUT / np.linalg.norm(INPUT, axis=1, keepdims=True)
    offsets = units[2] - units[1], units[4] - units[3]
    cosine = offsets[0] @ offsets[1] / np.linalg.norm(offsets[0]) / np.linalg.norm(offsets[1])
    found = ours.offset_similarity(("w1", "w2"), ("w3", "w4"))
    assert found == pytest.approx(float(cosine), abs=1e-5)


def test_the_odd_one_out(ours: WordVectors, peer: Any) -> None:
    for start in range(0, 40, 5):
        words = [f"w{i}" for i in range(start, start + 5)]
        assert ours.doesnt_match(words)[-1][0] == peer.doesnt_match(words)


def test_distances_and_ranks(ours: WordVectors, peer: Any) -> None:
    np.testing.assert_allclose(ours.distances("w7"), peer.distances("w7"), atol=1e-5)
    others = ["w1", "w2"]
    np.testing.assert_allclose(
        ours.distances(INPUT[3], others), peer.distances(INPUT[3], others), atol=1e-5
    )
    for pair in (("w7", "w8"), ("w30", "w100")):
        assert set(ours.closer_than(*pair)) == set(peer.closer_than(*pair))
        assert ours.rank(*pair) == peer.rank(*pair)
    nearest = ours.most_similar(["w7"], k=3)
    assert ours.closer_than("w7", nearest[2][0]) == [word for word, _ in nearest[:2]]


def test_the_word_movers_distance(ours: WordVectors) -> None:
    units = INPUT / np.linalg.norm(INPUT, axis=1, keepdims=True)
    far = {(i, j): float(np.linalg.norm(units[i] - units[j])) for i in (1, 2) for j in (3, 4)}
    assert ours.wmdistance(["w1"], ["w3"]) == pytest.approx(far[1, 3], abs=1e-5)
    # Of two words each there are only two ways, and their mixtures, which are no better.
    ways = (far[1, 3] + far[2, 4]) / 2, (far[1, 4] + far[2, 3]) / 2
    assert ours.wmdistance(["w1", "w2"], ["w3", "w4"]) == pytest.approx(min(ways), abs=1e-5)
    # Three quarters of w1 and a quarter of w2 to w3, whatever is unknown.
    found = ours.wmdistance(["w1", "w1", "w2", "w1", "nowhere"], ["w3"])
    assert found == pytest.approx(0.75 * far[1, 3] + 0.25 * far[2, 3], abs=1e-5)
    assert ours.wmdistance(["w1", "w2"], ["w2", "w1"]) == pytest.approx(0, abs=1e-6)
    assert ours.wmdistance(["nowhere"], ["w3"]) == float("inf")


def test_the_word_movers_distance_is_gensims(ours: WordVectors, peer: Any) -> None:
    documents = [f"w{i}" for i in (1, 2, 3, 1)], [f"w{i}" for i in (9, 3, 11)]
    expected = peer.wmdistance(*documents)
    assert ours.wmdistance(*documents) == pytest.approx(expected, abs=1e-5)


def test_many_questions_at_once_are_answered_like_single_ones(ours: WordVectors) -> None:
    queries = np.concatenate([INPUT[:70], OUTPUT[:30]])
    for found, query in zip(ours.nearest(queries, 5), queries, strict=True):
        same(found, ours.similar_by_vector(query, 5))


def test_what_is_unknown_or_asked_of_nothing(ours: WordVectors) -> None:
    for ask in (
        lambda: ours.most_similar(["w1", "nowhere"]),
        lambda: ours.similarity("nowhere", "w1"),
        lambda: ours.rank("w1", "nowhere"),
    ):
        with pytest.raises(UnknownWord, match="nowhere"):
            ask()
    with pytest.raises(ValueError, match="no mean"):
        ours.most_similar([])
    with pytest.raises(ValueError, match="no odd one"):
        ours.doesnt_match([])
    assert ours.most_similar(["w1"], k=0) == []
    assert len(ours.most_similar(["w1", "w2"], k=10 * V)) == V - 2


# --- which table ----------------------------------------------------------------------------


def test_tables_of_word2vec() -> None:
    both = model()
    assert choices(both) == ("own", "input", "output", "sum")
    np.testing.assert_array_equal(rows(both, "output").at(np.array([3, 1])), OUTPUT[[3, 1]])
    np.testing.assert_array_equal(rows(both, "sum").at(slice(0, 9)), (INPUT + OUTPUT)[:9])
    assert np.shares_memory(rows(both).at(slice(0, V)), INPUT)
    tree = model(objective="hierarchical-softmax")
    assert choices(tree) == ("own", "input")
    with pytest.raises(ValueError, match="no sum vectors; it has own, input"):
        rows(tree, "sum")


def test_what_is_asked_of_another_table_comes_from_it() -> None:
    ((word, cosine),) = WordVectors(model(), "sum").most_similar(["w9"], k=1)
    summed = INPUT + OUTPUT
    units = summed / np.linalg.norm(summed, axis=1, keepdims=True)
    cosines = units @ units[9]
    cosines[9] = -1
    assert word == WORDS[cosines.argmax()]
    assert cosine == pytest.approx(float(cosines.max()), abs=1e-5)
    np.testing.assert_array_equal(
        chosen(model(), "output").word_vectors(["w4", "nowhere"]),  # type: ignore[attr-defined]
        np.stack([OUTPUT[4], np.full(D, np.nan)]),
    )


def test_glove_sums_by_its_own_setting() -> None:
    state = {name: np.ones((V,), np.float32) for name in glove.ARRAYS}
    state |= {"input_vectors": INPUT, "output_vectors": OUTPUT}
    for setting, expected in [("sum", INPUT + OUTPUT), ("output", OUTPUT)]:
        config = glove.Config(dim=D, vectors=setting)  # type: ignore[arg-type]
        own = rows(config.restore(VOCABULARY, state)).at(slice(0, V))
        np.testing.assert_array_equal(own, expected)
