"""What workers add to rows, merged: against plain numpy, over a real process group."""

from __future__ import annotations

import multiprocessing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from models.family import SweptTable
from tasks.training import exchange

WORLD, SHAPE = 3, (40, 5)


def merged(deltas: np.ndarray) -> np.ndarray:
    """The rule of the module's docstring, row after row, of (W, R, D)."""
    out = np.zeros(deltas.shape[1:])
    for row, each in enumerate(deltas.transpose(1, 0, 2)):
        total, squares = each.sum(0), (each**2).sum()
        length = total @ total
        out[row] = total * (min(1.0, squares / length) if length else 1.0)
    return out


def test_orthogonal_updates_are_summed_equal_ones_averaged_and_single_ones_kept() -> None:
    a, b = torch.tensor([3.0, 0, 4]), torch.tensor([0, 2.0, 0])
    for updates, expected in (
        ((a, b), a + b),
        ((a, a, a), a),
        ((a, 0 * a, 0 * a), a),
        ((a, -a), 0 * a),
        ((0 * a, 0 * a), 0 * a),
    ):
        total = torch.stack(updates).sum(0)[None]
        squares = sum((u * u).sum() for u in updates)[None]
        torch.testing.assert_close(exchange.merge(total, squares)[0], expected)


@given(some.arrays(np.float32, (4, 3, 2), elements=st.floats(-8, 8, width=32)))
def test_a_merged_update_is_no_longer_than_all_on_their_own(deltas: np.ndarray) -> None:
    found = exchange.merge(
        torch.tensor(deltas.sum(0)), torch.tensor((deltas**2).sum((0, 2)))
    ).numpy()
    np.testing.assert_allclose(found, merged(deltas.astype(np.float64)), rtol=1e-3, atol=1e-3)
    assert (np.linalg.norm(found, axis=1) <= np.sqrt((deltas**2).sum((0, 2))) * 1.001 + 1e-3).all()


def test_frequent_rows_travel_often_and_rare_rows_seldom() -> None:
    taken = [exchange.rows_at(number) // exchange.FIRST for number in range(1, 9)]
    assert taken == [1, 2, 1, 4, 1, 2, 1, 8]


def tables_of(rank: int, step: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([rank, step])
    return {name: random.normal(0, 1, SHAPE).astype(np.float32) for name in ("a", "b", "s")}


def work(rank: int, meet: Path, out: Path) -> None:
    """One worker: three exchanges of ever more rows."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meet}", timedelta(seconds=60), WORLD, rank)
    exchange.BLOCK, exchange.FIRST = 16, 24
    live = {name: np.zeros((SHAPE[0], 9), np.float32)[:, :5] for name in ("a", "b", "s")}
    bias = np.zeros(SHAPE[0], np.float32)
    backwards = np.arange(SHAPE[0])[::-1]

    def tables() -> dict[str, SweptTable]:
        return {
            "a": SweptTable(live["a"]), "b": SweptTable(live["b"], backwards),
            "s": SweptTable(live["s"], adds_up=True), "bias": SweptTable(bias),
        }  # fmt: skip

    given_and_taken = exchange.Exchange(tables)
    for step, rows in enumerate((10, 20, None)):
        for name, change in tables_of(rank, step).items():
            live[name] += change
        bias[:] += tables_of(rank, step)["a"][:, 0]
        assert given_and_taken.take(rows) == (rows is None)
        np.savez(out / f"{step}.{rank}.npz", **live, bias=bias)


def test_workers_agree_with_plain_numpy(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    workers = [
        context.Process(target=work, args=(rank, tmp_path / "meet", tmp_path))
        for rank in range(WORLD)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    base = {name: np.zeros(SHAPE) for name in ("a", "b", "s")} | {"bias": np.zeros((SHAPE[0], 1))}
    mine = {name: np.stack([array] * WORLD) for name, array in base.items()}
    for step, n in enumerate((10, 20, SHAPE[0])):
        for rank in range(WORLD):
            change = tables_of(rank, step)
            change["bias"] = change["a"][:, :1]
            for name, array in change.items():
                mine[name][rank] += array
        for name in base:
            rows = np.arange(SHAPE[0])[::-1][:n] if name == "b" else np.arange(n)
            deltas = mine[name][:, rows] - base[name][rows]
            gain = deltas.sum(0)
            if name != "s":
                gain[:24] = merged(deltas[:, :24])
            base[name][rows] += gain
            mine[name][:, rows] = base[name][rows]
        for rank in range(WORLD):
            found = np.load(tmp_path / f"{step}.{rank}.npz")
            for name in base:
                known = mine[name][rank].reshape(found[name].shape)
                np.testing.assert_allclose(found[name], known, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("units", "world", "rounds"), [
    (1 << 20, 2, 4), (1 << 20, 4, 16), (700_000, 3, 8), (1000, 2, 1), (1 << 21, 2, 8), (0, 2, 1),
    (1 << 21, 1, 1),
])  # fmt: skip
def test_a_chunk_has_a_power_of_two_of_rounds(units: int, world: int, rounds: int) -> None:
    from tasks.training.sweep import rounds_of

    assert rounds_of(units, world) == rounds
