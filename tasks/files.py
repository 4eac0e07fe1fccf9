"""Files from outside as artifacts: keyed by their bytes, never by their names.

A partition is a file; or, for text, a fixed range of a large file, cut behind a record, or several
small files in a row. Where a group of small files ends depends on its last file alone
(content-defined chunking: Muthitacharoen, Chen and Mazieres 2001, "A low-bandwidth network file
system", applied to a list of files). So a file that comes, goes or changes makes one group another
one, a file that grows at its end makes its last range another one, and all the rest stays.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from tasks.artifacts import Artifact, Manifest, Part, recipe_of
from tasks.encodings import byte_order
from tasks.errors import InputError
from tasks.storage import LocalFiles
from tasks.store import Reader, Store, Writer
from tasks.unpack import packing

RANGE_BYTES = 6 * 2**20
"""Of a file that is cut. With what records cost besides their text it fills one partition."""
SMALL_BYTES = 2**20
"""A file of so many bytes or more has a partition for itself."""
GROUP_BYTES = 4 * 2**20
"""Of a group of small files, on average. 5,000 files of 4 KB: 11 groups, not 5,000."""

_FILE_BYTES = 4096  # what a file costs besides its bytes
_BUFFER = 1 << 20

Cut = Literal["line", "block"]
"""Behind what a large file may be cut: any line, or an empty one."""


@dataclass(frozen=True)
class Piece:
    """Bytes of a file that belong together.

    Attributes:
        path: of the file.
        begin: where they begin, None for all of the file.
        size: how many there are.
        sha256: of them.
        lines: line feeds before them in the file.
    """

    path: Path
    begin: int | None
    size: int
    sha256: str
    lines: int = 0


@dataclass(frozen=True)
class Origin:
    """Where the records of a part stood.

    Attributes:
        name: of the file.
        lines: before the first record.
    """

    name: str
    lines: int = 0

    def place(self, number: int, member: str = "") -> str:
        """The place of a record, as people write it."""
        return f"{self.name}{f': {member}' if member else ''}:{self.lines + number}"


def import_files(store: Store, paths: Sequence[Path], kind: str) -> Artifact:
    """Files as one artifact, a partition a file with the part ``file``, in the given order.

    A store in a local folder refers to the files where they lie; any other store gets a copy.

    Raises:
        InputError: a file cannot be read.
    """
    return _publish(store, [_pieces(path, None) for path in paths], kind)


def import_text(store: Store, paths: Sequence[Path], kind: str, cut: Cut | None) -> Artifact:
    """Files as one artifact with partitions for about the same work, in the given order.

    Raises:
        InputError: a file cannot be read.
    """
    return _publish(store, list(_partitions([_pieces(path, cut) for path in paths])), kind)


def origin_of(reader: Reader, name: str) -> Origin:
    """Where the records of a part of one partition of a source stood."""
    files = reader.store.manifest(reader.artifact).origin.get("files", {})
    found = files.get(f"{reader.artifact.partition or 0}/{name}")
    return Origin(**found) if found else Origin(str(reader.path(name)))


def locate(store: Store, source: Artifact, label: str) -> str:
    """The file and line of a record by the ``origin`` that its document or reject carries.

    Returns:
        "name:line" (or row, or page), empty if the source has no such record.
    """
    start, _, number = label.rpartition(":")
    manifest = store.manifest(source)
    files = manifest.origin.get("files", {})
    for part in manifest.parts:
        if part.sha256.startswith(start.split("/")[0]):
            found = files.get(f"{part.partition}/{part.name}")
            return Origin(**found).place(int(number)) if found else ""
    return ""


# --- pieces of files ------------------------------------------------------------------------------


def _pieces(path: Path, cut: Cut | None) -> list[Piece]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            one_stream = packing(start) or byte_order(start) not in ("", "utf-8")
            if cut is None or size <= RANGE_BYTES or one_stream:
                return [Piece(path, None, size, _hash(file, 0, size)[0])]
            ends = list(_ends(file, size, cut))
            pieces, lines = [], 0
            for begin, end in zip([0, *ends], ends, strict=False):
                sha256, more = _hash(file, begin, end - begin)
                pieces.append(Piece(path, begin, end - begin, sha256, lines))
                lines += more
            return pieces
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _hash(file: IO[bytes], begin: int, size: int) -> tuple[str, int]:
    """sha256 of a range, and its line feeds."""
    file.seek(begin)
    digest, lines = hashlib.sha256(), 0
    while size > 0 and (data := file.read(min(size, _BUFFER))):
        digest.update(data)
        lines += data.count(b"\n")
        size -= len(data)
    return digest.hexdigest(), lines


def _ends(file: IO[bytes], size: int, cut: Cut) -> Iterator[int]:
    """Where the ranges of a file end: the first cut at or behind every fixed multiple."""
    end = 0
    while end < size:
        end = _end(file, (end // RANGE_BYTES + 1) * RANGE_BYTES, size, cut)
        yield end


def _end(file: IO[bytes], position: int, size: int, cut: Cut) -> int:
    if position >= size:
        return size
    file.seek(position - 1)
    # The line in which it stands may have begun before: only the next is known to be whole.
    behind_line = False
    while line := file.readline(_BUFFER):
        ends = line.endswith(b"\n")
        if ends and (cut == "line" or (behind_line and not line.strip())):
            return min(file.tell(), size)
        behind_line = ends
    return size


def _partitions(files: Sequence[list[Piece]]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    size = 0
    for pieces in files:
        if len(pieces) > 1 or pieces[0].size >= SMALL_BYTES:
            if group:
                yield group
            yield from ([piece] for piece in pieces)
            group, size = [], 0
            continue
        group += pieces
        cost = pieces[0].size + _FILE_BYTES
        size += cost
        # A draw that only this file decides, likelier the more it holds.
        drawn = int(pieces[0].sha256[:12], 16) / 16**12 < cost / GROUP_BYTES
        if drawn or size >= 4 * GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


# --- the artifact ---------------------------------------------------------------------------------


def _publish(store: Store, partitions: Sequence[list[Piece]], kind: str) -> Artifact:
    hashes = [[piece.sha256 for piece in pieces] for pieces in partitions]
    recipe = recipe_of("file", 2, [kind, hashes], {})
    local = isinstance(store.files, LocalFiles)
    rows = [
        (i, "file" if n == 0 else f"file.{n:05d}", piece)
        for i, pieces in enumerate(partitions)
        for n, piece in enumerate(pieces)
    ]
    references = tuple(
        Part(i, name, os.path.abspath(piece.path), piece.sha256, piece.size, piece.begin)
        for i, name, piece in rows
    )
    found = store.find("file", recipe)
    # A reference counts for the very bytes that were hashed: other paths may hold others by now.
    if found and (not local or found.parts == references):
        return found.handle()
    with store.lease("file", recipe):
        store.discard("file", recipe)
        parts = references if local else _copies(store, recipe, rows)
        names: dict[str, Any] = {
            f"{i}/{name}": {"name": piece.path.name, "lines": piece.lines}
            for i, name, piece in rows
        }
        stats = {"files": sum(not piece.begin for _, _, piece in rows)}
        manifest = Manifest(kind, "file", 2, recipe, parts, stats, {"files": names})
        return store.commit(manifest).handle()


def _copies(store: Store, recipe: str, rows: Sequence[tuple[int, str, Piece]]) -> tuple[Part, ...]:
    out = Writer(store, "file", recipe)
    for i, name, piece in rows:
        with out.path(name, i) as target, piece.path.open("rb") as file, target.open("wb") as copy:
            if piece.begin is None:
                shutil.copyfileobj(file, copy, _BUFFER)
            else:  # a range is small
                file.seek(piece.begin)
                copy.write(file.read(piece.size))
    return out.parts
