"""Scripts that are written without blanks: cut into characters, refused, or segmented.

A segmenter knows one language, so its setting is the name of a language; what is written in other
such scripts is then cut into characters. The libraries bring their dictionaries along and are an
extra of the package, ``segmenters``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Literal

import regex

from tasks.errors import ConfigError, InputError

Unspaced = Literal["characters", "refuse", "chinese", "japanese", "thai"]
Segment = Callable[[str], Iterable[str]]
"""Cuts a run of unspaced script into tokens; together they are the run."""

UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""The scripts, as the inside of a character class. Katakana words are runs of their own."""

LIBRARIES: dict[Unspaced, tuple[str, ...]] = {
    "characters": (),
    "refuse": (),
    "chinese": ("rjieba",),
    "japanese": ("janome",),
    "thai": ("pythainlp",),
}
_SCRIPTS = {
    "chinese": r"\p{Han}",
    "japanese": r"\p{Han}\p{Hiragana}\p{Katakana}ー",
    "thai": r"\p{Thai}",
}
_GRAPHEME = regex.compile(r"\X")


def unspaced_class(setting: Unspaced) -> str:
    """The inside of the character class whose runs a segmenter of this setting is given."""
    return UNSPACED + (r"\p{Katakana}ー" if setting == "japanese" else "")


def segmenter(setting: Unspaced) -> Segment:
    """What the setting does with a run.

    Raises:
        ConfigError: the library is not installed.
    """
    if setting == "characters":
        return _GRAPHEME.findall
    if setting == "refuse":
        return _refuse
    for library in LIBRARIES[setting]:
        if find_spec(library) is None:
            raise ConfigError(
                f"to segment {setting} takes the library {library}, which is not installed",
                where="corpus.tokenize.unspaced",
                remedy="pip install 'lexloom[segmenters]', or choose characters",
            )
    words, scripts = _library(setting), _SCRIPTS[setting]
    runs = regex.compile(rf"(?P<own>[{scripts}][{scripts}\p{{M}}]*)|\X")

    def segment(run: str) -> Iterable[str]:
        for match in runs.finditer(run):
            if match["own"] is None:
                yield match.group()
            else:
                yield from words(match.group())

    return segment


def _refuse(run: str) -> Iterable[str]:
    raise InputError(
        f"the text holds {run[:20]!r}, of a script that is written without blanks",
        where="corpus.tokenize.unspaced",
        remedy="set it to characters, or to the language of the text",
    )


@functools.cache
def _library(setting: Unspaced) -> Segment:
    if setting == "chinese":
        import rjieba

        return lambda run: rjieba.cut(run)
    if setting == "japanese":
        from janome.tokenizer import Tokenizer

        words = Tokenizer(wakati=True)
        return lambda run: words.tokenize(run)
    # Without this, to import the library makes a folder in the user's home.
    os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
    from pythainlp.tokenize import word_tokenize

    return lambda run: word_tokenize(run, engine="newmm")
