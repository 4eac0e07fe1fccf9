"""Questions for every capability, and what lexloom itself answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from models import vectors
from models.capabilities import EmbedsWords, Predicts, Scores
from models.family import Model
from models.generation import Sampling, generate
from models.text import Sentences
from models.word_vectors import WordVectors
from tasks.evaluation.neighbours import nearest
from tests.tasks.trained import sentences

Question = tuple[list[dict[str, Any]], dict[str, Any]]

WORDS = ["Mühle", "дом", "river", "nowhere", "o'clock", "水"]
SENTENCES = [*sentences(20, seed=77), ["Mühle", "nowhere", "."], [], ["<s>", "</s>", "<unk>"]]

PREFIXES = [["the", "cat"], [], ["nowhere"], ["the", "cat"]]
DRAWN = {"length": 7, "seed": 4, "temperature": 1.4, "top_k": 9, "top_p": 0.9, "unknown": True}

EXPRESSIONS = ["cat - river + Mühle", "0.5 * o'clock + cat", "cat + nowhere"]
SETS = [
    {"words": ["cat", "river", "cat"], "others": ["Mühle"]},
    {"words": ["cat"], "others": ["o'clock", "river"]},
]


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
        ([{"expression": text} for text in EXPRESSIONS], {"task": "expression", "k": 3}),
        ([{**row, "d": "cat"} for row in triples], {"task": "offset_similarity"}),
        (pairs, {"task": "rank", "k": 2}),
        ([{"words": WORDS[:3]}, {"words": WORDS}], {"task": "odd_one_out"}),
        (SETS, {"task": "n_similarity"}),
        (SETS, {"task": "wmdistance"}),
        ([{"tokens": tokens} for tokens in SENTENCES], {"task": "log_prob"}),
        ([{"tokens": tokens} for tokens in PREFIXES], {"task": "generate"}),
        ([{"tokens": tokens} for tokens in PREFIXES], {"task": "generate", **DRAWN}),
    ]


def answers(model: Model) -> list[dict[str, list[Any]] | None]:
    """By our own means; None for what the model cannot do."""
    found: list[dict[str, list[Any]] | None] = [None] * 14
    if isinstance(model, EmbedsWords):
        found[:11] = [*_about_words(model), *_more_about_words(model)]
    if isinstance(model, Scores):
        rows = [model.log_prob(Sentences.of(model.vocabulary, [row])) for row in SENTENCES]
        found[11] = {
            "log_prob": [float(row.sum()) for row in rows],
            "log_probs": [row.tolist() for row in rows],
            "unknown": [sum(t not in model.vocabulary for t in row) for row in SENTENCES],
        }
    if isinstance(model, Predicts):
        found[12] = _made(model, Sampling(), length=50, seed=1)
        found[13] = _made(model, Sampling(1.4, 9, 0.9, unknown=True), length=7, seed=4)
    return found


def _made(model: Any, how: Sampling, length: int, seed: int) -> dict[str, list[Any]]:
    begun = Sentences.of(model.vocabulary, PREFIXES)
    made = generate(model, begun, unknown=0, how=how, length=length, seed=seed)
    entries = model.vocabulary.entries
    return {
        "tokens": [[entries[i] for i in text.ids] for text in made],
        "ended": [bool(text.ended) for text in made],
        "log_prob": [text.log_prob for text in made],
    }


def _about_words(model: Any) -> list[dict[str, list[Any]]]:
    table = model.word_vectors(WORDS)
    near = nearest(model, WORDS, k=4)
    ranked = [near.get(word) for word in WORDS]

    def analogy(word: str, method: Any) -> Any:
        if not WordVectors(model).knows(word):
            return None
        return WordVectors(model).analogy("cat", "river", word, 3, method)

    cosines = vectors.similarity(
        np.repeat(table, len(WORDS), axis=0), np.tile(table, (len(WORDS), 1))
    )
    return [
        {
            "word": WORDS,
            "vector": [row.tolist() if np.isfinite(row).all() else None for row in table],
        },
        {"word": WORDS, **_unzip("neighbours", "similarities", ranked)},
        {
            "similarity": [float(c) if np.isfinite(c) else None for c in cosines],
            "unknown": [_first_unknown(model, a, b) for a in WORDS for b in WORDS],
        },
        *(
            {
                **_unzip("answers", "scores", [analogy(word, method) for word in WORDS]),
                "unknown": [_first_unknown(model, word) for word in WORDS],
            }
            for method in ("3cosadd", "3cosmul")
        ),
    ]


def _first_unknown(model: Any, *words: str) -> str | None:
    return next((word for word in words if not WordVectors(model).knows(word)), None)


def _more_about_words(model: Any) -> list[dict[str, list[Any]]]:
    vectors = WordVectors(model)

    def all_known(*words: str) -> bool:
        return all(vectors.knows(word) for word in words)

    offsets = [("cat", "river", word, "cat") for word in WORDS]
    pairs = [(a, b) for a in WORDS for b in WORDS]
    closer = [vectors.closer_than(*pair) if all_known(*pair) else None for pair in pairs]
    odd = [vectors.doesnt_match(w) if all_known(*w) else None for w in (WORDS[:3], WORDS)]
    found: list[dict[str, list[Any]]] = [
        _unzip(
            "neighbours",
            "similarities",
            [
                vectors.most_similar(["cat", "Mühle"], ["river"], 3),
                vectors.most_similar(["o'clock", "cat"], k=3, weights=[0.5, 1]),
                vectors.most_similar(["cat", "nowhere"], k=3) if all_known("nowhere") else None,
            ],
        ),
        {
            "similarity": [
                vectors.offset_similarity((a, b), (c, d)) if all_known(c) else None
                for a, b, c, d in offsets
            ]
        },
        {
            "rank": [None if row is None else len(row) + 1 for row in closer],
            "closer": [None if row is None else row[:2] for row in closer],
        },
        {
            "word": [row and row[-1][0] for row in odd],
            **_unzip("words", "similarities", odd),
        },
        {"similarity": [vectors.n_similarity(row["words"], row["others"]) for row in SETS]},
        {"distance": [vectors.wmdistance(row["words"], row["others"]) for row in SETS]},
    ]
    # The words of each question that a model may not know.
    asked: list[Sequence[tuple[str, ...]]] = [
        [(), (), ("nowhere",)], [(word,) for word in WORDS], pairs, [(), tuple(WORDS)], [(), ()],
        [(), ()],
    ]  # fmt: skip
    return [
        {**columns, "unknown": [_first_unknown(model, *words) for words in some]}
        for columns, some in zip(found, asked, strict=True)
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
