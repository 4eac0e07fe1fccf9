"""Copies of the busiest rows of a table, one for each thread, brought together now and then.

Threads that write to one row wait for each other: a cache line that another core has written comes
late. The few rows that most windows touch cause nearly all of that, those of frequent words, or of
the nodes near the root of a Huffman tree. So each thread trains a copy of its own of these, and now
and then what it has added to it is added to the table, and the copy takes in what others have. A
kernel names a row by the distance of its first element from the table's, and the copy of a row is
only another distance (``place``), so its loops stay as they are. What threads add is summed, as it
is where they write to the same row: they meet after so few updates that it does not overshoot, and
averaged where it is the same, as workers do, CBOW's loss on held-out text was 1 % higher.

All copies are brought together every time. When only some of them were, and the others ever more
seldom, hierarchical softmax with two threads answered 8.3 to 8.5 % of the Google analogies, where
one thread had 9.5 %, two without copies 9.7 to 9.9 %; as it is now, two threads answer as many as
one, and CBOW's loss on held-out text is within 0.03 % of that of one (7 M words of novels, one
epoch, d = 100).

Numba's cache compares the time of the file that holds the compiled function, not of this one: after
a change here, touch the kernels that use it.

Shapes: ``V`` rows of a table, ``P`` padded width, ``K`` busy rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.lanes import Matrix, aligned, compiled, fetch_to_write

BUSY = 256
"""Rows of a table that each thread copies; what they save has to pay for bringing them together.
Millions of words a second with two threads, by copies, a line in one run (brought together after
2,048 centres; d = 100, one cache for both threads; one thread alone: 4.2, 3.4 and 1.3)::

                            0     64    128    256    512   1,024
    CBOW                   6.0                 7.3    6.9    6.1
    skip-gram              5.8          6.1    6.2
    hierarchical softmax                       2.4    2.4    2.2

Where the threads' caches are apart, all are slower, and those without copies most."""

AHEAD = 8
"""Rows of a table that are on their way from another core at once."""

Own = tuple[int, int, int]
"""Rows ``first <= row < last`` are the thread's own; they begin ``away`` elements further on."""


@compiled
def place(row: Any, width: Any, own: Any) -> Any:
    """The distance of a row, or of the thread's copy of it, from the first element of a table."""
    first, last, away = own
    at = np.int64(row) * width
    return at + away if first <= row < last else at


@compiled
def _join(table: Any, own: Any, base: Any, busy: Any) -> None:
    """Add what ``own`` (K, P) gained over ``base`` to rows of the table; all three become equal."""
    for k in range(len(busy)):
        if k + AHEAD < len(busy):
            fetch_to_write(table, busy[k + AHEAD] * table.shape[1])
        row, ours, before = table[busy[k]], own[k], base[k]
        for column in range(len(row)):
            row[column] += ours[column] - before[column]
        ours[:] = row
        before[:] = row


@dataclass(frozen=True, eq=False)
class Shared:
    """A table that threads share but for its busiest rows.

    Attributes:
        table: (V, P) ``aligned``.
        busy: (K,) int64 rows, neighbours in the table.
    """

    table: Matrix
    busy: NDArray[np.int64]

    @staticmethod
    def first(table: Matrix) -> Shared:
        """A table whose first rows are its busiest."""
        return Shared(table, np.arange(min(BUSY, len(table))))

    @staticmethod
    def last(table: Matrix) -> Shared:
        """A table whose last rows are its busiest."""
        return Shared(table, np.arange(max(0, len(table) - BUSY), len(table)))

    def alone(self) -> Shared:
        """The table without busy rows, for a thread that shares it with none."""
        return Shared(self.table, self.busy[:0])


class Replica:
    """A thread's copies of the busy rows of a table."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        # The rows may move meanwhile: both are copies of one moment, or the difference would count.
        now = shared.table[shared.busy]
        self._own, self._base = aligned(now), now.copy()

    @property
    def own(self) -> Own:
        """What ``place`` asks for."""
        busy = self._shared.busy
        first = int(busy[0]) if len(busy) else 0
        bytes_away = self._own.ctypes.data - self._shared.table.ctypes.data
        away = bytes_away // self._own.itemsize - first * self._own.shape[1]
        return first, first + len(busy), away

    def join(self) -> None:
        """Bring the rows together."""
        _join(self._shared.table, self._own, self._base, self._shared.busy)
