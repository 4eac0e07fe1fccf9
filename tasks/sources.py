"""Where a corpus comes from: files, globs, data sets; resolved to bytes before keying.

Files are keyed by their bytes in a canonical order, data sets by the text that was read from
them: a name, a glob or a revision never enters a key.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tasks.artifacts import Artifact, Manifest, recipe_of
from tasks.errors import ConfigError, InputError
from tasks.files import import_files
from tasks.store import Store, Writer

SAMPLE = "sample:wikipedia"
"""The path that stands for the packaged sample: an extract of a Wikipedia dump."""

PARTITION_BYTES = 8 * 2**20
"""Text in one partition; about a second of work for a step."""

_SAMPLE_FILE = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


@dataclass(frozen=True)
class Source:
    """Where documents come from, and how they lie there."""

    paths: Annotated[
        tuple[str, ...],
        Field(description=f"Files and globs ({SAMPLE} is the packaged sample), packed or not"),
    ] = ()
    format: Annotated[
        Literal["text", "jsonl", "wikipedia", "dataset"],
        Field(description="Plain text, JSON lines, a Wikipedia XML dump, or a data set"),
    ] = "text"
    document: Annotated[
        Literal["line", "file"], Field(description="Text: what makes a document")
    ] = "line"
    field: Annotated[str, Field(description="JSON lines, data set: the field with the text")] = (
        "text"
    )
    encoding: Annotated[str, Field(description="Text, JSON lines: the encoding")] = "utf-8"
    dataset: Annotated[
        str, Field(description="Data set: its name on the Hugging Face hub, or its folder")
    ] = ""
    config: Annotated[str, Field(description="Data set: its configuration, if it has several")] = ""
    split: Annotated[str, Field(description="Data set: the split to read")] = "train"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __str__(self) -> str:
        return self.dataset if self.format == "dataset" else ", ".join(self.paths)


def import_source(store: Store, source: Source) -> Artifact:
    """The bytes of a source as an artifact of kind "source", a partition a file.

    Raises:
        ConfigError: the source names nothing, or an encoding that does not exist.
        InputError: a file or data set is not there or cannot be read, or no file matches.
    """
    if source.format == "dataset":
        return _import_dataset(store, source)
    try:
        "".encode(source.encoding)
    except LookupError:
        raise ConfigError("there is no such encoding", where=source.encoding) from None
    return import_files(store, find_files(source.paths), "source")


def find_files(paths: tuple[str, ...]) -> list[Path]:
    """The files under paths and globs: in the order of ``paths``, a glob's sorted by code point.

    Raises:
        ConfigError: there is no path.
        InputError: a path names no file, or a glob matches none.
    """
    if not paths:
        raise ConfigError("no files are named", where="paths", remedy="name files or globs")
    found: dict[Path, Path] = {}
    for path in paths:
        for file in [sample_file()] if path == SAMPLE else _matches(path):
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _matches(path: str) -> list[Path]:
    literal = Path(path).expanduser()
    if literal.is_file():
        return [literal]
    if literal.is_dir():
        raise InputError("this is a folder", where=path, remedy=f"name its files: {path}/*.txt")
    if not glob.has_magic(path):
        raise InputError("there is no such file", where=path)
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


# --- data sets --------------------------------------------------------------------------------


def _import_dataset(store: Store, source: Source) -> Artifact:
    """The texts of a data set, as JSON lines in files of about one partition."""
    texts = _open_dataset(source)
    hashes = [hashlib.sha256(lines).hexdigest() for lines in _json_lines(texts)]
    recipe = recipe_of("dataset", 1, hashes, {})
    if found := store.find("dataset", recipe):
        return found.handle()
    with store.lease("dataset", recipe):
        store.discard("dataset", recipe)
        out = Writer(store, "dataset", recipe)
        for number, lines in enumerate(_json_lines(texts)):
            out.blob("file", lines, number)
        if [part.sha256 for part in out.parts] != hashes:
            raise InputError("the data set changed while it was read", where=source.dataset)
        origin = {"dataset": source.dataset, "config": source.config, "split": source.split}
        stats = {"files": len(hashes), "records": len(texts)}
        manifest = Manifest("source", "dataset", 1, recipe, out.parts, stats, origin)
        return store.commit(manifest).handle()


def _open_dataset(source: Source) -> Any:
    """The texts of a data set: a ``datasets.Dataset`` with one column of strings, on disk.

    It is never streamed: there, a pattern without a match is an empty data set, not an error.
    """
    if not source.dataset:
        raise ConfigError("no data set is named", where="dataset", remedy="name one, or a folder")
    import datasets

    try:
        rows = _load(source)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise InputError(
            f"the data set cannot be loaded: {str(error).strip() or type(error).__name__}",
            where=source.dataset,
            remedy="check its name, config and split, and the network",
        ) from error
    kind = getattr(rows.features.get(source.field), "dtype", "no such field")
    if kind not in ("string", "large_string", "null"):
        fields = ", ".join(rows.features)
        raise InputError(
            f"the field {source.field!r} holds no text ({kind})",
            where=source.dataset,
            remedy=f"set field to one of: {fields}",
        )
    return rows.select_columns([source.field]).with_format("arrow")


def _load(source: Source) -> Any:
    import datasets

    datasets.disable_progress_bars()
    folder = Path(source.dataset).expanduser()
    saved = folder / "dataset_dict.json"
    if saved.exists() or (folder / "state.json").exists():  # what save_to_disk writes
        rows = datasets.load_from_disk(str(folder))
        if saved.exists() and source.split not in rows:
            raise ValueError(f"there is no split {source.split!r} among {sorted(rows)}")
        return rows[source.split] if saved.exists() else rows
    name = str(folder.resolve()) if folder.is_dir() else source.dataset
    return datasets.load_dataset(name, source.config or None, split=source.split)


def _json_lines(texts: Any) -> Iterator[bytes]:
    """The records as JSON lines, in pieces of about a partition; at least one piece."""
    lines: list[bytes] = []
    size = 0
    for batch in texts.iter(batch_size=1024):
        for text in batch.column(0).to_pylist():
            lines.append(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n")
            size += len(lines[-1])
            if size >= PARTITION_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
    yield b"".join(lines)
