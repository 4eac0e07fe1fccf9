"""Threads for compiled kernels, which leave the interpreter's lock alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MANY = 1 << 16
"""Entries below which a thread costs more than it saves."""


def processors(size: int) -> int:
    """How many threads may work on so many entries: one for a few, else one a processor."""
    return len(os.sched_getaffinity(0)) if size > MANY else 1


def each(work: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> list[Any]:
    """What a function returns for each list of arguments; calls run in threads."""
    calls = list(calls)
    if len(calls) < 2:
        return [work(*arguments) for arguments in calls]
    with ThreadPoolExecutor(min(len(calls), len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(lambda arguments: work(*arguments), calls))
