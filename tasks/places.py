"""Names of files: paths, globs, URLs of any fsspec file system, and standard input.

What does not lie in a local folder is fetched into one, once for one state of it: the file is kept
under the hash of its bytes, and found again by what its server says of it (an ETag, a time).
"""

from __future__ import annotations

import glob
import hashlib
import json
import sys
import uuid
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import IO, Any

from tasks.artifacts import digest
from tasks.errors import ConfigError, InputError

SAMPLE = "sample:wikipedia"
"""The path that stands for the packaged sample: an extract of a Wikipedia dump."""
STDIN = "-"
"""The path that stands for standard input."""

_SAMPLE_FILE = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_STATES = ("ETag", "etag", "LastModified", "mtime", "created", "md5", "content_md5")
_BUFFER = 1 << 20


def is_local(path: str) -> bool:
    """Whether a path is one of a local file or a glob, that is, may be relative to a folder."""
    return path not in (SAMPLE, STDIN) and "://" not in path and not path.startswith("~")


def find_files(paths: tuple[str, ...], fetched: Path | None = None) -> list[Path]:
    """The files under paths and globs: in the order of ``paths``, a glob's sorted by code point.

    Args:
        paths: of files, globs, URLs, SAMPLE and STDIN.
        fetched: the folder for what lies elsewhere; None refuses to fetch.

    Raises:
        ConfigError: there is no path.
        InputError: a path names no file, or a glob matches none, or it cannot be fetched.
    """
    if not paths:
        raise ConfigError("no files are named", where="paths", remedy="name files or globs")
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _files(path, fetched):
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _files(path: str, fetched: Path | None) -> list[Path]:
    if path == SAMPLE:
        return [sample_file()]
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    if path != STDIN and "://" not in path:
        return _matches(path)
    if fetched is None:
        raise InputError(
            "how large this is turns out when it is fetched",
            where=path,
            remedy="run the corpus flow first; then everything else can be planned",
        )
    fetched.mkdir(parents=True, exist_ok=True)
    if path == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed", where=STDIN, remedy="pipe a text in")
        return [_keep(sys.stdin.buffer, fetched, "stdin")]
    return list(_fetch(path, fetched))


def _matches(path: str) -> list[Path]:
    try:
        return _named(path)
    except (OSError, RuntimeError) as error:  # too long for a name; no such user behind ~
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"this cannot be looked up: {reason}", where=path) from None


def _named(path: str) -> list[Path]:
    if not path:
        raise InputError("the path is empty", where="paths", remedy="name files or globs")
    literal = Path(path).expanduser()
    if literal.is_file():
        return [literal]
    if literal.is_dir():
        raise InputError("this is a folder", where=path, remedy=f"name its files: {path}/*.txt")
    if literal.exists():
        raise InputError("this is no regular file", where=path, remedy="pipe it in: name it -")
    if not glob.has_magic(path):
        raise InputError("there is no such file", where=path, remedy="name one that is there")
    files = (Path(name) for name in glob.glob(str(literal), recursive=True))
    matches = sorted((file for file in files if file.is_file()), key=Path.as_posix)
    if not matches:
        raise InputError("no file matches", where=path, remedy="check the pattern and the folder")
    return matches


def sample_file() -> Path:
    """The packaged sample: an extract of a Wikipedia dump that the gensim wheel carries."""
    try:
        path = Path(str(resources.files("gensim") / _SAMPLE_FILE))
    except ModuleNotFoundError:
        path = Path()
    if not path.is_file():
        raise InputError(
            "the sample corpus comes with the package gensim, which is not installed",
            where=SAMPLE,
            remedy="pip install 'lexloom[sample]'",
        )
    return path


# --- files elsewhere ----------------------------------------------------------------------------


def _fetch(url: str, folder: Path) -> Iterator[Path]:
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(url)
        if fs.isfile(path):
            found = [path]
        elif fs.isdir(path):
            raise InputError("this is a folder", where=url, remedy=f"name its files: {url}/*.txt")
        else:
            found = sorted(fs.glob(path)) if glob.has_magic(path) else []
            found = [name for name in found if fs.isfile(name)]
        if not found:
            raise InputError("there is no such file, and no file matches", where=url)
        for name in found:
            yield _fetch_one(fs, name, folder)
    except InputError:
        raise
    except Exception as error:  # every file system raises errors of its own library
        raise InputError(
            f"cannot be fetched: {str(error).strip() or type(error).__name__}",
            where=url,
            remedy="check the address, the network and the credentials "
            "(s3:// needs pip install 'lexloom[s3]')",
        ) from error


def _fetch_one(fs: Any, name: str, folder: Path) -> Path:
    info = fs.info(name)
    state = {key: str(info[key]) for key in _STATES if info.get(key)}
    key = digest([str(fs.protocol), fs.unstrip_protocol(name), str(info.get("size")), state])
    known = folder / f"{key}.json"
    if state and known.is_file():
        kept: Path = folder / json.loads(known.read_text())["path"]
        if kept.is_file():
            return kept
    with fs.open(name, "rb") as file:
        kept = _keep(file, folder, name.rstrip("/").rsplit("/", 1)[-1])
    if state:
        aside = folder / uuid.uuid4().hex
        aside.write_text(json.dumps({"path": str(kept.relative_to(folder))}))
        aside.replace(known)
    return kept


def _keep(file: IO[bytes], folder: Path, name: str) -> Path:
    """A copy of a stream under the hash of its bytes and its name."""
    aside = folder / uuid.uuid4().hex
    sha256 = hashlib.sha256()
    try:
        with aside.open("wb") as copy:
            while data := file.read(_BUFFER):
                sha256.update(data)
                copy.write(data)
        kept = folder / sha256.hexdigest() / (name or "file")
        kept.parent.mkdir(exist_ok=True)
        aside.replace(kept)
        return kept
    finally:
        aside.unlink(missing_ok=True)
