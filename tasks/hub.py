"""Data sets of the ``datasets`` library as JSON lines: a name, a folder, a stream.

A data set is keyed by the text that was read from it, never by its name or revision. It is read
once, and written in pieces of about one partition.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import Artifact, Manifest, recipe_of
from tasks.errors import ConfigError, InputError
from tasks.store import Store, Writer

if TYPE_CHECKING:
    from tasks.sources import Source

# StopIteration is what datasets 5.2 raises for empty files of JSON lines.
_FAULTS = (OSError, ValueError, RuntimeError, StopIteration)
_PIECE_BYTES = 6 * 2**20  # like a range of a large file


def import_dataset(store: Store, source: Source) -> Artifact:
    """The texts of a data set, as JSON lines in files of about one partition.

    Raises:
        ConfigError: no data set is named.
        InputError: it cannot be loaded, has no such field, or holds no record.
    """
    folder = store.files.scratch() / uuid.uuid4().hex
    folder.mkdir()
    try:
        hashes, count = [], 0
        for number, (data, records) in enumerate(_pieces(_texts(source))):
            (folder / str(number)).write_bytes(data)
            hashes.append(hashlib.sha256(data).hexdigest())
            count += records
        if not count:
            raise InputError(
                "the data set holds no record",
                where=source.dataset,
                remedy="check its config and split",
            )
        recipe = recipe_of("dataset", 2, hashes, {})
        with store.lease("dataset", recipe):
            if found := store.find("dataset", recipe):
                return found.handle()
            store.discard("dataset", recipe)
            out = Writer(store, "dataset", recipe)
            for number in range(len(hashes)):
                with out.path("file", number) as path:
                    (folder / str(number)).replace(path)
            origin = {"dataset": source.dataset, "config": source.config, "split": source.split}
            stats = {"files": len(hashes), "records": count}
            return store.commit(
                Manifest("source", "dataset", 2, recipe, out.parts, stats, origin)
            ).handle()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pieces(texts: Iterator[str | None]) -> Iterator[tuple[bytes, int]]:
    lines: list[bytes] = []
    size = 0
    for text in texts:
        line = json.dumps({"text": text}, ensure_ascii=False) + "\n"
        lines.append(line.encode("utf-8", "surrogatepass"))
        size += len(lines[-1])
        if size >= _PIECE_BYTES:
            yield b"".join(lines), len(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines), len(lines)


def _texts(source: Source) -> Iterator[str | None]:
    """The texts in their order.

    Everything that ``datasets`` raises about its input comes out as an InputError, also in the
    middle of a stream.
    """
    if not source.dataset:
        raise ConfigError("no data set is named", where="dataset", remedy="name one, or a folder")
    import datasets

    try:
        rows = _load(source)
        if source.streaming:
            yield from islice(_streamed(rows, source), source.records or None)
        else:
            yield from islice(_stored(rows, source), source.records or None)
    except (*_FAULTS, datasets.exceptions.DatasetsError) as error:
        raise InputError(
            f"the data set cannot be loaded: {str(error).strip() or type(error).__name__}",
            where=source.dataset,
            remedy="check its name, config and split, and the network",
        ) from error


def _stored(rows: Any, source: Source) -> Iterator[str | None]:
    kind = getattr(rows.features.get(source.field), "dtype", "no such field")
    if kind not in ("string", "large_string", "null"):
        raise _no_text(source, kind, rows.features)
    column = rows.select_columns([source.field]).with_format("arrow")
    for batch in column.iter(batch_size=1024):
        yield from batch.column(0).to_pylist()


def _streamed(rows: Any, source: Source) -> Iterator[str | None]:
    for row in rows:
        if source.field not in row:
            raise _no_text(source, "no such field", row)
        text = row[source.field]
        if text is not None and not isinstance(text, str):
            raise _no_text(source, type(text).__name__, row)
        yield text


def _no_text(source: Source, kind: str, fields: Any) -> InputError:
    return InputError(
        f"the field {source.field!r} holds no text ({kind})",
        where=source.dataset,
        remedy=f"set field to one of: {', '.join(fields)}",
    )


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
    return datasets.load_dataset(
        name, source.config or None, split=source.split, streaming=source.streaming
    )
