"""Vectors as text: word2vec's format, which fastText's ``.vec`` is too, and GloVe's.

A line is a word and its D numbers, cut at U+0020; word2vec's begins with a line "words width",
GloVe's does not. What is read beyond that, because files have it:

* spaces within a word (GloVe's 840B has some): the last D fields are numbers, the rest is the word;
* several spaces between fields, spaces at the end of a line, CRLF, empty lines, a byte order mark.

Without a header, D is what most of the first lines have in numbers at their end. A header whose D
the lines do not bear out is refused, and so is one whose number of words is wrong, as the file may
be cut off; with ``errors="reject"`` all lines there are count.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from tasks.counted import counted
from tasks.errors import InputError
from tasks.importing.gathering import Gathering

BLOCK = 4 << 20
"""Bytes read at a time."""
LONGEST = 16 << 20
"""Bytes of a line, at most: what is longer is no text file."""
SAMPLE = 1000
"""Lines that say how many numbers there are."""

HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]*\r?\n")
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.I)


def read_text(file: BinaryIO, gathering: Gathering, *, header: bool) -> None:
    """Read a text file into a gathering.

    Args:
        file: its bytes, unpacked.
        gathering: takes words and vectors.
        header: whether the first line says how many words and numbers there are.

    Raises:
        InputError: it is no such file, or a record cannot be used and the policy is strict.
    """
    blocks = _blocks(file, gathering.name)
    first = next(blocks, b"")
    begin = len(codecs.BOM_UTF8) if first.startswith(codecs.BOM_UTF8) else 0
    said = _header(first, begin, gathering.name) if header else None
    n_lines = 0
    if said:
        begin, n_lines = said.end(), 1
    while not (sample := sample_of(first, begin)) and (more := next(blocks, b"")):
        first += more
    promised = int(said.group(1)) if said else None
    dim = _width(sample, int(said.group(2)) if said else None, gathering.name)
    if not header and gathering.errors == "strict":
        _check_no_header(first, begin, dim, gathering.name)
    while first:
        n_lines = _read_block(first, begin, dim, n_lines, gathering)
        first, begin = next(blocks, b""), 0
    if promised is not None:
        check_promise(gathering, promised)


def check_promise(gathering: Gathering, promised: int) -> None:
    """Hold what was read against the header's number of words."""
    found = gathering.seen
    if found != promised:
        gathering.reject(
            "missing" if found < promised else "not_promised",
            f"the header promises {counted(promised, 'words')}, the file has {found:,}"
            + ("; it may be cut off" if found < promised else ""),
            "",
            n=abs(promised - found),
        )


def sample_of(block: bytes, begin: int) -> list[bytes]:
    """The first lines behind a place, without empty ones."""
    return [line for line in block[begin:].split(b"\n", SAMPLE)[:SAMPLE] if line.strip()]


def _blocks(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes in blocks that end with a line."""
    rest = b""
    while data := file.read(BLOCK):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > LONGEST:
            raise InputError(
                f"a line is longer than {LONGEST >> 20} MiB: this is no text",
                where=name,
                remedy="name the format of the file with --format",
            )
    if rest:
        yield rest


def _header(block: bytes, begin: int, name: str) -> re.Match[bytes]:
    found = HEADER.match(block, begin)
    if not found:
        check_tabs(sample_of(block, begin), name)
        shown = ascii(block[begin : begin + 40].decode(errors="replace"))
        raise InputError(
            f'the first line is not "words width" but {shown}',
            where=f"{name}: line 1",
            remedy="--format glove reads files without a header, --format auto finds out",
        )
    return found


def _check_no_header(block: bytes, begin: int, dim: int, name: str) -> None:
    """Refuse a first line that can only be word2vec's; of width 1 it may be a word's."""
    found = HEADER.match(block, begin)
    if found and int(found.group(2)) == dim != 1:
        raise InputError(
            'this is the line "words width" that word2vec files begin with, and GloVe files do not',
            where=f"{name}: line 1",
            remedy="--format word2vec reads such files, --format auto finds out",
        )


def check_tabs(sample: list[bytes], name: str) -> None:
    """Refuse text most lines of which have nothing but numbers behind their last tab."""
    if sum(map(_tabbed, sample)) > len(sample) / 2:
        raise InputError(
            "its numbers are parted by tabs, those of a file of vectors by spaces",
            where=name,
            remedy="write a space for every tab, as by tr '\\t' ' '",
        )


def _tabbed(line: bytes) -> bool:
    _, tab, last = line.rstrip(b" \t\r").rpartition(b"\t")
    return bool(tab) and all(NUMBER.fullmatch(field) for field in last.split(b" ") if field)


def _width(sample: list[bytes], said: int | None, name: str) -> int:
    """How many numbers a line has, by the header or by most lines."""
    if said is None:
        check_tabs(sample, name)
    seen = Counter(_trailing_numbers(line) for line in sample)
    if not seen:
        raise InputError("there is no vector in this file", where=name)
    often = max(seen.values())
    usual = {dim for dim, n in seen.items() if n == often}
    dim = min(usual) if said is None else said
    # A word that ends in numbers makes a line seem longer, so the shortest may be right too.
    if dim < 1 or dim not in usual | {min(seen)}:
        if said is None:
            problem, remedy = "its lines do not end in numbers", "name its format with --format"
        else:
            check_tabs(sample, name)
            problem = f"the header promises {dim:,} numbers a line, the lines have {min(usual):,}"
            remedy = "fetch the file again, or take the first line away if it is no header"
        raise InputError(problem, where=name, remedy=remedy)
    return dim


def _trailing_numbers(line: bytes) -> int:
    fields = line.rstrip(b" \r").split(b" ")[1:]
    n = 0
    for field in reversed(fields):
        if field and not NUMBER.fullmatch(field):
            break
        n += bool(field)
    return n


def _read_block(block: bytes, begin: int, dim: int, n_lines: int, gathering: Gathering) -> int:
    """Read the lines of a block; returns how many lines the file has had by then."""
    from models.kernels.decimals import NO_WORD, parse

    text = np.frombuffer(block, np.uint8)
    while begin < len(block):
        found = parse(text, begin, dim)
        base = n_lines + 1
        for line, reason in found.bad.tolist():
            if reason == NO_WORD:
                gathering.stats["empty_word"] += 1
            else:
                problem = f"the line has fewer than a word and {dim} numbers"
                gathering.reject("too_few_numbers", problem, f"line {base + line}")
        good = _resolve(block, found.numbers, found.doubts, found.lines + base, gathering)
        rows = np.flatnonzero(good)
        spans = found.words[rows].tolist()
        lines = found.lines[rows] + base
        gathering.add(
            [block[a:b] for a, b in spans],
            found.numbers if len(rows) == len(good) else found.numbers[rows],
            lambda i, lines=lines: f"line {lines[i]}",  # type: ignore[misc]
        )
        gathering.stats["spaces_in_word"] += sum(b" " in block[a:b] for a, b in spans)
        begin, n_lines = found.position, n_lines + found.n_lines
    return n_lines


def _resolve(
    block: bytes,
    numbers: np.ndarray,
    doubts: np.ndarray,
    lines: np.ndarray,
    gathering: Gathering,
) -> np.ndarray:
    """Read the numbers that were in doubt; returns which rows are of numbers alone."""
    from models.kernels.decimals import nearest

    good = np.ones(len(numbers), np.bool_)
    for row, column, begin, end in doubts.tolist():
        field = block[begin:end]
        try:
            numbers[row, column] = nearest(field)
        except ValueError:
            if good[row]:
                shown = ascii(field.decode(errors="replace"))
                where = f"line {lines[row]}, number {column + 1}"
                gathering.reject("not_a_number", f"{shown} is no number", where)
            good[row] = False
    return good
