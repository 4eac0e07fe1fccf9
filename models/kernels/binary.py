"""The inner loop of objectives made of decisions; ``objectives_reference`` says the same plainly.

Each centre word of a window stands for ``R`` rows of the output table, each with a label:

* negative sampling: itself (yes) and ``K`` noise words (no), as in ``sgns``;
* noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012, arXiv:1206.6426): the
  same, but a decision's logit is ``s(w) - log(K q(w))``, where ``q`` is the noise distribution, so
  that ``exp s(w)`` learns to be a probability. ``s`` is the product of the vectors plus a fixed
  bias, the log of the word's share of the text;
* hierarchical softmax: the inner nodes on its path in Huffman's tree (``huffman``).

These are set against the hidden vector: one context word after the other (skip-gram), or the sum or
mean of them all (CBOW). Noise words are drawn for the window, or anew for every pair of it, as the
original program draws them. ``sgns`` does skip-gram with negative sampling faster, because it sets
all words of a window against the same rows at once; what a window draws is the same in both.

Shapes: ``V`` vocabulary, ``P`` padded width, ``M`` tokens kept, ``S`` sentences, ``R`` targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.huffman import Tree
from models.kernels.lanes import LANES, Matrix, compiled, fetch
from models.kernels.replicas import Replica, Shared, place
from models.kernels.rows import gather, logistic, products, push, scatter
from models.kernels.sampling import Chances, Noise
from models.kernels.windows import (
    LOW,
    Pooling,
    Tally,
    Train,
    below,
    flags,
    over_windows,
    random_at,
)
from models.text import Sentences


@dataclass(frozen=True, eq=False)
class Sampled:
    """The decisions between a word and ``K`` noise words.

    Attributes:
        noise: the distribution of noise words.
        negatives: K.
        offsets: (V,) what is added to the logit of a word.
        skips: whether a noise word that is the centre word takes no part.
        shared: whether the pairs of a window have one draw; else each has its own.
    """

    noise: Noise
    negatives: int
    offsets: NDArray[np.float64]
    skips: bool
    shared: bool = True

    @staticmethod
    def negative_sampling(
        weights: NDArray[np.float64], negatives: int, *, shared: bool = True
    ) -> Sampled:
        """Noise in proportion to (V,) weights."""
        nothing = np.zeros(len(weights))
        return Sampled(Noise.of(weights), negatives, nothing, skips=True, shared=shared)

    @staticmethod
    def nce(
        weights: NDArray[np.float64],
        negatives: int,
        counts: NDArray[np.int64],
        *,
        shared: bool = True,
    ) -> Sampled:
        """The same with its correction; counts (V,) give the biases."""
        bias = np.log(counts / counts.sum())
        correction = np.log(negatives * weights / weights.sum())
        offsets = bias - correction
        return Sampled(Noise.of(weights), negatives, offsets, skips=False, shared=shared)


Decisions = Sampled | Tree


@dataclass(frozen=True, eq=False)
class Tables:
    """What a sweep works on.

    Attributes:
        inputs: (V, P) ``aligned`` table of the word vectors.
        outputs: (V, P) the same of the words as targets, or (V - 1, P) of the inner nodes.
        keep: (V,) the chances of the words to be kept.
        decisions: what stands for a centre word.
    """

    inputs: Matrix
    outputs: Matrix
    keep: Chances
    decisions: Decisions


@compiled
def _draw(
    outputs: Any, word: Any, random: Any, noise: Any, own: Any, places: Any, signs: Any, adds: Any
) -> Any:
    """Lay out the decisions between a word and its noise words, and fetch their rows."""
    chance, other, offsets, negatives, skips, _ = noise
    width = outputs.shape[1]
    for k in range(1 + negatives):
        target = np.int64(word)
        if k:
            draw = random_at(random, k)
            target = below(draw, len(chance))
            if (draw & LOW) > np.uint64(chance[target]):
                target = np.int64(other[target])
        places[k], adds[k] = place(target, width, own), offsets[target]
        signs[k] = -1 if k == 0 else int(not (skips and target == word))
        fetch(outputs, places[k])
    return 1 + negatives


@compiled
def walk(outputs: Any, word: Any, tree: Any, own: Any, places: Any, signs: Any) -> Any:
    """Lay out the decisions on the path of a word, and fetch their rows."""
    starts, nodes, turns = tree
    n = starts[word + 1] - starts[word]
    for k in range(n):
        places[k] = place(nodes[starts[word] + k], outputs.shape[1], own)
        signs[k] = turns[starts[word] + k]
        fetch(outputs, places[k])
    for k in range(n, (n + LANES - 1) // LANES * LANES):
        signs[k] = 0
    return n


@compiled
def _train(
    inputs: Any,
    outputs: Any,
    kept: Any,
    bounds: Any,
    sentence: Any,
    low: Any,
    high: Any,
    window: Any,
    pooling: Any,
    noise: Any,
    tree: Any,
    rows: Any,
    seed: Any,
    rate: Any,
    last_rate: Any,
    own: Any,
) -> Any:
    """Train on the centres ``low <= i < high``: the number of examples and their summed loss.

    ``noise`` is (chance, other, offsets, negatives, skips, shared) and ``tree`` (starts, nodes,
    signs); the tree counts if it has words. ``rows`` is the most that R can be.
    """
    width = inputs.shape[1]
    pooled, mean, corrected = pooling
    lanes = (rows + LANES - 1) // LANES * LANES
    # Two of each: one at work, one laid out for the next centre while its rows are on their way.
    places, signs = np.zeros((2, lanes), np.int64), np.zeros((2, lanes), np.float32)
    offsets = np.zeros((2, lanes), np.float32)
    n_targets, radii = np.zeros(2, np.int64), np.zeros(2, np.int64)
    logits, steps = np.zeros(lanes, np.float32), np.zeros(lanes, np.float32)
    contexts = np.empty(2 * window, np.int64)
    hidden, change = np.empty(width, np.float32), np.empty(width, np.float32)
    one, examples, loss = np.float32(1), 0, 0.0
    for i in range(low - 1, high):
        now, ahead = i & 1, (i + 1) & 1
        if i + 1 < high:
            random, word = random_at(seed, i + 1), kept[i + 1]
            radii[ahead] = 1 + below(random, window)
            if len(tree[0]):
                n_targets[ahead] = walk(outputs, word, tree, own[1], places[ahead], signs[ahead])
            else:
                n_targets[ahead] = _draw(
                    outputs,
                    word,
                    random,
                    noise,
                    own[1],
                    places[ahead],
                    signs[ahead],
                    offsets[ahead],
                )
            if i + 1 + window < len(kept):
                fetch(inputs, place(kept[i + 1 + window], width, own[0]))
        if i < low:
            continue
        while bounds[sentence + 1] <= i:
            sentence += 1
        n, radius = 0, radii[now]
        for j in range(
            max(bounds[sentence], i - radius), min(bounds[sentence + 1], i + radius + 1)
        ):
            if j != i:
                contexts[n] = place(kept[j], width, own[0])
                n += 1
        falling = np.float32(rate + (last_rate - rate) * ((i - low) / (high - low)))
        at, sign, add, r = places[now], signs[now], offsets[now], n_targets[now]
        size = n if pooled else 1
        share = np.float32(1 / n) if mean else one
        back = share if corrected else one
        for first in range(0, n, size):
            if first and not noise[5]:
                fresh = random_at(random_at(seed, i), noise[3] + first)
                _draw(outputs, kept[i], fresh, noise, own[1], at, sign, add)
            gather(inputs, contexts, first, first + size, share, hidden)
            products(outputs, at, r, hidden, logits)
            loss += logistic(logits, sign, add, r, falling, steps)
            push(outputs, at, r, hidden, steps, change)
            scatter(inputs, contexts, first, first + size, back, change)
            examples += 1
    return examples, loss


def sweep(
    tables: Tables,
    text: Sentences,
    *,
    window: int,
    pooling: Pooling,
    seed: int,
    rates: tuple[float, float],
    threads: int,
) -> Tally:
    """Train on a text, in place.

    Args:
        tables: what is trained.
        text: ids below V; negative ones are unknown words.
        window: words on each side, at most.
        pooling: what the hidden vector is.
        seed: seeds everything random.
        rates: the learning rate at the start and at the end.
        threads: at work at once.

    Returns:
        The tally; an example is a pair of words, or with CBOW a word with all its context.
    """
    words = np.zeros(0, np.int32)
    noise = np.zeros(0, np.uint32), words, np.zeros(0), 0, False, True
    tree = np.zeros(0, np.int64), words, np.zeros(0, np.float32)
    match tables.decisions:
        case Tree() as found:
            tree, rows = (found.starts, found.nodes, found.signs), found.depth
            outputs = Shared.last(tables.outputs)
        case Sampled(distribution, negatives, offsets, skips, shared):
            noise = distribution.chance, distribution.other, offsets, negatives, skips, shared
            rows = 1 + negatives
            outputs = Shared.first(tables.outputs)
    trained = Shared.first(tables.inputs), outputs
    if pooling == "none" and not isinstance(tables.decisions, Tree):
        trained = trained[0].alone(), trained[1].alone()  # as in ``sgns``

    def begin(replicas: Sequence[Replica]) -> Train:
        own = tuple(replica.own for replica in replicas)

        def train(
            kept: NDArray[np.int32],
            bounds: NDArray[np.int64],
            sentence: int,
            low: int,
            high: int,
            seed: np.uint64,
            rates: tuple[float, float],
        ) -> tuple[int, float]:
            tally: tuple[int, float] = _train(
                tables.inputs, tables.outputs, kept, bounds, sentence, low, high,
                window, flags(pooling), noise, tree, rows, seed, *rates, own,
            )  # fmt: skip
            return tally

        return train

    return over_windows(text, tables.keep, begin, trained, seed=seed, rates=rates, threads=threads)
