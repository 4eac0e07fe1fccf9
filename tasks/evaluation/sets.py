"""Evaluation sets: word pairs, analogy questions and raw text, by built-in name or by path.

Built-in sets are read where an installed package keeps them (gensim's wheel holds WordSim-353,
SimLex-999 and the Google analogies); nothing of them is copied into this project.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import Vocabulary
from tasks.artifacts import Artifact
from tasks.errors import InputError
from tasks.files import import_files
from tasks.models import TextPipeline
from tasks.store import Store

SIMILARITY = {"wordsim353": "wordsim353.tsv", "simlex999": "simlex999.txt"}
"""Built-in word-pair sets, with their files in gensim's wheel."""
ANALOGY = {"google": "questions-words.txt"}
"""Built-in analogy sets, with their files in gensim's wheel."""
BLOCK = 100_000
"""Lines of raw text that are made into tokens at a time."""


@dataclass(frozen=True)
class WordPair:
    """Two words and how similar people found them."""

    first: str
    second: str
    gold: float


@dataclass(frozen=True)
class PairSet:
    """A word-pair set; self pairs and repeated pairs stay as they are in the file.

    Attributes:
        pairs: in the order of the file.
        unread: lines that are neither a pair nor a comment nor the header.
        self_pairs: pairs of a word with itself.
        repeated: pairs beyond the first of the same two words in either order.
    """

    pairs: tuple[WordPair, ...]
    unread: int = 0

    @property
    def self_pairs(self) -> int:
        """Pairs of a word with itself."""
        return sum(pair.first == pair.second for pair in self.pairs)

    @property
    def repeated(self) -> int:
        """Pairs beyond the first of the same two words, in either order."""
        seen = Counter(frozenset((pair.first, pair.second)) for pair in self.pairs)
        return sum(seen.values()) - len(seen)


@dataclass(frozen=True)
class Question:
    """``a`` is to ``b`` as ``c`` is to ``d``."""

    a: str
    b: str
    c: str
    d: str


@dataclass(frozen=True)
class AnalogySet:
    """Analogy questions by section, in the order of the file.

    Attributes:
        sections: questions by the name of their section.
        unread: lines with another number of words than four.
    """

    sections: Mapping[str, tuple[Question, ...]]
    unread: int = 0

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return tuple(q for section in self.sections.values() for q in section)


# --- finding --------------------------------------------------------------------------------


def find_set(reference: str, built_in: Mapping[str, str]) -> tuple[str, Path]:
    """The name and the file of a set.

    Args:
        reference: a key of ``built_in``, or the path of a file.
        built_in: ``SIMILARITY`` or ``ANALOGY``.

    Raises:
        InputError: neither, or the package that holds a built-in set is not installed.
    """
    if reference in built_in:
        spec = find_spec("gensim")
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / "test" / "test_data" / built_in[reference]
            if path.is_file():
                return reference, path
        raise InputError(
            "this set comes with the package gensim, which is not installed",
            where=reference,
            remedy="pip install 'lexloom[sample]', or name a file",
        )
    path = Path(reference).expanduser()
    if not path.is_file():
        raise InputError(
            "there is no such evaluation set and no such file",
            where=reference,
            remedy=f"name a file or one of: {', '.join(sorted(built_in))}",
        )
    return path.stem, path


def import_sets(store: Store, references: Sequence[str], role: str) -> dict[str, Artifact]:
    """Sets as artifacts, under the roles ``similarity:NAME`` or ``analogy:NAME``.

    Args:
        store: takes them.
        references: built-in names and paths.
        role: "similarity" or "analogy".

    Raises:
        InputError: a set cannot be found, or two of them have the same name.
    """
    built_in = {"similarity": SIMILARITY, "analogy": ANALOGY}[role]
    found: dict[str, Artifact] = {}
    for reference in references:
        name, path = find_set(reference, built_in)
        if f"{role}:{name}" in found:
            raise InputError(
                "two evaluation sets have this name", where=name, remedy="rename one of the files"
            )
        found[f"{role}:{name}"] = import_files(store, [path], role)
    return found


# --- reading --------------------------------------------------------------------------------

Split = Callable[[str], list[str]]
DELIMITERS: tuple[Split, ...] = (
    lambda line: line.split("\t"),
    lambda line: line.split(","),
    lambda line: line.split(";"),
    str.split,
)
"""How a line may be cut; of those that read equally many lines the first wins."""


def read_pairs(path: Path, name: str = "") -> PairSet:
    """The word pairs in a file: two words and a number, cut by tab, comma, semicolon or space.

    The delimiter is the one under which most lines read. A line that begins with ``#`` is a
    comment, a first line without a number is a header, and the gold score is the first number
    after the two words.

    Raises:
        InputError: no line can be read, or the file is not UTF-8.
    """
    lines = [line for line in _lines(path) if line.strip() and not line.startswith("#")]
    readings = [[_pair(split(line)) for line in lines] for split in DELIMITERS]
    best = max(readings, key=lambda reading: sum(pair is not None for pair in reading))
    pairs = tuple(pair for pair in best if pair is not None)
    if not pairs:
        example = f", such as {lines[0].strip()[:80]!r}" if lines else ""
        raise InputError(
            f"0 of {len(lines)} lines parsed as two words and a number{example}",
            where=name or str(path),
            remedy="write a pair a line, as WORD<tab>WORD<tab>SCORE",
        )
    header = best[0] is None
    return PairSet(pairs, unread=len(best) - len(pairs) - header)


def _pair(fields: Sequence[str]) -> WordPair | None:
    fields = [field.strip() for field in fields]
    if len(fields) < 3 or not (fields[0] and fields[1]):
        return None
    numbers = (number for field in fields[2:] if (number := _number(field)) is not None)
    gold = next(numbers, None)
    return None if gold is None else WordPair(fields[0], fields[1], gold)


def _number(field: str) -> float | None:
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_analogies(path: Path, name: str = "") -> AnalogySet:
    """The questions in a file of Google's format: ``: SECTION`` lines and four words a line.

    Raises:
        InputError: no line can be read, or the file is not UTF-8.
    """
    sections: dict[str, list[Question]] = {}
    section, unread, example = "all", 0, ""
    for line in _lines(path):
        if heading := re.match(r":\s*(.*\S)", line):
            section = heading[1]
        elif len(words := line.split()) == 4:
            sections.setdefault(section, []).append(Question(*words))
        elif words:
            unread, example = unread + 1, example or line.strip()
    if not sections:
        raise InputError(
            f"0 of {unread} lines parsed as four words" + (f", such as {example[:80]!r}" * unread),
            where=name or str(path),
            remedy="write a question a line, as WORD WORD WORD WORD, under lines ': SECTION'",
        )
    return AnalogySet({name: tuple(rows) for name, rows in sections.items()}, unread)


def read_text(path: Path, pipeline: TextPipeline) -> tuple[Tokens, str]:
    """A raw text file as the tokens that a model reads, and the hash of its text.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    text = _text(path)
    # Markup may span lines; without it a block of lines at a time bounds the memory.
    lines = [text] if pipeline.normalize.markup == "wikitext" else text.split("\n")
    blocks = ["\n".join(lines[i : i + BLOCK]) for i in range(0, len(lines), BLOCK)]
    partitions = [_partition(block, pipeline) for block in blocks]
    return Tokens(partitions), hashlib.sha256(text.encode()).hexdigest()


def _partition(text: str, pipeline: TextPipeline) -> TokenPartition:
    sentences, characters = pipeline.sentences_and_characters(text)
    counts = Counter(token for sentence in sentences for token in sentence)
    types = Vocabulary((), tuple(counts), np.array([*counts.values()], dtype=np.int64))
    text_ids = Sentences.of(types, sentences)
    return TokenPartition(types.words, types.counts, text_ids, np.array(characters, np.int64))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        problem, remedy = f"not UTF-8 at byte {error.start}", "convert it to UTF-8"
    except OSError as error:
        problem, remedy = f"cannot be read: {error.strerror}", ""
    raise InputError(problem, where=str(path), remedy=remedy)


def _lines(path: Path) -> list[str]:
    return re.split(r"\r\n|\r|\n", _text(path))
