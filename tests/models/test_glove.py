"""GloVe: the kernel beside its plain reference, the order of records, and what comes out."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models import glove
from models.family import Inputs, Report, Sweeps
from models.kernels import glove as kernel
from models.kernels import glove_reference
from models.text import Pairs
from tasks.training.sweep import sweep
from tasks.training.tracker import Silent
from tests.models.cooccurrence_tables import SCALE, inputs_of, random_matrix, table_of


def train(inputs: Inputs, threads: int = 1, seed: int = 1, **settings: Any) -> tuple[Any, Report]:
    config = glove.Config(**{"dim": 20, "epochs": 4, "x_max": 100.0, **settings})
    model = config.build(inputs, seed=seed)
    context: Any = SimpleNamespace(
        resources=SimpleNamespace(threads=threads), progress=lambda *_: None
    )
    return model, sweep(model, inputs, seed, context, Silent())


@pytest.mark.parametrize(("dim", "symmetric"), [(1, True), (14, True), (33, True), (20, False)])
def test_the_kernel_does_what_the_plain_reference_does(dim: int, symmetric: bool) -> None:
    """In float64 on the same records in the same order: the cost of each of four epochs."""
    n = 40
    table, rate = table_of(random_matrix(n)), 0.05
    pairs = glove.Chunks(table, 7, 10**6)[0]
    pairs = dataclasses.replace(pairs, symmetric=symmetric)
    state = glove.Config(dim=dim).build(inputs_of(table), seed=3).state()
    tables = kernel.Tables.of([state[name] for name in glove.ARRAYS])
    plain = [state[name].astype(np.float64) for name in glove.ARRAYS]
    for epoch in range(4):
        tally = kernel.sweep(
            tables, pairs, x_max=100, alpha=0.75, rate=rate, seed=epoch, threads=1, tile=8,
            per_tile=30,
        )  # fmt: skip
        drawn = np.random.SeedSequence(epoch).generate_state(1, np.uint64)[0]
        records = []
        for k in kernel.order(pairs.columns, n, 8, 30, drawn):
            i, j = int(pairs.rows[k]), int(pairs.columns[k])
            records.append((i, j, pairs.weights[k]))
            if symmetric and i != j:
                records.append((j, i, pairs.weights[k]))
        loss = glove_reference.train(plain, records, x_max=100, alpha=0.75, rate=rate)
        assert tally.records == len(records)
        assert tally.loss == pytest.approx(loss, rel=1e-6)
    for mine, theirs in zip(tables.arrays(), plain, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-4)


def test_the_first_record_by_hand() -> None:
    """One record: J, and the first step of AdaGrad, whose squares begin at 1."""
    w, c, x, rate = np.array([0.1, -0.2]), np.array([0.3, 0.4]), 50.0, 0.05
    ones = np.ones((2, 2)), np.ones(2)
    arrays = [np.zeros((2, 2)), np.zeros(2), *ones, np.zeros((2, 2)), np.zeros(2), *ones]
    arrays[0][0], arrays[4][1], arrays[1][0], arrays[5][1] = w, c, 0.01, 0.02
    tables = kernel.Tables.of([a.astype(np.float32) for a in arrays])
    pair = Pairs(np.array([0], np.int32), np.array([1], np.int32), np.array([x]), False)
    tally = kernel.sweep(tables, pair, x_max=100, alpha=0.75, rate=rate, seed=0, threads=1)
    difference = 0.03 - 0.08 + 0.01 + 0.02 - math.log(50)
    slope = 0.5**0.75 * difference
    assert tally.loss == pytest.approx(slope * difference, rel=1e-6)
    found = tables.arrays()
    np.testing.assert_allclose(found[0][0], w - rate * slope * c, rtol=1e-6)
    np.testing.assert_allclose(found[4][1], c - rate * slope * w, rtol=1e-6)
    np.testing.assert_allclose(found[1], [0.01 - slope, 0], rtol=1e-6)
    np.testing.assert_allclose(found[2][0], 1 + (rate * slope * c) ** 2, rtol=1e-6)
    np.testing.assert_allclose(found[7], [1, 1 + slope**2], rtol=1e-6)


@pytest.mark.parametrize(("n", "tile", "per_tile"), [(1, 256, 9), (300, 16, 3), (300, 256, 1024)])
def test_the_order_is_a_permutation_by_tiles(n: int, tile: int, per_tile: int) -> None:
    columns = np.random.default_rng(0).integers(0, n, 5000).astype(np.int32)
    order, other = (kernel.order(columns, n, tile, per_tile, seed) for seed in (1, 2))
    assert np.array_equal(np.sort(order), np.arange(5000))
    assert not np.array_equal(order, other)
    batch = -(-n // tile) * per_tile
    for first in range(0, 5000, batch):
        tiles = columns[order[first : first + batch]] // tile
        assert np.count_nonzero(np.diff(tiles)) == len(np.unique(tiles)) - 1  # each comes once


@pytest.mark.parametrize(("parts", "piece", "chunk"), [(1, 1000, 10**6), (3, 7, 50), (2, 64, 64)])
def test_chunks_hold_every_entry_once(parts: int, piece: int, chunk: int) -> None:
    matrix = random_matrix(30)
    chunks, found = glove.Chunks(table_of(matrix, parts), piece, chunk), np.zeros((30, 30))
    for i in range(len(chunks)):
        pairs = chunks[i]
        np.add.at(found, (pairs.rows, pairs.columns), pairs.weights)
    np.testing.assert_allclose(found, np.triu(matrix) / SCALE)
    assert chunks.size == np.count_nonzero(matrix)


def test_training_lowers_the_loss_with_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(glove, "CHUNK", 1 << 11)
    monkeypatch.setattr(glove, "PIECE", 1 << 6)
    inputs = inputs_of(table_of(random_matrix(120)))
    first, report = train(inputs)
    again, _ = train(inputs)
    _, threaded = train(inputs, threads=3)
    _, once = train(inputs, epochs=1)
    assert isinstance(first, Sweeps)
    assert report["records"] == 4 * np.count_nonzero(random_matrix(120))
    assert float(report["train_loss"]) < 0.5 * float(once["train_loss"])
    assert threaded["train_loss"] == pytest.approx(report["train_loss"], rel=0.05)
    for name, array in first.state().items():
        assert np.array_equal(array, again.state()[name]), name


def test_training_goes_on_where_it_was() -> None:
    """Squared gradients are kept: a restored model's next epoch is what it would have been."""
    inputs = inputs_of(table_of(random_matrix(60)))
    model, _ = train(inputs)
    restored = model.config.restore(model.vocabulary, model.state())
    fresh = {n: np.ones_like(a) if "squares" in n else a for n, a in model.state().items()}
    forgot = model.config.restore(model.vocabulary, fresh)
    chunk = model.chunks(inputs)[0]
    losses = [
        each.sweep(chunk, seed=9, done=0, until=1, threads=1).loss
        for each in (model, restored, forgot)
    ]
    assert losses[0] == losses[1] < losses[2]


def test_a_vector_is_the_sum_of_both_or_one_of_them() -> None:
    inputs = inputs_of(table_of(random_matrix(30)))
    model, _ = train(inputs)
    state, words = model.state(), ["w3", "none"]
    expected = {name: state[f"{name}_vectors"][3] for name in ("input", "output")}
    expected["sum"] = expected["input"] + expected["output"]
    for choice, vector in expected.items():
        config = dataclasses.replace(model.config, vectors=choice)
        found = config.restore(model.vocabulary, state).word_vectors(words)
        np.testing.assert_allclose(found[0], vector)
        assert np.isnan(found[1]).all()
