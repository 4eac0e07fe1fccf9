"""Tokenized text as the families read it: ids with sentence and document boundaries.

Tokens keep their surface: a partition stores ids into its own table of types, and a model's
vocabulary is laid over it when it is read. Another ``min_count`` re-encodes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from models.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences back to back.

    Attributes:
        ids: (N,) int32 token ids.
        starts: (S + 1,) int64, sentence ``s`` is ``ids[starts[s]:starts[s + 1]]``.
        documents: (D + 1,) int64, document ``d`` is sentences ``documents[d]:documents[d + 1]``.
        written: (N,) int32, how each token is written, an index into ``forms``; None where only
            the ids are known. It tells unknown words apart, for models that read characters.
        forms: written forms, in any order, perhaps some of them twice.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    written: NDArray[np.int32] | None = None
    forms: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.starts) - 1

    @staticmethod
    def of(vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]) -> Sentences:
        """The given token lists under a vocabulary, each sentence a document of its own."""
        lengths = np.array([len(tokens) for tokens in sentences], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        forms = list(chain.from_iterable(sentences))
        documents = np.arange(len(sentences) + 1, dtype=np.int64)
        written = np.arange(len(forms), dtype=np.int32)
        return Sentences(vocabulary.ids(forms), starts, documents, written, forms)

    def stretch(self, first: int, last: int, documents: NDArray[np.int64]) -> Sentences:
        """Sentences ``first`` to ``last``, with documents of their own."""
        starts = np.asarray(self.starts[first : last + 1])
        tokens = slice(int(starts[0]), int(starts[-1]))
        written = None if self.written is None else np.asarray(self.written[tokens])
        ids = np.asarray(self.ids[tokens])
        return Sentences(ids, starts - starts[0], documents, written, self.forms)

    def share(self, i: int, n: int) -> Sentences:
        """Part ``i`` of ``n``, cut between sentences, of about equally many tokens."""
        first, last = (
            int(np.searchsorted(self.starts[1:], len(self.ids) * k // n, side="right"))
            for k in (i, i + 1)
        )
        return self.stretch(first, last, np.array([0, last - first]))


@dataclass(frozen=True, eq=False)
class TokenPartition:
    """One partition of a tokenized corpus; ``text.ids`` point into ``types``.

    Attributes:
        types: the distinct surface forms of this partition.
        counts: (len(types),) int64, how often each stands in it.
        text: its tokens, usually memory-mapped.
        characters: (S,) int64, of each sentence as it was written, its end included: what bits a
            character are counted over, whatever the tokens are. None where it is not known.
    """

    types: Sequence[str]
    counts: NDArray[np.int64]
    text: Sentences
    characters: NDArray[np.int64] | None = None

    def under(self, vocabulary: Vocabulary) -> Sentences:
        """The same text with the ids of a vocabulary (``vocabulary.unknown`` for other words)."""
        table = vocabulary.ids(self.types)
        ids = table[self.text.ids] if len(table) else np.zeros(0, np.int32)
        text = self.text
        return Sentences(ids, text.starts, text.documents, text.ids, self.types)


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenized corpus, a partition at a time."""

    partitions: Sequence[TokenPartition]

    @property
    def n_tokens(self) -> int:
        """Tokens of all partitions, sentence ends not counted."""
        return sum(len(part.text.ids) for part in self.partitions)

    @property
    def n_sentences(self) -> int:
        """Sentences of all partitions."""
        return sum(len(part.text) for part in self.partitions)

    def under(self, vocabulary: Vocabulary) -> Iterator[Sentences]:
        """Each partition with the ids of a vocabulary."""
        for part in self.partitions:
            yield part.under(vocabulary)


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """Every n-gram of one order with its count, in the ids of a language-model vocabulary.

    The text is padded on the left with ``order - 1`` times ``<s>`` (id 1) and closed by ``</s>``
    (id 2) in every sentence, so the counts of all lower orders follow from this table. In suffix
    order, the n-grams that share their last k words stand together, for every k.

    Attributes:
        order: n.
        ngrams: (M, order) int32, distinct, sorted by the last word, then the one before it, ...
        counts: (M,) int64.
    """

    order: int
    ngrams: NDArray[np.int32]
    counts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CooccurrencePart:
    """A stretch of a co-occurrence table, ordered by (row, column); a row may go on in the next.

    Attributes:
        words: (R,) int32 the rows that have entries here.
        starts: (R + 1,) int64, the entries of ``words[r]`` are ``starts[r]`` to ``starts[r + 1]``.
        columns: (M,) int32.
        totals: (M,) int64, weights times the ``scale`` of the table.
    """

    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    totals: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def rows(self) -> NDArray[np.int32]:
        """(M,) the row of each entry."""
        return np.repeat(self.words, np.diff(self.starts))


@dataclass(frozen=True, eq=False)
class CooccurrenceCounts:
    """How much words stand around each other, in the ids of a vocabulary.

    Attributes:
        n_words: V, the table is V x V and sparse.
        window: the widest distance.
        symmetric: the table equals its transpose, and only ``row <= column`` is stored. A word
            beside itself counts twice, once for each side, as in the whole table.
        scale: what the integer totals are divided by.
        parts: the entries, distinct, by (row, column), usually memory-mapped.
    """

    n_words: int
    window: int
    symmetric: bool
    scale: int
    parts: Sequence[CooccurrencePart]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def entries(
        self, *, whole: bool = False
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]]:
        """Rows, columns and weights, a part at a time.

        Args:
            whole: of a symmetric table also give what is below the diagonal, right after the part
                that it mirrors.
        """
        for part in self.parts:
            rows, columns, weights = part.rows, part.columns, part.totals / self.scale
            yield rows, columns, weights
            if whole and self.symmetric:
                below = rows != columns
                yield columns[below], rows[below], weights[below]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Some entries of a co-occurrence table, in any order.

    Attributes:
        rows: (N,) int32.
        columns: (N,) int32.
        weights: (N,) float64, positive.
        symmetric: an entry off the diagonal also stands for its mirror image.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    weights: NDArray[np.float64]
    symmetric: bool

    def __len__(self) -> int:
        return len(self.rows)

    def share(self, i: int, n: int) -> Pairs:
        """Part ``i`` of ``n``, one after the other and of equal size but for rounding."""
        low, high = len(self) * i // n, len(self) * (i + 1) // n
        rows, columns, weights = self.rows, self.columns, self.weights
        return Pairs(rows[low:high], columns[low:high], weights[low:high], self.symmetric)
