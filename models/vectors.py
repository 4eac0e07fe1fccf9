"""Arithmetic of word vectors: similarity, neighbours and analogies over whole tables.

The functions take matrices of *unit rows* (see ``unit``), so that a product is a cosine. They need
numpy only. Evaluation asks many questions at once by them; ``models.word_vectors`` answers single
ones from tables that may be too large to copy.

Analogies "a is to b as c is to ?" are answered in the two ways of Levy and Goldberg (2014),
"Linguistic regularities in sparse and explicit word representations":

* 3CosAdd (their equation 3, after Mikolov et al. 2013): the word nearest to ``b - a + c``;
* 3CosMul (equation 5): the largest ``s(x, b) s(x, c) / (s(x, a) + epsilon)`` with the cosines
  shifted to ``s = (1 + cos) / 2``, so that no factor is negative.

The three words of a question are never its answer.

Shapes: ``V`` words, ``D`` width, ``Q`` questions, ``k`` answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Ids = NDArray[np.int64]
Method = Literal["3cosadd", "3cosmul"]

EPSILON = 1e-6
"""Keeps the quotient of 3CosMul finite."""
BLOCK_BYTES = 32 * 2**20
"""Cosines of the words of many questions that are held at a time."""
CACHED_BYTES = 2**20
"""Scores of a step over them; what stays in the cache is several times as fast."""


def unit(matrix: NDArray[np.floating]) -> Matrix:
    """The rows at length 1, a copy.

    Args:
        matrix: (V, D) or (D,).

    Returns:
        float32 of the same shape. A row of zeros stays as it is, so its cosines are 0; a row with
        NaN, as ``word_vectors`` gives for an unknown word, stays NaN.
    """
    rows = np.asarray(matrix, dtype=np.float32)
    squares = np.einsum("...d,...d->...", rows, rows, dtype=np.float64)
    norms = np.sqrt(squares)[..., None]
    return cast(Matrix, (rows / np.where(norms == 0, 1, norms)).astype(np.float32))


def similarity(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosines of the rows of two matrices, row by row.

    Args:
        a: (N, D) or (D,), of any length.
        b: the same shape.

    Returns:
        (N,) or a scalar array; NaN where either row has NaN, 0 where either is zero.
    """
    return cast(
        NDArray[np.float64], np.einsum("...d,...d->...", unit(a), unit(b), dtype=np.float64)
    )


def neighbours(
    units: Matrix, vector: NDArray[np.floating], k: int, exclude: Sequence[int] = ()
) -> tuple[Ids, Matrix]:
    """The words nearest to a vector by cosine.

    Args:
        units: (V, D) unit rows.
        vector: (D,) of any length.
        k: how many; fewer come back where there are fewer.
        exclude: ids that are no answer, such as the word itself.

    Returns:
        (k,) ids and their cosines, nearest first; equal cosines in the order of ids.
    """
    cosines = units @ unit(vector)
    cosines[np.asarray(exclude, dtype=np.int64)] = -np.inf
    return best(cosines, min(k, len(units) - len(set(exclude))))


def analogies(units: Matrix, questions: Ids, method: Method = "3cosadd") -> Ids:
    """The best answer to each of many questions "a is to b as c is to ?".

    Args:
        units: (V, D) unit rows; cut them first to answer among the most frequent words only.
        questions: (Q, 3) ids ``a, b, c``, all below V.
        method: 3CosAdd scores by the cosine with ``b - a + c``, 3CosMul by its quotient.

    Returns:
        (Q,) ids; the smallest where scores are equal.
    """
    answers = np.empty(len(questions), dtype=np.int64)
    table = _shifted(units) if method == "3cosmul" else units
    rows = max(3, BLOCK_BYTES // (4 * max(1, len(units))))
    start = 0
    while start < len(questions):
        stop = start + _stretch(questions[start:], rows)
        words, places = np.unique(questions[start:stop], return_inverse=True)
        near = table[words] @ table.T
        answers[start:stop] = _answers(near, words, places.reshape(-1, 3), method)
        start = stop
    return answers


def _stretch(questions: Ids, most: int) -> int:
    """How many of the first questions have no more than ``most`` distinct words, about."""
    n = most // 3
    while n < len(questions) and len(np.unique(questions[: 2 * n])) <= most:
        n *= 2
    return min(n, len(questions))


def _answers(near: Matrix, words: Ids, questions: Ids, method: Method) -> Ids:
    """(Q,) answers from the (W, V) cosines of the questions' words, which they are indices of.

    The length of ``b - a + c`` changes no order, so that the sum of cosines answers as well.
    """
    if method == "3cosmul":
        inverse = 1 / (near + np.float32(EPSILON))
    answers = np.empty(len(questions), dtype=np.int64)
    step = max(1, CACHED_BYTES // (4 * near.shape[1]))
    for start in range(0, len(questions), step):
        a, b, c = questions[start : start + step].T
        scores = near[b]
        if method == "3cosadd":
            scores -= near[a]
            scores += near[c]
        else:
            scores *= near[c]
            scores *= inverse[a]
        rows = np.arange(len(scores))
        for word in (a, b, c):
            scores[rows, words[word]] = -np.inf
        answers[start : start + step] = scores.argmax(axis=1)
    return answers


def _shifted(units: Matrix) -> Matrix:
    """Rows whose products are shifted cosines, (1 + cos) / 2: with a column of ones, over √2."""
    ones = np.ones((len(units), 1), np.float32)
    table: Matrix = np.hstack([units, ones])
    return table / np.float32(2**0.5)


def best(scores: Matrix, k: int) -> tuple[Ids, Matrix]:
    """The k largest of (V,) scores with their ids, largest first, equal ones by id."""
    if k <= 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= threshold)
    ids = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return ids, scores[ids]
