"""The loop on two Ray workers: the same model as in one process, told from where it was started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tasks.train
from models import word2vec
from models.nplm import Config, Nplm
from tasks.artifacts import Artifact
from tasks.cluster import RayCluster
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.errors import ConfigError, TrainingError
from tasks.models import TextPipeline, read_model
from tasks.prepare import prepare
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import Fractions
from tasks.step import Resources, execute
from tasks.store import Store

CONFIG = Config(
    embedding=6, hidden=8, batch_size=64, epochs=2, min_count=1, patience=0, precision="float32"
)


@pytest.fixture
def corpus(store: Store, tmp_path: Path) -> Corpus:
    random = np.random.default_rng(3)
    lines = [" ".join(f"w{w}" for w in random.integers(0, 30, 8)) for _ in range(200)]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines))
    source, split = Source(paths=(str(text),)), Fractions(valid=0.1, test=0.1)
    return build_corpus(Runner(store), CorpusConfig(name="small", train=source, split=split))


@pytest.fixture
def inputs(store: Store, corpus: Corpus) -> dict[str, Artifact]:
    return prepare(Runner(store), corpus, CONFIG)


class Told:
    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.steps.append((step, metrics["loss"]))


def train(
    store: Store,
    inputs: dict[str, Artifact],
    workers: int,
    config: Config = CONFIG,
    replicate: int = 0,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> Nplm:
    text = TextPipeline(CorpusConfig().normalize, CorpusConfig().tokenize)
    manifest, reused = execute(
        tasks.train.TRAIN,
        store,
        inputs,
        tasks.train.Train(config, text, replicate=replicate),
        resources=Resources(threads=2, workers=workers),
        progress=progress,
    )
    assert not reused
    assert manifest.stats["workers"] == workers
    model = read_model(store.reader(manifest.handle()))
    assert isinstance(model, Nplm)
    return model


def test_two_workers_learn_what_one_process_learns(
    store: Store,
    inputs: dict[str, Artifact],
    ray_cluster: RayCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Told] = []

    @contextmanager
    def tracker(*_: Any, anew: bool) -> Iterator[Told]:
        assert anew  # nothing to go on from
        told.append(Told())
        yield told[-1]

    monkeypatch.setattr(tasks.train, "open_tracker", tracker)
    seen: list[tuple[int, int, str]] = []
    one = train(store, inputs, 1).state()
    two = train(store, inputs, 2, replicate=1, progress=lambda *event: seen.append(event)).state()
    for name, array in one.items():
        np.testing.assert_allclose(two[name], array, atol=1e-5)
    assert [step for step, _ in told[1].steps] == [step for step, _ in told[0].steps]
    np.testing.assert_allclose(*([loss for _, loss in one.steps] for one in told), rtol=1e-5)
    assert seen
    assert {unit for _, _, unit in seen} <= {"tokens", "held-out batches"}
    # Checkpoints and what Ray keeps of a run are gone.
    assert not store.files.names("checkpoint")
    assert not store.files.names(".scratch")
    with pytest.raises(ConfigError, match="3 workers need 3 CPUs, but Ray has 2"):
        train(store, inputs, 3, replicate=2)


def test_two_workers_sweep_and_tell_what_it_cost(
    store: Store, corpus: Corpus, ray_cluster: RayCluster
) -> None:
    config = word2vec.Config(dim=8, min_count=1, epochs=3, sample=0)
    given = prepare(Runner(store), corpus, config)
    text = TextPipeline(CorpusConfig().normalize, CorpusConfig().tokenize)
    seen: list[int] = []
    made = [
        execute(
            tasks.train.TRAIN,
            store,
            given,
            tasks.train.Train(config, text, replicate=replicate),
            resources=Resources(threads=2, workers=2),
            progress=lambda done, total, unit: seen.append(done),
        )[0]
        for replicate in (0, 1)
    ]
    assert made[0].handle().content == made[1].handle().content  # one thread each: the same bytes
    stats = made[0].stats
    assert stats["workers"] == 2
    assert float(stats["tokens"]) > 3 * 1000
    assert 0 < float(stats["sync_share"]) + float(stats["wait_share"]) < 1
    assert seen
    assert not store.files.names("checkpoint")


@pytest.mark.verify
def test_an_error_that_no_other_try_would_mend_comes_through_as_it_is(
    store: Store, inputs: dict[str, Artifact], ray_cluster: RayCluster
) -> None:
    wild = replace(CONFIG, optimizer="sgd", learning_rate=1e30, clip=0.0, warmup=0.0)
    with pytest.raises(TrainingError, match="is not finite"):
        train(store, inputs, 2, wild)
