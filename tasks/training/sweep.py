"""The loop of ``Sweeps``: epochs over chunks, trained in place by lock-free threads.

A run is the sequence of its sweeps, ``epochs`` times the chunks in their fixed order. Sweep ``i``
is a pure function of the tables before it, the seed and ``i``; so with one thread the same bytes
come out every time.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.family import Inputs, Report, State, Sweeps, SweepStats, Unit
from tasks.errors import TrainingError
from tasks.step import Context
from tasks.training.tracker import Tracker

LOG_SECONDS = 0.5
DIVERGED = 1e3
"""A mean loss per example (nats) that no model has which still learns."""
NAMES: dict[Unit, str] = {"words": "tokens", "records": "records"}
"""What reports call the units."""


def sweep(
    model: Sweeps[Any], inputs: Inputs, seed: int, context: Context, tracker: Tracker
) -> Report:
    """Train a model in place.

    Returns:
        of a text ``tokens`` seen over all epochs, ``tokens_per_second`` and ``subsampled``: the
        share of the tokens that took no part, because they are unknown words or were thinned out at
        random; of a co-occurrence table ``records`` and ``records_per_second``; of both
        ``train_loss`` (mean per example in the last epoch) and ``epochs``.

    Raises:
        TrainingError: there is nothing to train on, or the loss is not finite.
    """
    chunks = model.chunks(inputs)
    unit, size, name = chunks.unit, model.epochs * chunks.size, NAMES[chunks.unit]
    sweeps = model.epochs * len(chunks)
    if sweeps == 0:
        raise _nothing(unit, "the start of training")
    before = _fingerprints(model.state())
    run, epoch, stretch = _Sums(), _Sums(), _Sums()
    context.progress(0, size, unit)
    for i in range(sweeps):
        began = time.perf_counter()
        stats = model.sweep(
            chunks[i % len(chunks)],
            seed=_seed(seed, i),
            done=i / sweeps,
            until=(i + 1) / sweeps,
            threads=context.resources.threads,
        )
        seconds = time.perf_counter() - began
        if i % len(chunks) == 0:
            epoch = _Sums()
        run, epoch, stretch = (sums.plus(stats, seconds) for sums in (run, epoch, stretch))
        place = f"{_place(i, len(chunks))}, {run.units:,} {unit} in"
        _check(stats, epoch, unit, last=(i + 1) % len(chunks) == 0, place=place)
        context.progress(run.units, size, unit)
        if stretch.seconds >= LOG_SECONDS or i == sweeps - 1:
            rate = {"learning_rate": stats.learning_rate}
            tracker.log({**stretch.metrics(name), **rate}, step=run.units)
            stretch = _Sums()
    _check_moved(before, model.state())
    return {
        name: run.units,
        f"{name}_per_second": round(run.units / run.seconds),
        "train_loss": epoch.loss / epoch.examples,
        "epochs": model.epochs,
        **({"subsampled": 1 - run.kept / run.units} if unit == "words" else {}),
    }


@dataclass(frozen=True)
class _Sums:
    """What a stretch of a run did."""

    units: int = 0
    kept: int = 0
    examples: int = 0
    loss: float = 0.0
    seconds: float = 0.0

    def plus(self, stats: SweepStats, seconds: float) -> _Sums:
        return _Sums(
            self.units + stats.units,
            self.kept + stats.kept,
            self.examples + stats.examples,
            self.loss + stats.loss,
            self.seconds + seconds,
        )

    def metrics(self, name: str) -> dict[str, float]:
        """Mean loss per example, where there are any, and the rate under its name."""
        loss = {"loss": self.loss / self.examples} if self.examples else {}
        return {**loss, f"{name}_per_second": self.units / self.seconds}


def _seed(seed: int, i: int) -> int:
    """The seed of sweep ``i``."""
    return int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0])


def _check(stats: SweepStats, epoch: _Sums, unit: Unit, *, last: bool, place: str) -> None:
    mean = stats.loss / max(1, stats.examples)
    if not math.isfinite(mean) or mean > DIVERGED:
        raise TrainingError(
            f"training diverges, the loss is {mean:.3g} (it must be finite and below {DIVERGED:g})",
            where=place,
            remedy="lower learning_rate; nothing was kept of this training",
        )
    if last and epoch.examples == 0:
        raise _nothing(unit, place)


def _nothing(unit: Unit, place: str) -> TrainingError:
    or_sample = ", or raise sample" if unit == "words" else ""
    return TrainingError(
        "an epoch holds no training example: no sentence has two words left to learn from",
        where=place,
        remedy=f"train on more text or longer sentences, or lower min_count{or_sample}",
    )


def _place(i: int, chunks: int) -> str:
    return f"epoch {1 + i // chunks}, chunk {1 + i % chunks} of {chunks}"


def _fingerprints(state: State) -> dict[str, int]:
    return {name: zlib.crc32(array.data) for name, array in state.items()}


def _check_moved(before: Mapping[str, int], state: State) -> None:
    after = _fingerprints(state)
    still = [name for name in before if before[name] == after[name]]
    if still:
        raise TrainingError(
            f"training moved nothing in {', '.join(still)}",
            where="the end of training",
            remedy="raise learning_rate",
        )
    wild = [name for name, array in state.items() if not np.isfinite(array).all()]
    if wild:
        raise TrainingError(
            f"{', '.join(wild)} holds numbers that are not finite",
            where="the end of training",
            remedy="lower learning_rate",
        )
