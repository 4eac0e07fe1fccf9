"""Threads' own copies of busy rows."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from models.kernels import replicas
from models.kernels.lanes import aligned
from models.kernels.replicas import FIRST, Replica, Shared, place


def table_of(rows: int) -> np.ndarray:
    return aligned(np.random.default_rng(1).random((rows, 20), np.float32))


def row(table: np.ndarray, at: int) -> np.ndarray:
    """The (P,) floats that begin so many elements after the first of a table, wherever that is."""
    where = ctypes.cast(table.ctypes.data + at * table.itemsize, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(where, (table.shape[1],))


@pytest.mark.parametrize("last", [False, True])
def test_a_thread_moves_its_copies_until_rows_are_brought_together(
    last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "BUSY", 2 * FIRST)
    table = table_of(3 * FIRST)
    before, width = table.copy(), table.shape[1]
    shared = Shared.last(table) if last else Shared.first(table)
    threads = [Replica(shared) for _ in range(2)]
    order = range(3 * FIRST)[::-1] if last else range(3 * FIRST)
    for added, thread in enumerate(threads, 1):
        for word in order:
            row(table, place(word, width, thread.own))[:] += added
    # A row that is not busy is the same for both; it has been moved by each.
    np.testing.assert_allclose(table[order[-1]], before[order[-1]] + 3, rtol=1e-6)
    np.testing.assert_array_equal(table[list(order[: 2 * FIRST])], before[list(order[: 2 * FIRST])])

    threads[0].join(1)  # the first time takes the busiest alone
    threads[1].join()
    threads[0].join()
    threads[1].join()
    np.testing.assert_allclose(table, before + 3, rtol=1e-6)
    for thread, word in ((thread, word) for thread in threads for word in order):
        np.testing.assert_array_equal(row(table, place(word, width, thread.own)), table[word])


def test_the_busiest_rows_are_brought_together_most_often() -> None:
    table = table_of(4 * FIRST)
    before, thread = table.copy(), Replica(Shared.first(table))
    for word in range(4 * FIRST):
        row(table, place(word, table.shape[1], thread.own))[:] += 1
    for number, rows in ((1, 1), (2, 2), (3, 2), (4, 4)):
        thread.join(number)
        np.testing.assert_array_equal((table > before + 0.5).any(axis=1).sum(), rows * FIRST)


def test_a_thread_alone_has_no_copies() -> None:
    table = table_of(5)
    thread = Replica(Shared.first(table).alone())
    assert [place(word, 32, thread.own) for word in range(5)] == [32 * word for word in range(5)]
