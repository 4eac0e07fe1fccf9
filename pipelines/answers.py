"""Answers to questions about one model, as values and as tables for a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from models import vectors
from models.family import EmbedsWords, Scores
from models.text import Sentences
from tasks.errors import InputError
from tasks.evaluation import nearest
from tasks.registry import OpenedModel, Version
from tasks.tokenize import tokenize_text

Ranking = list[tuple[str, float]]


def neighbours(opened: OpenedModel, words: Sequence[str], k: int) -> dict[str, Ranking]:
    """The nearest words of each word.

    Raises:
        InputError: the model has no word vectors, or none for one of the words.
    """
    _embeds(opened)
    found = nearest(opened.model, words, k=k)
    for word in words:
        if word not in found:
            raise _unknown(opened, word)
    return {word: list(ranking) for word, ranking in found.items()}


def analogy(
    opened: OpenedModel, question: tuple[str, str, str], k: int, method: vectors.Method
) -> Ranking:
    """The best answers to "a is to b as c is to ?".

    Raises:
        InputError: the model has no word vectors, or does not know one of the words.
    """
    model, vocabulary = _embeds(opened), opened.model.vocabulary
    ids = []
    for word in question:
        if word not in vocabulary:
            raise _unknown(opened, word)
        ids.append(vocabulary.words.index(word))
    units = vectors.unit(model.word_vectors(vocabulary.words))
    answers, scores = vectors.analogy(units, ids[0], ids[1], ids[2], k, method)
    return [(vocabulary.words[i], float(s)) for i, s in zip(answers, scores, strict=True)]


def similarity(opened: OpenedModel, first: str, second: str) -> float:
    """The cosine of two words.

    Raises:
        InputError: the model has no word vectors, or none for one of the words.
    """
    pair = _embeds(opened).word_vectors([first, second])
    for word, vector in zip((first, second), pair, strict=True):
        if not np.isfinite(vector).all():
            raise _unknown(opened, word)
    return float(vectors.similarity(pair[0], pair[1]))


def surprise(opened: OpenedModel, text: str) -> dict[str, Any]:
    """The perplexity of a text, and the log-probability of each of its words in nats.

    Raises:
        InputError: the model gives no probability of text, or the text has no words.
    """
    model = opened.model
    if not isinstance(model, Scores):
        raise InputError(
            "this model gives no probability of text",
            where=opened.reference,
            remedy="ask a language model, such as ngram or nplm",
        )
    lines = tokenize_text(opened.text.clean(text), opened.text.tokenize)
    if not lines:
        raise InputError("there are no words in this text", where="TEXT")
    vocabulary = model.vocabulary
    scores = model.log_prob(Sentences.of(vocabulary, lines))
    tokens = [token for line in lines for token in (*line, "</s>")]
    known = [token in vocabulary or token == "</s>" for token in tokens]
    return {
        "perplexity": math.exp(-float(scores.mean())),
        "scored": len(tokens),
        "unknown": known.count(False),
        "sentence_ends_counted": True,
        "vocabulary": vocabulary.hash,
        "words": [
            {"word": token, "log_prob": float(score), "known": is_known}
            for token, score, is_known in zip(tokens, scores, known, strict=True)
        ],
    }


def _embeds(opened: OpenedModel) -> EmbedsWords:
    if not isinstance(opened.model, EmbedsWords):
        raise InputError(
            "this model has no word vectors",
            where=opened.reference,
            remedy="ask a model of another family, such as word2vec",
        )
    return opened.model


def _unknown(opened: OpenedModel, word: str) -> InputError:
    remedy = "words are compared as they are written"
    for form in (word.lower(), word.capitalize(), word.upper()):
        if form in opened.model.vocabulary:
            remedy = f"it knows {form!r}"
    return InputError(f"the model does not know {word!r}", where=opened.reference, remedy=remedy)


# --- tables ---------------------------------------------------------------------------------


def neighbours_table(answer: Mapping[str, Ranking]) -> Table:
    """Neighbours, a column a word."""
    table = Table(box=None)
    for word in answer:
        table.add_column(word, style="none")
    depth = max((len(ranking) for ranking in answer.values()), default=0)
    for i in range(depth):
        cells = [r[i] if i < len(r) else None for r in answer.values()]
        table.add_row(*(f"{cell[0]} [dim]{cell[1]:.3f}[/]" if cell else "" for cell in cells))
    return table


def ranking_table(answer: Ranking) -> Table:
    """Words with their scores."""
    table = Table(box=None, show_header=False)
    for word, score in answer:
        table.add_row(word, f"[dim]{score:.3f}[/]")
    return table


def surprise_table(answer: Mapping[str, Any]) -> Table:
    """Log-probabilities, a row a word."""
    title = (
        f"perplexity {answer['perplexity']:,.1f} over {answer['scored']} tokens, sentence ends "
        f"counted, {answer['unknown']} unknown scored as <unk>"
    )
    table = Table(box=None, title=title, title_justify="left")
    table.add_column("word")
    table.add_column("log-probability", justify="right")
    for row in answer["words"]:
        table.add_row(row["word"], f"{row['log_prob']:.3f}" + ("" if row["known"] else " <unk>"))
    return table


def versions_table(versions: Sequence[Version]) -> Table:
    """Registered versions, a row each."""
    table = Table(box=None)
    for heading in ("name", "version", "alias", "family", "scores", "created"):
        table.add_column(heading)
    for version in versions:
        scores = ", ".join(f"{score.name} {score.shown}" for score in version.scores)
        created = time.strftime("%Y-%m-%d %H:%M", time.localtime(version.created))
        aliases = ", ".join(version.aliases)
        table.add_row(version.name, str(version.version), aliases, version.family, scores, created)
    return table


def version_table(version: Version) -> Table:
    """All that is known of a version."""
    table = Table(box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    facts: dict[str, object] = {
        "name": version.name,
        "version": version.version,
        "aliases": ", ".join(version.aliases),
        "family": version.family,
        "content": version.content,
        "created": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.created)),
        "MLflow run": version.run_id,
        "can": ", ".join(version.capabilities),
        "vocabulary": version.vocabulary,
        "files": version.location,
        **{score.name: score.line.partition(": ")[2] for score in version.scores},
        **{
            name: value
            for name, value in sorted(version.tags.items())
            if name.startswith("input.")
            or name in ("corpus", "git_commit", "flow_run_id", "recipe")
        },
    }
    for name, value in facts.items():
        table.add_row(name, str(value))
    return table
