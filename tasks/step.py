"""Running a step: look in the store, else compute; here or on Ray; seen in Prefect or not.

A step is a pure function from readers and parameters to parts. This is the only place where
Prefect and Ray touch one: ``Runner.run`` runs a step once over whole artifacts, ``Runner.map``
runs it for every partition, and neither knows what the step does.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from tasks.artifacts import Artifact, Manifest, Part, Stats, canonical_json, recipe_of
from tasks.errors import LexloomError
from tasks.store import Reader, Store, Writer

P = TypeVar("P")
T = TypeVar("T")


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
    """

    name: str
    version: int
    kind: str
    run: Callable[[Context, Mapping[str, Reader], P], Stats]


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
        manifest = store.commit(_manifest(step, recipe, inputs, params, out.parts, stats))
        # What a long step keeps to go on from (tasks.training.checkpoint) has served its turn.
        store.files.remove(f"checkpoint/{recipe}")
        return manifest, False


def _manifest(
    step: Step[P],
    recipe: str,
    inputs: Mapping[str, Artifact],
    params: P,
    parts: tuple[Part, ...],
    stats: Stats,
) -> Manifest:
    lineage = {role: artifact.to_json() for role, artifact in inputs.items()}
    origin = {"params": json.loads(canonical_json(params)), "inputs": lineage}
    return Manifest(step.kind, step.name, step.version, recipe, parts, stats, origin)


# --- where a step computes ------------------------------------------------------------------


@dataclass(frozen=True)
class RayCluster:
    """Where Ray is, and how much of it there is.

    Attributes:
        address: of a running cluster; None starts one on this machine for this process.
        cpus: that a cluster started here offers.
        env: environment variables for its workers.
        verbose: show Ray's own messages.
    """

    address: str | None = None
    cpus: int = 2
    env: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False

    def connect(self) -> Any:
        """The ray module, connected. Ray starts when the first step has something to compute."""
        import ray

        if not ray.is_initialized():
            options: dict[str, Any] = {
                "log_to_driver": self.verbose,
                "logging_level": "INFO" if self.verbose else "ERROR",
                "namespace": "lexloom",
            }
            if self.env:
                options["runtime_env"] = {"env_vars": dict(self.env)}
            if not self.address:
                # Handles cross Ray, never tables: a small object store is enough.
                options |= {
                    "num_cpus": self.cpus,
                    "include_dashboard": False,
                    "object_store_memory": 256 * 2**20,
                }
            # Without an address Ray would join whatever cluster it finds on the machine.
            ray.init(self.address or "local", **options)
        return ray


def _narrate(
    step: Step[Any],
    store: Store,
    inputs: Mapping[str, Artifact],
    params: Any,
    resources: Resources,
) -> Iterator[tuple[int, int, str] | Manifest]:
    """``execute`` as a generator that yields its progress, at most five times a second."""
    events: queue.SimpleQueue[tuple[int, int, str] | Manifest | BaseException] = queue.SimpleQueue()
    last = 0.0

    def progress(done: int, total: int, unit: str) -> None:
        nonlocal last
        if time.monotonic() - last > 0.2:
            last = time.monotonic()
            events.put((done, total, unit))

    def work() -> None:
        try:
            options: dict[str, Any] = {"resources": resources, "progress": progress}
            events.put(execute(step, store, inputs, params, **options)[0])
        except BaseException as error:
            events.put(error)

    threading.Thread(target=work, daemon=True).start()
    while True:
        event = events.get()
        if isinstance(event, BaseException):
            raise event
        yield event
        if isinstance(event, Manifest):
            return


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors of a Ray task as what they are, without the wrapping that Ray puts around them."""
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, LexloomError):
            raise error.cause from None
        raise


def is_transient(error: BaseException) -> bool:
    """Whether trying again may help: a lost worker or connection, a disk that was busy."""
    if isinstance(error, LexloomError | FileNotFoundError | PermissionError):
        return False
    lost = ("WorkerCrashedError", "NodeDiedError", "ActorDiedError", "RaySystemError")
    return isinstance(error, OSError | TimeoutError) or type(error).__name__ in lost


# --- the runner -----------------------------------------------------------------------------


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
    resources: Resources = Resources()
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
            resources: in place of the runner's own.
            in_driver: compute here even if there is a Ray; for steps that start workers themselves.
        """
        resources = resources or self.resources
        name = f"{step.name} {label}".strip()

        def compute() -> Manifest:
            if self.ray is None or in_driver:
                if self.ray is not None:
                    self.ray.connect()  # for the workers that the step starts

                def progress(done: int, total: int, unit: str) -> None:
                    self.observer.advance(name, done, total, unit)

                options: dict[str, Any] = {"resources": resources, "progress": progress}
                return execute(step, self.store, inputs, params, **options)[0]
            ray = self.ray.connect()
            # More threads than the widest node has would wait for ever.
            widest = max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"])
            granted = replace(resources, threads=min(resources.threads, int(widest)))
            options = {"num_cpus": granted.threads, "num_gpus": granted.gpus}
            task = ray.remote(**options, num_returns="streaming", max_retries=0)(_narrate)
            with _plain_errors():
                for event in task.remote(step, self.store, dict(inputs), params, granted):
                    value = ray.get(event)
                    if isinstance(value, Manifest):
                        return value
                    self.observer.advance(name, *value)
            raise RuntimeError(f"{name} ended without a result")

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
            manifest = _manifest(step, recipe, {**over, **whole}, params, merged, _sum(members))
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
        for index, manifest in self._compute(step, rows, missing, params):
            members[index] = manifest
            finished += 1
            self.observer.advance(name, finished, len(rows), "partitions")
        return [member for member in members if member is not None], len(missing)

    def _compute(
        self,
        step: Step[P],
        rows: Sequence[Mapping[str, Artifact]],
        missing: Sequence[int],
        params: P,
    ) -> Iterator[tuple[int, Manifest]]:
        one = replace(self.resources, threads=1)
        if self.ray is None or len(missing) == 0:
            for i in missing:
                yield i, execute(step, self.store, rows[i], params, resources=one)[0]
            return
        ray = self.ray.connect()
        task = ray.remote(num_cpus=1, max_retries=3)(execute)
        waiting, running = list(reversed(missing)), dict[Any, int]()
        # Enough tasks in flight to keep every worker busy, never a task for every partition.
        flight = 2 * int(ray.cluster_resources().get("CPU", 1))
        with _plain_errors():
            while waiting or running:
                while waiting and len(running) < flight:
                    i = waiting.pop()
                    reference = task.remote(step, self.store, dict(rows[i]), params, resources=one)
                    running[reference] = i
                ready, _ = ray.wait(list(running), num_returns=1)
                for reference in ready:
                    yield running.pop(reference), ray.get(reference)[0]

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


def as_prefect_task(name: str, action: Callable[[], T], reused: Callable[[T], str]) -> T:
    """Run an action as a Prefect task.

    The store is the only cache: Prefect's own is off, its retries are for transient errors.

    Args:
        name: what the UI shows; its first word names the task.
        action: called again after a transient error, at most three times.
        reused: says what the result was found by; if not empty, the UI shows "Reused".
    """
    from prefect import task
    from prefect.cache_policies import NO_CACHE
    from prefect.client.schemas.objects import State
    from prefect.states import Completed, Failed
    from prefect.tasks import exponential_backoff

    results: list[T] = []
    refusals: list[LexloomError] = []

    def retry(task: Any, run: Any, state: State[Any]) -> bool:
        return isinstance(state.data, Exception) and is_transient(state.data)

    @task(
        name=name.split(" ")[0],
        task_run_name=name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=3,
        retry_delay_seconds=exponential_backoff(backoff_factor=2),
        retry_condition_fn=retry,
        log_prints=False,
    )
    def step() -> State[Any] | None:
        try:
            results.append(action())
        except LexloomError as error:
            # As a state of ours it carries the message alone, and no traceback into the log.
            refusals.append(error)
            return Failed(message=str(error), data=error)
        found = reused(results[-1])
        return Completed(name="Reused", message=found) if found else None

    step()
    if refusals:
        raise refusals[-1]
    return results[-1]


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
