"""Filters: documents that are no prose, by the rules of two well-known corpora, and by language.

All of it is off by default. Every document is kept, or dropped with one reason, the first that
applies in this order: its length; C4; Gopher's quality, then Gopher's repetition; the language.
So a dear rule sees only what the cheap ones let pass. The rules and where they come from:

* **C4**: Raffel et al. (2020), "Exploring the limits of transfer learning with a unified
  text-to-text transformer", JMLR 21(140), section 2.2. Its rules on lines make a document shorter;
  like its authors' program, they take "..." for no end of a sentence. Not here: its list of
  offensive words (give your own), citation marks, and the removal of repeated sentences.
* **Gopher**: Rae et al. (2021), "Scaling language models", arXiv:2112.11446, appendix A.1.1:
  quality filtering, and repetition with the thresholds of table A1.
* **Language**: py3langid, naive Bayes over byte n-grams (Lui & Baldwin 2012, "langid.py", ACL
  demos), 97 languages, its model inside the package: numpy is all it needs, nothing is downloaded
  and nothing unpickled. Of a document it reads the first 1,000 characters, of 1.5 million a second.

A word is what stands between white space, a paragraph what stands between empty lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Annotated, ClassVar

import pyarrow as pa
from pydantic import Field

from tasks.artifacts import Stats
from tasks.ingest import REJECTS, REJECTS_SCHEMA
from tasks.normalize import DOCUMENTS, SCHEMA, document_id
from tasks.repetition import repetition
from tasks.step import Context, Step
from tasks.store import Reader

Share = Annotated[float, Field(ge=0, le=1)]

EXAMPLE = 200
"""Characters of a dropped document that are kept."""
_READ_FOR_LANGUAGE = 1000  # characters: more of it hardly changes the answer, only the time

_BULLETS = ("-", "*", "\u2022", "\u2023", "\u25cf", "\u25e6", "\u25aa", "\u25b6", "\u00b7")
_ELLIPSES = ("...", "\u2026")
_TERMINAL = (".", "!", "?", '"', "\u201d")
_SENTENCE_END = re.compile("[.!?]+[\"'\u201d\u2019)\\]]*(?:\\s|$)")
_POLICIES = (
    "terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies",
    "use cookies",
)  # fmt: skip


@dataclass(frozen=True)
class C4:
    """The rules of C4; section 2.2 of the paper, in its order."""

    terminal: Annotated[
        bool, Field(description="Keep only lines that end in a period, ! or ?, or a quotation mark")
    ] = True
    min_sentences: Annotated[int, Field(ge=0, description="Drop documents with fewer")] = 3
    min_line_words: Annotated[int, Field(ge=0, description="Drop lines with fewer words")] = 5
    bad_words: Annotated[
        tuple[str, ...], Field(description="Drop documents with any of these words")
    ] = ()
    javascript: Annotated[bool, Field(description="Drop lines that name Javascript")] = True
    lorem_ipsum: Annotated[bool, Field(description="Drop documents of filler text")] = True
    braces: Annotated[bool, Field(description="Drop documents with a { as code")] = True
    policies: Annotated[bool, Field(description="Drop lines about cookies and terms of use")] = True

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Gopher:
    """The rules of Gopher; appendix A.1.1 of the paper, repetition by its table A1."""

    min_words: Annotated[int, Field(ge=0, description="Words of a document, at least")] = 50
    max_words: Annotated[int, Field(ge=1, description="Words of a document, at most")] = 100_000
    min_mean_length: Annotated[float, Field(ge=0, description="Characters a word")] = 3.0
    max_mean_length: Annotated[float, Field(gt=0, description="Characters a word")] = 10.0
    max_symbols: Annotated[
        float, Field(ge=0, description="Number signs a word, and ellipses a word")
    ] = 0.1
    max_bullet_lines: Annotated[Share, Field(description="Lines that start with a bullet")] = 0.9
    max_ellipsis_lines: Annotated[Share, Field(description="Lines that end in an ellipsis")] = 0.3
    min_alphabetic: Annotated[Share, Field(description="Words with a letter")] = 0.8
    min_stop_words: Annotated[int, Field(ge=0, description="Of the stop words, different")] = 2
    stop_words: Annotated[tuple[str, ...], Field(description="Words of which a text has some")] = (
        *("the", "be", "to", "of", "and", "that", "have", "with"),
    )
    max_repeated_lines: Annotated[Share, Field(description="Lines that repeat another")] = 0.30
    max_repeated_paragraphs: Annotated[
        Share, Field(description="Paragraphs that repeat another")
    ] = 0.30
    max_repeated_line_characters: Annotated[
        Share, Field(description="Characters in lines that repeat another")
    ] = 0.20
    max_repeated_paragraph_characters: Annotated[
        Share, Field(description="Characters in paragraphs that repeat another")
    ] = 0.20
    max_top_ngrams: Annotated[
        tuple[Share, Share, Share],
        Field(description="Characters in the most frequent 2-, 3- and 4-gram"),
    ] = (0.20, 0.18, 0.16)
    max_repeated_ngrams: Annotated[
        tuple[Share, Share, Share, Share, Share, Share],
        Field(description="Characters in repeated 5- to 10-grams"),
    ] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Filters:
    """Which documents are kept; by default all of them."""

    min_words: Annotated[int, Field(ge=0, description="Drop documents with fewer words")] = 0
    max_words: Annotated[int | None, Field(ge=1, description="Drop documents with more words")] = (
        None
    )
    c4: Annotated[C4 | None, Field(description="The rules of C4; {} takes them as published")] = (
        None
    )
    gopher: Annotated[
        Gopher | None, Field(description="The rules of Gopher; {} takes them as published")
    ] = None
    languages: Annotated[
        tuple[Annotated[str, Field(pattern="^[a-z]{2,3}$")], ...],
        Field(description="Keep documents in these languages only (ISO 639: en, de, ...)"),
    ] = ()
    min_confidence: Annotated[
        Share, Field(description="Of the classifier, for a language to be taken as known")
    ] = 0.5

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    @property
    def enabled(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self.min_words or self.max_words or self.c4 or self.gopher or self.languages)


@dataclass(frozen=True)
class FilterStep:
    """Parameters of the step: the settings, and the library whose model shapes its output."""

    settings: Filters
    py3langid: str = ""

    @staticmethod
    def of(settings: Filters) -> FilterStep:
        """The parameters of these settings with the library that is installed."""
        return FilterStep(settings, version("py3langid") if settings.languages else "")


def judge(text: str, filters: Filters) -> tuple[str, str]:
    """What stays of a document, and the first reason to drop it; empty to keep it."""
    n_words = len(text.split())
    if n_words < filters.min_words:
        return text, "too_short"
    if filters.max_words is not None and n_words > filters.max_words:
        return text, "too_long"
    if filters.c4:
        shorter = _c4_lines(text, filters.c4)
        if reason := next(_c4(shorter, text, filters.c4), ""):
            return text, reason
        text = shorter
    if filters.gopher and (reason := next(_gopher(text, filters.gopher), "")):
        return text, reason
    if filters.languages:
        language, confidence = identify(text)
        if confidence < filters.min_confidence:
            return text, "language_unsure"
        if language not in filters.languages:
            return text, f"language_{language}"
    return text, ""


def identify(text: str) -> tuple[str, float]:
    """The language of a text (ISO 639-1) and the probability that the classifier gives it."""
    language, confidence = _classifier()(text[:_READ_FOR_LANGUAGE])
    return language, float(confidence)


@cache
def _classifier() -> Callable[[str], tuple[str, float]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    classify: Callable[[str], tuple[str, float]] = identifier.classify
    return classify


# --- C4 -------------------------------------------------------------------------------------


def _c4_lines(text: str, rules: C4) -> str:
    """The lines that C4 keeps."""

    def kept(line: str) -> bool:
        line, low = line.strip(), line.lower()
        return not (
            (rules.terminal and (not line.endswith(_TERMINAL) or line.endswith("...")))
            or len(line.split()) < rules.min_line_words
            or (rules.javascript and "javascript" in low)
            or (rules.policies and any(policy in low for policy in _POLICIES))
        )

    return "\n".join(line for line in text.split("\n") if kept(line))


def _c4(text: str, whole: str, rules: C4) -> Iterator[str]:
    """The reasons to drop a document of which ``text`` is left."""
    low = whole.lower()
    if rules.lorem_ipsum and "lorem ipsum" in low:
        yield "c4_lorem_ipsum"
    if rules.braces and "{" in whole:
        yield "c4_brace"
    if rules.bad_words and not set(rules.bad_words).isdisjoint(re.findall(r"\w+", low)):
        yield "c4_bad_word"
    if not text:
        yield "c4_no_line_left"
    if len(_SENTENCE_END.findall(text)) < rules.min_sentences:
        yield "c4_few_sentences"


# --- Gopher -----------------------------------------------------------------------------------


def _gopher(text: str, rules: Gopher) -> Iterator[str]:
    """The reasons to drop a document."""
    words = text.split()
    n = len(words)
    if n < rules.min_words:
        yield "gopher_too_short"
    if n > rules.max_words:
        yield "gopher_too_long"
    if not rules.min_mean_length <= sum(map(len, words)) / max(1, n) <= rules.max_mean_length:
        yield "gopher_word_length"
    if max(text.count("#"), sum(map(text.count, _ELLIPSES))) > rules.max_symbols * n:
        yield "gopher_symbols"
    lines = [line for line in text.split("\n") if line.strip()]
    bullets = sum(line.lstrip().startswith(_BULLETS) for line in lines)
    if bullets > rules.max_bullet_lines * len(lines):
        yield "gopher_bullets"
    ellipses = sum(line.rstrip().endswith(_ELLIPSES) for line in lines)
    if ellipses > rules.max_ellipsis_lines * len(lines):
        yield "gopher_ellipses"
    if sum(any(map(str.isalpha, word)) for word in words) < rules.min_alphabetic * n:
        yield "gopher_alphabetic"
    lowered = {word.strip(".,;:!?\"'()").lower() for word in words}
    if len(lowered.intersection(rules.stop_words)) < rules.min_stop_words:
        yield "gopher_stop_words"
    yield from _gopher_repetition(text, lines, words, rules)


def _gopher_repetition(
    text: str, lines: list[str], words: list[str], rules: Gopher
) -> Iterator[str]:
    paragraphs = [part for part in text.split("\n\n") if part.strip()]
    for name, pieces, most, characters in (
        ("line", lines, rules.max_repeated_lines, rules.max_repeated_line_characters),
        (
            "paragraph",
            paragraphs,
            rules.max_repeated_paragraphs,
            rules.max_repeated_paragraph_characters,
        ),
    ):
        again = Counter(pieces)
        again.subtract(set(pieces))
        if sum(again.values()) > most * len(pieces):
            yield f"gopher_repeated_{name}s"
        repeated = sum(len(piece) * count for piece, count in again.items())
        if repeated > characters * sum(map(len, pieces)):
            yield f"gopher_repeated_{name}_characters"
    top, covered = repetition(words, (2, 3, 4), (5, 6, 7, 8, 9, 10))
    for size, share, most in zip((2, 3, 4), top, rules.max_top_ngrams, strict=True):
        if share > most:
            yield f"gopher_top_{size}gram"
    for size, share, most in zip(range(5, 11), covered, rules.max_repeated_ngrams, strict=True):
        if share > most:
            yield f"gopher_repeated_{size}grams"


# --- the step ---------------------------------------------------------------------------------


def filter_documents(context: Context, readers: Mapping[str, Reader], params: FilterStep) -> Stats:
    """Judge a partition of documents; the start of what is dropped is kept for people to see."""
    table = readers["documents"].table(DOCUMENTS)
    kept: list[tuple[bytes, str, str]] = []
    rejects: list[tuple[str, str, str]] = []
    stats: Counter[str] = Counter({"read": table.num_rows, "kept": 0})
    columns = (table[name].to_pylist() for name in ("id", "origin", "text"))
    for n, (name, origin, text) in enumerate(zip(*columns, strict=True)):
        left, reason = judge(text, params.settings)
        if reason:
            stats[f"dropped.{reason}"] += 1
            rejects.append((origin, reason, text[:EXAMPLE]))
        elif left == text:
            kept.append((name, origin, text))
        else:
            stats["changed.lines"] += 1
            kept.append((document_id(left), origin, left))
        if n % 256 == 0:
            context.progress(n, table.num_rows, "documents")
    stats["kept"] = len(kept)
    context.out.table(DOCUMENTS, _table(kept, SCHEMA))
    context.out.table(REJECTS, _table(rejects, REJECTS_SCHEMA))
    return dict(stats)


def _table(
    rows: list[tuple[bytes, str, str]] | list[tuple[str, str, str]], schema: pa.Schema
) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


FILTER: Step[FilterStep] = Step("filter", 1, "documents", filter_documents)
