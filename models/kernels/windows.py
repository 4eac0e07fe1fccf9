"""What every kernel that learns from windows over sentences shares.

What a position draws (kept or not, window, noise) is a pure function of the seed and the position,
so any number of threads trains on the same examples. Lock-free threads (Niu et al. 2011,
"Hogwild!") differ in the order of updates only; one thread gives the same bytes every time.

Numba's cache compares the time of the file that holds the compiled function, not of this one: after
a change here, touch the kernels that use it.

Shapes: ``V`` vocabulary, ``P`` padded width, ``N`` tokens, ``M`` tokens kept, ``S`` sentences.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from models.kernels.lanes import LANES, compiled
from models.kernels.sampling import Chances
from models.text import Sentences

Matrix = NDArray[np.float32]
Pooling = Literal["none", "sum", "mean", "corrected-mean"]
"""What the hidden vector is: each context word alone (skip-gram), or the sum or mean of all. The
mean's gradient goes to each word in full, as in the authors' program, or divided by their number,
as it should be (Irsoy et al. 2021, arXiv:2012.15332)."""

# --- random numbers as a function of seed and position --------------------------------------

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@compiled
def random_at(seed: Any, i: Any) -> Any:
    """The ``i``-th number of the generator splitmix64 (Steele et al. 2014) with a seed."""
    x = seed + np.uint64(i) * GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def below(random: Any, n: Any) -> Any:
    """The upper half of a random number as a whole number below n."""
    return np.int64(((random >> HALF) * np.uint64(n)) >> HALF)


# --- the loops over a text ------------------------------------------------------------------


@compiled
def _thin(ids: Any, starts: Any, keep: Any, seed: Any, kept: Any, lengths: Any) -> Any:
    """Drop unknown words, thin out frequent ones, leave out sentences of less than two words."""
    m, sentences = 0, 0
    for sentence in range(len(starts) - 1):
        first = m
        for i in range(starts[sentence], starts[sentence + 1]):
            word = ids[i]
            if word >= 0:
                kept[m] = word
                m += int((random_at(seed, i) & LOW) <= np.uint64(keep[word]))
        if m - first > 1:
            lengths[sentences] = m - first
            sentences += 1
        else:
            m = first
    return m, sentences


@dataclass(frozen=True, eq=False)
class Tally:
    """What a sweep did: words kept, pairs of words trained on, their summed loss in nats."""

    kept: int
    examples: int
    loss: float


def aligned(matrix: Matrix) -> Matrix:
    """(V, P) a copy whose rows begin on cache lines and are filled up with zeros."""
    rows, width = matrix.shape
    padded = -(-width // LANES) * LANES
    memory = np.zeros(rows * padded + LANES, np.float32)
    skip = -memory.ctypes.data % 64 // 4
    table = memory[skip : skip + rows * padded].reshape(rows, padded)
    table[:, :width] = matrix
    return table


class Train(Protocol):
    """Trains on the words ``low <= i < high`` as centres: examples and their summed loss."""

    def __call__(
        self,
        kept: NDArray[np.int32],
        bounds: NDArray[np.int64],
        sentence: int,
        low: int,
        high: int,
        seed: np.uint64,
    ) -> tuple[int, float]:
        """Train, in place.

        Args:
            kept: (M,) the words of the text that are left.
            bounds: (S + 1,) where its sentences begin and end.
            sentence: the one that ``low`` stands in.
            low: the first centre.
            high: one past the last.
            seed: of what the positions draw.
        """
        ...


def over_windows(text: Sentences, keep: Chances, train: Train, *, seed: int, threads: int) -> Tally:
    """Thin out a text and train on all that is left, each thread on its share of the words.

    Args:
        text: ids below V; negative ones are unknown words.
        keep: (V,) the chances of the words to be kept.
        train: the kernel.
        seed: seeds everything random.
        threads: at work at once.
    """
    keep_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    with ThreadPoolExecutor(threads) as pool:

        def thin(first: int, last: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
            starts = text.starts[first : last + 1]
            kept = np.empty(starts[-1] - starts[0] + 1, np.int32)
            lengths = np.empty(last - first, np.int64)
            m, n = _thin(text.ids, starts, keep, keep_seed, kept, lengths)
            return kept[:m], lengths[:n]

        quantiles = np.linspace(0, len(text.ids), threads + 1)[1:-1]
        cuts = [0, *np.searchsorted(text.starts[:-1], quantiles).tolist(), len(text)]
        thinned = list(pool.map(thin, cuts[:-1], cuts[1:]))
        kept = np.concatenate([words for words, _ in thinned])
        bounds = np.cumsum(np.concatenate([np.zeros(1, np.int64), *(n for _, n in thinned)]))

        def share(low: int, high: int) -> tuple[int, float]:
            sentence = int(np.searchsorted(bounds, low, side="right")) - 1
            return train(kept, bounds, sentence, low, high, draw_seed)

        ends = np.linspace(0, len(kept), threads + 1).astype(np.int64).tolist()
        tallies = list(pool.map(share, ends[:-1], ends[1:]))
    return Tally(len(kept), sum(n for n, _ in tallies), math.fsum(loss for _, loss in tallies))


def flags(pooling: Pooling) -> tuple[bool, bool, bool]:
    """Pooled at all, by the mean, with its gradient divided too: what the loops look at."""
    return pooling != "none", pooling in ("mean", "corrected-mean"), pooling == "corrected-mean"
