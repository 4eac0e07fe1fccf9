"""Whether a plan was right: what ``lexloom plan`` foretold is kept, and held against the run."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from pipelines.config import RunConfig
from pipelines.job import RunResult
from pipelines.plan import Plan
from pipelines.settings import Settings
from tasks.artifacts import digest
from tasks.store import Store

EVERY = 0.5
"""Seconds between two looks at the memory."""


def keep(plan: Plan, config: RunConfig, settings: Settings) -> None:
    """Keep what a plan foretells until a run of the same config."""
    path = _path(config, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    value = {
        "flow": [plan.seconds, plan.memory, plan.disk],
        "direct": [plan.seconds_direct, plan.memory_direct, plan.disk],
        "to do": sum(not step.cached for step in plan.steps),
    }
    aside = path.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(value))
    aside.replace(path)


def compare(
    config: RunConfig, settings: Settings, result: RunResult, took: Measured, *, direct: bool
) -> dict[str, dict[str, float]] | None:
    """What was foretold of a run that has just ended, beside what it took; None without a plan.

    Time in seconds, memory of all processes at the peak and disk in bytes. A plan of which some
    was made in the meantime says nothing of this run.
    """
    path = _path(config, settings)
    try:
        value = json.loads(path.read_text())
        plan = value["direct" if direct else "flow"]
        to_do = value["to do"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    path.unlink(missing_ok=True)
    if to_do == 0 or to_do != sum(not outcome.reused for outcome in result.outcomes):
        return None
    figures = {
        "time": took.seconds,
        "memory": took.memory,
        "disk": took.grown + _written(result, settings),
    }
    return {
        name: {"foretold": told, "took": found}
        for (name, found), told in zip(figures.items(), plan, strict=True)
    }


def _path(config: RunConfig, settings: Settings) -> Path:
    return settings.home / "plans" / f"{digest(config.model_dump(mode='json'))[:16]}.json"


def _written(result: RunResult, settings: Settings) -> int:
    """The bytes of all parts that a run wrote to the store."""
    store = Store(settings.store, settings.home / "cache")
    made = [outcome.artifact for outcome in result.outcomes if not outcome.reused]
    parts = [part for artifact in made for part in store.manifest(artifact).parts]
    return sum(part.size for part in parts if not part.path.startswith("/"))


@dataclass
class Measured:
    """Measures a block: time, the memory of this process and all below it, how a home grows.

    Attributes:
        home: the folder; the store in it is left out.
        seconds: that the block took.
        memory: at the peak, in bytes.
        grown: bytes that came to the home.
    """

    home: Path
    seconds: float = 0.0
    memory: int = 0
    grown: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Measured:
        self._began, self._before = time.monotonic(), _size(self.home)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._look()  # what has ended sooner than it was looked at
        self._ended.set()
        self._thread.join()
        self.seconds = time.monotonic() - self._began
        self.grown = _size(self.home) - self._before

    def _watch(self) -> None:
        while not self._ended.wait(EVERY):
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(psutil.Error):
            me = psutil.Process()
            family = [me, *me.children(recursive=True)]
            self.memory = max(self.memory, sum(map(_resident, family)))


def _size(home: Path) -> int:
    """The bytes in a home besides its store."""
    size = 0
    for folder, folders, files in os.walk(home):
        if Path(folder) == home:
            folders[:] = [name for name in folders if name not in ("store", "cache", "logs")]
        for name in files:
            with contextlib.suppress(OSError):
                size += Path(folder, name).stat().st_size
    return size


def _resident(process: psutil.Process) -> int:
    """The memory of a process, of what it shares only its share where the system tells that."""
    with contextlib.suppress(OSError, psutil.Error):
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except FileNotFoundError:
            return int(process.memory_info().rss)
        line = next((row for row in text.splitlines() if row.startswith("Pss:")), "Pss: 0 kB")
        return 1024 * int(line.split()[1])
    return 0
