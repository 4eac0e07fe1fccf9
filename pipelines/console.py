"""What a person sees of a run in a terminal: progress bars, plain lines where there is none."""

from __future__ import annotations

import logging
import time
from collections import deque
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
RECENT = 20.0
"""Seconds that a rate is taken over."""


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


def far(done: float, total: float, unit: str, rate: float = 0.0) -> str:
    """How far something is; how fast, and how long it will take, if a rate is known."""
    parts = [f"{human(done)}/{human(total)} {unit}" if total else f"{human(done)} {unit}"]
    if rate > 0:
        parts.append(f"{human(rate)}/s")
        if total:
            parts.append(f"{span(max(0.0, total - done) / rate)} left")
    return ", ".join(parts)


class Pace:
    """How fast something goes at present: over the last seconds, not since the start.

    A start on a busy machine, a warm-up or what was found done tells nothing of the rest.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._unit = ""

    def tell(self, now: float, done: int, unit: str) -> float:
        """Note how far it is, and return the rate a second; 0 while it is not known.

        Args:
            now: in seconds of some clock.
            done: so many by now; fewer than before, or another unit, is a new beginning.
            unit: what they are.
        """
        if unit != self._unit or (self._seen and done < self._seen[-1][1]):
            self._seen.clear()
            self._unit = unit
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RECENT:
            self._seen.popleft()
        since, before = self._seen[0]
        elapsed = now - since
        return (done - before) / elapsed if elapsed > 0.5 else 0.0


class _Far(ProgressColumn):
    """Done, total, rate and time left of a task that has told how far it is."""

    def render(self, task: Task) -> Text:
        """The text of a task."""
        if not task.fields["unit"]:
            return Text("")
        return Text(far(task.completed, task.total or 0, task.fields["unit"], task.fields["rate"]))


@dataclass
class Watch:
    """Shows steps as they run; a ``tasks.runner.Observer`` and a context manager.

    Attributes:
        console: where to; bars if it is a terminal.
    """

    console: Console
    _bars: Progress | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _paces: dict[str, Pace] = field(default_factory=dict)
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
        if not self._bars:
            self._print(f"{what} ...")
        self.begin(what)
        began = time.monotonic()
        try:
            yield
        finally:
            self._close(what)
        self._line(what, span(time.monotonic() - began))

    def begin(self, name: str) -> None:
        """A step begins."""
        self._said[name] = time.monotonic()
        self._paces[name] = Pace()
        if self._bars:
            self._tasks[name] = self._bars.add_task(name, total=None, unit="", rate=0.0)

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """It has come so far."""
        if name not in self._paces:
            self.begin(name)
        now = time.monotonic()
        rate = self._paces[name].tell(now, done, unit)
        if self._bars:
            self._bars.update(
                self._tasks[name], completed=done, total=total or None, unit=unit, rate=rate
            )
        elif now - self._said[name] > LINE_EVERY:
            self._said[name] = now
            self._line(name, far(done, total, unit, rate))

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
        self._paces.pop(name, None)

    def _line(self, name: str, text: str) -> None:
        self._print(f"{name:<24} {text}")

    def _print(self, text: str) -> None:
        self.console.print(f"  {text}", style="dim", highlight=False, markup=False, soft_wrap=True)


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
