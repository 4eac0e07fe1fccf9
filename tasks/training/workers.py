"""The loops of ``Learns`` and ``Sweeps`` on the workers of Ray Train: gloo on CPUs, NCCL on GPUs.

A worker is given handles and settings, never tensors: it reads inputs and checkpoints from the
store. Ray restarts the workers when one is lost, and they go on from the newest checkpoint. What
the first rank tells comes back over a queue and is passed on by the process that waits for them,
so trackers and progress bars stay where they were made.
"""

from __future__ import annotations

import queue
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import ray.util.queue
import torch

from models.family import Family, Learns, Sweeps
from tasks.artifacts import Artifact
from tasks.cluster import RayCluster
from tasks.errors import ConfigError, LexloomError, TrainingError
from tasks.step import Context, Resources
from tasks.training import learn, sweep
from tasks.training.checkpoint import Checkpoints
from tasks.training.inputs import read_inputs
from tasks.training.ranks import Place
from tasks.training.tracker import Tracker

RESTARTS = 3
"""So often a training goes on by itself after the loss of a worker."""


@dataclass(frozen=True)
class Work:
    """What every worker is given.

    Attributes:
        family: the settings of the model.
        seed: of the training.
        checkpoints: what it goes on from.
        inputs: artifacts by role.
        threads: of a worker.
        checkpoint_seconds: see ``tasks.step.Resources``.
        events: takes what the first rank tells.
    """

    family: Family
    seed: int
    checkpoints: Checkpoints
    inputs: Mapping[str, Artifact]
    threads: int
    checkpoint_seconds: float
    events: Any


def train_on_workers(
    family: Family, seed: int, checkpoints: Checkpoints, context: Context, tracker: Tracker
) -> None:
    """Train on ``context.resources.workers`` workers; what comes of it is in the checkpoints.

    Raises:
        ConfigError: Ray has fewer CPUs or GPUs than the workers need.
        TrainingError: a loss that is not finite.
    """
    resources = context.resources
    threads = max(1, resources.threads // resources.workers)
    RayCluster(cpus=threads * resources.workers).connect()
    _check_room(resources, threads)
    events = ray.util.queue.Queue(actor_options={"num_cpus": 0})
    every = resources.checkpoint_seconds
    work = Work(family, seed, checkpoints, context.inputs, threads, every, events)
    folder = context.store.files.scratch() / f"ray-{uuid.uuid4().hex}"
    outcome: queue.SimpleQueue[object] = queue.SimpleQueue()
    fit = threading.Thread(target=_fit, args=(work, resources, folder, outcome), daemon=True)
    try:
        fit.start()
        while fit.is_alive() or not events.empty():
            _pass_on(events, context, tracker)
        result = outcome.get()
        if isinstance(result, BaseException):
            raise result
    finally:
        events.shutdown(force=True)
        shutil.rmtree(folder, ignore_errors=True)


def _check_room(resources: Resources, threads: int) -> None:
    """Workers that find no room would be waited for without end."""
    there = ray.cluster_resources()
    here = ray.get_runtime_context()
    # Inside a Ray task, what that task holds is not there for the workers that it waits for.
    taken = here.get_assigned_resources() if here.worker.mode == ray.WORKER_MODE else {}
    for kind, each in (("CPU", threads), ("GPU", resources.gpus)):
        need, free = each * resources.workers, there.get(kind, 0) - taken.get(kind, 0)
        if need > free:
            raise ConfigError(
                f"{resources.workers} workers need {need} {kind}s, but Ray has {free:g}",
                where="workers",
                remedy="train with fewer workers or threads, or on a larger Ray cluster",
            )


def _fit(
    work: Work, resources: Resources, folder: Path, outcome: queue.SimpleQueue[object]
) -> None:
    """Run Ray Train to its end and put what came of it: an error, or None."""
    try:
        outcome.put(_trainer(work, resources, folder).fit().return_value)
    except ray.train.WorkerGroupError as error:
        known = (e for e in error.worker_failures.values() if isinstance(e, LexloomError))
        outcome.put(next(known, error))
    except BaseException as error:
        outcome.put(error)


def _trainer(work: Work, resources: Resources, folder: Path) -> ray.train.torch.TorchTrainer:
    share: dict[str, float] = {"CPU": work.threads}
    if resources.gpus:
        share["GPU"] = resources.gpus
    return ray.train.torch.TorchTrainer(
        _work,
        train_loop_config={"work": work},
        torch_config=ray.train.torch.TorchConfig(backend="nccl" if resources.gpus else "gloo"),
        scaling_config=ray.train.ScalingConfig(
            num_workers=resources.workers,
            use_gpu=resources.gpus > 0,
            resources_per_worker=share,
        ),
        # A name that was used before would resume, or return, what Ray remembers of it.
        run_config=ray.train.RunConfig(
            name=folder.name,
            storage_path=str(folder),
            failure_config=ray.train.FailureConfig(
                max_failures=RESTARTS, controller_failure_limit=RESTARTS
            ),
        ),
    )


def _work(config: Mapping[str, Any]) -> TrainingError | None:
    """What a worker runs; an error that another try would only repeat is returned, not raised."""
    work: Work = config["work"]
    torch.set_num_threads(work.threads)
    device, context = ray.train.torch.get_device(), ray.train.get_context()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = work.checkpoints.store
    readers = {role: store.reader(artifact) for role, artifact in work.inputs.items()}
    inputs = read_inputs(work.family, readers)
    model = work.family.build(inputs, seed=work.seed)
    teller = _Teller(work.events)
    common: dict[str, Any] = {
        "place": Place(device, context.get_world_rank(), context.get_world_size()),
        "tracker": teller,
        "progress": teller.progress,
        "checkpoint_seconds": work.checkpoint_seconds,
    }
    given = inputs, work.seed, work.checkpoints
    try:
        if isinstance(model, Learns):
            learn.Loop(model, *given, **common).run()
        else:
            assert isinstance(model, Sweeps)
            sweep.Loop(model, *given, threads=work.threads, **common).run()
    except TrainingError as error:
        return error
    return None


class _Teller:
    """The tracker and progress of a worker: puts them on the queue."""

    def __init__(self, events: Any) -> None:
        self._events = events
        self._last = 0.0

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Metrics at a step."""
        self._events.put((dict(metrics), step))

    def progress(self, done: int, total: int, unit: str) -> None:
        """Progress, at most five times a second."""
        if time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            self._events.put((done, total, unit))


def _pass_on(events: Any, context: Context, tracker: Tracker) -> None:
    """Pass on what the first rank tells, if it does so within half a second."""
    try:
        event = events.get(timeout=0.5)
    except ray.util.queue.Empty:
        return
    if isinstance(event[0], dict):
        tracker.log(*event)
    else:
        context.progress(*event)
