"""Wikipedia: the pages of an XML dump, and plain text from wiki markup.

Markup is stripped in one pass over its delimiters with a stack, so the time is linear in the
length of a page whatever it holds, and nothing that is badly nested raises: what is never closed
stays as text. Templates, tables, references, formulas, files, categories and links to other
languages go; links leave their text, and so do the few templates that only mark up words of a
sentence; ``nowiki`` and ``pre`` stay as they are; a heading, list item or paragraph is a line.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO
from xml.etree import ElementTree

# Elements whose content is not text, or not to be read as markup.
_RAW = (
    "math|chem|gallery|timeline|source|syntaxhighlight|score|imagemap|hiero|graph|mapframe"
    "|includeonly"
)
_TOKEN = re.compile(
    r"(?P<comment><!--)"
    rf"|<(?P<raw>{_RAW})\b(?P<attributes>[^<>]*)>"
    r"|<(?P<literal>nowiki|pre)\b[^<>]*(?<!/)>"
    r"|<ref\b[^<>]*/>"
    r"|(?P<open><ref\b[^<>]*>|\{\{|^[ \t:*#]*\{\||\[\[)"
    r"|(?P<close></ref\s*>|\}\}|^[ \t]*\|\}(?!\})|\]\])",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_DEPTH = 64
_FILE = re.compile(
    r":?\s*(?:file|image|media)\s*:|[^|]*\.(?:jpe?g|png|gif|svg|tiff?|og[gv]|webm|pdf|djvu|mid)\s*$",
    re.IGNORECASE,
)
_CATEGORY = re.compile(r"category\s*:", re.IGNORECASE)
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*:")
_NAMESPACE = re.compile(r"[^\W\d_]+:\S")

# Possessive, for these must not try again on what has no end.
_EXTERNAL = re.compile(r"\[(?:[a-z]{3,6}:)?//[^\s\[\]]++[^\S\n]*+([^\[\]\n]*+)\]", re.IGNORECASE)
_BREAK = re.compile(r"<br\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_QUOTES = re.compile(r"'{2,}")
_SWITCH = re.compile(r"__[A-Z]{3,30}__")
# What could be taken for markup later; as an entity it comes through.
_MARKUP = re.compile(r"[][{}|<>='*#:;_(),&]")
# Templates of the English Wikipedia that mark up words: which arguments a reader sees, counted from
# the end if negative.
_SHOWN = {
    "lang": (-1,), "transl": (-1,), "transliteration": (-1,), "abbr": (0,), "convert": (0, 1),
    "cvt": (0, 1), "val": (0,), "sic": (0,),
} | dict.fromkeys(
    ("nowrap", "nobr", "nobreak", "small", "smaller", "big", "larger", "em", "strong", "smallcaps",
     "sc", "sup", "sub", "quote", "blockquote", "cquote", "quotation", "nihongo", "angbr"),
    (0,),
)  # fmt: skip
_SIGNS = {
    "ndash": "\u2013", "mdash": "\u2014", "snd": " \u2013 ", "spnd": " \u2013 ",
    "spaced ndash": " \u2013 ", "nbsp": " ", "'": "'", "!": " ", "=": "=",
}  # fmt: skip
_NAMED = re.compile(r"\s*[\w -]+=")
# What removed templates leave of "(; text)", "(text, )" and " ()".
_LEFT_OVER = re.compile(r"[ \t]?\([ \t,;:]*+\)|(?<=\()[ \t,;:]++|(?<![ \t,;:])[ \t,;:]++(?=\))")


@dataclass(frozen=True)
class Page:
    """A page of a dump.

    Attributes:
        number: counts the pages of the dump from 1.
        namespace: 0 for articles.
        redirect: it only points to another page.
        markup: its wiki markup, None if it has none.
    """

    number: int
    namespace: int
    redirect: bool
    markup: str | None


def read_pages(file: IO[bytes]) -> Iterator[Page]:
    """The pages of a dump in their order, one in memory at a time.

    Raises:
        xml.etree.ElementTree.ParseError: the file is no well-formed XML, or ends too early.
    """
    number = 0
    root = None
    for event, element in ElementTree.iterparse(file, events=("start", "end")):
        if root is None:
            root = element
        if event == "end" and _name(element) == "page":
            number += 1
            yield _page(number, element)
            root.clear()


def _name(element: ElementTree.Element) -> str:
    return element.tag.rsplit("}", 1)[-1]


def _page(number: int, element: ElementTree.Element) -> Page:
    # Of several revisions the last is the newest.
    found = {_name(child): child for child in element.iter()}
    space, text = found.get("ns"), found.get("text")
    namespace = int(space.text) if space is not None and space.text else 0
    markup = text.text if text is not None else None
    redirect = "redirect" in found or (markup or "").lstrip()[:9].upper() == "#REDIRECT"
    return Page(number, namespace, redirect, markup)


def strip_wikitext(markup: str) -> str:
    """Plain text of wiki markup: a paragraph, heading or list item a line."""
    text = _EXTERNAL.sub(r"\1", _SWITCH.sub("", _unnest(markup)))
    text = _QUOTES.sub("", _TAG.sub("", _BREAK.sub("\n", text)))
    text = _LEFT_OVER.sub("", text)
    return html.unescape("\n".join(map(_line, text.split("\n"))))


def _line(line: str) -> str:
    line = line.strip()
    if line[:1] == "=" and line[-1:] == "=":
        return line.strip("= \t")
    if line[:4] == "----":
        return line.lstrip("-")
    return line.lstrip("*#:; \t")


def _unnest(markup: str) -> str:
    """Markup without everything that nests: links become text, the rest goes."""
    out: list[str] = []  # pieces, none of them empty
    stack: list[tuple[str, int]] = []
    still_open: Counter[str] = Counter()
    unclosed: set[str] = set()
    position = 0
    while match := _TOKEN.search(markup, position):
        if match.start() > position:
            out.append(markup[position : match.start()])
        position = match.end()
        if match["comment"] or match["raw"]:
            if not (match["attributes"] or "").endswith("/"):
                position = _skip(markup, position, match["raw"], unclosed)
        elif match["literal"]:
            end = _skip(markup, position, match["literal"], unclosed)
            out += filter(None, [_literal(markup[position:end], match["literal"])])
            position = end
        elif match["open"]:
            kind = match["open"].strip(" \t:*#")[:2].lower()
            if len(stack) < _MAX_DEPTH:
                stack.append((kind, len(out)))
                still_open[kind] += 1
        elif match["close"]:
            kind = _OPENED_BY[match["close"].strip()[:2].lower()]
            if still_open[kind]:
                begin = _pop(stack, still_open, kind)
                content = "".join(out[begin:])
                del out[begin:]
                if kind == "[[":
                    begins = not out or out[-1].endswith("\n")
                    alone = begins and markup[position : position + 1] in ("", "\n")
                    out += filter(None, [_link(content, alone)])
                elif kind == "{{" and (shown := _template(content)):
                    out.append(shown)
                elif out and out[-1][-1] == " " and markup[position : position + 1] in ",.;:":
                    out[-1] = out[-1].rstrip(" ") or "\u200b"
    out.append(markup[position:])
    return "".join(out)


_OPENED_BY = {"}}": "{{", "|}": "{|", "]]": "[[", "</": "<r"}


def _pop(stack: list[tuple[str, int]], still_open: Counter[str], kind: str) -> int:
    """Close the innermost ``kind`` and all that is open within it; returns where it began."""
    while True:
        top, begin = stack.pop()
        still_open[top] -= 1
        if top == kind:
            return begin


def _skip(markup: str, position: int, tag: str | None, unclosed: set[str]) -> int:
    """The position behind a comment or a raw element; an unclosed one is looked for only once."""
    end = re.compile(rf"</{tag}\s*>" if tag else "-->", re.IGNORECASE)
    if end.pattern not in unclosed:
        if match := end.search(markup, position):
            return match.end()
        unclosed.add(end.pattern)
    return position


def _literal(text: str, tag: str) -> str:
    """Text that is no markup, in a form in which it will not be taken for any."""
    text = html.unescape(re.sub(rf"</{tag}\s*>\Z", "", text, flags=re.IGNORECASE))
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", text)


def _template(content: str) -> str:
    """What a reader sees of ``{{content}}``, as far as that is words of the sentence."""
    name, *arguments = content.split("|")
    name = name.strip().lower()
    if not arguments:
        return _SIGNS.get(name, "")
    shown = _SHOWN.get("lang" if name.startswith("lang-") else name, ())
    positional = [argument for argument in arguments if not _NAMED.match(argument)]
    if name.startswith("lang-"):
        shown = (0,)
    found = [positional[i].strip() for i in shown if -len(positional) <= i < len(positional)]
    return " ".join(found)


def _link(content: str, alone: bool) -> str:
    """What a reader sees of ``[[content]]``."""
    target, *rest = content.split("|")
    target = target.strip()
    if _FILE.match(target) or _CATEGORY.match(target):
        return ""
    if not rest and (_LANGUAGE.match(target) or (alone and _NAMESPACE.match(target))):
        return ""
    return (rest[-1] if rest else "") or target.lstrip(":")
