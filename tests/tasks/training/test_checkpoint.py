"""Checkpoints: whole or not there, bit for bit, and no more of them than are needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tasks.artifacts import digest
from tasks.errors import TrainingError
from tasks.storage import LocalFiles
from tasks.store import Store
from tasks.training.checkpoint import (
    Checkpoint,
    Checkpoints,
    Standing,
    to_tensors,
)
from tasks.training.optimizer import optimizer_arrays, restore_optimizer

RECIPE = digest("some training")


def checkpoint(step: int, **standing: object) -> Checkpoint:
    weights = {"w": np.full((3, 2), step, np.float32), "empty": np.zeros(0, np.float32)}
    random = {"cpu.0": np.arange(7, dtype=np.uint8)}
    return Checkpoint(replace(Standing(step=step), **standing), weights, {}, random)  # type: ignore[arg-type]


def newest(checkpoints: Checkpoints) -> int | None:
    found = checkpoints.newest()
    return found and found.standing.step


def test_a_checkpoint_comes_back_as_it_was(store: Store) -> None:
    checkpoints = Checkpoints(store, RECIPE)
    standing = Standing(
        step=12, loss=0.1 + 0.2, best=1e-300, best_step=12, told=((9, {"loss": 2 / 3}),)
    )
    checkpoints.save(replace_standing(checkpoint(12), standing))
    assert newest(checkpoints) == 12
    found = checkpoints.at(12)
    assert found.standing == standing
    assert found.optimizer == {}
    for kind in ("weights", "random"):
        for name, array in getattr(checkpoint(12), kind).items():
            again = getattr(found, kind)[name]
            assert again.dtype == array.dtype
            assert (again == array).all()


def replace_standing(value: Checkpoint, standing: Standing) -> Checkpoint:
    return Checkpoint(standing, value.weights, value.optimizer, value.random)


def test_the_newest_two_stay_and_the_best(store: Store) -> None:
    checkpoints = Checkpoints(store, RECIPE)
    for step in range(0, 60, 10):
        checkpoints.save(checkpoint(step, best_step=20 if step >= 20 else None))
    names = [int(name) for name in store.files.names(checkpoints.folder)]
    assert names == [20, 40, 50]
    assert newest(checkpoints) == 50
    with pytest.raises(TrainingError, match="step 30 is gone"):
        checkpoints.at(30)


@pytest.mark.parametrize("damaged", ["weights", "optimizer", "random", "carried", "standing"])
def test_a_checkpoint_with_another_byte_makes_room_for_the_one_before(
    store: Store, damaged: str
) -> None:
    checkpoints = Checkpoints(store, RECIPE)
    for step in (10, 20, 30):
        checkpoints.save(checkpoint(step, best_step=20 if step > 10 else None))
    folder = Path(store.url, checkpoints.folder)

    def flip(step: int) -> None:
        (path,) = (folder / f"{step:012d}").rglob(f"*{damaged}*")
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    flip(30)
    assert newest(checkpoints) == 20
    checkpoints.save(checkpoint(30, best_step=20))
    assert newest(checkpoints) == 30
    flip(20)  # the best one, which the newest cannot do without
    assert newest(checkpoints) is None


@pytest.mark.parametrize("damage", ["manifest", "weights.safetensors", "standing.json", "best"])
def test_a_checkpoint_that_is_not_whole_is_never_read(store: Store, damage: str) -> None:
    checkpoints = Checkpoints(store, RECIPE)
    checkpoints.save(checkpoint(10, best_step=10))
    checkpoints.save(checkpoint(20, best_step=10))
    checkpoints.save(checkpoint(30, best_step=30))
    checkpoints.save(checkpoint(40, best_step=30))
    folder = Path(store.url, checkpoints.folder)
    assert newest(checkpoints) == 40
    if damage == "best":
        (folder / f"{30:012d}" / "manifest.json").unlink()
        assert newest(checkpoints) is None
        return
    (path,) = (folder / f"{40:012d}").rglob(f"*{damage}*")
    path.unlink()
    assert newest(checkpoints) == 30
    # What is left of it does not stand in the way of the one that is written in its place.
    checkpoints.save(checkpoint(40, best_step=30))
    assert newest(checkpoints) == 40
    assert (checkpoints.at(40).weights["w"] == 40).all()


def test_a_kill_between_part_and_manifest_leaves_the_one_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(store, RECIPE)
    checkpoints.save(checkpoint(10))

    def killed(self: LocalFiles, path: str, data: bytes) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(checkpoint(20))
    assert newest(checkpoints) == 10
    checkpoints.save(checkpoint(30))
    checkpoints.save(checkpoint(40))
    assert [int(name) for name in store.files.names(checkpoints.folder)] == [30, 40]


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_an_optimizer_goes_on_where_it_was(store: Store, kind: str) -> None:
    def make() -> tuple[list[torch.nn.Parameter], torch.optim.Optimizer]:
        generator = torch.Generator().manual_seed(1)
        shapes = ((4, 3), (1,), (2,))
        values = [torch.nn.Parameter(torch.randn(*s, generator=generator)) for s in shapes]
        groups = [{"params": values[:2], "rate": 2.0}, {"params": values[2:], "rate": 1.0}]
        if kind == "sgd":
            return values, torch.optim.SGD(groups, 0.1, momentum=0.9, fused=True)
        return values, torch.optim.AdamW(groups, 0.1, fused=True)

    def steps(values: list[torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        for _ in range(3):
            for value in values:
                value.grad = value.detach() ** 2 + 1
            optimizer.step()

    values, optimizer = make()
    steps(values, optimizer)
    checkpoints = Checkpoints(store, RECIPE)
    saved = {str(i): value.detach().numpy().copy() for i, value in enumerate(values)}
    state = optimizer_arrays(optimizer)
    checkpoints.save(Checkpoint(Standing(step=3), saved, state, {}))
    steps(values, optimizer)

    others, other = make()
    found = checkpoints.at(3)
    for value, array in zip(others, to_tensors(found.weights).values(), strict=True):
        value.data.copy_(array)
    restore_optimizer(other, found.optimizer)
    steps(others, other)
    assert all((a == b).all() for a, b in zip(values, others, strict=True))
    assert optimizer_arrays(other).keys() == optimizer_arrays(optimizer).keys()
