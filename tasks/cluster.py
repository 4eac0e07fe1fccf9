"""Ray: where steps compute when they do not compute in this process.

Handles cross Ray, never tables; workers read and write the store themselves.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tasks.artifacts import Artifact, Manifest
from tasks.errors import LexloomError
from tasks.step import Resources, Step, execute
from tasks.store import Store

P = TypeVar("P")
Progress = Callable[[int, int, str], None]


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
            handler = signal.getsignal(signal.SIGTERM)
            # Without an address Ray would join whatever cluster it finds on the machine.
            ray.init(self.address or "local", **options)
            if threading.current_thread() is threading.main_thread():
                # On SIGTERM Ray would go before a run has said how it ended.
                signal.signal(signal.SIGTERM, handler)
        return ray

    def run(
        self,
        step: Step[P],
        store: Store,
        inputs: Mapping[str, Artifact],
        params: P,
        resources: Resources,
        progress: Progress,
    ) -> Manifest:
        """A step's manifest, computed by one worker with the threads and GPUs that it asks for."""
        ray = self.connect()
        # More threads than the widest node has would wait for ever.
        widest = max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"])
        granted = replace(resources, threads=min(resources.threads, int(widest)))
        options = {"num_cpus": granted.threads, "num_gpus": granted.gpus}
        task = ray.remote(**options, num_returns="streaming", max_retries=0)(_narrate)
        with _plain_errors():
            for event in task.remote(step, store, dict(inputs), params, granted):
                value = ray.get(event)
                if isinstance(value, Manifest):
                    return value
                progress(*value)
        raise RuntimeError(f"{step.name} ended without a result")

    def each(
        self,
        step: Step[P],
        store: Store,
        rows: Sequence[Mapping[str, Artifact]],
        params: P,
        resources: Resources,
    ) -> Iterator[tuple[int, Manifest]]:
        """The number and the manifest of every row of inputs, in the order in which they end."""
        ray = self.connect()
        task = ray.remote(num_cpus=1, max_retries=3)(execute)
        waiting, running = list(reversed(range(len(rows)))), dict[Any, int]()
        # Enough tasks in flight to keep every worker busy, never a task for every partition.
        flight = 2 * int(ray.cluster_resources().get("CPU", 1))
        with _plain_errors():
            while waiting or running:
                while waiting and len(running) < flight:
                    i = waiting.pop()
                    reference = task.remote(step, store, dict(rows[i]), params, resources=resources)
                    running[reference] = i
                ready, _ = ray.wait(list(running), num_returns=1)
                for reference in ready:
                    yield running.pop(reference), ray.get(reference)[0]


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
