"""Lineage: what is in a store, what was made from what, and where a document went.

A manifest names the contents of its inputs. Read the other way round, those names lead from a
document through tokens and counts to every model that has seen it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.artifacts import Manifest
from tasks.normalize import DOCUMENTS, ID_BYTES
from tasks.store import Store

Key = tuple[str, str]
"""The step and the recipe of an artifact: where it lies."""

NOT_STEPS = frozenset({"checkpoint", "registration"})
"""Folders of a store that hold no artifacts of steps."""

PASSING = "kept"
"""The kind of artifact that says something about documents without holding them."""


def read_catalogue(store: Store) -> dict[Key, Manifest]:
    """The manifests of all whole artifacts in a store."""
    found: dict[Key, Manifest] = {}
    for step in step_names(store):
        for recipe in store.files.names(step):
            if manifest := store.find(step, recipe):
                found[step, recipe] = manifest
    return found


def step_names(store: Store) -> list[str]:
    """The names of the steps that have left anything in a store."""
    names = store.files.names("")
    return [name for name in names if name not in NOT_STEPS and not name.startswith(".")]


def member_keys(manifest: Manifest) -> set[Key]:
    """Where the parts of an artifact lie: its own folder, or those of its partitions."""
    return {(parts[0], parts[1]) for parts in (part.path.split("/") for part in manifest.parts)}


# --- a document -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """What is looked for; one of the three is set.

    Attributes:
        id: the first bytes of documents' ids.
        ids: whole ids.
        origin: where documents came from: the start of a file's hash, a colon, and the number of
            the record if one is meant.
    """

    id: bytes = b""
    ids: frozenset[bytes] = frozenset()
    origin: str = ""


@dataclass(frozen=True)
class Holding:
    """One partition of an artifact of documents that holds some of what was looked for.

    Attributes:
        key: of the artifact.
        partition: of it.
        rows: (id in hex, origin, text) of each document found.
    """

    key: Key
    partition: int
    rows: tuple[tuple[str, str, str], ...]


def find_documents(
    catalogue: Mapping[Key, Manifest], store: Store, wanted: Wanted
) -> list[Holding]:
    """Every partition of normalized documents that holds what is wanted."""
    found: list[Holding] = []
    seen: dict[str, tuple[tuple[str, str, str], ...]] = {}
    for key, manifest in catalogue.items():
        for part in manifest.parts:
            if manifest.kind != "documents" or part.name != DOCUMENTS:
                continue
            if part.path not in seen:
                seen[part.path] = tuple(_matching(store.files.local(part), wanted))
            if rows := seen[part.path]:
                found.append(Holding(key, part.partition, rows))
    return found


def _matching(path: object, wanted: Wanted) -> Iterator[tuple[str, str, str]]:
    file = pq.ParquetFile(path)
    if "id" not in file.schema_arrow.names:
        return  # raw documents have no id yet
    heads = file.read(columns=["id", "origin"])
    mask = _mask(heads, wanted)
    if not mask.any():
        return
    for row in file.read().filter(pa.array(mask)).to_pylist():
        yield row["id"].hex(), row["origin"], row["text"]


def _mask(heads: pa.Table, wanted: Wanted) -> np.ndarray:
    """(n,) which rows are wanted."""
    if wanted.origin:
        whole_file = wanted.origin.endswith(":")
        mask = (pc.starts_with if whole_file else pc.equal)(heads["origin"], wanted.origin)
        return np.asarray(mask.to_numpy(), np.bool_)
    if wanted.ids:
        values = pa.array(sorted(wanted.ids), pa.binary(ID_BYTES))
        return np.asarray(pc.is_in(heads["id"], value_set=values).to_numpy(), np.bool_)
    ids = np.frombuffer(b"".join(heads["id"].to_pylist()), np.uint8).reshape(-1, ID_BYTES)
    return np.asarray((ids[:, : len(wanted.id)] == np.frombuffer(wanted.id, np.uint8)).all(axis=1))


def descendants(catalogue: Mapping[Key, Manifest], holdings: Sequence[Holding]) -> list[Manifest]:
    """All artifacts that were made from partitions holding a document, and from it.

    Of artifacts of documents only those that hold it are followed, so what was dropped or fell
    to another split leads nowhere. An artifact over a whole split counts as made from each of
    its documents.
    """
    users: defaultdict[str, list[Manifest]] = defaultdict(list)
    for manifest in catalogue.values():
        for given in manifest.origin.get("inputs", {}).values():
            users[given["content"]].append(manifest)
    reached: dict[Key, Manifest] = {}
    waiting: list[str] = []
    for holding in holdings:
        manifest = catalogue[holding.key]
        waiting += [manifest.content, manifest.handle(holding.partition).content]
    followed: set[str] = set()
    while waiting:
        content = waiting.pop()
        if content in followed:
            continue
        followed.add(content)
        for manifest in users[content]:
            if manifest.kind in (PASSING, "documents"):
                continue  # documents that hold it are where the walk began
            reached[manifest.step, manifest.recipe] = manifest
            waiting.append(manifest.content)
            if _is_member(manifest):
                waiting += [manifest.handle(i).content for i in range(manifest.n_partitions)]
    return [manifest for _, manifest in sorted(reached.items())]


def _is_member(manifest: Manifest) -> bool:
    """Whether an artifact was made from single partitions."""
    inputs = manifest.origin.get("inputs", {}).values()
    return any(given.get("partition") is not None for given in inputs)
