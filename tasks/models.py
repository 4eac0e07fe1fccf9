"""A model in the store: a Config, a vocabulary, the text pipeline and arrays. Never a pickle.

Parts of a model artifact::

    config.json            the family's Config, with the discriminator ``family``; what it can do
    vocabulary.json        reserved entries, words, counts
    text.json              how raw text became tokens: normalization and tokenization
    weights.safetensors    the arrays of ``Model.state``
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from models.capabilities import EmbedsSentences, EmbedsTokens, EmbedsWords, FillsIn, Scores
from models.families import StoredConfig
from models.family import Family, Model
from models.vocabulary import Vocabulary
from tasks.analyze import Analyze, analyze_text
from tasks.artifacts import canonical_json
from tasks.errors import InputError
from tasks.joining import Joining
from tasks.normalize import Normalize, normalize_text
from tasks.phrases import read_joining
from tasks.store import Reader, Writer, map_tensors
from tasks.subwords import TOKENIZER, load_tokenizer, subword_sentences
from tasks.tokenize import Tokenize, tokenize_text

CONFIG, VOCABULARY, TEXT, WEIGHTS = (
    "config.json",
    "vocabulary.json",
    "text.json",
    "weights.safetensors",
)
FORMAT = 1
"""The version of the model format; a reader refuses any other."""


CAPABILITIES = {
    "embeds_words": EmbedsWords,
    "scores": Scores,
    "fills_in": FillsIn,
    "embeds_tokens": EmbedsTokens,
    "embeds_sentences": EmbedsSentences,
}
"""What a model may be able to do, by the name that is kept with it."""


def capabilities(model: Model) -> tuple[str, ...]:
    """The names of what a model can do."""
    return tuple(name for name, able in CAPABILITIES.items() if isinstance(model, able))


@dataclass(frozen=True)
class TextPipeline:
    """How raw text becomes the tokens that a model reads; part of every model.

    Attributes:
        normalize: the settings.
        tokenize: the settings.
        subwords: the text of a ``tokenizer.json``, in a model of subwords.
        phrases: to join, in a model of phrases.
    """

    normalize: Normalize
    tokenize: Tokenize
    subwords: str | None = None
    phrases: Joining | None = None
    analyze: Analyze = Analyze()  # noqa: RUF009 - frozen

    def with_learnt(self, readers: Mapping[str, Reader]) -> TextPipeline:
        """Completed by what the corpus learnt, if there is any among these inputs of a step."""
        if "subwords" in readers:
            subwords = readers["subwords"].path(TOKENIZER).read_text("utf-8")
            return replace(self, subwords=subwords)
        passes = sorted(role for role in readers if role.startswith("phrases "))
        if passes:
            return replace(self, phrases=read_joining([readers[role] for role in passes]))
        return self

    def sentences(self, text: str) -> list[list[str]]:
        """The sentences of a raw text as lists of tokens.

        Raises:
            ConfigError: a segmenter is not installed.
        """
        return self.sentences_and_characters(text)[0]

    def sentences_and_characters(self, text: str) -> tuple[list[list[str]], list[int]]:
        """The same, with the characters of each sentence, its end included.

        Raises:
            ConfigError: a segmenter is not installed.
        """
        clean = analyze_text(normalize_text(text, self.normalize), self.analyze)
        lines = [line for line in clean.split("\n") if line.strip()]
        sentences = tokenize_text("\n".join(lines), self.tokenize)
        if len(sentences) != len(lines):  # a line of marks that are no tokens is no sentence
            lines = [line for line in lines if tokenize_text(line, self.tokenize)]
        if self.subwords is not None:
            sentences = subword_sentences(load_tokenizer(self.subwords), sentences)
        elif self.phrases:
            sentences = self.phrases.sentences(sentences)
        return sentences, [len(line) + 1 for line in lines]


def write_model(out: Writer, model: Model, text: TextPipeline) -> None:
    """Write a model as the parts of an artifact."""
    config = json.loads(canonical_json(model.config))
    able = list(capabilities(model))
    out.json(CONFIG, {"format": FORMAT, "config": config, "capabilities": able})
    out.json(VOCABULARY, model.vocabulary.to_json())
    out.json(TEXT, json.loads(canonical_json(text)))
    out.tensors(WEIGHTS, model.state())


def read_model(source: Reader | Path) -> Model:
    """The model in an artifact, or in a folder that was pulled in the native format.

    Raises:
        InputError: a part is missing or of another format.
    """
    value = _json(source, CONFIG)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError(
            f"this model is not of format {FORMAT}", where=CONFIG, remedy="pull it again"
        )
    config: Family = TypeAdapter(StoredConfig).validate_python(value["config"])
    vocabulary = Vocabulary.from_json(_json(source, VOCABULARY))
    return config.restore(vocabulary, map_tensors(_path(source, WEIGHTS)))


def read_capabilities(source: Reader | Path) -> tuple[str, ...]:
    """What a model can do, known without loading it."""
    return tuple(_json(source, CONFIG)["capabilities"])


def read_text_pipeline(source: Reader | Path) -> TextPipeline:
    """How raw text became the tokens that the model was trained on."""
    return TypeAdapter(TextPipeline).validate_python(_json(source, TEXT))


def _path(source: Reader | Path, name: str) -> Path:
    if isinstance(source, Reader):
        return source.path(name)
    path = source / name
    if not path.is_file():
        raise InputError(f"{name} is missing", where=str(source), remedy="pull the model again")
    return path


def _json(source: Reader | Path, name: str) -> Any:
    return json.loads(_path(source, name).read_text("utf-8", "surrogatepass"))
