"""Train a small model on two Ray workers: python train_on_ray.py HOME LOG FAMILY."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import tasks.train
from models import nplm, rnnlm, word2vec
from models.families import FamilyConfig
from tasks.cluster import RayCluster
from tasks.corpus import CorpusConfig, build_corpus
from tasks.models import TextPipeline
from tasks.prepare import prepare
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import Fractions
from tasks.step import Resources
from tasks.store import Store
from tests.tasks.training.trainee import Log

CONFIGS: dict[str, FamilyConfig] = {
    "nplm": nplm.Config(
        embedding=16, hidden=24, batch_size=64, epochs=3, min_count=1, patience=0,
        precision="float32",
    ),
    "rnnlm": rnnlm.Config(
        embedding=16, units=24, layers=1, batch_size=8, steps=8, epochs=3, min_count=1, patience=0,
        precision="float32",
    ),
    "word2vec": word2vec.Config(dim=32, epochs=400, min_count=1),
}  # fmt: skip


class SlowingLog(Log):
    """A log after which a step takes its time, from the step on that is written beside it."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        super().log(metrics, step)
        slow = self.path.with_suffix(".slow")
        with suppress(FileNotFoundError):
            if step >= int(slow.read_text()):
                time.sleep(0.1)


def write_text(path: Path) -> None:
    """Sentences of a made-up language, some 25,000 words."""
    random = np.random.default_rng(11)
    lines = []
    for _ in range(3000):
        word, words = int(random.integers(200)), []
        for _ in range(int(random.integers(4, 13))):
            words.append(f"w{word}")
            word = (word * 7 + int(random.integers(4))) % 200
        lines.append(" ".join(words))
    path.write_text("\n".join(lines))


def main(home: Path, log: Path, config: FamilyConfig) -> None:
    home.mkdir(parents=True, exist_ok=True)
    text = home / "text.txt"
    if not text.exists():
        write_text(text)

    @contextmanager
    def to_file(*_: Any, **__: Any) -> Iterator[Log]:
        yield SlowingLog(log)

    tasks.train.open_tracker = to_file
    store = Store(str(home / "store"), home / "cache")
    runner = Runner(store)
    source = Source(paths=(str(text),))
    split = Fractions(valid=0.1, test=0.1)
    corpus = build_corpus(runner, CorpusConfig(name="small", train=source, split=split))
    inputs = prepare(runner, corpus, config)
    # Ray starts here alone: what comes before is the same in every run.
    workers = Runner(store, ray=RayCluster(cpus=2))
    pipeline = TextPipeline(corpus.config.normalize, corpus.config.tokenize)
    resources = Resources(threads=2, workers=2, checkpoint_seconds=0.5)
    model = workers.run(
        tasks.train.TRAIN,
        inputs,
        tasks.train.Train(config, pipeline),
        resources=resources,
        in_driver=True,
    )
    print(model.content, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), CONFIGS[sys.argv[3]])
