"""Lines of a word and its numbers, as text, parsed to float32 exactly as IEEE 754 rounds them.

A number is read into a float64 that is off by less than two units in its last place: up to 19
digits as an integer, times or over a power of ten. Rounding that to float32 is right unless a point
midway between two float32 lies within that error (as in Lemire 2021, "Number parsing at a gigabyte
per second", arXiv:2101.11408, who goes on from there). Those, and whatever is no plain normal
number, are left to the caller by their place: about one number in 10^8.

A line is a word and its last D fields, cut at U+0020 alone; so a word may have spaces within.

Shapes: ``N`` bytes, ``R`` rows, ``D`` width.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

TOO_FEW, NO_WORD = 1, 2
"""What can be wrong with a line besides its numbers."""

_BAD, _DOUBTS = 4096, 8192  # places of them that are kept at a time
_SPACE, _RETURN, _LINE = 32, 13, 10
_POWERS = np.array([float(f"1e{e}") for e in range(309)])
_SMALLEST, _LARGEST = 1.1754944e-38, 3.4028234e38  # of normal float32
_MIDWAY, _LOW = 1 << 28, (1 << 29) - 1  # of a float64's 29 bits that a float32 lacks
_ERROR = 8  # in units in the last place; four times what it is


@dataclass(frozen=True, eq=False)
class Lines:
    """Parsed lines.

    Attributes:
        numbers: (R, D) float32.
        words: (R, 2) int64, where the word of each row begins and ends.
        lines: (R,) int64, the line of each row, from 0.
        doubts: (K, 4) int64, row, column, begin and end of numbers that ``nearest`` has to read.
        bad: (B, 2) int64, line of what is no row, and ``TOO_FEW`` or ``NO_WORD``.
        position: behind the last line that was looked at; there is more if it is not the end.
        n_lines: that were looked at.
    """

    numbers: NDArray[np.float32]
    words: NDArray[np.int64]
    lines: NDArray[np.int64]
    doubts: NDArray[np.int64]
    bad: NDArray[np.int64]
    position: int
    n_lines: int


def parse(text: NDArray[np.uint8], position: int, dim: int) -> Lines:
    """Parse lines, as many as there is room for.

    Args:
        text: (N,) bytes; lines end in LF or CRLF, the last may end in nothing.
        position: where to begin.
        dim: numbers of a line, at least 1.
    """
    rows = (len(text) - position) // (2 * dim + 1) + 1  # what proper lines can be at most
    numbers = np.empty((rows, dim), np.float32)
    words, lines = np.empty((rows, 2), np.int64), np.empty(rows, np.int64)
    doubts, bad = np.empty((_DOUBTS + dim, 4), np.int64), np.empty((_BAD, 2), np.int64)
    end, n, n_doubts, n_bad, n_lines = _parse(
        text, position, dim, numbers, words, lines, doubts, bad, _POWERS
    )
    return Lines(numbers[:n], words[:n], lines[:n], doubts[:n_doubts], bad[:n_bad], end, n_lines)


def nearest(number: bytes) -> np.float32:
    """The float32 nearest to a decimal number, ties to even; ValueError if it is none.

    Python's float is the nearest float64, and only where that is a tie between two float32 can it
    round to the wrong one.
    """
    if not number.strip() == number or b"_" in number:
        raise ValueError("not a number")
    value = float(number)
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(value)
        if value == float(near) or not np.isfinite(near):
            return near
        other = np.nextafter(near, np.float32(np.inf if value > float(near) else -np.inf))
    if not np.isfinite(other):
        return near
    exact = Fraction(number.decode())
    off, rival = abs(exact - Fraction(float(near))), abs(exact - Fraction(float(other)))
    return near if off <= rival else other


@njit(cache=True, nogil=True)
def _parse(
    text: Any, position: int, dim: int, numbers: Any, words: Any, lines: Any, doubts: Any,
    bad: Any, powers: Any,
) -> tuple[int, int, int, int, int]:  # fmt: skip
    rows, n_doubts, n_bad, n_lines = 0, 0, 0, 0
    size = len(text)
    while position < size and n_bad < len(bad) and n_doubts + dim <= len(doubts):
        begin = position
        while position < size and text[position] != _LINE:
            position += 1
        end = position
        position += 1
        n_lines += 1
        while end > begin and (text[end - 1] == _SPACE or text[end - 1] == _RETURN):
            end -= 1
        if end == begin:
            continue
        column, first, doubted = dim, end, n_doubts
        while column > 0 and end > begin:
            first = end
            while first > begin and text[first - 1] != _SPACE:
                first -= 1
            column -= 1
            value, sure = _number(text, first, end, powers)
            if sure:
                numbers[rows, column] = np.float32(value)
            else:
                numbers[rows, column] = np.float32(0)
                doubts[doubted, 0], doubts[doubted, 1] = rows, column
                doubts[doubted, 2], doubts[doubted, 3] = first, end
                doubted += 1
            end = first
            if end == begin:
                break
            while end > begin and text[end - 1] == _SPACE:
                end -= 1
            if column > 0 and end == begin:
                break
        separated = first > begin
        while begin < end and text[begin] == _SPACE:
            begin += 1
        if column > 0 or not separated or begin == end:
            bad[n_bad, 0] = n_lines - 1
            bad[n_bad, 1] = NO_WORD if column == 0 and separated else TOO_FEW
            n_bad += 1
            continue
        n_doubts = doubted
        words[rows, 0], words[rows, 1], lines[rows] = begin, end, n_lines - 1
        rows += 1
    return min(position, size), rows, n_doubts, n_bad, n_lines


@njit(cache=True, nogil=True)
def _number(text: Any, begin: int, end: int, powers: Any) -> tuple[float, bool]:
    """The value of a number, and whether it rounds to the right float32."""
    negative = text[begin] == 45
    if negative or text[begin] == 43:
        begin += 1
    mantissa, digits, seen, exponent = np.uint64(0), 0, 0, 0
    fraction = False
    while begin < end:
        digit = text[begin]
        if 48 <= digit <= 57:
            seen += 1
            if digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(digit - 48)
                if mantissa > 0:
                    digits += 1
                if fraction:
                    exponent -= 1
            elif not fraction:
                exponent += 1
        elif digit == 46 and not fraction:
            fraction = True
        else:
            break
        begin += 1
    if seen == 0:
        return 0.0, False
    if begin < end:
        if text[begin] | 32 != 101 or end - begin > 6:
            return 0.0, False
        begin += 1
        down = begin < end and text[begin] == 45
        if begin < end and (down or text[begin] == 43):
            begin += 1
        if begin == end:
            return 0.0, False
        power = 0
        while begin < end:
            if not 48 <= text[begin] <= 57:
                return 0.0, False
            power = power * 10 + text[begin] - 48
            begin += 1
        exponent += -power if down else power
    if mantissa == 0:
        return (-0.0 if negative else 0.0), True
    if not -300 <= exponent <= 288:
        return 0.0, False
    value = np.float64(mantissa)
    value = value / powers[-exponent] if exponent < 0 else value * powers[exponent]
    if not _SMALLEST <= value <= _LARGEST:
        return 0.0, False
    low = np.float64(value).view(np.int64) & _LOW
    return (-value if negative else value), not -_ERROR <= low - _MIDWAY <= _ERROR
