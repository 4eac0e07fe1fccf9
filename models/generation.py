"""Text drawn from a language model, a word at a time.

Plain sampling is the method of C. E. Shannon, *A mathematical theory of communication* (1948,
section 3). Three ways to stay with what is likely, applied in this order: a temperature, which
divides log-probabilities; the k likeliest words (A. Fan, M. Lewis, Y. Dauphin 2018); and the
nucleus, the fewest likeliest words that together reach the probability p (A. Holtzman et al. 2020).

Every text has a random sequence of its own, so it does not depend on how many are drawn at once.

Shapes: ``S`` texts, ``V`` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.family import Decoder
from models.text import Sentences
from models.vocabulary import Vocabulary

LogProbs = NDArray[np.float64]


class Generates(Protocol):
    """What texts are drawn from: see ``models.family.Predicts``."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its words, ``<s>`` and ``</s>`` among the reserved entries."""
        ...

    def decoder(self, prefixes: Sentences) -> Decoder:
        """Texts that go on from these."""
        ...


@dataclass(frozen=True)
class Sampling:
    """How the next word is chosen.

    Attributes:
        temperature: divides log-probabilities; 0 takes the likeliest word.
        top_k: only so many likeliest words; None for all.
        top_p: only the fewest likeliest words that reach this probability; 1 for all.
        unknown: ``<unk>`` may be drawn.
        seed: of the random numbers.

    Raises:
        ValueError: a number that means nothing.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    unknown: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"the temperature must be 0 or above, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top-k must be at least 1, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top-p must be above 0 and at most 1, not {self.top_p}")
        if self.seed < 0:
            raise ValueError(f"the seed must be 0 or above, not {self.seed}")


def normalized(log_probs: LogProbs) -> LogProbs:
    """(S, V) moved by a constant in each row, so that its probabilities sum to 1.

    Raises:
        ValueError: in some row nothing is possible.
    """
    highest = log_probs.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        raise ValueError("the model holds no word for possible after one of these texts")
    moved = log_probs - highest
    result: LogProbs = moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
    return result


def without(log_probs: LogProbs, ids: Sequence[int]) -> LogProbs:
    """(S, V) nats where some entries have become impossible."""
    result = log_probs.copy()
    result[:, list(ids)] = -np.inf
    return normalized(result)


def tempered(log_probs: LogProbs, temperature: float) -> LogProbs:
    """(S, V) nats divided by a temperature; 0 leaves the likeliest word, of equals the first."""
    if temperature == 0:
        result = np.full_like(log_probs, -np.inf)
        result[np.arange(len(result)), log_probs.argmax(axis=1)] = 0.0
        return result
    # What is divided is at most 0: a tiny temperature must not make an infinity of the likeliest.
    with np.errstate(over="ignore"):
        return normalized((log_probs - log_probs.max(axis=1, keepdims=True)) / temperature)


def top_k(log_probs: LogProbs, k: int) -> LogProbs:
    """(S, V) nats of the k likeliest words alone, of equals those with the lower id."""
    order = np.argsort(-log_probs, axis=1, kind="stable")
    result = log_probs.copy()
    np.put_along_axis(result, order[:, k:], -np.inf, axis=1)
    return normalized(result)


def top_p(log_probs: LogProbs, p: float) -> LogProbs:
    """(S, V) nats of the fewest likeliest words whose probabilities sum to p or more."""
    order = np.argsort(-log_probs, axis=1, kind="stable")
    ranked = np.exp(np.take_along_axis(log_probs, order, axis=1))
    before = np.cumsum(ranked, axis=1) - ranked
    # A hair of rounding must not let in a word behind an exact sum.
    ranked_log_probs = np.where(
        before < p - 1e-12, np.take_along_axis(log_probs, order, axis=1), -np.inf
    )
    result = np.empty_like(log_probs)
    np.put_along_axis(result, order, ranked_log_probs, axis=1)
    return normalized(result)


def adjusted(log_probs: LogProbs, sampling: Sampling, never: Sequence[int]) -> LogProbs:
    """(S, V) nats from which the next word is drawn."""
    result = tempered(without(log_probs, never), sampling.temperature)
    if sampling.top_k is not None:
        result = top_k(result, sampling.top_k)
    return top_p(result, sampling.top_p) if sampling.top_p < 1 else result


def draw(log_probs: LogProbs, uniform: NDArray[np.float64]) -> NDArray[np.int32]:
    """(S,) a word of each row, by the inverse of its cumulative probabilities.

    Args:
        log_probs: (S, V) nats.
        uniform: (S,) numbers from 0 to below 1.
    """
    cumulative = np.cumsum(np.exp(log_probs), axis=1)
    # The last sum may be a hair off 1; a number below it always falls on a possible word.
    places = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(axis=1)
    words: NDArray[np.int32] = places.astype(np.int32)
    return words


def generate(
    model: Generates,
    prefix: NDArray[np.int32],
    *,
    count: int,
    length: int,
    sampling: Sampling,
    batch: int = 64,
) -> Iterator[NDArray[np.int32]]:
    """Texts that go on from a beginning, until they end or are long enough.

    Args:
        model: what they are drawn from.
        prefix: (n,) ids of the beginning, which may be empty; not among what is given.
        count: so many texts.
        length: words of each at most, the prefix and the sentence end not counted.
        sampling: how words are chosen.
        batch: texts that grow together; it changes nothing else.

    Yields:
        (<= length + 1,) ids of a text, ``</s>`` at its end if it came to one.

    Raises:
        ValueError: a count or a length below 1; nothing is possible after a text.
    """
    if count < 1:
        raise ValueError(f"the number of texts must be at least 1, not {count}")
    if length < 1:
        raise ValueError(f"the length must be at least 1, not {length}")
    for first in range(0, count, batch):
        numbers = range(first, min(first + batch, count))
        yield from _grown(model, prefix, numbers, length, sampling)


def _grown(
    model: Generates,
    prefix: NDArray[np.int32],
    numbers: range,
    length: int,
    sampling: Sampling,
) -> list[NDArray[np.int32]]:
    """The texts of these numbers."""
    n, vocabulary = len(numbers), model.vocabulary
    end = vocabulary.reserved.index("</s>")
    never = [vocabulary.reserved.index("<s>")]
    if not sampling.unknown and vocabulary.unknown >= 0:
        never.append(vocabulary.unknown)
    decoder = model.decoder(
        Sentences(np.tile(prefix, n), np.arange(n + 1) * len(prefix), np.arange(n + 1))
    )
    uniform = np.stack(
        [np.random.default_rng([sampling.seed, i]).random(length + 1) for i in numbers]
    )
    words = np.full((n, length + 1), end, np.int32)
    running = np.ones(n, bool)
    for place in range(length + 1):
        drawn = draw(adjusted(decoder.log_probs(), sampling, never), uniform[:, place])
        # A text that has ended goes on unseen, so that the others stay where they are.
        words[running, place] = drawn[running]
        running &= drawn != end
        if not running.any():
            break
        # After an end nothing is defined: what ended goes on with any word.
        decoder.append(np.where(running, drawn, len(vocabulary) - 1).astype(np.int32))
    return [_until_end(row, end, length) for row in words]


def _until_end(row: NDArray[np.int32], end: int, length: int) -> NDArray[np.int32]:
    ends = np.flatnonzero(row == end)
    return row[: ends[0] + 1] if len(ends) else row[:length]
