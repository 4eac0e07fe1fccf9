"""HTML: the main text of a page, without navigation, advertisements and other frame.

Resiliparse (Bevendorff, Stein, Hagen and Potthast 2018, "Elastic ChatNoir") parses with lexbor and
keeps what its rules take for the main content: rules, no model, so a page gives the same text
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import IO

from tasks.encodings import AUTO, Decoder, byte_order, canonical, declared_in_html, detect
from tasks.records import TOO_LARGE, Record, read_whole


def extractor() -> str:
    """Name and version of what extracts, and detects encodings; it shapes output: it is keyed."""
    return f"resiliparse {version('resiliparse')}"


def main_text(page: str) -> str:
    """The main text of a page: paragraphs with empty lines between them."""
    from resiliparse.extract.html2text import extract_plain_text

    text: str = extract_plain_text(page, main_content=True, alt_texts=False, list_bullets=False)
    return text


def pages(file: IO[bytes], decode: Decoder, limit: int) -> Iterator[Record]:
    """The one record that a page is."""
    data, complete = read_whole(file, limit)
    text, reason, change = decode(data)
    if not complete:
        reason = TOO_LARGE
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
