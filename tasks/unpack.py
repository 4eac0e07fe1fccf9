"""The bytes of a file or of a range of it: hashed while they are read, and unpacked.

gzip, bzip2, xz, Zstandard and zip are known by their first bytes, whatever the name; a file may
hold several packed streams in a row.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from tasks.errors import InputError
from tasks.storage import sha256_of

_MAGIC = {
    b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "zip", b"PK\x05\x06": "zip",
}  # fmt: skip
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Extent:
    """Which bytes are meant, and what they must be.

    Attributes:
        path: of the file.
        sha256: of the bytes; empty if it is not to be checked.
        begin: where they begin in the file; None means all of it.
        size: how many there are.
    """

    path: Path
    sha256: str
    begin: int | None
    size: int


@dataclass(frozen=True)
class Member:
    """A stream of a file: the file itself unpacked, or a file in a zip.

    Attributes:
        index: counts the streams of the file from 0.
        name: of the file in the zip, else empty.
        file: its bytes.
    """

    index: int
    name: str
    file: io.BufferedReader


def packing(start: bytes) -> str:
    """How a file with this start is packed, empty if it is not."""
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "")


class _Hashed(io.RawIOBase):
    """The bytes of an extent, hashed while they are read."""

    def __init__(self, file: io.FileIO, extent: Extent, progress: Callable[[int, int, str], None]):
        self._file, self._progress, self._size = file, progress, extent.size
        self._left = extent.size if extent.begin is not None else None
        self._hash = hashlib.sha256()
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._left is not None:
            view = view[: self._left]
        size = self._file.readinto(view) or 0
        if self._left is not None:
            self._left -= size
        self._hash.update(view[:size])
        self._done += size
        self._progress(self._done, self._size, "bytes")
        return size

    def finish(self) -> str:
        """The hash of all the bytes, also of what nobody has read."""
        buffer = bytearray(_BUFFER)
        while self.readinto(buffer):
            pass
        return self._hash.hexdigest()


@contextlib.contextmanager
def opened(
    extent: Extent,
    progress: Callable[[int, int, str], None] = lambda done, total, unit: None,
    *,
    buffer: int = 1 << 20,
) -> Iterator[Iterator[Member]]:
    """The streams of a file, one after the other.

    Raises:
        InputError: it is damaged, or no longer the file with this hash.
    """
    with extent.path.open("rb", buffering=0) as file:
        codec = packing(file.read(8)) if extent.begin is None else ""
        try:
            if codec == "zip":
                check(extent)
                with zipfile.ZipFile(file) as archive:
                    yield _unzipped(archive)
                return
            file.seek(extent.begin or 0)
            raw = _Hashed(file, extent, progress)
            yield iter([Member(0, "", _unpacked(raw, codec, buffer))])
        except OSError as error:
            if error.errno is not None:
                raise  # the disk's fault, and perhaps not for long
            raise _damaged(extent.path, codec, error) from None
        except (lzma.LZMAError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise _damaged(extent.path, codec, error) from None
        if extent.sha256 and raw.finish() != extent.sha256:
            raise _changed(extent.path)


def check(extent: Extent) -> None:
    """Raises InputError unless the whole file has its hash; for what is not read in one go."""
    if extent.sha256 and sha256_of(extent.path) != extent.sha256:
        raise _changed(extent.path)


def _unpacked(raw: io.RawIOBase, codec: str, buffer: int = _BUFFER) -> io.BufferedReader:
    if codec == "xz":
        stream: Any = lzma.LZMAFile(cast(Any, raw))  # noqa: SIM115 - closed with the file
    elif codec:
        stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)
    else:
        stream = raw
    return io.BufferedReader(stream, buffer)


def _unzipped(archive: zipfile.ZipFile) -> Iterator[Member]:
    files = (entry for entry in archive.infolist() if not entry.is_dir())
    for index, entry in enumerate(files):
        try:
            stream = io.BufferedReader(cast(Any, archive.open(entry)), _BUFFER)
        except (
            RuntimeError,
            NotImplementedError,
        ) as error:  # encrypted, unknown packing
            raise InputError(
                f"a file in the zip cannot be read ({error})",
                where=f"{archive.filename}: {entry.filename}",
                remedy="unpack it by hand",
            ) from None
        codec = packing(stream.peek(8)[:8])
        with stream:
            inner = codec not in ("", "zip")
            unpacked = _unpacked(cast(Any, stream), codec) if inner else stream
            yield Member(index, entry.filename, unpacked)


def _damaged(path: Path, codec: str, error: Exception) -> InputError:
    problem = f"the {codec or 'packed'} file is damaged or was cut off ({error})"
    return InputError(problem, where=str(path), remedy="fetch it again")


def _changed(path: Path) -> InputError:
    return InputError("the file changed while it was read", where=str(path), remedy="run again")
