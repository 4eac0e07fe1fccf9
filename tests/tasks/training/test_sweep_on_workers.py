"""Sweeps that several processes share, and sweeps that are killed."""

from __future__ import annotations

import multiprocessing.context
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from models import glove, word2vec
from models.family import Inputs, Sweeps
from tasks.errors import TrainingError
from tasks.store import Store
from tasks.training import exchange, sweep
from tasks.training.checkpoint import Checkpoint, Checkpoints, Standing
from tasks.training.ranks import Place
from tasks.training.tracker import Silent
from tests.tasks import trained
from tests.tasks.training.test_exchange import merged
from tests.tasks.training.test_sweep import corpus
from tests.tasks.training.trainee import RECIPE, context_of

CONFIG = word2vec.Config(dim=16, epochs=2, sample=0.01)
TREE = replace(CONFIG, architecture="cbow", objective="hierarchical-softmax")
SENTENCES = 600
NUMBERS = {(word2vec, "CHUNK_WORDS"): 3000, (sweep, "ROUND"): 2800, (exchange, "FIRST"): 80}
"""So small a text is cut and exchanged as a large one is."""


def set_numbers(place: Any = None) -> None:
    for (module, name), value in NUMBERS.items():
        (place.setattr if place else setattr)(module, name, value)


@dataclass(frozen=True)
class Worker:
    """A process of a training.

    Attributes:
        folder: takes the store and what comes of it.
        config: of the model.
        rank: of this process.
        world: processes.
        attempt: one in which the last rank may die.
        kill: the sweep before which it dies; None for none.
    """

    folder: Path
    config: word2vec.Config = CONFIG
    rank: int = 0
    world: int = 2
    attempt: int = 0
    kill: int | None = None

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(Store(str(self.folder / "store"), self.folder), RECIPE)

    def train(self) -> None:
        """Train to the end or to the kill, and keep the tables."""
        torch.set_num_threads(1)
        set_numbers()
        meet, limit = f"file://{self.folder}/meet{self.attempt}", timedelta(seconds=20)
        dist.init_process_group("gloo", meet, limit, self.world, self.rank)
        inputs = corpus(SENTENCES)
        model = self.config.build(inputs, seed=1)
        if self.rank == 0 and self.checkpoints.newest() is None:
            start = Checkpoint(Standing(), sweep.arrays_of(model), {}, {})
            self.checkpoints.save(start)
        dist.barrier()
        if self.kill is not None:
            word2vec.Model.sweep = dying(word2vec.Model.sweep, self.kill)  # type: ignore[method-assign]
        place = Place(torch.device("cpu"), self.rank, self.world)
        loop = sweep.Loop(
            model, inputs, 1, self.checkpoints, place=place, checkpoint_seconds=0.0
        )  # fmt: skip
        standing = loop.run()
        losses = {"loss": standing.loss / standing.tokens, "scored": standing.scored}
        np.savez(self.folder / f"{self.rank}.npz", **sweep.arrays_of(model), **losses)

    def found(self) -> dict[str, np.ndarray]:
        return dict(np.load(self.folder / f"{self.rank}.npz"))


def dying(action: Callable[..., Any], kill: int) -> Callable[..., Any]:
    """An action before whose ``kill``-th turn this process is killed."""
    turns = iter(range(kill))

    def act(*args: Any, **options: Any) -> Any:
        if next(turns, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return action(*args, **options)

    return act


def run(workers: list[Worker], *, killed: int = 0) -> list[dict[str, np.ndarray]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    processes = [context.Process(target=worker.train) for worker in workers]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    codes = [process.exitcode for process in processes]
    assert (codes == [0] * len(workers)) == (killed == 0), codes
    return [] if killed else [worker.found() for worker in workers]


def team(folder: Path, world: int = 2, **settings: Any) -> list[Worker]:
    folder.mkdir(exist_ok=True)
    return [Worker(folder, rank=rank, world=world, **settings) for rank in range(world)]


def simulated(config: word2vec.Config, world: int) -> tuple[dict[str, np.ndarray], int]:
    """What the workers should come to, one after the other; and how often all rows were taken."""
    inputs = corpus(SENTENCES)
    models = [config.for_workers(world).build(inputs, seed=1) for _ in range(world)]
    chunks = models[0].chunks(inputs)
    n, every = config.epochs * len(chunks), len(models[0].input)
    rounds = sweep.rounds_of(chunks.size / len(chunks), world)
    assert rounds > 1
    bases = {name: array.astype(np.float64) for name, array in models[0].state().items()}
    number = wholes = 0
    for i in range(n):
        for r in range(rounds):
            for rank, model in enumerate(models):
                seed = np.random.SeedSequence([1, i, r, rank]).generate_state(1, np.uint64)[0]
                part = chunks[i % len(chunks)].share(r * world + rank, rounds * world)
                share = (i + r / rounds) / n, (i + (r + 1) / rounds) / n
                model.sweep(part, seed=int(seed), done=share[0], until=share[1], threads=1)
            number += 1
            last = r == rounds - 1 and (i + 1) % len(chunks) == 0
            taken = every if last else exchange.FIRST * (number & -number)
            wholes += taken >= every
            for name, base in bases.items():
                order = np.arange(len(base))[::-1] if name == "nodes" else np.arange(len(base))
                rows = order[:taken]
                live = [model.swept_tables()[name].values for model in models]
                deltas = np.stack([array[rows] - base[rows] for array in live])
                gain = deltas.sum(0)
                gain[: exchange.FIRST] = merged(deltas[:, : exchange.FIRST])
                base[rows] += gain
                for array in live:
                    array[rows] = base[rows]
    return bases, wholes


@pytest.mark.parametrize(("config", "world"), [(CONFIG, 2), (TREE, 3)], ids=["pairs", "tree"])
def test_workers_come_to_the_plain_average(
    config: word2vec.Config, world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_numbers(monkeypatch)
    known, wholes = simulated(config, world)
    assert wholes > config.epochs  # the policy takes all rows at other times too
    found = run(team(tmp_path, world, config=config))
    for name, array in known.items():
        for each in found:
            np.testing.assert_array_equal(each[name], found[0][name])
        np.testing.assert_allclose(found[0][name], array, atol=2e-4)
    assert found[0]["scored"] == config.epochs * SENTENCES * 20
    alone = config.build(corpus(SENTENCES), seed=1)
    report = sweep.sweep(alone, corpus(SENTENCES), 1, context_of(None), Silent())  # type: ignore[arg-type]
    assert float(found[0]["loss"]) == pytest.approx(float(report["train_loss"]), rel=0.15)


def test_a_lost_worker_leaves_no_trace(tmp_path: Path) -> None:
    calm = run(team(tmp_path / "calm"))
    one, two = team(tmp_path / "killed")
    run([one, replace(two, kill=17)], killed=1)
    newest = one.checkpoints.newest()
    assert newest is not None
    assert 0 < newest.standing.step < 8
    again = run([replace(worker, attempt=1) for worker in (one, two)])
    for name, array in calm[0].items():
        np.testing.assert_array_equal(again[1][name], array)


@pytest.mark.parametrize("kill", [0, 5])
def test_an_interrupted_training_ends_as_one_that_was_not(
    kill: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_numbers(monkeypatch)
    inputs = corpus(SENTENCES)
    context = context_of(store, checkpoint_seconds=0.0)

    def train(stop: int | None = None) -> tuple[Sweeps[Any], Any]:
        model = CONFIG.build(inputs, seed=1)
        if stop is not None:
            turns = iter(range(stop))
            whole = model.sweep

            def act(*args: Any, **options: Any) -> Any:
                if next(turns, None) is None:
                    raise KeyboardInterrupt
                return whole(*args, **options)

            model.sweep = act  # type: ignore[method-assign]
        return model, sweep.sweep_resumably(model, inputs, 1, context, Silent())

    with pytest.raises(KeyboardInterrupt):
        train(kill)
    newest = Checkpoints(store, RECIPE).newest()
    assert (newest.standing.step if newest else 0) == kill
    model, report = train()
    calm = CONFIG.build(inputs, seed=1)
    known = sweep.sweep(calm, inputs, 1, context, Silent())
    for name, array in calm.state().items():
        np.testing.assert_array_equal(model.state()[name], array)
    same = ("tokens", "train_loss", "subsampled", "epochs")
    assert [report[name] for name in same] == [known[name] for name in same]


def test_glove_goes_on_with_its_sums_of_squares(store: Store) -> None:
    config = glove.Config(dim=6, window=3, epochs=6, min_count=1)
    inputs = trained.inputs(config, trained.sentences())
    context = context_of(store, checkpoint_seconds=0.0)
    whole = config.build(inputs, seed=1)
    sweep.sweep(whole, inputs, 1, context, Silent())
    checkpoints = Checkpoints(store, RECIPE)
    half = config.build(inputs, seed=1)
    loop = sweep.Loop(half, inputs, 1, checkpoints, place=Place.alone(0), checkpoint_seconds=0.0)
    for _ in range(3):
        loop._train_chunk()
    other = config.build(inputs, seed=1)
    sweep.sweep_resumably(other, inputs, 1, context, Silent())
    for name, array in whole.state().items():
        np.testing.assert_array_equal(other.state()[name], array)


def test_what_cannot_be_spread_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs: Inputs = corpus(60)
    gpu = Place(torch.device("cuda"))
    monkeypatch.setattr(Place, "alone", staticmethod(lambda gpus: gpu))
    with pytest.raises(TrainingError, match=r"hierarchical-softmax on a CPU only[^$]*0 GPUs"):
        sweep.sweep_resumably(
            TREE.build(inputs, seed=1), inputs, 1, context_of(store, gpus=1), Silent()
        )
