"""Confidence intervals: parity with resampling item by item, and how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tasks.evaluation import bootstrap


def drawn(weights: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(weights)), weights.astype(int))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=3, max_size=40),
    st.integers(0, 99),
)
def test_a_weighted_correlation_is_that_of_the_items_drawn(rows: list, row: int) -> None:
    gold, values = np.array(rows, dtype=float).T
    weights = np.concatenate([*bootstrap.resamples(len(gold))])
    assert weights.shape == (bootstrap.RESAMPLES, len(gold))
    assert (weights.sum(axis=1) == len(gold)).all()
    items = drawn(weights[row])
    found = bootstrap.spearmans(gold, values[:, None])[row, 0]
    if np.ptp(gold[items]) == 0 or np.ptp(values[items]) == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(stats.spearmanr(gold[items], values[items]).statistic)


def test_an_interval_is_as_wide_as_theory_says() -> None:
    rng = np.random.default_rng(0)
    gold = rng.standard_normal(400)
    values = 0.6 * gold + 0.8 * rng.standard_normal(400)
    low, high = bootstrap.interval(bootstrap.spearmans(gold, values[:, None])[:, 0])
    rho = stats.spearmanr(gold, values).statistic
    assert low < rho < high
    # Bonett and Wright (2000): Fisher's z deviates by about sqrt((1 + rho^2 / 2) / (n - 3)).
    width = 2 * 1.96 * np.sqrt((1 + rho**2 / 2) / 397)
    assert np.arctanh(high) - np.arctanh(low) == pytest.approx(width, rel=0.15)
    right = rng.random(500) < 0.3
    low, high = bootstrap.interval(bootstrap.ratios(right, np.ones(500)))
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.21 / 500), rel=0.15)


def test_questions_that_share_pairs_are_not_independent() -> None:
    """Of 30 pairs a third is easy: which were drawn moves the score more than the questions."""
    rng = np.random.default_rng(1)
    widths = {}
    easy = rng.random(30) < 1 / 3
    pairs = np.array([(i, j) for i in range(30) for j in range(30) if i != j])
    right = easy[pairs[:, 1]]
    low, high = bootstrap.interval(bootstrap.crossed([(pairs, right[:, None])])[:, 0])
    widths["pairs"] = high - low
    low, high = bootstrap.interval(bootstrap.ratios(right, np.ones(len(pairs))))
    widths["questions"] = high - low
    # 30 draws decide, not 870.
    assert widths["pairs"] == pytest.approx(2 * 1.96 * np.sqrt(2 / 9 / 30), rel=0.25)
    assert widths["pairs"] > 4 * widths["questions"]


def test_the_same_twice_and_undefined_where_nothing_varies() -> None:
    gold = np.arange(30.0)
    values = np.sin(gold)
    first = bootstrap.spearmans(gold, values[:, None])
    assert np.array_equal(first, bootstrap.spearmans(gold, values[:, None]))
    both = bootstrap.spearmans(gold, np.stack([values, gold], axis=1))
    assert np.allclose(both[:, 0], first[:, 0])
    assert np.allclose(both[:, 1], 1)
    assert bootstrap.interval(bootstrap.spearmans(gold, np.ones((30, 1)))[:, 0]) is None
    assert bootstrap.interval(np.array([])) is None
