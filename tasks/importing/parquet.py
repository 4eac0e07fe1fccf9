"""Vectors as a Parquet table: columns ``word``, ``vector``, and ``count`` if there are counts.

``vector`` is a list of numbers, of fixed size or not. Words that have counts are put in the order
of falling count, as a vocabulary is; ties stay as they stood.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from models.family import Progress
from tasks.errors import InputError
from tasks.importing.gathering import Gathering

ROWS = 1 << 14
"""Read at a time."""


def read_parquet(path: Path, gathering: Gathering, progress: Progress) -> None:
    """Read a table into a gathering.

    Raises:
        InputError: it is damaged, has other columns, or a record cannot be used and the policy is
            strict.
    """
    try:
        _read(path, gathering, progress)
    except (pa.ArrowException, OSError, ValueError) as error:  # also names that are no UTF-8
        raise InputError(
            f"the Parquet file cannot be read ({str(error).splitlines()[0]})",
            where=gathering.name,
            remedy="fetch it again",
        ) from None


def _read(path: Path, gathering: Gathering, progress: Progress) -> None:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if not {"word", "vector"} <= set(names):
            raise InputError(
                f"a table of vectors has the columns word and vector, this one has "
                f"{', '.join(names)}",
                where=gathering.name,
                remedy="rename its columns",
            )
        columns = ["word", "vector", *(["count"] if "count" in names else [])]
        total, done, dim = file.metadata.num_rows, 0, 0
        for batch in file.iter_batches(ROWS, columns=columns):
            dim = _take(batch, done, dim, gathering)
            done += len(batch)
            progress(done, total, "words")


def _take(batch: pa.RecordBatch, done: int, dim: int, gathering: Gathering) -> int:
    """Take the rows of a batch; returns how many numbers a vector has."""
    words, lists = batch.column("word"), batch.column("vector")
    if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        raise InputError(f"the column word is {words.type}, no string", where=gathering.name)
    kind = lists.type
    if not (
        (
            pa.types.is_fixed_size_list(kind)
            or pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
        )
        and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))
    ):
        raise InputError(f"the column vector is {kind}, no list of numbers", where=gathering.name)
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
    if not dim and (lengths > 0).any():
        dim = int(lengths[lengths > 0][0])
    whole = (lengths == dim) & words.is_valid().to_numpy(zero_copy_only=False)
    for i in np.flatnonzero(~whole).tolist():
        problem = f"there is not a word and {dim} numbers in this row"
        gathering.reject("too_few_numbers", problem, f"row {done + i + 1}")
    rows = np.flatnonzero(whole)
    if not len(rows):
        return dim
    values = lists.take(pa.array(rows)).flatten().cast(pa.float32(), safe=False).fill_null(np.nan)
    counts = None
    if "count" in batch.schema.names:
        counts = batch.column("count").cast(pa.int64()).fill_null(0).to_numpy()[rows]
    gathering.add(
        [word.as_buffer().to_pybytes() for word in words.take(pa.array(rows))],
        values.to_numpy(zero_copy_only=False).reshape(len(rows), dim).copy(),
        lambda i: f"row {done + int(rows[i]) + 1}",
        counts,
    )
    return dim
