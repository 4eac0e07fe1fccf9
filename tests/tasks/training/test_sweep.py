"""The loop of lock-free sweeps, with the word2vec family in it."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models import word2vec
from models.family import Inputs, Report
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import Vocabulary
from tasks.errors import TrainingError
from tasks.store import Store
from tasks.training.checkpoint import Checkpoints
from tasks.training.ranks import Place
from tasks.training.sweep import Loop, sweep, sweep_resumably
from tasks.training.tracker import Silent
from tests.tasks.training.trainee import RECIPE, context_of


class Recorder:
    """Keeps what a loop tells it."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.progress: list[tuple[int, int]] = []

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.logged.append((step, dict(metrics)))


def corpus(sentences: int = 3000, words: int = 300, length: int = 20) -> Inputs:
    """Text in which a word is followed by words with numbers near its own."""
    random = np.random.default_rng(0)
    centres = random.zipf(1.3, (sentences, 1)) % words
    ids = ((centres + random.integers(0, 12, (sentences, length))) % words).astype(np.int32).ravel()
    counts = np.maximum(np.bincount(ids, minlength=words), 1)
    order = np.argsort(-counts, kind="stable")
    names = [f"w{i}" for i in range(words)]
    vocabulary = Vocabulary((), tuple(names[i] for i in order), counts[order].astype(np.int64))
    starts = np.arange(sentences + 1, dtype=np.int64) * length
    text = Sentences(ids, starts, np.array([0, sentences]))
    return Inputs(
        {"train": Tokens([TokenPartition(names, counts, text)]), "vocabulary": vocabulary}
    )


def train(
    inputs: Inputs, threads: int = 1, seed: int = 1, **settings: Any
) -> tuple[word2vec.Model, Report, Recorder]:
    config = word2vec.Config(**{"dim": 32, "epochs": 3, "sample": 0.01, **settings})
    model, recorder = config.build(inputs, seed=seed), Recorder()
    context: Any = SimpleNamespace(
        resources=SimpleNamespace(threads=threads),
        progress=lambda done, total, unit: recorder.progress.append((done, total)),
    )
    return model, sweep(model, inputs, seed, context, recorder), recorder


def fingerprint(model: word2vec.Model) -> int:
    return zlib.crc32(b"".join(array.tobytes() for array in model.state().values()))


@pytest.fixture
def many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "CHUNK_WORDS", 7000)
    monkeypatch.setattr("tasks.training.sweep.LOG_SECONDS", 0.0)


@pytest.mark.usefixtures("many_chunks")
def test_a_run_tells_what_it_did() -> None:
    _, report, recorder = train(corpus())
    assert report["tokens"] == 180_000
    assert report["epochs"] == 3
    assert 0 < float(report["subsampled"]) < 1
    assert float(report["tokens_per_second"]) > 0
    assert recorder.progress[0] == (0, 180_000)
    assert recorder.progress[-1] == (180_000, 180_000)
    steps = [step for step, _ in recorder.logged]
    assert steps == sorted(set(steps))
    rates = [metrics["learning_rate"] for _, metrics in recorder.logged]
    assert len(rates) == 3 * 9
    np.testing.assert_allclose(np.diff(rates), (1e-4 - 0.025) / 27)  # one line over all epochs
    losses = [metrics["loss"] for _, metrics in recorder.logged]
    assert 6 * np.log(2) > losses[0] > losses[-1] > 0  # at the start all logits are zero
    assert report["train_loss"] == pytest.approx(np.mean(losses[-9:]), rel=0.01)


@pytest.mark.usefixtures("many_chunks")
def test_one_thread_gives_the_same_bytes_in_any_process_and_threads_the_same_loss() -> None:
    inputs = corpus()
    model, report, _ = train(inputs)
    code = (
        "import runpy, sys; t = runpy.run_path(sys.argv[1]);"
        "t['word2vec'].CHUNK_WORDS = 7000;"
        "print(t['fingerprint'](t['train'](t['corpus']())[0]))"
    )
    again = subprocess.run(
        [sys.executable, "-c", code, __file__], capture_output=True, text=True, check=True
    )
    assert int(again.stdout) == fingerprint(model)
    assert fingerprint(train(inputs, seed=2)[0]) != fingerprint(model)
    _, threaded, _ = train(inputs, threads=4)
    assert threaded["train_loss"] == pytest.approx(report["train_loss"], rel=0.03)
    assert threaded["subsampled"] == report["subsampled"]


@pytest.mark.usefixtures("many_chunks")
@pytest.mark.parametrize(("rate", "loss"), [(0.3, r"\d"), (10.0, "(nan|inf)"), (1e30, "(nan|inf)")])
def test_too_high_a_rate_ends_the_run_at_once(rate: float, loss: str) -> None:
    text = rf"(?s)epoch 1, .*training diverges, the loss is {loss}.*lower learning_rate"
    with pytest.raises(TrainingError, match=text):
        train(corpus(), threads=2, learning_rate=rate)


@pytest.mark.parametrize(("sentences", "length"), [(0, 5), (50, 1)])
def test_text_without_examples_is_an_error(sentences: int, length: int) -> None:
    with pytest.raises(TrainingError, match="no training example"):
        train(corpus(sentences=sentences, length=length))


def test_training_that_moves_nothing_is_an_error() -> None:
    with pytest.raises(TrainingError, match="moved nothing"):
        train(corpus(200), learning_rate=1e-40, min_learning_rate=0)


def test_what_is_left_of_a_training_may_move_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that ends in lines of one word, killed before these."""
    monkeypatch.setattr(word2vec, "CHUNK_WORDS", 300)
    random = np.random.default_rng(0)
    names = tuple(f"w{i}" for i in range(20))
    lines = [[names[i] for i in random.integers(0, 20, 10)] for _ in range(90)]
    lines += [[names[i]] for i in random.integers(0, 20, 300)]
    vocabulary = Vocabulary((), names, np.full(20, 60, np.int64))
    text = Sentences.of(vocabulary, lines)
    counts = np.bincount(text.ids, minlength=20)
    tokens = Tokens([TokenPartition(list(names), counts, text)])
    inputs = Inputs({"train": tokens, "vocabulary": vocabulary})
    config = word2vec.Config(dim=8, epochs=1, min_count=1, sample=0)
    model = config.build(inputs, seed=1)
    checkpoints = Checkpoints(store, RECIPE)
    loop = Loop(model, inputs, 1, checkpoints, place=Place.alone(0), checkpoint_seconds=0.0)
    for _ in range(len(model.chunks(inputs)) - 1):
        loop._train_chunk()
    again, calm = config.build(inputs, seed=1), config.build(inputs, seed=1)
    sweep_resumably(again, inputs, 1, context_of(store), Silent())
    sweep(calm, inputs, 1, context_of(store), Silent())
    assert fingerprint(again) == fingerprint(calm)
