"""fastText's ``.bin``: words, n-gram buckets and output vectors, so that unknown words keep theirs.

All integers and numbers are little-endian. A file is, by the authors' program (``fasttext.cc``,
``args.cc``, ``dictionary.cc``, ``densematrix.cc``)::

    int32   magic 793712314, version            neither in files from before 2017
    int32   dim, window, epochs, min_count, negatives, word n-grams, loss, architecture, buckets,
            min_n, max_n, update rate
    float64 sample
    int32   entries, words, labels      int64 tokens      int64 pruned n-grams (not in old files)
    entries times: UTF-8 with a zero byte, int64 count, int8 kind
    bool    quantized (not in old files)       int64 rows, columns    float32 input
    bool    quantized (not in old files)       int64 rows, columns    float32 output

Supervised, quantized (``.ftz``) and pruned models are refused: they answer other questions.
"""

from __future__ import annotations

import struct
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from models.fasttext import Config, Model
from models.vocabulary import Vocabulary
from tasks.counted import counted
from tasks.errors import InputError
from tasks.importing.gathering import Gathering
from tasks.importing.text import HEADER

MAGIC, VERSION = 793712314, 12
ARGUMENTS = struct.Struct("<12i d")
LOSSES = {1: "hierarchical-softmax", 2: "negative-sampling"}
ARCHITECTURES = {1: "cbow", 2: "skip-gram"}
SUPERVISED = 3

START = 256
"""Bytes by which a file is told; the settings are among them."""

_PIECE = 8 << 20


@dataclass
class _Source:
    """A file that says where it ends too early; ``rest`` was read ahead."""

    file: BinaryIO
    name: str
    rest: bytes = b""

    def take(self, size: int) -> bytes:
        if len(self.rest) < size:
            self.rest += self.file.read(size - len(self.rest))
        if len(self.rest) < size:
            raise self.cut_off()
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def cut_off(self) -> InputError:
        return InputError(
            "the file ends before its tables do: it was cut off",
            where=self.name,
            remedy="fetch it again",
        )

    def refusal(self, problem: str, remedy: str) -> InputError:
        return InputError(problem, where=self.name, remedy=remedy)


def looks_old(start: bytes) -> bool:
    """Whether a file begins with sensible settings of a file from before there was a magic."""
    if len(start) < ARGUMENTS.size:
        return False
    dim, window, epochs, _, negatives, _, loss, architecture, buckets, *_, sample = (
        ARGUMENTS.unpack_from(start)
    )
    return bool(
        0 < dim <= 1 << 16
        and 0 < window <= 1 << 16
        and 0 <= epochs <= 1 << 20
        and 0 <= negatives <= 1 << 16
        and 1 <= loss <= 4
        and 1 <= architecture <= 3
        and buckets >= 0
        and 0 <= sample <= 1
    )


def read_fasttext(file: BinaryIO, gathering: Gathering) -> Model:
    """The model in a ``.bin`` file.

    Args:
        file: its bytes, unpacked.
        gathering: has the policy, and the counts of what was left out.

    Raises:
        InputError: the file is of another kind, or damaged.
    """
    start = file.read(START)
    source = _Source(file, gathering.name, start)
    new = start[:4] == MAGIC.to_bytes(4, "little")
    if not new and not looks_old(start):
        raise _stranger(source)
    version = source.unpack("2i")[1] if new else 0
    if new and version not in (11, VERSION):
        raise source.refusal(
            f"this is version {version} of fastText's format; 11 and {VERSION} are known",
            "save the model anew with fasttext 0.9.2 or later",
        )
    arguments = ARGUMENTS.unpack(source.take(ARGUMENTS.size))
    entries, n_words, labels, _ = source.unpack("3iq")
    pruned = source.unpack("q")[0] if new else -1
    if arguments[7] == SUPERVISED or labels:
        raise source.refusal(
            "this is a supervised fastText model, a classifier",
            "import a model that was trained with skipgram or cbow",
        )
    if pruned > 0:
        raise source.refusal("the n-grams of this model are pruned", "import the model before that")
    if entries != n_words or n_words < 1:
        raise source.refusal(f"it holds {n_words} words in {entries} entries", "fetch it again")
    config = _config(arguments, source)
    words, counts = _entries(source, entries)
    table = _matrix(source, new, config.dim)
    output = _matrix(source, new, config.dim)
    if source.rest or file.read(1):
        raise source.refusal(
            "there are more bytes behind the tables of this model",
            "fetch it again: the file is damaged, or something was appended to it",
        )
    return _model(config, words, counts, table, output, arguments[8], gathering)


def _stranger(source: _Source) -> InputError:
    """What to say of a file that is none of fastText's."""
    start = source.rest
    if not start:
        return source.refusal("the file is empty", "fetch it again")
    if HEADER.match(start.removeprefix(BOM_UTF8)):
        return source.refusal(
            'this is no .bin file of fastText: it begins with a line "words width"',
            "--format word2vec-bin or word2vec reads such files, --format auto finds out which",
        )
    return source.refusal(
        "this is no .bin file of fastText: it begins neither with the format's number nor with "
        "settings of the format from before that",
        "--format auto finds out what it is",
    )


def _config(arguments: tuple[Any, ...], source: _Source) -> Config:
    (
        dim,
        window,
        epochs,
        min_count,
        negatives,
        _,
        loss,
        architecture,
        buckets,
        min_n,
        max_n,
        _,
        t,
    ) = arguments
    if loss not in LOSSES or architecture not in ARCHITECTURES:
        raise source.refusal(
            f"its training (architecture {architecture}, loss {loss}) is none that is known",
            "import a model that was trained with loss ns or hs; others export their .vec file",
        )
    settings = {
        "architecture": ARCHITECTURES[architecture],
        "objective": LOSSES[loss],
        "dim": dim,
        "window": window,
        "negatives": max(1, negatives),
        "sample": t,
        "min_n": min_n if max_n else 0,
        "max_n": max_n,
        "buckets": max(1, buckets),
        "epochs": max(1, epochs),
        "min_count": max(1, min_count),
    }
    try:
        config: Config = TypeAdapter(Config).validate_python(settings)
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"])) or "settings"
        raise source.refusal(
            f"the settings in the file cannot be ({name}: {problem['msg']})",
            "fetch the file again; it may be damaged, or no fastText model",
        ) from None
    return config


def _entries(source: _Source, n: int) -> tuple[list[bytes], list[int]]:
    """The words and their counts."""
    words: list[bytes] = []
    counts: list[int] = []
    data, begin = source.rest, 0
    while len(words) < n:
        end = data.find(b"\0", begin)
        if end < 0 or end + 10 > len(data):
            more = source.file.read(_PIECE)
            if not more or len(data) - begin > _PIECE:
                raise source.cut_off()
            data, begin = data[begin:] + more, 0
            continue
        count, kind = struct.unpack_from("<qb", data, end + 1)
        if kind != 0 or count < 0:
            raise source.refusal("its list of words is damaged", "fetch the file again")
        words.append(data[begin:end])
        counts.append(count)
        begin = end + 10
    source.rest = data[begin:]
    return words, counts


def _matrix(source: _Source, new: bool, dim: int) -> NDArray[np.float32]:
    """A table; read piece by piece, as its size is the file's own word for it."""
    if new and source.unpack("?")[0]:
        raise source.refusal(
            "this fastText model is quantized (.ftz)", "import the .bin file that it was made of"
        )
    rows, columns = source.unpack("2q")
    if columns != dim or rows < 0:
        raise source.refusal(f"a table of it is {rows} by {columns}", "fetch the file again")
    table = np.empty(0, "<f4")
    left, done = rows * columns * 4, 0
    while left:
        data = source.take(min(left, _PIECE))  # whole numbers
        if not np.isfinite(np.frombuffer(data, "<f4")).all():
            raise source.refusal("a table of it has numbers that are not finite", "train it anew")
        size = (done + len(data)) // 4
        if size > len(table):
            table.resize(min(max(size, len(table) * 5 // 4), (done + left) // 4), refcheck=False)
        table.view(np.uint8)[done : done + len(data)] = np.frombuffer(data, np.uint8)
        left, done = left - len(data), done + len(data)
    return table.reshape(rows, columns).astype(np.float32, copy=False)


def _model(
    config: Config,
    words: list[bytes],
    counts: list[int],
    table: NDArray[np.float32],
    output: NDArray[np.float32],
    buckets: int,
    gathering: Gathering,
) -> Model:
    """The model of the words that can be used."""
    name, n = gathering.name, len(words)
    if len(table) != n + buckets or len(output) != n:
        raise InputError(
            f"{n} words and {buckets} buckets do not go with {len(table)} and {len(output)} rows",
            where=name,
            remedy="fetch the file again",
        )
    places = [f"word {i + 1}" for i in range(n)]
    # Without their vectors: these stay where they are.
    kept = gathering.add(words, table[:n, :0], places.__getitem__, np.array(counts, np.int64))
    if not len(gathering):
        raise InputError("there is no word in this file that can be used", where=name)
    table = table[: n + config.n_buckets]
    if config.objective == "hierarchical-softmax":
        if len(kept) < n:
            raise InputError(
                f"{counted(n - len(kept), 'words')} cannot be used, without which its tree "
                "falls apart",
                where=name,
                remedy="--errors replace puts U+FFFD for what is no UTF-8",
            )
        output = output[: n - 1]  # a tree has one node less; the program has a row too many
    elif len(kept) < n:
        table, output = np.concatenate([table[kept], table[n:]]), output[kept]
    vocabulary: Vocabulary = gathering.vocabulary()
    return Model(config, vocabulary, table, output)
