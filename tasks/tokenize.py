"""Tokenization into words and punctuation; surface forms are kept, nothing is cut or lost.

No token crosses white space, so a text is cut at white space first and every distinct piece is
tokenized once: the time is that of a dictionary look-up a piece, whatever the pattern costs.

Parts of an artifact of kind "tokens"::

    tokens.safetensors  ids int32 (N,) into the partition's own table of types,
                        starts int64 (S + 1,), documents int64 (D + 1,)
    types.parquet       type large_string, count int64, in the order of first appearance
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
import regex
from numpy.typing import NDArray
from pydantic import Field

from models.text import Sentences, TokenPartition, Tokens
from tasks.artifacts import Stats
from tasks.normalize import DOCUMENTS
from tasks.step import Context, Step
from tasks.store import Reader

TOKENS, TYPES_TABLE = "tokens.safetensors", "types.parquet"
TYPES_SCHEMA = pa.schema([("type", pa.large_string()), ("count", pa.int64())])

# A word is a run of letters, marks, numbers and joiners; apostrophes between two such runs and
# points or commas between two digits belong to it. Scripts written without blanks, for which this
# is no rule, are cut into characters. All else is punctuation: a grapheme (an emoji with all that
# is joined to it, a flag), or repetitions of one ("...").
_ALONE = r"[\p{Han}\p{Hiragana}]"
_WORD = rf"(?:(?!{_ALONE})[\p{{L}}\p{{M}}\p{{N}}\p{{Pc}}\u200c\u200d])+"
_PATTERN = regex.compile(
    rf"{_ALONE}\p{{M}}*"
    rf"|{_WORD}(?:(?:['’]|(?<=\p{{Nd}})[.,](?=\p{{Nd}})){_WORD})*"
    r"|(\X)\1*"
)


@dataclass(frozen=True)
class Tokenize:
    """How text is tokenized; one line is one sentence."""

    scheme: Annotated[
        Literal["words", "whitespace"],
        Field(description="Words and punctuation, or what stands between blanks"),
    ] = "words"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class TokenizeStep:
    """Parameters of the step: the settings, and the library data that shape its output."""

    settings: Tokenize
    unicode_data: str = regex.__version__


def tokenize_text(text: str, params: Tokenize) -> list[list[str]]:
    """The sentences of a text as lists of tokens; lines without any token are left out."""
    sentences = []
    for line in text.split("\n"):
        tokens = [token for piece in line.split() for token in _tokens(piece, params)]
        if tokens:
            sentences.append(tokens)
    return sentences


def _tokens(piece: str, params: Tokenize) -> list[str]:
    """The tokens of a piece of text without white space."""
    if params.scheme == "whitespace" or (piece.isascii() and piece.isalnum()):
        return [piece]
    return [match.group() for match in _PATTERN.finditer(piece)]


class _Table(dict[str, int]):
    """Numbers strings in the order of their first appearance."""

    def __missing__(self, key: str) -> int:
        self[key] = number = len(self)
        return number


def tokenize(context: Context, readers: Mapping[str, Reader], params: TokenizeStep) -> Stats:
    """Tokenize a partition of documents."""
    texts = readers["documents"].table(DOCUMENTS)["text"].to_pylist()
    pieces = _Table()
    numbers: list[int] = []
    lengths: list[int] = []
    documents = np.zeros(len(texts) + 1, np.int64)
    for d, text in enumerate(texts):
        for line in text.split("\n"):
            before = len(numbers)
            numbers.extend(map(pieces.__getitem__, line.split()))
            if len(numbers) > before:
                lengths.append(len(numbers) - before)
        documents[d + 1] = len(lengths)
    types = _Table()
    expansions = [[types[token] for token in _tokens(piece, params.settings)] for piece in pieces]
    ids, starts = _expand(np.array(numbers, np.int32), np.array(lengths, np.int64), expansions)
    counts = np.bincount(ids, minlength=len(types)).astype(np.int64)
    context.out.tensors(TOKENS, {"ids": ids, "starts": starts, "documents": documents})
    table = pa.table([pa.array(types, pa.large_string()), pa.array(counts)], schema=TYPES_SCHEMA)
    context.out.table(TYPES_TABLE, table)
    return {
        "documents": len(texts),
        "sentences": len(starts) - 1,
        "tokens": len(ids),
    }


def _expand(
    numbers: NDArray[np.int32], lengths: NDArray[np.int64], expansions: list[list[int]]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Pieces to tokens.

    Args:
        numbers: (P,) the pieces of the text.
        lengths: (S,) pieces in each sentence.
        expansions: token ids of each distinct piece.

    Returns:
        (N,) token ids and (S + 1,) sentence starts.
    """
    sizes = np.array([len(tokens) for tokens in expansions], np.int64)
    flat = np.array([token for tokens in expansions for token in tokens], np.int32)
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[numbers])])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes[numbers])
    ids = flat[np.repeat(firsts[numbers], sizes[numbers]) + within]
    starts = ends[np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])]
    return ids, starts


TOKENIZE: Step[TokenizeStep] = Step("tokenize", 1, "tokens", tokenize)


def read_tokens(reader: Reader) -> Tokens:
    """A tokenized corpus, its arrays memory-mapped."""

    def partition(i: int) -> TokenPartition:
        table, arrays = reader.table(TYPES_TABLE, i), reader.tensors(TOKENS, i)
        text = Sentences(arrays["ids"], arrays["starts"], arrays["documents"])
        return TokenPartition(table["type"].to_pylist(), table["count"].to_numpy(), text)

    return Tokens([partition(i) for i in range(reader.n_partitions)])
