"""Parsing numbers, held against the C library's strtof, which rounds correctly."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels.decimals import NO_WORD, TOO_FEW, Lines, nearest, parse

libc = ctypes.CDLL(None)
libc.strtof.restype = ctypes.c_float
libc.strtof.argtypes = [ctypes.c_char_p, ctypes.c_void_p]


def strtof(number: bytes) -> np.float32:
    return np.float32(libc.strtof(number, None))


def read(text: bytes, dim: int) -> tuple[list[bytes], np.ndarray, list[tuple[int, int]]]:
    """Words, numbers and what was wrong, with the numbers in doubt read too."""
    words, tables, bad, begin, lines = [], [], [], 0, 0
    array = np.frombuffer(text, np.uint8)
    while begin < len(text):
        found: Lines = parse(array, begin, dim)
        for row, column, first, end in found.doubts.tolist():
            found.numbers[row, column] = nearest(text[first:end])
        words += [text[a:b] for a, b in found.words.tolist()]
        tables.append(found.numbers)
        bad += [(lines + line, reason) for line, reason in found.bad.tolist()]
        begin, lines = found.position, lines + found.n_lines
    return words, np.concatenate(tables), bad


def midway(bits: int) -> str:
    """The number midway between two neighbouring float32, exactly, in decimals."""
    from decimal import Decimal, localcontext

    low = np.array(bits, np.uint32).view(np.float32)
    with localcontext() as context:
        context.prec = 200
        between = (Decimal(float(low)) + Decimal(float(np.nextafter(low, np.float32(np.inf))))) / 2
        return format(between, "f")


NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.9g}"),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30).map(repr),
    st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"-?\.[0-9]{1,12}", fullmatch=True),
    st.integers(1, 0x7F000000).map(midway),
    st.integers(0x30000000, 0x4F000000).flatmap(
        lambda bits: st.sampled_from(["", "0000000000000000000000000001", "1"]).map(
            lambda more: midway(bits) + ("" if "." in midway(bits) else ".") + more
        )
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_numbers_are_rounded_correctly(numbers: list[str]) -> None:
    text = ("word " + " ".join(numbers) + "\n").encode()
    words, table, bad = read(text, len(numbers))
    expected = np.array([strtof(number.encode()) for number in numbers], np.float32)
    assert (words, bad) == ([b"word"], [])
    assert table[0].tobytes() == expected.tobytes()


def test_a_million_float32_come_back_by_nine_digits() -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 1_000_000, dtype=np.uint32).view(np.float32)
    usual = rng.normal(0, 0.1, 1_000_000).astype(np.float32)
    for values in (bits[np.isfinite(bits)][:200_000], usual):
        table = values[: len(values) // 100 * 100].reshape(-1, 100)
        line = "w " + " ".join(["%.9g"] * 100)
        text = "\n".join(line % tuple(row) for row in table.tolist()).encode()
        assert read(text, 100)[1].tobytes() == table.tobytes()


@pytest.mark.parametrize(
    "number", [b"1_0", b"1e", b"e5", b"--1", b".", b"+", b"0x1", b"1.2.3", b""]
)
def test_what_is_no_number(number: bytes) -> None:
    with pytest.raises(ValueError):
        nearest(number)
    if number:
        array = np.frombuffer(b"a " + number, np.uint8)
        assert len(parse(array, 0, 1).doubts) == 1


def test_not_finite_numbers_are_what_they_are() -> None:
    assert math.isnan(nearest(b"nan"))
    assert nearest(b"-inf") == -np.inf
    assert nearest(b"1e39") == np.inf


def test_lines() -> None:
    text = b"\n".join(
        [
            b"a 1 2", b"a b c 1 2  ", b"", b"1 2", b" 1 2", b"x", b"  ", b"y  1   2\r",
            b"a\xc2\xa0b -1 +2", b"z 1", b"\t 1 2", b"  w 3 4",
        ]
    )  # fmt: skip
    words, table, bad = read(text, 2)
    assert words == [b"a", b"a b c", b"y", b"a\xc2\xa0b", b"\t", b"w"]
    assert table.tolist() == [[1, 2], [1, 2], [1, 2], [-1, 2], [1, 2], [3, 4]]
    assert bad == [(3, TOO_FEW), (4, NO_WORD), (5, TOO_FEW), (9, TOO_FEW)]


def test_more_that_is_wrong_than_there_is_room_for() -> None:
    text = b"x\n" * 10_000 + b"a 1e-40 nan\n" * 10_000 + b"b 1 2"
    words, table, bad = read(text, 2)
    assert len(bad) == 10_000
    assert words == [b"a"] * 10_000 + [b"b"]
    assert table[0, 0] == np.float32(1e-40)
    assert table[-1].tolist() == [1, 2]
