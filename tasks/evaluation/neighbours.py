"""Nearest neighbours by cosine: a look at a model rather than a score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models import vectors
from models.capabilities import EmbedsWords
from models.family import Model
from tasks.evaluation.lexicon import Case, Lexicon, vectors_of

Neighbours = dict[str, tuple[tuple[str, float], ...]]


def nearest(
    model: Model,
    words: Sequence[str],
    *,
    k: int = 10,
    restrict: int | None = None,
    case: Case = "exact",
) -> Neighbours:
    """The words nearest to each of some words, with their cosines, nearest first.

    Args:
        model: one that ``EmbedsWords``.
        words: asked about; those without a vector are left out of the answer.
        k: neighbours of each.
        restrict: neighbours are among so many of the most frequent words.
        case: see ``Lexicon``.
    """
    if not isinstance(model, EmbedsWords):
        raise TypeError(f"{type(model).__name__} has no word vectors")
    whole = Lexicon.of(model.vocabulary, case)
    lexicon, table = vectors_of(model, Lexicon.of(model.vocabulary, case, restrict))
    units = vectors.unit(table)
    found: Neighbours = {}
    for word, vector in zip(
        words, model.word_vectors([whole.form(word) for word in words]), strict=True
    ):
        if np.isfinite(vector).all():
            position = lexicon.find(word)
            itself = [position] if position >= 0 else []
            ids, cosines = vectors.neighbours(units, vector, k, exclude=itself)
            found[word] = tuple(
                (lexicon.words[i], round(float(c), 6)) for i, c in zip(ids, cosines, strict=True)
            )
    return found


def telling_words(lexicon: Lexicon, n: int = 8, beyond: int = 100) -> tuple[str, ...]:
    """Some frequent words that are neither function words nor rare, for people to look at.

    They are evenly spread over ranks ``beyond`` to ``20 * beyond``, where content words begin.
    """
    letters = [word for word in lexicon.words if word.isalpha() and len(word) > 3]
    pool = letters[beyond : 20 * beyond] or letters
    return tuple(pool[i] for i in np.linspace(0, len(pool) - 1, min(n, len(pool))).astype(int))
