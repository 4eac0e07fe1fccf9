"""Kernels of word clustering by agglomeration (Brown et al. 1992), and what exchange shares.

Both compare sums of ``x log2 x`` over counts. Here a term is an integer, the logarithm in units of
2^-20 bits: integers add up to the same whatever the order, so a table that is kept up to date term
by term equals one made anew, equal choices are equal, and an exchange that gains is a gain.

With ``f(x) = x log2 x`` and ``h(x, y) = f(x + y) - f(x) - f(y)``, N the counts of class bigrams, L
the sums of its rows and R those of its columns, classes share the average mutual information
``(sum f(N) - sum f(L) - sum f(R)) / total + log2 total``.

``h`` is 0 where x or y is. So what a merge does to the loss of all other merges is told by the few
classes that stand beside the smaller of the two, not by all, which is where this is faster than
the O(V C^2) of Liang (2005), "Semi-supervised learning for natural language".

Shapes: ``V`` items (words, or classes of them), ``K`` classes or slots for them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

SCALE = 1 << 20
LISTED = 1 << 22
"""So many terms are looked up, what is beyond is computed."""

Counts = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]
"""What stands on one side of every item: (V + 1,) starts, then the items there and how often."""


def terms(total: int) -> NDArray[np.int64]:
    """``f`` of 0, 1, ... in units of 1 / ``SCALE`` bits, for counts that add up to ``total``."""
    x = np.arange(min(total + 1, LISTED), dtype=np.float64)
    return np.rint(x * np.log2(np.maximum(x, 1)) * SCALE).astype(np.int64)


@njit(cache=True, nogil=True, inline="always")
def term(x: int, f: NDArray[np.int64]) -> int:
    """``f(x)``."""
    return int(f[x] if x < len(f) else np.rint(x * np.log2(x) * SCALE))


@njit(cache=True, nogil=True, inline="always")
def shared(x: int, y: int, f: NDArray[np.int64]) -> int:
    """``h(x, y)``, what two counts gain by being one."""
    return term(x + y, f) - term(x, f) - term(y, f) if x > 0 and y > 0 else 0


# --- agglomeration --------------------------------------------------------------------------

NEVER = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def agglomerate(
    before: Counts, after: Counts, n_fixed: int, width: int, f: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Merge items, two at a time, so that the least mutual information is lost.

    Items come in their order into a window of ``width`` classes; with one more, the two whose
    merge loses least are merged, and after the last item all that are left. Of equal pairs the one
    in the first slots is taken; the merged class stays in the first of both slots, and the next
    item comes into the one that is free.

    Args:
        before: what stands before each item, and
        after: what stands behind it, both with sides swapped equal.
        n_fixed: the first items are contexts of the others and are not merged.
        width: classes in the window, the fixed ones not counted.
        f: of ``terms``.

    Returns:
        (V - n_fixed - 1, 2) an item of each of the classes that are merged, by the order of merges:
        that of the class which stays, then that of the other.
    """
    n_items = len(before[0]) - 1
    n_slots = n_fixed + min(width + 1, n_items - n_fixed)
    forth, back = np.zeros((n_slots, n_slots), np.int64), np.zeros((n_slots, n_slots), np.int64)
    sums = np.zeros((n_slots, 3), np.int64)  # left, right, and whether there is a class
    losses = np.full((n_slots, n_slots), NEVER)
    heads, slots = np.arange(n_items), np.full(n_items, -1)
    owners = np.full(n_slots, -1)
    merges = np.empty((max(0, n_items - n_fixed - 1), 2), np.int32)
    done, active, free = 0, 0, 0
    for item in range(n_items):
        owners[free], slots[item] = item, free
        _count(item, free, before, after, (heads, slots), (forth, back, sums))
        _insert(free, n_fixed, (forth, back, sums), losses, f)
        free += 1
        if item >= n_fixed:
            active += 1
        if active > width:
            first, second = _cheapest(losses, n_fixed)
            _merge(first, second, n_fixed, (forth, back, sums), losses, f)
            merges[done] = owners[first], owners[second]
            heads[owners[second]] = owners[first]
            free, active, done = second, active - 1, done + 1
    while active > 1:
        first, second = _cheapest(losses, n_fixed)
        _merge(first, second, n_fixed, (forth, back, sums), losses, f)
        merges[done] = owners[first], owners[second]
        active, done = active - 1, done + 1
    return merges


Tables = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@njit(cache=True, nogil=True)
def _head(item: int, heads: NDArray[np.int64]) -> int:
    """The item that stands for the class of an item."""
    root = item
    while heads[root] != root:
        root = heads[root]
    while heads[item] != root:
        heads[item], item = root, heads[item]
    return root


@njit(cache=True, nogil=True)
def _count(
    item: int,
    slot: int,
    before: Counts,
    after: Counts,
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    tables: Tables,
) -> None:
    """Enter the bigrams of a new item with the classes that are there already, and its sums."""
    (heads, slots), (forth, back, sums) = places, tables
    sums[slot, 2] = 1
    starts, others, counts = after
    for at in range(starts[item], starts[item + 1]):
        other = slots[_head(others[at], heads)]
        if other >= 0:
            forth[slot, other] += counts[at]
            back[other, slot] += counts[at]
            sums[slot, 0] += counts[at]
            sums[other, 1] += counts[at]
    starts, others, counts = before
    for at in range(starts[item], starts[item + 1]):
        other = slots[_head(others[at], heads)]
        if other >= 0 and others[at] != item:
            forth[other, slot] += counts[at]
            back[slot, other] += counts[at]
            sums[other, 0] += counts[at]
            sums[slot, 1] += counts[at]


@njit(cache=True, nogil=True)
def _own_loss(i: int, j: int, tables: Tables, f: NDArray[np.int64]) -> int:
    """The part of the loss of merging i and j that depends on themselves only."""
    forth, _, sums = tables
    w, x, y, z = forth[i, i], forth[i, j], forth[j, i], forth[j, j]
    loss = term(w, f) + term(x, f) + term(y, f) + term(z, f) - term(w + x + y + z, f)
    loss += shared(sums[i, 0], sums[j, 0], f) + shared(sums[i, 1], sums[j, 1], f)
    return int(loss)


@njit(cache=True, nogil=True)
def _insert(
    slot: int, n_fixed: int, tables: Tables, losses: NDArray[np.int64], f: NDArray[np.int64]
) -> None:
    """Bring the losses up to date with a new class.

    The loss of merging i and j is their own part less ``h(N_ig, N_jg) + h(N_gi, N_gj)`` summed over
    all other classes g.
    """
    forth, back, sums = tables
    n_slots = len(losses)
    near = np.empty(n_slots, np.int64)
    for side in (forth, back):
        # The new class is a g for the others.
        n = 0
        for i in range(n_slots):
            if side[slot, i] > 0 and i != slot and i >= n_fixed:
                near[n] = i
                n += 1
        for p in range(n):
            for q in range(p):
                both = shared(side[slot, near[p]], side[slot, near[q]], f)
                losses[near[p], near[q]] -= both
                losses[near[q], near[p]] -= both
    # The sums of the classes beside it have grown.
    for column, grown in ((0, back[slot]), (1, forth[slot])):
        for i in range(n_fixed, n_slots):
            if grown[i] > 0 and i != slot:
                for j in range(n_fixed, n_slots):
                    if sums[j, 2] == 0 or j in (i, slot) or (grown[j] > 0 and j < i):
                        continue
                    x, y = sums[i, column], sums[j, column]
                    more = shared(x, y, f) - shared(x - grown[i], y - grown[j], f)
                    losses[i, j] += more
                    losses[j, i] += more
    if slot < n_fixed:
        return
    shares = np.zeros(n_slots, np.int64)
    for side, other in ((forth, back), (back, forth)):
        for g in range(n_slots):
            x = side[slot, g]
            if x > 0 and g != slot:
                for j in range(n_fixed, n_slots):
                    y = other[g, j]
                    if y > 0 and j != g:
                        shares[j] += term(x + y, f) - term(x, f) - term(y, f)
    for j in range(n_fixed, n_slots):
        if j != slot and sums[j, 2] > 0:
            loss = _own_loss(slot, j, tables, f) - shares[j]
            losses[slot, j], losses[j, slot] = loss, loss


@njit(cache=True, nogil=True)
def _cheapest(losses: NDArray[np.int64], n_fixed: int) -> tuple[int, int]:
    """The two classes that are merged with the least loss."""
    best, first, second = NEVER, -1, -1
    for i in range(n_fixed, len(losses)):
        for j in range(i + 1, len(losses)):
            if losses[i, j] < best:
                best, first, second = losses[i, j], i, j
    return first, second


@njit(cache=True, nogil=True)
def _merge(
    first: int,
    second: int,
    n_fixed: int,
    tables: Tables,
    losses: NDArray[np.int64],
    f: NDArray[np.int64],
) -> None:
    """Make one class of two, in the first one's slot, and bring the losses up to date."""
    forth, back, sums = tables
    n_slots = len(losses)
    beside = np.zeros(2, np.int64)
    for g in range(n_slots):
        beside[0] += (forth[first, g] > 0) + (back[first, g] > 0)
        beside[1] += (forth[second, g] > 0) + (back[second, g] > 0)
    small, large = (first, second) if beside[0] < beside[1] else (second, first)
    # The new class with each other: what the large one shares with it, and what the small one adds.
    shares = np.zeros(n_slots, np.int64)
    for j in range(n_fixed, n_slots):
        if losses[large, j] != NEVER and j != small:
            shares[j] = _own_loss(large, j, tables, f) - losses[large, j]
            shares[j] -= shared(forth[large, small], forth[j, small], f)
            shares[j] -= shared(back[large, small], back[j, small], f)
    for side, other in ((forth, back), (back, forth)):
        for g in range(n_slots):
            x, more = side[large, g], side[small, g]
            if more > 0 and g != large and g != small:
                for j in range(n_fixed, n_slots):
                    y = other[g, j]
                    if y > 0 and j != g:
                        shares[j] += shared(x + more, y, f) - shared(x, y, f)
    # The others with each other: where they had two classes beside them, they have one.
    for side in (back, forth):
        a, b = side[large], side[small]
        for i in range(n_fixed, n_slots):
            if b[i] > 0 and i != first and i != second:
                for j in range(n_fixed, n_slots):
                    if j in (first, second, i) or (b[j] > 0 and j < i):
                        continue
                    if a[j] + b[j] > 0:
                        more = shared(a[i] + b[i], a[j] + b[j], f)
                        more -= shared(a[i], a[j], f) + shared(b[i], b[j], f)
                        losses[i, j] -= more
                        losses[j, i] -= more
    for table in (forth, back):
        table[first] += table[second]
        table[second] = 0
        table[:, first] += table[:, second]
        table[:, second] = 0
    sums[first] += sums[second]
    sums[second] = 0
    losses[second], losses[:, second] = NEVER, NEVER
    for j in range(n_fixed, n_slots):
        if losses[first, j] != NEVER:
            loss = _own_loss(first, j, tables, f) - shares[j]
            losses[first, j], losses[j, first] = loss, loss
