"""Perplexity on words whose context was seen in training, and on those whose context was not.

What a neural model adds to counts is what it makes of contexts that were never counted (Bengio et
al. 2003, section 1). So the words of a text are parted by whether the ``n - 1`` words before them
stand anywhere in the training text, and each model is scored on both parts: a Kneser-Ney model of
order ``n`` backs off on the second.

Contexts are told apart under the models' vocabulary; at the start of a sentence they are padded
with ``<s>``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.capabilities import Scores
from models.examples import Examples
from models.family import Progress
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary
from tasks.errors import InputError
from tasks.evaluation.perplexity import LARGEST, chunks

AT_ONCE = 1 << 16
"""Words that are scored, or looked up, at a time."""


@dataclass(frozen=True)
class Part:
    """One model on the words of one kind.

    Attributes:
        model: its name.
        seen: whether their contexts stand in the training text.
        tokens: how many words and sentence ends.
        impossible: how many of them have the probability 0.
        nll: their summed negative log-probability, in nats.
    """

    model: str
    seen: bool
    tokens: int
    impossible: int
    nll: float

    @property
    def perplexity(self) -> float | None:
        """None without words, or where one of them has the probability 0."""
        if not self.tokens or self.impossible:
            return None
        return math.exp(min(self.nll / self.tokens, LARGEST))

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        nll = self.nll if math.isfinite(self.nll) else None
        return {**asdict(self), "nll": nll, "perplexity": self.perplexity}


def by_context(
    models: Mapping[str, Scores],
    vocabulary: Vocabulary,
    train: Tokens,
    text: Tokens,
    order: int,
    progress: Progress = lambda done, total, unit: None,
) -> tuple[Part, ...]:
    """Score models on the words with seen and with unseen contexts.

    Args:
        models: by name, all under one vocabulary.
        vocabulary: of all of them.
        train: the text that they learnt from.
        text: what is scored.
        order: n of the n-grams; contexts have ``order - 1`` words.
        progress: told about tokens.

    Returns:
        for each model its part with seen and its part with unseen contexts.

    Raises:
        InputError: the models have different vocabularies, or no reserved ``<s>`` and ``</s>``.
        ValueError: ``order`` is below 2.
    """
    if order < 2:
        raise ValueError("a context needs an order of 2 at least")
    _check(models, vocabulary)
    seen = Contexts.of(train, vocabulary, order - 1)
    sums = {(name, kind): [0, 0, 0.0] for name in models for kind in (True, False)}
    done = 0
    for part in text.partitions:
        for chunk, _ in chunks(part.under(vocabulary), AT_ONCE):
            known = seen.has(chunk)
            for name, model in models.items():
                scores = np.asarray(model.log_prob(chunk), np.float64)
                for kind in (True, False):
                    mine, entry = scores[known == kind], sums[name, kind]
                    entry[0] += len(mine)
                    entry[1] += int(np.isneginf(mine).sum())
                    entry[2] -= float(mine.sum())
            done += len(chunk.ids)
            progress(done, text.n_tokens, "tokens")
    return tuple(
        Part(name, kind, int(n), int(impossible), float(nll))
        for (name, kind), (n, impossible, nll) in sums.items()
    )


def _check(models: Mapping[str, Scores], vocabulary: Vocabulary) -> None:
    for name, model in models.items():
        theirs = getattr(model, "vocabulary", vocabulary)
        if theirs.hash != vocabulary.hash:
            raise InputError(
                "its vocabulary is another, so its words and contexts are others",
                where=name,
                remedy="compare models that were trained under one vocabulary",
            )


@dataclass(frozen=True, eq=False)
class Contexts:
    """All contexts of a text.

    Attributes:
        rows: sorted, each the bytes of its words.
        width: words of a context.
    """

    rows: NDArray[np.void]
    width: int

    @staticmethod
    def of(text: Tokens, vocabulary: Vocabulary, width: int) -> Contexts:
        """The different contexts of a training text."""
        rows = np.zeros(0, dtype=_row(width))
        for part in text.partitions:
            for chunk, _ in chunks(part.under(vocabulary), 16 * AT_ONCE):
                rows = np.unique(np.concatenate([rows, _contexts(chunk, width)]))
        return Contexts(rows, width)

    def has(self, text: Sentences) -> NDArray[np.bool_]:
        """(N + S,) whether the context of each word and each sentence end is among them."""
        asked = _contexts(text, self.width)
        if not len(self.rows):
            return np.zeros(len(asked), np.bool_)
        places = np.searchsorted(self.rows, asked).clip(max=len(self.rows) - 1)
        found: NDArray[np.bool_] = self.rows[places] == asked
        return found


def _row(width: int) -> np.dtype[np.void]:
    return np.dtype((np.void, 4 * width))


def _contexts(text: Sentences, width: int) -> NDArray[np.void]:
    """(N + S,) the context of each word and each sentence end."""
    examples = Examples.over(text, width)
    contexts, _ = examples.at(np.arange(len(examples)))
    rows: NDArray[np.void] = np.ascontiguousarray(contexts, dtype=">i4").view(_row(width))[:, 0]
    return rows
