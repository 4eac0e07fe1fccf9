"""Subwords: a vocabulary learnt from the counts of the training text, and text encoded by it.

What is learnt is saved as ``tokenizer.json``, which Hugging Face's ``tokenizers`` and
``transformers`` load. The pieces between blanks are encoded by that library itself, every distinct
one once, so ids agree with it by construction. The learning is ours (``models.subwords``): the
library's own trainers count running text again, and its unigram trainer gives another vocabulary
every time.

Words are cut at blanks and around punctuation marks, and subwords never cross such a cut. In
``bpe`` and ``unigram`` the beginning of a word is a ``▁``, so the text can be put together again;
in ``wordpiece``, as in BERT, what continues a word begins with ``##``.

Marks: the file declares no special tokens, so ``<s>`` or ``[MASK]`` in a text is text. Its one
reserved entry, id 0, is what a character becomes that was not seen in training. No learnt entry
can be spelt like a mark, because marks hold punctuation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.text import Sentences
from tasks.artifacts import Artifact, Stats
from tasks.errors import InputError
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tokenize import BLANK, Tokenize, expand, read_tokens, write_tokens
from tasks.vocabulary import TYPES, Types, read_types

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"
UNKNOWN = {"bpe": "<unk>", "unigram": "<unk>", "wordpiece": "[UNK]"}
CONTINUING = "##"
_BATCH = 1 << 16


@dataclass(frozen=True)
class LearnSubwords:
    """Parameters of the step ``subwords``; the version is that of the library ``tokenizers``."""

    scheme: str
    vocab_size: int
    libraries: str

    @staticmethod
    def of(settings: Tokenize) -> LearnSubwords:
        """The step for the settings of a corpus."""
        library = f"tokenizers {version('tokenizers')}"
        return LearnSubwords(settings.scheme, settings.vocab_size, library)


@dataclass(frozen=True)
class Encode:
    """Encoding has no parameters."""


def learn_subwords(context: Context, readers: Mapping[str, Reader], params: LearnSubwords) -> Stats:
    """Learn from the counts of the pieces of the training text."""
    pieces, counts = read_types(readers["types"])
    tokenizer = train_tokenizer(pieces, counts, params)
    context.out.blob(TOKENIZER, tokenizer.to_str(pretty=True).encode())
    return {"size": tokenizer.get_vocab_size(), "types": len(pieces)}


def train_tokenizer(
    pieces: Sequence[str], counts: NDArray[np.int64], params: LearnSubwords
) -> Tokenizer:
    """A tokenizer for text that is made of these pieces.

    At most half of the vocabulary are characters; rarer ones are unknown.

    Args:
        pieces: distinct strings without blanks.
        counts: (len(pieces),) how often each stands in the text.
        params: what to learn.
    """
    from tokenizers import models

    from models.subwords import learn_merges, learn_pieces

    tokenizer = _untrained(params.scheme)
    words, weights = _words(tokenizer, pieces, counts)
    alphabet = _alphabet(words, weights, params.vocab_size // 2)
    unknown = UNKNOWN[params.scheme]
    size = params.vocab_size - 1
    if params.scheme == "unigram":
        scored = learn_pieces(words, weights, size=size, alphabet=alphabet)
        tokenizer.model = models.Unigram([(unknown, 0.0), *scored], unk_id=0)
        return tokenizer
    continuing = CONTINUING if params.scheme == "wordpiece" else ""
    learnt = learn_merges(words, weights, size=size, alphabet=alphabet, continuing=continuing)
    ids = {token: i for i, token in enumerate([unknown, *learnt.tokens])}
    if params.scheme == "bpe":
        tokenizer.model = models.BPE(ids, list(learnt.merges), unk_token=unknown)
    else:
        tokenizer.model = models.WordPiece(
            ids, unk_token=unknown, continuing_subword_prefix=CONTINUING
        )
    return tokenizer


def _untrained(scheme: str) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    if scheme == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN[scheme]))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(CONTINUING, cleanup=False)
        return tokenizer
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(BLANK, prepend_scheme="always"),
            pre_tokenizers.Punctuation("isolated"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(BLANK, prepend_scheme="always")
    return tokenizer


def _words(
    tokenizer: Tokenizer, pieces: Sequence[str], counts: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """The words that a tokenizer finds in the pieces, in an order that depends on counts alone."""
    found: Counter[str] = Counter()
    for piece, count in zip(pieces, counts.tolist(), strict=True):
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(piece):
            found[word] += count
    words = sorted(found, key=lambda word: (-found[word], word))
    return words, np.array([found[word] for word in words], np.int64)


def _alphabet(words: Sequence[str], counts: NDArray[np.int64], limit: int) -> list[str]:
    """The most frequent characters, ties by code points."""
    found: Counter[str] = Counter()
    for word, count in zip(words, counts.tolist(), strict=True):
        for char in word:
            found[char] += count
    return sorted(found, key=lambda char: (-found[char], char))[:limit]


SUBWORDS: Step[LearnSubwords] = Step("subwords", 1, "subwords", learn_subwords)


def encode(context: Context, readers: Mapping[str, Reader], params: Encode) -> Stats:
    """Encode a partition of pieces."""
    part = read_tokens(readers["tokens"]).partitions[0]
    types, sizes, subwords = encode_pieces(read_tokenizer(readers["subwords"]), part.types)
    ids, starts = expand(part.text.ids, part.text.starts, sizes, subwords)
    text = Sentences(ids, starts, part.text.documents)
    return write_tokens(context.out, types, text, part.characters)


ENCODE: Step[Encode] = Step("encode", 2, "tokens", encode)


def encode_pieces(
    tokenizer: Tokenizer, pieces: Sequence[str]
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int32]]:
    """Subwords of strings without blanks.

    Returns:
        distinct subwords in the order of first appearance; how many each piece has; those of all
        pieces, one after another, as indices into the distinct ones.
    """
    ids = [
        encoding.ids
        for i in range(0, len(pieces), _BATCH)
        for encoding in tokenizer.encode_batch_fast(
            list(pieces[i : i + _BATCH]), add_special_tokens=False
        )
    ]
    sizes = np.array([len(each) for each in ids], np.int64)
    flat = pa.array([id_ for each in ids for id_ in each], pa.int64()).dictionary_encode()
    types = [str(tokenizer.id_to_token(id_)) for id_ in flat.dictionary.to_pylist()]
    return types, sizes, flat.indices.to_numpy()


def read_tokenizer(reader: Reader) -> Tokenizer:
    """The tokenizer in an artifact."""
    return load_tokenizer(reader.path(TOKENIZER).read_text("utf-8"))


def load_tokenizer(text: str) -> Tokenizer:
    """The tokenizer in the text of a ``tokenizer.json``.

    Raises:
        InputError: it is none.
    """
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises bare exceptions
        raise InputError(
            f"this is no tokenizer: {error}", where=TOKENIZER, remedy="pull the model again"
        ) from None


def subword_sentences(tokenizer: Tokenizer, sentences: list[list[str]]) -> list[list[str]]:
    """Sentences of pieces as sentences of subwords."""
    pieces = list(dict.fromkeys(piece for sentence in sentences for piece in sentence))
    types, sizes, ids = encode_pieces(tokenizer, pieces)
    parts = np.split(ids, np.cumsum(sizes))
    tokens = {p: [types[i] for i in part] for p, part in zip(pieces, parts, strict=False)}
    return [[token for piece in sentence for token in tokens[piece]] for sentence in sentences]


def encode_corpus(
    runner: Runner,
    pieces: Mapping[Any, Artifact],
    types: Artifact,
    settings: Tokenize,
    given: Artifact | None = None,
) -> tuple[dict[Any, Artifact], Artifact, Artifact]:
    """Learn subwords from the split ``train``, unless they are given, and encode all splits.

    Returns:
        tokens of every split, their types in ``train``, and the tokenizer.
    """
    subwords = given or runner.run(SUBWORDS, {"types": types}, LearnSubwords.of(settings))
    whole = {"subwords": subwords}
    encoded = {
        split: runner.map(ENCODE, {"tokens": artifact}, Encode(), whole=whole, label=split)
        for split, artifact in pieces.items()
    }
    types = runner.run(TYPES, {"tokens": encoded["train"]}, Types(), label="subwords")
    return encoded, types, subwords
