"""Writing a file or folder so that it is there whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from tasks.errors import InputError

STALE_SECONDS = 60.0
"""What nobody holds and is older was left behind by a process that was killed."""


@contextlib.contextmanager
def written_aside(out: Path) -> Iterator[Path]:
    """A path to write a file or folder to; it takes the place of ``out`` when the block ends.

    Whatever was at ``out`` is replaced. What a killed writer left beside it is swept away by the
    next one.
    """
    out = out.absolute()
    if os.path.lexists(out) and not (out.is_file() or out.is_dir() or out.is_symlink()):
        raise InputError(
            "this is neither a file nor a folder, but a device or the like",
            where=str(out),
            remedy="name another path",
        )
    prefix = f".{out.name}.aside-"
    for left in out.parent.glob(f"{glob.escape(prefix)}*"):
        if time.time() - left.stat().st_mtime > STALE_SECONDS and not _is_held(left):
            shutil.rmtree(left, ignore_errors=True)
    aside = out.parent / f"{prefix}{uuid.uuid4().hex[:12]}"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        aside.mkdir()
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}",
            where=str(out),
            remedy="name a path in a folder that you may write to",
        ) from None
    handle = os.open(aside, os.O_RDONLY)
    try:
        # The kernel frees the lock when its holder dies, however it dies.
        fcntl.flock(handle, fcntl.LOCK_EX)
        new = aside / out.name
        yield new
        for path in [new, *new.rglob("*")] if new.is_dir() else [new]:
            _sync(path)
        if os.path.lexists(out) and (new.is_dir() or out.is_dir()):
            out.rename(aside / "replaced")
        new.replace(out)
        _sync(out.parent)
    finally:
        os.close(handle)
        shutil.rmtree(aside, ignore_errors=True)


def check_out(out: Path, source: str) -> None:
    """Refuse a file to write that is a folder, or that the text is read from.

    Args:
        out: the file to write.
        source: where the text is; "-" for what is no file.

    Raises:
        InputError: it is.
    """
    read = Path(source).expanduser()
    itself = source != "-" and (
        out.samefile(read) if out.exists() and read.exists() else out.resolve() == read.resolve()
    )
    if out.is_dir() or itself:
        what = "a folder" if out.is_dir() else "the text itself"
        raise InputError(f"this is {what}", where=str(out), remedy="name another file by --out")


def _is_held(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
