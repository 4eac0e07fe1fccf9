"""Character n-grams of words, and the rows of a table that they are hashed to.

Bojanowski, Grave, Joulin, Mikolov (2017), "Enriching word vectors with subword information",
arXiv:1607.04606. A word is set between ``<`` and ``>``, and every stretch of ``min_n`` to ``max_n``
of its characters is an n-gram; ``<`` and ``>`` alone are none. A character is a Unicode code point.

An n-gram belongs to a bucket by the hash of the authors' program, bit for bit, so that their tables
can be read and ours be read by theirs: FNV-1a of 32 bits over the UTF-8 bytes, but with every byte
taken for a signed one, so that a byte above 127 flips the upper 24 bits too. The word ``</s>``,
their end of a line, has no n-grams.

Shapes: ``N`` words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FNV_OFFSET, FNV_PRIME = 2166136261, 16777619
LINE_END = "</s>"


@dataclass(frozen=True, eq=False)
class Buckets:
    """The buckets of the n-grams of N words, in the order of ``ngrams``.

    Attributes:
        starts: (N + 1,) int64, those of word i are ``ids[starts[i]:starts[i + 1]]``.
        ids: int64; a bucket comes as often as n-grams of the word fall into it.
    """

    starts: NDArray[np.int64]
    ids: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


def ngrams(word: str, min_n: int, max_n: int) -> list[str]:
    """The character n-grams of a word by their start, shorter ones first; none if ``max_n`` is 0.

    The whole word between its marks is among them if it is short enough.
    """
    if word == LINE_END:
        return []
    marked = f"<{word}>"
    return [
        marked[i : i + n]
        for i in range(len(marked))
        for n in range(max(1, min_n), min(max_n, len(marked) - i) + 1)
        if n > 1 or 0 < i < len(marked) - 1
    ]


def fnv(ngram: str) -> int:
    """The hash of the authors' program, below 2^32."""
    value = FNV_OFFSET
    for byte in ngram.encode():
        signed = byte if byte < 128 else byte | 0xFFFFFF00
        value = (value ^ signed) * FNV_PRIME & 0xFFFFFFFF
    return value


def bucket_ids(word: str, min_n: int, max_n: int, buckets: int) -> list[int]:
    """The buckets of ``ngrams(word, min_n, max_n)``, each below ``buckets``."""
    return [fnv(ngram) % buckets for ngram in ngrams(word, min_n, max_n)]


def buckets_of(words: Sequence[str], min_n: int, max_n: int, buckets: int) -> Buckets:
    """``bucket_ids`` of many words: the hashes of all their starts grow by a character at a time.

    Args:
        words: N words.
        min_n: characters of the shortest n-grams.
        max_n: of the longest; 0 for no n-grams.
        buckets: how many there are, at least 1 unless ``max_n`` is 0.
    """
    shortest = max(1, min_n)
    if not words or max_n < shortest:
        return Buckets(np.zeros(len(words) + 1, np.int64), np.zeros(0, np.int64))
    marked = [b"<%b>" % word.encode() if word != LINE_END else b"" for word in words]
    padding = 4 * max_n  # what the last starts run into
    text = np.frombuffer(b"".join(marked) + b"<" * padding, np.uint8)
    ends = np.cumsum([len(each) for each in marked])  # in bytes
    size = int(ends[-1])
    signed = text.view(np.int8).astype(np.uint32)
    follows = (text & 0xC0) == 0x80  # the bytes of a character after its first
    starts = np.flatnonzero(~follows[:size])
    owner = np.searchsorted(ends, starts, side="right")
    stops, firsts = ends[owner], np.concatenate([[0], ends])[owner]
    at, value = starts.copy(), np.full(len(starts), FNV_OFFSET, np.uint32)
    valid = np.zeros((len(starts), max_n - shortest + 1), bool)
    hashes = np.zeros(valid.shape, np.uint32)
    for n in range(1, max_n + 1):
        inside = at < stops
        value = (value ^ signed[at]) * np.uint32(FNV_PRIME)
        at += 1
        for _ in range(3):
            more = np.flatnonzero(follows[at])
            if not len(more):
                break
            value[more] = (value[more] ^ signed[at[more]]) * np.uint32(FNV_PRIME)
            at[more] += 1
        if n >= shortest:
            mark = (starts == firsts) | (at == stops) if n == 1 else np.zeros_like(inside)
            valid[:, n - shortest] = inside & ~mark
            hashes[:, n - shortest] = value
    per_word = np.bincount(owner, valid.sum(axis=1), minlength=len(words)).astype(np.int64)
    ids = (hashes[valid] % np.uint32(buckets)).astype(np.int64)
    return Buckets(np.concatenate([np.zeros(1, np.int64), np.cumsum(per_word)]), ids)
