"""What can be asked of word vectors: gensim's ``KeyedVectors`` questions, by their names there.

A question is answered from the rows of a table where they lie (``models.tables``). Who finds the
nearest rows is handed in: ``scan`` needs numpy only; ``models.kernels.shortlist`` is faster and
answers the same; ``models.approximate`` is faster still and may miss some.

A word outside the table has a vector where the model can make one (subwords); a word without any is
an ``UnknownWord``. Words of a question are never among its answers.

Levy and Goldberg (2014), "Linguistic regularities in sparse and explicit word representations", for
3CosMul; Kusner et al. (2015), "From word embeddings to document distances", for the word mover's
distance; Leeuwenberg et al. (2016), "A minimally supervised approach for synonym extraction with
word embeddings", for relative cosine similarity.

Shapes: ``V`` words, ``D`` width, ``Q`` questions, ``N`` words asked about, ``k`` answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from models.tables import Choice, HasVocabulary, Rows, embedder, rows
from models.vectors import EPSILON, Ids, Matrix, Method, best, unit

Ranked = list[tuple[str, float]]
Key = str | NDArray[np.floating]
"""A word, or a vector."""
Found = list[tuple[Ids, Matrix]]

QUERIES_AT_ONCE = 64
"""Questions of a scan whose cosines with all words are held at a time."""


class UnknownWord(KeyError):
    """A word that has no vector.

    Attributes:
        word: as it was asked.
    """

    def __init__(self, word: str) -> None:
        super().__init__(f"there is no vector of {word!r}")
        self.word = word


class Search(Protocol):
    """Finds the rows nearest to some vectors."""

    def __call__(self, queries: Matrix, k: int, among: int) -> Found:
        """The nearest rows by cosine.

        Args:
            queries: (Q, D) unit rows.
            k: at least 1.
            among: only the first so many rows.

        Returns:
            for each question (k,) ids with their cosines, nearest first, or fewer where there are
            fewer; rows that are not finite are no answer.
        """
        ...


def scan(table: Rows) -> Search:
    """A search that looks at every row."""

    def search(queries: Matrix, k: int, among: int) -> Found:
        found: Found = []
        for first in range(0, len(queries), QUERIES_AT_ONCE):
            for row in _cosines(table, queries[first : first + QUERIES_AT_ONCE], among):
                found.append(_finite(*best(np.nan_to_num(row, nan=-np.inf), min(k, among))))
        return found

    return search


def _cosines(table: Rows, queries: Matrix, among: int) -> Matrix:
    """(Q, among) cosines of (Q, D) unit rows with the first rows of a table."""
    products = np.empty((len(queries), among), np.float32)
    for some, block in table.blocks(among):
        np.matmul(queries, block.T, out=products[:, some])
    return cast(Matrix, products / table.lengths[:among])


def _finite(ids: Ids, scores: Matrix) -> tuple[Ids, Matrix]:
    kept = scores > -np.inf
    return ids[kept], scores[kept]


class WordVectors:
    """The word vectors of a model, ready to be asked.

    Attributes:
        words: V words.
        table: their vectors.
        search: finds the nearest of them.
    """

    def __init__(
        self, model: HasVocabulary, choice: Choice = "own", search: Search | None = None
    ) -> None:
        self._model, self._choice = model, choice
        self.words = model.vocabulary.words
        self.table = rows(model, choice)
        self.search = search or scan(self.table)

    # --- vectors ---

    def find(self, word: str) -> int:
        """The row of a word, -1 if it has none."""
        vocabulary = self._model.vocabulary
        return vocabulary.id(word) - len(vocabulary.reserved) if word in vocabulary else -1

    def lists(self, word: str) -> bool:
        """Whether a word is one of ``words``; a model of subwords knows others too."""
        return self.find(word) >= 0

    def knows(self, word: str) -> bool:
        """Whether there is a vector of a word."""
        return bool(np.isfinite(self._vector(word)).all())

    def _vector(self, word: str) -> Matrix:
        row = self.find(word)
        if row >= 0:
            return cast(Matrix, self.table.at(slice(row, row + 1))[0])
        embed = embedder(self._model, self._choice)
        if embed is not None:
            return np.asarray(embed([word])[0], dtype=np.float32)
        return np.full(self.table.shape[1], np.nan, np.float32)

    def vectors(self, keys: Sequence[Key]) -> Matrix:
        """(N, D) vectors of any length.

        Raises:
            UnknownWord: one of the words has none.
        """
        found = np.empty((len(keys), self.table.shape[1]), np.float32)
        for i, key in enumerate(keys):
            found[i] = self._vector(key) if isinstance(key, str) else key
            if isinstance(key, str) and not np.isfinite(found[i]).all():
                raise UnknownWord(key)
        return found

    def mean_vector(
        self,
        keys: Sequence[Key],
        weights: Sequence[float] | None = None,
        *,
        pre_normalize: bool = True,
        post_normalize: bool = False,
    ) -> Matrix:
        """The weighted mean of some vectors, divided by the sum of the sizes of their weights.

        Args:
            keys: words, or vectors, which are taken as they are.
            weights: (N,), 1 if None.
            pre_normalize: take the words' vectors at length 1.
            post_normalize: give the mean at length 1.

        Returns:
            (D,) float32.

        Raises:
            UnknownWord: one of the words has no vector.
            ValueError: there are no words, or another number of weights.
        """
        weighing = np.ones(len(keys)) if weights is None else np.asarray(weights, np.float64)
        if len(keys) == 0 or len(weighing) != len(keys):
            raise ValueError(f"{len(keys)} words with {len(weighing)} weights have no mean")
        table = self.vectors(keys)
        words = [isinstance(key, str) for key in keys]
        if pre_normalize:
            table[words] = unit(table[words])
        size = np.abs(weighing).sum()
        mean = weighing @ table.astype(np.float64) / (size if size > 0 else 1.0)
        return unit(mean) if post_normalize else cast(Matrix, mean.astype(np.float32))

    # --- nearest words ---

    def nearest(
        self,
        queries: Matrix,
        k: int = 10,
        exclude: Sequence[Sequence[str]] | None = None,
        restrict: int | None = None,
    ) -> list[Ranked]:
        """The words nearest to each of many vectors, with their cosines.

        Args:
            queries: (Q, D) of any length.
            k: answers to each.
            exclude: for each question the words that are no answer.
            restrict: answers are among so many of the first words, which are the most frequent.
        """
        among = min(len(self.words), restrict or len(self.words))
        excluded = [{self.find(w) for w in some} for some in exclude or [()] * len(queries)]
        more = max(map(len, excluded), default=0)
        if k <= 0 or not among or not len(queries):
            return [[] for _ in queries]
        found = self.search(unit(queries), min(k + more, among), among)
        answers: list[Ranked] = []
        for (ids, cosines), without in zip(found, excluded, strict=True):
            pairs = zip(ids.tolist(), cosines.tolist(), strict=True)
            answers.append([(self.words[i], c) for i, c in pairs if i not in without][:k])
        return answers

    def most_similar(
        self,
        positive: Sequence[Key],
        negative: Sequence[Key] = (),
        k: int = 10,
        *,
        weights: Sequence[float] | None = None,
        restrict: int | None = None,
    ) -> Ranked:
        """The words nearest to a signed sum of unit vectors: 3CosAdd.

        Args:
            positive: words or vectors that are added.
            negative: words or vectors that are taken away.
            k: how many answers.
            weights: of all of them in turn, before the sign of ``negative``; 1 if None.
            restrict: see ``nearest``.
        """
        keys = [*positive, *negative]
        signs = np.repeat([1.0, -1.0], [len(positive), len(negative)])
        weighing = (signs if weights is None else signs * np.asarray(weights)).tolist()
        mean = self.mean_vector(keys, weighing, post_normalize=True)
        return self.nearest(mean[None], k, [_words(keys)], restrict)[0]

    def most_similar_cosmul(
        self,
        positive: Sequence[Key],
        negative: Sequence[Key] = (),
        k: int = 10,
        *,
        restrict: int | None = None,
    ) -> Ranked:
        """The words with the largest quotient of shifted cosines: 3CosMul."""
        keys = [*positive, *negative]
        if not keys:
            raise ValueError("there are no words to be similar to")
        shifted = (1 + self.cosines(unit(self.vectors(keys)), restrict)) / 2
        scores = shifted[: len(positive)].prod(axis=0)
        scores /= shifted[len(positive) :].prod(axis=0) + np.float32(EPSILON)
        scores[[i for i in map(self.find, _words(keys)) if 0 <= i < len(scores)]] = -np.inf
        ids, kept = _finite(*best(np.nan_to_num(scores, nan=-np.inf), min(k, len(scores))))
        return [(self.words[i], s) for i, s in zip(ids.tolist(), kept.tolist(), strict=True)]

    def solve(
        self, terms: Sequence[tuple[float, str]], k: int = 10, method: Method = "3cosadd"
    ) -> Ranked:
        """The best answers to a signed sum of words, see ``models.expressions``.

        Raises:
            UnknownWord: one of the words has no vector.
            ValueError: the sum is zero; or a product is asked for, which has no weights.
        """
        if method == "3cosadd":
            return self.most_similar([w for _, w in terms], k=k, weights=[n for n, _ in terms])
        if any(abs(weight) != 1 for weight, _ in terms):
            raise ValueError("3cosmul multiplies cosines: it has no weights but the signs")
        return self.most_similar_cosmul(
            [word for sign, word in terms if sign > 0],
            [word for sign, word in terms if sign < 0],
            k,
        )

    def analogy(self, a: str, b: str, c: str, k: int = 10, method: Method = "3cosadd") -> Ranked:
        """The best answers to "a is to b as c is to ?", with their scores."""
        ask = self.most_similar if method == "3cosadd" else self.most_similar_cosmul
        return ask([b, c], [a], k)

    def similar_by_vector(
        self, vector: NDArray[np.floating], k: int = 10, *, restrict: int | None = None
    ) -> Ranked:
        """The words nearest to a vector."""
        return self.nearest(np.asarray(vector)[None], k, restrict=restrict)[0]

    # --- similarity ---

    def similarity(self, first: Key, second: Key) -> float:
        """The cosine of two words."""
        a, b = unit(self.vectors([first, second]))
        return float(a @ b)

    def n_similarity(self, first: Sequence[Key], second: Sequence[Key]) -> float:
        """The cosine of the means of two sets of words."""
        means = [self.mean_vector(words, pre_normalize=False) for words in (first, second)]
        return float(unit(means[0]) @ unit(means[1]))

    def offset_similarity(self, pair: tuple[Key, Key], other: tuple[Key, Key]) -> float:
        """The cosine of two offsets, from the first to the second of each pair of unit vectors.

        Raises:
            UnknownWord: one of the words has no vector.
            ValueError: the vectors of a pair are the same, so no way leads from one to the other.
        """
        a, b, c, d = unit(self.vectors([*pair, *other]))
        for offset, (first, second) in ((b - a, pair), (d - c, other)):
            if not offset.any():
                raise ValueError(f"{first!r} and {second!r} have one vector: no way leads between")
        return float(unit(b - a) @ unit(d - c))

    def relative_cosine_similarity(self, first: str, second: str, k: int = 10) -> float:
        """The cosine of two words as a share of the cosines of the ``k`` nearest of the first."""
        total = sum(cosine for _, cosine in self.most_similar([first], k=k))
        return self.similarity(first, second) / total

    def doesnt_match(self, words: Sequence[str]) -> Ranked:
        """The words by their cosine with the mean of all: the last one is the odd one out.

        Raises:
            UnknownWord: one of the words has no vector.
            ValueError: there are no words.
        """
        if not words:
            raise ValueError("among no words there is no odd one")
        units = unit(self.vectors(words))
        cosines = units @ unit(units.mean(axis=0))
        return sorted(zip(words, cosines.tolist(), strict=True), key=lambda pair: -pair[1])

    # --- distances ---

    def cosines(self, queries: Matrix, restrict: int | None = None) -> Matrix:
        """(Q, V) cosines of (Q, D) unit rows with every word, or with the first ``restrict``."""
        return _cosines(self.table, queries, min(len(self.words), restrict or len(self.words)))

    def distances(self, key: Key, others: Sequence[Key] | None = None) -> Matrix:
        """(N,) distances, 1 - cosine, from one word to others, or to every word."""
        query = unit(self.vectors([key]))
        if others is None:
            return cast(Matrix, 1 - self.cosines(query)[0])
        return cast(Matrix, 1 - unit(self.vectors(others)) @ query[0])

    def closer_than(self, first: str, second: str) -> list[str]:
        """The words that are nearer to the first than the second is, nearest first."""
        distances = self.distances(first)
        limit = self._row_distance(distances, first, second)
        own = self.find(first)
        order = np.argsort(distances, kind="stable")
        nearer = order[: int((distances < limit).sum())].tolist()
        return [self.words[i] for i in nearer if i != own]

    def rank(self, first: str, second: str) -> int:
        """The place of the second among the neighbours of the first, from 1."""
        return len(self.closer_than(first, second)) + 1

    def _row_distance(self, distances: Matrix, first: str, second: str) -> float:
        row = self.find(second)
        return float(distances[row] if row >= 0 else self.distances(first, [second])[0])

    def wmdistance(self, document: Sequence[str], other: Sequence[str]) -> float:
        """The word mover's distance: the least way that moves the words of one to the other's.

        Words without a vector are left out, as in gensim.

        Returns:
            Euclidean, between unit vectors; infinite where a document has no word left.
        """
        shares = [_shares([w for w in words if self.knows(w)]) for words in (document, other)]
        if not all(shares):
            return float("inf")
        a, b = (unit(self.vectors(list(share))).astype(np.float64) for share in shares)
        ways = np.sqrt(np.maximum(0, ((a[:, None] - b[None]) ** 2).sum(axis=2)))
        return _least_cost(ways, *(np.array(list(share.values())) for share in shares))


def _words(keys: Sequence[Key]) -> list[str]:
    return [key for key in keys if isinstance(key, str)]


def _shares(words: Sequence[str]) -> Mapping[str, float]:
    return {word: n / len(words) for word, n in Counter(words).items()}


def _least_cost(
    costs: NDArray[np.float64], supply: NDArray[np.float64], demand: NDArray[np.float64]
) -> float:
    """The cost of the best transport, an exact linear programme.

    Args:
        costs: (A, B).
        supply: (A,) with the sum 1.
        demand: (B,) with the sum 1.
    """
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    sizes = costs.shape
    leaving = kron(eye_array(sizes[0]), np.ones((1, sizes[1])))
    arriving = kron(np.ones((1, sizes[0])), eye_array(sizes[1]))
    # One of the equations follows from the others.
    result = linprog(
        costs.ravel(),
        A_eq=vstack([leaving, arriving]).tocsr()[:-1],
        b_eq=np.concatenate([supply, demand])[:-1],
    )
    return float(result.fun)
