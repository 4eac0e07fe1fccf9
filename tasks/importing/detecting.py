"""Which format a file of vectors or n-grams has, by its first bytes; its name says nothing."""

from __future__ import annotations

import re
from typing import Literal

from tasks.errors import InputError
from tasks.importing import fasttext
from tasks.importing.text import HEADER, NUMBER, check_tabs, sample_of

FileFormat = Literal["word2vec", "word2vec-bin", "glove", "fasttext", "parquet", "arpa"]

_SHORT = 1 << 12
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_ARPA = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*\\data\\[ \t]*\r?$", re.M)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
FOREIGN = {
    b"\xff\xfe": ("this is text in UTF-16", "convert it to UTF-8"),
    b"\xfe\xff": ("this is text in UTF-16", "convert it to UTF-8"),
    b"FiFu": (
        "this is a finalfusion file, which is not read",
        "finalfusion convert writes word2vec binary and text files",
    ),
    b"\x93NUMPY": ("this is an array without words", "write words and vectors as word2vec text"),
}


def detect(start: bytes, name: str) -> FileFormat:
    """The format of a file.

    Args:
        start: its first bytes, 64 KiB or all of it.
        name: of the file, for messages.

    Raises:
        InputError: it is none that is read.
    """
    if not start:
        raise InputError("the file is empty", where=name, remedy="fetch it again")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start[:4] == fasttext.MAGIC.to_bytes(4, "little"):
        return "fasttext"
    if _PICKLE.match(start):
        raise InputError(
            "this is a pickle (gensim's own format), which can run any code and is not read",
            where=name,
            remedy="in gensim, KeyedVectors.load(FILE).save_word2vec_format(OUT, binary=True)",
        )
    for mark, (problem, remedy) in FOREIGN.items():
        if start.startswith(mark):
            raise InputError(problem, where=name, remedy=remedy)
    if _ARPA.search(start):
        return "arpa"
    text = start.removeprefix(b"\xef\xbb\xbf")
    if header := HEADER.match(text):
        return _headed(text[header.end() :], int(header.group(2)))
    if fasttext.looks_old(start):
        return "fasttext"
    line, ended, _ = text.partition(b"\n")
    if not ended and len(line) > _SHORT:  # the last number may be cut
        line = line.rpartition(b" ")[0]
    if _CONTROL.search(line) is None and NUMBER.fullmatch(line.rstrip(b" \r").rpartition(b" ")[2]):
        return "glove"
    check_tabs(sample_of(text, 0), name)
    raise InputError(
        "this is no file of vectors in a format that is known",
        where=name,
        remedy="name its format with --format",
    )


def _headed(rest: bytes, dim: int) -> FileFormat:
    """What follows a line of two numbers: text ends its first line in numbers, or looks like text.

    A word with a single number, in a GloVe file of width 1, is told by the line after it.
    """
    line = rest.partition(b"\n")[0].rstrip(b" \r")
    numbers = [field for field in line.split(b" ")[1:] if field]
    if dim != 1 and len(numbers) == 1 and NUMBER.fullmatch(numbers[0]):
        return "glove"
    if numbers and all(map(NUMBER.fullmatch, numbers[-max(1, dim) :])):
        return "word2vec"
    return "word2vec-bin" if _CONTROL.search(rest) else "word2vec"
