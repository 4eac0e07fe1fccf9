"""What a store can do without: unfinished attempts, and artifacts that nothing leads to any more.

Whatever somebody may still ask for is kept, with all that it was made from: registered models,
models of MLflow runs that were not deleted, and what recipes would find again. Of the rest only
what has lain untouched for a while goes, so that work in progress is never in danger.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from tasks.artifacts import Manifest, Part
from tasks.errors import LexloomError
from tasks.lineage import Key, member_keys, read_catalogue, step_names
from tasks.store import MANIFEST, Store

Reason = Literal["unfinished", "damaged", "not needed", "old checkpoint", "scratch"]


@dataclass(frozen=True)
class Garbage:
    """A folder or file that can go.

    Attributes:
        path: relative to the root of the store.
        reason: why it can go.
        size: in bytes.
        age: seconds since anything in it was written.
    """

    path: str
    reason: Reason
    size: int
    age: float


def needed(catalogue: Mapping[Key, Manifest], roots: Iterable[Key]) -> set[Key]:
    """The roots that are there, with everything that they were made from.

    An input is looked up where it lay, or else by its content: a run that found it there found
    it by content too. The partitions of a collection are needed one by one, since a corpus that
    grows looks for each of them.
    """
    by_content: defaultdict[str, list[Key]] = defaultdict(list)
    for key, manifest in catalogue.items():
        by_content[manifest.content].append(key)
    found: set[Key] = set()
    waiting = [key for key in roots if key in catalogue]
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found.add(key)
        manifest = catalogue[key]
        waiting += [member for member in member_keys(manifest) if member in catalogue]
        for given in manifest.origin.get("inputs", {}).values():
            lay = (given["step"], given["recipe"])
            waiting += [lay] if lay in catalogue else by_content[given["content"]]
    return found


def find_garbage(store: Store, roots: Iterable[Key], *, older: float) -> list[Garbage]:
    """What can go from a store.

    Args:
        store: to look through.
        roots: the artifacts that must stay.
        older: seconds for which nothing of it was touched.
    """
    catalogue = read_catalogue(store)
    keep = needed(catalogue, roots)
    wanted = {part.path.rsplit("/", 1)[0] for key in keep for part in catalogue[key].parts}
    now = time.time()
    found = []
    for path, reason in _candidates(store, catalogue, keep, wanted):
        size, written = store.files.usage(path)
        if now - written >= older:
            found.append(Garbage(path, reason, size, now - written))
    return found


def _candidates(
    store: Store, catalogue: Mapping[Key, Manifest], keep: set[Key], wanted: set[str]
) -> Iterator[tuple[str, Reason]]:
    for step in step_names(store):
        for recipe in store.files.names(step):
            key, folder = (step, recipe), f"{step}/{recipe}"
            attempts = [
                f"{folder}/{name}"
                for name in store.files.names(folder)
                if name.startswith("attempt-")
            ]
            if any(attempt in wanted for attempt in attempts) or key in keep:
                used = wanted | {part.path.rsplit("/", 1)[0] for part in _parts(catalogue, key)}
                yield from ((attempt, "unfinished") for attempt in attempts if attempt not in used)
            elif key in catalogue:
                yield folder, "not needed"
            elif MANIFEST in store.files.names(folder):
                yield folder, "damaged"
            else:
                yield folder, "unfinished"
    for recipe in store.files.names("checkpoint"):
        yield f"checkpoint/{recipe}", "old checkpoint"
    for name in store.files.names(".scratch"):
        yield f".scratch/{name}", "scratch"


def _parts(catalogue: Mapping[Key, Manifest], key: Key) -> tuple[Part, ...]:
    return catalogue[key].parts if key in catalogue else ()


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """Look for garbage and remove it while no run can begin to use what is being removed.

    Raises:
        LexloomError: a run is using the store.
    """
    with store.files.in_use(alone=True) as granted:
        if not granted:
            raise LexloomError(
                "a run is using the store", where=store.url, remedy="wait until it has ended"
            )
        yield


def remove(store: Store, garbage: Iterable[Garbage]) -> int:
    """Remove what was found; returns the bytes that are free now."""
    freed = 0
    for one in garbage:
        if one.reason in ("not needed", "damaged"):
            # Without its manifest it is gone, however far the rest of the removal comes.
            store.files.remove(f"{one.path}/{MANIFEST}")
        store.files.remove(one.path)
        freed += one.size
    return freed
