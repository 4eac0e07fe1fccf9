"""Text drawn from a language model, a word at a time, left to right.

The distribution of the next word is narrowed in this order: ``<unk>`` is left out unless it is
wanted; log-probabilities are divided by the temperature (0 takes the likeliest word); of the rest
only the ``top_k`` likeliest words are kept (Fan, Lewis & Dauphin 2018, "Hierarchical neural story
generation"), and of these the fewest that together hold ``top_p`` of the probability (Holtzman et
al. 2020, "The curious case of neural text degeneration"). What is left is scaled to sum to 1. Of
equally likely words, the one with the lower id comes first. ``<s>`` is never drawn, since no model
predicts it.

Text ``i`` is drawn by a generator of its own, seeded with ``(seed, i)``, one number a word: it is
the same whatever other texts are made beside it.

Shapes: ``S`` texts, ``V`` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.capabilities import Predicts
from models.text import Sentences
from models.vocabulary import LM_RESERVED

TEXT_END = LM_RESERVED.index("</s>")
TEXTS_AT_ONCE = 64
"""Texts that grow side by side; it bounds the memory to 64 V numbers, and shapes no text."""


@dataclass(frozen=True)
class Sampling:
    """How the next word is drawn.

    Attributes:
        temperature: below 1 likely words become likelier; 0 takes the likeliest, always.
        top_k: draw among so many words; None for all.
        top_p: draw among the likeliest words that hold this share of the probability.
        unknown: whether ``<unk>`` may be drawn.

    Raises:
        ValueError: a figure that means nothing.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    unknown: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"the temperature is a number from 0 on, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top-k is 1 or more words, not {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top-p is a share above 0 and up to 1, not {self.top_p}")


@dataclass(frozen=True, eq=False)
class Generated:
    """How one text goes on.

    Attributes:
        ids: (T,) int32 the words after the beginning, without ``</s>``.
        ended: whether ``</s>`` was drawn after them; else the length ended it.
        log_prob: nats of all that was drawn, ``</s>`` included, under the model as it is.
    """

    ids: NDArray[np.int32]
    ended: bool
    log_prob: float


def narrowed(log_probs: NDArray[np.float64], how: Sampling, unknown: int) -> NDArray[np.float64]:
    """(S, V) nats of a model -> (S, V) the probabilities that are drawn by; rows sum to 1.

    Args:
        log_probs: of the next word.
        how: to draw.
        unknown: the id of ``<unk>``, -1 where there is none.

    Raises:
        ValueError: a row leaves nothing to draw: nothing but ``<unk>`` is possible.
    """
    log_probs = np.array(log_probs, dtype=np.float64)
    if np.isnan(log_probs).any():
        raise ValueError("the model gives a log-probability that is not a number: train it again")
    if unknown >= 0 and not how.unknown:
        log_probs[:, unknown] = -np.inf
    highest = log_probs.max(axis=1, keepdims=True)
    if not np.isfinite(highest).all():
        raise ValueError("the model holds nothing but <unk> for possible here; allow it")
    if how.temperature == 0:
        best = np.zeros_like(log_probs)
        best[np.arange(len(best)), log_probs.argmax(axis=1)] = 1.0
        return best
    with np.errstate(over="ignore"):  # close to a temperature of 0 only the likeliest are left
        weights = np.exp((log_probs - highest) / how.temperature)
    if how.top_k is not None or how.top_p < 1:
        _keep_likeliest(weights, how)
    probabilities: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def _keep_likeliest(weights: NDArray[np.float64], how: Sampling) -> None:
    """Set to 0, in place, what top-k and top-p leave out."""
    k = min(how.top_k or weights.shape[1], weights.shape[1])
    ranked = np.sort(np.partition(weights, -k, axis=1)[:, -k:], axis=1)[:, ::-1]
    counts = np.full(len(ranked), k)
    if how.top_p < 1:
        sums = np.cumsum(ranked, axis=1)
        counts = (sums - ranked < how.top_p * sums[:, -1:]).sum(axis=1)
    least = ranked[np.arange(len(ranked)), counts - 1][:, None]
    above, equal = weights > least, weights == least
    spare = counts - above.sum(axis=1)
    above |= equal & (np.cumsum(equal, axis=1) <= spare[:, None])
    weights[~above] = 0.0


def drawn(probabilities: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int32]:
    """(S,) ids, a row by a number of its own in [0, 1); never one of probability 0."""
    sums = np.cumsum(probabilities, axis=1)
    found = (sums <= (uniform * sums[:, -1])[:, None]).sum(axis=1)
    # Rounding may carry a number just below 1 beyond the last word that is possible.
    last = probabilities.shape[1] - 1 - (probabilities[:, ::-1] > 0).argmax(axis=1)
    ids: NDArray[np.int32] = np.minimum(found, last).astype(np.int32)
    return ids


def generate(
    model: Predicts, prefixes: Sentences, *, unknown: int, how: Sampling, length: int, seed: int
) -> list[Generated]:
    """How every prefix goes on, until ``</s>`` or for so many words.

    Args:
        model: that predicts.
        prefixes: beginnings of sentences under its vocabulary; they may be empty.
        unknown: the id of ``<unk>`` in its vocabulary, -1 where there is none.
        how: to draw.
        length: words that a text grows by, at most.
        seed: of all texts; 0 or more.

    Raises:
        ValueError: no length or seed, or the model leaves nothing to draw.
    """
    if length < 1:
        raise ValueError(f"the length is 1 or more words, not {length}")
    if seed < 0:
        raise ValueError(f"the seed is 0 or more, not {seed}")
    found: list[Generated] = []
    for first in range(0, len(prefixes), TEXTS_AT_ONCE):
        numbers = range(first, min(first + TEXTS_AT_ONCE, len(prefixes)))
        found += _together(model, _between(prefixes, numbers), unknown, how, length, seed, numbers)
    return found


def _between(sentences: Sentences, numbers: range) -> Sentences:
    every = np.arange(len(numbers) + 1, dtype=np.int64)
    return sentences.stretch(numbers.start, numbers.stop, every)


def _together(
    model: Predicts,
    prefixes: Sentences,
    unknown: int,
    how: Sampling,
    length: int,
    seed: int,
    numbers: Sequence[int],
) -> list[Generated]:
    """The texts of these numbers, side by side."""
    draws = [np.random.default_rng([seed, number]) for number in numbers]
    rows = np.arange(len(numbers))
    words = np.full((len(numbers), length), TEXT_END, np.int32)
    nats = np.zeros(len(numbers))
    going = np.ones(len(numbers), dtype=np.bool_)
    decoder = model.decoder(prefixes)
    for step in range(length):
        log_probs = decoder.log_probs()
        chosen = np.full(len(numbers), TEXT_END, np.int32)
        uniform = np.array([draw.random() for draw, on in zip(draws, going, strict=True) if on])
        chosen[going] = drawn(narrowed(log_probs[going], how, unknown), uniform)
        nats[going] += log_probs[rows[going], chosen[going]]
        words[:, step] = chosen
        going &= chosen != TEXT_END
        if not going.any():
            break
        # What has ended is carried along; nobody asks what would follow.
        decoder.append(chosen)
    sizes = np.where(going, length, (words == TEXT_END).argmax(axis=1))
    return [
        Generated(words[row, :size], not going[row], float(nats[row]))
        for row, size in enumerate(sizes.tolist())
    ]
