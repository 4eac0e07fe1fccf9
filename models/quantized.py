"""Word vectors in a byte for every few dimensions: a model whose table was product-quantized.

H. Jégou, M. Douze, C. Schmid (2011), "Product quantization for nearest neighbor search". A vector
is cut into M sub-vectors; of each only the number of the nearest of K centroids is kept, which are
those of that place. Two options:

* ``norms``: directions are quantized, and the factor that brings a decoded direction closest to its
  vector is one more code, as ``qnorm`` in A. Joulin et al. (2016), "FastText.zip";
* ``rotation``: vectors are turned first, so that the variance is shared fairly by the sub-vectors
  (T. Ge et al. 2013, "Optimized product quantization", the parametric solution of section 3.2).

Any table will do: of a fastText model all rows are quantized, those of n-grams too, so that words
outside the vocabulary keep a vector. ``models.quantization`` makes the codes; this file only reads
them, as it goes out with the model.

Shapes: ``V`` words, ``B`` buckets of n-grams, ``R = V + B`` rows, ``D`` width, ``M`` sub-vectors,
``K`` centroids, ``N`` rows asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.characters_ngrams import buckets_of
from models.family import FloatArray, Inputs, State, Style, Want
from models.vocabulary import Vocabulary

Codes = NDArray[np.uint8]
Table = NDArray[np.float32]
BLOCK = 1 << 13
"""Rows that are turned back at a time."""
WORDS_AT_ONCE = 4096
"""Whose rows are in memory when their vectors are made."""


@dataclass(frozen=True)
class Config:
    """How a model was quantized, and which one.

    It is made for a model at hand by ``models.quantization.configure``, not by people.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Product-quantized vectors"
    paper: ClassVar[str] = "Jégou, Douze & Schmid (2011), doi:10.1109/TPAMI.2010.57"

    dim: Annotated[int, Field(ge=1, description="Width of the vectors")]
    sub_vectors: Annotated[int, Field(ge=1, description="Codes of a vector, a byte each")]
    centroids: Annotated[int, Field(ge=1, le=256, description="That a code chooses from")] = 256
    norms: Annotated[bool, Field(description="Lengths have a code of their own")] = True
    rotation: Annotated[bool, Field(description="Vectors are turned to share variance")] = True
    min_n: Annotated[int, Field(ge=0, description="Characters of the shortest n-grams")] = 0
    max_n: Annotated[int, Field(ge=0, description="Of the longest; 0 for words alone")] = 0
    buckets: Annotated[int, Field(ge=0, description="Rows of n-grams, below those of words")] = 0
    parent: Annotated[str, Field(description="Content hash of the model that was quantized")] = ""
    parent_family: Annotated[str, Field(description="Its family")] = ""
    family: Literal["quantized"] = "quantized"

    def wants(self) -> Mapping[str, Want]:
        """Nothing of a corpus: it is made of another model."""
        return {}

    def build(self, inputs: Inputs, *, seed: int) -> Model:
        """There is no untrained one.

        Raises:
            TypeError: always.
        """
        raise TypeError("a quantized model is made of another model, by `lexloom quantize`")

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the arrays that ``Model.state`` gave."""
        return Model(self, vocabulary, Quantized.of(state))


@dataclass(frozen=True, eq=False)
class Quantized:
    """A table of vectors as codes.

    Attributes:
        codes: (R, M) uint8, which centroid stands for each sub-vector.
        centroids: (K, D) float32; columns belong to sub-vectors as ``bounds`` says.
        scale_codes: (R,) uint8, or None where lengths are not kept apart.
        scales: (K',) float32, what a decoded direction is multiplied with.
        rotation: (D, D) float32, what rows were multiplied with before, or None.
    """

    codes: Codes
    centroids: Table
    scale_codes: Codes | None = None
    scales: Table | None = None
    rotation: Table | None = None

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that there are, by name."""
        arrays: dict[str, NDArray[Any] | None] = {
            "codes": self.codes,
            "centroids": self.centroids,
            "scale_codes": self.scale_codes,
            "scales": self.scales,
            "rotation": self.rotation,
        }
        return {name: array for name, array in arrays.items() if array is not None}

    @staticmethod
    def of(state: State) -> Quantized:
        """What ``state`` gave."""
        return Quantized(
            state["codes"],
            state["centroids"],
            state.get("scale_codes"),
            state.get("scales"),
            state.get("rotation"),
        )

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self.state().values())

    def rows(self, ids: NDArray[np.integer[Any]]) -> Table:
        """(N, D) float32, the vectors of rows as they are decoded."""
        rows = np.empty((len(ids), self.centroids.shape[1]), np.float32)
        for first in range(0, len(ids), BLOCK):
            rows[first : first + BLOCK] = self._decode(ids[first : first + BLOCK])
        return rows

    def _decode(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.floating[Any]]:
        codes = self.codes[ids]
        rows: NDArray[np.floating[Any]] = np.empty((len(ids), self.centroids.shape[1]), np.float32)
        for place, columns in enumerate(bounds(rows.shape[1], codes.shape[1])):
            rows[:, columns] = self.centroids[:, columns][codes[:, place]]
        if self.rotation is not None:
            # In float64, so that one row alone and among others comes out alike.
            rows = rows.astype(np.float64) @ self.rotation.T.astype(np.float64)
        if self.scale_codes is not None and self.scales is not None:
            rows *= self.scales[self.scale_codes[ids]][:, None]
        return rows


def bounds(dim: int, sub_vectors: int) -> list[slice]:
    """Which columns each sub-vector has: equally many, or one more for the first of them."""
    width, more = divmod(dim, sub_vectors)
    ends = [(place + 1) * width + min(place + 1, more) for place in range(sub_vectors)]
    return [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]


class Model:
    """A table of decoded vectors.

    Attributes:
        table: the codes.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, table: Quantized) -> None:
        self.config, self.vocabulary, self.table = config, vocabulary, table

    def state(self) -> State:
        """The arrays of the table."""
        return self.table.state()

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32, decoded; NaN for a word outside the vocabulary that has no n-gram."""
        vectors = np.full((len(words), self.config.dim), np.nan, np.float32)
        for first in range(0, len(words), WORDS_AT_ONCE):
            starts, rows = self._rows(words[first : first + WORDS_AT_ONCE])
            sizes = np.diff(starts)
            some = np.flatnonzero(sizes)
            if len(some):
                distinct, places = np.unique(rows, return_inverse=True)
                decoded = self.table.rows(distinct)[places]
                sums = np.add.reduceat(decoded, starts[some], axis=0)
                vectors[first + some] = sums / sizes[some, None].astype(np.float32)
        return vectors

    def _rows(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows that words are the mean of, and (N + 1,) where those of each begin.

        They are a known word's own, and those of its n-grams if the model has any.
        """
        config, ids = self.config, self.vocabulary.ids(words)
        found = buckets_of(words, config.min_n, config.max_n, config.buckets)
        known = np.flatnonzero(ids >= 0)
        rows = np.insert(found.ids + len(self.vocabulary), found.starts[known], ids[known])
        return found.starts + np.concatenate([[0], np.cumsum(ids >= 0)]), rows
