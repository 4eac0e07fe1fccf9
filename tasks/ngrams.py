"""Exact n-gram counts: a partition at a time, merged, and only then laid under a vocabulary.

Counting knows no vocabulary: a window holds the ids of surface forms, the rank of each in the
table of types of the whole text (plus 3: the first ids are ``<unk>``, ``<s>`` and ``</s>``). So a
new file counts its own partition, and another ``min_count`` counts nothing anew. A word that is
not in the vocabulary keeps its place in every window, as ``<unk>``.

Every table is in suffix order (by the last word, then the one before it, ...), distinct and
exact, so its bytes do not depend on how the text was cut or on who counted it.

Parts of an artifact of kind "ngrams"::

    ngrams.safetensors  ngrams int32 (M, order), counts int64 (M,)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.ngram import framed
from models.text import NgramCounts
from models.vocabulary import LM_RESERVED
from tasks.artifacts import Artifact, Stats
from tasks.errors import InputError
from tasks.step import Context, Runner, Step
from tasks.store import Reader, Writer
from tasks.tokenize import read_tokens
from tasks.vocabulary import read_types, read_vocabulary

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
    """Count the windows of one partition, in the ids of the table of all types."""
    from models.kernels.ngram import distinct_windows, frozen, sort_windows

    (part,) = read_tokens(readers["tokens"]).partitions
    types, _ = read_types(readers["types"])
    n_ids = len(LM_RESERVED) + len(types)
    number = dict(zip(types, range(len(LM_RESERVED), n_ids), strict=True))
    ids = np.fromiter((number[word] for word in part.types), np.int32, len(part.types))
    stream = frozen(framed(replace(part.text, ids=ids[part.text.ids])))
    if len(stream) >= 1 << 31:
        raise InputError(
            f"a partition has {len(stream)} tokens, which is more than can be counted at once",
            remedy="cut the corpus into smaller files",
        )
    positions = frozen(sort_windows(stream, params.order, n_ids))
    ngrams, counts = distinct_windows(stream, positions, params.order)
    write_ngrams(context.out, ngrams, counts)
    return {"windows": len(positions), "distinct": len(counts)}


def merge_counts(context: Context, readers: Mapping[str, Reader], params: Whole) -> Stats:
    """Merge the tables of all partitions into one, always two of about equal size."""
    from models.kernels.ngram import frozen, merge

    reader = readers["counts"]
    pending: list[tuple[int, NDArray[np.int32], NDArray[np.int64]]] = []
    for i in range(reader.n_partitions):
        part = reader.tensors(NGRAMS_PART, i)
        table = 0, frozen(part["ngrams"]), frozen(part["counts"])
        while pending and pending[-1][0] == table[0]:
            height, ngrams, counts = pending.pop()
            merged = merge(ngrams, counts, table[1], table[2])
            table = height + 1, frozen(merged[0]), frozen(merged[1])
        pending.append(table)
        context.progress(i + 1, reader.n_partitions, "partitions")
    _, ngrams, counts = pending.pop()
    while pending:
        _, others, other_counts = pending.pop()
        ngrams, counts = (frozen(a) for a in merge(others, other_counts, ngrams, counts))
    write_ngrams(context.out, ngrams, counts)
    return {"windows": int(counts.sum()), "ngrams": len(counts)}


def map_counts(context: Context, readers: Mapping[str, Reader], params: Whole) -> Stats:
    """Lay a vocabulary under merged counts; n-grams that become equal are added."""
    from models.kernels.ngram import add_equal, frozen, merge, sort_rows

    part = readers["counts"].tensors(NGRAMS_PART)
    vocabulary = read_vocabulary(readers["vocabulary"])
    if vocabulary.reserved != LM_RESERVED:
        raise ValueError(f"n-grams need a vocabulary with {LM_RESERVED}, not {vocabulary.reserved}")
    reserved = np.arange(len(LM_RESERVED), dtype=np.int32)
    ids = np.concatenate([reserved, vocabulary.ids(read_types(readers["types"])[0])])
    ngrams, counts = ids[part["ngrams"]], frozen(part["counts"])
    unknown = (ngrams == vocabulary.unknown).any(axis=1)
    # Types and vocabulary are both by falling count, so n-grams without <unk> are still in order.
    if (np.diff(ids[ids != vocabulary.unknown]) < 0).any():
        unknown[:] = True
    known, known_counts = frozen(ngrams[~unknown]), frozen(counts[~unknown])
    rare, rare_counts = frozen(ngrams[unknown]), frozen(counts[unknown])
    rare, rare_counts = add_equal(rare, rare_counts, sort_rows(rare, len(vocabulary)))
    ngrams, counts = merge(known, known_counts, frozen(rare), frozen(rare_counts))
    write_ngrams(context.out, ngrams, counts)
    return {"windows": int(counts.sum()), "ngrams": len(counts)}


NGRAMS: Step[Windows] = Step("ngrams", 1, "ngrams", count_windows)
MERGE: Step[Whole] = Step("ngrams-merge", 1, "ngrams", merge_counts)
MAP: Step[Whole] = Step("ngrams-map", 1, "ngrams", map_counts)


def count_ngrams(
    runner: Runner, tokens: Artifact, types: Artifact, vocabulary: Artifact, order: int
) -> Artifact:
    """The counts of all n-grams of a tokenized split in the ids of a vocabulary.

    Args:
        runner: runs the three steps.
        tokens: the split, in partitions.
        types: the table of types of the same split.
        vocabulary: a vocabulary of it, with the reserved entries of a language model.
        order: words of an n-gram.
    """
    counted = runner.map(NGRAMS, {"tokens": tokens}, Windows(order), whole={"types": types})
    merged = runner.run(MERGE, {"counts": counted}, Whole())
    return runner.run(MAP, {"counts": merged, "types": types, "vocabulary": vocabulary}, Whole())


def write_ngrams(out: Writer, ngrams: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Write counts in suffix order."""
    out.tensors(NGRAMS_PART, {"ngrams": ngrams, "counts": counts})


def read_ngrams(reader: Reader) -> NgramCounts:
    """The counts in an ``ngrams`` artifact, memory-mapped."""
    part = reader.tensors(NGRAMS_PART)
    return NgramCounts(part["ngrams"].shape[1], part["ngrams"], part["counts"])
