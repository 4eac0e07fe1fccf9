"""A map of words as HTML: one file that needs nothing from elsewhere.

The picture is SVG and complete without scripts; a script adds zoom, drag and search. Words may
hold anything: they are escaped, what has no shape is written out, and each is a text of its own, so
that a word written from right to left turns no other.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from tasks.counted import counted
from tasks.wordmap import HEIGHT, SIZE, WIDTH, WordMap, label, label_width

_HERE = Path(__file__).parent
ISOLATE, END = "\u2068", "\u2069"
"""Between these a word has its own direction."""


def map_page(found: WordMap) -> str:
    """The page of a map."""
    page_style = (_HERE / "report.css").read_text("utf-8")
    style, script = map_style_and_script()
    title = escape(found.title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}: map of {counted(len(found.words), 'words')}</title>"
        f"<style>{page_style}{style}</style></head>"
        f"<body><h1>{title}</h1>{map_figure(found)}{script}</body></html>\n"
    )


def map_style_and_script() -> tuple[str, str]:
    """What a page with maps needs besides the style of reports: rules, and a script element."""
    script = (_HERE / "wordmap.js").read_text("utf-8")
    return (_HERE / "wordmap.css").read_text("utf-8"), f"<script>{script}</script>"


def map_figure(found: WordMap) -> str:
    """The picture of a map, with the tools that the script brings to life."""
    shown = found.labelled
    order = np.lexsort((np.arange(len(found.words)), -found.counts, ~found.chosen))
    places = np.argsort(order)
    marks = [_word(found, i, bool(shown[i]), int(places[i])) for i in range(len(found.words))]
    hidden = len(found.words) - int(shown.sum())
    more = f" {hidden:,} labels have no room; zoom in, or point at a dot." if hidden else ""
    return (
        '<div class="tools" hidden><input type="search" placeholder="find a word" '
        'aria-label="find a word"><button type="button">closer</button>'
        '<button type="button">farther</button><button type="button">whole map</button>'
        '<output class="soft small"></output></div>'
        f'<figure class="map"><svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        f'aria-label="map of words" font-size="{SIZE:g}">{"".join(marks)}</svg></figure>'
        f'<p class="small">{counted(len(found.words), "words")}; {escape(found.caption)}.{more}</p>'
    )


def _word(found: WordMap, i: int, labelled: bool, order: int) -> str:
    word, (x, y) = found.words[i], found.points[i]
    kind = " ".join(["word", *["chosen"] * bool(found.chosen[i]), *["bare"] * (not labelled)])
    text = escape(label(word))
    count = f", seen {found.counts[i]:,} times" if found.counts[i] else ""
    whole = escape("".join(map(label, word)) if len(word) <= 1000 else label(word))
    return (
        f'<g class="{kind}" transform="translate({x:.1f} {y:.1f})" data-x="{x:.2f}" '
        f'data-y="{y:.2f}" data-width="{label_width(word):.0f}" data-order="{order}" '
        f'data-word="{whole}"><title>{ISOLATE}{whole}{END}{count}</title>'
        f'<circle r="3"/><text x="6" y="4">{text}</text></g>'
    )
