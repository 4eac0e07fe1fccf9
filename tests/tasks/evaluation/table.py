"""A model that has word vectors and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Table:
    """Word vectors and nothing else."""

    vocabulary: Vocabulary
    rows: np.ndarray
    config: object = None

    @staticmethod
    def of(words: Sequence[str], rows: object, counts: Sequence[int] | None = None) -> Table:
        falling = range(len(words), 0, -1) if counts is None else counts
        vocabulary = Vocabulary((), tuple(words), np.array(falling, dtype=np.int64))
        return Table(vocabulary, np.asarray(rows, dtype=np.float32))

    def word_vectors(self, words: Sequence[str]) -> np.ndarray:
        ids = self.vocabulary.ids(words)
        return np.where(ids[:, None] >= 0, self.rows[ids], np.float32(np.nan))

    def state(self) -> dict[str, np.ndarray]:
        return {"rows": self.rows}
