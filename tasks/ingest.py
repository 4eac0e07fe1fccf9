"""Ingestion: the bytes of a source become documents in partitions that are bounded by bytes.

A partition of a source is a file, a range of a large one, or several small ones; each is read as a
stream, however it is packed. A record that cannot be used is dropped, counted by reason, and the
start of it is kept in ``rejects.parquet``; only damage to a whole file, or the policy ``fail``,
ends the step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from tasks.artifacts import Stats
from tasks.errors import InputError
from tasks.files import origin_of
from tasks.normalize import DOCUMENTS
from tasks.readers import Ingest, read_records
from tasks.records import Record, Run
from tasks.sources import PARTITION_BYTES
from tasks.step import Context, Step
from tasks.store import Reader, Writer
from tasks.unpack import Extent, Member, opened

REJECTS = "rejects.parquet"
SCHEMA = pa.schema([("origin", pa.string()), ("text", pa.large_string())])
"""Raw documents: the start of the file's hash with the number of the record in it, the text."""
REJECTS_SCHEMA = pa.schema(
    [("origin", pa.string()), ("reason", pa.string()), ("start", pa.string())]
)

_RECORD_BYTES = 32  # what a record costs besides its text
_START = 200  # characters of a reject that are kept
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    for record in read_records(member, extent, params, out.stats):
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
