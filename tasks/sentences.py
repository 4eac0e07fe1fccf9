"""Sentences within a line, by sentencex: rules and lists of abbreviations for many languages.

sentencex (Wikimedia, MIT) is one compiled module without a model and without downloads. A line end
always ends a sentence. A language without rules of its own is split by those of one close to it.
"""

from __future__ import annotations


def split_sentences(text: str, language: str) -> str:
    """A text with a sentence a line; empty lines stay."""
    import sentencex

    return "\n".join(
        "\n".join(filter(None, map(str.strip, sentencex.segment(language, line)))) or line
        for line in text.split("\n")
    )
