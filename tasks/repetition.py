"""How much a text repeats itself, by its n-grams of words (Rae et al. 2021, appendix A.1.1).

Characters are those of words, without what stands between them. An n-gram repeats from its second
occurrence on; where repeated n-grams overlap, a character counts once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def repetition(
    words: Sequence[str], top: Sequence[int], repeated: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Shares of the characters of a text.

    Args:
        words: the text.
        top: sizes of n-grams, ascending.
        repeated: sizes of n-grams, ascending.

    Returns:
        for each size of ``top``, the share of the n-gram that covers most characters among the
        most frequent ones, 0 if none stands twice; for each size of ``repeated``, the share of all
        that repeat.
    """
    tops, shares = dict.fromkeys(top, 0.0), dict.fromkeys(repeated, 0.0)
    table: dict[str, int] = {}
    ids = np.array([table.setdefault(word, len(table)) for word in words], np.uint64)
    lengths = np.array([len(word) for word in words], np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    ids = _mixed(ids)
    keys = ids
    for n in range(2, min(max([*top, *repeated]), len(words)) + 1):
        keys = _mixed(keys[:-1] * _MULTIPLIER + ids[n - 1 :])
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        if len(first) == len(keys):
            break  # what does not repeat in a size repeats in no larger one
        if n in tops:
            most = first[counts == counts.max()]
            size = int((ends[most + n] - ends[most]).max())
            tops[n] = size * int(counts.max()) / int(ends[-1])
        if n in shares:
            again = np.ones(len(keys), np.bool_)
            again[first] = False
            shares[n] = float(lengths[_covered(again, n)].sum() / ends[-1])
    return list(tops.values()), list(shares.values())


def _covered(starts: NDArray[np.bool_], n: int) -> NDArray[np.bool_]:
    """(W,) the words of the n-grams that start where ``starts`` (W - n + 1,) says."""
    edges = np.zeros(len(starts) + n, np.int64)
    edges[:-n] += starts
    edges[n:] -= starts
    covered: NDArray[np.bool_] = np.cumsum(edges)[:-1] > 0
    return covered


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look random, a different one for each (the finalizer of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
