"""Kernels of the exchange algorithm: words move between classes, one after the other.

Terms are those of ``models.kernels.clustering``, integers, so a move that gains is a gain, and the
algorithm ends.

Shapes: ``V`` words, ``K`` classes.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from models.kernels.clustering import Counts, term


@njit(cache=True, nogil=True)
def exchange(
    classes: NDArray[np.int32],
    before: Counts,
    after: Counts,
    forth: NDArray[np.int32],
    bounds: tuple[int, int],
    f: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Move one word after the other to the class that makes the text most likely, in place.

    The model is ``p(class | class before) p(word | class)`` (Martin, Liermann & Ney 1998).

    Args:
        classes: (V,) of every word; those below ``fixed`` stay.
        before: what stands before each word, and
        after: what stands behind it.
        forth: (K, K) zeros, integers that hold all counts.
        bounds: how many of the first words, each a class of its own, stay; and how often to go
            through the words, at most.
        f: of ``terms``.

    Returns:
        (rounds,) how many words moved in each; the last may be 0.
    """
    (fixed, rounds), n_classes = bounds, forth.shape[1]
    starts, others, counts = after
    begins, firsts, numbers = before
    lefts, rights = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    sizes = np.zeros(n_classes, np.int64)
    for word in range(len(classes)):
        sizes[classes[word]] += 1
        for at in range(starts[word], starts[word + 1]):
            forth[classes[word], classes[others[at]]] += counts[at]
            lefts[classes[word]] += counts[at]
            rights[classes[others[at]]] += counts[at]
    back = forth.T.copy()
    behind, ahead = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    gains = np.empty(n_classes, np.int64)
    moved = np.zeros(rounds, np.int64)
    for done in range(rounds):
        for word in range(fixed, len(classes)):
            old = classes[word]
            behind[:], ahead[:], gains[:] = 0, 0, 0
            itself, left, right = 0, 0, 0
            for at in range(starts[word], starts[word + 1]):
                left += counts[at]
                if others[at] == word:
                    itself = counts[at]
                else:
                    behind[classes[others[at]]] += counts[at]
            for at in range(begins[word], begins[word + 1]):
                right += numbers[at]
                if firsts[at] != word:
                    ahead[classes[firsts[at]]] += numbers[at]
            _put(forth, back, old, behind, ahead, -1)
            forth[old, old] -= itself
            back[old, old] -= itself
            lefts[old] -= left
            rights[old] -= right
            for other in range(n_classes):
                if behind[other] > 0:
                    _gain(gains, back[other], rights[other], behind[other], fixed, f)
                if ahead[other] > 0:
                    _gain(gains, forth[other], lefts[other], ahead[other], fixed, f)
            best = old
            for new in range(fixed, n_classes):
                x = np.int64(forth[new, new])
                if behind[new] + ahead[new] + itself > 0:
                    # Bigrams within the class: both sides and itself meet in one cell.
                    gains[new] += term(x + behind[new] + ahead[new] + itself, f) + term(x, f)
                    gains[new] -= term(x + behind[new], f) + term(x + ahead[new], f)
                gains[new] -= term(lefts[new] + left, f) - term(lefts[new], f)
                gains[new] -= term(rights[new] + right, f) - term(rights[new], f)
            if sizes[old] > 1:
                for new in range(fixed, n_classes):
                    if gains[new] > gains[best]:
                        best = new
            _put(forth, back, best, behind, ahead, 1)
            forth[best, best] += itself
            back[best, best] += itself
            lefts[best] += left
            rights[best] += right
            if best != old:
                classes[word] = best
                sizes[old] -= 1
                sizes[best] += 1
                moved[done] += 1
        if moved[done] == 0:
            return moved[: done + 1]
    return moved


@njit(cache=True, nogil=True)
def _put(
    forth: NDArray[np.int32],
    back: NDArray[np.int32],
    place: int,
    behind: NDArray[np.int64],
    ahead: NDArray[np.int64],
    sign: int,
) -> None:
    """Add the bigrams of a word to those of a class, or take them away."""
    for other in range(len(behind)):
        if behind[other] > 0:
            forth[place, other] += sign * behind[other]
            back[other, place] += sign * behind[other]
        if ahead[other] > 0:
            forth[other, place] += sign * ahead[other]
            back[place, other] += sign * ahead[other]


@njit(cache=True, nogil=True)
def _gain(
    gains: NDArray[np.int64],
    cells: NDArray[np.int32],
    total: int,
    n: int,
    fixed: int,
    f: NDArray[np.int64],
) -> None:
    """Add to every class what n more bigrams with a given class are worth to it.

    Args:
        gains: (K,) of every class.
        cells: (K,) its bigrams with the given class,
        total: and at least as many as all of them together.
        n: how many more.
        fixed: the first classes are left out.
        f: of ``terms``.
    """
    if total + n < len(f):
        # All terms are listed. This loop is nearly all the work; unsigned numbers, which cannot
        # count from the end of an array, make it four times as fast (measured).
        for new in range(fixed, len(cells)):
            x = np.uint32(cells[new])
            gains[new] += f[x + np.uint32(n)] - f[x]
    else:
        for new in range(fixed, len(cells)):
            many = np.int64(cells[new])
            gains[new] += term(many + n, f) - term(many, f)


@njit(cache=True, nogil=True)
def exchange_predictive(
    classes: NDArray[np.int32],
    before: Counts,
    forth: NDArray[np.int32],
    bounds: tuple[int, int],
    f: NDArray[np.int64],
) -> NDArray[np.int64]:
    """As ``exchange``, for ``p(class | word before) p(word | class)`` (Uszkoreit & Brants 2008).

    ``forth`` is (V, K).
    """
    (fixed, rounds), n_classes = bounds, forth.shape[1]
    begins, firsts, numbers = before
    rights, sizes = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    lefts = np.zeros(len(classes), np.int64)
    for word in range(len(classes)):
        sizes[classes[word]] += 1
        for at in range(begins[word], begins[word + 1]):
            forth[firsts[at], classes[word]] += numbers[at]
            lefts[firsts[at]] += numbers[at]
            rights[classes[word]] += numbers[at]
    gains = np.empty(n_classes, np.int64)
    moved = np.zeros(rounds, np.int64)
    for done in range(rounds):
        for word in range(fixed, len(classes)):
            old = classes[word]
            if sizes[old] == 1:
                continue
            gains[:] = 0
            right = 0
            for at in range(begins[word], begins[word + 1]):
                right += numbers[at]
                forth[firsts[at], old] -= numbers[at]
                _gain(gains, forth[firsts[at]], lefts[firsts[at]], numbers[at], fixed, f)
            rights[old] -= right
            for new in range(fixed, n_classes):
                gains[new] -= term(rights[new] + right, f) - term(rights[new], f)
            best = old
            for new in range(fixed, n_classes):
                if gains[new] > gains[best]:
                    best = new
            for at in range(begins[word], begins[word + 1]):
                forth[firsts[at], best] += numbers[at]
            rights[best] += right
            if best != old:
                classes[word] = best
                sizes[old] -= 1
                sizes[best] += 1
                moved[done] += 1
        if moved[done] == 0:
            return moved[: done + 1]
    return moved
