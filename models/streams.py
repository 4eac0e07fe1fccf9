"""Text cut into sequences for recurrent models: streams that carry on, or windows that do not.

A text of ``L`` examples (its words and the ends of its sentences, in order) becomes ``S`` streams
of about equal length, read side by side ``T`` steps at a time: where a batch ends in a stream the
next one goes on, so a state can be carried over, and the gradient is cut there (truncated
back-propagation; Williams and Peng 1990). Ranks share out the streams, never a stream, so the text
that a state has seen does not depend on their number.

Batches may vary in length around ``T`` (Merity, Keskar and Socher 2017), so that a stream is not
cut at the same words in every epoch. They are as many as if they did not: lengths are drawn as in
the paper, and then stretched to the length of the text.

Windows of ``T`` examples begin every ``stride`` examples and know nothing of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.text import Tokens

NONE = -1
"""Where a stream has no example any more."""
HALVED, SPREAD = 0.05, 5 / 70
"""The share of batches around half of the length, and the standard deviation, also around the half,
as a share of the whole length: 5 steps of 70, as published."""


@dataclass(frozen=True)
class Streams:
    """How a text lies in streams.

    Attributes:
        length: examples of the text.
        streams: of all ranks together; some are empty if there are fewer examples.
        steps: of a batch; of batches that vary, about.
        seed: draws the lengths of batches; None: they do not vary.
    """

    length: int
    streams: int
    steps: int
    seed: tuple[int, ...] | None = None

    @staticmethod
    def of(text: Tokens, streams: int, steps: int, seed: tuple[int, ...] | None = None) -> Streams:
        """The streams of a text, its sentence ends among the examples."""
        return Streams(text.n_tokens + text.n_sentences, streams, steps, seed)

    @property
    def longest(self) -> int:
        """Examples of the longest stream."""
        return -(-self.length // self.streams)

    def __len__(self) -> int:
        """Batches until the longest stream has ended."""
        return -(-self.longest // self.steps)

    @cached_property
    def cuts(self) -> NDArray[np.int64]:
        """(N + 1,) where batches begin in a stream, and where the last one ends."""
        n = len(self)
        if self.seed is None or n == 0:
            # The last batch is as long as what is left: steps may be far more than the text has.
            return np.minimum(np.arange(n + 1) * self.steps, self.longest)
        random = np.random.default_rng(list(self.seed))
        around = np.where(random.random(n) < HALVED, 0.5, 1.0)
        ends = np.cumsum(np.maximum(random.normal(around, SPREAD), SPREAD))
        # A step for each, and what is left by the lengths that were drawn.
        shares = np.rint(ends / ends[-1] * (self.longest - n)).astype(np.int64)
        return np.insert(np.arange(1, n + 1) + shares, 0, 0)

    def at(self, batch: int, rank: int, world: int) -> NDArray[np.int64]:
        """(T, B) the examples of a batch in the streams of a rank, ``NONE`` where they ended."""
        first, last = (self.streams * r // world for r in (rank, rank + 1))
        borders = self.length * np.arange(first, last + 1, dtype=np.int64) // self.streams
        steps = np.arange(self.cuts[batch], self.cuts[batch + 1], dtype=np.int64)
        index = borders[:-1] + steps[:, None]
        return np.where(index < borders[1:], index, NONE)


@dataclass(frozen=True)
class Windows:
    """How a text lies in windows that overlap.

    Attributes:
        length: examples of the text.
        steps: of a window.
        stride: from the begin of one window to that of the next.
    """

    length: int
    steps: int
    stride: int

    def __len__(self) -> int:
        """Windows that have an example behind them, the last one to be predicted."""
        return max(0, -(-(self.length - self.steps) // self.stride))

    def at(self, windows: NDArray[np.int64]) -> NDArray[np.int64]:
        """(T, B) the examples that are predicted in windows by their number."""
        return windows * self.stride + np.arange(1, self.steps + 1, dtype=np.int64)[:, None]
