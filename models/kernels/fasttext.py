"""The inner loop of fastText; ``fasttext_reference`` says the same plainly.

The word in the middle of a window is the mean of its rows, its own and those of its n-grams. They
are summed once; the mean is moved by one pair of words after the other, and in the end all rows
move by what it has moved by. The authors' program sums and moves the rows once a pair, to the same
effect: whatever it adds to each of the rows, it has added to their mean.

Against the mean stand the words of the window, a few at a time with ``K`` noise words that they
share (after Ji et al. 2016, arXiv:1604.04661), each of which counts as often as there are words
beside it. Such a group is one small product (``groups``). The rows of the next word are fetched
meanwhile.

In CBOW the mean is that of all rows of the window's words, and the group is the word in the middle
with its noise. Hierarchical softmax has the nodes of a path in place of a group.

What the positions draw and what threads may change: see ``windows``.

Shapes: ``V`` vocabulary, ``B`` buckets, ``P`` padded width, ``M`` tokens kept, ``S`` sentences,
``R`` targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.kernels.binary import walk
from models.kernels.groups import train_group
from models.kernels.huffman import Tree
from models.kernels.lanes import LANES, Matrix, compiled, fetch
from models.kernels.replicas import Replica, Shared, place
from models.kernels.rows import gather, logistic, products, push, scatter
from models.kernels.sampling import Chances, Noise
from models.kernels.windows import LOW, Tally, Train, below, over_windows, random_at
from models.text import Sentences

# --- the loops ------------------------------------------------------------------------------


@compiled
def _draw(
    outputs: Any, random: Any, first: Any, noise: Any, own: Any, places: Any, start: Any, k: Any
) -> Any:
    """Draw the noise words ``first`` to ``first + k`` of a position, and fetch their rows."""
    chance, other = noise
    for at in range(k):
        draw = random_at(random, first + at)
        word = below(draw, len(chance))
        if (draw & LOW) > np.uint64(chance[word]):
            word = np.int64(other[word])
        places[start + at] = place(word, outputs.shape[1], own)
        fetch(outputs, places[start + at])


@compiled
def _train_sampled(
    outputs: Any,
    groups: Any,
    weights: Any,
    steps: Any,
    hidden: Any,
    moved: Any,
    rate: Any,
    words: Any,
    n: Any,
    likely: Any,
    noise: Any,
) -> Any:
    """Train the mean on n words, a group of ``likely`` after the other: their summed loss.

    ``words`` are the places of their rows; each row of ``groups`` has its noise already.
    """
    shared, loss = len(likely), 0.0
    for first in range(0, n, shared):
        size, places = min(shared, n - first), groups[first // shared]
        for k in range(shared):
            # A place that is not taken is that of a row that is there, with a weight of nothing.
            places[k] = words[first + min(k, size - 1)]
            weights[k] = np.float32(k < size)
        for k in range(shared, shared + len(noise)):
            beside = 0
            for word in range(size):
                beside += int(places[word] != places[k])
            weights[k] = np.float32(beside)
        loss += train_group(outputs, places, weights, steps, hidden, moved, rate, likely, noise)
    return loss


@compiled
def _train_paths(
    outputs: Any,
    tree: Any,
    own: Any,
    places: Any,
    signs: Any,
    steps: Any,
    hidden: Any,
    moved: Any,
    change: Any,
    rate: Any,
    words: Any,
    n: Any,
) -> Any:
    """Train the mean on the paths of n words, one after the other: their summed loss."""
    nothing, logits, loss = np.zeros_like(steps), np.zeros_like(steps), 0.0
    for j in range(n):
        r = walk(outputs, words[j] // outputs.shape[1], tree, own, places, signs)
        products(outputs, places, r, hidden, logits)
        loss += logistic(logits, signs, nothing, r, rate, steps)
        push(outputs, places, r, hidden, steps, change)
        for column in range(len(hidden)):
            hidden[column] += change[column]
            moved[column] += change[column]
    return loss


@compiled
def _look(
    kept: Any,
    i: Any,
    first: Any,
    last: Any,
    cbow: Any,
    width: Any,
    rows: Any,
    own: Any,
    bag: Any,
    words: Any,
) -> Any:
    """Lay out the window ``first <= j < last`` of centre i: sizes of its bag and of its words."""
    starts, places = rows
    n, m = 0, 0
    for j in range(first, last):
        if (j == i) != cbow:
            for at in range(starts[kept[j]], starts[kept[j] + 1]):
                bag[m] = places[at]
                m += 1
        else:
            words[n] = place(kept[j], width, own)
            n += 1
    return m, n


@compiled
def _train(
    inputs: Any,
    outputs: Any,
    rows: Any,
    kept: Any,
    bounds: Any,
    sentence: Any,
    low: Any,
    high: Any,
    window: Any,
    cbow: Any,
    noise: Any,
    tree: Any,
    sizes: Any,
    seed: Any,
    rate: Any,
    last_rate: Any,
    likely: Any,
    negatives: Any,
    own: Any,
) -> Any:
    """Train on the centres ``low <= i < high``: the number of examples and their summed loss.

    ``rows`` is (starts, places), ``noise`` (chance, other) and ``tree`` (starts, nodes, signs); the
    tree counts if it has words. ``sizes`` are the most that a bag and a path can hold.
    """
    width, shared, paths = inputs.shape[1], len(likely), len(tree[0]) > 0
    own_words = (0, 0, 0) if paths else own  # with paths the copies are of nodes
    lanes = (max(sizes[1], shared + len(negatives)) + LANES - 1) // LANES * LANES
    # Two of each: one at work, one laid out for the next centre while its rows are on their way.
    groups = np.zeros((2, (2 * window + shared - 1) // shared, lanes), np.int64)
    bags, words = np.empty((2, sizes[0]), np.int64), np.empty((2, 2 * window), np.int64)
    n_rows, n_words = np.zeros(2, np.int64), np.zeros(2, np.int64)
    weights, steps = np.zeros(lanes, np.float32), np.zeros(lanes, np.float32)
    hidden, moved = np.zeros(width, np.float32), np.zeros(width, np.float32)
    change = np.zeros(width, np.float32)
    one, examples, loss = np.float32(1), 0, 0.0
    for i in range(low - 1, high):
        now, ahead = i & 1, (i + 1) & 1
        if i + 1 < high:
            while bounds[sentence + 1] <= i + 1:
                sentence += 1
            random = random_at(seed, i + 1)
            radius = 1 + below(random, window)
            first = max(bounds[sentence], i + 1 - radius)
            last = min(bounds[sentence + 1], i + 2 + radius)
            n_rows[ahead], n_words[ahead] = _look(
                kept, i + 1, first, last, cbow, width, rows, own_words, bags[ahead], words[ahead]
            )
            if not cbow:
                for k in range(n_rows[ahead]):
                    fetch(inputs, bags[ahead, k])
            if i + 1 + window < len(kept):
                coming = kept[i + 1 + window]
                fetch(outputs, place(coming, width, own_words))
                if cbow:
                    for k in range(rows[0][coming], rows[0][coming + 1]):
                        fetch(inputs, rows[1][k])
            if not paths:
                for group in range((n_words[ahead] + shared - 1) // shared):
                    _draw(
                        outputs,
                        random,
                        1 + group * len(negatives),
                        noise,
                        own,
                        groups[ahead, group],
                        shared,
                        len(negatives),
                    )
        if i < low:
            continue
        falling = np.float32(rate + (last_rate - rate) * ((i - low) / (high - low)))
        m, n = n_rows[now], n_words[now]
        gather(inputs, bags[now], 0, m, np.float32(1 / m), hidden)
        moved[:] = 0
        if paths:
            loss += _train_paths(
                outputs,
                tree,
                own,
                groups[now, 0],
                weights,
                steps,
                hidden,
                moved,
                change,
                falling,
                words[now],
                n,
            )
        else:
            loss += _train_sampled(
                outputs,
                groups[now],
                weights,
                steps,
                hidden,
                moved,
                falling,
                words[now],
                n,
                likely,
                negatives,
            )
        scatter(inputs, bags[now], 0, m, one, moved)
        examples += n
    return examples, loss


# --- one sweep ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tables:
    """What a sweep works on.

    Attributes:
        inputs: (V + B, P) ``aligned`` table of the rows of words and of n-grams.
        outputs: (V, P) the same of the words as targets, or (V - 1, P) of the inner nodes.
        starts: (V + 1,) where the rows of each word begin among ``rows``.
        rows: int64 rows of ``inputs``, each word's own among them.
        keep: (V,) the chances of the words to be kept.
        decisions: the distribution of noise words, or the tree.
    """

    inputs: Matrix
    outputs: Matrix
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    keep: Chances
    decisions: Noise | Tree


def sweep(
    tables: Tables,
    text: Sentences,
    *,
    window: int,
    cbow: bool,
    negatives: int,
    shared: int,
    seed: int,
    rates: tuple[float, float],
    threads: int,
) -> Tally:
    """Train on a text, in place.

    Args:
        tables: what is trained.
        text: ids below V; negative ones are unknown words.
        window: words on each side, at most.
        cbow: the words of a window predict the one in the middle, not the other way round.
        negatives: K.
        shared: how many words of a window share noise words; in CBOW there is but one.
        seed: seeds everything random.
        rates: the learning rate at the start and at the end.
        threads: at work at once.

    Returns:
        The tally; an example is a pair of words, or with CBOW a word with all its context.
    """
    chance, words = np.zeros(0, np.uint32), np.zeros(0, np.int32)
    noise, depth = (chance, words), 0
    tree = np.zeros(0, np.int64), words, np.zeros(0, np.float32)
    match tables.decisions:
        case Tree() as found:
            outputs = Shared.last(tables.outputs)
            tree, depth = (found.starts, found.nodes, found.signs), found.depth
        case Noise(chance, other):
            # Copies of words' and n-grams' rows made the loss on held-out text 1.5 % higher.
            outputs = Shared.first(tables.outputs).alone()
            noise = chance, other
    most = int(np.diff(tables.starts).max(initial=0))
    sizes = most * (2 * window if cbow else 1), depth
    likely, unlikely = (0,) * (1 if cbow else shared), (0,) * negatives

    rows = tables.starts, tables.rows * tables.inputs.shape[1]

    def begin(replicas: Sequence[Replica]) -> Train:
        (nodes,) = replicas

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
                tables.inputs, tables.outputs, rows, kept, bounds, sentence, low, high,
                window, cbow, noise, tree, sizes, seed, *rates, likely, unlikely, nodes.own,
            )  # fmt: skip
            return tally

        return train

    return over_windows(
        text,
        tables.keep,
        begin,
        (outputs,),
        seed=seed,
        rates=rates,
        threads=threads,
    )
