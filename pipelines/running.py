"""A run from the command line: through the Prefect flow and Ray, or directly in this process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from rich.console import Console

from pipelines.config import RunConfig
from pipelines.console import Watch, quieten
from pipelines.job import Job, RunResult
from pipelines.recipes import RECIPES
from pipelines.settings import Settings
from tasks.runner import Runner
from tasks.store import Store


def run_directly(
    config: RunConfig, settings: Settings, console: Console, *, verbose: bool = False
) -> RunResult:
    """Run a config in this process, without Prefect and without Ray."""
    with Watch(console) as watch:
        if not verbose:
            quieten(settings.home / "logs" / "run.log")
        store = Store(settings.store, settings.home / "cache")
        return Job(
            config, settings, Runner(store, resources=settings.resources, observer=watch)
        ).run()


def run_flow(
    recipe: str,
    data: str,
    families: Sequence[str],
    overrides: Sequence[str],
    settings: Settings,
    console: Console,
    *,
    verbose: bool = False,
) -> RunResult:
    """Run the main flow in this process, on the configured Prefect server or a temporary one."""
    with Watch(console) as watch:
        if not os.environ.get("PREFECT_API_URL"):
            with watch.doing("starting a temporary Prefect server"):
                start_server(settings.home)
        from prefect.exceptions import CancelledRun

        from pipelines.embeddings import embeddings
        from pipelines.flow import watching

        if not verbose:
            quieten(settings.home / "logs" / "run.log")
        if recipe not in RECIPES:
            recipe = str(Path(recipe).expanduser().absolute())
        data = data and str(Path(data).expanduser().absolute())
        token = watching.set(watch)
        try:
            return embeddings(recipe, data, list(families), list(overrides))
        except CancelledRun:
            raise KeyboardInterrupt from None
        finally:
            watching.reset(token)


def start_server(home: Path) -> None:
    """Start Prefect's temporary server, which ends with this process.

    One at a time: two that set up the same new database at once would break each other. It must
    not hear the Ctrl-C that stops this process, which has still to tell it how the run ended: it is
    started from a thread that blocks the signal, as is then what the thread starts.
    """
    from prefect.server.api.server import SubprocessASGIServer

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        SubprocessASGIServer().start()

    with (home / "prefect.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end_orphans(home)
        with ThreadPoolExecutor(1) as threads:
            threads.submit(start).result()


def end_orphans(home: Path) -> None:
    """End temporary servers of this home whose runs were killed: nobody else would."""
    for process in psutil.process_iter(["ppid", "cmdline"]):
        if process.info["ppid"] != 1 or os.getpid() == 1:
            continue
        if "prefect.server.api.server:create_app" not in (process.info["cmdline"] or []):
            continue
        with contextlib.suppress(psutil.Error):
            if process.environ().get("PREFECT_HOME") == str(home / "prefect"):
                process.terminate()
                deadline = time.monotonic() + 10
                # Whoever inherited it may be slow to take notice of its end.
                while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
                    time.sleep(0.1)
