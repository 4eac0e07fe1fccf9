"""Where artifacts lie: one folder or fsspec URL, safe against crashes and against company.

Layout, with everything relative to the root::

    <step>/<recipe>/manifest.json        written last, only if absent
    <step>/<recipe>/<attempt>/...        the parts of one attempt, under a name of its own
    <step>/<recipe>/lease                who is at work on this recipe

No manifest, no artifact: a killed writer leaves nothing that a reader accepts. Of two writers of
one recipe the first manifest wins and the loser adopts it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from tasks.artifacts import Artifact, Manifest, Part
from tasks.errors import InputError
from tasks.storage import Files, open_files, sha256_of

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Store:
    """A store by its address; cheap to make, safe to send to another process.

    Attributes:
        url: a folder, or any URL that fsspec knows (``s3://bucket/prefix``).
        cache: a local folder that keeps what was fetched from a store elsewhere.
    """

    url: str
    cache: Path

    @cached_property
    def files(self) -> Files:
        """The file operations of this store."""
        return open_files(self.url, self.cache)

    def find(self, step: str, recipe: str) -> Manifest | None:
        """The manifest of a recipe, None unless it and each of its parts are there.

        A part that is gone or has another size makes the artifact a miss.
        """
        try:
            text = self.files.read(f"{step}/{recipe}/{MANIFEST}")
            manifest = Manifest.from_json(text.decode())
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
            return None
        return manifest if all(map(self._is_there, manifest.parts)) else None

    def _is_there(self, part: Part) -> bool:
        size = self.files.size(part.path)
        if part.begin is None or size is None:
            return size == part.size
        return size >= part.begin + part.size  # a file from outside that may have grown

    def manifest(self, artifact: Artifact) -> Manifest:
        """The manifest of an artifact that is known to be there.

        Raises:
            InputError: it is not, or no longer.
        """
        manifest = self.find(artifact.step, artifact.recipe)
        if manifest is None:
            raise InputError(
                f"{artifact.kind} {artifact.recipe[:12]} is not in the store, or not whole",
                where=f"{self.url}/{artifact.step}/{artifact.recipe}",
                remedy="run the flow again: it makes what is missing",
            )
        return manifest

    def partitions(self, artifact: Artifact) -> list[Artifact]:
        """The handles of an artifact's partitions in order."""
        manifest = self.manifest(artifact)
        return [manifest.handle(i) for i in range(manifest.n_partitions)]

    def reader(self, artifact: Artifact) -> Reader:
        """Access to the parts of an artifact, or of the one partition that the handle means."""
        parts = self.manifest(artifact).parts
        if artifact.partition is not None:
            chosen = (part for part in parts if part.partition == artifact.partition)
            parts = tuple(replace(part, partition=0) for part in chosen)
        return Reader(self, artifact, parts)

    def lease(self, step: str, recipe: str) -> contextlib.AbstractContextManager[None]:
        """Exclusive work on a recipe; waits while another process is at it."""
        return self.files.lease(f"{step}/{recipe}/lease")

    def discard(self, step: str, recipe: str) -> None:
        """Remove an unusable manifest and unfinished attempts. Only under the recipe's lease."""
        folder = f"{step}/{recipe}"
        self.files.remove(f"{folder}/{MANIFEST}")
        for name in self.files.names(folder):
            if name.startswith("attempt-"):
                self.files.remove(f"{folder}/{name}")

    def commit(self, manifest: Manifest) -> Manifest:
        """Publish a manifest whose parts are all written; returns the one that is valid.

        That is another writer's if it came first.
        """
        path = f"{manifest.step}/{manifest.recipe}/{MANIFEST}"
        if self.files.create(path, manifest.to_json().encode()):
            return manifest
        winner = self.find(manifest.step, manifest.recipe)
        if winner is None:
            raise RuntimeError(f"{path} appeared while it was written, but is not whole")
        return winner


class Writer:
    """The parts of one attempt at a recipe; nothing of it counts until ``commit``."""

    def __init__(self, store: Store, step: str, recipe: str) -> None:
        self._store = store
        self._folder = f"{step}/{recipe}/attempt-{uuid.uuid4().hex[:16]}"
        self._parts: list[Part] = []

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts written so far, by partition and name."""
        return tuple(sorted(self._parts, key=lambda part: (part.partition, part.name)))

    @contextlib.contextmanager
    def path(self, name: str, partition: int = 0) -> Iterator[Path]:
        """A local path to write a part to; it becomes part of the artifact when the block ends."""
        aside = self._store.files.scratch() / f"{uuid.uuid4().hex}-{name}"
        try:
            yield aside
            size, sha256 = aside.stat().st_size, sha256_of(aside)
            path = f"{self._folder}/{partition:05d}-{name}"
            self._store.files.put(aside, path)
            self._parts.append(Part(partition, name, path, sha256, size))
        finally:
            aside.unlink(missing_ok=True)

    def blob(self, name: str, data: bytes, partition: int = 0) -> None:
        """Write bytes as a part."""
        with self.path(name, partition) as path:
            path.write_bytes(data)

    def json(self, name: str, value: object, partition: int = 0) -> None:
        """Write a value as a JSON part."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        self.blob(name, text.encode("utf-8", "surrogatepass"), partition)

    def table(self, name: str, table: pa.Table, partition: int = 0) -> None:
        """Write a table as a Parquet part."""
        with self.path(name, partition) as path:
            pq.write_table(table, path, compression="zstd", row_group_size=1 << 16)

    def tensors(self, name: str, tensors: Mapping[str, NDArray[Any]], partition: int = 0) -> None:
        """Write little-endian arrays as a safetensors part."""
        arrays = {key: np.ascontiguousarray(tensors[key]) for key in sorted(tensors)}
        with self.path(name, partition) as path, _as_os_error(path):
            safetensors.numpy.save_file(arrays, path)


@contextlib.contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """What safetensors says of a full disk, said as Python does."""
    try:
        yield
    except safetensors.SafetensorError as error:
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(path)) from error
        raise


@dataclass(frozen=True)
class Reader:
    """The parts of an artifact. Tensors are memory-mapped, so reading them costs nothing yet."""

    store: Store
    artifact: Artifact
    parts: tuple[Part, ...]

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return 1 + max((part.partition for part in self.parts), default=-1)

    def has(self, name: str, partition: int = 0) -> bool:
        """Whether there is such a part."""
        return any(p.name == name and p.partition == partition for p in self.parts)

    def path(self, name: str, partition: int = 0) -> Path:
        """A local file with the bytes of a part."""
        for part in self.parts:
            if part.name == name and part.partition == partition:
                return self.store.files.local(part)
        raise KeyError(f"{self.artifact.kind} {self.artifact.recipe[:12]} has no part {name!r}")

    def json(self, name: str, partition: int = 0) -> Any:
        """The value in a JSON part."""
        data = self.path(name, partition).read_bytes()
        return json.loads(data.decode("utf-8", "surrogatepass"))

    def table(
        self, name: str, partition: int = 0, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The table in a Parquet part, or some columns of it."""
        path = self.path(name, partition)
        return pq.read_table(path, columns=columns and [*columns], memory_map=True)

    def tensors(self, name: str, partition: int = 0) -> dict[str, NDArray[Any]]:
        """The arrays in a safetensors part, memory-mapped and read-only."""
        return map_tensors(self.path(name, partition))


def map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as read-only views of the mapped file.

    Raises:
        InputError: the file is not a safetensors file.
    """
    kinds = {
        "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
        "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
    }  # fmt: skip
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= size - 8:
            raise InputError("this is not a safetensors file", where=str(path))
        header = json.load(io.BytesIO(file.read(length)))
    arrays: dict[str, NDArray[Any]] = {}
    for key, entry in header.items():
        if key == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if 8 + length + end > size:
            raise InputError(f"the file ends inside {key!r}", where=str(path))
        kind = np.dtype(kinds[entry["dtype"]])
        shape = tuple(entry["shape"])
        if begin == end:
            arrays[key] = np.zeros(shape, kind)
        else:
            arrays[key] = np.memmap(path, kind, "r", 8 + length + begin, shape)
    return arrays
