"""Counting what stands between white space, over the bytes of UTF-8, in a hash table.

64 bytes are looked at at once, for the bits where white space and words change (as simdjson finds
structure: Langdale & Lemire 2019, arXiv:1902.08318); only where a byte may begin one of the wider
characters that ``str.split`` calls white space is it looked at by itself.

A slot of the table is half a cache line of four uint64: the first and the second eight bytes of a
word, its number with its length, its count. So most words are hashed, compared and counted without
a branch, and without another look into memory; only what is longer than 16 bytes is compared with
the bytes that are kept. Words are numbered by their first appearance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

PADDING = 64
"""So many bytes behind a text are read, and mean nothing."""
BATCH = 512
"""Ends and beginnings of words that are found before words are looked up; by measurement."""


_NONE = np.zeros(0, np.int64)


@dataclass(eq=False)
class Words:
    """A hash table of words; ``add`` counts a text into it.

    Attributes:
        slots: (4 S,) uint64, S a power of two: first and second eight bytes, (number + 1) << 32 |
            length, count.
        hashes: (E,) uint64 of each word.
        ends: (E + 1,) int64 where each word ends in ``letters``, after a leading 0.
        letters: the bytes of all words.
        used: (1,) int64, the words that are there.
    """

    slots: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(4 << 14, np.uint64))
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 13, np.uint64))
    ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1 << 13) + 1, np.int64))
    letters: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(1 << 16, np.uint8))
    used: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self.used[0])

    @property
    def counts(self) -> NDArray[np.int64]:
        """(len(self),) how often each word was there."""
        numbers = self.slots[2::4] >> np.uint64(32)
        counts = np.zeros(len(self) + 1, np.int64)
        counts[numbers] = self.slots[3::4]
        return counts[1:]

    def add(self, text: NDArray[np.uint8], length: int) -> None:
        """Count the words in the first bytes of an array that has ``PADDING`` more behind."""
        self._add(text, length, _NONE, _NONE, _NONE)

    def number(
        self, text: NDArray[np.uint8], length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count a text, and say which words are in it.

        Returns:
            (N,) where each word begins, and (N,) its number, by the first appearance in this table.
        """
        begins, numbers = np.empty(length // 2 + 1, np.int64), np.empty(length // 2 + 1, np.int64)
        n = self._add(text, length, _NONE, begins, numbers)
        return begins[:n], numbers[:n]

    def absorb(self, other: Words) -> None:
        """Add the counts of another table."""
        n = len(other)
        length = int(other.ends[n]) + n
        text = np.full(length + PADDING, 32, np.uint8)
        blanks = other.ends[1 : n + 1] + np.arange(n)
        inside = np.ones(length + PADDING, np.bool_)
        inside[blanks] = inside[length:] = False
        text[inside] = other.letters[: other.ends[n]]
        self._add(text, length, other.counts, _NONE, _NONE)

    def _add(self, text: NDArray[np.uint8], length: int, *by_word: NDArray[np.int64]) -> int:
        """Count a text, and say how many words it has."""
        at, n = count_words(text, 0, length, 0, *by_word, *self._arrays)
        while at < length:
            self._grow(length - at)
            at, n = count_words(text, at, length, n, *by_word, *self._arrays)
        return int(n)

    @property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.slots, self.hashes, self.ends, self.letters, self.used

    def _grow(self, more: int) -> None:
        """Make room: for more words, or for the letters of one of at most so many."""
        if len(self) == len(self.hashes):
            self.hashes = _extended(self.hashes, 2 * len(self.hashes))
            self.ends = _extended(self.ends, len(self.hashes) + 1)
            old, self.slots = self.slots, np.zeros(2 * len(self.slots), np.uint64)
            place_again(old, self.slots, self.hashes)
        else:
            self.letters = _extended(self.letters, 2 * len(self.letters) + more + PADDING)


def _extended(array: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer


@intrinsic
def eight_bytes(_: Any, data: Any, at: Any) -> Any:
    """The eight bytes from an offset as a number, the first the lowest."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.bitcast(builder.gep(array.data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def zeros_below(_: Any, value: Any) -> Any:
    """The number of zero bits below the lowest one."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


@intrinsic
def blanks(_: Any, data: Any, at: Any) -> Any:
    """Of the 64 bytes from an offset, as bits: ASCII white space, and where wider one may begin."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, bits = ir.VectorType(ir.IntType(8), 64), ir.IntType(64)
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.bitcast(builder.gep(array.data, [args[1]]), vector.as_pointer())
        text = builder.load(place, align=1)

        def among(*ranges: tuple[int, int]) -> Any:
            found = ir.Constant(bits, 0)
            for low, high in ranges:
                above = builder.sub(text, ir.Constant(vector, [low] * 64))
                inside = builder.icmp_unsigned("<=", above, ir.Constant(vector, [high - low] * 64))
                found = builder.or_(found, builder.bitcast(inside, bits))
            return found

        ascii_blanks = among((9, 13), (28, 32))
        wide = among((0xC2, 0xC2), (0xE1, 0xE3))
        return context.make_tuple(builder, signature.return_type, [ascii_blanks, wide])

    return types.UniTuple(types.uint64, 2)(data, types.int64), generate


@njit(cache=True, nogil=True)
def wide_blank(text: NDArray[np.uint8], at: int) -> int:
    """How many bytes the white space takes that begins at a byte beyond ASCII; 0 if it is none."""
    a, b, c = text[at], text[at + 1], text[at + 2]
    if a == 0xC2:
        return 2 if b == 0x85 or b == 0xA0 else 0
    if a == 0xE1:
        return 3 if b == 0x9A and c == 0x80 else 0
    if a == 0xE2 and b == 0x80:
        return 3 if 0x80 <= c <= 0x8A or c == 0xA8 or c == 0xA9 or c == 0xAF else 0
    if a == 0xE2 and b == 0x81:
        return 3 if c == 0x9F else 0
    return 3 if a == 0xE3 and b == 0x80 and c == 0x80 else 0


@intrinsic
def prefetch(_: Any, data: Any, at: Any) -> Any:
    """Have the cache line with an entry of an array fetched."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        place = builder.bitcast(builder.gep(array.data, [args[1]]), pointer)
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(data, types.int64), generate


@njit(cache=True, nogil=True)
def bytes_of(text: NDArray[np.uint8], at: int, length: int) -> np.uint64:
    """Eight bytes of a word of which ``length`` are left, at least 1; zeros behind it."""
    spare = np.uint64(64 - 8 * min(length, 8))
    return np.uint64(eight_bytes(text, at) & (np.uint64(0xFFFFFFFFFFFFFFFF) >> spare))


@njit(cache=True, nogil=True)
def mixed(value: np.uint64, more: np.uint64) -> np.uint64:
    """A hash of two numbers, multiplicative; all bits of both reach the low ones."""
    value = np.uint64((value ^ more) * np.uint64(0x9E3779B97F4A7C15))
    return np.uint64(value ^ (value >> np.uint64(32)))


@njit(cache=True, nogil=True)
def count_words(
    text: NDArray[np.uint8],
    at: int,
    length: int,
    n: int,
    times: NDArray[np.int64],
    begins: NDArray[np.int64],
    numbers: NDArray[np.int64],
    slots: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    ends: NDArray[np.int64],
    letters: NDArray[np.uint8],
    used: NDArray[np.int64],
) -> tuple[int, int]:
    """Count the words of a text from a byte on.

    Args:
        text: with ``PADDING`` behind it.
        at: where to begin.
        length: of the text.
        n: how many of its words were counted before.
        times: how often each of its words counts; empty for once.
        begins: takes where each word begins, unless it is empty.
        numbers: takes the number of each word, unless ``begins`` is empty.
        slots: and the other arrays of ``Words``, which change.
        hashes: by word.
        ends: by word.
        letters: of all words.
        used: how many there are.

    Returns:
        how far it came before a new word found no room, and how many words were counted.
    """
    # All in one function: to hand arrays to another would take longer than the work itself. Words
    # are found first and looked up then: a look-up need not wait for where the next word begins.
    edges = np.empty(BATCH + 64, np.int64)
    firsts, seconds = np.empty(BATCH, np.uint64), np.empty(BATCH, np.uint64)
    codes, one, mask = np.empty(BATCH, np.uint64), np.uint64(1), np.uint64(len(slots) // 4 - 1)
    before, ahead = one, np.uint64(0)
    known, found = used[0], 0
    while at < length or found:
        while at < length and found < BATCH:
            blank, wide = blanks(text, at)
            blank |= ahead
            ahead = np.uint64(0)
            while wide:
                bit = zeros_below(wide)
                wide &= wide - one
                size = wide_blank(text, at + int(bit))
                if size:
                    bits = (one << np.uint64(size)) - one
                    blank |= bits << bit
                    if int(bit) + size > 64:
                        ahead = bits >> (np.uint64(64) - bit)
            if length - at < 64:
                blank |= np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(length - at)
            changes = blank ^ (blank << one | before)
            before = blank >> np.uint64(63)
            while changes:
                edges[found] = at + int(zeros_below(changes))
                changes &= changes - one
                found += 1
            at += 64
        if at >= length and found & 1:
            edges[found] = length
            found += 1
        for i in range(found >> 1):
            begin, size = edges[2 * i], edges[2 * i + 1] - edges[2 * i]
            first = bytes_of(text, begin, size)
            second = bytes_of(text, begin + 8, size - 8) if size > 8 else np.uint64(0)
            code = mixed(mixed(np.uint64(size), first), second)
            for offset in range(16, size, 8):
                code = mixed(code, bytes_of(text, begin + offset, size - offset))
            firsts[i], seconds[i], codes[i] = first, second, code
            prefetch(slots, int(code & mask) << 2)
        for i in range(found >> 1):
            begin, size = edges[2 * i], edges[2 * i + 1] - edges[2 * i]
            first, second, slot = firsts[i], seconds[i], codes[i] & mask
            while True:
                place = int(slot) << 2
                here = slots[place + 2]
                if here == 0:
                    last = ends[known]
                    if known == len(hashes) or last + size + PADDING > len(letters):
                        used[0] = known
                        return begin, n
                    for offset in range(size):
                        letters[last + offset] = text[begin + offset]
                    slots[place], slots[place + 1] = first, second
                    slots[place + 2] = np.uint64(known + 1) << np.uint64(32) | np.uint64(size)
                    hashes[known], ends[known + 1] = codes[i], last + size
                    known += 1
                    break
                same = slots[place] == first and slots[place + 1] == second
                if same and (here & np.uint64(0xFFFFFFFF)) == np.uint64(size):
                    if size <= 16:
                        break
                    kept = ends[int(here >> np.uint64(32)) - 1]
                    for offset in range(16, size, 8):
                        theirs = bytes_of(letters, kept + offset, size - offset)
                        same &= theirs == bytes_of(text, begin + offset, size - offset)
                    if same:
                        break
                slot = (slot + one) & mask
            slots[place + 3] += np.uint64(times[n]) if len(times) else one
            if len(begins):
                begins[n] = begin
                numbers[n] = int(slots[place + 2] >> np.uint64(32)) - 1
            n += 1
        edges[0] = edges[found - 1]
        found &= 1
    used[0] = known
    return length, n


@njit(cache=True, nogil=True)
def place_again(
    old: NDArray[np.uint64], slots: NDArray[np.uint64], hashes: NDArray[np.uint64]
) -> None:
    """Put the words of a table into empty slots, by their hashes."""
    mask = np.uint64(len(slots) // 4 - 1)
    for place in range(0, len(old), 4):
        if old[place + 2] == 0:
            continue
        slot = hashes[int(old[place + 2] >> np.uint64(32)) - 1] & mask
        while slots[4 * int(slot) + 2] != 0:
            slot = (slot + np.uint64(1)) & mask
        for i in range(4):
            slots[4 * int(slot) + i] = old[place + i]
