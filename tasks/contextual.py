"""Vectors of tokens and of sentences in a text, as files and as answers.

A text is read and made into tokens as the model's own was, some lines at a time, so its length does
not matter. Each sentence is read alone, or else the whole text as one document by a model that
reads on from sentence to sentence.

Shapes: ``N`` tokens, ``S`` sentences, ``D`` width.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from models.capabilities import EmbedsSentences, EmbedsTokens
from models.family import FloatArray
from models.occurrences import chosen_layers, nearest_others, unit_vectors
from models.text import Sentences
from tasks.errors import ConfigError, InputError
from tasks.evaluation.perplexity import reads_on
from tasks.export.aside import check_out, written_aside
from tasks.models import TextPipeline
from tasks.registry import OpenedModel
from tasks.scoring import no_words

LINES = 512
"""Lines that are read at a time: of 20 tokens with 512 numbers in each of three layers, 60 MB."""
OCCURRENCES = 20_000
"""Of a word, at most, that are held against each other; of 512 numbers each 40 MB."""

Told = Callable[[int], None]
"""Is told how many tokens are done."""


@dataclass(frozen=True, eq=False)
class Block:
    """A stretch of text.

    Attributes:
        number: of its first sentence, from 0.
        tokens: of each sentence, as they are written.
        text: the same under the vocabulary of the model.
    """

    number: int
    tokens: Sequence[Sequence[str]]
    text: Sentences


def token_model(asked: OpenedModel) -> EmbedsTokens:
    """The model, if it has vectors of tokens in their context.

    Raises:
        InputError: it has none.
    """
    if not isinstance(asked.model, EmbedsTokens):
        raise InputError(
            "this model has no vectors of tokens in their context",
            where=asked.reference,
            remedy="ask a recurrent one, such as rnnlm or birnn",
        )
    return asked.model


def sentence_model(asked: OpenedModel) -> EmbedsSentences:
    """The model, if it has vectors of sentences.

    Raises:
        InputError: it has none.
    """
    if not isinstance(asked.model, EmbedsSentences):
        raise InputError(
            "this model has no vectors of sentences",
            where=asked.reference,
            remedy="ask a recurrent one, such as rnnlm or birnn",
        )
    return asked.model


def layers_of(asked: OpenedModel, names: Sequence[str]) -> list[int]:
    """The numbers of the layers that somebody names.

    Raises:
        ConfigError: there is no such layer.
        InputError: the model has no vectors of tokens.
    """
    try:
        return chosen_layers(token_model(asked).layers, names)
    except ValueError as error:
        raise ConfigError(str(error), where="--layer", remedy="name one of these") from None


def blocks(asked: OpenedModel, lines: Iterable[str], *, document: bool = False) -> Iterator[Block]:
    """A text by some sentences at a time; as a document all at once.

    Raises:
        ConfigError: a document for a model that reads sentences alone.
    """
    if document and not reads_on(asked.model):
        raise ConfigError(
            "this model reads each sentence alone", where="--document", remedy="leave it out"
        )
    pipeline: TextPipeline = asked.text
    whole = document or pipeline.normalize.markup == "wikitext"  # markup may span lines
    given, number = iter(lines), 0
    while taken := list(given if whole else itertools.islice(given, LINES)):
        tokens = pipeline.sentences("\n".join(taken))
        if tokens:
            text = Sentences.of(asked.model.vocabulary, tokens)
            if document:
                text = replace(text, documents=np.array([0, len(text)]))
            yield Block(number, tokens, text)
            number += len(tokens)


# --- files ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """What a file of vectors holds.

    Attributes:
        rows: of the file.
        tokens: of the text.
        sentences: of the text.
        widths: of the vectors, by layer.
        layers: the names of those that were written.
    """

    rows: int
    tokens: int
    sentences: int
    widths: tuple[int, ...]
    layers: tuple[str, ...] = ()


def write_tokens(
    asked: OpenedModel,
    lines: Iterable[str],
    out: Path,
    *,
    layers: Sequence[str] = ("last",),
    source: str = "-",
    document: bool = False,
    progress: Told = lambda tokens: None,
) -> Written:
    """Write the vectors of every token of a text as Parquet, whole or not at all.

    Columns: ``sentence`` and ``position`` (from 0), ``token`` as it is written, ``unknown``,
    ``layer`` by its name, ``vector`` (a list of fixed size; of any where layers differ in width). A
    token has a row for each layer. The metadata of the file (``lexloom``) says which model it was.

    Args:
        asked: the model.
        lines: sentences.
        out: the file; one that is there is replaced.
        layers: their names.
        source: the file that the lines are read from, "-" for none.
        document: whether all of them are read on, as one document.
        progress: told how many tokens are done.

    Raises:
        InputError: the model has no such vectors, the text cannot be read or has no words, or the
            file cannot be written, or is the text itself.
        ConfigError: there is no such layer.
    """
    check_out(out, source)
    model, numbers = token_model(asked), layers_of(asked, layers)
    names = tuple(model.layers[i] for i in numbers)
    found = (
        (block, [model.token_vectors(block.text)[i] for i in numbers])
        for block in _progressing(blocks(asked, lines, document=document), progress)
    )
    widths: tuple[int, ...] = ()

    def tables() -> Iterator[pa.Table]:
        nonlocal widths
        for block, vectors in found:
            widths = tuple(array.shape[1] for array in vectors)
            yield _token_rows(asked, block, names, vectors)

    about = {"model": asked.reference, "layers": names, "document": document}
    rows, sentences = _write(tables(), out, about)
    return Written(rows, rows // len(names), sentences, widths, names)


def write_sentences(
    asked: OpenedModel,
    lines: Iterable[str],
    out: Path,
    *,
    source: str = "-",
    progress: Told = lambda tokens: None,
) -> Written:
    """Write the vector of every sentence of a text as Parquet, whole or not at all.

    Columns: ``sentence`` (from 0), ``text`` (its tokens with blanks between), ``tokens`` (how
    many), ``vector`` (a list of fixed size). Arguments are as of ``write_tokens``.

    Raises:
        InputError: the model has no such vectors, the text cannot be read or has no words, or the
            file cannot be written, or is the text itself.
    """
    check_out(out, source)
    model, tokens, width = sentence_model(asked), 0, 0

    def tables() -> Iterator[pa.Table]:
        nonlocal tokens, width
        for block in _progressing(blocks(asked, lines), progress):
            vectors = model.sentence_vectors(block.text)
            tokens, width = tokens + len(block.text.ids), vectors.shape[1]
            yield pa.table(
                {
                    "sentence": np.arange(block.number, block.number + len(block.text)),
                    "text": [" ".join(sentence) for sentence in block.tokens],
                    "tokens": np.diff(block.text.starts).astype(np.int32),
                    "vector": _fixed(vectors),
                }
            )

    rows, sentences = _write(tables(), out, {"model": asked.reference})
    return Written(rows, tokens, sentences, (width,))


def _write(tables: Iterator[pa.Table], out: Path, about: dict[str, Any]) -> tuple[int, int]:
    """Rows of a file, and sentences."""
    first = next(tables, None)
    if first is None:
        raise no_words("the text")
    schema = first.schema.with_metadata({"lexloom": json.dumps(about)})
    rows = 0
    with written_aside(out) as path:
        # Vectors hold no repetition that a dictionary could find.
        kept = [name for name in schema.names if name != "vector"]
        with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=kept) as writer:
            for table in itertools.chain([first], tables):
                writer.write_table(table.replace_schema_metadata(schema.metadata))
                rows += len(table)
                last = int(table["sentence"][-1].as_py())
    return rows, last + 1


def _token_rows(
    asked: OpenedModel, block: Block, names: Sequence[str], vectors: Sequence[FloatArray]
) -> pa.Table:
    """A row for each token and layer, those of a token together."""
    n, sizes = len(names), np.diff(block.text.starts)
    number = np.repeat(np.arange(len(sizes)), sizes)
    position = (np.arange(len(number)) - block.text.starts[:-1][number]).astype(np.int32)
    side_by_side = np.concatenate([np.asarray(array, np.float32) for array in vectors], axis=1)
    widths = [array.shape[1] for array in vectors]
    tokens = pa.array(itertools.chain.from_iterable(block.tokens), pa.string())
    unknown = block.text.ids == asked.model.vocabulary.unknown
    return pa.table(
        {
            "sentence": np.repeat(block.number + number, n),
            "position": np.repeat(position, n),
            "token": tokens.take(pa.array(np.repeat(np.arange(len(number)), n))),
            "unknown": np.repeat(unknown, n),
            "layer": pa.array(list(names) * len(number), pa.string()),
            "vector": _cut(side_by_side, widths),
        }
    )


def _fixed(vectors: FloatArray) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def _cut(rows: FloatArray, widths: Sequence[int]) -> pa.Array:
    """Vectors that lie side by side in rows, one by one: lists of fixed size if they are alike."""
    if len(set(widths)) == 1:
        return _fixed(rows.reshape(-1, widths[0]))
    starts = np.append(0, np.cumsum(np.tile(widths, len(rows)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), pa.array(rows.ravel()))


def _progressing(found: Iterator[Block], progress: Told) -> Iterator[Block]:
    done = 0
    for block in found:
        yield block
        done += len(block.text.ids)
        progress(done)


# --- answers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A token in a text, or a sentence.

    Attributes:
        sentence: its number, from 0.
        position: of the token in it; -1 for a sentence.
        tokens: of the sentence.
        cosine: with what was asked about; 1 for that itself.
    """

    sentence: int
    position: int
    tokens: tuple[str, ...]
    cosine: float = 1.0


@dataclass(frozen=True)
class Senses:
    """Occurrences of a word and those that are used alike.

    Attributes:
        word: what was looked for.
        found: how often it stands in the text; only ``OCCURRENCES`` are held against each other.
        layer: whose vectors they are.
        near: some occurrences, each with the nearest of all others, best first.
    """

    word: str
    found: int
    layer: str
    near: tuple[tuple[Place, tuple[Place, ...]], ...]


def senses(
    asked: OpenedModel,
    word: str,
    lines: Iterable[str],
    *,
    layer: str = "last",
    k: int = 5,
    shown: int = 10,
    document: bool = False,
    progress: Told = lambda tokens: None,
) -> Senses:
    """For occurrences of a word, at even distances in a text, the nearest other occurrences.

    Raises:
        InputError: the model has no vectors of tokens, or the word stands in the text less than
            twice.
        ConfigError: what was asked for is no word, or there is no such layer.
    """
    model, (number, *more) = token_model(asked), layers_of(asked, [layer])
    if more:
        raise ConfigError("one layer tells the senses", where="--layer", remedy="name one")
    form = _as_token(asked, word)
    vectors, places, found = list[NDArray[np.float32]](), list[Place](), 0
    for block in _progressing(blocks(asked, lines, document=document), progress):
        here = [
            (s, t) for s, sentence in enumerate(block.tokens)
            for t, token in enumerate(sentence) if token == form
        ]  # fmt: skip
        found += len(here)
        here = here[: OCCURRENCES - len(places)]
        if here:
            vectors.append(_vectors_at(asked, block, here, number, document=document))
            places += [Place(block.number + s, t, tuple(block.tokens[s])) for s, t in here]
    if len(places) < 2:
        times = "once" if places else "nowhere"
        raise InputError(
            f"the word {form!r} stands {times} in this text",
            where="--file",
            remedy="give a text that has it more often, as the model's own text writes it",
        )
    rows = np.unique(np.linspace(0, len(places) - 1, min(shown, len(places))).astype(np.int64))
    numbers, cosines = nearest_others(np.concatenate(vectors), rows, k)
    near = list[tuple[Place, tuple[Place, ...]]]()
    for row, others, own in zip(rows, numbers, cosines, strict=True):
        beside = zip(others, own.tolist(), strict=True)
        near.append((places[row], tuple(replace(places[i], cosine=c) for i, c in beside)))
    return Senses(form, found, model.layers[number], tuple(near))


def _vectors_at(
    asked: OpenedModel,
    block: Block,
    here: Sequence[tuple[int, int]],
    layer: int,
    *,
    document: bool,
) -> NDArray[np.float32]:
    """The vectors of some tokens of a block; of sentences without any nothing is read."""
    wanted = list(range(len(block.tokens))) if document else sorted({s for s, _ in here})
    text = block.text
    if not document:
        text = Sentences.of(asked.model.vocabulary, [block.tokens[s] for s in wanted])
    starts = dict(zip(wanted, text.starts[:-1].tolist(), strict=True))
    rows = np.array([starts[s] + t for s, t in here])
    return np.asarray(token_model(asked).token_vectors(text)[layer][rows], np.float32)


def nearest_sentences(
    asked: OpenedModel,
    like: str,
    lines: Iterable[str],
    k: int = 10,
    progress: Told = lambda tokens: None,
) -> list[Place]:
    """The sentences of a text that are nearest to one by cosine, best first.

    Equal ones come in the order of the text; no more than a block of them is in memory.

    Raises:
        InputError: the model has no vectors of sentences, or the text has no words.
        ConfigError: what they should be like is not one sentence.
    """
    model = sentence_model(asked)
    given = asked.text.sentences(like)
    if len(given) != 1:
        raise ConfigError(
            f"one sentence is looked for, not {len(given)}", where="--like", remedy="give one"
        )
    of = unit_vectors(model.sentence_vectors(Sentences.of(asked.model.vocabulary, given)))[0]
    best = list[Place]()
    nothing = True
    for block in _progressing(blocks(asked, lines), progress):
        nothing = False
        cosines = (unit_vectors(model.sentence_vectors(block.text)) @ of).tolist()
        here = (
            Place(block.number + s, -1, tuple(tokens), cosine)
            for s, (tokens, cosine) in enumerate(zip(block.tokens, cosines, strict=True))
        )
        best = heapq.nsmallest(k, [*best, *here], key=lambda p: (-p.cosine, p.sentence))
    if nothing:
        raise no_words("the text")
    return best


def _as_token(asked: OpenedModel, word: str) -> str:
    """A word as the model's own text writes it."""
    tokens = [token for sentence in asked.text.sentences(word) for token in sentence]
    if len(tokens) != 1:
        raise ConfigError(
            f"{word!r} comes to {len(tokens)} tokens of this model, not to one",
            where="WORD",
            remedy="name one word",
        )
    return tokens[0]
