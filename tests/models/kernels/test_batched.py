"""Batched sweeps against the plain reference in float64, and as a training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from models import fasttext, glove, word2vec
from models.family import SweepsTables
from models.kernels import batched, batched_reference
from models.kernels.windows import Pooling
from models.text import Pairs
from tests.tasks.training.test_sweep import corpus

V, D = 23, 7


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("pooling", ["none", "sum", "mean", "corrected-mean"])
@pytest.mark.parametrize("limit", [3.0, 1e9])
def test_a_batch_of_windows_is_that_of_the_reference(pooling: Pooling, limit: float) -> None:
    random = np.random.default_rng(3)
    tables = random.normal(0, 0.7, (2, V, D))
    centres, contexts = random.integers(0, V, 12), random.integers(0, V, (12, 6))
    there, noise = random.random((12, 6)) < 0.6, random.integers(0, V, (3, 5))
    there[4], noise[0, 0], contexts[1, 1] = False, centres[0], contexts[1, 0]
    how: dict[str, Any] = {"negatives": 2, "pooling": pooling, "rate": 0.1, "limit": limit}
    windows = [(int(o), c[t].tolist()) for o, c, t in zip(centres, contexts, there, strict=True)]
    expected = tables.copy()
    known = batched_reference.train_windows(*expected, windows, noise.tolist(), **how)
    found = torch.tensor(tables)
    batch = batched.Windows(
        *map(torch.tensor, (centres, contexts)), torch.tensor(there, dtype=torch.float64),
        torch.tensor(noise),
    )  # fmt: skip
    examples, loss = batched.train_windows(found[0], found[1], batch, **how)
    assert int(examples) == known[0] == (there.sum() if pooling == "none" else there.any(1).sum())
    assert float(loss) == pytest.approx(known[1], rel=1e-12)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)
    assert not np.allclose(expected, tables)


@pytest.mark.parametrize("pooling", ["none", "mean"])
@pytest.mark.parametrize("limit", [3.0, 1e9])
def test_a_batch_of_bags_is_that_of_the_reference(pooling: Pooling, limit: float) -> None:
    """Of fastText: every word is made of rows, some of one more than once, some of several."""
    random = np.random.default_rng(5)
    bags = [[word, *random.integers(V, 2 * V, random.integers(0, 5))] for word in range(V)]
    bags[3] += [bags[3][0], 2 * V - 1, 2 * V - 1]
    inputs, outputs = random.normal(0, 0.7, (2 * V, D)), random.normal(0, 0.7, (V, D))
    centres, contexts = random.integers(0, V, 12), random.integers(0, V, (12, 6))
    there, noise = random.random((12, 6)) < 0.6, random.integers(0, V, (3, 5))
    there[4], contexts[1, :2], there[1, :2] = False, 3, True
    how: dict[str, Any] = {"negatives": 2, "pooling": pooling, "rate": 0.1, "limit": limit}
    windows = [(int(o), c[t].tolist()) for o, c, t in zip(centres, contexts, there, strict=True)]
    expected = inputs.copy(), outputs.copy()
    known = batched_reference.train_windows(*expected, windows, noise.tolist(), bags=bags, **how)
    found = torch.tensor(inputs), torch.tensor(outputs)
    batch = batched.Windows(
        *map(torch.tensor, (centres, contexts)), torch.tensor(there, dtype=torch.float64),
        torch.tensor(noise),
    )  # fmt: skip
    starts = torch.tensor([0, *np.cumsum([len(bag) for bag in bags])])
    made_of = batched.Bags(starts, torch.tensor(np.concatenate(bags)))
    examples, loss = batched.train_windows(*found, batch, bags=made_of, **how)
    assert int(examples) == known[0]
    assert float(loss) == pytest.approx(known[1], rel=1e-12)
    for mine, theirs, before in zip(found, expected, (inputs, outputs), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-10, atol=1e-12)
        assert not np.allclose(theirs, before)


@pytest.mark.parametrize("limit", [2.0, 1e9])
def test_a_batch_of_records_is_that_of_the_reference(limit: float) -> None:
    random = np.random.default_rng(3)
    shapes = {"vectors": (V, D), "biases": (V,), "vector_squares": (V, D), "bias_squares": (V,)}
    sides = [
        {
            k: 1 + random.random(s) if "sq" in k else random.normal(0, 1, s)
            for k, s in shapes.items()
        }
        for _ in range(2)
    ]
    rows, columns = random.integers(0, V, (2, 40))
    logs, weights = random.normal(0, 1, 40), random.random(40)
    found = [{k: torch.tensor(a) for k, a in side.items()} for side in sides]
    loss = batched.train_records(
        found, [torch.tensor(rows), torch.tensor(columns)], torch.tensor(logs),
        torch.tensor(weights), rate=0.05, limit=limit,
    )  # fmt: skip
    records = list(zip(rows.tolist(), columns.tolist(), logs, weights, strict=True))
    known = batched_reference.train_records(sides, records, rate=0.05, limit=limit)
    assert float(loss) == pytest.approx(known, rel=1e-12)
    for mine, theirs in zip(found, sides, strict=True):
        for name, array in theirs.items():
            np.testing.assert_allclose(mine[name].numpy(), array, rtol=1e-10)


@pytest.mark.parametrize("family", [word2vec, fasttext])
@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_a_model_learns_in_batches_nearly_as_by_the_kernel(
    family: Any, architecture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched, "BATCH", 128)
    inputs = corpus(1000)
    few = {"buckets": 500} if family is fasttext else {}
    config = family.Config(architecture=architecture, dim=32, epochs=3, sample=0.01, **few)
    losses = []
    for on_device in (False, True):
        model = config.build(inputs, seed=1)
        start = model.input.copy()
        trainee: SweepsTables[Any] = model.on_device("cpu") if on_device else model
        for i in range(3):
            chunk = model.chunks(inputs)[0]
            stats = trainee.sweep(chunk, seed=i, done=i / 3, until=(i + 1) / 3, threads=1)
            assert stats.units == len(chunk.ids)
        losses.append(stats.loss / stats.examples)
        assert set(trainee.swept_tables()) == set(model.state())
        assert on_device == np.array_equal(model.input, start)  # a copy: the model is not touched
    # Of 300 words some are met so often in a batch that they learn more slowly, and n-grams that
    # most words have even more so.
    assert losses[1] == pytest.approx(losses[0], rel=0.2 if family is word2vec else 0.45)
    assert losses[1] < 3 < 6 * np.log(2)


def test_glove_learns_in_batches_nearly_as_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "RECORDS", 256)
    random = np.random.default_rng(0)
    vectors = random.normal(0, 0.5, (60, 4))
    rows, columns = np.triu_indices(60)
    weights = np.exp(2 + (vectors @ vectors.T)[rows, columns])
    pairs = Pairs(rows.astype(np.int32), columns.astype(np.int32), weights, symmetric=True)
    counts = np.ones(60, np.int64)
    vocabulary = word2vec.Vocabulary((), tuple(f"w{i}" for i in range(60)), counts)
    config = glove.Config(dim=8)
    losses = []
    for on_device in (False, True):
        model = config.build(glove.Inputs({"vocabulary": vocabulary}), seed=1)
        trainee: SweepsTables[Any] = model.on_device("cpu") if on_device else model
        for i in range(30):
            stats = trainee.sweep(pairs, seed=i, done=0, until=1, threads=1)
        assert stats.units == stats.examples == 60 * 60
        losses.append(stats.loss / stats.examples)
    assert losses[1] < 1.5 * losses[0]


@pytest.mark.parametrize("family", [word2vec, fasttext])
def test_other_objectives_are_refused(family: Any) -> None:
    model = family.Config(objective="hierarchical-softmax").build(corpus(50), seed=1)
    with pytest.raises(ValueError, match="hierarchical-softmax on a CPU only"):
        model.on_device("cpu")
