r"""Ingestion: the bytes of a source become documents in partitions that are bounded by bytes.

A file is read as a stream, packed (gzip, bzip2, Zstandard, known by their first bytes) or plain.
A record is a line, a file, a JSON object or a page; ``\n`` and ``\r\n`` end a line, nothing else
does. A record that cannot be used is dropped, counted by reason, and the start of it is kept in
``rejects.parquet``.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast
from xml.etree import ElementTree

import pyarrow as pa

from tasks.artifacts import Stats
from tasks.errors import InputError
from tasks.normalize import DOCUMENTS
from tasks.sources import PARTITION_BYTES, Source
from tasks.step import Context, Step
from tasks.store import Reader, Writer
from tasks.wikipedia import read_pages

REJECTS = "rejects.parquet"
SCHEMA = pa.schema([("origin", pa.string()), ("text", pa.large_string())])
"""Raw documents: the start of the file's hash with the number of the record in it, the text."""
REJECTS_SCHEMA = pa.schema(
    [("origin", pa.string()), ("reason", pa.string()), ("start", pa.string())]
)

_RECORD_BYTES = 32  # what a record costs besides its text
_START = 200  # characters of a reject that are kept
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_BYTE_ORDER = {
    b"\xff\xfe\x00\x00": "utf-32", b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNDECODED = "\udcff"


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Mark what cannot be decoded; no decoder yields this character by itself."""
    if isinstance(error, UnicodeDecodeError):
        return _UNDECODED, error.end
    raise error


codecs.register_error("lexloom.mark", _mark)


@dataclass(frozen=True)
class Ingest:
    """How bytes are read as records.

    Attributes:
        format: of the files.
        document: for text, what makes a document.
        field: for JSON lines, the field with the text.
        encoding: of text and JSON lines.
    """

    format: Literal["text", "jsonl", "wikipedia"] = "text"
    document: Literal["line", "file"] = "line"
    field: str = ""
    encoding: str = "utf-8"

    @staticmethod
    def of(source: Source) -> Ingest:
        """The part of a source that decides how its bytes are read."""
        match source.format:
            case "text":
                return Ingest("text", source.document, encoding=source.encoding)
            case "jsonl":
                return Ingest("jsonl", field=source.field, encoding=source.encoding)
            case "wikipedia":
                return Ingest("wikipedia")
            case "dataset":  # was written as JSON lines when it was imported
                return Ingest("jsonl", field="text")


class Record(NamedTuple):
    """A record of a file.

    Attributes:
        number: counts the records of the file from 1: its line, or its page.
        text: the document, or the start of what is rejected.
        reason: why it is rejected, empty if it is not.
    """

    number: int
    text: str
    reason: str = ""


def ingest(context: Context, readers: Mapping[str, Reader], params: Ingest) -> Stats:
    """Read one file of a source."""
    reader = readers["source"]
    path, sha256 = reader.path("file"), reader.parts[0].sha256
    out = _Partitions(context.out, sha256[:12])
    with _opened(path, sha256, context.progress) as file:
        for record in _records(file, params, path):
            out.add(record)
    out.flush(last=True)
    return dict(out.stats)


INGEST: Step[Ingest] = Step("ingest", 1, "documents", ingest)


@dataclass
class _Partitions:
    """Collects records and writes a partition whenever it is full."""

    out: Writer
    source: str
    rows: list[tuple[str, str]] = field(default_factory=list)
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    size: int = 0
    written: int = 0
    stats: Counter[str] = field(
        default_factory=lambda: Counter({"files": 1, "read": 0, "kept": 0, "bytes": 0})
    )

    def add(self, record: Record) -> None:
        self.stats["read"] += 1
        reason = record.reason or ("" if record.text.strip() else "empty")
        if reason == "empty":
            self.stats["dropped.empty"] += 1
            return
        text = record.text[:_START] if reason else record.text
        if not text.isascii() and _SURROGATE.search(text):
            text = _SURROGATE.sub("\ufffd" if reason else "", text)
            self.stats["changed.surrogates"] += not reason
        size = len(text) if text.isascii() else len(text.encode())
        origin = f"{self.source}:{record.number}"
        if reason:
            self.stats[f"dropped.{reason}"] += 1
            self.rejects.append((origin, reason, text))
        else:
            self.stats["kept"] += 1
            self.stats["bytes"] += size
            self.rows.append((origin, text))
        self.size += size + _RECORD_BYTES
        if self.size >= PARTITION_BYTES:
            self.flush()

    def flush(self, *, last: bool = False) -> None:
        if last and self.written and not self.size:
            return
        self.out.table(DOCUMENTS, _table(self.rows, SCHEMA), self.written)
        self.out.table(REJECTS, _table(self.rejects, REJECTS_SCHEMA), self.written)
        self.rows, self.rejects, self.size = [], [], 0
        self.written += 1


def _table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


# --- bytes ------------------------------------------------------------------------------------


class _Hashed(io.RawIOBase):
    """A file that is hashed while it is read."""

    def __init__(self, file: io.FileIO, progress: Callable[[int, int, str], None]) -> None:
        self._file, self._progress = file, progress
        self._size = os.fstat(file.fileno()).st_size
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._file.readinto(buffer) or 0
        self._hash.update(memoryview(buffer)[:size])
        self._progress(self._file.tell(), self._size, "bytes")
        return size

    def finish(self) -> str:
        """The hash of the whole file, also of what nobody has read."""
        while chunk := self._file.read(1 << 20):
            self._hash.update(chunk)
        return self._hash.hexdigest()


@contextlib.contextmanager
def _opened(
    path: Path, sha256: str, progress: Callable[[int, int, str], None]
) -> Iterator[io.BufferedReader]:
    """A file's bytes, unpacked.

    Raises:
        InputError: it is damaged, or no longer the file with this hash.
    """
    with path.open("rb", buffering=0) as file:
        codec = _codec(file)
        raw = _Hashed(file, progress)
        stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec) if codec else raw
        try:
            yield io.BufferedReader(cast(Any, stream), 1 << 20)
        except OSError as error:
            if error.errno is not None:
                raise  # the disk's fault, and perhaps not for long
            raise InputError(
                f"the {codec} file is damaged or was cut off ({error})",
                where=str(path),
                remedy="fetch it again",
            ) from None
        if raw.finish() != sha256:
            raise InputError(
                "the file changed while it was read", where=str(path), remedy="run again"
            )


def _codec(file: io.FileIO) -> str | None:
    """How a file that was just opened is packed, None if it is not."""
    start = file.read(4)
    file.seek(0)
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


def peek(path: Path, params: Ingest, size: int) -> tuple[list[str], float]:
    """The first documents of a file, up to about ``size`` bytes of text, for an estimate.

    Returns:
        the texts, and the share of the file that they are, about.
    """
    texts: list[str] = []
    got = 0
    with path.open("rb", buffering=0) as file:
        codec = _codec(file)
        raw = pa.CompressedInputStream(pa.PythonFile(file, "r"), codec) if codec else file
        # A small buffer: what is read ahead counts as read.
        for record in _records(io.BufferedReader(cast(Any, raw), 1 << 16), params, path):
            if not record.reason and record.text.strip():
                texts.append(record.text)
                got += len(record.text.encode("utf-8", "surrogatepass"))
            if got >= size:
                return texts, min(1.0, file.tell() / max(1, path.stat().st_size))
    return texts, 1.0


# --- records ----------------------------------------------------------------------------------


def _records(file: io.BufferedReader, params: Ingest, path: Path) -> Iterator[Record]:
    if params.format == "wikipedia":
        return _pages(file, path)
    start = file.peek(4)[:4]
    encoding = next((name for mark, name in _BYTE_ORDER.items() if start.startswith(mark)), "")
    if encoding and codecs.lookup(params.encoding).name == "utf-8":
        raise InputError(
            f"this is {encoding.upper()} text, not UTF-8",
            where=str(path),
            remedy=f"set encoding to {encoding}",
        )
    # With newline="\n" a lone CR is a character like any other.
    text = io.TextIOWrapper(file, params.encoding, errors="lexloom.mark", newline="\n")
    if params.format == "jsonl":
        return _objects(text, params.field)
    if params.document == "file":
        return _whole(text)
    return _lines(text)


def _lines(file: IO[str]) -> Iterator[Record]:
    for number, line in enumerate(file, 1):
        text = line.removesuffix("\n").removesuffix("\r")
        yield Record(number, text, "encoding" if _UNDECODED in text else "")


def _whole(file: IO[str]) -> Iterator[Record]:
    text = file.read().replace("\r\n", "\n")
    yield Record(1, text, "encoding" if _UNDECODED in text else "")


def _objects(file: IO[str], name: str) -> Iterator[Record]:
    for line in _lines(file):
        if line.reason or not line.text.strip("\ufeff \t\r"):
            yield line
            continue
        value, reason = _field(line.text.removeprefix("\ufeff"), name)
        yield Record(line.number, line.text if reason else value, reason)


def _field(line: str, name: str) -> tuple[str, str]:
    """The text in a JSON object, or why there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "", "invalid_json"
    if not isinstance(value, dict):
        return "", "not_an_object"
    if name not in value:
        return "", "missing_field"
    text = value[name]
    if text is None:
        return "", "null"
    return (text, "") if isinstance(text, str) else ("", "not_a_string")


def _pages(file: IO[bytes], path: Path) -> Iterator[Record]:
    try:
        for page in read_pages(file):
            text, reason = page.markup or "", ""
            if page.namespace != 0:
                reason = "namespace"
            elif page.redirect:
                reason = "redirect"
            yield Record(page.number, text, reason)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(
            f"this is no whole Wikipedia XML dump ({error})",
            where=str(path),
            remedy="fetch it again, or name its format",
        ) from None
