"""Threads' own copies of busy rows."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from models.kernels import replicas
from models.kernels.lanes import aligned
from models.kernels.replicas import Replica, Shared, place

HALF = 40


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
    monkeypatch.setattr(replicas, "BUSY", 2 * HALF)
    table = table_of(3 * HALF)
    before, width = table.copy(), table.shape[1]
    shared = Shared.last(table) if last else Shared.first(table)
    threads = [Replica(shared) for _ in range(2)]
    order = range(3 * HALF)[::-1] if last else range(3 * HALF)
    for added, thread in enumerate(threads, 1):
        for word in order:
            row(table, place(word, width, thread.own))[:] += added
    # A row that is not busy is the same for both; it has been moved by each.
    np.testing.assert_allclose(table[order[-1]], before[order[-1]] + 3, rtol=1e-6)
    np.testing.assert_array_equal(table[list(order[: 2 * HALF])], before[list(order[: 2 * HALF])])

    threads[0].join()
    np.testing.assert_allclose(table[list(order[: 2 * HALF])], before[list(order[: 2 * HALF])] + 1)
    threads[1].join()
    threads[0].join()
    threads[1].join()
    np.testing.assert_allclose(table, before + 3, rtol=1e-6)
    for thread, word in ((thread, word) for thread in threads for word in order):
        np.testing.assert_array_equal(row(table, place(word, width, thread.own)), table[word])


def test_a_thread_alone_has_no_copies() -> None:
    table = table_of(5)
    thread = Replica(Shared.first(table).alone())
    assert [place(word, 32, thread.own) for word in range(5)] == [32 * word for word in range(5)]
