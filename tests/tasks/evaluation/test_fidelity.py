from __future__ import annotations

import numpy as np
import pytest

from tasks.evaluation.fidelity import measure


def rows(n: int, dim: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def test_a_true_copy_has_lost_nothing() -> None:
    table = rows(50)
    table[4] = 0
    found = measure(table, table.copy())
    assert (found.relative_error, found.neighbours_kept, found.k) == (0, 1, 10)
    assert found.mean_cosine == pytest.approx(1)


def test_figures_by_hand() -> None:
    original = np.array([[3, 4], [0, 5]], np.float32)
    found = measure(original, np.array([[3, 0], [0, 5]], np.float32))
    assert found.relative_error == pytest.approx((16 / 50) ** 0.5)
    assert found.mean_cosine == pytest.approx((0.6 + 1) / 2)
    assert (found.neighbours_kept, found.k, found.asked) == (1, 1, 2)


def test_chance_keeps_about_what_chance_gives() -> None:
    found = measure(rows(2000, seed=1), rows(2000, seed=2))
    assert found.neighbours_kept < 0.03


def test_bands_go_by_rank_and_rare_words_may_lose_more() -> None:
    table = rows(12_000)
    copy = table.copy()
    copy[10_000:] = rows(2000, seed=3)
    found = measure(table, copy)
    assert list(found.bands) == ["1-1000", "1001-10000", "10001-12000"]
    assert found.bands["10001-12000"] < 0.05
    assert found.bands["1-1000"] > 0.7
    assert found.asked == 600
    assert found.neighbours_kept == pytest.approx(np.mean(list(found.bands.values())))
