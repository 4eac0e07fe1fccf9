"""What the flows share: how a job runs under Prefect, and what Prefect is shown of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import psutil
from prefect import get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run
from prefect.states import Cancelled, Failed

from pipelines.config import RunConfig
from pipelines.console import Pace, far, span
from pipelines.job import Job, RunResult
from pipelines.settings import Settings
from tasks.cluster import RayCluster
from tasks.corpus import Corpus
from tasks.counted import counted
from tasks.errors import LexloomError
from tasks.leaderboard import Row, leaderboard_markdown
from tasks.prefect_task import as_prefect_task
from tasks.published import published_markdown
from tasks.runner import Observer, Outcome, Runner, Unobserved
from tasks.store import Store
from tasks.tracking import bury_dead_if_possible

T = TypeVar("T")

watching: ContextVar[Observer] = ContextVar("watching", default=Unobserved())  # noqa: B039
"""Who else watches the flows that are run in this context: the command line's progress bars."""

PROGRESS_AFTER, PROGRESS_EVERY = 3.0, 2.0
"""Seconds before a step gets a progress artifact, and between updates of it."""
WORKERS_END = 10.0
"""Seconds that the workers of a Ray of this process have to end."""


def job(config: RunConfig) -> Job:
    """The job of a config as this flow runs it: on Ray, its steps shown as tasks."""
    settings = Settings.load()
    store = Store(settings.store, settings.home / "cache")
    ray = RayCluster(settings.ray_address or None, settings.threads)
    runner = Runner(
        store,
        ray,
        visible=True,
        resources=settings.resources,
        observer=Shown(watching.get()),
    )
    run_id = str(flow_run.get_id() or "")
    return Job(config, settings, runner, effect, {"flow_run_id": run_id})


def effect(name: str, action: Callable[[], T], /) -> T:
    """Run an effect as a task."""
    return as_prefect_task(name, action, lambda _: "")


def concluding(run: Callable[[], T]) -> T | State[Any]:
    """Run the body of a flow; what ends it early becomes a final state that says why.

    A permanent error becomes the message of a failure. A cancellation from the UI arrives as
    SIGTERM, as does a worker that is shut down: Prefect would take both for a crash. Somebody at a
    command line stops a run by Ctrl-C or SIGTERM.
    """
    try:
        return run()
    except LexloomError as error:
        get_run_logger().error(str(error))
        return Failed(message=str(error), data=error)
    except (KeyboardInterrupt, SystemExit, TerminationSignal):
        attended = not isinstance(watching.get(), Unobserved)
        stopped = attended or _is_cancelled()
        abandon(Settings.load())
        if not stopped:
            raise
        return Cancelled(message="Cancelled; what was finished is kept")


def abandon(settings: Settings) -> None:
    """End what still computes for this process on Ray, and close the MLflow runs of its trainings.

    Workers that were killed leave their runs as running: MLflow cannot know.
    """
    workers = [child for child in psutil.Process().children(recursive=True) if _of_ray(child)]
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        sys.modules["ray"].shutdown()
    psutil.wait_procs(workers, timeout=WORKERS_END)
    bury_dead_if_possible(settings.tracking_uri)


def _of_ray(process: psutil.Process) -> bool:
    try:
        return str(process.name()).startswith("ray")
    except psutil.Error:
        return False


def _is_cancelled() -> bool:
    run_id = flow_run.get_id()
    if not run_id:
        return False
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(run_id)).state
    return state is not None and (state.is_cancelling() or state.is_cancelled())


@dataclass
class Shown:
    """Shows steps in Prefect: a log line each, and a progress artifact for the long ones.

    Attributes:
        besides: another observer that is told the same.
    """

    besides: Observer
    _began: dict[str, float] = field(default_factory=dict)
    _artifacts: dict[str, UUID] = field(default_factory=dict)
    _updated: dict[str, float] = field(default_factory=dict)
    _paces: dict[str, Pace] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        """A step begins."""
        self.besides.begin(name)
        self._began[name] = time.monotonic()

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """It has come so far."""
        self.besides.advance(name, done, total, unit)
        now = time.monotonic()
        rate = self._paces.setdefault(name, Pace()).tell(now, done, unit)
        since = self._updated.get(name, self._began.get(name, now) + PROGRESS_AFTER)
        if now - since < (PROGRESS_EVERY if name in self._artifacts else 0):
            return
        self._updated[name] = now
        share = min(100.0, 100.0 * done / total) if total else 0.0
        about = f"{name}: {far(done, total, unit, rate)}"
        if name in self._artifacts:
            update_progress_artifact(self._artifacts[name], progress=share, description=about)
        else:
            made = create_progress_artifact(share, description=about)
            if isinstance(made, UUID):
                self._artifacts[name] = made

    def end(self, outcome: Outcome) -> None:
        """It has ended."""
        self.besides.end(outcome)
        if artifact := self._artifacts.pop(outcome.name, None):
            ended = f"{outcome.name}: {span(outcome.seconds)}"
            update_progress_artifact(artifact, progress=100.0, description=ended)
        if outcome.reused:
            get_run_logger().info("%s: reused", outcome.name)
        else:
            parts = f", {outcome.computed} of {outcome.total} partitions" * (outcome.total > 1)
            get_run_logger().info("%s: %.1f s%s", outcome.name, outcome.seconds, parts)


def show_card(corpus: Corpus, path: Path) -> None:
    """The card of a corpus, which lies at ``path``, as an artifact of the flow run."""
    create_markdown_artifact(
        path.read_text("utf-8", "replace"),
        key=f"card-{corpus.config.name}".lower().replace("_", "-"),
        description=f"What is in the corpus; also in {path}",
    )


def show_result(result: RunResult) -> None:
    """The leaderboard, the report and the card of the corpus as artifacts of the flow run."""
    show_card(result.corpus, result.card)
    name = result.corpus.config.name.lower().replace("_", "-")
    create_table_artifact(
        _flat(result.rows), key=f"leaderboard-{name}", description="One row a family"
    )
    if result.published:
        create_markdown_artifact(
            published_markdown(result.rows, result.published),
            key=f"published-{name}",
            description="Beside the figures of a paper",
        )
    create_markdown_artifact(
        # Browsers refuse to follow a link from a page to a file.
        f"`{result.report}`\n\n{leaderboard_markdown(result.rows)}",
        key=f"report-{name}",
        description="Where the report lies on the machine of the run, and the leaderboard",
    )


def _flat(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The leaderboard with a text in every cell."""
    names = list(dict.fromkeys(score.name for row in rows for score in row.scores))

    def cells(row: Row) -> dict[str, str]:
        scores = {
            score.name: f"{score.shown} ({score.scored:,} of {counted(score.total, score.items)})"
            for score in row.scores
        }
        return {
            "model": row.called,
            "trained in": row.seconds,
            "rate": row.rate,
            **{name: scores.get(name, "") for name in names},
            "registered": str(row.registered or ""),
        }

    return [cells(row) for row in rows]
