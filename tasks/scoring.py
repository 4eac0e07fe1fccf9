"""Running text scored by a language model.

A text is read, made into tokens as the model's own text was, and scored a block of lines at a time,
so its length does not matter; a model that reads on from sentence to sentence gets all of it at
once, as one document. What is scored, and what the figures mean, ``tasks.evaluation.perplexity``
says: every token and sentence end, unknown words as ``<unk>`` or, by a model that spells, as they
are written.

Shapes: ``N`` tokens, ``S`` sentences.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from models.capabilities import LanguageModel
from models.text import Sentences
from models.vocabulary import EOS, LM_RESERVED
from tasks.errors import InputError
from tasks.evaluation.perplexity import Tally, checked, reads_on, tally_of, terms_of, unknown_to
from tasks.export.aside import check_out, written_aside
from tasks.models import TextPipeline
from tasks.registry import OpenedModel
from tasks.unpack import Extent, opened

LINES = 4096
"""Lines that are scored at a time; at 20 words a line a block is about 80,000 tokens."""

By = Literal["token", "sentence"]


def language_model(asked: OpenedModel) -> LanguageModel:
    """The model, if it gives the probability of text.

    Raises:
        InputError: it does not.
    """
    if not isinstance(asked.model, LanguageModel):
        raise InputError(
            "this model gives no probability of text",
            where=asked.reference,
            remedy="ask a language model, such as ngram or nplm",
        )
    return asked.model


# --- reading --------------------------------------------------------------------------------


def read_lines(source: str) -> Iterator[str]:
    """The lines of a file, packed or not, or of standard input.

    Args:
        source: a path, or "-" for standard input.

    Raises:
        InputError: it cannot be read, or is not UTF-8.
    """
    if source == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed", where="-", remedy="pipe a text in")
        yield from _decoded(sys.stdin.buffer, source)
        return
    path = Path(source).expanduser()
    try:
        with opened(Extent(path, "", None, path.stat().st_size)) as members:
            for member in members:
                yield from _decoded(member.file, f"{source}{':' * bool(member.name)}{member.name}")
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise InputError(problem, where=source, remedy="name a text file") from None


def _decoded(file: Iterable[bytes], source: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"not UTF-8 at byte {error.start + 1} of the line",
                where=f"{source}, line {number}",
                remedy="convert it to UTF-8",
            ) from None
        yield from text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")


# --- scoring --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Block:
    """A stretch of text with what a model gives it.

    Attributes:
        tokens: of each sentence, as they are written.
        text: the same under the vocabulary of the model.
        scores: (N + S,) nats of every token, and of the end after those of each sentence.
        characters: (S,) of each sentence as it was written, its end included.
        spelling: (N,) UTF-8 bytes of the unknown tokens and one for their end; 0 for the others.
        unknown: (N,) which tokens the model takes for ``<unk>``.
        tally: the sums.
    """

    tokens: Sequence[Sequence[str]]
    text: Sentences
    scores: NDArray[np.float64]
    characters: NDArray[np.int64]
    spelling: NDArray[np.int64]
    unknown: NDArray[np.bool_]
    tally: Tally

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(S,) tokens of each sentence."""
        return np.diff(self.text.starts)

    def per_sentence(self, values: NDArray[Any]) -> NDArray[Any]:
        """(N + S,) values of tokens and ends, summed up: (S,)."""
        starts = self.text.starts[:-1] + np.arange(len(self.text))
        found: NDArray[Any] = np.add.reduceat(values, starts)
        return found

    def with_ends(self, values: NDArray[Any], end: int) -> NDArray[Any]:
        """(N,) values of tokens, with one for each sentence end: (N + S,)."""
        return np.insert(values, self.text.starts[1:], end)


def score_lines(
    model: LanguageModel, pipeline: TextPipeline, lines: Iterable[str]
) -> Iterator[Block]:
    """Score a text, a block of lines at a time; blocks have a sentence at least.

    Raises:
        TrainingError: the model gives what is no log-probability.
    """
    whole = reads_on(model) or pipeline.normalize.markup == "wikitext"  # markup may span lines
    given = iter(lines)
    while taken := list(given if whole else itertools.islice(given, LINES)):
        tokens, characters = pipeline.sentences_and_characters("\n".join(taken))
        if tokens:
            yield _scored(model, tokens, np.array(characters, np.int64))


def no_words(where: str) -> InputError:
    """That a text cannot be scored."""
    return InputError("there are no words in this text", where=where, remedy="give some text")


def _scored(
    model: LanguageModel, tokens: Sequence[Sequence[str]], characters: NDArray[np.int64]
) -> Block:
    text = Sentences.of(model.vocabulary, tokens)
    if reads_on(model):
        text = replace(text, documents=np.array([0, len(text)]))
    scores = checked(model.log_prob(text), text)
    spelling = np.zeros(len(text.ids), np.int64)
    unknown = unknown_to(model, text)
    flat = itertools.chain.from_iterable(tokens)
    spelling[unknown] = [
        len(word.encode("utf-8", "surrogatepass")) + 1 for word in itertools.compress(flat, unknown)
    ]
    sums = replace(
        tally_of(text, scores, unknown),
        characters=int(characters.sum()),
        spelling_bytes=int(spelling.sum()),
    )
    return Block(tokens, text, scores, characters, spelling, unknown, sums)


def summary(model: LanguageModel, sums: Tally) -> dict[str, Any]:
    """What a scored text comes to, as JSON; a figure that has no finite value is None."""
    finite = not sums.impossible
    found = {
        "perplexity": sums.perplexity if finite else None,
        "perplexity_of_known": sums.perplexity_of_known,
        "bits_per_character": sums.bits_per_character if finite else None,
        "nats": sums.nll if finite else None,
        "scored": sums.tokens + sums.ends,
        "tokens": sums.tokens,
        "sentence_ends": sums.ends,
        "unknown": sums.unknown,
        "unknown_share": sums.unknown / sums.tokens,
        "impossible": sums.impossible,
        "characters": sums.characters,
        "spelling_bytes": sums.spelling_bytes,
    }
    return {**found, **terms_of(model)}


# --- scores as a file -----------------------------------------------------------------------


def write_scores(
    asked: OpenedModel,
    source: str,
    out: Path,
    by: By,
    progress: Callable[[int], None] = lambda tokens: None,
) -> Tally:
    """Write the scores of a text as Parquet, whole or not at all.

    Columns by token: ``sentence`` and ``position`` (from 0), ``token`` as it is written, ``id`` in
    the vocabulary, ``unknown``, ``log_prob`` in nats; the last row of a sentence is its ``</s>``.
    By sentence: ``sentence``, ``tokens`` and ``unknown`` (how many), ``log_prob`` of all its tokens
    and its end, ``characters``. What a model holds for impossible has -inf. The metadata of the
    file (``lexloom``) says which model it was and what was scored.

    Args:
        asked: the model.
        source: the text, as for ``read_lines``.
        out: the file; one that is there is replaced.
        by: what a row is.
        progress: told how many tokens are done.

    Returns:
        the sums over all rows.

    Raises:
        InputError: the model gives no probability of text, the text cannot be read or has no
            words, or the file cannot be written.
    """
    model = language_model(asked)
    check_out(out, source)
    about = {"model": asked.reference, **terms_of(model)}
    schema = SCHEMAS[by].with_metadata({"lexloom": json.dumps(about)})
    sums, sentences = Tally(), 0
    rows = _by_token if by == "token" else _by_sentence
    with written_aside(out) as path:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for block in score_lines(model, asked.text, read_lines(source)):
                numbers = np.arange(sentences, sentences + len(block.text))
                writer.write_table(pa.table(rows(block, numbers), schema=schema))
                sums += block.tally
                sentences += len(block.text)
                progress(sums.tokens)
        if sums.tokens == 0:
            raise no_words(source)
    return sums


SCHEMAS: dict[By, pa.Schema] = {
    "token": pa.schema(
        [
            pa.field("sentence", pa.int64(), nullable=False),
            pa.field("position", pa.int32(), nullable=False),
            pa.field("token", pa.string(), nullable=False),
            pa.field("id", pa.int32(), nullable=False),
            pa.field("unknown", pa.bool_(), nullable=False),
            pa.field("log_prob", pa.float64(), nullable=False),
        ]
    ),
    "sentence": pa.schema(
        [
            pa.field("sentence", pa.int64(), nullable=False),
            pa.field("tokens", pa.int32(), nullable=False),
            pa.field("unknown", pa.int32(), nullable=False),
            pa.field("log_prob", pa.float64(), nullable=False),
            pa.field("characters", pa.int64(), nullable=False),
        ]
    ),
}


def _by_token(block: Block, numbers: NDArray[np.int64]) -> dict[str, Any]:
    sizes = block.sizes + 1
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return {
        "sentence": np.repeat(numbers, sizes),
        "position": (np.arange(len(block.scores)) - starts).astype(np.int32),
        "token": [token for sentence in block.tokens for token in (*sentence, EOS)],
        "id": block.with_ends(block.text.ids, LM_RESERVED.index(EOS)),
        "unknown": block.with_ends(block.unknown, 0),
        "log_prob": block.scores,
    }


def _by_sentence(block: Block, numbers: NDArray[np.int64]) -> dict[str, Any]:
    unknown = block.with_ends(block.unknown.astype(np.int32), 0)
    return {
        "sentence": numbers,
        "tokens": block.sizes.astype(np.int32),
        "unknown": block.per_sentence(unknown).astype(np.int32),
        "log_prob": block.per_sentence(block.scores),
        "characters": block.characters,
    }
