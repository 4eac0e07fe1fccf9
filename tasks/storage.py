"""Files in a store: a local folder, or an fsspec URL that can create a file only if absent."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import stat
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import fsspec

from tasks.artifacts import Part
from tasks.errors import InputError

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

    def usage(self, path: str) -> tuple[int, float]:
        """The bytes under a path, and when the newest of them was written, in seconds since 1970.

        (0, 0.0) where there is nothing.
        """
        ...

    def in_use(self, *, alone: bool = False) -> contextlib.AbstractContextManager[bool]:
        """Say that the store is being used; ``alone`` asks for it without any company.

        Yields:
            whether that was granted: to be alone is not waited for. A store elsewhere knows no
            such thing and grants everything.
        """
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
        path = self.root / part.path
        if not os.path.isabs(part.path):  # a file from outside is hashed by who reads it
            _verify(path, part)
        return path

    @contextlib.contextmanager
    def lease(self, path: str) -> Iterator[None]:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # The kernel frees the lock when its holder dies, however it dies.
        with target.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def usage(self, path: str) -> tuple[int, float]:
        size, newest = 0, 0.0
        target = self.root / path
        for file in [target, *target.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):
                about = file.lstat()
                size += about.st_size if stat.S_ISREG(about.st_mode) else 0
                newest = max(newest, about.st_mtime)
        return size, newest

    @contextlib.contextmanager
    def in_use(self, *, alone: bool = False) -> Iterator[bool]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".in-use").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
                granted = True
            except BlockingIOError:
                granted = False
            yield granted

    def scratch(self) -> Path:
        folder = self.root / ".scratch"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class RemoteFiles:
    """Any fsspec URL whose file system can create a file only if absent (S3: If-None-Match)."""

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
            if sha256_of(aside) != part.sha256:
                aside.unlink()
                raise _damaged(part.path)
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

    def usage(self, path: str) -> tuple[int, float]:
        self._fs.invalidate_cache()
        found = self._fs.find(self._path(path), detail=True).values()
        times = [_written(about) for about in found]
        return sum(int(about["size"]) for about in found), max(times, default=0.0)

    @contextlib.contextmanager
    def in_use(self, *, alone: bool = False) -> Iterator[bool]:
        yield True

    def scratch(self) -> Path:
        folder = self.cache / ".scratch"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _written(about: Mapping[str, Any]) -> float:
    """When a file was written, by whatever name its file system gives that; now if by none."""
    for name in ("LastModified", "mtime", "last_modified", "updated", "created"):
        value = about.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return time.time()


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


_verified: set[tuple[str, int, str]] = set()


def _verify(path: Path, part: Part) -> None:
    """Hash a stored file once in a process, for one state of it; a disk may lose single bits.

    Raises:
        InputError: it is not what the manifest says.
    """
    key = (str(path), path.stat().st_mtime_ns, part.sha256)
    if key in _verified:
        return
    if sha256_of(path) != part.sha256:
        raise _damaged(str(path))
    _verified.add(key)


def _damaged(path: str) -> InputError:
    return InputError(
        "the stored file is damaged: its hash is not the one in the manifest",
        where=path,
        remedy="remove the artifact's folder from the store and run again",
    )


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_files(url: str, cache: Path) -> Files:
    """The file operations of the store at a folder or URL."""
    if fsspec.utils.get_protocol(url) in ("file", "local"):
        return LocalFiles(Path(fsspec.core.strip_protocol(url)).absolute())
    return RemoteFiles(url, cache)
