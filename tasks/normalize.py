r"""Normalization: one spelling for one text, before anything is compared or counted.

In this order: markup is stripped (optional), control and other invisible characters are removed,
letters are lowered (optional), the text is put into Unicode form NFC, and every run of white space
within a line becomes one space. Only ``\n`` ends a line. The result is valid UTF-8, and
normalizing it again (without markup) changes nothing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from tasks.artifacts import Stats
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

# C0 and C1 controls that are no white space, lone surrogates, and format characters that show
# nothing: soft hyphen, byte order mark, word joiner, marks of direction, annotation anchors. The
# joiners U+200C and U+200D stay, they are spelling in many scripts and in emoji.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff"
    "\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb]+"
)
_ZERO_WIDTH_SPACE = "\u200b"


@dataclass(frozen=True)
class Normalize:
    """How text is normalized."""

    unicode: Annotated[Literal["NFC", "none"], Field(description="Unicode normalization form")] = (
        "NFC"
    )
    lowercase: Annotated[bool, Field(description="Lower every letter")] = False
    markup: Annotated[
        Literal["auto", "none", "wikitext"],
        Field(description="Markup to strip first; auto: wikitext from a Wikipedia dump, else none"),
    ] = "auto"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class NormalizeStep:
    """Parameters of the step: the settings, and the library data that shape its output."""

    settings: Normalize
    unicode_data: str = unicodedata.unidata_version


def normalize_text(text: str, params: Normalize) -> str:
    """Normalized text; empty if nothing is left of it.

    Args:
        text: any string, lone surrogates included.
        params: the settings.

    Returns:
        lines without blanks at their ends, at most one empty line in a row, none at the ends.
    """
    if params.markup == "wikitext":
        text = strip_wikitext(text)
    lines: list[str] = []
    for raw in text.split("\n"):
        line = _line(raw, params)
        if line or (lines and lines[-1]):
            lines.append(line)
    if lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _line(line: str, params: Normalize) -> str:
    if not line.isprintable():
        line = _INVISIBLE.sub("", line).replace(_ZERO_WIDTH_SPACE, " ")
    if params.lowercase:
        line = line.lower()
    if params.unicode == "NFC":
        line = unicodedata.normalize("NFC", line)
    if "  " in line or line[:1] == " " or line[-1:] == " " or not line.isprintable():
        line = " ".join(line.split())
    return line


def document_id(text: str) -> bytes:
    """The identity of a normalized text: 16 bytes of BLAKE2b over its UTF-8."""
    return hashlib.blake2b(text.encode(), digest_size=ID_BYTES).digest()


def normalize(context: Context, readers: Mapping[str, Reader], params: NormalizeStep) -> Stats:
    """Normalize a partition of documents; those of which nothing is left are dropped."""
    table = readers["documents"].table(DOCUMENTS)
    ids, origins, texts = [], [], []
    stats: Counter[str] = Counter({"kept": 0, "dropped.empty": 0, "changed.invisible": 0})
    rows = zip(table["origin"].to_pylist(), table["text"].to_pylist(), strict=True)
    for n, (origin, raw) in enumerate(rows):
        text = normalize_text(raw, params.settings)
        if text:
            ids.append(document_id(text))
            origins.append(origin)
            texts.append(text)
        else:
            stats["dropped.empty"] += 1
        if not raw.isprintable() and _INVISIBLE.search(raw):
            stats["changed.invisible"] += 1
        if n % 256 == 0:
            context.progress(n, table.num_rows, "documents")
    stats["kept"] = len(texts)
    columns = [ids, origins, texts]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    context.out.table(DOCUMENTS, pa.table(arrays, schema=SCHEMA))
    return dict(stats)


NORMALIZE: Step[NormalizeStep] = Step("normalize", 2, "documents", normalize)
