"""From tokens to vocabularies: exact counts of every surface form, then a choice among them.

Counting knows no limits: ``min_count`` and ``max_size`` are applied to the finished table, so
another vocabulary costs no counting, and which words are kept never depends on the order of text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.family import WantsVocabulary
from models.vocabulary import MARKS, Vocabulary, grown, select
from tasks.artifacts import Stats
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tokenize import TYPES_SCHEMA, TYPES_TABLE

VOCABULARY_PART = "vocabulary.json"
_MERGE_ROWS = 1 << 22


@dataclass(frozen=True)
class Types:
    """Counting has no parameters."""


def count_types(context: Context, readers: Mapping[str, Reader], params: Types) -> Stats:
    """Add up the counts of all partitions: the most frequent type first, ties by UTF-8 bytes."""
    reader = readers["tokens"]
    pending = [TYPES_SCHEMA.empty_table()]
    for i in range(reader.n_partitions):
        pending.append(reader.table(TYPES_TABLE, i))
        if sum(table.num_rows for table in pending) > _MERGE_ROWS:
            pending = [_merge(pending)]
        context.progress(i + 1, reader.n_partitions, "partitions")
    # Arrow compares strings by their bytes.
    table = _merge(pending).sort_by([("count", "descending"), ("type", "ascending")])
    context.out.table(TYPES_TABLE, table)
    return {"types": table.num_rows, "tokens": int(table["count"].to_numpy().sum())}


def _merge(tables: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    merged = table.group_by("type").aggregate([("count", "sum")])
    return merged.rename_columns({"count_sum": "count"}).select(TYPES_SCHEMA.names)


TYPES: Step[Types] = Step("types", 1, "types", count_types)


def read_types(reader: Reader) -> tuple[list[str], NDArray[np.int64]]:
    """All surface forms of a text, most frequent first, and (V,) how often each stands in it."""
    table = reader.table(TYPES_TABLE)
    return table["type"].to_pylist(), table["count"].to_numpy()


def make_vocabulary(
    context: Context, readers: Mapping[str, Reader], params: WantsVocabulary
) -> Stats:
    """Choose the words of a vocabulary; whether there is any word is for its user to judge.

    Inputs: ``types``; ``base`` where the training goes on from a model, whose words stay.
    """
    words, counts = read_types(readers["types"])
    limits: dict[str, Any] = {"min_count": params.min_count, "max_size": params.max_size}
    grows: dict[str, int] = {}
    if "base" in readers:
        base = read_vocabulary(readers["base"])  # a model's own part has the same name and form
        vocabulary = grown(base, words, counts, **limits)
        grows = {"new": len(vocabulary) - len(base)}
    else:
        vocabulary = select(words, counts, **limits, reserved=params.reserved)
    context.out.json(VOCABULARY_PART, vocabulary.to_json())
    covered = np.array([word in vocabulary for word in words], np.bool_)
    return {
        "size": len(vocabulary),
        "types": len(words),
        "tokens": int(counts.sum()),
        "covered": int(counts[covered].sum()),
        **grows,
        "reserved_surface": sum(
            int(count) for word, count in zip(words, counts, strict=True) if word in MARKS
        ),
    }


VOCABULARY: Step[WantsVocabulary] = Step("vocabulary", 1, "vocabulary", make_vocabulary)


def read_vocabulary(reader: Reader) -> Vocabulary:
    """The vocabulary in an artifact."""
    return Vocabulary.from_json(reader.json(VOCABULARY_PART))
