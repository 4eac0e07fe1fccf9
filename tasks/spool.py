"""Arrays of unknown length, written as they come: the way out for what does not fit in memory."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
U = TypeVar("U")

_KINDS = {"i8": "I64", "u4": "U32", "i4": "I32", "u1": "U8"}
"""What the safetensors library calls types, in the order in which it writes them."""


class Spool:
    """Arrays that grow by rows, each in a file of its own, until they become one file.

    Args:
        folder: takes the files.
        empty: by name, an array that says the type and the shape of a row; its length counts not.
    """

    def __init__(self, folder: Path, empty: Mapping[str, NDArray[Any]]) -> None:
        order = list(_KINDS)
        names = sorted(empty, key=lambda name: (order.index(empty[name].dtype.str[1:]), name))
        self._empty = {name: empty[name] for name in names}
        self._files: dict[str, BinaryIO] = {
            name: (folder / name).open("w+b") for name in self._empty
        }

    def append(self, **arrays: NDArray[Any]) -> None:
        """Add rows to some of the arrays."""
        for name, array in arrays.items():
            row = self._empty[name]
            if array.dtype != row.dtype or array.shape[1:] != row.shape[1:]:
                raise TypeError(f"{name} is {row.dtype} {row.shape[1:]}, not {array.dtype}")
            self._files[name].write(np.ascontiguousarray(array).data)

    def save(self, path: Path) -> None:
        """Write all arrays as a safetensors file, byte for byte as the library would."""
        header: dict[str, Any] = {}
        offset = 0
        for name, row in self._empty.items():
            size = self._files[name].tell()
            rows = size // (row.itemsize * int(np.prod(row.shape[1:], dtype=np.int64)))
            header[name] = {
                "dtype": _KINDS[row.dtype.str[1:]],
                "shape": [rows, *row.shape[1:]],
                "data_offsets": [offset, offset + size],
            }
            offset += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with path.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for file in self._files.values():
                file.seek(0)
                shutil.copyfileobj(file, out, 1 << 20)

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            file.close()


@contextlib.contextmanager
def spool(scratch: Path, empty: Mapping[str, NDArray[Any]]) -> Iterator[Spool]:
    """A spool whose files are gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="spool-", dir=scratch) as folder:
        growing = Spool(Path(folder), empty)
        try:
            yield growing
        finally:
            growing.close()


def in_order(work: Callable[[T], U], items: Iterable[T], threads: int) -> Iterator[U]:
    """``map`` in threads that never has more than ``threads`` results waiting."""
    waiting, running = iter(items), collections.deque[Future[U]]()
    with ThreadPoolExecutor(threads) as pool:
        running.extend(pool.submit(work, item) for item in itertools.islice(waiting, threads))
        while running:
            yield running.popleft().result()
            running.extend(pool.submit(work, item) for item in itertools.islice(waiting, 1))
