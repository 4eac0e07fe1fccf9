"""Prefect: the only place where a step, or an effect, becomes a task that its UI shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tasks.errors import LexloomError

T = TypeVar("T")


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


def is_transient(error: BaseException) -> bool:
    """Whether trying again may help: a lost worker or connection, a disk that was busy."""
    if isinstance(error, LexloomError | FileNotFoundError | PermissionError):
        return False
    lost = ("WorkerCrashedError", "NodeDiedError", "ActorDiedError", "RaySystemError")
    return isinstance(error, OSError | TimeoutError) or type(error).__name__ in lost
