from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from models.quantization import balanced_rotation, kmeans, nearest, quantize
from models.quantized import Config, Model, Quantized, bounds
from models.vocabulary import Vocabulary

Table = NDArray[np.float32]


def table(n: int = 600, dim: int = 12, seed: int = 0) -> Table:
    """Vectors in some groups, so that there is something to find."""
    rng = np.random.default_rng(seed)
    groups = rng.standard_normal((20, dim))[rng.integers(0, 20, n)]
    return (groups + 0.4 * rng.standard_normal((n, dim))).astype(np.float32)


def config(rows: Table, sub_vectors: int, **more: object) -> Config:
    return Config(dim=rows.shape[1], sub_vectors=sub_vectors, **more)  # type: ignore[arg-type]


def decoded(rows: Table, settings: Config, **how: int) -> Table:
    return quantize(rows, settings, **{"seed": 1, **how}).rows(np.arange(len(rows)))


def error(rows: Table, settings: Config) -> float:
    return float(np.square(rows - decoded(rows, settings)).sum() / np.square(rows).sum())


def test_a_table_by_hand() -> None:
    """Left columns lie around (0, 1) and (10, 1), right ones around 5 and -5."""
    rows = np.array([[0, 0, 6], [0, 2, -6], [10, 0, 4], [10, 2, -4]], np.float32)
    plain = config(rows, 2, centroids=2, norms=False, rotation=False)
    made = quantize(rows, plain, seed=1)
    assert made.rows(np.arange(4)).tolist() == [[0, 1, 5], [0, 1, -5], [10, 1, 5], [10, 1, -5]]
    assert made.codes.dtype == np.uint8
    assert made.codes.shape == (4, 2)
    assert (made.codes[0] != made.codes[3]).all()
    assert sorted(made.centroids.tolist()) in ([[0, 1, -5], [10, 1, 5]], [[0, 1, 5], [10, 1, -5]])
    assert made.bytes == 4 * 2 + 2 * 3 * 4
    assert set(made.state()) == {"codes", "centroids"}


def test_columns_are_dealt_evenly() -> None:
    assert bounds(7, 3) == [slice(0, 3), slice(3, 5), slice(5, 7)]
    assert bounds(4, 4) == [slice(i, i + 1) for i in range(4)]
    assert bounds(5, 1) == [slice(0, 5)]


@pytest.mark.parametrize("width", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, 5, 16, 37, 256])
def test_the_nearest_centroid_is_the_nearest(width: int, n: int) -> None:
    rng = np.random.default_rng(n)
    # Small integers: every product is exact, and equally near ones are common.
    rows = rng.integers(-4, 5, (400, width)).astype(np.float32)
    centroids = rng.integers(-4, 5, (n, width)).astype(np.float32)
    squares = np.square(rows[:, None] - centroids[None]).sum(axis=2)
    codes, distances = nearest(rows, centroids)
    assert codes.tolist() == squares.argmin(axis=1).tolist()
    assert distances.tolist() == squares.min(axis=1).tolist()


def test_kmeans_is_as_good_as_scipys() -> None:
    rows = table(3000, 4)
    theirs = []
    for seed in range(3):
        centroids, labels = kmeans2(rows, 64, iter=25, minit="points", seed=seed)
        theirs.append(float(np.square(rows - centroids[labels]).sum()))
    ours = [float(nearest(rows, kmeans(rows, 64, seed=seed))[1].sum()) for seed in range(3)]
    assert np.mean(ours) < 1.03 * np.mean(theirs)


def test_a_centroid_without_rows_finds_some() -> None:
    values = np.array([[0.0], [1.0], [5.0], [50.0], [51.0]], np.float32)
    rows = np.repeat(values, [400, 5, 3, 2, 1], axis=0)
    for seed in range(5):
        assert sorted(kmeans(rows, 5, seed=seed)[:, 0].tolist()) == values[:, 0].tolist()


def test_threads_change_nothing_and_seeds_do() -> None:
    rows = table()
    settings = config(rows, 5)
    once, again = (quantize(rows, settings, seed=1, threads=n).state() for n in (1, 3))
    assert once.keys() == again.keys() == {
        "codes", "centroids", "rotation", "scale_codes", "scales",
    }  # fmt: skip
    assert all(once[name].tobytes() == again[name].tobytes() for name in once)
    other = quantize(rows, settings, seed=2).state()
    assert not np.array_equal(once["codes"], other["codes"])


@pytest.mark.parametrize("norms", [True, False])
@pytest.mark.parametrize("rotation", [True, False])
def test_more_sub_vectors_lose_less(norms: bool, rotation: bool) -> None:
    rows = table(2000)
    errors = [error(rows, config(rows, m, norms=norms, rotation=rotation)) for m in (1, 2, 4, 6)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.1 * errors[0]


def test_a_rotation_shares_variance_fairly() -> None:
    rng = np.random.default_rng(0)
    scales = 0.6 ** np.arange(8)  # as the columns of a truncated decomposition are
    rows = (rng.standard_normal((4000, 8)) * scales).astype(np.float32)
    rotation = balanced_rotation(rows, 4)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(8), atol=1e-5)
    turned = (rows @ rotation).var(axis=0).reshape(4, 2).prod(axis=1)
    assert turned.max() / turned.min() < 1.2
    straight, fair = (
        error(rows, config(rows, 4, norms=False, rotation=turn)) for turn in (False, True)
    )
    assert fair < 0.5 * straight


def test_lengths_have_codes_of_their_own() -> None:
    """Long and short vectors in the same directions: lengths take no centroid of a direction."""
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.normal(0, 2, (1500, 1)))
    rows = (table(1500) * lengths).astype(np.float32)
    apart, together = (decoded(rows, config(rows, 6, norms=norms)) for norms in (True, False))

    def cosines(copy: Table) -> float:
        products = np.einsum("nd,nd->n", rows, copy)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(copy, axis=1)
        return float(np.mean(products / np.maximum(lengths, 1e-9)))

    assert 1 - cosines(apart) < 0.3 * (1 - cosines(together))


def test_a_vector_of_zeros_stays_one() -> None:
    rows = table(300)
    rows[7] = 0
    found = decoded(rows, config(rows, 6))
    assert np.abs(found[7]).max() < 1e-3
    assert np.isfinite(found).all()


def test_few_rows_are_kept_as_they_are() -> None:
    rows = table(9)
    for rotation in (True, False):
        settings = config(rows, 3, centroids=9, rotation=rotation)
        np.testing.assert_allclose(decoded(rows, settings), rows, atol=2e-5)


def test_a_model_answers_one_word_as_many() -> None:
    rows = table(50)
    settings = config(rows, 5, centroids=50)
    words = tuple(f"w{i}" for i in range(50))
    vocabulary = Vocabulary((), words, np.arange(50, 0, -1))
    model = Model(settings, vocabulary, quantize(rows, settings, seed=1))
    again = settings.restore(vocabulary, model.state())
    vectors = again.word_vectors([*words, "unseen"])
    assert vectors.dtype == np.float32
    assert np.isnan(vectors[50]).all()
    each = np.concatenate([model.word_vectors([word]) for word in words])
    assert np.array_equal(vectors[:50], each)
    assert model.word_vectors([]).shape == (0, 12)
    assert isinstance(again.table, Quantized)
