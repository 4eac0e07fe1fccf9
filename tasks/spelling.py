r"""Passes over a line of text that make different spellings one, each a switch of its own.

A pass takes any string without ``\n`` and changes nothing in a text that needs nothing, quickly.
None takes more than linear time, whatever it is given.
"""

from __future__ import annotations

import html
import re
import unicodedata

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ENTITY_LENGTH = 34
_DOUBLE = re.compile("[\u201c-\u201f\u00ab\u00bb\uff02]")
_SINGLE = re.compile("[\u2018-\u201b\u2039\u203a\uff07]")
# Unicode's category Pd but for the hyphen itself and marks of other scripts; and the minus sign.
_DASH = re.compile("[\u2010-\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d]")
# The blocks of combining diacritical marks. Vowel signs and tones of other scripts are no accents.
_ACCENT = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_URL = re.compile(
    r"(?<!\w)(?:(?:https?|ftp)://|www\.)[^\s<>\"]*[^\s<>\".,;:!?'’”)\]}]", re.IGNORECASE
)
# The look-behind starts a search at the first character of a run only: linear in a long one.
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

# One token to every tokenizer, and never an entry that a vocabulary reserves.
URL, EMAIL, NUMBER = "_url_", "_email_", "_number_"


def repair_mojibake(line: str) -> str:
    """Text that was decoded wrongly, decoded rightly (ftfy's heuristic): "schÃ¶n" is "schön"."""
    if line.isascii():
        return line
    import ftfy

    return str(ftfy.fix_encoding(line))


def decode_entities(line: str) -> str:
    """HTML entities that end in a semicolon as characters, and so on until there is none."""
    if "&" not in line or not _ENTITY.search(line):
        return line
    made: list[str] = []
    starts: list[int] = []
    ahead = list(reversed(line))
    while ahead:
        char = ahead.pop()
        if char == "&":
            starts.append(len(made))
        made.append(char)
        if char != ";" or not starts or len(made) - starts[-1] > _ENTITY_LENGTH:
            continue
        entity = "".join(made[starts[-1] :])
        if _ENTITY.fullmatch(entity) and (value := html.unescape(entity)) != entity:
            del made[starts.pop() :]
            # An entity may stand for a piece of another one.
            ahead += reversed(value.replace("\n", " "))
    return "".join(made)


def straighten_quotes(line: str) -> str:
    """Typographic quotes as ``"`` and ``'``; primes and backticks are something else."""
    return line if line.isascii() else _SINGLE.sub("'", _DOUBLE.sub('"', line))


def unify_dashes(line: str) -> str:
    """Every dash, hyphen and minus as ``-``."""
    return line if line.isascii() else _DASH.sub("-", line)


def strip_accents(line: str) -> str:
    """Letters without combining diacritical marks: "é" is "e"; "ø" and "ł" are letters."""
    if line.isascii():
        return line
    taken = unicodedata.normalize("NFD", line)
    bare = _ACCENT.sub("", taken)
    return line if bare == taken else unicodedata.normalize("NFC", bare)


def class_urls(line: str) -> str:
    """``_url_`` for every address that starts with a scheme or with ``www.``."""
    return _URL.sub(URL, line) if "://" in line or "www." in line.lower() else line


def class_emails(line: str) -> str:
    """``_email_`` for every e-mail address."""
    return _EMAIL.sub(EMAIL, line) if "@" in line else line


def zero_digits(line: str) -> str:
    """``0`` for every decimal digit of any script."""
    return _DIGIT.sub("0", line)


def class_numbers(line: str) -> str:
    """``_number_`` for every number: digits, with points and commas between them."""
    return _NUMBER.sub(NUMBER, line)
