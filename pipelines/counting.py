"""Counting from the command line: a corpus of files, in this process, and what people ask of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from models.family import WantsVocabulary
from models.vocabulary import LM_RESERVED
from pipelines.config import RunConfig, parse
from pipelines.plain import override
from pipelines.recipes import RECIPES, resolve
from pipelines.settings import Settings
from tasks.artifacts import Artifact
from tasks.cooccurrence import Cooccurrence, count_cooccurrence, read_cooccurrence
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.dedup import KEPT
from tasks.errors import ConfigError
from tasks.ingest import REJECTS
from tasks.ngrams import count_ngrams, read_ngrams
from tasks.normalize import DOCUMENTS
from tasks.runner import Observer, Outcome, Runner
from tasks.store import Reader, Store
from tasks.tokenize import TYPES_TABLE, read_tokens
from tasks.vocabulary import VOCABULARY, read_vocabulary

AROUND = 8
"""Tokens to each side of a word in a concordance."""
REJECTING = ("ingest train", "filter train")
"""Stages that keep what they reject."""
START = 200
"""Characters of a document that are shown."""

FORMATS = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".html": "html"}
"""What a file's name says about its format; all else is text."""


def config_of(text: Sequence[str], changes: Sequence[str]) -> RunConfig:
    """The config behind a command: a recipe, or files read whole, a line a document.

    Args:
        text: one recipe or YAML file, or files and globs.
        changes: of the form a.b=c; for files ``corpus.`` may be left out.

    Raises:
        ConfigError: what is wrong with them.
    """
    if len(text) == 1 and (text[0] in RECIPES or text[0].endswith((".yaml", ".yml"))):
        return resolve(text[0], overrides=changes)
    value = {
        "corpus": {
            "name": "files",
            "train": {"paths": list(text), "format": format_of(text)},
            "deduplicate": False,
            "split": {"valid": 0.0, "test": 0.0},
        },
        "families": {"ngram": {}},
    }
    return parse(override(value, [_within_corpus(change) for change in changes]))


def format_of(text: Sequence[str]) -> str:
    """The format of files, by their names.

    Raises:
        ConfigError: they are of several.
    """
    names = {FORMATS.get(_suffix(name), "text") for name in text}
    if len(names) > 1:
        raise ConfigError(
            "these files are of several formats: " + ", ".join(sorted(names)),
            where=", ".join(text),
            remedy="take one format at a time",
        )
    return names.pop()


def _within_corpus(change: str) -> str:
    known = {field.split(".")[0] for field in RunConfig.model_fields}
    return change if change.split(".")[0].split("=")[0] in known else f"corpus.{change}"


def _suffix(name: str) -> str:
    path = Path(name.split("?")[0])
    packed = path.suffix in (".gz", ".bz2", ".xz", ".zst", ".zip")
    return path.with_suffix("").suffix if packed else path.suffix


@dataclass(frozen=True)
class Counting:
    """A corpus that is being asked about.

    Attributes:
        config: of the corpus.
        runner: runs the steps, in this process.
    """

    config: CorpusConfig
    runner: Runner

    @staticmethod
    def at(config: RunConfig, settings: Settings, observer: Observer) -> Counting:
        """Count with the store of a place."""
        store = Store(settings.store, settings.home / "cache")
        return Counting(
            config.corpus, Runner(store, resources=settings.resources, observer=OnlyWork(observer))
        )

    def corpus(self) -> Corpus:
        """The corpus, read or found."""
        with self.runner.store.files.in_use():
            return build_corpus(self.runner, self.config)

    # --- looking ----------------------------------------------------------------------------

    def documents(self, n: int) -> list[dict[str, Any]]:
        """The first documents of the training text."""
        return list(self._rows(self.corpus().documents["train"], DOCUMENTS, n))

    def drops(self, n: int) -> list[dict[str, Any]]:
        """The first records and documents that were dropped, of each reason ``n``."""
        stages = self.corpus().stages
        documents = stages.get("filter train", stages["normalize train"])
        sources = [
            *(self._rows(stages[s], REJECTS, None) for s in REJECTING if s in stages),
            self._unkept(documents, stages["dedup train"], "duplicate"),
        ]
        if "near train" in stages:
            kept = stages["dedup train"]
            sources.append(self._unkept(documents, stages["near train"], "near_duplicate", kept))
        seen: dict[str, int] = {}
        rows = []
        for row in chain.from_iterable(sources):
            seen[row["reason"]] = seen.get(row["reason"], 0) + 1
            if seen[row["reason"]] <= n:
                rows.append(row)
        return rows

    def _unkept(
        self, documents: Artifact, kept: Artifact, reason: str, before: Artifact | None = None
    ) -> Iterator[dict[str, Any]]:
        """The documents that were there ``before`` and were not kept."""
        reader, marks = self._read(documents), self._read(kept)
        for i in range(marks.n_partitions):
            gone = ~marks.tensors(KEPT, i)["kept"]
            if before is not None:
                gone &= self._read(before).tensors(KEPT, i)["kept"]
            table = reader.table(DOCUMENTS, i).filter(pa.array(gone))
            for row in table.select(["origin", "text"]).to_pylist():
                yield {"origin": row["origin"], "reason": reason, "start": _shown(row["text"])}

    def _rows(self, artifact: Artifact, part: str, n: int | None) -> Iterator[dict[str, Any]]:
        reader = self._read(artifact)
        left = n
        for i in range(reader.n_partitions):
            for row in reader.table(part, i).to_pylist():
                if left == 0:
                    return
                left = None if left is None else left - 1
                yield {key: _shown(value) for key, value in row.items()}

    def concordance(self, word: str, n: int) -> list[dict[str, Any]]:
        """The first occurrences of a word with the tokens around it, within their sentence."""
        tokens = read_tokens(self._read(self.corpus().tokens["train"]))
        rows: list[dict[str, Any]] = []
        for part in tokens.partitions:
            if word not in part.types:
                continue
            ids, starts = part.text.ids, part.text.starts
            for at in np.flatnonzero(ids == part.types.index(word))[: n - len(rows)].tolist():
                sentence = int(np.searchsorted(starts, at, "right")) - 1
                begin = max(int(starts[sentence]), at - AROUND)
                end = min(int(starts[sentence + 1]), at + 1 + AROUND)
                left = " ".join(part.types[i] for i in ids[begin:at])
                right = " ".join(part.types[i] for i in ids[at + 1 : end])
                rows.append({"left": left, "word": word, "right": right})
            if len(rows) == n:
                break
        return rows

    # --- counting ---------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """What a corpus amounts to: documents, sentences, tokens, types, lengths, growth."""
        made = self.corpus()
        tokens = read_tokens(self._read(made.tokens["train"]))
        lengths = np.concatenate([np.diff(part.text.starts) for part in tokens.partitions])
        counts = self._read(made.types).table(TYPES_TABLE)["count"].to_numpy()
        total = int(counts.sum())
        growth = []
        seen: set[str] = set()
        n = 0
        for part in tokens.partitions:
            seen.update(part.types)
            n += len(part.text.ids)
            growth.append((n, len(seen)))
        return {
            "content": made.content,
            "documents": int(made.stats["tokenize train"]["documents"]),
            "sentences": len(lengths),
            "tokens": total,
            "types": len(counts),
            "seen once": int((counts == 1).sum()),
            "tokens a sentence, median": float(np.median(lengths)) if len(lengths) else 0.0,
            "tokens a sentence, longest": int(lengths.max(initial=0)),
            "types that make half of the text": int(
                np.searchsorted(np.cumsum(counts), total / 2) + 1
            ),
            "growth": growth,
        }

    def vocabulary(self, min_count: int) -> pa.Table:
        """Words and their counts, most frequent first, ties by bytes."""
        table = self._read(self.corpus().types).table(TYPES_TABLE)
        return table.filter(pc.greater_equal(table["count"], min_count))

    def ngrams(self, order: int, min_count: int) -> pa.Table:
        """n-grams and their counts, most frequent first, ties by the order of their words."""
        tokens, vocabulary = self._laid_under(1, LM_RESERVED)
        counted = count_ngrams(self.runner, tokens, vocabulary, order)
        found, words = read_ngrams(self._read(counted)), self._words(vocabulary)
        rows = np.flatnonzero(found.counts >= min_count)
        rows = rows[np.argsort(-found.counts[rows], kind="stable")]
        names = [words.take(pa.array(found.ngrams[rows, k])) for k in range(order)]
        joined = pc.binary_join_element_wise(*names, pa.scalar(" ", pa.large_string()))
        return pa.table({"ngram": joined, "count": pa.array(found.counts[rows])})

    def cooccurrence(self, settings: Cooccurrence, min_count: int) -> pa.Table:
        """Pairs of words and how much they stand together, the most first, ties by their ranks."""
        tokens, vocabulary = self._laid_under(min_count, ())
        counted = count_cooccurrence(self.runner, tokens, vocabulary, settings)
        parts = read_cooccurrence(self._read(counted)).entries()
        none = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
        rows, columns, weights = map(np.concatenate, zip(none, *parts, strict=True))
        order, words = np.argsort(-weights, kind="stable"), self._words(vocabulary)
        both = [pa.DictionaryArray.from_arrays(ids[order], words) for ids in (rows, columns)]
        return pa.table([*both, pa.array(weights[order])], names=["word", "beside", "weight"])

    def _laid_under(self, min_count: int, reserved: tuple[str, ...]) -> tuple[Artifact, Artifact]:
        """The tokens of the training text, and the vocabulary of its words."""
        made = self.corpus()
        wanted = WantsVocabulary(min_count, None, reserved)
        return made.tokens["train"], self.runner.run(VOCABULARY, {"types": made.types}, wanted)

    def _words(self, vocabulary: Artifact) -> pa.Array:
        found = read_vocabulary(self._read(vocabulary))
        return pa.array([*found.reserved, *found.words], pa.large_string())

    def _read(self, artifact: Artifact) -> Reader:
        return self.runner.store.reader(artifact)


@dataclass(frozen=True)
class OnlyWork:
    """Passes on what is being computed, and keeps quiet about what was there.

    Attributes:
        to: who is told.
    """

    to: Observer

    def begin(self, name: str) -> None:
        """A step begins to compute."""
        self.to.begin(name)

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """It has come so far."""
        self.to.advance(name, done, total, unit)

    def end(self, outcome: Outcome) -> None:
        """It has ended."""
        if not outcome.reused:
            self.to.end(outcome)


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()[:12]
    return value[:START] if isinstance(value, str) else value
