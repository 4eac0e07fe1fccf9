"""MinHash signatures of documents (Broder 1997, "On the resemblance and containment of documents").

The resemblance of two documents is the Jaccard index of their sets of *shingles*, runs of ``W``
words. A signature holds, for each of ``K`` random functions, the least value that it takes on the
shingles of a document; the share of places where two signatures agree estimates the resemblance
with a standard error of ``sqrt(J (1 - J) / K)``. The functions are ``(a x + b) mod 2**64``, of
which the upper 32 bits are kept (Dietzfelbinger 1996), over shingles that are hashed to 64 bits.

A word is a run of ASCII letters, digits and characters beyond ASCII; ASCII letters count as
small, and what else is in ASCII parts words and is no part of them. So two documents that differ in
punctuation and case resemble each other entirely. Chinese, Japanese and Yi characters (U+3000 to
U+A4FF) are words by themselves. A document of fewer than ``W`` words is one shingle; one without
words has none.

Shapes: ``N`` documents, ``K`` functions, ``B`` bands of ``R`` places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

EMPTY = np.uint32(0xFFFFFFFF)
"""Every place of the signature of a document without words."""

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_LONGEST = 64
"""The longest shingle, in words."""


@njit(cache=True, inline="always")
def _mixed(x: Any) -> Any:
    """A bijection of 64 bits whose values look random (the finalizer of splitmix64)."""
    x = (x ^ (x >> _SHIFTS[0])) * _FIRST
    x = (x ^ (x >> _SHIFTS[1])) * _SECOND
    return x ^ (x >> _SHIFTS[2])


def functions(k: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(K,) multipliers, odd, and (K,) addends; always the same."""
    state = np.arange(1, 2 * k + 1, dtype=np.uint64) * _GOLDEN
    drawn = np.array(_mixed_all(state))
    return drawn[:k] | np.uint64(1), drawn[k:]


@njit(cache=True)
def _mixed_all(values: Any) -> Any:
    made = np.empty_like(values)
    for i in range(len(values)):
        made[i] = _mixed(values[i])
    return made


@njit(cache=True, nogil=True)
def signatures(data: Any, ends: Any, width: int, a: Any, b: Any) -> Any:
    """Signatures of documents.

    Args:
        data: uint8, the documents one after the other, in UTF-8.
        ends: (N + 1,) int64, where each begins, and the end of the last.
        width: W, at most 64.
        a: (K,) uint64, odd.
        b: (K,) uint64.

    Returns:
        (N, K) uint32.
    """
    n, k = len(ends) - 1, len(a)
    made = np.full((n, k), EMPTY, np.uint32)
    window = np.zeros(_LONGEST, np.uint64)
    for d in range(n):
        words = 0
        hashed = _OFFSET
        inside = False
        at, end = ends[d], ends[d + 1]
        while at <= end:
            byte = data[at] if at < end else np.uint8(32)
            if 65 <= byte <= 90:
                byte += np.uint8(32)
            letter = byte >= 128 or 97 <= byte <= 122 or 48 <= byte <= 57
            # Three bytes from E3 to EA 93: a character that is a word by itself.
            alone = 0xE3 <= byte <= 0xEA and at + 2 < end and (byte < 0xEA or data[at + 1] < 0x94)
            if inside and (alone or not letter):
                words += 1
                window[words % width] = _mixed(hashed)
                if words >= width:
                    _lower(made[d], window, words, width, width, a, b)
                hashed, inside = _OFFSET, False
            if alone:
                for i in range(3):
                    hashed = (hashed ^ np.uint64(data[at + i])) * _PRIME
                words += 1
                window[words % width] = _mixed(hashed)
                if words >= width:
                    _lower(made[d], window, words, width, width, a, b)
                hashed = _OFFSET
                at += 3
                continue
            if letter:
                hashed = (hashed ^ np.uint64(byte)) * _PRIME
                inside = True
            at += 1
        if 0 < words < width:
            _lower(made[d], window, words, words, width, a, b)
    return made


@njit(cache=True, nogil=True)
def _lower(row: Any, window: Any, words: int, n: int, width: int, a: Any, b: Any) -> None:
    """Take the shingle of the last ``n`` words into a signature; word ``i`` is at ``i % width``."""
    x = np.uint64(n)
    for i in range(words - n + 1, words + 1):
        x = _mixed(x * _GOLDEN + window[i % width])
    for j in range(len(row)):
        value = np.uint32((a[j] * x + b[j]) >> _SHIFTS[3])
        row[j] = min(row[j], value)


@njit(cache=True, nogil=True)
def band_keys(signs: Any, n_bands: int, n_rows: int) -> Any:
    """(B, N) uint64, equal where two documents agree in a band; 0 for documents without words."""
    n = len(signs)
    keys = np.zeros((n_bands, n), np.uint64)
    for d in range(n):
        empty = True
        for j in range(signs.shape[1]):
            empty = empty and signs[d, j] == EMPTY
        if empty:
            continue
        for band in range(n_bands):
            x = np.uint64(band + 1)
            for j in range(band * n_rows, (band + 1) * n_rows):
                x = _mixed(x * _GOLDEN + np.uint64(signs[d, j]))
            keys[band, d] = max(x, np.uint64(1))
    return keys


@njit(cache=True, nogil=True)
def join(
    parents: Any, documents: Any, starts: Any, signs: Any, agreeing: int, most_leaders: int
) -> None:
    """Join similar documents of each bucket; the root of a cluster is its first document.

    In the order of the documents, each is held against the *leaders* of its bucket, those that
    resembled no leader before them; if it resembles none, it is a leader itself. So the time is
    not quadratic in a bucket of copies.

    Args:
        parents: (N,) int64, a forest; changed in place.
        documents: (M,) int64, buckets one after the other, ascending in each.
        starts: (L + 1,) int64, where each bucket begins in ``documents``.
        signs: (M, K) uint32, their signatures.
        agreeing: places that must agree.
        most_leaders: of a bucket; a document is held against no more.
    """
    leaders = np.zeros(most_leaders, np.int64)
    for bucket in range(len(starts) - 1):
        n_leaders = 0
        for i in range(starts[bucket], starts[bucket + 1]):
            found = False
            for m in range(n_leaders):
                same = 0
                for j in range(signs.shape[1]):
                    same += signs[i, j] == signs[leaders[m], j]
                if same >= agreeing:
                    found = True
                    first = root(parents, documents[leaders[m]])
                    other = root(parents, documents[i])
                    parents[max(first, other)] = min(first, other)
            if not found and n_leaders < most_leaders:
                leaders[n_leaders] = i
                n_leaders += 1


@njit(cache=True, nogil=True)
def root(parents: Any, i: int) -> int:
    """The root of a document in the forest, which is flattened on the way."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i
