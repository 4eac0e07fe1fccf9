"""Splitting into training, validation and test text, a document at a time.

Where a document goes depends on its text and the salt alone, so it stays there when the corpus
grows, and equal documents never stand on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from tasks.artifacts import Stats
from tasks.dedup import KEPT
from tasks.normalize import DOCUMENTS
from tasks.step import Context, Step
from tasks.store import Reader


@dataclass(frozen=True)
class Fractions:
    """Which shares of the documents are held out."""

    valid: Annotated[float, Field(ge=0, lt=1, description="Share for validation")] = 0.05
    test: Annotated[float, Field(ge=0, lt=1, description="Share for the test")] = 0.05
    salt: Annotated[str, Field(description="Another salt makes another split")] = "lexloom"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.valid + self.test >= 1:
            raise ValueError("valid and test together leave nothing to train on")


@dataclass(frozen=True)
class Select:
    """Parameters of the step.

    Attributes:
        part: what to select; "all" and "none" ask no document.
        fractions: the rule, None for "all" and "none".
    """

    part: Literal["train", "valid", "test", "all", "none"]
    fractions: Fractions | None = None


def part_of(document: bytes, fractions: Fractions) -> Literal["train", "valid", "test"]:
    """The part that the document with this id belongs to."""
    salt = fractions.salt.encode("utf-8", "surrogatepass")
    hashed = hashlib.blake2b(document + salt, digest_size=8)
    position = int.from_bytes(hashed.digest(), "little") / 2**64
    if position < fractions.test:
        return "test"
    return "valid" if position < fractions.test + fractions.valid else "train"


def split(context: Context, readers: Mapping[str, Reader], params: Select) -> Stats:
    """Select documents of a partition, out of those that deduplication kept."""
    table = readers["documents"].table(DOCUMENTS)
    chosen = _chosen(table, params) & readers["kept"].tensors(KEPT)["kept"]
    selected = table.filter(pa.array(chosen))
    context.out.table(DOCUMENTS, selected)
    return {"documents": selected.num_rows}


def _chosen(table: pa.Table, params: Select) -> NDArray[np.bool_]:
    if params.fractions is None:
        return np.full(table.num_rows, params.part == "all")
    ids = table["id"].to_pylist()
    return np.array([part_of(name, params.fractions) == params.part for name in ids], np.bool_)


SPLIT: Step[Select] = Step("split", 1, "documents", split)
