"""Analysis: sentences are told apart and words reduced to stems or lemmas; both are off by default.

It comes after deduplication and the split: filters, languages and the identity of a document see
words as they were written, and another stemmer leaves all of that, and who is in which split, as it
is. It comes before tokenization, so that every tokenizer can follow. Unlike normalization it
is done once: the stem of a stem may be another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from tasks.artifacts import Stats
from tasks.normalize import DOCUMENTS, SCHEMA
from tasks.sentences import split_sentences
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.wordforms import SNOWBALL, PartOfSpeech, reduce_words, wordnet_version


@dataclass(frozen=True)
class Analyze:
    """What is a sentence, and which form of a word stands for it."""

    sentences: Annotated[
        Literal["line", "split"],
        Field(description="One line is one sentence, or may hold several, which are split"),
    ] = "line"
    words: Annotated[
        Literal["surface", "porter", "snowball", "lemma"],
        Field(description="Words as they are, their stems, or their lemmas in WordNet"),
    ] = "surface"
    language: Annotated[
        str, Field(pattern="^[a-z]{2,3}$", description="Of the text, for sentences and Snowball")
    ] = "en"
    part_of_speech: Annotated[
        PartOfSpeech, Field(description="That every word is taken for, for lemmas")
    ] = "noun"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.words in ("porter", "lemma") and self.language != "en":
            raise ValueError(f"{self.words} is for English (en), not for {self.language}")
        if self.words == "snowball" and self.language not in SNOWBALL:
            raise ValueError(f"Snowball has stemmers for {', '.join(sorted(SNOWBALL))}")

    @property
    def enabled(self) -> bool:
        """Whether anything is to be done."""
        return self.sentences != "line" or self.words != "surface"


@dataclass(frozen=True)
class AnalyzeStep:
    """Parameters of the step: the settings, and the libraries and data that shape its output."""

    settings: Analyze
    sentencex: str = ""
    nltk: str = ""
    wordnet: str = ""

    @staticmethod
    def of(settings: Analyze) -> AnalyzeStep:
        """The parameters of these settings with what is installed.

        Raises:
            InputError: a lemma is asked for, and there is no WordNet on this machine.
        """
        lemma = settings.words == "lemma"
        return AnalyzeStep(
            settings,
            sentencex=version("sentencex") if settings.sentences == "split" else "",
            nltk=version("nltk") if settings.words in ("porter", "snowball") else "",
            wordnet=wordnet_version(settings.part_of_speech) if lemma else "",
        )


def analyze_text(text: str, params: Analyze) -> str:
    """A normalized text with a sentence a line and its words in the form that was chosen.

    Raises:
        InputError: a lemma is asked for, and there is no WordNet on this machine.
    """
    if params.sentences == "split":
        text = split_sentences(text, params.language)
    if params.words != "surface":
        text = reduce_words(text, params.words, params.language, params.part_of_speech)
    return text


def analyze(context: Context, readers: Mapping[str, Reader], params: AnalyzeStep) -> Stats:
    """Analyze a partition of documents; each keeps the id of the text that it was."""
    table = readers["documents"].table(DOCUMENTS)
    texts = []
    for n, text in enumerate(table["text"].to_pylist()):
        texts.append(analyze_text(text, params.settings))
        if n % 256 == 0:
            context.progress(n, table.num_rows, "documents")
    columns = [table["id"], table["origin"], pa.array(texts, SCHEMA.field("text").type)]
    context.out.table(DOCUMENTS, pa.table(columns, schema=SCHEMA))
    return {"documents": len(texts)}


ANALYZE: Step[AnalyzeStep] = Step("analyze", 2, "documents", analyze)
