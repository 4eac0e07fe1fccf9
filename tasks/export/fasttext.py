"""fastText's ``.bin``, version 12, which the ``fasttext`` package and gensim load.

The layout is in ``tasks.importing.fasttext``. It keeps the rows of n-grams, so unknown words have
the vectors that they have here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.family import Progress
from models.fasttext import Model
from tasks.errors import InputError
from tasks.importing.fasttext import ARCHITECTURES, ARGUMENTS, LOSSES, MAGIC, VERSION

UPDATE_RATE, WORD_NGRAMS = 100, 1
"""The program's defaults, which mean nothing to a trained model."""
_ROWS = 1 << 14


def write_fasttext(
    model: Model, path: Path, progress: Progress = lambda done, total, unit: None
) -> None:
    """Write a model with its n-grams and its output vectors.

    Raises:
        InputError: a word has a zero byte in it or is not UTF-8, or a vector is not finite.
    """
    config, vocabulary = model.config, model.vocabulary
    output = model.output
    if config.objective == "hierarchical-softmax":  # the program has a row that no node uses
        output = np.concatenate([output, np.zeros((1, config.dim), np.float32)])
    with path.open("wb") as file:
        file.write(struct.pack("<2i", MAGIC, VERSION))
        file.write(_arguments(model))
        n = len(vocabulary.words)
        tokens = int(vocabulary.counts.sum())
        file.write(struct.pack("<3i2q", n, n, 0, tokens, -1))
        file.writelines(_entries(model))
        for i, table in enumerate((model.input, output)):
            file.write(struct.pack("<?2q", False, *table.shape))
            for first in range(0, len(table), _ROWS):
                rows = np.ascontiguousarray(table[first : first + _ROWS], "<f4")
                _check(rows)
                file.write(rows.data)
                total = len(model.input) + len(output)
                progress(i * len(model.input) + first + len(rows), total, "rows")


def _arguments(model: Model) -> bytes:
    config = model.config
    loss = {name: number for number, name in LOSSES.items()}[config.objective]
    architecture = {name: number for number, name in ARCHITECTURES.items()}[config.architecture]
    return ARGUMENTS.pack(
        config.dim, config.window, config.epochs, config.min_count, config.negatives, WORD_NGRAMS,
        loss, architecture, config.n_buckets, config.min_n, config.max_n, UPDATE_RATE,
        config.sample,
    )  # fmt: skip


def _entries(model: Model) -> Iterator[bytes]:
    vocabulary = model.vocabulary
    for word, count in zip(vocabulary.words, vocabulary.counts.tolist(), strict=True):
        try:
            text = word.encode()
        except UnicodeEncodeError:
            text = b"\0"
        if b"\0" in text:
            raise InputError(
                f"fastText's format cannot hold the word {word!a}",
                where="vocabulary",
                remedy="pull the model in the native format",
            )
        yield text + struct.pack("<bqb", 0, count, 0)


def _check(rows: NDArray[np.float32]) -> None:
    if not np.isfinite(rows).all():
        raise InputError("a vector is not finite", remedy="train the model again")
