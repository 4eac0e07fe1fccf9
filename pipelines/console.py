"""What a person sees of a run in a terminal: progress bars, plain lines where there is none."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from tasks.runner import Outcome

LINE_EVERY = 15.0
"""Seconds between progress lines where there is no terminal for a bar."""


def human(number: float) -> str:
    """A number with at most three digits and its thousands: 950, 1.2k, 34M."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5 or unit == "G":
            break
        number /= 1000
    return f"{number:.0f}{unit}" if number >= 9.95 or unit == "" else f"{number:.1f}{unit}"


def span(seconds: float) -> str:
    """A time span: 0.4 s, 12 s, 3:05, 1:02:03."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def far(done: float, total: float, unit: str, elapsed: float) -> str:
    """How far something is, how fast, and how long it will take."""
    parts = [f"{human(done)}/{human(total)} {unit}"]
    if done and elapsed > 0.5:
        parts.append(f"{human(done / elapsed)}/s")
        parts.append(f"{span((total - done) * elapsed / done)} left")
    return ", ".join(parts)


class _Far(ProgressColumn):
    """Done, total, rate and time left of a task that has told how far it is."""

    def render(self, task: Task) -> Text:
        """The text of a task."""
        if not task.total:
            return Text("")
        elapsed = time.monotonic() - task.fields["began"]
        return Text(far(task.completed, task.total, task.fields["unit"], elapsed), "dim")


@dataclass
class Watch:
    """Shows steps as they run; a ``tasks.runner.Observer`` and a context manager.

    Attributes:
        console: where to; bars if it is a terminal.
    """

    console: Console
    _bars: Progress | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _first: dict[str, tuple[float, int]] = field(default_factory=dict)
    _said: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> Watch:
        if self.console.is_terminal:
            self._bars = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(24),
                _Far(),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars:
            self._bars.stop()

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Something that is no step: starting a server."""
        self.begin(what)
        began = time.monotonic()
        yield
        self._close(what)
        self._line(what, span(time.monotonic() - began))

    def begin(self, name: str) -> None:
        """A step begins."""
        self._said[name] = time.monotonic()
        if self._bars:
            began = time.monotonic()
            self._tasks[name] = self._bars.add_task(name, total=None, unit="", began=began)

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """It has come so far; rates count from the first word on, not from the start of Ray."""
        now = time.monotonic()
        began, before = self._first.setdefault(name, (now, done))
        if self._bars:
            if name not in self._tasks:
                self.begin(name)
            # The bar's own clock would count the start; the share that was there then is left out.
            rate_since = began if done <= before else now - (now - began) * done / (done - before)
            self._bars.update(
                self._tasks[name], completed=done, total=total, unit=unit, began=rate_since
            )
        elif now - self._said.get(name, 0.0) > LINE_EVERY:
            self._said[name] = now
            self._line(name, far(done - before, total - before, unit, now - began))

    def end(self, outcome: Outcome) -> None:
        """It has ended."""
        self._close(outcome.name)
        if outcome.reused:
            self._line(outcome.name, "reused")
            return
        parts = ""
        if outcome.total > 1:
            parts = f", {outcome.computed} of {outcome.total} partitions"
        self._line(outcome.name, span(outcome.seconds) + parts)

    def _close(self, name: str) -> None:
        if self._bars and name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
        self._first.pop(name, None)

    def _line(self, name: str, text: str) -> None:
        self.console.print(f"  {name:<24} {text}", style="dim", highlight=False)


def quieten(log: Path) -> None:
    """Send what libraries log to a file; call it after they were imported."""
    log.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    names = [name for name in logging.root.manager.loggerDict if name.count(".") < 2]
    for logger in [logging.root, *(logging.getLogger(name) for name in names)]:
        for old in list(logger.handlers):
            # Handlers that write to a terminal; Prefect's one to its API stays.
            if isinstance(old, logging.StreamHandler) and not isinstance(old, logging.FileHandler):
                logger.removeHandler(old)
                if logger is not logging.root:
                    logger.addHandler(handler)
    logging.root.addHandler(handler)
