"""Tokenization into words, characters or bytes; nothing is cut or lost.

A text is cut at white space first, and every distinct piece is tokenized once: the time is that of
a dictionary look-up a piece, whatever the scheme costs. (Subword schemes begin with the pieces too;
see ``tasks.subwords``.)

``words``
    Runs of letters, marks, numbers and joiners, and punctuation. Apostrophes between two such runs
    and points or commas between two digits belong to the word: ``don't``, ``3.14``; ``e.g.`` is
    four tokens. As Unicode's annex 29 has it but for ``MidLetter``: a colon or a point between two
    letters separates. What scripts without blanks become is the setting ``unspaced``.
``whitespace``
    The pieces as they stand, for text that is tokenized already.
``treebank``
    As the Penn Treebank has it (``do|n't``, quotes as ````|''``, the point at a line's end apart),
    by NLTK's ``NLTKWordTokenizer``; here the spelling of quotes changes.
``characters``
    Grapheme clusters of Unicode's annex 29, blanks as ``▁``.
``bytes``
    Bytes of the UTF-8 as ``<0x41>``, blanks included.

Parts of an artifact of kind "tokens"::

    tokens.safetensors  ids int32 (N,) into the partition's own table of types,
                        starts int64 (S + 1,), documents int64 (D + 1,),
                        characters int64 (S,)
    types.parquet       type large_string, count int64, in the order of first appearance
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex
from numpy.typing import NDArray
from pydantic import Field

from models.text import Sentences, TokenPartition, Tokens
from tasks.artifacts import Stats
from tasks.normalize import DOCUMENTS
from tasks.segment import LIBRARIES, Unspaced, segmenter, unspaced_class
from tasks.step import Context, Step
from tasks.store import Reader, Writer

if TYPE_CHECKING:
    from models.kernels.words import Words

TOKENS, TYPES_TABLE = "tokens.safetensors", "types.parquet"
TYPES_SCHEMA = pa.schema([("type", pa.large_string()), ("count", pa.int64())])

SUBWORDS = ("bpe", "wordpiece", "unigram")
BLANK = "▁"
"""How a blank looks as a character, and the beginning of a word in subwords."""

# All that is no word is punctuation: a grapheme (an emoji with all that is joined to it, a flag),
# or repetitions of one ("...").
_PUNCTUATION = r"(?P<mark>\X)(?P=mark)*"
# All of the scheme "words" that there is of it in ASCII, by a library of twice the speed.
_ASCII = re.compile(r"\w+(?:(?:'|(?<=\d)[.,](?=\d))\w+)*|(\W)\1*", re.ASCII)
_GRAPHEME = regex.compile(r"\X")
_BLANKS_AND_PIECES = regex.compile(r" |[^ ]+")
# The Treebank rules look beyond a piece where a line begins, and where it ends: a point is cut off
# there before nothing but closing brackets and quotes. These last pieces are tokenized as one.
_TAIL = regex.compile(r"\S+(?: [\])}>\"'»”’]+)*$")
_NONE = np.zeros(0, np.int64)
_BATCH = 1 << 24  # bytes
_LARGE = 1 << 20  # bytes, for which it pays to start a compiled kernel
_CONTRACTED = {"cannot", "gimme", "gonna", "gotta", "lemme", "wanna", "whaddya", "whatcha"}


@dataclass(frozen=True)
class Tokenize:
    """How text is tokenized; one line is one sentence."""

    scheme: Annotated[
        Literal[
            "words", "whitespace", "treebank", "characters", "bytes", "bpe", "wordpiece", "unigram"
        ],
        Field(
            description="Words and punctuation; what stands between blanks; Penn Treebank; "
            "characters (grapheme clusters); bytes; or subwords, learnt from the training text"
        ),
    ] = "words"
    unspaced: Annotated[
        Unspaced,
        Field(
            description="Scheme words: what becomes of scripts written without blanks; cut into "
            "characters, refused, or segmented as one language (pip install 'lexloom[segmenters]')"
        ),
    ] = "characters"
    vocab_size: Annotated[
        int, Field(ge=100, le=1_000_000, description="Subword schemes: entries to learn, at most")
    ] = 8000

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    @property
    def learns(self) -> bool:
        """Whether the scheme is learnt from the training text."""
        return self.scheme in SUBWORDS

    def first(self) -> Tokenize:
        """What the step ``tokenize`` does, without the settings that do not matter to it."""
        if self.scheme == "words":
            return Tokenize("words", self.unspaced)
        return Tokenize("whitespace" if self.learns else self.scheme)


@dataclass(frozen=True)
class TokenizeStep:
    """Parameters of the step: the settings, and the libraries that shape its output."""

    settings: Tokenize
    unicode_data: str = regex.__version__
    libraries: str = ""

    @staticmethod
    def of(settings: Tokenize) -> TokenizeStep:
        """The step that a corpus of these settings begins with.

        Raises:
            ConfigError: the settings ask for a segmenter that is not installed.
        """
        settings = settings.first()
        names = ("nltk",) if settings.scheme == "treebank" else LIBRARIES[settings.unspaced]
        if settings.scheme == "words":
            segmenter(settings.unspaced)
        return TokenizeStep(settings, libraries=" ".join(f"{n} {version(n)}" for n in names))


def tokenize_text(text: str, params: Tokenize) -> list[list[str]]:
    """The sentences of a text as lists of tokens; lines without any token are left out.

    Of a subword scheme, the pieces that it begins with.
    """
    pieces, cut = _scheme(params)
    lines = ([token for piece in pieces(line) for token in cut(piece)] for line in text.split("\n"))
    return [tokens for tokens in lines if tokens]


Pieces = Callable[[str], list[str]]
"""Cuts a line into pieces that can be tokenized each by itself."""
Cut = Callable[[str], list[str]]
"""The tokens of a piece."""


def _scheme(params: Tokenize) -> tuple[Pieces, Cut]:
    match params.first().scheme:
        case "words":
            return str.split, _words(params.unspaced)
        case "treebank":
            return _treebank_pieces, _treebank()
        case "characters":
            return _blanks_and_pieces, lambda p: [BLANK] if p == " " else _GRAPHEME.findall(p)
        case "bytes":
            return _blanks_and_pieces, lambda p: [f"<0x{b:02X}>" for b in p.encode()]
        case _:
            return str.split, lambda piece: [piece]


def _words(unspaced: Unspaced) -> Cut:
    segment, scripts = segmenter(unspaced), unspaced_class(unspaced)
    word = rf"(?:(?![{scripts}])[\p{{L}}\p{{M}}\p{{N}}\p{{Pc}}\u200c\u200d])+"
    pattern = regex.compile(
        rf"(?P<alone>[{scripts}][{scripts}\p{{M}}]*)"
        rf"|{word}(?:(?:['’]|(?<=\p{{Nd}})[.,](?=\p{{Nd}})){word})*"
        rf"|{_PUNCTUATION}"
    )

    def tokens(piece: str) -> Iterator[str]:
        if piece.isascii():
            yield from (match.group() for match in _ASCII.finditer(piece))
            return
        for match in pattern.finditer(piece):
            if match["alone"] is None:
                yield match.group()
            else:
                yield from segment(match.group())

    def cut(piece: str) -> list[str]:
        return [piece] if piece.isascii() and piece.isalnum() else list(tokens(piece))

    return cut


def _blanks_and_pieces(line: str) -> list[str]:
    return _BLANKS_AND_PIECES.findall(" ".join(line.split()))


def _treebank_pieces(line: str) -> list[str]:
    """The pieces of a line, with a blank before all but the first and a line end after the last."""
    line = " ".join(line.split())
    tail = _TAIL.search(line)
    if tail is None:
        return []
    pieces = [*line[: tail.start()].split(), tail.group() + "\n"]
    return [pieces[0], *(f" {piece}" for piece in pieces[1:])]


def _treebank() -> Cut:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenizer = NLTKWordTokenizer()

    def cut(piece: str) -> list[str]:
        word = piece.strip()
        if word.isascii() and word.isalpha() and word.lower() not in _CONTRACTED:
            return [word]
        before, after = "x" * piece.startswith(" "), " x" * (not piece.endswith("\n"))
        tokens: list[str] = tokenizer.tokenize(f"{before}{piece.rstrip()}{after}")
        return tokens[len(before) : len(tokens) - len(after) // 2]

    return cut


class _Table(dict[str, int]):
    """Numbers strings in the order of their first appearance."""

    def __missing__(self, key: str) -> int:
        self[key] = number = len(self)
        return number


def tokenize(context: Context, readers: Mapping[str, Reader], params: TokenizeStep) -> Stats:
    """Tokenize a partition of documents."""
    column = readers["documents"].table(DOCUMENTS, columns=["text"])["text"]
    return write_tokens(context.out, *tokenize_column(column, params.settings))


def tokenize_column(
    column: pa.ChunkedArray, params: Tokenize
) -> tuple[list[str], Sentences, NDArray[np.int64]]:
    """Texts as ids into their types, which stand in the order of first appearance.

    Returns:
        the types, the ids, and (S,) the characters of each sentence with its end.
    """
    split, cut = _scheme(params)
    if split is str.split and column.nbytes >= _LARGE:
        pieces, text, characters = _counted(column)
    else:
        pieces, text, characters = _listed(column, split)
    types, sizes, tokens = _tokens(pieces, params, cut)
    ids, starts = expand(text.ids, text.starts, sizes, tokens)
    return types, Sentences(ids, starts, text.documents), characters


def _tokens(
    pieces: pa.Array, params: Tokenize, cut: Cut
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32]]:
    """The types in pieces; how many tokens each piece has; all tokens, as indices of types."""
    match params.first().scheme:
        case "words":
            whole = pc.ascii_is_alnum(pieces).to_numpy(zero_copy_only=False)
        case "treebank" | "characters" | "bytes":
            whole = np.zeros(len(pieces), np.bool_)
        case _:
            whole = np.ones(len(pieces), np.bool_)
    parts = [cut(piece) for piece in pieces.filter(pa.array(~whole)).to_pylist()]
    sizes = np.ones(len(pieces), np.int64)
    sizes[~whole] = [len(part) for part in parts]
    flat = pa.array([token for part in parts for token in part], pa.large_string())
    # Both in their order: whole pieces are taken from the pieces, all others from the parts.
    source = np.repeat(np.where(whole, np.arange(len(pieces)), -1), sizes)
    source[source < 0] = len(pieces) + np.arange(len(flat))
    encoded = pa.concat_arrays([pieces, flat]).take(pa.array(source)).dictionary_encode()
    return encoded.dictionary.to_pylist(), sizes, encoded.indices.to_numpy()


Listed = tuple[pa.LargeStringArray, Sentences, NDArray[np.int64]]
"""Distinct pieces, a text as indices of them, and the characters of each sentence with its end."""


def _counted(column: pa.ChunkedArray) -> Listed:
    """What stands between white space, by a kernel over bytes."""
    from models.kernels.words import PADDING, Words

    words, end = Words(), pa.scalar("\n", pa.large_string())
    numbers, sizes, sentences, characters = [_NONE], [_NONE], [_NONE], [_NONE]
    for texts in _batches(column):
        lines = pc.binary_join_element_wise(texts, pa.scalar("", pa.large_string()), end)
        ends = np.frombuffer(lines.buffers()[1], np.int64)[lines.offset :][1 : len(lines) + 1]
        length = int(ends[-1])
        padded = np.empty(length + PADDING, np.uint8)
        padded[:length] = np.frombuffer(lines.buffers()[2], np.uint8)[:length]
        begins, found = words.number(padded, length)
        numbers.append(found)
        breaks = np.flatnonzero(padded[:length] == 10)
        lengths = np.diff(np.searchsorted(begins, breaks), prepend=0)
        sizes.append(lengths[lengths > 0])
        characters.append(_characters(padded[:length], breaks)[lengths > 0])
        documents = np.searchsorted(breaks, ends)
        sentences.append(np.diff(_starts(lengths > 0)[documents], prepend=0))
    ids = np.concatenate(numbers).astype(np.int32)
    starts, documents = _starts(np.concatenate(sizes)), _starts(np.concatenate(sentences))
    return word_strings(words), Sentences(ids, starts, documents), np.concatenate(characters)


def _characters(text: NDArray[np.uint8], breaks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The characters of each line of UTF-8 text with its end, from where the lines end."""
    following = np.flatnonzero((text & 0xC0) == 0x80)  # bytes of a character behind its first
    return np.diff(breaks - np.searchsorted(following, breaks), prepend=-1)


def word_strings(words: Words) -> pa.LargeStringArray:
    """The words of a table in the order of their numbers.

    Raises:
        pyarrow.ArrowInvalid: they are not UTF-8.
    """
    n = len(words)
    letters = words.letters[: words.ends[n]]
    buffers: list[Any] = [None, pa.py_buffer(words.ends[: n + 1]), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.large_binary(), n, buffers).cast(pa.large_string())


def _listed(column: pa.ChunkedArray, split: Pieces) -> Listed:
    """The pieces of any scheme."""
    pieces, numbers = _Table(), [_NONE.astype(np.int32)]
    sizes, sentences, characters = [_NONE], [_NONE], [_NONE]
    for texts in _batches(column):
        found, *lengths = _pieces(texts, split)
        encoded = found.dictionary_encode()
        table = np.array([pieces[p] for p in encoded.dictionary.to_pylist()], np.int32)
        numbers.append(table[encoded.indices.to_numpy()])
        sizes.append(lengths[0])
        sentences.append(lengths[1])
        characters.append(lengths[2])
    starts, documents = _starts(np.concatenate(sizes)), _starts(np.concatenate(sentences))
    text = Sentences(np.concatenate(numbers), starts, documents)
    return pa.array(pieces, pa.large_string()), text, np.concatenate(characters)


def _batches(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Runs of texts of about ``_BATCH`` bytes, or one that is longer."""
    for chunk in filter(len, column.chunks):
        batch = np.cumsum(pc.binary_length(chunk).to_numpy()) // _BATCH
        for a, b in pairwise([0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(chunk)]):
            yield chunk.slice(a, b - a)


def _pieces(
    texts: pa.Array, split: Pieces
) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The pieces of texts, back to back; how many each sentence has; sentences of each text.

    And the characters of each sentence, with its end.
    """
    lines = pc.split_pattern(texts, "\n")
    flat = lines.flatten()
    # Not Arrow's utf8_split_whitespace: it now and then keeps a blank at the end of a text.
    lists = pa.array(map(split, flat.to_pylist()), pa.list_(pa.large_string()))
    sizes = pc.list_value_length(lists).to_numpy().astype(np.int64)
    characters = pc.utf8_length(flat).to_numpy().astype(np.int64)[sizes > 0] + 1
    return lists.flatten(), sizes[sizes > 0], _sums(sizes > 0, lines), characters


def _sums(values: NDArray[np.bool_], lists: pa.ListArray) -> NDArray[np.int64]:
    """How many values are true within each list."""
    return np.diff(_starts(values)[_starts(pc.list_value_length(lists).to_numpy())])


def _starts(lengths: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where runs of these lengths begin, and the end."""
    return np.concatenate([_NONE, [0], np.cumsum(lengths, dtype=np.int64)])


def expand(
    numbers: NDArray[np.int32],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    tokens: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Pieces to tokens.

    Args:
        numbers: (P,) the pieces of the text.
        starts: (S + 1,) sentences in pieces.
        sizes: (E,) tokens of each distinct piece.
        tokens: the token ids of all distinct pieces, one after another.

    Returns:
        (N,) token ids and (S + 1,) sentences in tokens.
    """
    if (sizes == 1).all():
        return tokens[numbers], starts
    lengths = sizes[numbers]
    ends = _starts(lengths)
    ids = tokens[np.repeat(_starts(sizes)[numbers] - ends[:-1], lengths) + np.arange(ends[-1])]
    return ids, ends[starts]


def write_tokens(
    out: Writer, types: list[str], text: Sentences, characters: NDArray[np.int64] | None
) -> Stats:
    """Write a partition of tokens, and count them.

    Args:
        out: takes the parts.
        types: surface forms in the order of first appearance.
        text: ids into them.
        characters: (S,) of each sentence with its end, None where that is not known.
    """
    counts = np.bincount(text.ids, minlength=len(types)).astype(np.int64)
    arrays: dict[str, NDArray[Any]] = {
        "ids": text.ids,
        "starts": text.starts,
        "documents": text.documents,
    }
    if characters is not None:
        arrays["characters"] = characters
    out.tensors(TOKENS, arrays)
    table = pa.table([pa.array(types, pa.large_string()), pa.array(counts)], schema=TYPES_SCHEMA)
    out.table(TYPES_TABLE, table)
    return {
        "documents": len(text.documents) - 1,
        "sentences": len(text),
        "tokens": len(text.ids),
    }


TOKENIZE: Step[TokenizeStep] = Step("tokenize", 3, "tokens", tokenize)


def read_tokens(reader: Reader) -> Tokens:
    """A tokenized corpus, its arrays memory-mapped."""

    def partition(i: int) -> TokenPartition:
        table, arrays = reader.table(TYPES_TABLE, i), reader.tensors(TOKENS, i)
        text = Sentences(arrays["ids"], arrays["starts"], arrays["documents"])
        counts = table["count"].to_numpy()
        return TokenPartition(table["type"].to_pylist(), counts, text, arrays.get("characters"))

    return Tokens([partition(i) for i in range(reader.n_partitions)])
