"""Questions for every capability, and what lexloom itself answers to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from models import vectors
from models.family import EmbedsWords, Model, Scores
from models.text import Sentences
from tasks.evaluation.neighbours import nearest
from tests.tasks.trained import sentences

Question = tuple[list[dict[str, Any]], dict[str, Any]]

WORDS = ["Mühle", "дом", "river", "nowhere", "o'clock", "水"]
SENTENCES = [*sentences(20, seed=77), ["Mühle", "nowhere", "."], [], ["<s>", "</s>", "<unk>"]]


def questions() -> list[Question]:
    """In the order of ``answers``."""
    words = [{"word": word} for word in WORDS]
    pairs = [{"word": a, "other": b} for a in WORDS for b in WORDS]
    triples = [{"a": "cat", "b": "river", "c": word} for word in WORDS]
    return [
        (words, {"task": "vectors"}),
        (words, {"task": "neighbours", "k": 4}),
        (pairs, {"task": "similarity"}),
        (triples, {"task": "analogy", "k": 3}),
        (triples, {"task": "analogy", "k": 3, "method": "3cosmul"}),
        ([{"tokens": tokens} for tokens in SENTENCES], {"task": "log_prob"}),
    ]


def answers(model: Model) -> list[dict[str, list[Any]] | None]:
    """By our own means; None for what the model cannot do."""
    found: list[dict[str, list[Any]] | None] = [None] * 6
    if isinstance(model, EmbedsWords):
        found[:5] = _about_words(model)  # type: ignore[arg-type]
    if isinstance(model, Scores):
        rows = [model.log_prob(Sentences.of(model.vocabulary, [row])) for row in SENTENCES]
        found[5] = {
            "log_prob": [float(row.sum()) for row in rows],
            "log_probs": [row.tolist() for row in rows],
            "unknown": [sum(t not in model.vocabulary for t in row) for row in SENTENCES],
        }
    return found


def _about_words(model: Any) -> list[dict[str, list[Any]]]:
    table = model.word_vectors(WORDS)
    near = nearest(model, WORDS, k=4)
    ranked = [near.get(word) for word in WORDS]
    words = model.vocabulary.words
    units = vectors.unit(model.word_vectors(words))
    index = {word: i for i, word in enumerate(words)}

    def analogy(word: str, method: Any) -> Any:
        if word not in index:
            return None
        ids, scores = vectors.analogy(units, index["cat"], index["river"], index[word], 3, method)
        return [(words[i], float(score)) for i, score in zip(ids, scores, strict=True)]

    cosines = vectors.similarity(
        np.repeat(table, len(WORDS), axis=0), np.tile(table, (len(WORDS), 1))
    )
    return [
        {
            "word": WORDS,
            "vector": [row.tolist() if np.isfinite(row).all() else None for row in table],
        },
        {"word": WORDS, **_unzip("neighbours", "similarities", ranked)},
        {"similarity": [float(c) if np.isfinite(c) else None for c in cosines]},
        *(
            _unzip("answers", "scores", [analogy(word, method) for word in WORDS])
            for method in ("3cosadd", "3cosmul")
        ),
    ]


def _unzip(first: str, second: str, rows: Any) -> dict[str, list[Any]]:
    return {
        first: [row and [word for word, _ in row] for row in rows],
        second: [row and [score for _, score in row] for row in rows],
    }


def difference(found: Any, expected: Any) -> float:
    """The largest difference between numbers of two values that must agree in everything else."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        return max(difference(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        return max((difference(a, b) for a, b in zip(found, expected, strict=True)), default=0.0)
    if isinstance(expected, float):
        if found is None or np.isnan(found):
            return np.inf
        return abs(found - expected) if found != expected else 0.0
    assert found == expected, (found, expected)
    return 0.0
