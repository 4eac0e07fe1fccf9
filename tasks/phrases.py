"""Phrases: neighbours that stand together more often than chance become one token.

Mikolov et al. (2013, arXiv:1310.4546) score two neighbours by
``(n_ab - min_count) * N / (n_a n_b)`` with N the number of tokens, as their tool word2phrase does;
Bouma (2009) by normalized pointwise mutual information, ``ln(p_ab / (p_a p_b)) / -ln p_ab``, which
lies between -1 and 1. Counts are exact. Pairs above the threshold are joined from left to
right, and never across a sentence. A second pass finds phrases of joined tokens: up to four words,
and so on.

Connectors ("of", "the") may stand inside a phrase, at most two in a row, and are no end of one.

Steps of a pass: ``bigrams`` for every partition of the training text, ``phrases`` once, ``join``
for every partition of every split. Parts of an artifact of kind "phrases"::

    phrases.parquet  first, between, second (strings), count, score; best first
    phrases.json     ``connectors``, and as ``sweep`` what other thresholds would give
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from models.text import Sentences
from tasks.artifacts import Artifact, Stats
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tokenize import read_tokens, write_tokens
from tasks.vocabulary import TYPES, Types, read_types

BIGRAMS_TABLE, PHRASES_TABLE = "bigrams.parquet", "phrases.parquet"
ABOUT = "phrases.json"
ENGLISH = (
    "a", "an", "the", "for", "of", "with", "without", "at", "from", "to", "in", "on", "by", "and",
    "or",
)  # fmt: skip
_KEYS = ("first", "between", "second")
_SCHEMA = pa.schema([*((key, pa.large_string()) for key in _KEYS), ("count", pa.int64())])
_MAX_BETWEEN = 2
_SWEEP = {
    "word2phrase": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
    "npmi": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
}


@dataclass(frozen=True)
class Phrases:
    """Which neighbours become one token."""

    score: Annotated[
        Literal["word2phrase", "npmi"],
        Field(description="The discounted ratio of the tool word2phrase, or normalized PMI"),
    ] = "word2phrase"
    threshold: Annotated[
        float, Field(gt=-1, description="Join above this score (npmi lies between -1 and 1)")
    ] = 100.0
    min_count: Annotated[int, Field(ge=1, description="Pairs seen less often stay apart")] = 5
    passes: Annotated[
        int, Field(ge=1, le=4, description="Passes; each may double the length of phrases")
    ] = 1
    connectors: Annotated[
        Literal["none", "english"],
        Field(description="Words that may stand inside a phrase but not at its ends"),
    ] = "none"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    @property
    def words(self) -> tuple[str, ...]:
        """The connectors."""
        return ENGLISH if self.connectors == "english" else ()


Phrase = tuple[str, str, str]
"""The first token, the connectors between with blanks, the last token."""


@dataclass(frozen=True)
class Joining:
    """Phrases that were found, for text that comes later.

    Attributes:
        passes: the phrases of each pass.
        connectors: see ``Phrases``.
    """

    passes: tuple[tuple[Phrase, ...], ...]
    connectors: tuple[str, ...] = ()

    def sentences(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Sentences with their phrases joined."""
        numbers: dict[str, int] = {}
        ids = [numbers.setdefault(token, len(numbers)) for tokens in sentences for token in tokens]
        starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        text = Sentences(np.array(ids, np.int32), starts, np.array([0, len(sentences)], np.int64))
        types = list(numbers)
        for phrases in self.passes:
            types, text = join_phrases(types, text, phrases, self.connectors)
        tokens = [types[i] for i in text.ids.tolist()]
        bounds = text.starts.tolist()
        return [tokens[a:b] for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class CountBigrams:
    """Parameters of the step ``bigrams``."""

    min_count: int
    connectors: tuple[str, ...]


@dataclass(frozen=True)
class Join:
    """Parameters of the step ``join``."""

    connectors: tuple[str, ...]


# --- neighbours -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All neighbours in a text, with at most ``_MAX_BETWEEN`` connectors between.

    Attributes:
        at: (M,) where the first token stands.
        to: (M,) where the last one stands.
        keys: (M,) int64, one number for each distinct phrase.
        order: (M,) pairs with successive numbers share a token.
    """

    at: NDArray[np.int64]
    to: NDArray[np.int64]
    keys: NDArray[np.int64]
    order: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Table:
    """A table of types with the connectors in it, and how a phrase becomes a number."""

    types: Sequence[str]
    connectors: tuple[str, ...]

    def pairs(self, text: Sentences) -> _Pairs:
        rank = np.zeros(len(self.types), np.int64)  # 1 + its place among the connectors
        for i, word in enumerate(self.types):
            if word in self.connectors:
                rank[i] = 1 + self.connectors.index(word)
        sentence = np.repeat(np.arange(len(text)), np.diff(text.starts))
        ranks = rank[text.ids]
        content = np.flatnonzero(ranks == 0)
        at, to = content[:-1], content[1:]
        order = np.arange(len(at))
        near = (sentence[at] == sentence[to]) & (to - at <= 1 + _MAX_BETWEEN)
        at, to, order = at[near], to[near], order[near]
        between = np.zeros(len(at), np.int64)
        for k in range(1, 1 + _MAX_BETWEEN):
            inside = at + k < to
            between[inside] = between[inside] * self.base + ranks[at[inside] + k]
        keys = self.number(text.ids[at].astype(np.int64), between, text.ids[to].astype(np.int64))
        return _Pairs(at, to, keys, order)

    @property
    def base(self) -> int:
        return 1 + len(self.connectors)

    def number(self, first: Any, between: Any, second: Any) -> Any:
        """One number of three."""
        return (first * len(self.types) + second) * self.base**_MAX_BETWEEN + between

    def phrase(self, key: int) -> Phrase:
        """The phrase with a number."""
        rest, between = divmod(key, self.base**_MAX_BETWEEN)
        first, second = divmod(rest, len(self.types))
        words: list[str] = []
        while between:
            between, rank = divmod(between, self.base)
            words.insert(0, self.connectors[rank - 1])
        return self.types[first], " ".join(words), self.types[second]


def count_bigrams(context: Context, readers: Mapping[str, Reader], params: CountBigrams) -> Stats:
    """Count the neighbours in a partition whose tokens are frequent enough in the whole text."""
    part = read_tokens(readers["tokens"]).partitions[0]
    counts = dict(zip(*read_types(readers["types"]), strict=True))
    table = _Table(part.types, params.connectors)
    frequent = np.array([counts[word] >= params.min_count for word in part.types], np.bool_)
    pairs = table.pairs(part.text)
    both = frequent[part.text.ids[pairs.at]] & frequent[part.text.ids[pairs.to]]
    keys, seen = np.unique(pairs.keys[both], return_counts=True)
    columns = list(zip(*map(table.phrase, keys.tolist()), strict=True)) or [(), (), ()]
    arrays = [pa.array(column, pa.large_string()) for column in columns]
    context.out.table(BIGRAMS_TABLE, pa.table([*arrays, pa.array(seen)], schema=_SCHEMA))
    return {"pairs": int(both.sum()), "distinct": len(keys)}


BIGRAMS: Step[CountBigrams] = Step("bigrams", 1, "bigrams", count_bigrams)


# --- phrases --------------------------------------------------------------------------------


def find_phrases(context: Context, readers: Mapping[str, Reader], params: Phrases) -> Stats:
    """Score all pairs and keep those above the threshold; tell what others would give."""
    reader = readers["bigrams"]
    tables = [reader.table(BIGRAMS_TABLE, i) for i in range(reader.n_partitions)]
    merged = pa.concat_tables(tables).group_by(list(_KEYS)).aggregate([("count", "sum")])
    merged = merged.rename_columns({"count_sum": "count"})
    words, counts = read_types(readers["types"])
    known = dict(zip(words, counts.tolist(), strict=True))
    first, second = (
        np.array([known[word] for word in merged[name].to_pylist()], np.int64)
        for name in ("first", "second")
    )
    together = merged["count"].to_numpy()
    scores = score(first, second, together, int(counts.sum()), params)
    scored = merged.append_column("score", pa.array(scores))
    order = [("score", "descending"), *((name, "ascending") for name in _KEYS)]
    scored = scored.filter(together >= params.min_count).sort_by(order)
    scores = scored["score"].to_numpy()
    kept = scored.slice(0, int((scores > params.threshold).sum()))
    context.out.table(PHRASES_TABLE, kept)
    thresholds = sorted({*_SWEEP[params.score], params.threshold})
    sweep = [_sweep_row(scored, threshold) for threshold in thresholds]
    context.out.json(ABOUT, {"connectors": params.words, "sweep": sweep})
    return {"phrases": kept.num_rows, "occurrences": int(kept["count"].to_numpy().sum())}


def score(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    together: NDArray[np.int64],
    total: int,
    params: Phrases,
) -> NDArray[np.float64]:
    """(M,) scores of pairs.

    Args:
        first: (M,) counts of their first tokens.
        second: (M,) counts of their last tokens.
        together: (M,) counts of the pairs.
        total: tokens of the text.
        params: which score.
    """
    a, b, ab = (values.astype(np.float64) for values in (first, second, together))
    if params.score == "word2phrase":
        return np.asarray((ab - params.min_count) / a / b * total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(ab / a * total / b) / -np.log(ab / total))


def _sweep_row(scored: pa.Table, threshold: float) -> dict[str, Any]:
    """What a threshold gives; the examples are the last phrases that it lets through."""
    n = int((scored["score"].to_numpy() > threshold).sum())
    examples = [_name(*phrase) for phrase in _phrases(scored.slice(max(0, n - 5), min(n, 5)))]
    occurrences = int(scored["count"].to_numpy()[:n].sum())
    return {
        "threshold": threshold, "phrases": n, "occurrences": occurrences, "last": examples[::-1],
    }  # fmt: skip


def _phrases(table: pa.Table) -> list[Phrase]:
    return list(zip(*(table[name].to_pylist() for name in _KEYS), strict=True))


def _name(first: str, between: str, second: str) -> str:
    """A phrase as one token."""
    return "_".join([first, *between.split(), second])


PHRASES: Step[Phrases] = Step("phrases", 1, "phrases", find_phrases)


def read_phrases(reader: Reader) -> tuple[Phrase, ...]:
    """The phrases in an artifact, best first."""
    return tuple(_phrases(reader.table(PHRASES_TABLE)))


def read_joining(readers: Sequence[Reader]) -> Joining:
    """The phrases of every pass, from their artifacts in order."""
    passes = tuple(read_phrases(reader) for reader in readers)
    return Joining(passes, tuple(readers[0].json(ABOUT)["connectors"]))


# --- joining --------------------------------------------------------------------------------


def join(context: Context, readers: Mapping[str, Reader], params: Join) -> Stats:
    """Join the phrases in a partition of tokens."""
    part = read_tokens(readers["tokens"]).partitions[0]
    phrases = read_phrases(readers["phrases"])
    types, text = join_phrases(part.types, part.text, phrases, params.connectors)
    return write_tokens(context.out, types, text)


def join_phrases(
    types: Sequence[str],
    text: Sentences,
    phrases: Sequence[Phrase],
    connectors: tuple[str, ...],
) -> tuple[list[str], Sentences]:
    """A text with its phrases joined, from left to right.

    Args:
        types: the table of the text's types.
        text: ids into it.
        phrases: to join.
        connectors: that were allowed inside of phrases.

    Returns:
        types in the order of first appearance, and the text in ids into them.
    """
    table = _Table(types, connectors)
    pairs = table.pairs(text)
    ids = {word: i for i, word in enumerate(types)}
    wanted: dict[int, str] = {}
    for first, between, second in phrases:
        if first in ids and second in ids:
            code = 0
            for word in between.split():
                code = code * table.base + 1 + connectors.index(word)
            wanted[table.number(ids[first], code, ids[second])] = _name(first, between, second)
    keys = np.array(sorted(wanted), np.int64)
    found = np.flatnonzero(np.isin(pairs.keys, keys))
    # Of pairs that share a token the first is joined, the next not, the one after it is.
    run = np.concatenate([[True], np.diff(pairs.order[found]) > 1])[: len(found)]
    begin = np.maximum.accumulate(np.where(run, np.arange(len(found)), 0))
    chosen = found[(np.arange(len(found)) - begin) % 2 == 0]
    numbers = text.ids.astype(np.int64)
    numbers[pairs.at[chosen]] = len(types) + np.searchsorted(keys, pairs.keys[chosen])
    keep = np.ones(len(numbers), np.bool_)
    for k in range(1, 2 + _MAX_BETWEEN):
        inside = pairs.at[chosen] + k
        keep[inside[inside <= pairs.to[chosen]]] = False
    names = [*types, *(wanted[key] for key in keys.tolist())]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
    renamed, new_ids = _renumber(names, numbers[keep])
    return renamed, Sentences(new_ids, ends[text.starts], text.documents)


def _renumber(
    names: Sequence[str], numbers: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int32]]:
    """Ids in the order of first appearance; equal names, such as a word ``new_york``, share one."""
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    types: dict[str, int] = {}
    ids = np.zeros(len(distinct), np.int32)
    for i in np.argsort(first).tolist():
        ids[i] = types.setdefault(names[distinct[i]], len(types))
    return list(types), ids[inverse]


JOIN: Step[Join] = Step("join", 1, "tokens", join)


def join_corpus(
    runner: Runner, tokens: Mapping[Any, Artifact], types: Artifact, settings: Phrases
) -> tuple[dict[Any, Artifact], Artifact, list[Artifact]]:
    """Find the phrases of the split ``train`` and join them in all splits, pass after pass.

    Returns:
        tokens of every split, their types in ``train``, and the phrases of every pass.
    """
    found: list[Artifact] = []
    joined = dict(tokens)
    for i in range(1, 1 + settings.passes):
        count = CountBigrams(settings.min_count, settings.words)
        train = {"tokens": joined["train"]}
        bigrams = runner.map(BIGRAMS, train, count, whole={"types": types}, label=f"{i}")
        phrases = runner.run(PHRASES, {"bigrams": bigrams, "types": types}, settings, label=f"{i}")
        found.append(phrases)
        for split, artifact in joined.items():
            joined[split] = runner.map(
                JOIN,
                {"tokens": artifact},
                Join(settings.words),
                whole={"phrases": phrases},
                label=f"{i} {split}",
            )
        types = runner.run(TYPES, {"tokens": joined["train"]}, Types(), label=f"phrases {i}")
    return joined, types, found
