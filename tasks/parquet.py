"""One column of a Parquet file as records, a batch of rows in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.encodings import Decoder
from tasks.errors import InputError
from tasks.records import TOO_LARGE, Record

_ROWS = 256  # in memory at a time; a row may be large


def cells(path: Path, decode: Decoder, limit: int, column: str) -> Iterator[Record]:
    """A record a row.

    Args:
        path: of the file.
        decode: makes text of a value; Parquet says UTF-8, but nobody checks when it is written.
        limit: bytes of a value.
        column: with the text; of strings, bytes or nothing but nulls.

    Raises:
        InputError: the file is damaged, or its column is absent or no text.
    """
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            _check(file.schema_arrow, column, path)
            number = 0
            for batch in file.iter_batches(_ROWS, columns=[column], use_threads=False):
                for value in _bytes(batch.column(0)):
                    number += 1
                    yield _record(number, value, decode, limit)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(
            f"this is no whole Parquet file ({error})",
            where=str(path),
            remedy="fetch it again, or name its format",
        ) from None


def _record(number: int, value: bytes | None, decode: Decoder, limit: int) -> Record:
    if value is None:
        return Record(number, "", "null")
    if len(value) > limit:
        return Record(number, decode(value[:4096])[0], TOO_LARGE)
    return Record(number, *decode(value))


def _check(schema: pa.Schema, column: str, path: Path) -> None:
    kind: Any = schema.field(column).type if schema.names.count(column) == 1 else None
    if kind is not None and pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind is None or str(kind) not in _TEXT:
        raise InputError(
            f"the column {column!r} holds no text ({kind})" if kind
            else f"there is no column {column!r}",
            where=str(path),
            remedy=f"set field to one of: {', '.join(schema.names[:50])}",
        )  # fmt: skip


_TEXT = {"string", "large_string", "string_view", "binary", "large_binary", "binary_view", "null"}


def _bytes(column: Any) -> list[bytes | None]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
