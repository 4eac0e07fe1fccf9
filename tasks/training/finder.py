"""The range test of learning rates (Smith 2017): which rate to train with, found in a few steps.

A copy of a model learns from the first batches of its text, at a rate that rises exponentially
from step to step. Where the loss is lowest the rate is about to be too high, so a tenth of that is
a good highest rate for a schedule that rises and falls. The model is not changed, and nothing is
kept.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from models.family import Inputs, Learns, Plan, Progress
from tasks.errors import ConfigError, TrainingError
from tasks.training.backward import backward
from tasks.training.learn import check_text, loss_of
from tasks.training.optimizer import optimizer_of, scale_gradients
from tasks.training.ranks import Place, own_threads, precision_of

RANGES = {"adamw": (1e-6, 10.0), "sgd": (1e-4, 1e3)}
"""The lowest and the highest rate by optimizer: AdamW moves weights by about the rate itself."""
SMOOTHING = 0.9
"""The share of what was before in the smoothed loss: a mean of about ten steps."""
DIVERGED = 2.0
"""It ends where the smoothed loss is so many times the lowest."""
WINDOW = 10
"""Steps of which the smoothed loss is a mean; that of the first ones is where chance puts it."""
FEWEST = 20
"""Steps, at least: with fewer, the lowest loss is where chance puts it."""
MOST = 100_000
"""Steps, at most."""


@dataclass(frozen=True)
class RangeTest:
    """What a range test saw.

    Attributes:
        rates: of the steps, rising.
        losses: nats per token before each step.
        smoothed: their means; what lies further back counts less, exponentially.
        loss: what they are called; a sampled loss is no likelihood.
        diverged: it ended before the highest rate, for the loss rose too far.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    loss: str
    diverged: bool

    @property
    def lowest(self) -> float:
        """The rate at the lowest smoothed loss, from where that is a mean of ``WINDOW`` losses."""
        first = min(WINDOW, len(self.smoothed)) - 1
        return self.rates[first + int(np.argmin(self.smoothed[first:]))]

    @property
    def fell(self) -> bool:
        """Whether the loss fell by more than chance; else nothing can be suggested.

        By more than single losses of the first steps, where next to nothing is learnt, differ from
        each other (their standard deviation): three times what their means do.
        """
        if len(self.losses) <= WINDOW:
            return False
        chance = float(np.std(self.losses[:WINDOW]))
        return self.smoothed[WINDOW - 1] - min(self.smoothed[WINDOW - 1 :]) > chance

    @property
    def suggested(self) -> float:
        """A tenth of ``lowest``, with two digits."""
        return float(f"{self.lowest / 10:.1e}")


def find_rate(
    model: Learns,
    inputs: Inputs,
    seed: int,
    *,
    lowest: float | None = None,
    highest: float | None = None,
    steps: int = 200,
    threads: int = 1,
    gpus: int = 0,
    progress: Progress = lambda done, total, unit: None,
) -> RangeTest:
    """See how the loss of a model changes under ever higher rates.

    Args:
        model: also a ``torch.nn.Module``; it stays as it is.
        inputs: what it trains on, again and again if the text is short.
        seed: of the order of the data and of whatever is random in the model.
        lowest: the first rate; that of ``RANGES`` if None.
        highest: the last one.
        steps: between the two.
        threads: that it may use.
        gpus: more than 0 for a GPU.
        progress: told about steps.

    Raises:
        ConfigError: rates or steps that make no range.
        TrainingError: nothing to train on, or a loss that is not finite from the start.
    """
    schedule = model.schedule
    first, last = check_range(schedule.optimizer, lowest, highest, steps)
    check_text(model, inputs)
    rates = np.geomspace(first, last, steps).tolist()
    losses, smoothed, least = list[float](), list[float](), math.inf
    total = weight = 0.0
    place = Place.alone(gpus)
    with own_threads(threads, place.device):
        place.seed((seed, 0), {})
        for loss in _losses(model, inputs, seed, rates, place):
            if not math.isfinite(loss):
                break
            losses.append(loss)
            # The mean of losses, one n steps back with a weight of SMOOTHING ** n.
            total, weight = SMOOTHING * total + loss, SMOOTHING * weight + 1
            smoothed.append(total / weight)
            least = min(least, smoothed[-1])
            progress(len(losses), steps, "steps")
            if smoothed[-1] > DIVERGED * least:
                break
    n = len(losses)
    if n < 2:
        raise TrainingError(
            f"the loss is not finite {'from the start' if n == 0 else 'after a single step'}",
            where=f"learning rate {first:g}",
            remedy="begin with a lower one",
        )
    return RangeTest(tuple(rates[:n]), tuple(losses), tuple(smoothed), loss_of(model), n < steps)


def check_range(
    optimizer: str, lowest: float | None, highest: float | None, steps: int
) -> tuple[float, float]:
    """The first and the last rate of a range; see ``find_rate``.

    Raises:
        ConfigError: rates or steps that make no range.
    """
    first, last = RANGES[optimizer]
    first = first if lowest is None else lowest
    last = last if highest is None else highest
    if not 0 < first < last < math.inf or not FEWEST <= steps <= MOST:
        raise ConfigError(
            f"{steps} steps from {first:g} to {last:g} make no range of learning rates",
            remedy=f"give a lowest above 0, a higher highest, and {FEWEST} to {MOST:,} steps",
        )
    return first, last


def _losses(
    model: Learns, inputs: Inputs, seed: int, rates: Sequence[float], place: Place
) -> Iterator[float]:
    """Nats per token before each step of a copy of the model."""
    assert isinstance(model, nn.Module)
    # Its vocabulary is large and never changes.
    learner = copy.deepcopy(model, {id(model.vocabulary): model.vocabulary})
    module = learner.to(place.device).train()
    optimizer, schedule = optimizer_of(learner), learner.schedule
    precision = precision_of(schedule.precision, place)
    carried: list[tuple[Tensor, ...]] = []
    for rate, (first, parts) in zip(rates, _batches(learner, inputs, seed), strict=False):
        before = [()] * len(parts) if first else carried
        done = backward(module, parts, before, place, precision)
        carried = done.carried
        yield done.nll / max(done.scored, 1)
        scale_gradients(optimizer, 1 / max(done.scored, 1), schedule.clip)
        for group in optimizer.param_groups:
            group["lr"] = rate * done.rate * group["rate"]
        optimizer.step()
        optimizer.zero_grad()


def _batches(model: Learns, inputs: Inputs, seed: int) -> Iterator[tuple[bool, tuple[Any, ...]]]:
    """Epoch after epoch, the parts of each batch, and whether it is the first of its epoch."""
    each = model.schedule.accumulate
    for epoch in itertools.count():
        plans = [Plan(seed, epoch, rank=i, world=each) for i in range(each)]
        batches = zip(*(model.batches(inputs, plan) for plan in plans), strict=True)
        yield from ((number == 0, parts) for number, parts in enumerate(batches))
