"""Exact deduplication: of documents with equal normalized text the first one stays.

A global step that answers for every partition: which of its documents are kept. What comes after
depends on a partition's own answer alone, so a new file leaves the work on older ones untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks.artifacts import Stats
from tasks.normalize import DOCUMENTS
from tasks.step import Context, Step
from tasks.store import Reader

KEPT = "kept.safetensors"
"""kept: (n,) bool, for every document of the partition whether it stays."""


@dataclass(frozen=True)
class Deduplicate:
    """Whether equal documents are dropped; they are counted in any case."""

    enabled: bool = True


def deduplicate(context: Context, readers: Mapping[str, Reader], params: Deduplicate) -> Stats:
    """Mark the documents that stay, in the canonical order of the corpus.

    With the documents of the training split under the role ``train``, it also counts how many of
    those that stay stand there too.
    """
    ids = _read_ids(readers["documents"])
    first = _first_of_each(pa.chunked_array(ids))
    kept = first if params.enabled else np.ones_like(first)
    stats = {"read": len(first), "kept": int(kept.sum())}
    stats["dropped.duplicate" if params.enabled else "duplicates"] = int((~first).sum())
    ends = np.cumsum([len(part) for part in ids])
    for i, part in enumerate(np.split(kept, ends[:-1])):
        context.out.tensors(KEPT, {"kept": part}, i)
    if "train" in readers:
        train = pa.chunked_array(_read_ids(readers["train"])).combine_chunks()
        known = pc.is_in(pa.chunked_array(ids), value_set=train).to_numpy()
        stats["contaminated"] = int((known & kept).sum())
    return stats


DEDUP: Step[Deduplicate] = Step("dedup", 1, "kept", deduplicate)


def _read_ids(reader: Reader) -> list[pa.Array]:
    """The ids of the documents of every partition."""
    paths = (reader.path(DOCUMENTS, i) for i in range(reader.n_partitions))
    return [pq.read_table(path, columns=["id"])["id"].combine_chunks() for path in paths]


def _first_of_each(ids: pa.ChunkedArray) -> NDArray[np.bool_]:
    """(n,) whether no earlier id equals this one."""
    halves = np.concatenate([np.zeros((0, 2), "<u8"), *map(_halves, filter(len, ids.chunks))])
    order = np.lexsort((halves[:, 1], halves[:, 0]))  # stable: equal ids in their order
    ranked = halves[order]
    first = np.ones(len(ids), np.bool_)
    first[order[1:]] = (ranked[1:] != ranked[:-1]).any(axis=1)
    return first


def _halves(ids: pa.Array) -> NDArray[np.uint64]:
    """(n, 2) the bytes of ids where they lie: as Python objects they would take four times that."""
    whole = np.frombuffer(ids.buffers()[1], "<u8").reshape(-1, 2)
    return whole[ids.offset : ids.offset + len(ids)]
