"""Ingestion: the bytes of a source become documents in partitions that are bounded by bytes.

A partition of a source is a file, a range of a large one, or several small ones; each is read as a
stream, however it is packed. A record that cannot be used is dropped, counted by reason, and the
start of it is kept in ``rejects.parquet``; only damage to a whole file, or the policy ``fail``,
ends the step.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal
from xml.etree import ElementTree

import pyarrow as pa

from tasks import records
from tasks.artifacts import Stats
from tasks.encodings import (
    AUTO,
    SAMPLE_BYTES,
    Decoder,
    Invalid,
    Transcoded,
    byte_order,
    canonical,
    detect,
    detector,
    keeps_lines,
    looks_binary,
)
from tasks.errors import InputError
from tasks.files import origin_of
from tasks.html import extractor, page_encoding, pages
from tasks.normalize import DOCUMENTS
from tasks.parquet import cells
from tasks.records import TOO_LARGE, Record, Run
from tasks.sources import MAX_RECORD_BYTES, PARTITION_BYTES, Source
from tasks.step import Context, Step
from tasks.store import Reader, Writer
from tasks.unpack import Extent, Member, check, opened
from tasks.wikipedia import read_pages

REJECTS = "rejects.parquet"
SCHEMA = pa.schema([("origin", pa.string()), ("text", pa.large_string())])
"""Raw documents: the start of the file's hash with the number of the record in it, the text."""
REJECTS_SCHEMA = pa.schema(
    [("origin", pa.string()), ("reason", pa.string()), ("start", pa.string())]
)

_RECORD_BYTES = 32  # what a record costs besides its text
_START = 200  # characters of a reject that are kept
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Ingest:
    """How bytes are read as records; a setting that does not matter to a format has its default.

    Attributes:
        format: of the files.
        document: for text, what makes a document.
        field: the field or column with the text.
        encoding: of the files, or "auto".
        invalid: what becomes of a record with bytes that are no text in the encoding.
        nul: what becomes of zero bytes in a text.
        max_record_bytes: a larger record is dropped.
        quoted: for CSV and TSV, whether quotes mean anything.
        header: for CSV and TSV, whether the first row names the columns.
        library: name and version of what else shapes the output.
    """

    format: Literal["text", "jsonl", "csv", "tsv", "parquet", "html", "wikipedia"] = "text"
    document: Literal["line", "block", "file"] = "line"
    field: str = ""
    encoding: str = "utf-8"
    invalid: Invalid = "reject"
    nul: Literal["remove", "space", "reject"] = "remove"
    max_record_bytes: int = MAX_RECORD_BYTES
    quoted: bool = True
    header: bool = True
    library: str = ""

    @staticmethod
    def of(source: Source) -> Ingest:
        """The part of a source that decides how its bytes are read."""
        if source.format == "dataset":  # was written as JSON lines when it was imported
            return Ingest(
                "jsonl", field="text", nul=source.nul, max_record_bytes=source.max_record_bytes
            )
        rows = source.format in ("csv", "tsv")
        encoded = source.format not in ("parquet", "wikipedia")
        encoding = source.encoding if encoded else "utf-8"
        libraries = [detector()] if encoding == AUTO else []
        libraries += [extractor()] if source.format == "html" else []
        return Ingest(
            source.format,
            source.document if source.format == "text" else "line",
            source.field if source.format in ("jsonl", "csv", "tsv", "parquet") else "",
            encoding if encoding == AUTO else canonical(encoding),
            source.invalid,
            source.nul,
            source.max_record_bytes,
            source.quoted if rows else True,
            source.header if rows else True,
            ", ".join(libraries),
        )


def ingest(context: Context, readers: Mapping[str, Reader], params: Ingest) -> Stats:
    """Read the files of one partition of a source."""
    reader = readers["source"]
    out = _Partitions(context.out, params)
    for part in sorted(reader.parts, key=lambda part: part.name):
        extent = Extent(reader.path(part.name), part.sha256, part.begin, part.size)
        out.stats["files"] += not part.begin
        with opened(extent, context.progress) as members:
            for member in members:
                _read(member, extent, params, out, partial(_place, reader, part.name, member.name))
    out.flush(last=True)
    return dict(out.stats)


INGEST: Step[Ingest] = Step("ingest", 2, "documents", ingest)


def _read(
    member: Member,
    extent: Extent,
    params: Ingest,
    out: _Partitions,
    place: Callable[[int], str],
) -> None:
    label = extent.sha256[:12] + (f"/{member.index}" if member.name else "")
    for record in _records(member, extent, params, out.stats):
        if isinstance(record, Run):
            out.add_run(label, record)
            continue
        if record.reason == "encoding" and params.invalid == "fail":
            raise InputError(
                f"these bytes are no text in {params.encoding}: {record.text[:80]!a}",
                where=place(record.number),
                remedy="set encoding, or set invalid to reject or replace",
            )
        out.add(f"{label}:{record.number}", record)


def _place(reader: Reader, part: str, member: str, number: int) -> str:
    return origin_of(reader, part).place(number, member)


@dataclass
class _Partitions:
    """Collects records and writes a partition whenever it is full."""

    out: Writer
    params: Ingest
    labels: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    size: int = 0
    written: int = 0
    stats: Counter[str] = field(
        default_factory=lambda: Counter({"files": 0, "read": 0, "kept": 0, "bytes": 0})
    )

    def add(self, label: str, record: Record) -> None:
        """Take a record, or count why it is not taken."""
        _, text, reason, change = record
        stats = self.stats
        stats["read"] += 1
        if "\0" in text and not reason:
            if self.params.nul == "reject":
                reason = "nul"
            else:
                text = text.replace("\0", " " if self.params.nul == "space" else "")
                stats["changed.nul"] += 1
        if not reason and (not text or text.isspace()):
            stats["dropped.empty"] += 1
            return
        if reason:
            self._reject(label, reason, text[:_START])
            return
        size = len(text)
        if not text.isascii():
            if _SURROGATE.search(text):
                text = _SURROGATE.sub("", text)
                stats["changed.surrogates"] += 1
            size = len(text.encode())
        if change:
            stats[f"changed.{change}"] += 1
        stats["kept"] += 1
        stats["bytes"] += size
        self.labels.append(label)
        self.texts.append(text)
        self._grow(size)

    def add_run(self, label: str, run: Run) -> None:
        """Take lines in a row."""
        kept = [
            (n, text) for n, text in enumerate(run.texts, run.number) if text and not text.isspace()
        ]
        blank, size = len(run.texts) - len(kept), run.size
        if blank:
            self.stats["dropped.empty"] += blank
            size = sum(len(text.encode()) for _, text in kept)
        self.stats.update({"read": len(run.texts), "kept": len(kept), "bytes": size})
        self.labels += [f"{label}:{n}" for n, _ in kept]
        self.texts += [text for _, text in kept]
        self._grow(size, len(kept))

    def _reject(self, label: str, reason: str, start: str) -> None:
        self.stats[f"dropped.{reason}"] += 1
        self.rejects.append((label, reason, _SURROGATE.sub("\ufffd", start)))
        self._grow(len(start))

    def _grow(self, size: int, records: int = 1) -> None:
        self.size += size + _RECORD_BYTES * records
        if self.size >= PARTITION_BYTES:
            self.flush()

    def flush(self, *, last: bool = False) -> None:
        """Write what was collected as a partition; the last one only if there is no other."""
        if last and self.written and not self.size:
            return
        self.out.table(DOCUMENTS, _table([self.labels, self.texts], SCHEMA), self.written)
        columns = list(zip(*self.rejects, strict=True)) or [(), (), ()]
        self.out.table(REJECTS, _table(columns, REJECTS_SCHEMA), self.written)
        self.labels, self.texts, self.rejects, self.size = [], [], [], 0
        self.written += 1


def _table(columns: list[Any], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


# --- from bytes to records ------------------------------------------------------------------------


def _records(
    member: Member, extent: Extent, params: Ingest, stats: Counter[str]
) -> Iterator[Record | Run]:
    """The records of a stream, and in ``stats`` which encoding was found out."""
    limit = params.max_record_bytes
    if params.format == "parquet":
        check(extent)
        return cells(extent.path, Decoder("utf-8", params.invalid), limit, params.field)
    if params.format == "wikipedia":
        return _pages(member.file, extent.path, limit)
    encoding = _encoding(member, extent, params)
    if encoding != params.encoding and extent.begin in (None, 0):
        stats[f"encoding.{encoding or 'unknown'}"] += 1
    start = member.file.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
    if not encoding or (keeps_lines(encoding) and looks_binary(start)):
        return iter([Record(1, start[:_START].decode("latin-1"), "binary")])
    file: Any = member.file
    if not keeps_lines(encoding):
        file = io.BufferedReader(Transcoded(file, encoding), 1 << 20)
        encoding = "utf-8"
    decode = Decoder(encoding, params.invalid)
    return _reader_of(params, str(extent.path))(file, decode, limit)


def _reader_of(params: Ingest, where: str) -> Callable[[Any, Decoder, int], Iterator[Record | Run]]:
    match params.format:
        case "jsonl":
            return partial(records.objects, name=params.field)
        case "csv" | "tsv":
            column: Any = int(params.field) - 1 if not params.header else None
            return partial(
                records.rows,
                delimiter="," if params.format == "csv" else "\t",
                quoted=params.quoted,
                column=records.column_finder(params.field, where) if column is None else column,
            )
        case "html":
            return pages
        case _ if params.document == "line":
            return records.runs
    return records.blocks if params.document == "block" else records.whole


def _encoding(member: Member, extent: Extent, params: Ingest) -> str:
    """The encoding of a stream, empty if it is no text."""
    if params.format == "html" or params.encoding == AUTO:
        if member.name:
            return _look(io.BytesIO(member.file.peek(1 << 20)), params)
        # What is looked at may be much and must be read again, so it is another stream.
        with opened(replace(extent, sha256="")) as members:
            return _look(next(members).file, params)
    # A mark of UTF-16 or UTF-32 is never valid UTF-8, so it cannot be mistaken.
    found = byte_order(member.file.peek(4)[:4]) if params.encoding == "utf-8" else ""
    return found or params.encoding


def _look(file: IO[bytes], params: Ingest) -> str:
    return page_encoding(file, params.encoding) if params.format == "html" else detect(file)


def _pages(file: Any, path: Path, limit: int) -> Iterator[Record]:
    try:
        for page in read_pages(file):
            text, reason = page.markup or "", ""
            if page.namespace != 0:
                reason = "namespace"
            elif page.redirect:
                reason = "redirect"
            elif len(text) > limit:
                reason = TOO_LARGE
            yield Record(page.number, text, reason)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(
            f"this is no whole Wikipedia XML dump ({error})",
            where=str(path),
            remedy="fetch it again, or name its format",
        ) from None


def peek(path: Path, params: Ingest, size: int) -> tuple[list[str], float]:
    """The first documents of a file, up to about ``size`` bytes of text, for an estimate.

    Returns:
        the texts, and the share of the file that they are, about.
    """
    texts: list[str] = []
    got = 0
    share = 0.0

    def progress(done: int, total: int, unit: str) -> None:
        nonlocal share
        share = done / max(1, total)

    extent = Extent(path, "", None, path.stat().st_size)
    # A small buffer: what is read ahead counts as read.
    with opened(extent, progress, buffer=1 << 16) as members:
        for record in (r for m in members for r in _records(m, extent, params, Counter())):
            new = record.texts if isinstance(record, Run) else [record.text][bool(record.reason) :]
            for text in filter(str.strip, new):
                texts.append(text)
                got += len(text.encode("utf-8", "surrogatepass"))
                if got >= size:
                    return texts, min(1.0, share)
    return texts, 1.0
