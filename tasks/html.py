"""HTML: the main text of a page, without navigation, advertisements and other frame.

Resiliparse (Bevendorff, Stein, Hagen and Potthast 2018, "Elastic ChatNoir") parses with lexbor and
keeps what its rules take for the main content: rules, no model, so a page gives the same text
everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import IO

from tasks.encodings import AUTO, Decoder, byte_order, canonical, declared_in_html, detect
from tasks.records import TOO_LARGE, Record, read_whole

_MAX_DEPTH = 1000
# Not those that end without an end tag.
_TAG = re.compile(
    r"<(/?)(?!(?:p|li|d[td]|t[rdh]|thead|tbody|tfoot|option|optgroup|col|colgroup|area|base|br"
    r"|embed|hr|img|input|link|meta|source|track|wbr|param|r[bpt]|rtc|body|html|head)\b)[a-z]",
    re.IGNORECASE,
)


def extractor() -> str:
    """Name and version of what extracts, and detects encodings; it shapes output: it is keyed."""
    return f"resiliparse {version('resiliparse')}"


def main_text(page: str) -> str:
    """The main text of a page: paragraphs with empty lines between them."""
    from resiliparse.extract.html2text import extract_plain_text

    text: str = extract_plain_text(page, main_content=True, alt_texts=False, list_bullets=False)
    return text


def _is_deep(page: str) -> bool:
    """Whether elements are nested deeper than any browser shows (512) and time allows.

    Extraction takes 0.1 s for 1,000 nested elements, and 10 s for 8,000.
    """
    if page.count("<") <= _MAX_DEPTH:
        return False
    depth = 0
    for match in _TAG.finditer(page):
        depth = max(0, depth - 1) if match[1] else depth + 1
        if depth > _MAX_DEPTH:
            return True
    return False


def pages(file: IO[bytes], decode: Decoder, limit: int) -> Iterator[Record]:
    """The one record that a page is."""
    data, complete = read_whole(file, limit)
    text, reason, change = decode(data)
    if not complete:
        reason = TOO_LARGE
    elif not reason and _is_deep(text):
        reason = "too_deep"
    yield Record(1, text if reason else main_text(text), reason, change)


def page_encoding(start: IO[bytes], declared: str) -> str:
    """The encoding of a page: its byte order mark, what was set, what it says, what it looks like.

    UTF-8, which is set by default, gives way to what the page says of itself.
    """
    data = start.read(4096)
    if found := byte_order(data):
        return found
    if declared not in (AUTO, "utf-8"):
        return canonical(declared)
    if found := declared_in_html(data):
        return found
    return detect(start, data) if declared == AUTO else "utf-8"
