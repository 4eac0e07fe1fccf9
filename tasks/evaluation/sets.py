"""Reading evaluation sets: word pairs, analogy questions and raw text.

The files of well-known sets differ in what cuts a line, in their columns and in how they mark a
part of speech. All of that is told from the lines, so a set is read as its authors give it.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import Vocabulary
from tasks.counted import counted
from tasks.errors import InputError, not_utf8
from tasks.models import TextPipeline

BLOCK = 100_000
"""Lines of raw text that are made into tokens at a time."""
MOST_ROWS = 1000
"""Pairs of a section whose combinations are asked: a million questions."""


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
    """``a`` is to ``b`` as ``c`` is to any of ``answers``."""

    a: str
    b: str
    c: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class AnalogySet:
    """Analogy questions by section, in the order of the file.

    Attributes:
        sections: questions by the name of their section.
        unread: lines that are neither a question nor a pair.
    """

    sections: Mapping[str, tuple[Question, ...]]
    unread: int = 0

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return tuple(q for section in self.sections.values() for q in section)


# --- lines ----------------------------------------------------------------------------------

Cut = Callable[[str], list[str]]


def _quoted(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field of more characters than it takes
        return []


CUTS: tuple[Cut, ...] = (
    lambda line: line.split("\t"),
    lambda line: _quoted(line, ","),
    lambda line: _quoted(line, ";"),
    str.split,
)
"""How a line may be cut into fields; of those that read equally many lines the first wins."""

POS = re.compile(r"(.+)-[nvjar]")
"""A word with its part of speech, as MEN (lemma form) and BLESS write them: ``sun-n``."""


def lines_of(path: Path) -> list[str]:
    """The lines of a file that are neither empty nor comments.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    return [line for line in all_lines(path) if line.strip() and not line.startswith("#")]


def fields_of(line: str, cut: Cut) -> list[str]:
    """The fields of a line, without blanks around them."""
    return [field.strip() for field in cut(line)]


def without_pos(words: Iterable[str]) -> Callable[[str], str]:
    """What takes the part of speech off a word; nothing, unless all words carry one."""
    if all(POS.fullmatch(word) for word in words):
        return lambda word: POS.sub(r"\1", word)
    return lambda word: word


# --- pairs ----------------------------------------------------------------------------------

WORD_COLUMN = re.compile(r"(word|term|verb|noun|w|x)[ _.-]?([12ab])", re.IGNORECASE)
SCORE_COLUMN = re.compile(
    r"human \(mean\)|simlex999|mean|average|score|gold|similarity|relatedness|rating",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Columns:
    """Where in a line a pair and its score stand; None for the first number after the words."""

    first: int = 0
    second: int = 1
    gold: int | None = None

    @staticmethod
    def of(header: Sequence[str]) -> Columns | None:
        """The columns that a header names; None if the line is no such header."""
        words = [i for i, name in enumerate(header) if WORD_COLUMN.fullmatch(name)]
        if len(words) != 2:
            return None
        scores = [i for i, name in enumerate(header) if SCORE_COLUMN.fullmatch(name)]
        return Columns(words[0], words[1], scores[0] if scores else None)

    def pair(self, fields: Sequence[str]) -> WordPair | None:
        """The pair in a line; None if there is none."""
        if len(fields) <= max(self.first, self.second, self.gold or 2):
            return None
        words = fields[self.first], fields[self.second]
        rest = fields[self.second + 1 :] if self.gold is None else [fields[self.gold]]
        gold = next((number for field in rest if (number := _number(field)) is not None), None)
        return WordPair(*words, gold) if gold is not None and all(words) else None


def read_pairs(path: Path, name: str = "") -> PairSet:
    """The word pairs in a file: two words and a number, cut by tab, comma, semicolon or space.

    The delimiter is the one under which most lines read. A line that begins with ``#`` is a
    comment, a first line without a number is a header. Two words stand first, and the gold score
    is the first number after them, unless the header says otherwise (``topic,term1,term2,score``).
    If every word ends in a part of speech (``sun-n``), that is taken off.

    Raises:
        InputError: no line can be read, or the file is not UTF-8.
    """
    lines = lines_of(path)
    readings = [_pairs([fields_of(line, cut) for line in lines]) for cut in CUTS]
    best = max(readings, key=_legible)
    pairs = [pair for pair in best if pair is not None]
    if not pairs:
        example = f", such as {lines[0].strip()[:80]!r}" if lines else ""
        raise InputError(
            f"0 of {counted(len(lines), 'lines')} parsed as two words and a number{example}",
            where=name or str(path),
            remedy="write a pair a line, as WORD<tab>WORD<tab>SCORE",
        )
    bare = without_pos(word for pair in pairs for word in (pair.first, pair.second))
    header = best[0] is None
    return PairSet(
        tuple(WordPair(bare(pair.first), bare(pair.second), pair.gold) for pair in pairs),
        unread=len(best) - len(pairs) - header,
    )


def _legible(reading: Sequence[WordPair | None]) -> tuple[int, bool]:
    """How well lines read; the first aside, for "Word 1" of a header looks like a pair if cut."""
    return sum(pair is not None for pair in reading[1:]), any(reading)


def _pairs(rows: Sequence[Sequence[str]]) -> list[WordPair | None]:
    columns = Columns.of(rows[0]) if rows else None
    return [(columns or Columns()).pair(fields) for fields in rows]


def _number(field: str) -> float | None:
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# --- analogies ------------------------------------------------------------------------------


def read_analogies(files: Path | Mapping[str, Path], name: str = "") -> AnalogySet:
    """The questions in a file of Google's layout, or in files of the layout of BATS.

    Google's: ``: SECTION`` lines and four words a line. That of BATS (Gladkova et al. 2016): a word
    and its answers a line, ``WORD<tab>ANSWER/ANSWER``; every two lines of a section make a question
    in either order, ``b`` the first answer of its line, and any answer of the other line is right.

    Args:
        files: of the set; sections that have no line of their own are called by their key.
        name: of the set, for errors.

    Raises:
        InputError: no line can be read, or a file is not UTF-8.
    """
    one = isinstance(files, Path)
    sections: dict[str, list[Question]] = {}
    unread = list[str]()
    for key, path in ({"all": files} if isinstance(files, Path) else files).items():
        for section, lines in _sections(key, all_lines(path)):
            questions = [*_asked(section, lines, unread)]
            if questions:
                sections.setdefault(section, []).extend(questions)
    if not sections:
        example = f", such as {unread[0][:80]!r}" if unread else ""
        where = name or (str(files) if one else "")
        raise InputError(
            f"0 of {counted(len(unread), 'lines')} parsed as four words{example}",
            where=where,
            remedy="write a question a line, as WORD WORD WORD WORD, under lines ': SECTION', or a "
            "word and its answers, as WORD<tab>ANSWER/ANSWER",
        )
    return AnalogySet({name: tuple(rows) for name, rows in sections.items()}, len(unread))


def _sections(name: str, lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The lines under each heading."""
    held = list[str]()
    for line in lines:
        if heading := re.match(r":\s*(.*\S)", line):
            yield name, held
            name, held = heading[1], []
        elif line.strip():
            held.append(line)
    yield name, held


def _asked(section: str, lines: Sequence[str], unread: list[str]) -> Iterator[Question]:
    """The questions of a section; lines that make none are added to ``unread``."""
    rows = list[tuple[str, tuple[str, ...]]]()
    for line in lines:
        word, _, rest = line.partition("\t")
        answers = tuple(filter(None, map(str.strip, rest.split("/"))))
        words = line.split()
        if word.strip() and answers and "\t" not in rest:
            rows.append((word.strip(), answers))
        elif len(words) == 4:
            yield Question(words[0], words[1], words[2], (words[3],))
        else:
            unread.append(line.strip())
    if len(rows) > MOST_ROWS:
        raise InputError(
            f"a section of {len(rows):,} pairs, every two of which would make questions",
            where=section,
            remedy=f"give at most {MOST_ROWS:,} pairs a section, or write the questions out",
        )
    for (a, b), (c, d) in itertools.permutations(rows, 2):
        yield Question(a, b[0], c, d)


# --- text -----------------------------------------------------------------------------------


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
    # One document, for a model that reads on from sentence to sentence.
    text_ids = replace(Sentences.of(types, sentences), documents=np.array([0, len(sentences)]))
    return TokenPartition(types.words, types.counts, text_ids, np.array(characters, np.int64))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        problem, remedy = not_utf8(error), "convert it to UTF-8"
    except OSError as error:
        problem, remedy = f"cannot be read: {error.strerror}", ""
    raise InputError(problem, where=str(path), remedy=remedy)


def all_lines(path: Path) -> list[str]:
    """The lines of a file, whatever ends them.

    Raises:
        InputError: the file cannot be read or is not UTF-8.
    """
    return re.split(r"\r\n|\r|\n", _text(path))
