"""What a corpus will come to, told from its first few megabytes.

The start of the source goes through the very steps of a run, in a folder that is thrown away.
Times are CPU seconds of this thread, so they hold on a machine that is busy with something else.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.corpus import CorpusConfig, build_corpus
from tasks.errors import InputError
from tasks.places import find_files
from tasks.readers import Ingest, peek
from tasks.runner import Outcome, Runner
from tasks.sources import PARTITION_BYTES, Source
from tasks.store import Store
from tasks.tokenize import read_tokens

SAMPLE_BYTES = 4 * 2**20
"""So much text is looked at."""


@dataclass(frozen=True)
class Growth:
    """A number that grows as a power of the text: seen at half of the sample and at all of it."""

    half: float
    whole: float

    def at(self, factor: float) -> float:
        """The number for so many times the sample (Heaps' law)."""
        if not self.whole:
            return 0.0
        power = math.log2(self.whole / self.half) if self.half else 1.0
        return float(self.whole * factor ** min(1.0, max(0.0, power)))


PAIRED = 1 << 18
"""Tokens at the start of the sample by which pairs are told."""


@dataclass(frozen=True)
class Measured:
    """What a step took for the sample: CPU seconds, and bytes in the store."""

    seconds: float
    disk: int


@dataclass(frozen=True)
class Sample:
    """A corpus as told from its start.

    Attributes:
        factor: how many times the sample the whole training source is.
        partitions: of the whole.
        steps: what the steps of the corpus took for the sample, by name.
        tokens: of each split in the sample.
        counts: how often each type stands in the sample, at half of it and at all of it.
        ids: the training tokens of the sample.
        starts: where its sentences begin.
    """

    factor: float
    partitions: int
    steps: Mapping[str, Measured]
    tokens: Mapping[str, int]
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]

    def n_tokens(self, split: str) -> float:
        """Tokens of a split of the whole corpus."""
        return self.tokens.get(split, 0) * self.factor

    def n_sentences(self) -> float:
        """Sentences of the whole training text."""
        return (len(self.starts) - 1) * self.factor

    def n_types(self, min_count: int) -> float:
        """Types of the whole training text that stand in it at least so often."""

        def types(ids: NDArray[np.int32]) -> float:
            return float((np.bincount(ids) >= min_count).sum()) if len(ids) else 0.0

        return Growth(types(self.ids[: len(self.ids) // 2]), types(self.ids)).at(self.factor)

    def n_ngrams(self, order: int) -> float:
        """Distinct n-grams of the whole training text."""
        keys = np.zeros(max(0, len(self.ids) - order + 1), np.uint64)
        for i in range(order):
            keys = keys * np.uint64(0x9E3779B97F4A7C15) + self.ids[i : i + len(keys)].astype("u8")
            keys ^= keys >> np.uint64(29)
        half = keys[: len(keys) // 2]
        return Growth(len(np.unique(half)), len(np.unique(keys))).at(self.factor)

    def n_pairs(self, window: int, min_count: int) -> float:
        """Pairs of types in the whole training text within a distance, in either order.

        Types must stand in it ``min_count`` times, and are told by the share that they have here.
        """
        counts = np.bincount(self.ids) if len(self.ids) else np.zeros(1, np.int64)
        head = self.ids[:PAIRED]
        ids = np.where((counts * self.factor >= min_count)[head], head, -1).astype(np.int64)

        def pairs(n: int) -> float:
            keys = []
            for distance in range(1, window + 1):
                a, b = ids[: max(0, n - distance)], ids[distance:n]
                both = (a >= 0) & (b >= 0)
                keys.append(np.minimum(a, b)[both] * len(counts) + np.maximum(a, b)[both])
            return float(len(np.unique(np.concatenate(keys))))

        more = self.factor * len(self.ids) / max(1, len(ids))
        return Growth(pairs(len(ids) // 2), pairs(len(ids))).at(more)


@dataclass
class _Stopwatch:
    """Notes what every step took."""

    store: Store
    steps: dict[str, Measured] = field(default_factory=dict)
    _began: float = 0.0

    def begin(self, name: str) -> None:
        """A step begins."""
        self._began = time.process_time()

    def advance(self, name: str, done: int, total: int, unit: str) -> None:
        """Nothing."""

    def end(self, outcome: Outcome) -> None:
        """It has ended."""
        parts = self.store.manifest(outcome.artifact).parts
        seconds = time.process_time() - self._began
        self.steps[outcome.name] = Measured(seconds, sum(part.size for part in parts))


def take_sample(config: CorpusConfig) -> Sample:
    """Run the steps of a corpus over its first megabytes.

    Raises:
        InputError: the source cannot be read, or is a data set, whose size nobody knows before
            it is there.
    """
    source = config.train
    if source.format == "dataset":
        raise InputError(
            "how large a data set is turns out when it is loaded",
            where=source.dataset,
            remedy="run the corpus flow first; then everything else can be planned",
        )
    _start_of(source, 1)  # whatever is only done the first time
    began = time.process_time()
    texts, size, whole = _start_of(source, SAMPLE_BYTES)
    reading = time.process_time() - began
    # The sample goes in as JSON lines, and comes out of the same steps as the source would.
    markup = config.normalize.markup
    if markup == "auto":
        markup = "wikitext" if source.format == "wikipedia" else "none"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        sample = replace(
            config,
            train=Source(paths=(str(path),), format="jsonl"),
            valid=None,
            test=None,
            normalize=replace(config.normalize, markup=markup),
        )
        store = Store(str(Path(folder) / "store"), Path(folder) / "cache")
        watch = _Stopwatch(store)
        corpus = build_corpus(Runner(store, observer=watch), sample)
        read = {split: read_tokens(store.reader(tokens)) for split, tokens in corpus.tokens.items()}
        steps = dict(watch.steps)
        steps["ingest train"] = replace(steps["ingest train"], seconds=reading)
        first = read["train"].partitions[0].text
        return Sample(
            factor=whole / size if size else 1.0,
            partitions=max(1, round(whole / PARTITION_BYTES)),
            steps=steps,
            tokens={split: tokens.n_tokens for split, tokens in read.items()},
            ids=np.array(first.ids),
            starts=np.array(first.starts),
        )


def _start_of(source: Source, limit: int) -> tuple[list[str], float, float]:
    """The first texts of a source, their bytes, and the bytes of text in the whole source."""
    texts: list[str] = []
    packed, text_bytes, rest = 0.0, 0.0, 0.0
    for path in find_files(source.paths):
        size = path.stat().st_size
        wanted = limit - text_bytes
        if wanted <= 0:
            rest += size
            continue
        found, share = peek(path, Ingest.of(source), int(wanted))
        texts += found
        text_bytes += _bytes(found)
        packed += share * size
        rest += (1 - share) * size
    return texts, text_bytes, text_bytes * (1 + rest / packed) if packed else text_bytes


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def speed() -> float:
    """How fast this machine multiplies, in floating-point operations a CPU second of one thread."""
    draw: Any = np.random.default_rng(0)
    a, b = (draw.standard_normal((256, 512), np.float32) for _ in range(2))
    best = math.inf
    # Many short trials: what else runs on the machine slows some of them, never the best.
    for _ in range(200):
        began = time.thread_time()
        np.dot(a, b.T)
        best = min(best, time.thread_time() - began)
    return 2 * 256 * 512 * 256 / best
