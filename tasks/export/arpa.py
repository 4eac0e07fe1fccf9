"""ARPA, the text format that every n-gram tool reads (KenLM, SRILM, Kaldi).

Numbers are log10 with seven decimals: the error of 5e-8 is below what readers keep, which is a
32-bit float. ``<s>``, which is never predicted, and whatever else has the probability 0, has the
customary -99. Lines are in suffix order,
by order.

Fields are parted by a tab, words by a blank. Words may hold other Unicode spaces (U+00A0, U+3000):
they are written as they are, and KenLM and SRILM, which split at ASCII white space only, read them
as what they are. ASCII white space within a word has no place in the format and is refused.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.backoff import Table
from models.imported_ngram import Model as ImportedNgram
from models.ngram import Ngram
from models.vocabulary import Vocabulary
from tasks.counted import counted
from tasks.errors import InputError
from tasks.export.aside import written_aside
from tasks.spool import in_order

NEVER = -99.0
"""log10 of 0, by custom."""

_NUMBER = 32
"""More bytes than a number and the mark behind it have."""
_LINES, _BYTES = 1 << 13, 1 << 19
"""Lines that a thread writes at a time, and bytes that hold them: they stay in the caches."""
_UNWRITABLE = re.compile(r"[\s\x00]", re.ASCII)


def write_arpa(model: Ngram | ImportedNgram, path: Path) -> None:
    """Write a model as an ARPA file, which appears whole or not at all.

    Raises:
        InputError: words that the format cannot hold: with ASCII white space, not UTF-8, or equal
            to a reserved entry.
    """
    letters, starts = _surfaces(model.vocabulary)
    longest = int(np.diff(starts).max())
    table, threads = model.table, len(os.sched_getaffinity(0))
    with written_aside(path) as aside, aside.open("wb") as file:
        counts = "".join(f"ngram {k}={size}\n" for k, size in enumerate(table.sizes, 1))
        file.write(f"\\data\\\n{counts}".encode())
        for k, size in enumerate(table.sizes.tolist(), 1):
            file.write(f"\n\\{k}-grams:\n".encode())
            work = functools.partial(_lines, table, k, letters, starts, longest)
            for texts in in_order(work, range(0, size, _LINES), threads):
                for text in texts:
                    file.write(text)
        file.write(b"\n\\end\\\n")


def _lines(
    table: Table,
    order: int,
    letters: NDArray[np.uint8],
    starts: NDArray[np.int64],
    longest: int,
    row: int,
) -> list[memoryview]:
    """The lines of some n-grams of an order, from a row on."""
    from models.kernels.arpa import PADDING, write_lines
    from models.kernels.ngram import frozen

    numbers = table.numbers(order)
    begin, end = numbers.start + row, min(numbers.start + row + _LINES, numbers.stop)
    with np.errstate(divide="ignore"):
        # Rounding may have left a probability of 1 a little above it.
        logs = np.minimum(np.log10(table.probabilities[begin:end]), 0)[:, None]
        if order < table.order:
            logs = np.concatenate([logs, np.log10(table.weights[begin:end])[:, None]], axis=1)
    logs[np.isneginf(logs)] = NEVER
    scaled = np.rint(logs * -1e7).astype(np.int64)
    texts, room = [], order * longest + 2 * _NUMBER + PADDING
    while begin < end:
        out = np.empty(_BYTES + room, np.uint8)
        lines, size = write_lines(
            frozen(table.keys), order, begin, scaled[len(scaled) - (end - begin) :], letters,
            starts, room, out,
        )  # fmt: skip
        texts.append(out[:size].data)
        begin += lines
    return texts


def _surfaces(vocabulary: Vocabulary) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The UTF-8 bytes of all entries, a blank before each, and (V + 1,) where each begins."""
    from models.kernels.arpa import PADDING

    bad = [word for word in vocabulary.words if _UNWRITABLE.search(word) or not word]
    bad += sorted(set(vocabulary.words) & set(vocabulary.reserved))
    encoded = []
    for entry in vocabulary.entries:
        try:
            encoded.append(b" " + entry.encode())
        except UnicodeEncodeError:
            bad.append(entry)
    if bad:
        raise InputError(
            f"{counted(len(bad), 'words')} cannot be written to an ARPA file, the first is "
            f"{bad[0]!r}",
            where="vocabulary",
            remedy="tokenize without white space inside of words, or export another format",
        )
    starts = np.concatenate([[0], np.cumsum([len(word) for word in encoded])]).astype(np.int64)
    return np.frombuffer(b"".join(encoded) + bytes(PADDING), np.uint8), starts
