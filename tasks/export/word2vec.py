"""Word vectors in the two formats of the word2vec program, which most tools load, and in GloVe's.

Both begin with a line "words width". The text format has a line a word, the word and its numbers
with one space (U+0020) before each; nine digits give every float32 back exactly. It is fastText's
``.vec`` too, and GloVe's but for the first line. The binary format has the word, a space, the
numbers as little-endian float32 and a line feed; gensim's KeyedVectors are best had by it.

Words are written as they are, in UTF-8, other kinds of white space included: readers that cut at
anything but U+0020 and line feeds misread them, which is their fault. What neither format can hold
is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.capabilities import EmbedsWords
from models.family import Model, Progress
from tasks.errors import InputError

BLOCK = 4096
"""Words written at a time."""


def write_word2vec_text(
    model: Model, path: Path, progress: Progress = lambda done, total, unit: None
) -> None:
    """Write the word vectors of a model in the text format."""
    _write_text(model, path, progress, header=True)


def write_glove_text(
    model: Model, path: Path, progress: Progress = lambda done, total, unit: None
) -> None:
    """Write the word vectors of a model as the GloVe program does, without a header."""
    _write_text(model, path, progress, header=False)


def _write_text(model: Model, path: Path, progress: Progress, *, header: bool) -> None:
    check_words(model.vocabulary.words)
    with path.open("wb") as file:
        file.write(_header(model) if header else b"")
        for words, vectors in blocks(model, progress):
            line = " ".join(["%s", *["%.9g"] * vectors.shape[1]]) + "\n"
            rows = zip(words, vectors.tolist(), strict=True)
            file.writelines((line % (word, *row)).encode() for word, row in rows)


def write_word2vec_binary(
    model: Model, path: Path, progress: Progress = lambda done, total, unit: None
) -> None:
    """Write the word vectors of a model in the binary format."""
    check_words(model.vocabulary.words)
    with path.open("wb") as file:
        file.write(_header(model))
        for words, vectors in blocks(model, progress):
            rows = zip(words, vectors, strict=True)
            file.writelines(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in rows)


def blocks(model: Model, progress: Progress) -> Iterator[tuple[Sequence[str], NDArray[np.float32]]]:
    """The words in blocks with their (N, D) vectors; a model without words has one empty block.

    Raises:
        InputError: a vector that is not finite.
    """
    words = model.vocabulary.words
    if not isinstance(model, EmbedsWords):
        raise TypeError(f"{type(model).__name__} has no word vectors")
    for first in range(0, max(1, len(words)), BLOCK):
        block = words[first : first + BLOCK]
        vectors = np.ascontiguousarray(model.word_vectors(block), dtype="<f4")
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise InputError(
                f"the vector of {block[bad[0]]!r} is not finite", remedy="train the model again"
            )
        yield block, vectors
        progress(min(first + BLOCK, len(words)), len(words), "words")


def _header(model: Model) -> bytes:
    assert isinstance(model, EmbedsWords)
    width = model.word_vectors(model.vocabulary.words[:1]).shape[1]
    return f"{len(model.vocabulary.words)} {width}\n".encode()


def check_words(words: Sequence[str]) -> None:
    """Refuse words that would not come back from a file as they went in.

    Raises:
        InputError: a word is empty, has a space or line feed or half a surrogate pair in it,
            or stands twice.
    """
    bad = [word for word in words if not word or " " in word or "\n" in word or not _encodes(word)]
    bad += [word for word, n in Counter(words).items() if n > 1]
    if bad:
        shown = ", ".join(ascii(word) for word in bad[:10])
        raise InputError(
            f"the word2vec formats cannot hold {len(bad)} of the words: {shown}",
            remedy="pull the model in the native format",
        )


def _encodes(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
