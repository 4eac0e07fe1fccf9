"""Exact n-gram counts: a partition at a time, merged, and only then laid under a vocabulary.

Counting knows no vocabulary. A window holds ids of surface forms: 3 plus the rank, by UTF-8 bytes,
of a form among those of its partition, or among those of the whole text once the partitions are
merged; the first ids are ``<unk>``, ``<s>`` and ``</s>``. Ranks rise together, so merging sorts
nothing. A new file counts its own partition only, and another ``min_count`` counts nothing anew.
A word that is not in the vocabulary keeps its place in every window, as ``<unk>``.

Every table is in suffix order (by the last word, then the one before it, ...), distinct and
exact, so it does not depend on how the text was cut or on who counted it.

Parts of an artifact of kind "ngrams"::

    ngrams.safetensors  ngrams int32 (M, order), counts int64 (M,)
    types.parquet       type large_string, sorted; absent once the ids are those of a vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from models.ngram import framed
from models.text import NgramCounts
from models.vocabulary import LM_RESERVED
from tasks.artifacts import Artifact, Stats
from tasks.errors import InputError
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader, Writer
from tasks.tokenize import TYPES_TABLE, read_tokens
from tasks.vocabulary import read_vocabulary

NGRAMS_PART = "ngrams.safetensors"


@dataclass(frozen=True)
class Windows:
    """Which n-grams are counted.

    Attributes:
        order: their number of words; the left of a sentence is filled with ``<s>``.
    """

    order: int


@dataclass(frozen=True)
class Whole:
    """Merging and mapping have no parameters."""


def count_windows(context: Context, readers: Mapping[str, Reader], params: Windows) -> Stats:
    """Count the windows of one partition, in the ids of its own forms."""
    from models.kernels.ngram import distinct_windows, frozen, sort_windows

    (part,) = read_tokens(readers["tokens"]).partitions
    types, ids = _ranked(pa.array(part.types, pa.large_string()))
    n_ids = len(LM_RESERVED) + len(types)
    stream = frozen(framed(replace(part.text, ids=ids[part.text.ids])))
    if len(stream) >= 1 << 31:
        raise InputError(
            f"a partition has {len(stream)} tokens, which is more than can be counted at once",
            remedy="cut the corpus into smaller files",
        )
    positions = frozen(sort_windows(stream, params.order, n_ids))
    ngrams, counts = distinct_windows(stream, positions, params.order)
    _write(context.out, ngrams, counts, types)
    return {"windows": len(positions), "distinct": len(counts)}


def merge_counts(context: Context, readers: Mapping[str, Reader], params: Whole) -> Stats:
    """Merge the tables of all partitions into one, always two of about equal size."""
    from models.kernels.ngram import frozen, merge

    reader = readers["counts"]
    tables = [reader.table(TYPES_TABLE, i)["type"] for i in range(reader.n_partitions)]
    types, _ = _ranked(pc.unique(pa.chunked_array([c for table in tables for c in table.chunks])))
    pending: list[tuple[int, NDArray[np.int32], NDArray[np.int64]]] = []
    for i, table in enumerate(tables):
        part = reader.tensors(NGRAMS_PART, i)
        ngrams, counts = frozen(_ids(table, types)[part["ngrams"]]), frozen(part["counts"])
        height = 0
        while pending and pending[-1][0] == height:
            _, others, other_counts = pending.pop()
            ngrams, counts = map(frozen, merge(others, other_counts, ngrams, counts))
            height += 1
        pending.append((height, ngrams, counts))
        context.progress(i + 1, len(tables), "partitions")
    _, ngrams, counts = pending.pop()
    while pending:
        _, others, other_counts = pending.pop()
        ngrams, counts = map(frozen, merge(others, other_counts, ngrams, counts))
    _write(context.out, ngrams, counts, types)
    return {"windows": int(counts.sum()), "ngrams": len(counts)}


def map_counts(context: Context, readers: Mapping[str, Reader], params: Whole) -> Stats:
    """Lay a vocabulary under merged counts; n-grams that become equal are added."""
    from models.kernels.ngram import add_equal, frozen, sort_rows

    part = readers["counts"].tensors(NGRAMS_PART)
    types = readers["counts"].table(TYPES_TABLE)["type"].to_pylist()
    vocabulary = read_vocabulary(readers["vocabulary"])
    if vocabulary.reserved != LM_RESERVED:
        raise ValueError(f"n-grams need a vocabulary with {LM_RESERVED}, not {vocabulary.reserved}")
    reserved = np.arange(len(LM_RESERVED), dtype=np.int32)
    ngrams = frozen(np.concatenate([reserved, vocabulary.ids(types)])[part["ngrams"]])
    rows = frozen(sort_rows(ngrams, len(vocabulary)))
    ngrams, counts = add_equal(ngrams, frozen(part["counts"]), rows)
    _write(context.out, ngrams, counts)
    return {"windows": int(counts.sum()), "ngrams": len(counts)}


NGRAMS: Step[Windows] = Step("ngrams", 1, "ngrams", count_windows)
MERGE: Step[Whole] = Step("ngrams-merge", 1, "ngrams", merge_counts)
MAP: Step[Whole] = Step("ngrams-map", 1, "ngrams", map_counts)


def count_ngrams(runner: Runner, tokens: Artifact, vocabulary: Artifact, order: int) -> Artifact:
    """The counts of all n-grams of a tokenized split in the ids of a vocabulary.

    Args:
        runner: runs the three steps.
        tokens: the split, in partitions.
        vocabulary: any vocabulary with the reserved entries of a language model.
        order: words of an n-gram.
    """
    counted = runner.map(NGRAMS, {"tokens": tokens}, Windows(order))
    merged = runner.run(MERGE, {"counts": counted}, Whole())
    return runner.run(MAP, {"counts": merged, "vocabulary": vocabulary}, Whole())


def read_ngrams(reader: Reader) -> NgramCounts:
    """The counts in an ``ngrams`` artifact, memory-mapped."""
    part = reader.tensors(NGRAMS_PART)
    return NgramCounts(part["ngrams"].shape[1], part["ngrams"], part["counts"])


def _ranked(types: pa.Array) -> tuple[pa.Array, NDArray[np.int32]]:
    """Distinct forms sorted by their bytes, and the id of each in the given order."""
    order = pc.sort_indices(types)
    ids = np.empty(len(types), np.int32)
    ids[order.to_numpy()] = np.arange(len(types), dtype=np.int32) + len(LM_RESERVED)
    return types.take(order), ids


def _ids(types: pa.ChunkedArray, among: pa.Array) -> NDArray[np.int32]:
    """The ids among many forms, by the ids among some of them."""
    ranks = pc.index_in(types, value_set=among).to_numpy().astype(np.int32)
    return np.concatenate([np.arange(len(LM_RESERVED), dtype=np.int32), ranks + len(LM_RESERVED)])


def _write(
    out: Writer, ngrams: NDArray[np.int32], counts: NDArray[np.int64], types: pa.Array | None = None
) -> None:
    out.tensors(NGRAMS_PART, {"ngrams": ngrams, "counts": counts})
    if types is not None:
        out.table(TYPES_TABLE, pa.table({"type": types}))
