"""Counting the words of text files, with nothing before it and nothing kept: a shell's tool.

The bytes are counted as they come, in blocks that end at white space, each thread with a table of
its own; only distinct strings are ever decoded or looked at by a tokenizer.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.errors import InputError
from tasks.tokenize import TYPES_SCHEMA, Tokenize, tokenize_text, word_strings

if TYPE_CHECKING:
    from models.kernels.words import Words

BLOCK = 1 << 21
"""Bytes that a thread reads at a time."""


def count_words(
    paths: Sequence[str],
    *,
    scheme: Literal["whitespace", "words"] = "whitespace",
    lowercase: bool = False,
    threads: int = 1,
) -> pa.Table:
    """How often each word stands in text files.

    Args:
        paths: files or URLs, unpacked by their endings (.gz .bz2 .xz .zst); "-" is stdin.
        scheme: what stands between white space, or words and punctuation as ``tokenize`` has them.
        lowercase: count words as one that differ by case only.
        threads: that count; they leave the interpreter alone.

    Returns:
        ``type`` and ``count``, the most frequent first, ties by UTF-8 bytes.

    Raises:
        InputError: a file is missing, damaged or not UTF-8.
    """
    from models.kernels.words import Words

    if isinstance(paths, str):
        raise TypeError("paths is a list of paths")
    blocks, lock = _blocks(paths), threading.Lock()

    def count(words: Words) -> Words:
        while True:
            with lock:
                block = next(blocks, None)
            if block is None:
                return words
            words.add(*block)

    with ThreadPoolExecutor(threads) as pool:
        first, *others = pool.map(count, [Words() for _ in range(threads)])
    for other in others:
        first.absorb(other)
    table = _decoded(first)
    if scheme == "words" or lowercase:
        table = _tokenized(table, Tokenize(scheme), lowercase)
    return table.sort_by([("count", "descending"), ("type", "ascending")])


def _blocks(paths: Sequence[str]) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """The bytes of all files, in arrays that end between words, and how many there are in each."""
    from models.kernels.words import PADDING

    for path in paths:
        with _opened(path) as file:
            rest, more = bytearray(), True
            while more:
                text = rest + bytearray(BLOCK + PADDING)
                read = file.readinto(memoryview(text)[len(rest) : -PADDING])  # type: ignore[attr-defined]
                end, more = len(rest) + read, read > 0
                cut = max(text.rfind(b"\n", 0, end), text.rfind(b" ", 0, end)) + 1 if more else end
                yield np.frombuffer(text, np.uint8), cut
                rest = text[cut:end]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    import lzma
    import zlib

    import fsspec

    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with fsspec.open(path, "rb", compression="infer") as file:
            yield file
    except FileNotFoundError:
        remedy = "name one that is there"
        raise InputError("there is no such file", where=path, remedy=remedy) from None
    except IsADirectoryError:
        raise InputError("this is a folder", where=path, remedy="name the files in it") from None
    except (EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise InputError(
            f"the file is damaged or was cut off ({error})", where=path, remedy="fetch it again"
        ) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise InputError(f"the file is damaged ({error})", where=path) from None


def _decoded(words: Words) -> pa.Table:
    """The table as strings."""
    try:
        types = word_strings(words)
    except pa.ArrowInvalid:
        cuts = words.ends[: len(words) + 1].tolist()
        all_words = (words.letters[a:b].tobytes() for a, b in pairwise(cuts))
        wrong = next(word for word in all_words if not _is_utf8(word))
        raise InputError(
            f"the text is not UTF-8: it has the word {wrong[:40]!r}",
            remedy="convert it first, as `iconv -f LATIN1 -t UTF-8` does",
        ) from None
    return pa.table([types, pa.array(words.counts)], schema=TYPES_SCHEMA)


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


def _tokenized(table: pa.Table, params: Tokenize, lowercase: bool) -> pa.Table:
    """The counts of the tokens that are in the pieces between white space."""
    pieces = table["type"].to_pylist()
    tokens: list[list[str]] = [
        sentence
        for piece in pieces
        for sentence in tokenize_text(piece.lower() if lowercase else piece, params) or [[]]
    ]
    lists = pa.array(tokens, pa.large_list(pa.large_string()))
    counts = table["count"].to_numpy()[pc.list_parent_indices(lists).to_numpy()]
    flat = pa.table([lists.flatten(), pa.array(counts)], schema=TYPES_SCHEMA)
    added = flat.group_by("type").aggregate([("count", "sum")])
    return added.rename_columns({"count_sum": "count"}).select(TYPES_SCHEMA.names)
