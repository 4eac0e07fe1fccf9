"""Small corpora for tests: files on disk, documents in a store, and what an artifact holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.artifacts import Artifact, Stats
from tasks.normalize import DOCUMENTS, SCHEMA, document_id
from tasks.step import Context, Step, execute
from tasks.store import Reader, Store


@dataclass(frozen=True)
class Texts:
    partitions: tuple[tuple[str, ...], ...]


def _write(context: Context, readers: Mapping[str, Reader], params: Texts) -> Stats:
    for i, texts in enumerate(params.partitions):
        rows = [[document_id(text) for text in texts], [f"test:{i}"] * len(texts), list(texts)]
        arrays = [pa.array(row, f.type) for row, f in zip(rows, SCHEMA, strict=True)]
        context.out.table(DOCUMENTS, pa.table(arrays, schema=SCHEMA), i)
    return {}


def documents(store: Store, *partitions: Sequence[str]) -> Artifact:
    """Normalized documents in the given partitions."""
    params = Texts(tuple(tuple(texts) for texts in partitions))
    return execute(Step("texts", 1, "documents", _write), store, {}, params)[0].handle()


def texts(store: Store, artifact: Artifact) -> list[list[str]]:
    """The texts of every partition."""
    reader = store.reader(artifact)
    return [reader.table(DOCUMENTS, i)["text"].to_pylist() for i in range(reader.n_partitions)]


def values(store: Store, artifact: Artifact) -> str:
    """A digest of what an artifact holds, whatever the libraries that wrote its files.

    A content hash is over bytes, and the bytes of a Parquet file change with every release of its
    library; the values in it are what a step answers for.
    """
    reader = store.reader(artifact)
    held: list[Any] = []
    for part in sorted(reader.parts, key=lambda part: (part.partition, part.name)):
        if part.name.endswith(".parquet"):
            table = reader.table(part.name, part.partition)
            value: Any = [str(table.schema.remove_metadata()), repr(table.to_pylist())]
        elif part.name.endswith(".safetensors"):
            arrays = reader.tensors(part.name, part.partition)
            value = {key: [str(a.dtype), a.tolist()] for key, a in sorted(arrays.items())}
        else:
            value = reader.json(part.name, part.partition)
        held.append([part.partition, part.name, value])
    return hashlib.sha256(json.dumps(held).encode()).hexdigest()[:16]


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Files by name in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
    return folder
