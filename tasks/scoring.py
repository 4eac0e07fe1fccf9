"""Every word of a text with its log-probability: streamed, written as Parquet, compared in pairs.

What is scored is what ``tasks.evaluation.perplexity`` says: all tokens and a sentence end each, an
unknown word as ``<unk>``, each sentence conditioned on its start alone, in nats. For a model that
reads on from sentence to sentence, so many lines as are read at a time are one document.

Columns by token::  sentence, position, token, id, unknown, log_prob
By sentence::       sentence, tokens, unknown, characters, log_prob

``log_prob`` of a sentence is that of its tokens and its end together. Sentences count from 0, and
so do positions; the sentence end has the last position and the token ``</s>``.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from models.family import Model, Scores
from models.text import Sentences
from models.vocabulary import EOS, Vocabulary
from tasks.errors import InputError, TrainingError
from tasks.evaluation import bootstrap
from tasks.evaluation.perplexity import LARGEST, RUNS, Tally, policy, reads_on
from tasks.evaluation.score import LEAST_SCORED
from tasks.models import TextPipeline
from tasks.unpack import Extent, opened

if TYPE_CHECKING:
    import pyarrow as pa

By = Literal["token", "sentence"]
LINES = 2000
"""Lines of a text that are in memory and scored at a time."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Some sentences of a text with their scores.

    Attributes:
        tokens: S sentences with N tokens as they were written.
        text: their ids.
        log_probs: (N + S,) nats, of the tokens of each sentence and then of its end.
        characters: (S,) as they were written, the sentence end included.
        vocabulary: of the model.
        policy: how they were scored, in words.
    """

    tokens: list[list[str]]
    text: Sentences
    log_probs: NDArray[np.float64]
    characters: NDArray[np.int64]
    vocabulary: Vocabulary
    policy: str

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """(N,) the tokens that the model does not know."""
        unknown: NDArray[np.bool_] = self.text.ids == self.vocabulary.unknown
        return unknown

    def by_sentence(self, values: NDArray[Any]) -> NDArray[Any]:
        """(N + S,) values of tokens and ends -> (S,) their sums."""
        starts = self.text.starts[:-1] + np.arange(len(self.text))
        sums: NDArray[Any] = np.add.reduceat(values, starts)
        return sums

    def with_ends(self, values: NDArray[Any], end: Any) -> NDArray[Any]:
        """(N,) values of tokens -> (N + S,) with one for each sentence end."""
        return np.insert(values, self.text.starts[1:], end)

    @property
    def spelling(self) -> NDArray[np.int64]:
        """(S,) UTF-8 bytes of the unknown tokens of each sentence, with one each for their ends."""
        flat = itertools.chain.from_iterable(self.tokens)
        bytes_ = [
            len(token.encode("utf-8", "surrogatepass")) + 1 if unknown else 0
            for token, unknown in zip(flat, self.unknown, strict=True)
        ]
        return self.by_sentence(self.with_ends(np.array(bytes_, np.int64), 0))

    @property
    def tally(self) -> Tally:
        """Their sums."""
        nll = -self.log_probs
        return Tally(
            tokens=len(self.text.ids),
            ends=len(self.text),
            unknown=int(self.unknown.sum()),
            impossible=int(np.isposinf(nll).sum()),
            nll=float(nll.sum()),
            nll_unknown=float(nll[self.with_ends(self.unknown, False)].sum()),
            characters=int(self.characters.sum()),
            spelling_bytes=int(self.spelling.sum()),
        )


def read_blocks(source: str, lines: int = LINES) -> Iterator[str]:
    """A text, so many whole lines at a time.

    Args:
        source: a file, packed or not, or ``-`` for standard input.
        lines: at a time.

    Raises:
        InputError: there is no such file, it is damaged, or it is not UTF-8.
    """
    if source == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed", where="-", remedy="pipe a text in")
        yield from _decoded(sys.stdin.buffer, source, lines)
        return
    path = Path(source)
    if not path.is_file():
        raise InputError("there is no such file", where=source, remedy="name a text file, or -")
    with opened(Extent(path, "", None, path.stat().st_size)) as members:
        for member in members:
            yield from _decoded(member.file, f"{source} {member.name}".strip(), lines)


def _decoded(file: Any, where: str, lines: int) -> Iterator[str]:
    first = 1
    while block := list(itertools.islice(iter(file.readline, b""), lines)):
        text = io.StringIO()
        for number, line in enumerate(block, first):
            try:
                text.write(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                raise InputError(
                    f"not UTF-8 at byte {error.start} of the line",
                    where=f"{where}, line {number}",
                    remedy="convert it to UTF-8",
                ) from None
        first += len(block)
        yield text.getvalue()


def score_text(
    model: Model, pipeline: TextPipeline, blocks: Iterable[str], *, where: str
) -> Iterator[Scored]:
    """Score a text, a block at a time; blocks without words give nothing.

    Args:
        model: one that ``Scores``.
        pipeline: how text becomes its tokens.
        blocks: see ``read_blocks``.
        where: what people call the model, for errors.

    Raises:
        InputError: the model gives no probability of text.
        TrainingError: the model gives a log-probability that is above 0 or not a number.
    """
    if not isinstance(model, Scores):
        raise InputError(
            "this model gives no probability of text",
            where=where,
            remedy="ask a language model, such as ngram or nplm",
        )
    for block in blocks:
        tokens, characters = pipeline.sentences_and_characters(block)
        if not tokens:
            continue
        text = text_for(model, tokens)
        log_probs = np.asarray(model.log_prob(text), np.float64)
        if not (log_probs <= 1e-6).all():
            raise TrainingError(
                "the model gives a log-probability that is above 0 or not a number",
                where=where,
                remedy="train it again, with a lower learning rate if it has one",
            )
        lengths = np.array(characters, np.int64)
        yield Scored(tokens, text, log_probs, lengths, model.vocabulary, policy(model))


def text_for(model: Model, tokens: list[list[str]]) -> Sentences:
    """Sentences as a model scores them: one document, if it reads on from one to the next."""
    text = Sentences.of(model.vocabulary, tokens)
    if reads_on(model):
        return replace(text, documents=np.array([0, len(text)], np.int64))
    return text


def summary(sums: Tally, model: Model) -> dict[str, Any]:
    """What the scores of a text come to; figures that are not finite are None, with the reason."""
    why = "there are no words in this text" if not sums.ends else ""
    if sums.impossible:
        why = f"the model holds {sums.impossible:,} of its words or ends for impossible"
    return {
        "perplexity": None if why else sums.perplexity,
        "bits_per_character": None if why else sums.bits_per_character,
        "perplexity_of_known": sums.perplexity_of_known,
        "undefined": why,
        "tokens": sums.tokens,
        "sentence_ends": sums.ends,
        "unknown": sums.unknown,
        "impossible": sums.impossible,
        "vocabulary": model.vocabulary.hash,
        "policy": policy(model),
    }


# --- Parquet --------------------------------------------------------------------------------


def write_scores(
    scored: Iterable[Scored], path: Path, by: By, about: dict[str, str], *, force: bool = False
) -> Tally:
    """Write scores as Parquet, whole or not at all.

    Args:
        scored: see ``score_text``.
        path: of the file.
        by: a row a token or a sentence.
        about: what else the file says of itself, as metadata of its schema.
        force: replace a file.

    Raises:
        InputError: there is a file, or the text has no words.
    """
    import pyarrow.parquet as pq

    if path.exists() and not force:
        raise InputError(
            "there is something already", where=str(path), remedy="--force replaces it"
        )
    sums, sentence = Tally(), 0
    writer: pq.ParquetWriter | None = None
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        for block in scored:
            table = _table(block, by, sentence)
            if writer is None:
                schema = table.schema.with_metadata(
                    {**about, "policy": block.policy, "unit": "nats"}
                )
                writer = pq.ParquetWriter(draft, schema, compression="zstd")
            writer.write_table(table.replace_schema_metadata(writer.schema.metadata))
            sums, sentence = sums + block.tally, sentence + len(block.text)
        if writer is None:
            raise InputError("there are no words in this text", where=about.get("text", ""))
        writer.close()
        draft.replace(path)
    finally:
        if writer is not None:
            writer.close()
        draft.unlink(missing_ok=True)
    return sums


def _table(block: Scored, by: By, first: int) -> pa.Table:
    """The rows of some sentences, of which the first has this number."""
    import pyarrow as pa

    numbers = first + np.arange(len(block.text), dtype=np.int64)
    sizes = np.diff(block.text.starts)
    if by == "sentence":
        unknown = block.by_sentence(block.with_ends(block.unknown.astype(np.int64), 0))
        return pa.table(
            {
                "sentence": numbers,
                "tokens": sizes.astype(np.int64),
                "unknown": unknown,
                "characters": block.characters,
                "log_prob": block.by_sentence(block.log_probs),
            }
        )
    end = block.vocabulary.reserved.index(EOS)
    starts = block.text.starts[:-1] + np.arange(len(block.text))
    places = np.arange(len(block.log_probs)) - np.repeat(starts, sizes + 1)
    tokens = [token for sentence in block.tokens for token in (*sentence, EOS)]
    return pa.table(
        {
            "sentence": np.repeat(numbers, sizes + 1),
            "position": places.astype(np.int32),
            "token": tokens,
            "id": block.with_ends(block.text.ids, end).astype(np.int32),
            "unknown": block.with_ends(block.unknown, False),
            "log_prob": block.log_probs,
        }
    )


# --- two models -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """Two models on one text.

    Attributes:
        unit: "perplexity", or "bits_per_character" where the vocabularies differ.
        first: of the first model.
        second: of the second.
        difference: the first less the second.
        interval: of the difference, by the paired bootstrap; None of fewer than 20 sentences.
        p_value: how often resamples fall on the other side of 0, twice; None without an interval.
        sentences: of the text.
        note: what is to be known, such as why perplexities are not compared.
    """

    unit: str
    first: float
    second: float
    difference: float
    interval: bootstrap.Interval | None
    p_value: float | None
    sentences: int
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def compare(first: Iterable[Scored], second: Iterable[Scored], *, where: str) -> Compared:
    """How two models differ on the same text, and whether that may be chance.

    Over one vocabulary and one tokenization it is perplexities that are compared; else bits a
    character, where every unknown word is spelt out besides (see ``tasks.evaluation.perplexity``).

    Args:
        first: the scores of a model.
        second: those of another, on the same text.
        where: of the text, for errors.

    Raises:
        InputError: they see other sentences, the text has no words, or one holds it for impossible.
    """
    rows: list[tuple[NDArray[np.float64], ...]] = []
    alike = True
    for one, other in itertools.zip_longest(first, second):
        if one is None or other is None or len(one.text) != len(other.text):
            raise InputError(
                "the two models cut this text into different sentences",
                where=where,
                remedy="compare models whose text is normalized and split in one way",
            )
        alike &= one.vocabulary.hash == other.vocabulary.hash and one.tokens == other.tokens
        rows.append((*_nats_and_bits(one), *_nats_and_bits(other)))
    if not rows:
        raise InputError("there are no words in this text", where=where)
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    if alike:
        parts, wholes = np.stack([columns[0], columns[4]], axis=1), columns[2]
    else:
        parts, wholes = np.stack([columns[1], columns[5]], axis=1), columns[3]
        if not np.array_equal(columns[3], columns[7]):
            raise InputError(
                "the two models normalize this text differently, and share no vocabulary",
                where=where,
                remedy="compare models of one normalization",
            )
    if not np.isfinite(parts).all():
        raise InputError(
            "one of the two models holds words of this text for impossible: it has no finite "
            "perplexity here",
            where=where,
            remedy="compare a smoothed model, or a mixture with one",
        )
    return _compared(parts, wholes, alike)


def _nats_and_bits(block: Scored) -> tuple[NDArray[np.float64], ...]:
    """Of each sentence: its nats, its bits with unknown words spelt, its positions, characters."""
    nats = -block.by_sentence(block.log_probs)
    bits = nats / math.log(2) + 8 * block.spelling
    positions = (np.diff(block.text.starts) + 1).astype(np.float64)
    return nats, bits, positions, block.characters.astype(np.float64)


def _compared(parts: NDArray[np.float64], wholes: NDArray[np.float64], alike: bool) -> Compared:
    def figure(mean: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(np.minimum(mean, LARGEST)) if alike else mean

    one, other = figure(parts.sum(axis=0) / wholes.sum()).tolist()
    n = len(wholes)
    interval, p_value = None, None
    if n >= LEAST_SCORED:
        # Neighbours are alike: where there are many sentences, runs of them are what is drawn.
        runs = np.linspace(0, n, min(RUNS, n), endpoint=False).astype(np.int64)
        drawn = figure(
            bootstrap.ratios(np.add.reduceat(parts, runs, axis=0), np.add.reduceat(wholes, runs))
        )
        differences = drawn[:, 0] - drawn[:, 1]
        interval = bootstrap.interval(differences)
        beyond = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
        p_value = min(1.0, 2 * (beyond + 1) / (len(differences) + 1))
    note = "" if alike else "not over one vocabulary: bits a character compare, perplexities do not"
    unit = "perplexity" if alike else "bits_per_character"
    return Compared(unit, one, other, one - other, interval, p_value, n, note)
