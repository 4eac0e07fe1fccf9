"""PPMI and truncated SVD beside a dense computation."""

from __future__ import annotations

import numpy as np
import pytest

from models import ppmi
from models.kernels.ppmi import positive_pmi
from tests.models.cooccurrence_tables import inputs_of, random_matrix, table_of


def dense(matrix: np.ndarray, smoothing: float, shift: float) -> np.ndarray:
    joint = matrix / matrix.sum()
    contexts = joint.sum(axis=0) ** smoothing
    chance = np.outer(joint.sum(axis=1), contexts / contexts.sum())
    with np.errstate(divide="ignore"):
        return np.maximum(0, np.log(joint / chance) - np.log(shift))


@pytest.mark.parametrize(
    ("dim", "smoothing", "shift", "power"), [(8, 0.75, 1.0, 0.5), (60, 1.0, 1.5, 1.0), (5, 0, 1, 0)]
)
def test_vectors_are_those_of_a_dense_computation(
    dim: int, smoothing: float, shift: float, power: float
) -> None:
    matrix = random_matrix(60)
    inputs = inputs_of(table_of(matrix, parts=3))
    config = ppmi.Config(dim=dim, smoothing=smoothing, shift=shift, power=power, iterations=40)
    model = config.build(inputs, seed=1)
    report = model.fit(inputs)
    expected = dense(matrix, smoothing, shift)
    assert report["entries"] == np.count_nonzero(expected)
    left, values, _ = np.linalg.svd(expected)
    left = left[:, :dim]
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(dim)])
    np.testing.assert_allclose(model.singular_values, values[:dim], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.vectors, left * values[:dim] ** power, atol=2e-4)
    assert report["explained"] == pytest.approx((values[:dim] ** 2).sum() / (values**2).sum())


def test_the_matrix_and_its_products() -> None:
    matrix = random_matrix(25)
    matrix[7] = matrix[:, 7] = 0  # a word that stands beside no other
    sparse = positive_pmi(table_of(matrix, parts=2), smoothing=0.75, shift=0.0)
    matrix[7, 7] = 0
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(dense(matrix, 0.75, 1.0))
    right = np.random.default_rng(0).random((25, 3), np.float32)
    np.testing.assert_allclose(sparse.times(right), expected @ right, rtol=1e-5, atol=1e-6)
    back = sparse.transposed_times(right)
    np.testing.assert_allclose(back, expected.T @ right, rtol=1e-5, atol=1e-6)


def test_fewer_words_than_dimensions_leave_zeros_and_no_pairs_are_refused() -> None:
    inputs = inputs_of(table_of(random_matrix(6)))
    model = ppmi.Config(dim=9).build(inputs, seed=1)
    model.fit(inputs)
    assert np.count_nonzero(model.vectors[:, 6:]) == 0
    empty = inputs_of(table_of(np.zeros((4, 4), np.int64)))
    with pytest.raises(ValueError, match="no two words"):
        ppmi.Config().build(empty, seed=1).fit(empty)
