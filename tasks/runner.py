"""The runner: looks in the store, else computes, here or on Ray, seen in Prefect or not.

``Runner.run`` runs a step once over whole artifacts, ``Runner.map`` runs it for every partition,
and neither knows what the step does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from tasks.artifacts import Artifact, Manifest, Part, Stats, recipe_of
from tasks.cluster import Progress, RayCluster
from tasks.prefect_task import as_prefect_task
from tasks.step import Resources, Step, execute, manifest_of
from tasks.store import Store

P = TypeVar("P")


@dataclass(frozen=True)
class Outcome:
    """A step's artifact, and whether it was there already.

    Attributes:
        artifact: its handle.
        name: the step with its label, "tokenize train".
        reused: nothing was computed.
        seconds: it took.
        computed: partitions computed, of ``total``.
        total: partitions in all.
        stats: what the step counted.
    """

    artifact: Artifact
    name: str
    reused: bool
    seconds: float
    computed: int
    total: int
    stats: Stats


class Observer(Protocol):
    """Somebody who watches steps."""

    def begin(self, name: str) -> None:
        """A step begins to compute."""
        ...

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """It has come so far."""
        ...

    def end(self, outcome: Outcome) -> None:
        """It has ended, or was reused without a beginning."""
        ...


class Unobserved:
    """Nobody watches."""

    def begin(self, name: str) -> None:
        """Nothing."""

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """Nothing."""

    def end(self, outcome: Outcome) -> None:
        """Nothing."""


@dataclass
class Runner:
    """Runs steps over a store and remembers what came of them.

    Attributes:
        store: where the artifacts lie.
        ray: where to compute; None computes in this process.
        visible: show every step as a Prefect task of the flow that is running.
        resources: for every step, unless ``run`` is given others.
        observer: watches.
        outcomes: what has been run so far.
    """

    store: Store
    ray: RayCluster | None = None
    visible: bool = False
    resources: Resources = field(default_factory=Resources)
    observer: Observer = field(default_factory=Unobserved)
    outcomes: list[Outcome] = field(default_factory=list)

    def run(
        self,
        step: Step[P],
        inputs: Mapping[str, Artifact],
        params: P,
        *,
        label: str = "",
        resources: Resources | None = None,
        in_driver: bool = False,
    ) -> Artifact:
        """Run a step once over whole artifacts.

        Args:
            step: the step.
            inputs: artifacts by role.
            params: its parameters, a frozen dataclass.
            label: tells this use of the step from others in lists ("train").
            resources: in place of the runner's own, of whose threads a step gets one unless it
                uses more.
            in_driver: compute here even if there is a Ray; for steps that start workers themselves.
        """
        if resources is None:
            threads = self.resources.threads if step.threaded else 1
            resources = replace(self.resources, threads=threads)
        name = f"{step.name} {label}".strip()

        def progress(done: int, total: int, unit: str) -> None:
            self.observer.advance(name, done, total, unit)

        def compute() -> Manifest:
            if self.ray is not None and not in_driver:
                return self.ray.run(step, self.store, inputs, params, resources, progress)
            if self.ray is not None:
                self.ray.connect()  # for the workers that the step starts
            options: dict[str, Any] = {"resources": resources, "progress": progress}
            return execute(step, self.store, inputs, params, **options)[0]

        recipe = recipe_of(step.name, step.version, params, inputs)
        return self._seen(
            name, lambda: self.store.find(step.name, recipe), lambda: (compute(), 1), whole=True
        )

    def map(
        self,
        step: Step[P],
        over: Mapping[str, Artifact],
        params: P,
        *,
        whole: Mapping[str, Artifact] | None = None,
        label: str = "",
    ) -> Artifact:
        """Run a step for every partition, and list the results as one artifact.

        Args:
            step: run once a partition; what it writes, one partition or more, is put in order.
            over: artifacts with equally many partitions, which the step is given one at a time.
            params: its parameters.
            whole: artifacts that every call is given whole.
            label: tells this use of the step from others in lists.
        """
        whole = whole or {}
        name = f"{step.name} {label}".strip()
        recipe = recipe_of(f"{step.name}[]", step.version, params, {**over, **whole})

        def compute() -> tuple[Manifest, int]:
            columns = {role: self.store.partitions(artifact) for role, artifact in over.items()}
            if len({len(column) for column in columns.values()}) > 1:
                raise ValueError(
                    f"{name}: { ({r: len(c) for r, c in columns.items()}) } partitions"
                )
            rows = [
                {**dict(zip(columns, row, strict=True)), **whole}
                for row in zip(*columns.values(), strict=True)
            ]
            members, computed = self._each(step, rows, params, name)
            merged = _concatenate(members)
            manifest = manifest_of(step, recipe, {**over, **whole}, params, merged, _sum(members))
            return self._publish(manifest), computed

        return self._seen(name, lambda: self.store.find(step.name, recipe), compute)

    def _publish(self, manifest: Manifest) -> Manifest:
        with self.store.lease(manifest.step, manifest.recipe):
            if found := self.store.find(manifest.step, manifest.recipe):
                return found
            self.store.discard(manifest.step, manifest.recipe)
            return self.store.commit(manifest)

    def _each(
        self, step: Step[P], rows: Sequence[Mapping[str, Artifact]], params: P, name: str
    ) -> tuple[list[Manifest], int]:
        """The manifests of a step over every row of inputs, and how many were computed."""
        members: list[Manifest | None] = []
        for row in rows:
            key = recipe_of(step.name, step.version, params, row)
            members.append(self.store.find(step.name, key))
        missing = [i for i, member in enumerate(members) if member is None]
        finished = len(rows) - len(missing)

        def within(done: int, total: int, unit: str) -> None:
            if len(missing) == 1:  # of several at once, only those that have ended are told
                self.observer.advance(name, done, total, unit)

        for i, manifest in self._compute(step, [rows[i] for i in missing], params, within):
            members[missing[i]] = manifest
            finished += 1
            self.observer.advance(name, finished, len(rows), "partitions")
        return [member for member in members if member is not None], len(missing)

    def _compute(
        self, step: Step[P], rows: Sequence[Mapping[str, Artifact]], params: P, progress: Progress
    ) -> Iterator[tuple[int, Manifest]]:
        one = replace(self.resources, threads=1)
        if self.ray is None:
            for i, row in enumerate(rows):
                options: dict[str, Any] = {"resources": one, "progress": progress}
                yield i, execute(step, self.store, row, params, **options)[0]
        elif len(rows) == 1:
            yield 0, self.ray.run(step, self.store, rows[0], params, one, progress)
        elif rows:
            yield from self.ray.each(step, self.store, rows, params, one)

    def _seen(
        self,
        name: str,
        find: Callable[[], Manifest | None],
        compute: Callable[[], tuple[Manifest, int]],
        *,
        whole: bool = False,
    ) -> Artifact:
        """Find or compute, under the eyes of the observer and, if asked, of Prefect."""

        def attempt() -> Outcome:
            began = time.monotonic()
            manifest, computed = find(), 0
            if manifest is None:
                self.observer.begin(name)
                manifest, computed = compute()
            total = 1 if whole else manifest.n_partitions
            seconds = time.monotonic() - began
            return Outcome(
                manifest.handle(), name, computed == 0, seconds, computed, total, manifest.stats
            )

        def found(outcome: Outcome) -> str:
            content = outcome.artifact.content
            return f"content {content[:12]} was in the store" if outcome.reused else ""

        outcome = as_prefect_task(name, attempt, found) if self.visible else attempt()
        self.outcomes.append(outcome)
        self.observer.end(outcome)
        return outcome.artifact


def _concatenate(members: Sequence[Manifest]) -> tuple[Part, ...]:
    parts: list[Part] = []
    base = 0
    for member in members:
        parts += [replace(part, partition=base + part.partition) for part in member.parts]
        base += member.n_partitions
    return tuple(parts)


def _sum(members: Sequence[Manifest]) -> Stats:
    total: Counter[str] = Counter()
    for member in members:
        total.update({k: v for k, v in member.stats.items() if isinstance(v, int)})
    return dict(total)
