"""The loop of ``Learns``: autograd, in this process or on the workers of Ray Train.

A step sums the objective over the tokens of all ranks and divides the gradient by their number,
so neither the number of ranks nor how unevenly the tokens fall on them changes what is learned.
Every rank takes every decision (evaluate, stop, write a checkpoint) from the same summed numbers.

An interrupted training goes on from its newest checkpoint and ends with the very weights of one
that was never interrupted: bit for bit on a CPU with the same numbers of workers and threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from models.family import Inputs, Learns, Plan, Progress, Report
from tasks.counted import counted
from tasks.errors import TrainingError
from tasks.step import Context
from tasks.training.backward import backward
from tasks.training.checkpoint import (
    Checkpoint,
    Checkpoints,
    Standing,
    to_arrays,
    to_tensors,
)
from tasks.training.optimizer import (
    average,
    averaged,
    optimizer_arrays,
    optimizer_of,
    rate_at,
    restore_optimizer,
    scale_gradients,
    starts_to_average,
    swap_averages,
)
from tasks.training.ranks import Place, own_threads, precision_of
from tasks.training.tracker import Silent, Tracker

LOGS = 100
"""Times that a whole training tells its metrics, besides those after an evaluation."""


def learn(model: Learns, inputs: Inputs, seed: int, context: Context, tracker: Tracker) -> Report:
    """Train a model in place; it ends with the weights that did best on the held-out text.

    Args:
        model: also a ``torch.nn.Module``; where there are checkpoints, it begins as the newest.
        inputs: what it trains on; ``heldout`` may be without text, then the last weights stay.
        seed: of the order of the data and of whatever is random in the model.
        context: its resources say where the training runs, never what is computed.
        tracker: is told ``loss`` (nats per token; ``sampled_loss`` where the objective is sampled,
            which is no likelihood, and ``masked_loss`` where it is that of hidden tokens),
            ``tokens_per_second``, ``learning_rate`` and ``heldout_perplexity`` (of hidden tokens
            ``heldout_masked_perplexity``). A resumed training tells again what it told before.

    Raises:
        TrainingError: nothing to train on, or a loss that is not finite.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"{type(model).__name__} is no torch.nn.Module")
    check_text(model, inputs)
    check_heldout(model, inputs)
    checkpoints = Checkpoints(context.store, context.recipe)
    begun = checkpoints.newest()
    if begun is None:
        checkpoints.save(Checkpoint(Standing(), to_arrays(model.state_dict()), {}, {}))
    if begun is not None and begun.standing.finished:
        # It was interrupted between its end and the commit of the model.
        _tell_again(tracker, begun.standing)
    else:
        _train(model, inputs, seed, checkpoints, context, tracker)
    final = checkpoints.newest()
    assert final is not None
    best = final.standing.best_step
    weights = final.weights if best is None else checkpoints.at(best).weights
    model.cpu().load_state_dict(to_tensors(weights))
    model.eval()
    return _report(final.standing, loss_of(model), _heldout_of(model))


def check_text(model: Learns, inputs: Inputs) -> None:
    """Refuse a text that a model has nothing to learn from.

    Raises:
        TrainingError: it is empty, or not long enough for a batch.
    """
    if model.n_batches(inputs):
        return
    if inputs.tokens().n_tokens:
        raise TrainingError(
            f"the training text ({counted(inputs.tokens().n_tokens, 'tokens')}) is too short for a "
            "batch",
            where="train",
            remedy="train on more text, or by fewer steps where text is cut into windows",
        )
    raise TrainingError(
        "the training text is empty", where="train", remedy="train on a split that has text"
    )


def check_heldout(model: Learns, inputs: Inputs) -> None:
    """Refuse held-out text that would choose no weights and end no training.

    Raises:
        TrainingError: there is some, but not enough for a batch.
    """
    if "heldout" not in inputs.values or model.n_batches(inputs, "heldout"):
        return
    if n := inputs.tokens("heldout").n_tokens:
        raise TrainingError(
            f"the held-out text ({counted(n, 'tokens')}) is too short for a batch",
            where="valid",
            remedy="hold out more text, or cut it by fewer steps into windows",
        )


def _train(
    model: Learns,
    inputs: Inputs,
    seed: int,
    checkpoints: Checkpoints,
    context: Context,
    tracker: Tracker,
) -> None:
    """Train to the end, here or on workers; what comes of it is in the checkpoints."""
    resources = context.resources
    if resources.workers > 1:
        from tasks.training.workers import train_on_workers

        train_on_workers(model.config, seed, checkpoints, context, tracker)
        return
    place = Place.alone(resources.gpus)
    with own_threads(resources.threads, place.device):
        Loop(
            model,
            inputs,
            seed,
            checkpoints,
            place=place,
            tracker=tracker,
            progress=context.progress,
            checkpoint_seconds=resources.checkpoint_seconds,
        ).run()


def _tell_again(tracker: Tracker, standing: Standing) -> None:
    """What was told may not have arrived before the interruption."""
    for step, metrics in standing.told:
        tracker.log(metrics, step)


def loss_of(model: Learns) -> str:
    """What the training loss is called: a sampled one is never taken for a likelihood."""
    if model.schedule.masked:
        return "masked_loss"
    return "sampled_loss" if model.schedule.sampled else "loss"


def _heldout_of(model: Learns) -> str:
    """What the exponential of the held-out loss is called; see ``Schedule.masked``."""
    return "heldout_masked_perplexity" if model.schedule.masked else "heldout_perplexity"


def _report(standing: Standing, loss: str, heldout: str) -> Report:
    report: dict[str, float | int | str] = {
        "training_seconds": round(standing.elapsed, 3),
        "steps": standing.step,
        "epochs": standing.epoch,
        "tokens": standing.scored,
        "tokens_per_second": round(standing.scored / max(standing.seconds, 1e-9), 1),
        "workers": standing.world,
        "precision": standing.precision,
    }
    if standing.told:
        report[f"train_{loss}"] = standing.told[-1][1][loss]
    if standing.best is not None and standing.best_step is not None:
        report[heldout] = perplexity(standing.best)
        report["best_step"] = standing.best_step
    return report


class Loop:
    """One rank's training, from the newest checkpoint on.

    Attributes:
        at: how far it has come; all else that changes is in the model and the optimizer.
    """

    def __init__(
        self,
        model: Learns,
        inputs: Inputs,
        seed: int,
        checkpoints: Checkpoints,
        *,
        place: Place,
        tracker: Tracker | None = None,
        progress: Progress = lambda done, total, unit: None,
        checkpoint_seconds: float = 60.0,
    ) -> None:
        assert isinstance(model, nn.Module)
        self._model, self._inputs, self._seed = model, inputs, seed
        self._checkpoints, self._place = checkpoints, place
        self._tracker, self._progress = tracker or Silent(), progress
        self._every = checkpoint_seconds
        self._schedule = model.schedule
        self._n_batches = model.n_batches(inputs)
        self._steps = self._schedule.epochs * self._n_batches
        self._precision = precision_of(self._schedule.precision, place)
        self._module: nn.Module = model.to(place.device)
        self._optimizer = optimizer_of(model)
        self._distributed = place.distribute(self._module)
        if place.world > 1:
            self._settle_layout()
        self._carried: list[tuple[Tensor, ...]] = []
        self.at = self._restore()
        self._saved, self._since = self.at.step, (self.at.tokens, self.at.seconds)
        self._mark = self._saved_when = time.perf_counter()
        self._began = self._mark - self.at.elapsed

    def run(self) -> None:
        """Train until the schedule ends or patience does.

        Raises:
            TrainingError: a loss that is not finite.
        """
        if self._place.rank == 0:
            _tell_again(self._tracker, self.at)
        self._module.train()
        while not self.at.finished:
            epoch = self.at.epoch
            for parts in self._parts():
                if self._settle(self._step(parts)):
                    return
                self._mark = time.perf_counter()
            if self.at.epoch == epoch:
                ended = f"ended after {self.at.batch} of {self._n_batches} batches"
                raise RuntimeError(f"epoch {epoch} {ended}")

    def _settle_layout(self) -> None:
        """A backward pass for nothing, before weights and random state are set.

        DDP lays its gradient buffers out anew after the first one, in the order in which the
        gradients came, and where a gradient lies decides the order in which three ranks or more
        are added up. After this pass a resumed training adds as one that never stopped.
        """
        place = self._place
        for part in self._model.batches(
            self._inputs, Plan(self._seed, rank=place.rank, world=place.world)
        ):
            self._distributed(place.put(part)).objective.backward()
            self._optimizer.zero_grad()
            return

    def _parts(self) -> Iterator[tuple[Any, ...]]:
        """What is left of this epoch: for every step, this rank's parts of the global batch."""
        each, at = self._schedule.accumulate, self.at
        first, world = self._place.rank * each, self._place.world * each
        plans = [Plan(self._seed, at.epoch, at.batch, first + i, world) for i in range(each)]
        return zip(*(self._model.batches(self._inputs, plan) for plan in plans), strict=True)

    # --- a step -------------------------------------------------------------------------------

    def _step(self, parts: Sequence[Any]) -> bool:
        """Learn from a global batch; returns whether a checkpoint is due."""
        before = self._carried if self.at.batch else [()] * len(parts)
        done = backward(self._distributed, parts, before, self._place, self._precision)
        self._carried = done.carried
        overdue = time.perf_counter() - self._saved_when > self._every
        nll, scored, due = self._place.total(
            done.nll, done.scored, self._place.rank == 0 and overdue
        )
        norm = scale_gradients(
            self._optimizer, self._place.world / max(scored, 1.0), self._schedule.clip
        )
        if not math.isfinite(nll) or not math.isfinite(norm):
            what = "the loss" if math.isfinite(norm) else "the gradient"
            raise self._not_finite(what, self.at.step + 1)
        rate = rate_at(self.at.step, self._steps, self._schedule)
        for group in self._optimizer.param_groups:
            group["lr"] = rate * done.rate * group["rate"]
        self._optimizer.step()
        self._optimizer.zero_grad()
        at, now = self.at, time.perf_counter()
        if at.averages_from is not None:
            average(self._optimizer, at.step + 1 - at.averages_from)
        self.at = replace(
            at,
            step=at.step + 1,
            batch=at.batch + 1,
            scored=at.scored + int(scored),
            seconds=at.seconds + now - self._mark,
            loss=at.loss + nll,
            tokens=at.tokens + int(scored),
        )
        return due > 0

    def _not_finite(self, what: str, step: int) -> TrainingError:
        return TrainingError(
            f"{what} is not finite",
            where=f"step {step}",
            remedy="lower learning_rate or clip; the last good checkpoint is that of step "
            f"{self._saved}: {self._checkpoints.where(self._saved)}",
        )

    # --- after a step -------------------------------------------------------------------------

    def _settle(self, due: bool) -> bool:
        """Evaluate, tell, write a checkpoint, each where it is time; returns whether to stop."""
        n, each = self._n_batches, self._schedule.evaluations
        evaluate = self.at.batch * each // n > (self.at.batch - 1) * each // n
        if evaluate:
            self._evaluate()
        if self.at.batch == n:
            self.at = replace(self.at, epoch=self.at.epoch + 1, batch=0)
        finished = self.at.step == self._steps or 0 < self._schedule.patience <= self.at.stale
        self.at = replace(self.at, finished=finished)
        if evaluate or finished or self.at.step % max(1, self._steps // LOGS) == 0:
            self._tell(evaluate)
        if evaluate or finished or due:
            self._save()
        if self._place.rank == 0:
            total = round(self.at.scored / self.at.step * self._steps)
            self._progress(self.at.scored, total, "tokens")
        return finished

    def _evaluate(self) -> None:
        """The held-out loss in float32; every example is read once, by one rank."""
        if "heldout" not in self._inputs.values:
            return
        nll, scored = 0.0, 0
        plan = Plan(self._seed, rank=self._place.rank, world=self._place.world, role="heldout")
        carried: tuple[Tensor, ...] = ()
        n = self._model.n_batches(self._inputs, "heldout")
        self._module.eval()
        with averaged(self._optimizer), torch.inference_mode():
            for number, batch in enumerate(self._model.batches(self._inputs, plan)):
                if self._place.rank == 0:
                    self._progress(number, n, "held-out batches")
                output = self._module(self._place.put(batch), *carried)
                carried = output.carried
                nll += float(output.nll_sum)
                scored += output.n_scored
        self._module.train()
        total, tokens = self._place.total(nll, scored)
        if not math.isfinite(total):
            raise self._not_finite("the held-out loss", self.at.step)
        if tokens == 0:
            return
        loss, at = total / tokens, self.at
        if at.best is None or loss < at.best:
            self.at = replace(at, heldout=loss, best=loss, best_step=at.step, stale=0)
        else:
            self.at = replace(at, heldout=loss, stale=at.stale + 1)
        losses = (*at.losses, loss)
        self.at = replace(self.at, losses=losses)
        if at.averages_from is None and starts_to_average(losses, self._schedule):
            self.at = replace(self.at, averages_from=at.step)

    def _tell(self, evaluated: bool) -> None:
        at, (tokens, seconds) = self.at, self._since
        metrics = {
            loss_of(self._model): at.loss / max(at.tokens, 1),
            "tokens_per_second": (at.tokens - tokens) / max(at.seconds - seconds, 1e-9),
            "learning_rate": rate_at(at.step - 1, self._steps, self._schedule),
        }
        if evaluated and at.heldout is not None:
            metrics[_heldout_of(self._model)] = perplexity(at.heldout)
        if self._place.rank == 0:
            self._tracker.log(metrics, at.step)
        self._since = (0, at.seconds)
        self.at = replace(at, told=(*at.told, (at.step, metrics)), loss=0.0, tokens=0)

    # --- checkpoints --------------------------------------------------------------------------

    def _save(self) -> None:
        """Write a checkpoint; called by every rank, written by the first."""
        with averaged(self._optimizer):
            self._write()
        self._saved, self._saved_when = self.at.step, time.perf_counter()

    def _write(self) -> None:
        weights = self._module.state_dict()
        # A first step at an absurd rate leaves finite weights, whose products are not.
        if not all(bool(torch.isfinite(p.square()).all()) for p in self._module.parameters()):
            raise self._not_finite("a weight, or its square,", self.at.step)
        self.at = replace(self.at, elapsed=time.perf_counter() - self._began)
        random = self._place.random_states()
        carried = self._place.joined(self._carried) if self.at.batch else {}
        if self._place.rank == 0:
            self._checkpoints.save(
                Checkpoint(
                    self.at,
                    to_arrays(weights),
                    optimizer_arrays(self._optimizer),
                    to_arrays(random),
                    to_arrays(carried),
                )
            )

    def _restore(self) -> Standing:
        """Take over weights, optimizer and random state; every rank from the same checkpoint."""
        newest = self._checkpoints.newest() if self._place.rank == 0 else None
        (step,) = self._place.total(newest.standing.step if newest else 0)
        found = newest or self._checkpoints.at(int(step))
        self._module.load_state_dict(to_tensors(found.weights))
        restore_optimizer(self._optimizer, found.optimizer)
        swap_averages(self._optimizer)
        self._carried = self._place.share(to_tensors(found.carried), self._schedule.accumulate)
        same = found.standing.world == self._place.world
        self._place.seed(
            (self._seed, found.standing.step), to_tensors(found.random) if same else {}
        )
        return replace(found.standing, world=self._place.world, precision=self._precision)


def perplexity(loss: float) -> float:
    """The exponential of nats per token, kept within what a float holds."""
    return math.exp(min(loss, 700.0))
