"""The range test of learning rates: against steps taken by hand, and on every kind of model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from models import awd_lstm, birnn, nplm, rnnlm
from models.family import Inputs, Learns, Plan
from models.text import Tokens
from tasks.errors import ConfigError, TrainingError
from tasks.training.finder import DIVERGED, SMOOTHING, RangeTest, find_rate
from tasks.training.finder_page import write_curve
from tests.tasks.training.trainee import CARRYING, CONFIG, MASKED, small_inputs


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_it_is_plain_descent_at_rates_that_rise() -> None:
    """Over the end of an epoch, where the state begins anew."""
    inputs = small_inputs()
    config = replace(CARRYING, optimizer="sgd", weight_decay=0.0, clip=0.5, steps=3)
    model = config.build(inputs, seed=1)
    n = model.n_batches(inputs) + 3
    found = find_rate(model, inputs, 1, lowest=0.01, highest=1.0, steps=n)
    assert found.rates == pytest.approx(np.geomspace(0.01, 1.0, n))
    assert not found.diverged

    slow, losses = config.build(inputs, seed=1), list[float]()
    for epoch in range(2):
        carried: tuple[Tensor, ...] = ()
        for batch in slow.batches(inputs, Plan(1, epoch)):
            if len(losses) == n:
                break
            output = slow(batch, *carried)
            carried = output.carried
            losses.append(float(output.nll_sum) / output.n_scored)
            slow.zero_grad()
            (output.objective / output.n_scored).backward()
            torch.nn.utils.clip_grad_norm_(slow.parameters(), 0.5)
            with torch.no_grad():
                for p in slow.parameters():
                    assert p.grad is not None
                    p -= found.rates[len(losses) - 1] * p.grad
    assert found.losses == pytest.approx(losses, abs=1e-4)
    weights = SMOOTHING ** np.arange(n)[::-1]
    assert found.smoothed[-1] == pytest.approx(np.average(losses, weights=weights), abs=1e-4)


@pytest.mark.parametrize(
    "config",
    [CONFIG, replace(CONFIG, objective="nce", noise=5), replace(CARRYING, accumulate=2), MASKED],
    ids=["nplm", "nce", "rnnlm", "awd-lstm"],
)
def test_every_model_that_learns_is_left_as_it_was(
    config: nplm.Config | rnnlm.Config | awd_lstm.Config,
) -> None:
    inputs = small_inputs()
    model = config.build(inputs, seed=1)
    assert isinstance(model, Learns)
    before = {name: array.copy() for name, array in model.state().items()}
    numbers = torch.get_rng_state()
    found = find_rate(model, inputs, 1, steps=60)
    assert torch.equal(torch.get_rng_state(), numbers)
    for name, array in model.state().items():
        assert np.array_equal(array, before[name]), name
    assert found == find_rate(model, inputs, 1, steps=60)
    assert found.loss == ("sampled_loss" if model.schedule.sampled else "loss")
    assert len(found.rates) == len(found.losses) == len(found.smoothed)
    assert found.rates[0] < found.suggested < found.rates[-1]


def test_a_loss_of_hidden_words_is_called_so() -> None:
    inputs = small_inputs()
    config = birnn.Config(objective="mask", units=4, embedding=4, min_count=1)
    assert find_rate(config.build(inputs, seed=1), inputs, 1, steps=20).loss == "masked_loss"


def test_it_stops_where_the_loss_runs_away() -> None:
    inputs = small_inputs()
    model = replace(CONFIG, optimizer="sgd", clip=0.0).build(inputs, seed=1)
    found = find_rate(model, inputs, 1, lowest=1e-3, highest=1e6, steps=100)
    assert found.diverged
    assert len(found.rates) < 100
    assert np.isfinite(found.losses).all()
    assert max(found.smoothed[:-1]) <= DIVERGED * min(found.smoothed)
    # With the rate that it suggests, training goes well.
    told = find_rate(model, inputs, 1, lowest=found.suggested, highest=found.suggested * 1.01)
    assert not told.diverged
    assert told.smoothed[-1] < told.losses[0] - 0.1


def test_the_suggestion_is_a_tenth_of_where_the_loss_is_lowest() -> None:
    rates = tuple(np.geomspace(1e-4, 10.0, 16).tolist())
    losses = (4.9, 5.1) * 5 + (4.8, 4.5, 4.0, 3.9, 4.5, 9.0)
    found = RangeTest(rates, losses, losses, "loss", True)
    assert found.lowest == rates[13]
    assert found.suggested == float(f"{rates[13] / 10:.1e}")
    assert found.fell


def test_a_loss_that_falls_by_chance_suggests_nothing() -> None:
    rates = tuple(np.geomspace(1e-6, 10.0, 30).tolist())
    losses = (5.1, 5.0, 4.9, 4.6, 5.2, 5.1, 5.0, 5.2, 5.3, 5.1, *(5.1, 5.0, 4.99) * 4, *[6.0] * 8)
    smoothed = (5.1, 5.05, 4.98, 4.85, *[5.08] * 6, *[5.05] * 12, *[5.5] * 8)
    found = RangeTest(rates, losses, smoothed, "loss", False)
    assert found.lowest == rates[10]
    assert not found.fell
    assert not RangeTest(rates[:5], losses[:5], smoothed[:5], "loss", True).fell


def test_what_is_no_range_is_refused() -> None:
    inputs = small_inputs()
    model = CONFIG.build(inputs, seed=1)
    for options in (
        {"lowest": 0.0}, {"lowest": 2.0, "highest": 1.0}, {"highest": np.inf}, {"steps": 5},
        {"steps": 10**8},
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="no range of learning rates"):
            find_rate(model, inputs, 1, **options)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="empty"):
        find_rate(model, Inputs({**inputs.values, "train": Tokens([])}), 1)
    windows = rnnlm.Config(units=4, embedding=4, min_count=1, steps=10**6, stride=1)
    with pytest.raises(TrainingError, match="is too short for a batch"):
        find_rate(windows.build(inputs, seed=1), inputs, 1)
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with pytest.raises(TrainingError, match="not finite from the start"):
        find_rate(model, inputs, 1)


def test_the_curve_is_a_page_or_a_picture(tmp_path: Path) -> None:
    rates = tuple(np.geomspace(1e-5, 1.0, 30).tolist())
    losses = tuple((6 + np.cos(np.arange(30) / 5)).tolist())
    found = RangeTest(rates, losses, losses, "loss", False)
    write_curve(found, "rates of <sea>", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "rates of &lt;sea&gt;" in page
    assert page.count("<polyline") == 3
    assert f"suggested, {found.suggested:g}" in page
    write_curve(found, "rates of $sea$", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"\.html or \.png"):
        write_curve(found, "", tmp_path / "a.svg")
