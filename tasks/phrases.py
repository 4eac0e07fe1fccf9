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
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from tasks.artifacts import Artifact, Stats
from tasks.joining import Joining, PairTable, Phrase, join_phrases, phrase_name
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


@dataclass(frozen=True)
class CountBigrams:
    """Parameters of the step ``bigrams``."""

    min_count: int
    connectors: tuple[str, ...]


@dataclass(frozen=True)
class Join:
    """Parameters of the step ``join``."""

    connectors: tuple[str, ...]


def count_bigrams(context: Context, readers: Mapping[str, Reader], params: CountBigrams) -> Stats:
    """Count the neighbours in a partition whose tokens are frequent enough in the whole text."""
    part = read_tokens(readers["tokens"]).partitions[0]
    counts = dict(zip(*read_types(readers["types"]), strict=True))
    table = PairTable(part.types, params.connectors)
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
    examples = [phrase_name(*phrase) for phrase in _phrases(scored.slice(max(0, n - 5), min(n, 5)))]
    occurrences = int(scored["count"].to_numpy()[:n].sum())
    return {
        "threshold": threshold, "phrases": n, "occurrences": occurrences, "last": examples[::-1],
    }  # fmt: skip


def _phrases(table: pa.Table) -> list[Phrase]:
    return list(zip(*(table[name].to_pylist() for name in _KEYS), strict=True))


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
    return write_tokens(context.out, types, text, part.characters)


JOIN: Step[Join] = Step("join", 2, "tokens", join)


def join_corpus(
    runner: Runner,
    tokens: Mapping[Any, Artifact],
    types: Artifact,
    settings: Phrases,
    given: Sequence[Artifact] = (),
) -> tuple[dict[Any, Artifact], Artifact, list[Artifact]]:
    """Find the phrases of the split ``train`` and join them in all splits, pass after pass.

    Phrases that are given, those of every pass, are joined, and none are looked for.

    Returns:
        tokens of every split, their types in ``train``, and the phrases of every pass.
    """
    found: list[Artifact] = []
    joined = dict(tokens)
    for i in range(1, 1 + settings.passes):
        phrases = given[i - 1] if given else _find(runner, joined["train"], types, settings, f"{i}")
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


def _find(
    runner: Runner, train: Artifact, types: Artifact, settings: Phrases, label: str
) -> Artifact:
    """The phrases of a pass."""
    count = CountBigrams(settings.min_count, settings.words)
    bigrams = runner.map(BIGRAMS, {"tokens": train}, count, whole={"types": types}, label=label)
    return runner.run(PHRASES, {"bigrams": bigrams, "types": types}, settings, label=label)
