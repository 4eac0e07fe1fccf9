"""Where a corpus comes from: files, globs, URLs, data sets; resolved to bytes before keying.

Files are keyed by their bytes in a canonical order, data sets by the text that was read from
them: a name, a glob or a revision never enters a key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.artifacts import Artifact
from tasks.encodings import AUTO, Invalid, canonical, keeps_lines
from tasks.errors import ConfigError
from tasks.files import Cut, import_text
from tasks.hub import import_dataset
from tasks.places import SAMPLE, find_files
from tasks.store import Store

PARTITION_BYTES = 8 * 2**20
"""Text in one partition; about a second of work for a step."""

MAX_RECORD_BYTES = 32 * 2**20
"""Of a record, unless set otherwise: a worker holds a few copies of one."""


@dataclass(frozen=True)
class Source:
    """Where documents come from, and how they lie there."""

    paths: Annotated[
        tuple[str, ...],
        Field(
            description=f"Files, globs and URLs (s3://, http://; {SAMPLE} is the packaged sample, "
            "- is standard input), packed or not"
        ),
    ] = ()
    format: Annotated[
        Literal["text", "jsonl", "csv", "tsv", "parquet", "html", "wikipedia", "dataset"],
        Field(
            description="Plain text, JSON lines, tables, web pages, a Wikipedia XML dump, "
            "or a data set"
        ),
    ] = "text"
    document: Annotated[
        Literal["line", "block", "file"],
        Field(description="Text: a document is a line, a block between empty lines, or a file"),
    ] = "line"
    field: Annotated[
        str,
        Field(
            description="JSON lines, tables, data set: the field or column with the text "
            "(without a header, its number from 1)"
        ),
    ] = "text"
    encoding: Annotated[
        str,
        Field(description="Text, JSON lines, tables, web pages: the encoding, or auto"),
    ] = "utf-8"
    invalid: Annotated[
        Invalid,
        Field(
            description="Bytes that are no text in the encoding: reject the document, "
            "replace them by U+FFFD, or fail"
        ),
    ] = "reject"
    nul: Annotated[
        Literal["remove", "space", "reject"],
        Field(
            description="Zero bytes in a text: remove them, make them spaces, "
            "or reject the document"
        ),
    ] = "remove"
    max_record_bytes: Annotated[
        int, Field(ge=1, le=2**30, description="A larger record is rejected")
    ] = MAX_RECORD_BYTES
    quoted: Annotated[
        bool, Field(description="CSV, TSV: fields may stand in double quotes (RFC 4180)")
    ] = True
    header: Annotated[bool, Field(description="CSV, TSV: the first row names the columns")] = True
    dataset: Annotated[
        str, Field(description="Data set: its name on the Hugging Face hub, or its folder")
    ] = ""
    config: Annotated[str, Field(description="Data set: its configuration, if it has several")] = ""
    split: Annotated[str, Field(description="Data set: the split to read")] = "train"
    streaming: Annotated[
        bool, Field(description="Data set: read it as it comes, without a copy on disk")
    ] = False
    records: Annotated[
        int, Field(ge=0, description="Data set: read at most so many records; 0 reads all")
    ] = 0

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __str__(self) -> str:
        return self.dataset if self.format == "dataset" else ", ".join(self.paths)


def import_source(store: Store, source: Source) -> Artifact:
    """The bytes of a source as an artifact of kind "source".

    Raises:
        ConfigError: the source names nothing, or an encoding that does not exist.
        InputError: a file or data set is not there or cannot be read, or no file matches.
    """
    if source.format == "dataset":
        return import_dataset(store, source)
    check_source(source)
    files = find_files(source.paths, fetched_folder(store))
    return import_text(store, files, "source", _cut(source))


def check_source(source: Source) -> None:
    """Raises ConfigError for settings that cannot be, before any file is touched."""
    try:
        if source.encoding != AUTO:
            canonical(source.encoding)
    except LookupError:
        raise ConfigError("there is no such encoding", where=source.encoding) from None
    if not source.header and not re.fullmatch("[1-9][0-9]{0,5}", source.field):
        raise ConfigError(
            "without a header a column is a number from 1",
            where=f"field: {source.field}",
            remedy="set field to the number of the column with the text",
        )


def fetched_folder(store: Store) -> Path:
    """Where a store keeps files from elsewhere: in it if it is a folder, else in its cache."""
    return store.files.scratch().parent / ".fetched"


def _cut(source: Source) -> Cut | None:
    """Behind what a large file may be cut into ranges; None if it must be read from its start."""
    if source.format not in ("text", "jsonl") or source.encoding == AUTO:
        return None
    if not keeps_lines(canonical(source.encoding)) or source.document == "file":
        return None
    return "block" if source.format == "text" and source.document == "block" else "line"
