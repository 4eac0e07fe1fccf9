"""Vectors in word2vec's binary format.

A line "words width" in ASCII, then for every word its UTF-8, a space and the numbers as
little-endian float32. The original program ends a record with a line feed, others (the GoogleNews
vectors among them) do not; both are read, as no word begins with one.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from tasks.errors import InputError
from tasks.importing.gathering import Gathering
from tasks.importing.text import HEADER, check_promise

BLOCK = 4 << 20
LONGEST = 1 << 16
"""Bytes of a word, at most."""
WIDEST = 1 << 20
"""Numbers of a vector, at most; a header that says more is none."""


def read_binary(file: BinaryIO, gathering: Gathering) -> None:
    """Read a binary file into a gathering.

    Raises:
        InputError: it is no such file, or a record cannot be used and the policy is strict.
    """
    name = gathering.name
    first = file.readline(64)
    found = HEADER.fullmatch(first)
    promised, dim = (int(found.group(1)), int(found.group(2))) if found else (0, 0)
    if not 1 <= dim <= WIDEST:
        raise InputError(
            'the file does not begin with "words width"',
            where=name,
            remedy="name its format with --format",
        )
    rest, offset = b"", len(first)
    while data := file.read(max(BLOCK, 8 * dim)):
        data = rest + data
        taken, end = _read_block(data, dim, offset, gathering)
        rest, offset = data[end:], offset + end
        if not taken and len(rest) > LONGEST + 8 * dim:
            raise InputError(
                f"there is no word that ends within {LONGEST >> 10} KiB",
                where=f"{name}: byte {offset}",
                remedy="the file is damaged, or of another format: name it with --format",
            )
    if rest.strip(b"\r\n"):
        if gathering.seen == promised:
            problem = "there are more bytes behind the last of the words that the header promises"
            gathering.reject("trailing", problem, f"byte {offset}")
        else:
            problem = "the file ends within a record: it was cut off"
            gathering.reject("cut_off", problem, f"byte {offset}")
    check_promise(gathering, promised)


def _read_block(data: bytes, dim: int, offset: int, gathering: Gathering) -> tuple[int, int]:
    """Read whole records; returns how many they were and where they end."""
    words, places, begin, size = [], [], 0, 4 * dim
    while True:
        space = data.find(b" ", begin, begin + LONGEST + 1)
        if space < 0 or space + 1 + size > len(data):
            break
        words.append(data[begin:space].lstrip(b"\n"))
        places.append(space + 1)
        begin = space + 1 + size
    if words:
        table = np.empty((len(words), dim), "<f4")
        rows = table.view(np.uint8)
        raw = np.frombuffer(data, np.uint8)
        for row, place in zip(rows, places, strict=True):
            row[:] = raw[place : place + size]
        gathering.add(
            words, table.astype(np.float32, copy=False), lambda i: f"byte {offset + places[i] - 1}"
        )
    return len(words), begin
