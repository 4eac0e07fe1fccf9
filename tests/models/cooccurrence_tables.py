"""Small co-occurrence tables."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from models.family import Inputs
from models.text import CooccurrenceCounts, CooccurrencePart
from models.vocabulary import Vocabulary

SCALE = 2520


def table_of(matrix: NDArray[np.int64], parts: int = 1) -> CooccurrenceCounts:
    """A symmetric (V, V) matrix of totals as a table in parts, between whose rows they cut."""
    rows, columns = (a.astype(np.int32) for a in np.nonzero(np.triu(matrix)))
    cuts = np.linspace(0, len(rows), parts + 1).astype(int)
    made = []
    for low, high in itertools.pairwise(cuts):
        words, firsts = np.unique(rows[low:high], return_index=True)
        starts = np.append(firsts, high - low).astype(np.int64)
        here = slice(low, high)
        totals = matrix[rows[here], columns[here]]
        made.append(CooccurrencePart(words, starts, columns[here], totals))
    return CooccurrenceCounts(len(matrix), 10, True, SCALE, made)


def random_matrix(n: int, density: float = 0.5, seed: int = 0) -> NDArray[np.int64]:
    """(n, n) symmetric totals, some of them 0."""
    random = np.random.default_rng(seed)
    upper = random.integers(1, 500 * SCALE, (n, n)) * (random.random((n, n)) < density)
    upper = np.triu(upper)
    return upper + upper.T


def inputs_of(table: CooccurrenceCounts) -> Inputs:
    words = tuple(f"w{i}" for i in range(table.n_words))
    counts = np.arange(table.n_words, 0, -1, dtype=np.int64)
    return Inputs({"cooccurrence": table, "vocabulary": Vocabulary((), words, counts)})
