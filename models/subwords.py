"""Subword vocabularies from word counts: byte-pair merges and the unigram language model.

Both learn from distinct words with exact counts, never from running text, so what is learnt depends
on the counts alone: not on the order of the text, nor on threads.

* ``learn_merges``: Gage's (1994) byte-pair encoding as Sennrich, Haddow & Birch (2016,
  arXiv:1508.07909) apply it to words. Of equally frequent pairs, the one with the smaller ids is
  merged first.
* ``learn_pieces``: Kudo (2018, arXiv:1804.10959). Many substrings to begin with, then expectation
  maximization over all segmentations, alternating with the removal of the pieces whose absence
  costs the least likelihood.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MIN_PAIR = 2
"""A pair of symbols, or a substring, that is seen less often is not learnt."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class Merges:
    """A byte-pair vocabulary.

    Attributes:
        tokens: the alphabet by code points, then what each merge made, in the order of merging.
        merges: the two parts of every merge, in order. Fewer tokens than merges can arise: two
            merges may make the same string.
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]


def learn_merges(
    words: Sequence[str],
    counts: NDArray[np.int64],
    *,
    size: int,
    alphabet: Sequence[str],
    continuing: str = "",
) -> Merges:
    """Learn merges until there are ``size`` tokens or no pair is seen ``MIN_PAIR`` times.

    Args:
        words: distinct words.
        counts: (len(words),) how often each stands in the text.
        size: of the vocabulary, alphabet included.
        alphabet: the characters to keep; a character that is not among them breaks a word.
        continuing: a prefix of symbols that do not begin a word ("##" for WordPiece).
    """
    symbols = _split(words, set(alphabet), continuing)
    tokens = sorted({symbol for word in symbols for symbol in word if symbol})
    ids = {token: i for i, token in enumerate(tokens)}
    ids[""] = -1
    sequences = [[ids[symbol] for symbol in word] for word in symbols]
    weights = [int(count) for count in counts]
    pairs: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for w, sequence in enumerate(sequences):
        for pair in pairwise(sequence):
            if -1 not in pair:
                pairs[pair] += weights[w]
                places[pair].add(w)
    heap = [(-count, pair) for pair, count in pairs.items() if count >= MIN_PAIR]
    heapq.heapify(heap)
    merges: list[tuple[str, str]] = []
    while heap and len(tokens) < size:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:  # merges since have changed it
            if pairs[pair] >= MIN_PAIR:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        left, right = tokens[pair[0]], tokens[pair[1]]
        merges.append((left, right))
        joined = left + right.removeprefix(continuing)
        if joined not in ids:
            ids[joined] = len(tokens)
            tokens.append(joined)
        grown: set[Pair] = set()
        for w in places.pop(pair):
            _merge(sequences[w], pair, ids[joined], w, weights[w], pairs, places, grown)
        pairs[pair] = 0
        for other in grown:
            if pairs[other] >= MIN_PAIR:
                heapq.heappush(heap, (-pairs[other], other))
    return Merges(tuple(tokens), tuple(merges))


def _split(words: Sequence[str], alphabet: set[str], continuing: str) -> list[list[str]]:
    """The symbols of every word; an empty string for a character outside the alphabet."""
    return [
        [
            (char if i == 0 else continuing + char) if char in alphabet else ""
            for i, char in enumerate(word)
        ]
        for word in words
    ]


def _merge(
    sequence: list[int],
    pair: Pair,
    joined: int,
    word: int,
    weight: int,
    pairs: Counter[Pair],
    places: defaultdict[Pair, set[int]],
    grown: set[Pair],
) -> None:
    """Merge a pair in one word, in place, and keep the counts of its neighbours right."""
    left, right = pair
    i = 0
    while i < len(sequence) - 1:
        if sequence[i] != left or sequence[i + 1] != right:
            i += 1
            continue
        sequence[i : i + 2] = [joined]
        if i and sequence[i - 1] >= 0:
            pairs[sequence[i - 1], left] -= weight
            pairs[sequence[i - 1], joined] += weight
            places[sequence[i - 1], joined].add(word)
            grown.add((sequence[i - 1], joined))
        if i + 1 < len(sequence) and sequence[i + 1] >= 0:
            pairs[right, sequence[i + 1]] -= weight
            pairs[joined, sequence[i + 1]] += weight
            places[joined, sequence[i + 1]].add(word)
            grown.add((joined, sequence[i + 1]))
        i += 1


# --- the unigram model ----------------------------------------------------------------------

MAX_PIECE = 16
_SHRINK = 0.75  # Kudo removes so much less than all at once that the estimates can follow
_SEEDS = 16  # pieces to begin with, for each that is kept in the end
_ROUNDS = 2  # of expectation maximization between removals


def learn_pieces(
    words: Sequence[str], counts: NDArray[np.int64], *, size: int, alphabet: Sequence[str]
) -> list[tuple[str, float]]:
    """Pieces with their log-probabilities, the most probable first, ties by code points.

    Every character of the alphabet that occurs is a piece, however rare. Memory: 64 bytes for each
    character of the distinct words.

    Args:
        words: distinct words.
        counts: (len(words),) how often each stands in the text.
        size: of the vocabulary, alphabet included; fewer if there are not so many substrings.
        alphabet: the characters to keep; a character that is not among them breaks a word.
    """
    from models.kernels.unigram import expected_counts, removal_losses, viterbi_counts

    text = _Text.of(words, counts, sorted(set(alphabet) & set().union(*words)))
    if not len(text.codes):
        return []
    pieces, n = text.seeds(max(_SEEDS * size, 100_000))
    alive = np.ones(n, np.bool_)
    places = np.bincount(pieces.table[pieces.table >= 0], minlength=n)
    logs = _log(places.astype(np.float64), alive)
    keep = np.arange(n) < len(text.alphabet)
    target = max(size, len(text.alphabet))
    while True:
        for _ in range(_ROUNDS):
            expected = expected_counts(pieces.table, text.starts, text.counts, logs)
            alive &= (expected >= 0.5) | keep
            logs = _log(np.where(keep, np.maximum(expected, 0.5), expected), alive)
        if alive.sum() <= target:
            break
        used = viterbi_counts(pieces.table, text.starts, text.counts, logs)
        losses = removal_losses(pieces.table, pieces.example, pieces.length, used, logs)
        losses[keep] = np.inf
        losses[~alive] = -np.inf
        survivors = max(target, int(_SHRINK * alive.sum()))
        alive[np.argsort(-losses, kind="stable")[survivors:]] = False
        logs = np.where(alive, logs, -np.inf)
    kept = np.flatnonzero(alive)
    names = {i: text.string(pieces.example[i], pieces.length[i]) for i in kept.tolist()}
    order = sorted(names, key=lambda i: (-logs[i], names[i]))
    return [(names[i], float(logs[i])) for i in order]


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Candidate pieces and where they stand.

    Attributes:
        table: (N, MAX_PIECE) int32, the piece of each length at each place; -1 for none.
        example: (P,) int64, a place of every piece.
        length: (P,) int64, its characters.
    """

    table: NDArray[np.int32]
    example: NDArray[np.int64]
    length: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Text:
    """Words end to end: ``codes`` (N,) int64 into ``alphabet``, one run for each of ``starts``."""

    alphabet: Sequence[str]
    codes: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]

    @staticmethod
    def of(words: Sequence[str], counts: NDArray[np.int64], alphabet: Sequence[str]) -> _Text:
        """Words cut at the characters that are not in the alphabet."""
        ids = {char: i for i, char in enumerate(alphabet)}
        codes: list[int] = []
        starts, weights = [0], []
        for word, count in zip(words, counts.tolist(), strict=True):
            for char in (*word, ""):
                if char in ids:
                    codes.append(ids[char])
                elif len(codes) > starts[-1]:
                    starts.append(len(codes))
                    weights.append(count)
        arrays = [np.array(values, np.int64) for values in (codes, starts, weights)]
        return _Text(alphabet, *arrays)

    def string(self, at: int, length: int) -> str:
        """The characters at a place."""
        return "".join(self.alphabet[code] for code in self.codes[at : at + length].tolist())

    def seeds(self, limit: int) -> tuple[_Pieces, int]:
        """The alphabet, and the substrings with the highest count times length.

        Substrings are numbered length by length, and within a length by code points: one of them
        is a frequent shorter one and a character more.
        """
        n, width = len(self.codes), len(self.alphabet)
        sizes = np.diff(self.starts)
        weights = np.repeat(self.counts, sizes)
        room = np.repeat(self.starts[1:], sizes) - np.arange(n)
        table = np.full((n, MAX_PIECE), -1, np.int32)
        table[:, 0] = self.codes
        examples = [np.unique(self.codes, return_index=True)[1]]
        lengths, scores, first = [np.ones(width, np.int64)], [np.full(width, np.inf)], width
        previous = self.codes
        at = np.arange(n)
        for length in range(2, MAX_PIECE + 1):
            inside = room[at] >= length
            at, previous = at[inside], previous[inside]
            keys = previous * width + self.codes[at + length - 1]
            _, example, number = np.unique(keys, return_index=True, return_inverse=True)
            seen = np.bincount(number, weights[at], len(example))  # exact below 2 ** 53
            frequent = seen >= MIN_PAIR
            if not frequent.any():
                break
            renumbered = np.where(frequent, np.cumsum(frequent) - 1, -1)[number]
            examples.append(at[example[frequent]])
            lengths.append(np.full(int(frequent.sum()), length))
            scores.append(seen[frequent] * length)
            at, previous = at[renumbered >= 0], renumbered[renumbered >= 0]
            table[at, length - 1] = first + previous
            first += int(frequent.sum())
        score = np.concatenate(scores)
        chosen = np.sort(np.argsort(-score, kind="stable")[: max(limit, width)])
        number = np.full(first + 1, -1, np.int32)  # its last entry serves the -1 of the table
        number[chosen] = np.arange(len(chosen))
        example, length_ = np.concatenate(examples)[chosen], np.concatenate(lengths)[chosen]
        return _Pieces(number[table], example, length_), len(chosen)


def _log(expected: NDArray[np.float64], alive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log-probabilities of the pieces alive: Bayesian, by the digamma function, as Kudo has it."""
    logs = np.full(len(expected), -np.inf)
    logs[alive] = _digamma(expected[alive]) - _digamma(np.array([expected[alive].sum()]))
    return logs


def _digamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The digamma function for x > 0: recurrence up to 8, then the asymptotic series."""
    shift = np.zeros_like(x)
    x = x.copy()
    for _ in range(8):
        small = x < 8
        shift[small] -= 1 / x[small]
        x[small] += 1
    y = 1 / (x * x)
    return shift + np.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y / 252))
