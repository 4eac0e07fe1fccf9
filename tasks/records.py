r"""Records: what a stream of bytes holds, one after the other, each of bounded size.

Only ``\n`` and ``\r\n`` end a line. A record that cannot be used carries the reason; one that is
too large is skipped without ever being in memory.
"""

from __future__ import annotations

import csv
import io
import json
from collections import deque
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import IO, Any, NamedTuple

from tasks.encodings import Decoder
from tasks.errors import InputError

TOO_LARGE = "too_large"
_RUN_BYTES = 1 << 18  # of lines that are looked at together
_START = 4096  # bytes of a record that is too large, to show


class Record(NamedTuple):
    """A record of a file.

    Attributes:
        number: the line that it starts on, its page or its row, from 1.
        text: the document, or the start of what is rejected.
        reason: why it is rejected, empty if it is not.
        change: what was done to it, empty for nothing.
    """

    number: int
    text: str
    reason: str = ""
    change: str = ""


class Run(NamedTuple):
    """Lines in a row of which nothing is to be said.

    Attributes:
        number: of the first.
        texts: of all of them; some may be blank.
        size: bytes of the texts in UTF-8.
    """

    number: int
    texts: list[str]
    size: int


def read_lines(file: IO[bytes], limit: int) -> Iterator[tuple[int, bytes, bool]]:
    """Every line with its number, without its end, and whether it is whole.

    A line of more than ``limit`` bytes is not: only its start is given.
    """
    number = 0
    while line := file.readline(limit + 2):
        number += 1
        cut = len(line) == limit + 2 and line[-1] != 10
        while cut and (rest := file.readline(1 << 20)) and rest[-1] != 10:
            pass
        data = line.removesuffix(b"\n").removesuffix(b"\r")
        yield number, data if len(data) <= limit else data[:_START], len(data) <= limit


def lines(file: IO[bytes], decode: Decoder, limit: int) -> Iterator[Record]:
    """A record a line."""
    for number, data, whole in read_lines(file, limit):
        if whole:
            yield Record(number, *decode(data))
        else:
            yield Record(number, decode(data)[0], TOO_LARGE)


def runs(file: IO[bytes], decode: Decoder, limit: int) -> Iterator[Run | Record]:
    """A record a line, as ``lines`` gives them; many at a time where none of them is odd."""
    number = 1
    while data := file.read(_RUN_BYTES):
        data += (rest := file.readline(limit + 2))
        while len(rest) == limit + 2 and rest[-1] != 10:  # too large: its end is of no use
            rest = file.readline(limit + 2)
        if (text := _plain(data, decode.encoding, limit)) is not None:
            texts = text.split("\n")
            yield Run(number, texts, len(text.encode()) - len(texts) + 1)
            number += len(texts)
            continue
        for record in lines(io.BytesIO(data), decode, limit):
            yield record._replace(number=number)
            number += 1


def _plain(data: bytes, encoding: str, limit: int) -> str | None:
    """Lines as one text without the last line's end; None if one of them needs a closer look."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    if len(data) > limit or "\0" in text or "\ufeff" in text or text[-1] == "\r":
        return None
    return (text.replace("\r\n", "\n") if "\r" in text else text).removesuffix("\n")


def blocks(file: IO[bytes], decode: Decoder, limit: int) -> Iterator[Record]:
    """A record a block of lines; lines with nothing but blanks stand between blocks."""
    first, size, block, whole = 0, 0, list[bytes](), True

    def record() -> Record:
        text, reason, change = decode(b"\n".join(block))
        return Record(first, text, reason if whole else TOO_LARGE, change if whole else "")

    for number, data, complete in read_lines(file, limit):
        if data.strip():
            if not block:
                first, size, whole = number, 0, True
            size += len(data) + 1
            whole = whole and complete and size <= limit + 1
            if whole or not block:
                block.append(data)
        elif block:
            yield record()
            block = []
    if block:
        yield record()


def whole(file: IO[bytes], decode: Decoder, limit: int) -> Iterator[Record]:
    """The one record that the file is."""
    data, complete = read_whole(file, limit)
    text, reason, change = decode(data)
    text = text.replace("\r\n", "\n")
    yield Record(1, text, reason, change) if complete else Record(1, text, TOO_LARGE)


def read_whole(file: IO[bytes], limit: int) -> tuple[bytes, bool]:
    """The bytes of a file, or the start of them if there are more than ``limit``."""
    data = file.read(limit + 1)
    return (data, True) if len(data) <= limit else (data[:_START], False)


def objects(file: IO[bytes], decode: Decoder, limit: int, name: str) -> Iterator[Record]:
    """A JSON object a line, of which one field is the text."""
    for line in lines(file, decode, limit):
        if line.reason or not line.text.strip(" \t\r"):
            yield line
            continue
        value, reason = _field(line.text, name)
        yield Record(line.number, line.text if reason else value, reason, line.change)


def _field(line: str, name: str) -> tuple[str, str]:
    """The text in a JSON object, or why there is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "", "invalid_json"
    if not isinstance(value, dict):
        return "", "not_an_object"
    if name not in value:
        return "", "missing_field"
    text = value[name]
    if text is None:
        return "", "null"
    return (text, "") if isinstance(text, str) else ("", "not_a_string")


# --- rows ---------------------------------------------------------------------------------------


class _TooLarge(Exception):
    """A row grew beyond the limit while the CSV reader pulled its lines."""


class _Lines:
    """The lines of a CSV file, and which of them the row that is being read has taken."""

    def __init__(self, records: Iterator[Record], limit: int) -> None:
        self._records, self._limit = records, limit
        self._returned: deque[Record] = deque()
        self.taken: list[Record] = []
        self._size = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._returned.popleft() if self._returned else next(self._records)
        self.taken.append(line)
        self._size += len(line.text) + 1
        if self._size > self._limit + 1 or line.reason == TOO_LARGE:
            raise _TooLarge
        return line.text + "\n"

    def start(self) -> None:
        """A new row begins."""
        self.taken, self._size = [], 0

    def give_back(self) -> None:
        """Read all lines of the row again but the first."""
        self._returned.extendleft(reversed(self.taken[1:]))


def rows(
    file: BufferedReader,
    decode: Decoder,
    limit: int,
    *,
    delimiter: str,
    quoted: bool,
    column: Callable[[list[str]], int] | int,
) -> Iterator[Record]:
    r"""A record a row of a CSV file (RFC 4180); line feeds within quotes belong to the text.

    A quote that is never closed, or closed within a field, costs the line that it stands on: from
    the next line on the file is read as if it had not been there.

    Args:
        file: its bytes.
        decode: makes text of a line.
        limit: bytes of a row.
        delimiter: between fields.
        quoted: a field may stand in double quotes.
        column: of the text, from 0; or what finds it in the first row, which is then no record.
    """
    csv.field_size_limit(2**31 - 1)  # this limit is the process's; ours is the row's
    source = _Lines(lines(file, decode, limit), limit)

    def reader_of(source: _Lines) -> Iterator[list[str]]:
        quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        return csv.reader(source, delimiter=delimiter, quoting=quoting, strict=True)

    reader = reader_of(source)
    while True:
        source.start()
        try:
            row = next(reader)
        except StopIteration:
            return
        except (csv.Error, _TooLarge) as error:
            first = source.taken[0]
            reason = TOO_LARGE if isinstance(error, _TooLarge) else "invalid_csv"
            yield Record(first.number, first.text, first.reason or reason)
            source.give_back()
            reader = reader_of(source)
            continue
        if callable(column):
            column = column(row)
            continue
        yield _cell(source.taken, row, column)


def _cell(taken: list[Record], row: list[str], column: int) -> Record:
    number = taken[0].number
    reason = next((line.reason for line in taken if line.reason), "")
    change = next((line.change for line in taken if line.change), "")
    if not reason and row and column >= len(row):
        reason = "missing_field"
    if reason:
        return Record(number, "\n".join(line.text for line in taken), reason)
    return Record(number, row[column] if row else "", "", change)


def column_finder(name: str, where: str) -> Callable[[list[str]], int]:
    """What finds a column by its name in the first row of a file."""

    def find(row: list[str]) -> int:
        if name not in row:
            raise InputError(
                f"there is no column {name!r} in the first row",
                where=where,
                remedy=f"set field to one of: {', '.join(row[:50])}; or header to false",
            )
        return row.index(name)

    return find
