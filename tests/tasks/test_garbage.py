"""What can go from a store, and what never may."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tasks.errors import LexloomError
from tasks.garbage import alone, find_garbage, remove
from tasks.lineage import read_catalogue
from tasks.runner import Runner
from tasks.store import Store, Writer
from tests.tasks import steps


def garbage(store: Store, *roots: tuple[str, str], older: float = 0.0) -> set[tuple[str, str]]:
    found = find_garbage(store, roots, older=older)
    return {(one.path.split("/")[0], one.reason) for one in found}


def test_a_root_keeps_all_that_it_was_made_from(store: Store) -> None:
    kept = steps.pipeline(Runner(store), n=3)
    other = steps.pipeline(Runner(store), n=3, offset=5)
    assert garbage(store, ("total", kept.recipe), ("total", other.recipe)) == set()
    # What both were made from stays as well.
    assert garbage(store, ("total", kept.recipe)) == {
        ("total", "not needed"),
        ("shift", "not needed"),
    }
    before = read_catalogue(store)
    found = find_garbage(store, [("total", kept.recipe)], older=0.0)
    freed = remove(store, found)
    assert freed == sum(one.size for one in found) > 0
    assert len(found) == len(before) - len(read_catalogue(store)) == 5  # 3 members, the list, total
    again = Runner(store)
    assert steps.pipeline(again, n=3) == kept
    assert all(outcome.reused for outcome in again.outcomes)
    redone = Runner(store)
    assert steps.pipeline(redone, n=3, offset=5) == other
    assert [outcome.computed for outcome in redone.outcomes] == [0, 3, 1]


def test_a_corpus_that_grows_finds_its_partitions_again(store: Store) -> None:
    kept = steps.pipeline(Runner(store), n=3)
    remove(store, find_garbage(store, [("total", kept.recipe)], older=0.0))
    grown = Runner(store)
    steps.pipeline(grown, n=4)
    assert [outcome.computed for outcome in grown.outcomes] == [1, 1, 1]


def test_unfinished_and_damaged_work_goes_and_young_work_stays(store: Store) -> None:
    kept = steps.pipeline(Runner(store))
    Writer(store, "total", kept.recipe).json("half.json", 1)
    Writer(store, "shift", "f" * 64).json("half.json", 1)
    damaged = steps.pipeline(Runner(store), offset=9)
    folder = Path(store.url) / "total" / damaged.recipe
    next(folder.glob("attempt-*/*total.json")).unlink()
    (Path(store.url) / ".scratch" / "left").write_bytes(b"left")
    found = garbage(store, ("total", kept.recipe))
    assert found >= {("total", "unfinished"), ("shift", "unfinished"), ("total", "damaged")}
    assert (".scratch", "scratch") in found
    assert garbage(store, ("total", kept.recipe), older=60.0) == set()
    remove(store, find_garbage(store, [("total", kept.recipe)], older=0.0))
    assert garbage(store, ("total", kept.recipe)) == set()
    assert store.find("total", kept.recipe) is not None


def test_nothing_is_removed_under_a_run(store: Store) -> None:
    steps.pipeline(Runner(store))
    company = store.files.in_use()
    refused = pytest.raises(LexloomError, match="a run is using the store")
    with store.files.in_use(), company, refused, alone(store):
        pytest.fail("this is company")
    with alone(store):
        remove(store, find_garbage(store, [], older=0.0))
    assert read_catalogue(store) == {}


def test_age_counts_from_the_newest_file(store: Store) -> None:
    made = steps.pipeline(Runner(store))
    folder = Path(store.url) / "total" / made.recipe
    old = time.time() - 7200
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (old, old))
    assert garbage(store, older=3600) == {("total", "not needed")}
    (folder / "lease").touch()
    assert garbage(store, older=3600) == set()
