"""Queries of word vectors, against gensim's where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models import vectors

V, D = 300, 20


@pytest.fixture(scope="module")
def matrix() -> Any:
    return np.random.default_rng(2).normal(size=(V, D)).astype(np.float32)


@pytest.fixture(scope="module")
def peer(matrix: Any) -> Any:
    keyed = pytest.importorskip("gensim.models").KeyedVectors(D)
    keyed.add_vectors([str(i) for i in range(V)], matrix)
    return keyed


def answers(found: list[tuple[str, float]]) -> tuple[list[int], list[float]]:
    return [int(word) for word, _ in found], [score for _, score in found]


def test_neighbours_are_gensims(matrix: Any, peer: Any) -> None:
    units = vectors.unit(matrix)
    for word in range(0, V, 37):
        ids, cosines = vectors.neighbours(units, matrix[word], 12, exclude=[word])
        expected, scores = answers(peer.most_similar(str(word), topn=12))
        assert ids.tolist() == expected
        np.testing.assert_allclose(cosines, scores, atol=1e-6)


@pytest.mark.parametrize("method", ["3cosadd", "3cosmul"])
def test_analogies_are_gensims(matrix: Any, peer: Any, method: vectors.Method) -> None:
    units = vectors.unit(matrix)
    ask = peer.most_similar if method == "3cosadd" else peer.most_similar_cosmul
    questions = np.random.default_rng(3).integers(0, V, (40, 3))
    expected = [
        int(ask(positive=[str(b), str(c)], negative=[str(a)], topn=1)[0][0])
        for a, b, c in questions.tolist()
    ]
    assert vectors.analogies(units, questions, method).tolist() == expected


def test_many_questions_are_answered_in_blocks(matrix: Any, monkeypatch: Any) -> None:
    units = vectors.unit(matrix)
    questions = np.random.default_rng(4).integers(0, V, (101, 3))
    whole = vectors.analogies(units, questions)
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 4 * V * 10)
    assert vectors.analogies(units, questions).tolist() == whole.tolist()
    assert vectors.analogies(units, questions[:0]).tolist() == []


def test_similarity_is_the_cosine_and_unknown_stays_unknown(matrix: Any) -> None:
    a, b = matrix[:5].copy(), matrix[5:10].copy()
    expected = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(vectors.similarity(a, b), expected, atol=1e-6)
    a[1], b[2] = np.nan, 0
    cosines = vectors.similarity(a, b)
    assert np.isnan(cosines[1])
    assert cosines[2] == 0
    assert np.isfinite(vectors.unit(b)).all()


def test_ties_go_to_the_smaller_id_and_little_is_asked_of_little() -> None:
    units = vectors.unit(np.array([[1, 0], [0, 1], [0, 2], [1, 0], [0, 3]], np.float32))
    ids, _ = vectors.neighbours(units, np.array([0, 1.0]), 2)
    assert ids.tolist() == [1, 2]
    ids, cosines = vectors.neighbours(units, units[0], 99, exclude=[0, 0, 1])
    assert ids.tolist() == [3, 2, 4]
    np.testing.assert_allclose(cosines, [1, 0, 0])
    assert vectors.neighbours(units, units[0], 3, exclude=range(5))[0].tolist() == []
    assert vectors.analogies(units, np.array([[0, 1, 3]])).tolist() == [2]
