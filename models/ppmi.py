"""Positive pointwise mutual information, cut to a few dimensions: the classical word vectors.

Levy, Goldberg, Dagan (2015), "Improving Distributional Similarity with Lessons Learned from Word
Embeddings". With ``p`` the shares of a co-occurrence table, ``q`` those of contexts to the power
``smoothing``, and ``k`` the ``shift``::

    M_ij = max(0, ln(p(i, j) / (p(i) q(j))) - ln k)        M ~ U S V'        vectors = U S ** power

The decomposition is randomized subspace iteration (Halko, Martinsson, Tropp 2011, algorithms 4.4
and 5.1), whose start is fixed, so nothing about a model is random. The sign of a dimension is free;
the largest component of each in ``U`` is made positive.

Shapes: ``V`` vocabulary, ``D`` width, ``N`` words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.capabilities import TableName
from models.family import (
    FloatArray,
    Inputs,
    Report,
    State,
    Style,
    Want,
    WantsCooccurrence,
    WantsVocabulary,
)
from models.vocabulary import Vocabulary

Table = NDArray[np.float32]
OVERSAMPLING = 16


@dataclass(frozen=True)
class Config:
    """The settings of PPMI vectors."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "PPMI with truncated SVD"
    paper: ClassVar[str] = "Levy, Goldberg & Dagan (2015), aclanthology.org/Q15-1016"

    family: Literal["ppmi"] = "ppmi"
    dim: Annotated[int, Field(ge=1, le=4096, description="Width of the vectors")] = 100
    window: Annotated[
        int, Field(ge=1, le=28, description="Words on each side; one at distance d counts 1 / d")
    ] = 5
    smoothing: Annotated[
        float, Field(ge=0, le=1, description="Power of the counts of contexts")
    ] = 0.75
    shift: Annotated[
        float,
        Field(ge=1, allow_inf_nan=False, description="k, whose logarithm is taken off; 1 for none"),
    ] = 1.0
    power: Annotated[
        float, Field(ge=0, le=1, description="Power of the singular values: 0, 0.5 or 1 are usual")
    ] = 0.5
    iterations: Annotated[
        int, Field(ge=1, le=100, description="Of the decomposition; more are more exact")
    ] = 6
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
        """A model to ``fit``, zero until then; nothing about it is random."""
        vectors = np.zeros((len(inputs.vocabulary()), self.dim), np.float32)
        return Model(self, inputs.vocabulary(), vectors, np.zeros(self.dim, np.float32))

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the arrays that ``Model.state`` gave."""
        return Model(self, vocabulary, state["vectors"], state["singular_values"])


class Model:
    """A table of vectors.

    Attributes:
        vectors: (V, D) float32.
        singular_values: (D,) float32, falling.
    """

    def __init__(
        self, config: Config, vocabulary: Vocabulary, vectors: Table, singular_values: Table
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.vectors, self.singular_values = vectors, singular_values

    def state(self) -> State:
        """Both arrays."""
        return {"vectors": self.vectors, "singular_values": self.singular_values}

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32; NaN for a word outside the vocabulary."""
        ids = self.vocabulary.ids(words)
        vectors = np.full((len(ids), self.config.dim), np.nan, np.float32)
        vectors[ids >= 0] = self.vectors[ids[ids >= 0]]
        return vectors

    @property
    def own_table(self) -> TableName:
        """There is one table only."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The word vectors."""
        return {"input": self.vectors}

    def fit(self, inputs: Inputs) -> Report:
        """Compute the vectors.

        Dimensions beyond the number of words stay zero.

        Raises:
            ValueError: no two words go together.
        """
        from models.kernels.ppmi import positive_pmi

        n_words = len(self.vocabulary)
        dim = min(self.config.dim, n_words)
        shift = math.log(self.config.shift)
        matrix = positive_pmi(inputs.cooccurrence(), smoothing=self.config.smoothing, shift=shift)
        if len(matrix.values) == 0:
            raise ValueError("no two words stand together more often than by chance")
        left, values = truncated_svd(
            matrix.times, matrix.transposed_times, n_words, dim, self.config.iterations
        )
        self.singular_values[:dim] = values
        self.vectors[:, :dim] = left * values**self.config.power
        squares = float(np.square(matrix.values, dtype=np.float64).sum())
        return {
            "entries": len(matrix.values),
            "explained": float(np.square(values).sum()) / squares,
        }


def truncated_svd(
    times: Callable[[Table], Table],
    transposed_times: Callable[[Table], Table],
    n: int,
    dim: int,
    iterations: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first left singular vectors and singular values of a square matrix.

    Args:
        times: multiplies the matrix with another of n rows.
        transposed_times: multiplies its transpose.
        n: rows of the matrix.
        dim: how many are wanted, at most n.
        iterations: in which the subspace turns towards them.

    Returns:
        (n, dim) and (dim,), float64.
    """
    width = min(n, dim + OVERSAMPLING)
    start = np.random.default_rng(0).standard_normal((n, width), np.float32)
    basis = _orthonormal(times(start))
    for _ in range(iterations):
        basis = _orthonormal(times(_orthonormal(transposed_times(basis))))
    # M is about Q Q' M, and M' Q is small enough to be taken apart exactly: M' Q = V S W'.
    _, values, inner = np.linalg.svd(
        transposed_times(basis).astype(np.float64), full_matrices=False
    )
    left = (basis @ inner.T)[:, :dim]
    signs = np.sign(left[np.abs(left).argmax(axis=0), np.arange(dim)])
    return left * signs, values[:dim]


def _orthonormal(matrix: Table) -> Table:
    """A basis of the columns, by Cholesky's factor of their products, twice, as that is fast.

    Yamamoto et al. (2015), "Roundoff error analysis of the CholeskyQR2 algorithm". Columns that
    depend on each other have no such factor and are left to Householder's method.
    """
    basis = matrix.astype(np.float64)
    try:
        for _ in range(2):
            basis = basis @ np.linalg.inv(np.linalg.cholesky(basis.T @ basis)).T
    except np.linalg.LinAlgError:
        basis = np.linalg.qr(matrix.astype(np.float64))[0]
    return basis.astype(np.float32)
