"""Kernels that write the n-grams of a back-off table as text.

The words of an n-gram are found on its way up the trie: neighbours have the same or nearly the same
ancestors, so little of the way is walked anew. Words and digits are written eight bytes at a time;
what is too much is written over by what follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.kernels.words import eight_bytes

PADDING = 16
"""So many bytes behind what is read or written may be read or written as well."""


@intrinsic
def put_eight(_: Any, data: Any, at: Any, value: Any) -> Any:
    """Write a number as the eight bytes from an offset, the lowest first."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.bitcast(builder.gep(array.data, [args[1]]), ir.IntType(64).as_pointer())
        builder.store(args[2], place, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@njit(cache=True, nogil=True)
def eight_digits(value: int) -> np.uint64:
    """The decimal digits of a number below 10**8 as eight bytes, the first the lowest.

    It is cut into halves, quarters and digits that stand side by side in one register.
    """
    n = np.uint64(value)
    fours = n // np.uint64(10_000)
    n = fours | (n - fours * np.uint64(10_000)) << np.uint64(32)
    twos = ((n * np.uint64(10_486)) >> np.uint64(20)) & np.uint64(0x7F_0000_007F)
    n = twos | (n - twos * np.uint64(100)) << np.uint64(16)
    ones = ((n * np.uint64(103)) >> np.uint64(10)) & np.uint64(0xF_000F_000F_000F)
    n = ones | (n - ones * np.uint64(10)) << np.uint64(8)
    return np.uint64(n | np.uint64(0x3030_3030_3030_3030))


@njit(cache=True, nogil=True)
def write_number(out: NDArray[np.uint8], at: int, value: int) -> int:
    """Write ``-value / 10**7`` with seven decimals; returns where it ends."""
    if value > 0:
        out[at] = 45
        at += 1
    value = abs(value)
    whole, digits = value // 10_000_000, 1
    part = value - whole * 10_000_000
    if whole >= 10:
        rest = whole // 10
        while rest > 0:
            rest //= 10
            digits += 1
        for k in range(digits - 1, 0, -1):
            out[at + k] = 48 + whole % 10
            whole //= 10
    out[at] = 48 + whole
    out[at + digits] = 46
    put_eight(out, at + digits + 1, eight_digits(part * 10))
    return at + digits + 8


@njit(cache=True, nogil=True)
def write_lines(
    keys: NDArray[np.int64],
    order: int,
    row: int,
    numbers: NDArray[np.int64],
    letters: NDArray[np.uint8],
    starts: NDArray[np.int64],
    room: int,
    out: NDArray[np.uint8],
) -> tuple[int, int]:
    """Write ARPA lines: a number, the words of an n-gram and, if there is one, a second number.

    Args:
        keys: as in ``models.backoff.Table``.
        order: of all the n-grams.
        row: the number of the first.
        numbers: (M, 1 or 2) as ``write_number`` takes them, of the n-grams from it on.
        letters: the bytes of all words back to back, a blank before each, and ``PADDING``.
        starts: (V + 1,) where the blanks are in ``letters``.
        room: more bytes than a line can have.
        out: takes the text; lines are written while there is room.

    Returns:
        the number of lines written, and of bytes.
    """
    n_words = len(starts) - 1
    nodes, words = np.full(order + 1, -1, np.int64), np.empty(order + 1, np.int64)
    at, lines = 0, 0
    while lines < len(numbers) and at + room <= len(out):
        node, k = row + lines, order
        while node != nodes[k]:
            nodes[k] = node
            if k == 1:
                words[1] = node
                break
            key = keys[node - n_words]
            above = nodes[k - 1]
            if above < 0 or key < above * n_words or key - above * n_words >= 8 * n_words:
                above = key // n_words
            while key >= (above + 1) * n_words:  # mostly the same or the next: no division
                above += 1
            words[k] = key - above * n_words
            node = above
            k -= 1
        at = write_number(out, at, numbers[lines, 0])
        tab = at
        for k in range(order, 0, -1):
            begin, end = starts[words[k]], starts[words[k] + 1]
            put_eight(out, at, eight_bytes(letters, begin))
            put_eight(out, at + 8, eight_bytes(letters, begin + 8))
            for letter in range(begin + 16, end, 8):  # few words are so long
                put_eight(out, at + letter - begin, eight_bytes(letters, letter))
            at += end - begin
        out[tab] = 9
        if numbers.shape[1] > 1:
            out[at] = 9
            at = write_number(out, at + 1, numbers[lines, 1])
        out[at] = 10
        at += 1
        lines += 1
    return lines, at
