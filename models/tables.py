"""Which vectors of a model are asked or written: its own, one of its tables, or their sum.

Nothing is copied but the rows that are read, so a model whose arrays are memory-mapped stays on the
disk.

Shapes: ``V`` words, ``D`` width, ``N`` rows asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from models.capabilities import (
    EmbedsWords,
    HasTables,
    HasTargets,
    HasWordLayers,
    LayerName,
    TableName,
)
from models.family import Family, FloatArray, Model, State
from models.vectors import Ids, Matrix
from models.vocabulary import Vocabulary

Choice = Literal["own", "input", "output", "sum", "before-highway", "after-highway"]
"""``own`` is what the model takes for the vector of a word, whatever that is.

Where that is made of parts, such as n-grams, ``input`` is the same: what the model reads of a word.
"""
Embed = Callable[[Sequence[str]], FloatArray]
"""What gives N words their (N, D) vectors, NaN where there is none."""
ROWS_AT_ONCE = 2048
"""Rows of a block, few enough for the second-level cache."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The (V, D) vectors of words, read when they are asked for.

    Attributes:
        shape: V and D.
        at: (N, D) float32 rows by (N,) ids or by a slice; views of a table where it can be.
    """

    shape: tuple[int, int]
    at: Callable[[Ids | slice], Matrix]

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def lengths(self) -> Matrix:
        """(V,) the lengths of the rows, 1 for a row of zeros; computed once."""
        lengths = np.empty(len(self), np.float32)
        for some, block in self.blocks(len(self)):
            squares = np.einsum("nd,nd->n", block, block)
            # What is too long or too short for squares in 32 bits is seen again in 64.
            odd = ~((squares > np.float32(1e-30)) & (squares < np.float32(1e30)))
            wide = block[odd].astype(np.float64)
            found = np.sqrt(squares, dtype=np.float64)
            found[odd] = np.sqrt((wide * wide).sum(axis=1))
            lengths[some] = np.where(found == 0, 1, found)
        return lengths

    def blocks(self, among: int) -> Iterator[tuple[slice, Matrix]]:
        """The first ``among`` rows in blocks that fit the cache."""
        for first in range(0, among, ROWS_AT_ONCE):
            some = slice(first, min(first + ROWS_AT_ONCE, among))
            yield some, self.at(some)

    @staticmethod
    def of(table: NDArray[np.float32], *more: NDArray[np.float32]) -> Rows:
        """The rows of a table, or of the sum of several of one shape."""

        def at(ids: Ids | slice) -> Matrix:
            rows: Matrix = np.asarray(table[ids])
            for other in more:
                rows = rows + other[ids]
            return rows

        return Rows((table.shape[0], table.shape[1]), at)

    def plus(self, table: NDArray[np.float32]) -> Rows:
        """These rows with those of a table of the same shape added."""
        return Rows(self.shape, lambda ids: self.at(ids) + table[ids])


class HasVocabulary(Protocol):
    """A model, as far as its words go."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its words."""
        ...


def choices(model: HasVocabulary) -> tuple[Choice, ...]:
    """What ``rows`` can take of a model."""
    if isinstance(model, HasTargets):
        there: tuple[Choice, ...] = ("own", "input")
        return there if model.target_vectors() is None else (*there, "output", "sum")
    if not isinstance(model, HasTables):
        layers = model.word_layers() if isinstance(model, HasWordLayers) else ()
        return ("own", *layers) if isinstance(model, EmbedsWords) else ()
    tables = model.tables()
    summed = len(tables) == 2 and tables["input"].shape == tables["output"].shape
    return ("own", *tables, *(("sum",) if summed else ()))


def embedder(model: HasVocabulary, choice: Choice) -> Embed | None:
    """What makes the vector of any word, one outside the vocabulary too; None for mere tables."""
    if choice == "own" or (choice == "input" and isinstance(model, HasTargets)):
        return model.word_vectors if isinstance(model, EmbedsWords) else None
    layers = model.word_layers() if isinstance(model, HasWordLayers) else {}
    return layers.get(cast(LayerName, choice))


def rows(model: HasVocabulary, choice: Choice = "own") -> Rows:
    """The vectors of a model's words, in the order of ``vocabulary.words``.

    Raises:
        ValueError: the model has no such table.
    """
    if choice not in choices(model):
        there = ", ".join(choices(model)) or "none"
        raise ValueError(f"the model has no {choice} vectors; it has {there}")
    if isinstance(model, HasTables):
        tables = model.tables()
        name = model.own_table if choice == "own" else cast(TableName, choice)
        return Rows.of(*tables.values()) if name == "sum" else Rows.of(tables[name])
    if isinstance(model, HasTargets) and choice in ("output", "sum"):
        others = model.target_vectors()
        assert others is not None
        return Rows.of(others) if choice == "output" else rows(model).plus(others)
    embed, words = embedder(model, choice), model.vocabulary.words
    assert embed is not None
    width = embed(words[:1]).shape[1]
    if isinstance(model, HasWordLayers):
        # A network takes long for a row, and has fewer words than tables may have.
        made = cache(lambda: np.asarray(embed(words), dtype=np.float32))
        return Rows((len(words), width), lambda ids: made()[ids])

    def at(ids: Ids | slice) -> Matrix:
        asked = words[ids] if isinstance(ids, slice) else [words[i] for i in ids]
        return np.asarray(embed(asked), dtype=np.float32)

    return Rows((len(words), width), at)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A model whose word vectors are those of a choice; for what asks by ``word_vectors``.

    Attributes:
        model: the whole model.
        rows: the vectors of its words.
    """

    model: Model
    rows: Rows

    @property
    def config(self) -> Family:
        """Those of the whole model."""
        return self.model.config

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the whole model."""
        return self.model.vocabulary

    def state(self) -> State:
        """That of the whole model."""
        return self.model.state()

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32; NaN for a word outside the vocabulary."""
        vocabulary = self.vocabulary
        first = len(vocabulary.reserved)
        ids = np.array([vocabulary.id(w) - first if w in vocabulary else -1 for w in words], int)
        vectors = np.full((len(ids), self.rows.shape[1]), np.nan, np.float32)
        vectors[ids >= 0] = self.rows.at(ids[ids >= 0])
        return vectors


def chosen(model: Model, choice: Choice) -> Model:
    """The model with other word vectors; itself where they are its own.

    Raises:
        ValueError: the model has no such table.
    """
    return model if choice == "own" else Chosen(model, rows(model, choice))
