"""The loop of ``Sweeps``: epochs over chunks, trained in place by lock-free threads or on a GPU.

A run is the sequence of its sweeps, ``epochs`` times the chunks in their fixed order. Sweep ``i``
is a pure function of the tables before it, the seed and ``i``; so with one thread the same bytes
come out every time, whether the run was interrupted or not.

Several workers go through the chunks together. Each has its own tables and, in each of a chunk's
rounds, its own part of the sentences or pairs; after a round the workers exchange what they have
added (``tasks.training.exchange``). The learning rate follows what all of them have done. With one
thread each and the same number of workers the same bytes come out every time.

Checkpoints are written at the end of a chunk. The tables of several workers are equal only after an
exchange of all rows, at the end of an epoch and where the policy of the exchange says so; what they
lose with a worker is what they have learnt since the last of these that was written.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from models.family import (
    Inputs,
    Progress,
    RaisesItsRate,
    Report,
    State,
    Sweeps,
    SweepsOnDevice,
    SweepsTables,
    SweepStats,
    Unit,
)
from tasks.errors import TrainingError
from tasks.step import Context
from tasks.training.checkpoint import Arrays, Checkpoint, Checkpoints, Standing
from tasks.training.exchange import Exchange, rows_at
from tasks.training.ranks import Place
from tasks.training.tracker import Silent, Tracker

LOG_SECONDS = 0.5
DIVERGED = 1e3
"""A mean loss per example (nats) that no model has which still learns."""
NAMES: dict[Unit, str] = {"words": "tokens", "records": "records"}
"""What reports call the units."""
ROUND = 1 << 20
"""Units that all workers together train on between two exchanges, times the square of their number:
262,144 for 2, 65,536 for 4. On 17 M words of novels 2 workers do no better with half as many, and
worse with twice as many; so do 4 workers with twice as many."""


def sweep(
    model: Sweeps[Any], inputs: Inputs, seed: int, context: Context, tracker: Tracker
) -> Report:
    """Train a model in place, in this process from start to end.

    Returns:
        of a text ``tokens`` seen over all epochs, ``tokens_per_second`` and ``subsampled``: the
        share of the tokens that took no part, because they are unknown words or were thinned out at
        random; of a co-occurrence table ``records`` and ``records_per_second``; of both
        ``train_loss`` (mean per example in the last epoch) and ``epochs``.

    Raises:
        TrainingError: there is nothing to train on, or the loss is not finite.
    """
    loop = Loop(
        model,
        inputs,
        seed,
        None,
        place=Place.alone(gpus=0),
        threads=context.resources.threads,
        tracker=tracker,
        progress=context.progress,
    )
    return report_of(model, inputs, loop.run())


def sweep_resumably(
    model: Sweeps[Any], inputs: Inputs, seed: int, context: Context, tracker: Tracker
) -> Report:
    """``sweep`` by a step: from its newest checkpoint on, on workers and GPUs as resources say.

    Returns:
        besides what ``sweep`` does, of several workers ``workers`` and two shares of the time:
        ``sync_share`` went into exchanges, ``wait_share`` into waiting for the slowest worker.

    Raises:
        TrainingError: there is nothing to train on, the loss is not finite, or the model cannot be
            trained so.
    """
    resources = context.resources
    if not isinstance(model, SweepsTables):
        if resources.workers > 1 or resources.gpus:
            raise _one_cpu(f"{model.config.family} trains on one worker and no GPU")
        return sweep(model, inputs, seed, context, tracker)
    checkpoints = Checkpoints(context.store, context.recipe)
    if resources.workers > 1:
        from tasks.training.workers import train_on_workers

        if checkpoints.newest() is None:
            checkpoints.save(Checkpoint(Standing(), arrays_of(model), {}, {}))
        train_on_workers(model.config, seed, checkpoints, context, tracker)
        final = checkpoints.newest()
        assert final is not None
        write_tables(model, final.weights)
        return report_of(model, inputs, final.standing)
    loop = Loop(
        model,
        inputs,
        seed,
        checkpoints,
        place=Place.alone(resources.gpus),
        threads=resources.threads,
        tracker=tracker,
        progress=context.progress,
        checkpoint_seconds=resources.checkpoint_seconds,
    )
    return report_of(model, inputs, loop.run())


def report_of(model: Sweeps[Any], inputs: Inputs, at: Standing) -> Report:
    """What a training that has ended is worth telling."""
    unit, seconds = model.chunks(inputs).unit, max(at.seconds, 1e-9)
    shares = {"sync_share": at.syncing / seconds, "wait_share": at.waiting / seconds}
    return {
        "training_seconds": round(at.elapsed, 3),
        NAMES[unit]: at.scored,
        f"{NAMES[unit]}_per_second": round(at.scored / seconds),
        "train_loss": at.loss / at.tokens,
        "epochs": model.epochs,
        **({"subsampled": 1 - at.kept / at.scored} if unit == "words" else {}),
        **({"workers": at.world, **shares} if at.world > 1 else {}),
    }


class Loop:
    """One worker's training, from the newest checkpoint on.

    Attributes:
        at: how far all workers together have come; what else changes is in the tables.
    """

    def __init__(
        self,
        model: Sweeps[Any],
        inputs: Inputs,
        seed: int,
        checkpoints: Checkpoints | None,
        *,
        place: Place,
        threads: int = 1,
        tracker: Tracker | None = None,
        progress: Progress = lambda done, total, unit: None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        self._model, self._seed, self._threads = model, seed, threads
        self._checkpoints, self._every = checkpoints, checkpoint_seconds
        self._place, self._tracker, self._progress = place, tracker or Silent(), progress
        self._chunks = model.chunks(inputs)
        self._sweeps = model.epochs * len(self._chunks)
        if self._sweeps == 0:
            raise _nothing(self._chunks.unit, "the start of training")
        self._rounds = rounds_of(self._chunks.size / len(self._chunks), place.world)
        before = _fingerprints(model.state())
        self.at = self._restore()
        # Workers build the model without its base, which the first checkpoint brings.
        first = place.world > 1 and self.at.step == 0
        self._before = _fingerprints(model.state()) if first else before
        self._trainee = _trainee(model, place)
        self._exchange = Exchange(_tabled(self._trainee).swept_tables) if place.world > 1 else None
        self._stretch, self._saved = Standing(), time.perf_counter()
        self._began = self._saved - self.at.elapsed

    def run(self) -> Standing:
        """Train to the end; the model then is what was trained, on every worker.

        Raises:
            TrainingError: a loss that is not finite, or nothing to train on.
        """
        if self.at.finished:
            return self.at
        self._tell_progress()
        while self.at.step < self._sweeps:
            self._train_chunk()
        if self._trainee is not self._model:
            write_tables(_tabled(self._model), arrays_of(_tabled(self._trainee)))
        _check_moved(self._before, self._model.state())
        self.at = replace(self.at, finished=True, elapsed=time.perf_counter() - self._began)
        if self._place.world > 1:
            self._save()
        return self.at

    # --- training -----------------------------------------------------------------------------

    def _train_chunk(self) -> None:
        """All rounds of a chunk, and what is due after it."""
        n, i = len(self._chunks), self.at.step
        if i % n == 0:
            self.at = replace(self.at, loss=0.0, tokens=0)
        chunk = self._chunks[i % n]
        whole = False
        for r in range(self._rounds):
            last = r == self._rounds - 1
            whole = self._round(chunk, i, r, end_of_epoch=last and (i + 1) % n == 0)
        self.at = replace(self.at, step=i + 1, epoch=(i + 1) // n, batch=(i + 1) % n)
        if (i + 1) % n == 0 and self.at.tokens == 0:
            raise _nothing(self._chunks.unit, self._where(i))
        overdue = whole and i + 1 < self._sweeps and self._overdue()
        if self._checkpoints and overdue:
            self._save()

    def _round(self, chunk: Any, i: int, r: int, *, end_of_epoch: bool) -> bool:
        """Train on this worker's part of a round and exchange; whether all rows are equal now."""
        rank, world, began = self._place.rank, self._place.world, time.perf_counter()
        part = chunk.share(r * world + rank, self._rounds * world) if world > 1 else chunk
        stats = self._trainee.sweep(
            part,
            seed=_seed(self._seed, i, *((r, rank) if world > 1 else ())),
            done=(i + r / self._rounds) / self._sweeps,
            until=(i + (r + 1) / self._rounds) / self._sweeps,
            threads=self._threads,
        )
        trained = time.perf_counter()
        units, kept, examples, loss = self._place.total(
            stats.units, stats.kept, stats.examples, stats.loss
        )
        waited = time.perf_counter()
        self._check(loss / max(1.0, examples), i, units)
        rows = None if end_of_epoch else rows_at(i * self._rounds + r + 1)
        whole = self._exchange.take(rows) if self._exchange else True
        ended, multiple = time.perf_counter(), world > 1
        step = Standing(
            scored=int(units),
            kept=int(kept),
            tokens=int(examples),
            loss=loss,
            seconds=ended - began,
            waiting=(waited - trained) * multiple,
            syncing=(ended - waited) * multiple,
        )
        self.at, self._stretch = _plus(self.at, step), _plus(self._stretch, step)
        self._tell(stats, last=end_of_epoch and i + 1 == self._sweeps)
        return whole

    def _check(self, mean: float, i: int, units: float) -> None:
        if not math.isfinite(mean) or mean > DIVERGED:
            raise TrainingError(
                f"training diverges, the loss is {mean:.3g} (it must be finite and below "
                f"{DIVERGED:g})",
                where=f"{self._where(i)}, {self.at.scored + int(units):,} {self._chunks.unit} in",
                remedy="lower learning_rate; nothing was kept of this training",
            )

    def _where(self, i: int) -> str:
        chunks = len(self._chunks)
        return f"epoch {1 + i // chunks}, chunk {1 + i % chunks} of {chunks}"

    # --- telling ------------------------------------------------------------------------------

    def _tell(self, stats: SweepStats, *, last: bool) -> None:
        """Mean loss per example, where there are any, and the rate since it was last told."""
        self._tell_progress()
        stretch, name = self._stretch, NAMES[self._chunks.unit]
        if stretch.seconds < LOG_SECONDS and not last:
            return
        loss = {"loss": stretch.loss / stretch.tokens} if stretch.tokens else {}
        rates = {
            f"{name}_per_second": stretch.scored / stretch.seconds,
            "learning_rate": stats.learning_rate,
        }
        if self._place.rank == 0:
            self._tracker.log({**loss, **rates}, step=self.at.scored)
        self._stretch = Standing()

    def _tell_progress(self) -> None:
        if self._place.rank == 0:
            size = self._model.epochs * self._chunks.size
            self._progress(self.at.scored, size, self._chunks.unit)

    # --- checkpoints --------------------------------------------------------------------------

    def _overdue(self) -> bool:
        """Whether it is time for a checkpoint, by the clock of the first worker."""
        mine = time.perf_counter() - self._saved > self._every
        (due,) = self._place.total(mine and self._place.rank == 0)
        return due > 0

    def _save(self) -> None:
        """Write a checkpoint; the first worker does it for all."""
        self.at = replace(self.at, elapsed=time.perf_counter() - self._began)
        if self._place.rank == 0:
            assert self._checkpoints is not None
            weights = arrays_of(_tabled(self._trainee))
            self._checkpoints.save(Checkpoint(self.at, weights, {}, {}))
        self._saved = time.perf_counter()

    def _restore(self) -> Standing:
        """Take over the newest checkpoint, if there is one; every worker the same."""
        world = self._place.world
        if self._checkpoints is None:
            return Standing(world=world)
        newest = self._checkpoints.newest() if self._place.rank == 0 else None
        (step,) = self._place.total(newest.standing.step if newest else 0)
        if self._place.rank:
            newest = self._checkpoints.at(int(step))
        if newest is None:
            return Standing(world=world)
        write_tables(_tabled(self._model), newest.weights)
        return replace(newest.standing, world=world)


def rounds_of(units: float, world: int) -> int:
    """The rounds of a chunk of about so many units: a power of two, 1 where it is small.

    So every exchange whose number is a multiple of a larger power of two, and that therefore takes
    more rows, ends a chunk. One worker exchanges nothing.
    """
    if world == 1:
        return 1
    return 1 << max(0, round(math.log2(max(1.0, units * world**2 / ROUND))))


def arrays_of(model: SweepsTables[Any]) -> Arrays:
    """The tables as arrays of their own kind, contiguous, on the CPU."""
    return {
        name: np.ascontiguousarray(torch.as_tensor(table.values).cpu().numpy())
        for name, table in model.swept_tables().items()
    }


def write_tables(model: SweepsTables[Any], arrays: Arrays) -> None:
    """Set the tables."""
    for name, table in model.swept_tables().items():
        values = torch.as_tensor(table.values)
        values.copy_(torch.tensor(arrays[name]))


def _tabled(model: object) -> SweepsTables[Any]:
    """The same, known to have tables."""
    assert isinstance(model, SweepsTables)
    return model


def _trainee(model: Sweeps[Any], place: Place) -> Sweeps[Any] | SweepsTables[Any]:
    """What sweeps: the model itself, one with a rate for several workers, or a copy on a GPU."""
    if place.world > 1 and isinstance(model.config, RaisesItsRate):
        config: Any = model.config.for_workers(place.world)
        model = config.restore(model.vocabulary, model.state())
    if place.device.type == "cpu":
        return model
    if not isinstance(model, SweepsOnDevice):
        raise _one_cpu(f"{model.config.family} does not train on a GPU")
    try:
        return model.on_device(str(place.device))
    except ValueError as error:
        raise _one_cpu(str(error)) from error


def _plus(at: Standing, step: Standing) -> Standing:
    names = ("scored", "kept", "tokens", "loss", "seconds", "waiting", "syncing")
    return replace(at, **{name: getattr(at, name) + getattr(step, name) for name in names})


def _seed(seed: int, *place: int) -> int:
    """The seed of a sweep."""
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0])


def _one_cpu(problem: str) -> TrainingError:
    return TrainingError(
        problem, where="workers and gpus", remedy="train it with 1 worker and 0 GPUs"
    )


def _nothing(unit: Unit, place: str) -> TrainingError:
    or_sample = ", or raise sample" if unit == "words" else ""
    return TrainingError(
        "an epoch holds no training example: no sentence has two words left to learn from",
        where=place,
        remedy=f"train on more text or longer sentences, or lower min_count{or_sample}",
    )


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
