"""Layers by their names, and nearest vectors against a plain sort."""

from __future__ import annotations

import numpy as np
import pytest

from models import occurrences
from models.occurrences import chosen_layers, nearest_others


def test_layers_by_name() -> None:
    names = ("embedding", "1", "2")
    assert chosen_layers(names, ["last"]) == [2]
    assert chosen_layers(names, ["all"]) == [0, 1, 2]
    assert chosen_layers(names, ["2", "embedding", "last"]) == [2, 0]
    with pytest.raises(ValueError, match=r"no layer '3'; there are embedding, 1, 2, last, all"):
        chosen_layers(names, ["3"])


def test_nearest_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrences, "AT_ONCE", 100)
    vectors = np.random.default_rng(1).normal(size=(40, 6))
    vectors[7] = 0.0
    vectors[9] = 3 * vectors[4]
    rows = np.array([4, 30, 7])
    numbers, cosines = nearest_others(vectors, rows, 5)
    assert numbers[0, 0] == 9
    assert cosines[0, 0] == pytest.approx(1)
    lengths = np.linalg.norm(vectors, axis=1)
    for row, found, near in zip(rows[:2], numbers, cosines, strict=False):
        own = [
            vectors[row] @ vectors[i] / (lengths[row] * lengths[i]) if lengths[i] else 0.0
            for i in range(40)
        ]
        order = sorted((i for i in range(40) if i != row), key=lambda i: -own[i])[:5]
        assert found.tolist() == order
        np.testing.assert_allclose(near, [own[i] for i in order])
    assert numbers[2].tolist() == [0, 1, 2, 3, 4]  # zeros are as near to all: in order
    assert nearest_others(vectors[:2], np.array([0]), 5)[0].tolist() == [[1]]
