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
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from models.kernels.lanes import compiled
from models.kernels.replicas import Replica, Shared
from models.kernels.sampling import Chances
from models.text import Sentences

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
        rates: tuple[float, float],
    ) -> tuple[int, float]:
        """Train, in place.

        Args:
            kept: (M,) the words of the text that are left.
            bounds: (S + 1,) where its sentences begin and end.
            sentence: the one that ``low`` stands in.
            low: the first centre.
            high: one past the last.
            seed: of what the positions draw.
            rates: the learning rate at the start and at the end.
        """
        ...


Begin = Callable[[Sequence[Replica]], Train]
"""Gives what a thread runs, by its copies of the busy rows of each table."""

BLOCK = 2048
"""Centres that a thread takes at a time, after which it brings its busy rows together. With 1,024
CBOW was a tenth slower; with 4,096 hierarchical softmax answered fewer of the analogies."""
LEAST, TURNS = 64, 32  # of a short text a thread takes less, down to so many, for so many turns
LONG = 1 << 16
"""Centres of a text from which on threads have copies of busy rows. Of a shorter one a thread that
is held up would add what the others have long learnt to most of its rows: with four threads on two
processors the loss of CBOW over 600 words was 6 % higher in some sweeps."""


def over_windows(
    text: Sentences,
    keep: Chances,
    begin: Begin,
    shared: Sequence[Shared],
    *,
    seed: int,
    rates: tuple[float, float],
    threads: int,
) -> Tally:
    """Thin out a text and train on all that is left.

    Args:
        text: ids below V; negative ones are unknown words.
        keep: (V,) the chances of the words to be kept.
        begin: the kernel.
        shared: the tables that it trains.
        seed: seeds everything random.
        rates: the learning rate at the start and at the end.
        threads: at work at once.
    """
    keep_seed, draw_seed = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    with ThreadPoolExecutor(threads) as pool:
        kept, bounds = _thinned(pool, text, keep, keep_seed, threads)
        # Block after block, so that no thread waits for one that other programs hold up. One thread
        # takes all at once, and shares its tables with none.
        size = min(BLOCK, max(LEAST, len(kept) // (TURNS * threads)))
        n = max(threads, -(-len(kept) // size)) if threads > 1 else 1
        ends = np.linspace(0, len(kept), n + 1).astype(np.int64)
        sentences = (np.searchsorted(bounds, ends[:-1], side="right") - 1).tolist()
        falling = pairwise(np.linspace(*rates, n + 1).tolist())
        blocks = iter(list(zip(sentences, pairwise(ends.tolist()), falling, strict=True)))
        lock = threading.Lock()

        copies = threads > 1 and len(kept) >= LONG

        def work(_: int) -> tuple[int, float]:
            replicas = [Replica(each if copies else each.alone()) for each in shared]
            train, examples, losses = begin(replicas), 0, list[float]()
            for sentence, (low, high), both in blocks:
                some, loss = train(kept, bounds, sentence, low, high, draw_seed, both)
                examples += some
                losses.append(loss)
                with lock:
                    for replica in replicas:
                        replica.join()
            return examples, math.fsum(losses)

        tallies = list(pool.map(work, range(threads)))
    return Tally(len(kept), sum(n for n, _ in tallies), math.fsum(loss for _, loss in tallies))


def _thinned(
    pool: Executor, text: Sentences, keep: Chances, seed: np.uint64, parts: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The words of a text that are left, and where its sentences begin and end among them."""

    def thin(first: int, last: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        starts = text.starts[first : last + 1]
        kept = np.empty(starts[-1] - starts[0] + 1, np.int32)
        lengths = np.empty(last - first, np.int64)
        m, n = _thin(text.ids, starts, keep, seed, kept, lengths)
        return kept[:m], lengths[:n]

    quantiles = np.linspace(0, len(text.ids), parts + 1)[1:-1]
    cuts = [0, *np.searchsorted(text.starts[:-1], quantiles).tolist(), len(text)]
    thinned = list(pool.map(thin, cuts[:-1], cuts[1:]))
    lengths = [np.zeros(1, np.int64), *(lengths for _, lengths in thinned)]
    return np.concatenate([words for words, _ in thinned]), np.cumsum(np.concatenate(lengths))


def flags(pooling: Pooling) -> tuple[bool, bool, bool]:
    """Pooled at all, by the mean, with its gradient divided too: what the loops look at."""
    return pooling != "none", pooling in ("mean", "corrected-mean"), pooling == "corrected-mean"
