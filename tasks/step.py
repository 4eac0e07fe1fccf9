"""A step: a pure function from readers and parameters to parts, looked up before it computes.

Nothing here knows of Ray (``tasks.cluster``) or Prefect (``tasks.runner``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tasks.artifacts import Artifact, Manifest, Part, Stats, canonical_json, recipe_of
from tasks.store import Reader, Store, Writer

P = TypeVar("P")


@dataclass(frozen=True)
class Resources:
    """With what a step works. Nothing here may change what it makes, so none of it is keyed.

    Attributes:
        threads: threads of one process.
        workers: processes of a distributed training.
        gpus: GPUs of each worker.
        memory: bytes that the tables of one step may take; what is larger goes through the disk.
        checkpoint_seconds: a long training writes a checkpoint at least so often.
        tracking_uri: where MLflow listens; empty for no tracking.
        labels: names and ids for MLflow (experiment, family, flow run).
    """

    threads: int = 1
    workers: int = 1
    gpus: int = 0
    memory: int = 1 << 30
    checkpoint_seconds: float = 60.0
    tracking_uri: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a step is given besides its inputs and parameters.

    Attributes:
        store: for steps that keep checkpoints of their own.
        recipe: of the artifact being made.
        out: takes its parts.
        resources: with what to work.
        progress: called as ``progress(done, total, unit)`` during long work; cheap.
        inputs: what the readers read, for steps that hand it on to other processes.
    """

    store: Store
    recipe: str
    out: Writer
    resources: Resources
    progress: Callable[[int, int, str], None]
    inputs: Mapping[str, Artifact] = field(default_factory=dict)


@dataclass(frozen=True)
class Step(Generic[P]):
    """A step by name.

    Attributes:
        name: of its folder in the store, and in every list of steps.
        version: raised whenever its output changes for the same inputs and parameters.
        kind: of the artifact that it makes.
        run: reads its inputs by role and writes parts to ``context.out``.
        threaded: whether it makes use of more than one thread.
    """

    name: str
    version: int
    kind: str
    run: Callable[[Context, Mapping[str, Reader], P], Stats]
    threaded: bool = False


def execute(
    step: Step[P],
    store: Store,
    inputs: Mapping[str, Artifact],
    params: P,
    *,
    resources: Resources = Resources(),
    progress: Callable[[int, int, str], None] = lambda done, total, unit: None,
) -> tuple[Manifest, bool]:
    """The manifest of a step's output, computed in this process unless the store has it.

    Returns:
        the manifest, and whether it was reused.
    """
    recipe = recipe_of(step.name, step.version, params, inputs)
    if found := store.find(step.name, recipe):
        return found, True
    with store.lease(step.name, recipe):
        if found := store.find(step.name, recipe):
            return found, True
        store.discard(step.name, recipe)
        out = Writer(store, step.name, recipe)
        readers = {role: store.reader(artifact) for role, artifact in inputs.items()}
        context = Context(store, recipe, out, resources, progress, inputs)
        stats = step.run(context, readers, params)
        manifest = store.commit(manifest_of(step, recipe, inputs, params, out.parts, stats))
        # What a long step keeps to go on from (tasks.training.checkpoint) has served its turn.
        store.files.remove(f"checkpoint/{recipe}")
        return manifest, False


def manifest_of(
    step: Step[P],
    recipe: str,
    inputs: Mapping[str, Artifact],
    params: P,
    parts: tuple[Part, ...],
    stats: Stats,
) -> Manifest:
    """The manifest of parts, with what they were made from."""
    lineage = {role: artifact.to_json() for role, artifact in inputs.items()}
    origin = {"params": json.loads(canonical_json(params)), "inputs": lineage}
    return Manifest(step.kind, step.name, step.version, recipe, parts, stats, origin)
