r"""Normalization: one spelling for one text, before anything is compared or counted.

A document is stripped of its markup (optional) and cut into lines; only ``\n`` ends one. Each line
goes through the passes that are switched on, in this order: mojibake is repaired, HTML entities
become characters; control and other invisible characters go, letters are lowered or folded, the
text is put into a Unicode form, every run of white space becomes one space; then accents go, quotes
and dashes become those of ASCII, addresses and numbers become classes. By default that is: no
invisible characters, NFC, single spaces.

The result is valid UTF-8, and normalizing it again (without markup) changes nothing: passes that
can make work for one another are repeated until none finds any.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from tasks.artifacts import Stats
from tasks.spelling import (
    class_emails,
    class_numbers,
    class_urls,
    decode_entities,
    repair_mojibake,
    straighten_quotes,
    strip_accents,
    unify_dashes,
    zero_digits,
)
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.wikipedia import strip_wikitext

DOCUMENTS = "documents.parquet"
"""The part of every artifact of kind "documents"."""

ID_BYTES = 16

SCHEMA = pa.schema(
    [("id", pa.binary(ID_BYTES)), ("origin", pa.string()), ("text", pa.large_string())]
)
"""Normalized documents: the hash of the text, where it came from, the text."""

# C0 and C1 controls that are no white space, and format characters that show nothing: soft
# hyphen, byte order mark, word joiner, marks of direction, annotation anchors. The joiners U+200C
# and U+200D stay, they are spelling in many scripts and in emoji.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
    "\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]+"
)
_SURROGATE = re.compile("[\ud800-\udfff]+")
_ZERO_WIDTH_SPACE = "\u200b"

# Characters that are printed, and that NFC leaves alone whatever is beside them: none is a mark,
# none is composed with another. By Unicode's policy of stability it stays so.
_INERT = "\u00a1-\u00ac\u00ae-\u02ff\u0400-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e"

_ROUNDS = 16
"""Passes are repeated so often at most; only a text made to that end needs more than three."""


@dataclass(frozen=True)
class Normalize:
    """How text is normalized."""

    unicode: Annotated[
        Literal["NFC", "NFKC", "none"], Field(description="Unicode normalization form")
    ] = "NFC"
    lowercase: Annotated[bool, Field(description="Lower every letter")] = False
    markup: Annotated[
        Literal["auto", "none", "wikitext"],
        Field(description="Markup to strip first; auto: wikitext from a Wikipedia dump, else none"),
    ] = "auto"
    casefold: Annotated[
        bool, Field(description="Fold case for comparison: lower, and \u00df as ss")
    ] = False
    invisible: Annotated[bool, Field(description="Remove control and invisible characters")] = True
    whitespace: Annotated[
        bool, Field(description="One space for every run of white space, none at the ends")
    ] = True
    mojibake: Annotated[
        bool, Field(description="Repair text that was decoded wrongly, with ftfy")
    ] = False
    entities: Annotated[bool, Field(description="Decode HTML entities")] = False
    quotes: Annotated[bool, Field(description="Typographic quotes as those of ASCII")] = False
    dashes: Annotated[bool, Field(description="Dashes and the minus sign as -")] = False
    accents: Annotated[bool, Field(description="Strip accents: \u00e9 as e")] = False
    urls: Annotated[bool, Field(description="Web addresses as _url_")] = False
    emails: Annotated[bool, Field(description="E-mail addresses as _email_")] = False
    digits: Annotated[
        Literal["keep", "zero", "class"],
        Field(description="Keep digits, make each 0, or every number _number_"),
    ] = "keep"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class NormalizeStep:
    """Parameters of the step: the settings, and the library data that shape its output."""

    settings: Normalize
    unicode_data: str = unicodedata.unidata_version
    ftfy: str = ""

    @staticmethod
    def of(settings: Normalize) -> NormalizeStep:
        """The parameters of these settings with the libraries that are installed."""
        return NormalizeStep(settings, ftfy=version("ftfy") if settings.mojibake else "")


def normalize_text(text: str, params: Normalize) -> str:
    """Normalized text; empty if nothing is left of it.

    Args:
        text: any string, lone surrogates included.
        params: the settings.

    Returns:
        lines without blanks at their ends, at most one empty line in a row, none at the ends.
    """
    return _normalized(text, params, line_normalizer(params))


def _normalized(text: str, params: Normalize, clean: Callable[[str], str]) -> str:
    if params.markup == "wikitext":
        text = strip_wikitext(text)
    if "\n" not in text:
        line = clean(text)
        return line if params.whitespace or not line.isspace() else ""
    cleaned = map(clean, text.split("\n"))
    if not params.whitespace:
        text = "\n".join(cleaned)
        return "" if text.isspace() else text
    lines: list[str] = []
    for line in cleaned:
        if line or (lines and lines[-1]):
            lines.append(line)
    if lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def normalize_line(line: str, params: Normalize) -> str:
    """One normalized line; ``markup`` is nothing that a line by itself could have."""
    return line_normalizer(params)(line)


@cache
def line_normalizer(params: Normalize) -> Callable[[str], str]:
    """What makes a line normal under these settings."""
    return _line_normalizer(params, set())


def _line_normalizer(params: Normalize, touched: set[str]) -> Callable[[str], str]:
    """The same; it adds to ``touched`` the names of optional passes that changed something."""
    basic = _basic(params)
    chosen = {
        "mojibake": repair_mojibake if params.mojibake else None,
        "entities": decode_entities if params.entities else None,
        "basic": basic,
        "accents": strip_accents if params.accents else None,
        "quotes": straighten_quotes if params.quotes else None,
        "dashes": unify_dashes if params.dashes else None,
        "urls": class_urls if params.urls else None,
        "emails": class_emails if params.emails else None,
        "digits": {"keep": None, "zero": zero_digits, "class": class_numbers}[params.digits],
    }
    passes = [(name, work) for name, work in chosen.items() if work is not None]
    if len(passes) == 1:
        return basic

    def clean(line: str) -> str:
        for _ in range(_ROUNDS):
            before = line
            for name, work in passes:
                changed = work(line)
                if changed != line:
                    touched.add(name)
                    line = changed
            if line == before:
                break
        return line

    return clean


def _basic(params: Normalize) -> Callable[[str], str]:
    """The passes that most texts need, as one function: nearly every line needs none of them."""
    form, lowercase, casefold = params.unicode, params.lowercase, params.casefold
    invisible, whitespace = params.invisible, params.whitespace

    def basic(line: str) -> str:
        plain = line.isprintable()
        if not plain:
            if invisible:
                line = _INVISIBLE.sub("", line).replace(_ZERO_WIDTH_SPACE, " ")
            line = _SURROGATE.sub("", line)
        if lowercase:
            line = line.lower()
        if casefold:
            line = line.casefold()
        if form != "none" and not line.isascii():
            changed = unicodedata.normalize(form, line)
            plain = plain and changed is line
            # What a form takes apart may be capitals: the trade mark sign is a T and an M in NFKC.
            while (lowercase or casefold) and changed != line:
                line = changed
                lower = line.casefold() if casefold else line.lower()
                changed = unicodedata.normalize(form, lower)
            line = changed
        if whitespace and (
            not (plain or line.isprintable()) or "  " in line or line[:1] == " " or line[-1:] == " "
        ):
            line = " ".join(line.split())
        return line

    return basic


def document_id(text: str) -> bytes:
    """The identity of a normalized text: 16 bytes of BLAKE2b over its UTF-8."""
    return hashlib.blake2b(text.encode(), digest_size=ID_BYTES).digest()


def document_ids(texts: pa.LargeStringArray) -> list[bytes]:
    """The ids of many texts."""
    data = memoryview(texts.buffers()[2] or b"")
    ends = _offsets(texts).tolist()
    hashed, size = hashlib.blake2b, ID_BYTES
    return [hashed(data[a:b], digest_size=size).digest() for a, b in pairwise(ends)]


def _offsets(texts: pa.LargeStringArray) -> NDArray[np.int64]:
    """Where texts begin and end in their bytes."""
    whole = np.frombuffer(texts.buffers()[1], np.int64)
    return whole[texts.offset : texts.offset + len(texts) + 1]


def _work_to_do(params: Normalize) -> str | None:
    """An expression that is found in a text unless ASCII lower case is all that it may need.

    None if a setting may change any text.
    """
    if params.entities or params.urls or params.emails or params.digits != "keep":
        return None
    if not (params.invisible and params.whitespace) or params.markup == "wikitext":
        return None
    ascii_only = params.unicode == "NFKC" or params.lowercase or params.casefold or params.mojibake
    ascii_only |= params.accents or params.quotes or params.dashes
    others = "" if ascii_only else _INERT
    return rf"[^ -~\n{others}]|^[ \n]|[ \n]\z|  | \n|\n |\n\n\n|\A\z"


def normalize(context: Context, readers: Mapping[str, Reader], params: NormalizeStep) -> Stats:
    """Normalize a partition of documents; those of which nothing is left are dropped."""
    table = readers["documents"].table(DOCUMENTS, columns=["origin", "text"])
    stats: Counter[str] = Counter({"kept": 0, "dropped.empty": 0, "changed.invisible": 0})
    settings, touched = params.settings, set[str]()
    clean = _line_normalizer(settings, touched)
    raws = pa.concat_arrays([*table["text"].chunks, pa.array([], pa.large_string())])
    # Most documents of most corpora need nothing, and are passed through as they are.
    pattern = _work_to_do(settings)
    work = pc.match_substring_regex(raws, pattern) if pattern else pa.array([True] * len(raws))
    cleaned = []
    for n, raw in enumerate(raws.filter(work).to_pylist()):
        touched.clear()
        cleaned.append(_normalized(raw, settings, clean))
        if not cleaned[-1]:
            stats["dropped.empty"] += 1
        if settings.invisible and not raw.isprintable() and _INVISIBLE.search(raw):
            touched.add("invisible")
        for name in touched - {"basic"}:
            stats[f"changed.{name}"] += 1
        if n % 256 == 0:
            context.progress(n, table.num_rows, "documents")
    texts = pc.ascii_lower(raws) if settings.lowercase or settings.casefold else raws
    texts = pc.replace_with_mask(texts, work, pa.array(cleaned, pa.large_string()))
    some = pc.greater(pc.binary_length(texts), 0)
    texts = texts.filter(some)
    stats["kept"] = len(texts)
    origins = table["origin"].combine_chunks().filter(some)
    columns = [pa.array(document_ids(texts), SCHEMA.field("id").type), origins, texts]
    context.out.table(DOCUMENTS, pa.table(columns, schema=SCHEMA))
    return dict(stats)


NORMALIZE: Step[NormalizeStep] = Step("normalize", 3, "documents", normalize)
