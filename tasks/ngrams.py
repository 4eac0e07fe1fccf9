"""Exact n-gram counts: a partition at a time, then added up under a vocabulary.

Counting knows no vocabulary. A window holds ids of surface forms: 3 plus the rank, by UTF-8 bytes,
of a form among those of its partition; the first ids are ``<unk>``, ``<s>`` and ``</s>``. A new
file counts its own partition only, and another ``min_count`` counts nothing anew. A word that is
not in the vocabulary keeps its place in every window, as ``<unk>``. Whatever does not fit in the
memory that a step was given goes through the disk.

Every table is in suffix order (by the last word, then the one before it, ...), distinct and
exact, so it does not depend on how the text was cut or on who counted it.

Parts of an artifact of kind "ngrams"::

    ngrams.safetensors  ngrams int32 (M, order), counts int64 (M,)
    types.parquet       type large_string, sorted; absent once the ids are those of a vocabulary
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from models.backoff import framed
from models.text import NgramCounts, Sentences
from models.vocabulary import LM_RESERVED
from tasks.artifacts import Artifact, Stats
from tasks.runner import Runner
from tasks.spool import spool
from tasks.step import Context, Step
from tasks.store import Reader, map_tensors
from tasks.tokenize import TYPES_TABLE, read_tokens
from tasks.vocabulary import read_vocabulary

NGRAMS_PART = "ngrams.safetensors"
MOST = 1 << 30
"""Tokens that are counted at once at most; their places are int32."""


@dataclass(frozen=True)
class Windows:
    """Which n-grams are counted.

    Attributes:
        order: their number of words; the left of a sentence is filled with ``<s>``.
    """

    order: int


@dataclass(frozen=True)
class Whole:
    """Adding up has no parameters."""


def count_windows(context: Context, readers: Mapping[str, Reader], params: Windows) -> Stats:
    """Count the windows of one partition, in the ids of its own forms.

    A partition too large for the memory is counted in pieces, whose sorted tables are then added.
    """
    from tasks.suffixes import Table, add_up

    (part,) = read_tokens(readers["tokens"]).partitions
    types, ids = _ranked(pa.array(part.types, pa.large_string()))
    n_ids = len(LM_RESERVED) + len(types)
    pieces = _pieces(part.text, context.resources.memory, params.order)
    scratch = context.store.files.scratch()
    with spool(scratch, _empty(params.order)) as out:
        if len(pieces) == 1:
            ngrams, counts = _windows(pieces[0], ids, n_ids, params.order)
            out.append(ngrams=ngrams, counts=counts)
            found = len(counts), int(counts.sum())
        else:
            with tempfile.TemporaryDirectory(prefix="runs-", dir=scratch) as folder:
                tables = []
                for i, piece in enumerate(pieces):
                    with spool(scratch, _empty(params.order)) as run:
                        ngrams, counts = _windows(piece, ids, n_ids, params.order)
                        run.append(ngrams=ngrams, counts=counts)
                        run.save(Path(folder) / str(i))
                    arrays = map_tensors(Path(folder) / str(i))
                    same = np.arange(n_ids, dtype=np.int32)
                    tables.append(Table(arrays["ngrams"], arrays["counts"], same))
                found = add_up(out, tables, n_ids, memory=context.resources.memory)
        with context.out.path(NGRAMS_PART) as path:
            out.save(path)
    context.out.table(TYPES_TABLE, pa.table({"type": types}))
    return {"windows": found[1], "distinct": found[0], "pieces": len(pieces)}


def map_counts(context: Context, readers: Mapping[str, Reader], params: Whole) -> Stats:
    """Add up the tables of all partitions under a vocabulary, in the order of its ids."""
    from tasks.suffixes import Table, add_up

    reader, vocabulary = readers["counts"], read_vocabulary(readers["vocabulary"])
    if vocabulary.reserved != LM_RESERVED:
        raise ValueError(f"n-grams need a vocabulary with {LM_RESERVED}, not {vocabulary.reserved}")
    reserved, tables = np.arange(len(LM_RESERVED), dtype=np.int32), []
    for i in range(reader.n_partitions):
        part, types = reader.tensors(NGRAMS_PART, i), reader.table(TYPES_TABLE, i)["type"]
        names = np.concatenate([reserved, vocabulary.ids(types.to_pylist())])
        tables.append(Table(part["ngrams"], part["counts"], names))
    resources = context.resources
    with spool(context.store.files.scratch(), _empty(tables[0].ngrams.shape[1])) as out:
        found = add_up(
            out, tables, len(vocabulary), memory=resources.memory, threads=resources.threads
        )
        with context.out.path(NGRAMS_PART) as path:
            out.save(path)
    return {"windows": found[1], "ngrams": found[0]}


NGRAMS: Step[Windows] = Step("ngrams", 1, "ngrams", count_windows)
MAP: Step[Whole] = Step("ngrams-map", 1, "ngrams", map_counts, threaded=True)


def count_ngrams(runner: Runner, tokens: Artifact, vocabulary: Artifact, order: int) -> Artifact:
    """The counts of all n-grams of a tokenized split in the ids of a vocabulary.

    Args:
        runner: runs the two steps.
        tokens: the split, in partitions.
        vocabulary: any vocabulary with the reserved entries of a language model.
        order: words of an n-gram.
    """
    counted = runner.map(NGRAMS, {"tokens": tokens}, Windows(order))
    return runner.run(MAP, {"counts": counted, "vocabulary": vocabulary}, Whole())


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


def _pieces(text: Sentences, memory: int, order: int) -> list[Sentences]:
    """Stretches of whole sentences that can be counted in the memory, or one sentence."""
    # A token is there as id and in the stream, is sorted by two int32, and may begin a row.
    limit, pieces, begin = max(1, memory // (4 * order + 28)), [], 0
    places = text.starts + 2 * np.arange(len(text.starts))  # with the marks around sentences
    while begin < len(text):
        end = int(np.searchsorted(places, places[begin] + min(limit, MOST), side="right")) - 1
        end = max(end, begin + 1)
        pieces.append(Sentences(text.ids, text.starts[begin : end + 1], np.zeros(0, np.int64)))
        begin = end
    return pieces or [text]


def _windows(
    text: Sentences, ids: NDArray[np.int32], n_ids: int, order: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct windows of a text under other ids, and how often each occurs."""
    from models.kernels.ngram import distinct_windows, frozen, sort_windows

    tokens = ids[text.ids[text.starts[0] : text.starts[-1]]]
    stream = frozen(framed(Sentences(tokens, text.starts - text.starts[0], text.documents)))
    positions = frozen(sort_windows(stream, order, n_ids))
    found: tuple[NDArray[np.int32], NDArray[np.int64]] = distinct_windows(stream, positions, order)
    return found


def _empty(order: int) -> dict[str, NDArray[Any]]:
    return {"ngrams": np.zeros((0, order), np.int32), "counts": np.zeros(0, np.int64)}
