"""A model that somebody named, ready for questions about its word vectors.

Where a table is large, its nearest rows are found by a shortlist of 8-bit codes
(``models.kernels.shortlist``). They are made at the first question and kept beside the model, under
the hash of its weights, so that the next process maps them and reads little else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copymode
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING, Any, Protocol

from models.family import Model
from models.tables import Choice, Rows, choices
from models.vocabulary import Vocabulary
from models.word_vectors import Search, WordVectors
from tasks.errors import InputError
from tasks.models import WEIGHTS
from tasks.store import map_tensors

if TYPE_CHECKING:
    from models.kernels.shortlist import Codes

LARGE = 1 << 23
"""Numbers in a table from which codes are worth their making: numpy scans 120 M in some 40 ms."""
CODES_FORMAT = 1
"""The version of kept codes; others are made again."""


class Opened(Protocol):
    """What ``tasks.registry.open_model`` gives."""

    @property
    def model(self) -> Model:
        """The model."""
        ...

    @property
    def folder(self) -> Path:
        """Its files."""
        ...

    @property
    def reference(self) -> str:
        """What it is called."""
        ...

    @property
    def about(self) -> Any:
        """What its manifest says."""
        ...


def word_vectors(opened: Opened, choice: Choice = "own", *, threads: int = 0) -> WordVectors:
    """The word vectors of a model.

    Args:
        opened: the model.
        choice: which of its vectors.
        threads: for large tables; 0 for as many as there are cores.

    Raises:
        InputError: the model has no word vectors, or not these.
    """
    there = choices(opened.model)
    if choice not in there:
        raise InputError(
            f"this model has no {choice} vectors" if there else "this model has no word vectors",
            where=opened.reference,
            remedy=f"choose among {', '.join(there)}"
            if there
            else "ask a model of another family, such as word2vec",
        )
    asked = WordVectors(opened.model, choice)
    if asked.table.shape[0] * asked.table.shape[1] >= LARGE:
        threads = threads or len(os.sched_getaffinity(0))
        asked.search = _Shortlisted(asked.table, opened, choice, threads)
    return asked


def approximate_word_vectors(
    opened: Opened, choice: Choice = "own", *, threads: int = 0
) -> tuple[WordVectors, float]:
    """The word vectors, whose nearest are found by a graph, and the share of them that it finds.

    The graph is made if it is not beside the model yet, which takes minutes where there are
    hundreds of thousands of words.

    Raises:
        InputError: the model has no word vectors, or not these.
        ConfigError: the library that it takes is not installed.
    """
    from tasks.approximate import kept_graph

    asked = word_vectors(opened, choice, threads=threads)
    path = opened.folder / f".nearest-{choice}.usearch"
    threads = threads or len(os.sched_getaffinity(0))
    graph = kept_graph(path, _weights_hash(opened), asked.table, asked.search, threads)
    asked.search = graph
    return asked, graph.recall


def _weights_hash(opened: Opened) -> str:
    hashes = {str(entry["name"]): str(entry["sha256"]) for entry in opened.about["files"]}
    return hashes[WEIGHTS]


class _Shortlisted:
    """A shortlist that is made or mapped at the first question."""

    def __init__(self, rows: Rows, opened: Opened, choice: Choice, threads: int) -> None:
        self._rows, self._opened, self._choice, self._threads = rows, opened, choice, threads
        self._search: Search | None = None

    def __call__(self, queries: Any, k: int, among: int) -> Any:
        if self._search is None:
            from models.kernels.shortlist import Shortlist

            codes = kept_codes(self._opened, self._choice, self._rows, self._threads)
            self._search = Shortlist(self._rows, codes, self._threads)
        return self._search(queries, k, among)


def kept_codes(opened: Opened, choice: Choice, rows: Rows, threads: int) -> Codes:
    """The codes of a table: those beside the model if they are of its weights, else new ones."""
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save_file

    from models.kernels.shortlist import Codes

    path = opened.folder / f".nearest-{choice}.safetensors"
    of = {"format": str(CODES_FORMAT), "weights": _weights_hash(opened)}
    with suppress(OSError, SafetensorError, InputError), safe_open(path, "numpy") as file:
        if file.metadata() == of:
            return Codes(**map_tensors(path))
    codes = Codes.of(rows, threads)
    aside = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):  # it may lie where nobody can write
        try:
            save_file(dict(codes.arrays()), aside, metadata=of)
            copymode(opened.folder / WEIGHTS, aside)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
    return codes


def unknown_word(opened: Opened, word: str) -> InputError:
    """What to say about a word that a model has no vector of."""
    forms = close_forms(opened.model.vocabulary, word)
    known = " or ".join(repr(form) for form in forms)
    remedy = f"it knows {known}" if forms else "words are compared as they are written"
    return InputError(f"the model does not know {word!r}", where=opened.reference, remedy=remedy)


def close_forms(vocabulary: Vocabulary, word: str, n: int = 3) -> list[str]:
    """Known words that may have been meant: in another case, else one edit away.

    Returns:
        at most n, the most frequent first; an edit is a letter more, less or other, or two swapped.
    """
    cases = {word.lower(), word.capitalize(), word.upper(), word.casefold()} - {word}
    known = {form for form in cases if form in vocabulary}
    if not known:
        known = {form for form in _edits(word.lower()) if form in vocabulary}
    return sorted(known, key=vocabulary.id)[:n]


def _edits(word: str) -> Iterator[str]:
    letters = sorted({*ascii_lowercase, *digits, *word, "-", "_", "'"})
    for i in range(len(word) + 1):
        before, after = word[:i], word[i:]
        yield from (before + letter + after for letter in letters)
        yield from (before + letter + after[1:] for letter in letters)
        yield before + after[1:]
        yield before + after[1:2] + after[:1] + after[2:]
