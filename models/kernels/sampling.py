"""The tables by which static vectors thin out frequent words and draw noise words.

They hold chances as 32-bit integers: a word is taken if a random one is at most its entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Chances = NDArray[np.uint32]
SURE = 2**32 - 1


def keep_chances(counts: NDArray[np.int64], sample: float) -> Chances:
    """The chance of each word to be kept, by the formula of the authors' word2vec program.

    With ``f`` the share of the word among all tokens it is ``sqrt(sample / f) + sample / f``. (The
    paper's equation 5, ``sqrt(sample / f)``, is not what its figures were made with.)

    Args:
        counts: (V,) how often each word stands in the training text.
        sample: the threshold; 0 keeps every word.

    Returns:
        (V,) chances.
    """
    if sample == 0:
        return np.full(len(counts), SURE, np.uint32)
    ratio = sample * counts.sum() / counts
    return _chances(np.sqrt(ratio) + ratio)


@dataclass(frozen=True, eq=False)
class Noise:
    """A distribution over ``V`` words to draw from in two look-ups (Walker 1977, Vose 1991).

    A draw takes a word ``i`` at random, then ``i`` itself with its chance, or else ``other[i]``.

    Attributes:
        chance: (V,) chances.
        other: (V,) int32 words.
    """

    chance: Chances
    other: NDArray[np.int32]

    @staticmethod
    def of(weights: NDArray[np.float64]) -> Noise:
        """The distribution in proportion to (V,) positive weights."""
        scaled = weights * (len(weights) / weights.sum())
        share = scaled.tolist()
        other = list(range(len(share)))
        small = np.flatnonzero(scaled < 1).tolist()
        large = np.flatnonzero(scaled >= 1).tolist()
        while small and large:
            lacking, giving = small.pop(), large[-1]
            other[lacking] = giving
            share[giving] -= 1 - share[lacking]
            if share[giving] < 1:
                small.append(large.pop())
        for i in small + large:  # what is left is 1 but for rounding
            share[i] = 1.0
        return Noise(_chances(np.array(share)), np.array(other, np.int32))


def _chances(probability: NDArray[np.float64]) -> Chances:
    chances: Chances = np.clip(np.rint(probability * 2**32) - 1, 0, SURE).astype(np.uint32)
    return chances
