"""What ``sgns`` does, in plain Python and numpy: slow, of any precision, for tests and readers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from models.kernels.sampling import Chances, Noise
from models.kernels.sgns import Tables
from models.kernels.windows import Tally
from models.text import Sentences

Table = NDArray[np.floating]
WORD = 2**64


def random(seed: int, i: int) -> int:
    """The ``i``-th number of the generator splitmix64 with a seed."""
    x = (seed + i * 0x9E3779B97F4A7C15) % WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def train_window(
    inputs: Table, outputs: Table, contexts: list[int], targets: list[int], rate: float
) -> float:
    """Train on one window, in place, and give its summed loss.

    Args:
        inputs: (V, D).
        outputs: (V, D).
        contexts: n words; a word may be there twice.
        targets: the centre word, then the noise words; one that equals the centre is skipped.
        rate: the learning rate.
    """
    old, gradient = outputs[targets], np.zeros_like(outputs[targets])
    logits = inputs[contexts] @ old.T  # (n, R)
    signs = np.array([-1.0] + [1.0] * (len(targets) - 1))
    mask = np.array([1.0] + [float(noise != targets[0]) for noise in targets[1:]])
    weights = -rate * signs * mask / (1 + np.exp(-signs * logits))
    for context, weight in zip(contexts, weights, strict=True):
        gradient += np.outer(weight, inputs[context])
        inputs[context] += weight @ old
    np.add.at(outputs, targets, gradient)
    return float((mask * np.logaddexp(0, signs * logits)).sum())


def thinned(text: Sentences, keep: Chances, seed: int) -> list[list[int]]:
    """The words that are kept of each sentence, of which at least two are left."""
    sentences = []
    for start, stop in zip(text.starts[:-1], text.starts[1:], strict=True):
        chosen = [
            int(text.ids[i])
            for i in range(start, stop)
            if text.ids[i] >= 0 and random(seed, i) % 2**32 <= keep[text.ids[i]]
        ]
        if len(chosen) > 1:
            sentences.append(chosen)
    return sentences


def sweep(
    tables: Tables,
    text: Sentences,
    *,
    window: int,
    negatives: int,
    seed: int,
    rates: tuple[float, float],
) -> Tally:
    """``sgns.sweep`` with one thread."""
    keep_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64).tolist()
    sentences = thinned(text, tables.keep, keep_seed)
    kept, position, examples, losses = sum(map(len, sentences)), 0, 0, []
    for words in sentences:
        for i, centre in enumerate(words):
            draw = random(draw_seed, position)
            radius = 1 + (draw >> 32) * window // 2**32
            contexts = words[max(0, i - radius) : i] + words[i + 1 : i + 1 + radius]
            noise = [take(tables.noise, random(draw, k)) for k in range(1, 1 + negatives)]
            rate = rates[0] + (rates[1] - rates[0]) * position / kept
            targets = [centre, *noise]
            losses.append(train_window(tables.inputs, tables.outputs, contexts, targets, rate))
            examples += len(contexts)
            position += 1
    return Tally(kept, examples, math.fsum(losses))


def take(noise: Noise, draw: int) -> int:
    """The noise word that a random number stands for."""
    word = (draw >> 32) * len(noise.chance) // 2**32
    return word if draw % 2**32 <= noise.chance[word] else int(noise.other[word])
