"""Readers: how the bytes of a file become records, by its format and its encoding."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal
from xml.etree import ElementTree

from tasks import records
from tasks.encodings import (
    AUTO,
    SAMPLE_BYTES,
    Decoder,
    Invalid,
    Transcoded,
    byte_order,
    canonical,
    detect,
    keeps_lines,
    looks_binary,
    unmarked,
)
from tasks.errors import InputError
from tasks.html import extractor, page_encoding, pages
from tasks.parquet import cells
from tasks.records import TOO_LARGE, Record, Run
from tasks.sources import MAX_RECORD_BYTES, Source
from tasks.unpack import Extent, Member, check, opened
from tasks.wikipedia import read_pages

_START = 200  # bytes of a stream that is no text, to show


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
        libraries: names and versions of what else shapes the output.
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
    libraries: str = ""

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
        library = extractor() if source.format == "html" or encoding == AUTO else ""
        return Ingest(
            source.format,
            source.document if source.format == "text" else "line",
            source.field if source.format in ("jsonl", "csv", "tsv", "parquet") else "",
            encoding if encoding == AUTO else canonical(encoding),
            "reject" if source.format == "wikipedia" else source.invalid,
            source.nul,
            source.max_record_bytes,
            source.quoted if rows else True,
            source.header if rows else True,
            library,
        )


def read_records(
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
    return found or unmarked(params.encoding, member.file.peek(SAMPLE_BYTES)[:SAMPLE_BYTES])


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
    got, read, total = 0, 0, max(1, path.stat().st_size)

    def progress(done: int, _: int, unit: str) -> None:
        nonlocal read
        read = done

    extent = Extent(path, "", None, total)
    # A small buffer: what is read ahead counts as read.
    with opened(extent, progress, buffer=1 << 13) as members:
        before = 0
        for record in (r for m in members for r in read_records(m, extent, params, Counter())):
            new = record.texts if isinstance(record, Run) else [record.text][bool(record.reason) :]
            for n, text in enumerate(new, 1):
                if text.strip():
                    texts.append(text)
                    got += len(text.encode("utf-8", "surrogatepass"))
                if got >= size:
                    return texts, min(1.0, (before + (read - before) * n / len(new)) / total)
            before = read
    return texts, 1.0
