"""GloVe: word vectors from the logarithms of co-occurrence counts.

Pennington, Socher, Manning (2014), "GloVe: Global Vectors for Word Representation", equations 8
and 9. With ``X_ij`` how much word ``j`` stands around word ``i``, a neighbour at distance ``d``
counting ``1 / d``::

    J = sum over X_ij > 0 of f(X_ij) (w_i . c_j + b_i + d_j - ln X_ij) ** 2
    f(x) = min(1, (x / x_max) ** alpha)

``w`` and ``b`` are the vectors and biases of words, ``c`` and ``d`` those of contexts. A word's
vector is ``w + c``. Trained by AdaGrad (Duchi, Hazan, Singer 2011) as in the authors' program: all
numbers start uniform in ``[-0.5, 0.5) / D`` and all sums of squares at 1, what is summed are the
squares of rate times slope, and biases learn at rate 1. The loss reported is ``J`` by record; the
authors' program prints half of that. It also cuts slopes at 100 and skips what is not finite; here
a training that comes to that is stopped.

Records come in a random order without the table being written again: pieces of ``PIECE`` entries
are dealt to chunks of ``CHUNK`` entries in one fixed random order, and a chunk is shuffled for each
epoch. Both records of a pair of words are trained one after the other.

The sums of squares are part of the model, so training that goes on does not jump.

Shapes: ``V`` vocabulary, ``D`` width, ``N`` words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.capabilities import TableName
from models.family import (
    FloatArray,
    Inputs,
    State,
    Style,
    SweepsTables,
    SweepStats,
    SweptTable,
    Unit,
    Want,
    WantsCooccurrence,
    WantsVocabulary,
)
from models.text import CooccurrenceCounts, Pairs
from models.vocabulary import Vocabulary

ARRAYS = tuple(
    f"{side}_{kind}"
    for side in ("input", "output")
    for kind in ("vectors", "biases", "vector_squares", "bias_squares")
)
"""The names of a model's arrays, in the order of ``models.kernels.glove.Tables.arrays``."""


@dataclass(frozen=True)
class Config:
    """The settings of a GloVe model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "sweeps"
    title: ClassVar[str] = "GloVe"
    paper: ClassVar[str] = "Pennington, Socher & Manning (2014), aclanthology.org/D14-1162"
    lasting: ClassVar[tuple[str, ...]] = ("dim",)

    family: Literal["glove"] = "glove"
    dim: Annotated[int, Field(ge=1, le=4096, description="Width of the vectors")] = 100
    window: Annotated[
        int, Field(ge=1, le=28, description="Words on each side; one at distance d counts 1 / d")
    ] = 10
    x_max: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="Weight that counts fully")
    ] = 100.0
    alpha: Annotated[
        float, Field(ge=0, le=4, description="Power by which lower weights count less")
    ] = 0.75
    learning_rate: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="Of AdaGrad, at the start")
    ] = 0.05
    epochs: Annotated[int, Field(ge=1, description="Passes over the co-occurrence table")] = 25
    vectors: Annotated[
        Literal["sum", "input", "output"],
        Field(description="A word's vector: w + c, or that of the word or of the context alone"),
    ] = "sum"
    min_count: Annotated[int, Field(ge=1, description="Rarer words get no vector")] = 5
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words, the most frequent")
    ] = None

    def wants(self) -> Mapping[str, Want]:
        """The co-occurrence table, and a vocabulary without reserved entries."""
        return {
            "cooccurrence": WantsCooccurrence(self.window),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, reserved=()),
        }

    def build(self, inputs: Inputs, *, seed: int) -> Model:
        """Everything uniform in [-0.5, 0.5) / D, sums of squares 1."""
        vocabulary, random = inputs.vocabulary(), np.random.default_rng(seed)
        shapes = ((len(vocabulary), self.dim), (len(vocabulary),)) * 4
        state = {
            name: np.ones(shape, np.float32)
            if name.endswith("squares")
            else (random.random(shape, np.float32) - np.float32(0.5)) / np.float32(self.dim)
            for name, shape in zip(ARRAYS, shapes, strict=True)
        }
        return Model(self, vocabulary, state)

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the arrays that ``Model.state`` gave."""
        return Model(self, vocabulary, state)


class Model:
    """Vectors and biases of words and of contexts, with their sums of squared gradients."""

    def __init__(self, config: Config, vocabulary: Vocabulary, state: State) -> None:
        self.config, self.vocabulary = config, vocabulary
        self._arrays: dict[str, NDArray[Any]] = {name: state[name] for name in ARRAYS}
        self._tables: Any = None  # models.kernels.glove.Tables, laid out by the first sweep

    def state(self) -> State:
        """By the names of ``ARRAYS``: (V, D) of vectors and (V,) of biases, float32."""
        return {name: np.ascontiguousarray(array) for name, array in self._arrays.items()}

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32, as ``vectors`` says; NaN for a word outside the vocabulary."""
        ids = self.vocabulary.ids(words)
        vectors = np.full((len(ids), self.config.dim), np.nan, np.float32)
        vectors[ids >= 0] = sum(
            self._arrays[f"{side}_vectors"][ids[ids >= 0]]
            for side in ("input", "output")
            if self.config.vectors in (side, "sum")
        )
        return vectors

    def grow_from(self, base: Model) -> None:
        """Vectors, biases and sums of squares of the words that a base knows."""
        places = self.vocabulary.ids(base.vocabulary.words)
        for name, array in base.state().items():
            self._arrays[name][places] = array

    @property
    def own_table(self) -> TableName:
        """As ``vectors`` says."""
        return self.config.vectors

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """Vectors of words and of contexts."""
        return {
            "input": self._arrays["input_vectors"],
            "output": self._arrays["output_vectors"],
        }

    @property
    def epochs(self) -> int:
        """Passes over the table."""
        return self.config.epochs

    def chunks(self, inputs: Inputs) -> Chunks:
        """The table in chunks that are random parts of it."""
        return Chunks(inputs.cooccurrence(), PIECE, CHUNK)

    def sweep(
        self, chunk: Pairs, *, seed: int, done: float, until: float, threads: int
    ) -> SweepStats:
        """Train on a chunk, in place; AdaGrad slows down by itself, whatever is done."""
        from models.kernels import glove

        if self._tables is None:
            self._tables = glove.Tables.of([self._arrays[name] for name in ARRAYS])
            self._arrays = dict(zip(ARRAYS, self._tables.arrays(), strict=True))
        tally = glove.sweep(
            self._tables,
            chunk,
            x_max=self.config.x_max,
            alpha=self.config.alpha,
            rate=self.config.learning_rate,
            seed=seed,
            threads=threads,
        )
        records, rate = tally.records, self.config.learning_rate
        return SweepStats(records, records, records, tally.loss, rate)

    def swept_tables(self) -> Mapping[str, SweptTable]:
        """All arrays; sums of squares add up over workers."""
        return {
            name: SweptTable(array, adds_up=name.endswith("squares"))
            for name, array in self._arrays.items()
        }

    def on_device(self, device: str) -> SweepsTables[Pairs]:
        """A copy on a torch device, with sweeps in batches."""
        from models.kernels import batched

        config = self.config
        return batched.Cooccurrences.of(
            self._arrays, config.x_max, config.alpha, config.learning_rate, device
        )


PIECE = 1 << 10
CHUNK = 1 << 21
"""Entries; a chunk takes 16 bytes for each, and 8 more for its order."""


class Chunks:
    """A co-occurrence table in random chunks.

    Attributes:
        size: records: of a symmetric table, an entry off the diagonal stands for two.
    """

    unit: Unit = "records"

    def __init__(self, table: CooccurrenceCounts, piece: int, chunk: int) -> None:
        self._table = table
        pieces = [
            (p, at) for p, part in enumerate(table.parts) for at in range(0, len(part), piece)
        ]
        order = np.random.default_rng(0).permutation(len(pieces))
        dealt = [pieces[i] for i in order]
        each, self._piece = max(1, chunk // piece), piece
        self._chunks = [dealt[i : i + each] for i in range(0, len(dealt), each)]
        diagonal = sum(int((part.rows == part.columns).sum()) for part in table.parts)
        self.size = 2 * len(table) - diagonal if table.symmetric else len(table)

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, index: int) -> Pairs:
        rows, columns, totals = [], [], []
        for number, first in self._chunks[index]:
            part = self._table.parts[number]
            last = min(first + self._piece, len(part))
            low = int(np.searchsorted(part.starts, first, side="right")) - 1
            high = int(np.searchsorted(part.starts, last, side="left"))
            ends = np.clip(part.starts[low : high + 1], first, last)
            rows.append(np.repeat(part.words[low:high], np.diff(ends)))
            columns.append(part.columns[first:last])
            totals.append(part.totals[first:last])
        weights = np.concatenate(totals) / self._table.scale
        return Pairs(np.concatenate(rows), np.concatenate(columns), weights, self._table.symmetric)
