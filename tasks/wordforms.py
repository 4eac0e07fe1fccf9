"""Stems and lemmas: words of one kind under one spelling.

* **Porter** (1980, "An algorithm for suffix stripping", Program 14(3)), English, with the
  extensions of NLTK, which leave short words whole ("are" is no "ar").
* **Snowball**: Porter's later stemmers for fifteen languages, by NLTK.
* **Lemma**: the entry of WordNet that an English word is a form of, as one part of speech:
  WordNet's *morphy*, lists of exceptions and rules of detachment, and of several entries the
  shortest, as in NLTK's ``WordNetLemmatizer``. The dictionary files are read here, as Debian or
  NLTK install them.

A word is a run of letters and marks, with apostrophes inside. What touches a digit or an underscore
stays as it is. Stems are in small letters; a word that is its own lemma keeps its case.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import regex

from tasks.errors import InputError

Form = Literal["porter", "snowball", "lemma"]
PartOfSpeech = Literal["noun", "verb", "adjective", "adverb"]

SNOWBALL = {
    "ar": "arabic", "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish",
    "fr": "french", "de": "german", "hu": "hungarian", "it": "italian", "no": "norwegian",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "es": "spanish", "sv": "swedish",
}  # fmt: skip
"""The stemmer of every language that has one."""

_WORD = regex.compile(
    r"(?<![\p{L}\p{M}\p{N}\p{Pc}])[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)*+(?![\p{N}\p{Pc}])"
)
_INSTALLED = (Path("/usr/share/wordnet"), Path("/usr/local/WordNet-3.0/dict"))
_FILES: Mapping[PartOfSpeech, str] = {
    "noun": "noun", "verb": "verb", "adjective": "adj", "adverb": "adv",
}  # fmt: skip
_RULES: Mapping[PartOfSpeech, tuple[tuple[str, str], ...]] = {
    "noun": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"),
        ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ),
    "verb": (
        ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"),
        ("ing", ""),
    ),
    "adjective": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adverb": (),
}  # fmt: skip


def reduce_words(text: str, form: Form, language: str, part_of_speech: PartOfSpeech) -> str:
    """A text with every word as its stem or lemma.

    Raises:
        InputError: a lemma is asked for, and there is no WordNet on this machine.
    """
    reduce = _lemmatizer(part_of_speech) if form == "lemma" else _stemmer(form, language)
    return str(_WORD.sub(lambda match: reduce(match.group()), text))


@cache
def _stemmer(form: Form, language: str) -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer
    from nltk.stem.snowball import SnowballStemmer

    made = PorterStemmer() if form == "porter" else SnowballStemmer(SNOWBALL[language])
    stem: Callable[[str], str] = cache(made.stem)
    return stem


# --- WordNet ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lemmas:
    """The entries of a part of speech, the exceptions to its rules, and the rules.

    Attributes:
        entries: lemmas.
        exceptions: lemmas of irregular forms.
        rules: endings, and what stands for them in a lemma.
    """

    entries: frozenset[str]
    exceptions: Mapping[str, tuple[str, ...]]
    rules: tuple[tuple[str, str], ...]

    def of(self, word: str) -> str:
        """The lemma of a word; the word itself if there is none."""
        low = word.lower()
        # One ending at most: with more off, "less" would be a form of "le".
        forms = self.exceptions.get(low) or tuple(
            low.removesuffix(ending) + instead
            for ending, instead in self.rules
            if low.endswith(ending)
        )
        known = [form for form in (low, *forms) if form in self.entries]
        lemma = min(known, key=len, default=low)
        return word if lemma == low else lemma


@cache
def _lemmatizer(part_of_speech: PartOfSpeech) -> Callable[[str], str]:
    index, exceptions = _wordnet(part_of_speech)
    entries = (line.split(" ", 1)[0] for line in index.splitlines() if line[:1] != " ")
    irregular = {form: tuple(rest) for form, *rest in map(str.split, exceptions.splitlines())}
    lemmas = Lemmas(frozenset(entries), irregular, _RULES[part_of_speech])
    return cache(lemmas.of)


def wordnet_version(part_of_speech: PartOfSpeech) -> str:
    """What the dictionary files of a part of speech are: the start of their hash.

    Raises:
        InputError: there is no WordNet on this machine.
    """
    data = "\0".join(_wordnet(part_of_speech)).encode()
    return hashlib.sha256(data).hexdigest()[:16]


@cache
def _wordnet(part_of_speech: PartOfSpeech) -> tuple[str, str]:
    """The index and the exceptions of a part of speech."""
    name = _FILES[part_of_speech]
    for folder in _folders():
        index, exceptions = folder / f"index.{name}", folder / f"{name}.exc"
        if index.is_file() and exceptions.is_file():
            return index.read_text("utf-8"), exceptions.read_text("utf-8")
    raise InputError(
        "lemmas need the dictionary of WordNet, which is not on this machine",
        where="analyze.words",
        remedy="install it (apt-get install wordnet-base, or python -m nltk.downloader wordnet), "
        "or name its folder in WNSEARCHDIR",
    )


def _folders() -> Iterator[Path | zipfile.Path]:
    """Where WordNet may be: where it is said to be, or where its packages put it."""
    if said := os.environ.get("WNSEARCHDIR"):
        yield Path(said)
    yield from _INSTALLED
    shared = [Path(sys.prefix), Path(sys.prefix) / "share", Path("/usr/share")]
    roots = [Path(root) for root in os.environ.get("NLTK_DATA", "").split(os.pathsep) if root]
    roots += [base / "nltk_data" for base in (Path.home(), *shared, Path("/usr/local/share"))]
    for root in roots:
        yield root / "corpora" / "wordnet"
        if (packed := root / "corpora" / "wordnet.zip").is_file():
            yield zipfile.Path(packed, "wordnet/")
