from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from models.mixture import STEPS, TOLERANCE, check_weights, fit_weights, mixed

tables = st.integers(2, 4).flatmap(
    lambda k: st.lists(
        st.tuples(*[st.floats(1e-6, 1.0)] * k), min_size=1, max_size=30
    ).map(lambda rows: np.log(np.array(rows).T))
)  # fmt: skip


def test_a_mixture_is_the_weighted_sum_of_probabilities() -> None:
    parts = np.log([[0.5, 0.2], [0.1, 0.6]])
    np.testing.assert_allclose(np.exp(mixed(parts, np.array([0.25, 0.75]))), [0.2, 0.5])
    with np.errstate(divide="ignore"):
        impossible = np.log([[0.0, 0.0], [0.4, 0.0]])
    with np.errstate(all="raise"):
        found = mixed(impossible, np.array([0.5, 0.5]))
        alone = mixed(parts, np.array([0.0, 1.0]))
    np.testing.assert_allclose(np.exp(found), [0.2, 0.0])
    np.testing.assert_array_equal(alone, parts[1])


@given(log_probs=tables)
def test_the_likelihood_never_falls(log_probs: np.ndarray) -> None:
    fitted = fit_weights(log_probs)
    assert fitted.weights.sum() == pytest.approx(1)
    assert (fitted.weights >= 0).all()
    assert (np.diff(fitted.means) >= -1e-12).all()
    # As good as the best part alone.
    assert fitted.means[-1] >= log_probs.mean(axis=1).max() - max(TOLERANCE, np.log(4) / STEPS)
    assert mixed(log_probs, fitted.weights).mean() == pytest.approx(fitted.means[-1], abs=1e-8)


def test_weights_are_those_of_an_optimizer() -> None:
    random = np.random.default_rng(4)
    log_probs = np.log(random.dirichlet([0.5, 2.0], 400).T * 0.3 + 0.01)
    best = minimize_scalar(
        lambda m: -mixed(log_probs, np.array([m, 1 - m])).mean(),
        bounds=(0, 1), method="bounded", options={"xatol": 1e-9},
    )  # fmt: skip
    assert fit_weights(log_probs).weights[0] == pytest.approx(best.x, abs=1e-3)


def test_a_part_that_is_never_right_gets_nothing() -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.array([[0.2, 0.0, 0.3, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    with np.errstate(all="raise"):
        fitted = fit_weights(log_probs)
    np.testing.assert_array_equal(fitted.weights, [1.0, 0.0])
    with pytest.raises(ValueError, match="for possible"):
        fit_weights(log_probs[1:])


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ((0.5, 0.6), r"sum to 1, not to 1\.1"),
        ((1.5, -0.5), "from 0 to 1, unlike 1.5, -0.5"),
        ((float("nan"), 1.0), "from 0 to 1"),
        ((1.0,), "2 models need 2 weights, not 1"),
    ],
)
def test_what_are_no_weights(weights: tuple[float, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_weights(weights, 2)
