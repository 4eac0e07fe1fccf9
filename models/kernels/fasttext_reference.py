"""What ``fasttext`` does, in plain Python and numpy: slow, of any precision, for tests and readers.

Unlike the kernel it moves the rows after every group of pairs, as the authors' program does after
every pair, and takes their mean again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from models.kernels.fasttext import Tables
from models.kernels.huffman import Tree
from models.kernels.objectives_reference import hierarchical
from models.kernels.sampling import Noise
from models.kernels.sgns_reference import Table, random, take, thinned
from models.kernels.windows import Tally
from models.text import Sentences


def train_group(
    outputs: Table, words: list[int], noise: list[int], h: NDArray[np.floating], rate: float
) -> tuple[float, NDArray[np.floating]]:
    """Set a mean against words that are there and the noise words that they share.

    Args:
        outputs: (V, D), trained in place.
        words: each of them makes a pair with the mean.
        noise: those that stand beside each of the words; one that equals it is skipped.
        h: (D,) the mean.
        rate: the learning rate.

    Returns:
        The loss, summed over pairs, and the step that the mean should make.
    """
    rows = [*words, *noise]
    signs = np.array([-1.0] * len(words) + [1.0] * len(noise))
    weights = np.array([1.0] * len(words) + [sum(w != other for w in words) for other in noise])
    z = signs * (outputs[rows] @ h)
    steps, change = -rate * weights * signs / (1 + np.exp(-z)), np.zeros_like(h)
    for row, step in zip(rows, steps, strict=True):
        change += step * outputs[row]
        outputs[row] += step * h
    return float((weights * np.logaddexp(0, z)).sum()), change


def sweep(
    inputs: Table,
    outputs: Table,
    tables: Tables,
    text: Sentences,
    *,
    window: int,
    cbow: bool,
    negatives: int,
    shared: int,
    seed: int,
    rates: tuple[float, float],
) -> Tally:
    """``fasttext.sweep`` with one thread, over tables of any precision."""
    keep_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64).tolist()
    sentences = thinned(text, tables.keep, keep_seed)
    kept, position, examples, losses = sum(map(len, sentences)), 0, 0, []
    bags = [
        tables.rows[a:b].tolist()
        for a, b in zip(tables.starts[:-1], tables.starts[1:], strict=True)
    ]
    for words in sentences:
        for i, centre in enumerate(words):
            draw = random(draw_seed, position)
            radius = 1 + (draw >> 32) * window // 2**32
            context = words[max(0, i - radius) : i] + words[i + 1 : i + 1 + radius]
            bag = [row for word in context for row in bags[word]] if cbow else bags[centre]
            targets, size = ([centre], 1) if cbow else (context, shared)
            size = 1 if isinstance(tables.decisions, Tree) else size
            rate = rates[0] + (rates[1] - rates[0]) * position / kept
            for group in range(-(-len(targets) // size)):
                those = targets[group * size : (group + 1) * size]
                h = inputs[bag].mean(axis=0)
                match tables.decisions:
                    case Tree() as tree:
                        loss, change = hierarchical(tree)(outputs, those[0], h, draw, rate)
                    case Noise() as distribution:
                        drawn = range(1 + group * negatives, 1 + (group + 1) * negatives)
                        noise = [take(distribution, random(draw, k)) for k in drawn]
                        loss, change = train_group(outputs, those, noise, h, rate)
                np.add.at(inputs, bag, change)
                losses.append(loss)
            examples += len(targets)
            position += 1
    return Tally(kept, examples, math.fsum(losses))
