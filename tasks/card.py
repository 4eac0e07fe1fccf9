"""The corpus card: what a corpus is, for whoever is to trust it. JSON for programs, Markdown too.

It tells what became of every record at every stage, with examples of what was dropped; how long
sentences and documents are; the languages of a sample; how types grow with tokens (Heaps 1978) and
how frequencies fall with ranks (Zipf 1949). It is an artifact like any other, ``card.json`` and
``card.md``, so a corpus that did not change has its card already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.text import Tokens
from tasks.artifacts import Artifact, Stats
from tasks.corpus import Corpus
from tasks.counted import counted
from tasks.dedup import KEPT
from tasks.filters import identify
from tasks.ingest import REJECTS
from tasks.normalize import DOCUMENTS
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader, Store
from tasks.tokenize import read_tokens
from tasks.vocabulary import read_types

CARD_JSON, CARD_MARKDOWN = "card.json", "card.md"

EXAMPLES = 3
"""Of each reason."""
EXAMPLE = 160
"""Characters of an example."""
SAMPLED = 500
"""Documents whose language is identified: those of the least ids, which are hashes of the text."""
CURVE_TOKENS = 20_000_000
"""The curve of types is drawn for so many tokens; the set of types has to be in memory."""
POINTS = 100
LONGEST = 1 << 20
"""Whatever is longer, in tokens, counts as so long."""
COMMON = 20


@dataclass(frozen=True)
class MakeCard:
    """Parameters of the step.

    Attributes:
        stats: of every stage, which the contents of artifacts do not determine.
        py3langid: the version of the library that identifies languages.
    """

    stats: Mapping[str, Stats]
    py3langid: str = field(default_factory=lambda: version("py3langid"))


def make_card(context: Context, readers: Mapping[str, Reader], params: MakeCard) -> Stats:
    """Make the card of a corpus from the artifacts of its stages, by their names."""
    splits = [name.removeprefix("tokenize ") for name in readers if name.startswith("tokenize ")]
    units = {split: readers.get(f"units {split}", readers[f"tokenize {split}"]) for split in splits}
    tokens = {split: read_tokens(reader) for split, reader in units.items()}
    words, counts = read_types(readers["types"])
    card: dict[str, Any] = {
        "stages": {stage: dict(stats) for stage, stats in params.stats.items()},
        "splits": {split: _sizes(tokens[split]) for split in splits},
        "languages": _languages(readers["split train"]),
        "growth": growth(tokens["train"]),
        "zipf": zipf(counts),
        "most_frequent": [
            [word, int(count)] for word, count in zip(words[:COMMON], counts[:COMMON], strict=True)
        ],
        "dropped": _dropped(readers),
    }
    context.out.json(CARD_JSON, card)
    context.out.blob(CARD_MARKDOWN, markdown(card).encode("utf-8", "replace"))
    return {"documents": sum(split["documents"] for split in card["splits"].values())}


CARD: Step[MakeCard] = Step("card", 1, "card", make_card)


def with_card(runner: Runner, corpus: Corpus) -> Corpus:
    """A corpus with its card, made or found."""
    return replace(corpus, card=runner.run(CARD, corpus.stages, MakeCard(corpus.stats)))


def log_card(store: Store, artifact: Artifact, name: str, tracking_uri: str) -> str:
    """Give a card to MLflow, as files of a run in the experiment of the corpus; returns its id.

    A card that was logged before is found again.
    """
    from tasks.mlflow_client import answering, connect, experiment_id
    from tasks.tracking import RECIPE, STORE, find_run

    client = connect(tracking_uri)
    with answering(tracking_uri):
        experiment = experiment_id(client, name)
        if found := find_run(client, [experiment], artifact.recipe, store.url):
            return str(found.info.run_id)
        card, reader = read_card(store, artifact), store.reader(artifact)
        tags = {RECIPE: artifact.recipe, STORE: store.url, "lexloom.card": artifact.content}
        run_id = str(
            client.create_run(experiment, tags=tags, run_name=f"{name} corpus").info.run_id
        )
        for part in (CARD_MARKDOWN, CARD_JSON):
            client.log_text(run_id, reader.path(part).read_text("utf-8", "replace"), part)
        for split, sizes in card["splits"].items():
            for figure in ("documents", "sentences", "tokens"):
                client.log_metric(run_id, f"{figure}.{split}", sizes[figure])
        client.set_terminated(run_id)
    return run_id


def read_card(store: Store, artifact: Artifact) -> dict[str, Any]:
    """A card."""
    card: dict[str, Any] = store.reader(artifact).json(CARD_JSON)
    return card


# --- figures ----------------------------------------------------------------------------------


def _sizes(tokens: Tokens) -> dict[str, Any]:
    """How much text there is, and how long its sentences and documents are, in tokens."""
    sentences, documents = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for part in tokens.partitions:
        text = part.text
        sentences = _histogram(sentences, np.diff(text.starts))
        documents = _histogram(documents, np.diff(text.starts[text.documents]))
    return {
        "documents": int(documents.sum()),
        "sentences": int(sentences.sum()),
        "tokens": tokens.n_tokens,
        "tokens_a_document": _quantiles(documents),
        "tokens_a_sentence": _quantiles(sentences),
    }


def _histogram(counts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    more = np.bincount(np.minimum(lengths, LONGEST), minlength=len(counts)).astype(np.int64)
    more[: len(counts)] += counts
    return more


def _quantiles(histogram: NDArray[np.int64]) -> dict[str, float]:
    """Least, quartiles, the longest of a hundred, greatest, and mean of lengths."""
    n = int(histogram.sum())
    if not n:
        return {}
    below = np.cumsum(histogram)
    shares = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "99%": 0.99, "max": 1.0}
    ranks = {name: max(1, int(np.ceil(share * n))) for name, share in shares.items()}
    found: dict[str, float] = {k: int(np.searchsorted(below, r)) for k, r in ranks.items()}
    return {**found, "mean": round(float(histogram @ np.arange(len(histogram))) / n, 2)}


def growth(tokens: Tokens) -> list[list[int]]:
    """Pairs (tokens, types) along the text, at tokens in geometric progression."""
    total = min(tokens.n_tokens, CURVE_TOKENS)
    points = np.unique(np.geomspace(1, max(1, total), POINTS).astype(np.int64))
    seen: set[str] = set()
    fresh: list[NDArray[np.int64]] = []
    read = 0
    for part in tokens.partitions:
        ids = np.asarray(part.text.ids)
        first = np.full(len(part.types), -1, np.int64)
        first[ids[::-1]] = np.arange(read + len(ids), read, -1)  # the last to be written is first
        new = [i for i, name in enumerate(part.types) if name not in seen]
        seen.update(part.types)
        fresh.append(first[new])
        read += len(ids)
        if read >= total:
            break
    at = np.sort(np.concatenate(fresh)) if fresh else np.zeros(0, np.int64)
    types = np.searchsorted(at, points, side="right")
    return [[int(n), int(k)] for n, k in zip(points, types, strict=True)] if total else []


def zipf(counts: NDArray[np.int64]) -> list[list[int]]:
    """Pairs (rank, count) at ranks in geometric progression."""
    if not len(counts):
        return []
    ranks = np.unique(np.geomspace(1, len(counts), POINTS).astype(np.int64))
    return [[int(rank), int(counts[rank - 1])] for rank in ranks]


def _languages(documents: Reader) -> dict[str, int]:
    """How many documents of a sample are in which language, the most frequent first."""
    drawn: list[tuple[bytes, str]] = []
    for i in range(documents.n_partitions):
        table = documents.table(DOCUMENTS, i)
        ids = table["id"].to_pylist()
        least = sorted(range(len(ids)), key=ids.__getitem__)[:SAMPLED]
        texts = table["text"].take(pa.array(least, pa.int64())).to_pylist()
        drawn += zip((ids[j] for j in least), texts, strict=True)
        drawn = sorted(drawn)[:SAMPLED]
    found = Counter(identify(text)[0] for _, text in drawn)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


# --- examples -----------------------------------------------------------------------------------


def _dropped(readers: Mapping[str, Reader]) -> dict[str, dict[str, list[str]]]:
    """The start of the first documents that each stage dropped, by reason."""
    found: dict[str, dict[str, list[str]]] = {}
    for stage, reader in readers.items():
        step, _, label = stage.partition(" ")
        if step in ("ingest", "filter"):
            cases = _rejected(reader)
        elif step in ("dedup", "near"):
            documents = readers.get(f"filter {label}", readers[f"normalize {label}"])
            before = readers[f"dedup {label}"] if step == "near" else None
            cases = _unkept(documents, reader, before)
        else:
            continue
        examples: dict[str, list[str]] = {}
        for reason, text in cases:
            if len(some := examples.setdefault(reason, [])) < EXAMPLES:
                some.append(text[:EXAMPLE])
        if examples:
            found[stage] = examples
    return found


def _rejected(reader: Reader) -> Iterator[tuple[str, str]]:
    for i in range(reader.n_partitions):
        if reader.has(REJECTS, i):
            table = reader.table(REJECTS, i)
            yield from zip(table["reason"].to_pylist(), table["start"].to_pylist(), strict=True)


def _unkept(documents: Reader, kept: Reader, before: Reader | None) -> Iterator[tuple[str, str]]:
    """The first documents that deduplication dropped, of those that were there before it."""
    reason, left = ("near_duplicate" if before else "duplicate"), EXAMPLES
    for i in range(kept.n_partitions):
        gone = ~kept.tensors(KEPT, i)["kept"]
        if before:
            gone &= before.tensors(KEPT, i)["kept"]
        rows = np.flatnonzero(gone)[:left]
        if len(rows):
            texts = documents.table(DOCUMENTS, i)["text"].take(pa.array(rows)).to_pylist()
            yield from ((reason, text) for text in texts)
        left -= len(rows)
        if not left:
            return


# --- Markdown -----------------------------------------------------------------------------------


def markdown(card: Mapping[str, Any]) -> str:
    """A card as Markdown."""
    parts = ["# Corpus card", "## Stages"]
    rows = [
        [stage, ", ".join(_counts(stats, kept=True)), ", ".join(_counts(stats, kept=False))]
        for stage, stats in card["stages"].items()
    ]
    parts.append(_table(["stage", "counts", "dropped"], rows))
    parts.append("## Lengths")
    heads = ["min", "25%", "50%", "75%", "99%", "max", "mean"]
    rows = [
        [split, name.replace("_", " "), *(_number(sizes[name].get(head, "")) for head in heads)]
        for split, sizes in card["splits"].items()
        for name in ("tokens_a_document", "tokens_a_sentence")
    ]
    parts.append(_table(["split", "", *heads], rows))
    n = sum(card["languages"].values())
    parts.append(f"## Languages\n\nOf {counted(n, 'documents')} drawn from the training text:")
    parts.append(
        _table(
            ["language", "documents"],
            [[language, _number(count)] for language, count in card["languages"].items()],
        )
    )
    parts.append("## Types and tokens")
    parts.append(_table(["tokens read", "types seen"], _spread(card["growth"])))
    parts.append("## Frequencies by rank (Zipf)")
    parts.append(_table(["rank", "count"], _spread(card["zipf"])))
    common = ", ".join(f"{_cell(word)} {_number(count)}" for word, count in card["most_frequent"])
    parts.append(f"Most frequent: {common}")
    parts.append("## Examples of what was dropped")
    rows = [
        [stage, reason, _cell(text)]
        for stage, reasons in card["dropped"].items()
        for reason, texts in reasons.items()
        for text in texts
    ]
    parts.append(_table(["stage", "reason", "begins with"], rows) if rows else "Nothing was.")
    return "\n\n".join(parts) + "\n"


def _counts(stats: Stats, *, kept: bool) -> list[str]:
    return [
        f"{name.removeprefix('dropped.')} {_number(value)}"
        for name, value in stats.items()
        if name.startswith("dropped.") != kept and (kept or value)
    ]


def _spread(points: Sequence[Sequence[int]]) -> list[list[str]]:
    """About ten of the points."""
    step = max(1, len(points) // 10)
    return [[_number(x), _number(y)] for x, y in [*points[:-1:step], *points[-1:]]]


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _cell(text: str) -> str:
    """Text of a corpus as code within a table, whatever is in it."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return f"`{shown.replace('`', 'ˋ').replace('|', '¦')}`"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
