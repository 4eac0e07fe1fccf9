"""Content-addressed artifacts: what a step's output is called, and how that name is made.

An artifact is a list of *parts* (Parquet, safetensors or JSON files) in numbered *partitions*.
Two hashes name it:

- its **recipe** says how it is made: sha256 over the step, its version, its parameters and the
  contents of its inputs. It is where the artifact lies, known before anything is computed.
- its **content** says what it is: sha256 over the hashes of its parts. Steps are keyed by the
  contents of their inputs, so a change that alters no output stops there.

World size, paths, retries, memory limits and resources enter neither.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

FORMAT = 1
"""The version of the manifest format; a reader refuses any other."""

Stats = Mapping[str, int | float | str]
"""Counts that a step reports (``kept``, ``dropped.duplicate``); integers add up over partitions."""


def canonical_json(value: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, no NaN, nothing but JSON types.

    Raises:
        TypeError: a value that JSON does not know; nothing is ever stringified in silence.
        ValueError: NaN or an infinity, or a key that is not a string.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in a key")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError(f"keys must be strings: {list(value)!r}")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


def digest(value: object) -> str:
    """sha256 of the canonical JSON of a value, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Artifact:
    """A handle: all that crosses process boundaries. It holds no path and no data.

    Attributes:
        kind: what is in it ("documents", "tokens", "model", ...).
        step: the step that made it.
        recipe: where it lies.
        content: what it is.
        partition: the one partition that this handle means, or None for all of them.
    """

    kind: str
    step: str
    recipe: str
    content: str
    partition: int | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object that ``Artifact(**...)`` takes back."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an artifact.

    Attributes:
        partition: its partition, from 0.
        name: its name within the partition, "tokens.safetensors".
        path: where it lies, relative to the root of the store.
        sha256: of its bytes.
        size: in bytes.
        begin: where it begins in a larger file from outside, None if it is all of its file.
    """

    partition: int
    name: str
    path: str
    sha256: str
    size: int
    begin: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is written last: an artifact is there if and only if its manifest is.

    Attributes:
        stats: counts for people; no part of the content.
        origin: recipe parameters and input contents, for lineage.
    """

    kind: str
    step: str
    version: int
    recipe: str
    parts: tuple[Part, ...]
    stats: Stats
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return 1 + max((part.partition for part in self.parts), default=-1)

    @property
    def content(self) -> str:
        """The content hash of the whole artifact."""
        return content_of(self.kind, self.parts)

    def handle(self, partition: int | None = None) -> Artifact:
        """The handle of the artifact or of one of its partitions."""
        parts = self.parts
        if partition is not None:
            parts = tuple(part for part in parts if part.partition == partition)
            if not parts:
                raise IndexError(f"{self.step} {self.recipe[:12]} has no partition {partition}")
        content = content_of(self.kind, parts, numbered=partition is None)
        return Artifact(self.kind, self.step, self.recipe, content, partition)

    def to_json(self) -> str:
        """The text of the manifest file."""
        value = {"format": FORMAT, "content": self.content, **dataclasses.asdict(self)}
        # Names of files may be no text: what stands for their bytes has no UTF-8 of its own.
        return json.dumps(value, indent=1)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The manifest in a file's text.

        Raises:
            ValueError: not a manifest of this format, or its content does not match its parts.
        """
        value = json.loads(text)
        if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
            raise ValueError(f"not a manifest of format {FORMAT}")
        content = value.pop("content")
        value["parts"] = tuple(Part(**part) for part in value["parts"])
        manifest = Manifest(**value)
        if manifest.content != content:
            raise ValueError("the manifest's content hash does not match its parts")
        return manifest


def content_of(kind: str, parts: Iterable[Part], *, numbered: bool = True) -> str:
    """The content hash of parts; a lone partition is the same whatever its number."""
    rows = sorted((part.partition if numbered else 0, part.name, part.sha256) for part in parts)
    return digest([kind, rows])


def recipe_of(step: str, version: int, params: object, inputs: Mapping[str, Artifact]) -> str:
    """The recipe hash of a step's output."""
    contents = {role: artifact.content for role, artifact in inputs.items()}
    return digest({"step": step, "version": version, "params": params, "inputs": contents})
