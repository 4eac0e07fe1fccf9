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
import hashlib
import io
import json
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.numpy
from numpy.typing import NDArray

from tasks.artifacts import Artifact, Manifest, Part, Stats
from tasks.errors import InputError

MANIFEST = "manifest.json"
LEASE_SECONDS = 60.0
"""A lease on an object store whose holder has not renewed it for so long is free to take."""


class Files(Protocol):
    """The few operations on files that a store needs; paths are relative to its root."""

    def read(self, path: str) -> bytes:
        """The bytes of a file; FileNotFoundError if there is none."""
        ...

    def size(self, path: str) -> int | None:
        """The size of a file, None if there is none."""
        ...

    def put(self, local: Path, path: str) -> None:
        """Move a finished local file into the store, durably."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Write a file whole, only if there is none; False if there is one."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or folder if it is there."""
        ...

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if there is no folder."""
        ...

    def local(self, part: Part) -> Path:
        """A local file with the bytes of a part, fetched and checked if it lies elsewhere."""
        ...

    def lease(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Exclusive work on a recipe; waits while somebody else holds it."""
        ...

    def scratch(self) -> Path:
        """A folder for unfinished files, on the same disk as the store where there is one."""
        ...


@dataclass(frozen=True)
class LocalFiles:
    """A folder. Renames and links make it atomic, ``flock`` makes it exclusive."""

    root: Path

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def size(self, path: str) -> int | None:
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None

    def put(self, local: Path, path: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with local.open("rb") as file:
            os.fsync(file.fileno())
        local.replace(target)
        _sync_folder(target.parent)

    def create(self, path: str, data: bytes) -> bool:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with aside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # A hard link fails if the name is taken and shows the whole file or nothing.
            os.link(aside, target)
        except FileExistsError:
            return False
        finally:
            aside.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return True

    def remove(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def local(self, part: Part) -> Path:
        return self.root / part.path

    @contextlib.contextmanager
    def lease(self, path: str) -> Iterator[None]:
        import fcntl

        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # The kernel frees the lock when its holder dies, however it dies.
        with target.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def scratch(self) -> Path:
        folder = self.root / ".scratch"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class RemoteFiles:
    """Any fsspec URL whose file system can create a file only if it is absent (S3: If-None-Match)."""

    url: str
    cache: Path

    @cached_property
    def _fs(self) -> Any:
        return fsspec.core.url_to_fs(self.url, skip_instance_cache=True)[0]

    def _path(self, path: str) -> str:
        return f"{self._fs._strip_protocol(self.url).rstrip('/')}/{path}"

    def read(self, path: str) -> bytes:
        data: bytes = self._fs.cat_file(self._path(path))
        return data

    def size(self, path: str) -> int | None:
        self._fs.invalidate_cache()
        try:
            return int(self._fs.info(self._path(path))["size"])
        except FileNotFoundError:
            return None

    def put(self, local: Path, path: str) -> None:
        self._fs.makedirs(self._fs._parent(self._path(path)), exist_ok=True)
        self._fs.put_file(str(local), self._path(path))
        local.unlink()

    def create(self, path: str, data: bytes) -> bool:
        self._fs.makedirs(self._fs._parent(self._path(path)), exist_ok=True)
        try:
            self._fs.pipe_file(self._path(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def remove(self, path: str) -> None:
        self._fs.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._path(path), recursive=True)

    def names(self, path: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._path(path), detail=False)
        except FileNotFoundError:
            return []
        return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found)

    def local(self, part: Part) -> Path:
        target = self.cache / part.sha256[:2] / part.sha256
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f".{part.sha256}.{uuid.uuid4().hex}")
            self._fs.get_file(self._path(part.path), str(aside))
            if _sha256(aside) != part.sha256:
                aside.unlink()
                raise InputError(
                    "the stored file is damaged: its hash is not the one in the manifest",
                    where=part.path,
                    remedy="remove the artifact's folder from the store and run again",
                )
            aside.replace(target)
        return target

    @contextlib.contextmanager
    def lease(self, path: str) -> Iterator[None]:
        holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"
        last_seen, since = b"", time.monotonic()
        while not self.create(path, _lease_text(holder)):
            with contextlib.suppress(FileNotFoundError):
                seen = self.read(path)
                if seen != last_seen:
                    last_seen, since = seen, time.monotonic()
                # Only this process's own clock is compared, so clocks need not agree.
                elif time.monotonic() - since > LEASE_SECONDS or _holder_is_dead(seen):
                    self.remove(path)
                    continue
            time.sleep(0.5)
        done = threading.Event()

        def renew() -> None:
            while not done.wait(LEASE_SECONDS / 4):
                self._fs.pipe_file(self._path(path), _lease_text(holder))

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.remove(path)

    def scratch(self) -> Path:
        folder = self.cache / ".scratch"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _lease_text(holder: str) -> bytes:
    return json.dumps({"holder": holder, "renewed": time.time()}).encode()


def _holder_is_dead(lease: bytes) -> bool:
    host, pid, _ = json.loads(lease)["holder"].split(":")
    return host == socket.gethostname() and not Path(f"/proc/{pid}").exists()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        protocol = fsspec.utils.get_protocol(self.url)
        if protocol in ("file", "local"):
            return LocalFiles(Path(fsspec.core.strip_protocol(self.url)).absolute())
        return RemoteFiles(self.url, self.cache)

    def find(self, step: str, recipe: str) -> Manifest | None:
        """The manifest of a recipe, None unless it and each of its parts are there.

        A part that is gone or has another size makes the artifact a miss.
        """
        try:
            text = self.files.read(f"{step}/{recipe}/{MANIFEST}")
            manifest = Manifest.from_json(text.decode())
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None
        whole = all(self.files.size(part.path) == part.size for part in manifest.parts)
        return manifest if whole else None

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
            size, sha256 = aside.stat().st_size, _sha256(aside)
            path = f"{self._folder}/{partition:05d}-{name}"
            self._store.files.put(aside, path)
            self._parts.append(Part(partition, name, path, sha256, size))
        finally:
            aside.unlink(missing_ok=True)

    def bytes(self, name: str, data: bytes, partition: int = 0) -> None:
        """Write bytes as a part."""
        with self.path(name, partition) as path:
            path.write_bytes(data)

    def json(self, name: str, value: object, partition: int = 0) -> None:
        """Write a value as a JSON part."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
        self.bytes(name, text.encode("utf-8", "surrogatepass"), partition)

    def table(self, name: str, table: pa.Table, partition: int = 0) -> None:
        """Write a table as a Parquet part."""
        with self.path(name, partition) as path:
            pq.write_table(table, path, compression="zstd", row_group_size=1 << 16)

    def tensors(
        self, name: str, tensors: Mapping[str, NDArray[Any]], partition: int = 0
    ) -> None:
        """Write little-endian arrays as a safetensors part."""
        arrays = {key: np.ascontiguousarray(tensors[key]) for key in sorted(tensors)}
        with self.path(name, partition) as path:
            safetensors.numpy.save_file(arrays, path)

    def open(self, name: str, partition: int = 0) -> contextlib.AbstractContextManager[IO[bytes]]:
        """A binary file to write a part to."""

        @contextlib.contextmanager
        def opened() -> Iterator[IO[bytes]]:
            with self.path(name, partition) as path, path.open("wb") as file:
                yield file

        return opened()


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

    def table(self, name: str, partition: int = 0) -> pa.Table:
        """The table in a Parquet part."""
        return pq.read_table(self.path(name, partition), memory_map=True)

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
