"""Checkpoints of a training: in the store, manifest last, so a half-written one is never read.

They lie under ``checkpoint/<recipe of the model>/<step>/``, each like any artifact.

A checkpoint is weights, optimizer, the random state of every rank and what goes from one batch to
the next (safetensors), and a ``Standing`` (JSON). The two newest stay, and the one with the best
weights. All of them go when the model is committed (``tasks.step.execute``); a training that fails
leaves them, so that a later run of the same recipe goes on from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from tasks.artifacts import Manifest
from tasks.errors import InputError, TrainingError
from tasks.store import MANIFEST, Store, Writer

VERSION = 3
"""Of the format; a checkpoint of another is not read, so training begins anew."""
KEPT = 2
PARTS = ("weights", "optimizer", "random", "carried")

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Standing:
    """How far a training has come; floats survive JSON unchanged.

    Attributes:
        step: optimizer steps done, or chunks swept.
        epoch: the epoch at work.
        batch: batches or chunks of this epoch done.
        scored: tokens (of a table, records) trained on so far, over all epochs.
        seconds: that its steps took.
        elapsed: seconds of all sessions, evaluations and checkpoints included; of one that was
            killed up to its last checkpoint.
        world: ranks that trained.
        precision: of the forward pass, "float32" or "bfloat16".
        loss: summed nats since the last logged step; of sweeps, in this epoch.
        tokens: tokens since the last logged step; of sweeps, training examples in this epoch.
        told: the metrics of every step that was logged, for a tracker that may have missed some.
        heldout: nats per held-out token as last evaluated; None before.
        best: the lowest of them.
        best_step: when that was.
        stale: evaluations since then.
        losses: all of them, in order.
        averages_from: the step after which weights began to be averaged; None before.
        finished: nothing is left to do.
        kept: of sweeps, how many of ``scored`` took part.
        waiting: of sweeps on workers, seconds in which the first waited for the slowest.
        syncing: of sweeps on workers, seconds that exchanges took.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    scored: int = 0
    seconds: float = 0.0
    elapsed: float = 0.0
    world: int = 1
    precision: str = "float32"
    loss: float = 0.0
    tokens: int = 0
    told: tuple[tuple[int, Mapping[str, float]], ...] = ()
    heldout: float | None = None
    best: float | None = None
    best_step: int | None = None
    stale: int = 0
    losses: tuple[float, ...] = ()
    averages_from: int | None = None
    finished: bool = False
    kept: int = 0
    waiting: float = 0.0
    syncing: float = 0.0


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a training needs to go on as if it had never stopped.

    Attributes:
        standing: how far it has come.
        weights: the module's ``state_dict``; where weights are averaged, the averages.
        optimizer: ``<parameter>.<name>`` of its state; empty before the first step. Where weights
            are averaged, ``average`` are the weights themselves.
        random: the state of each rank's generators, ``cpu.<rank>`` and ``cuda.<rank>``.
        carried: of a model that goes on from batch to batch, the state of all streams of text, by
            number; empty at the begin of an epoch.
    """

    standing: Standing
    weights: Arrays
    optimizer: Arrays
    random: Arrays
    carried: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of the model with a recipe; cheap, and safe to send to another process."""

    store: Store
    recipe: str

    @property
    def folder(self) -> str:
        """Where they lie in the store."""
        return f"checkpoint/{self.recipe}"

    @property
    def begun(self) -> bool:
        """Whether there is one, whole or not."""
        return bool(self._steps())

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint and remove those that it makes superfluous."""
        standing = checkpoint.standing
        name = _name(standing.step)
        if self._find(standing.step) is None:
            # A manifest whose parts are gone would win over the one to be written.
            self.store.files.remove(f"{self.folder}/{name}/{MANIFEST}")
        out = Writer(self.store, self.folder, name)
        for part in PARTS:
            out.tensors(f"{part}.safetensors", getattr(checkpoint, part))
        out.json("standing.json", dataclasses.asdict(standing))
        stats = {"step": standing.step}
        self.store.commit(Manifest("checkpoint", self.folder, VERSION, name, out.parts, stats))
        self._prune(standing)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole and whose best one is too, None without one.

        One whose bytes are not those that were written is removed.
        """
        for step in reversed(self._steps()):
            if found := self._whole(step):
                best = found.standing.best_step
                if best in (None, step) or self._whole(best):
                    return found
        return None

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step.

        Raises:
            TrainingError: it is gone.
        """
        found = self._load(step)
        if found is None:
            raise TrainingError(
                f"the checkpoint of step {step} is gone",
                where=f"{self.store.url}/{self.folder}",
                remedy="run the training again",
            )
        return found

    def where(self, step: int) -> str:
        """The address of a step's checkpoint, for people."""
        return f"{self.store.url}/{self.folder}/{_name(step)}"

    def _steps(self) -> list[int]:
        return sorted(int(n) for n in self.store.files.names(self.folder) if n.isdigit())

    def _find(self, step: int) -> Manifest | None:
        manifest = self.store.find(self.folder, _name(step))
        return manifest if manifest and manifest.version == VERSION else None

    def _load(self, step: int) -> Checkpoint | None:
        if (manifest := self._find(step)) is None:
            return None
        reader = self.store.reader(manifest.handle())
        value = reader.json("standing.json")
        value["told"] = tuple((step, metrics) for step, metrics in value["told"])
        value["losses"] = tuple(value["losses"])
        standing = Standing(**value)
        return Checkpoint(standing, *(reader.tensors(f"{part}.safetensors") for part in PARTS))

    def _whole(self, step: int) -> Checkpoint | None:
        try:
            return self._load(step)
        except InputError:
            # Training comes to this step again, and is to write it then.
            self._remove(step)
            return None

    def _prune(self, standing: Standing) -> None:
        steps = [step for step in self._steps() if step <= standing.step]
        whole = [step for step in steps if self._find(step)]
        for step in set(steps) - {*whole[-KEPT:], standing.best_step}:
            self._remove(step)

    def _remove(self, step: int) -> None:
        # The manifest goes first: what is left of a checkpoint is then no checkpoint.
        self.store.files.remove(f"{self.folder}/{_name(step)}/{MANIFEST}")
        self.store.files.remove(f"{self.folder}/{_name(step)}")


def _name(step: int) -> str:
    return f"{step:012d}"


# --- tensors and arrays -----------------------------------------------------------------------


def to_arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    """Tensors of any device as arrays, without a copy where they are on the CPU.

    Arrays know no bfloat16; it goes into float32 without loss.
    """
    return {
        name: (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).detach().cpu().numpy()
        for name, tensor in tensors.items()
    }


def to_tensors(arrays: Arrays) -> dict[str, Tensor]:
    """Arrays as tensors of their own; those that were read are mapped from a file."""
    return {name: torch.tensor(array) for name, array in arrays.items()}
