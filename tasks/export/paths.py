"""Classes of words as files: the paths of their tree, and features of words made of these.

The ``paths`` file is that of wcluster (Liang 2005), which taggers and parsers read: a line a word,
``path<TAB>word<TAB>count``, by path, the words of a class by falling count. The Parquet table has a
row a word in the order of the vocabulary: ``word``, ``count``, ``path``, and ``path_4`` to
``path_20``, the beginnings of the path that are used as features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from models.capabilities import ClassesWords
from models.clustering import LENGTHS, prefixes
from models.family import Model
from tasks.counted import counted
from tasks.errors import InputError, not_utf8
from tasks.export.aside import written_aside

_PATH, _COUNT = re.compile("[01]+"), re.compile("[0-9]+")
_UNWRITABLE = re.compile("[\t\r\n\ud800-\udfff]")


def write_paths(model: Model, path: Path) -> None:
    """Write the classes of a model's words as a ``paths`` file, which appears whole or not at all.

    Raises:
        InputError: words that the format cannot hold: with a tab or the end of a line, not UTF-8.
    """
    rows = sorted(_rows(model), key=lambda row: row[0])  # stable: by falling count within a class
    bad = [word for _, word, _ in rows if _UNWRITABLE.search(word)]
    if bad:
        raise InputError(
            f"{counted(len(bad), 'words')} cannot be written to a file of paths, the first is "
            f"{bad[0]!r}",
            where="vocabulary",
            remedy="tokenize without white space inside of words, or export parquet",
        )
    with written_aside(path) as aside:
        lines = "".join(f"{name}\t{word}\t{count}\n" for name, word, count in rows)
        aside.write_text(lines, "utf-8", newline="\n")


def read_paths(path: Path) -> dict[str, tuple[str, int]]:
    """The path and the count of every word in a ``paths`` file.

    Raises:
        InputError: the file is missing, is not UTF-8, or a line is not of this form or repeats a
            word.
    """
    found: dict[str, tuple[str, int]] = {}
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", where=str(path), remedy="name a file of paths"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            not_utf8(error),
            where=str(path),
            remedy="convert it to UTF-8",
        ) from None
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        fields = line.removesuffix("\r").split("\t")
        bad = ""
        if len(fields) != 3:
            bad = f"there are {len(fields)} fields, not 3"
        elif not _PATH.fullmatch(fields[0]):
            bad = f"{fields[0]!r} is no path of 0 and 1"
        elif not _COUNT.fullmatch(fields[2]):
            bad = f"{fields[2]!r} is no count"
        elif fields[1] in found:
            bad = f"the word {fields[1]!r} is there twice"
        if bad:
            raise InputError(
                bad, where=f"{path}, line {number}", remedy="a line is path, word, count, with tabs"
            )
        found[fields[1]] = fields[0], int(fields[2])
    return found


def write_features(model: Model, path: Path) -> None:
    """Write the paths of a model's words and their beginnings as a Parquet table."""
    names, words, counts = zip(*_rows(model), strict=True)
    starts = zip(*(prefixes(name) for name in names), strict=True)
    columns = {
        "word": pa.array(words, pa.string()),
        "count": pa.array(counts, pa.int64()),
        "path": pa.array(names, pa.string()),
        **{f"path_{n}": pa.array(s, pa.string()) for n, s in zip(LENGTHS, starts, strict=True)},
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def _rows(model: Model) -> Iterator[tuple[str, str, int]]:
    if not isinstance(model, ClassesWords):
        raise TypeError(f"{type(model).__name__} has no classes of words")
    vocabulary = model.vocabulary
    yield from zip(model.paths(), vocabulary.words, vocabulary.counts.tolist(), strict=True)
