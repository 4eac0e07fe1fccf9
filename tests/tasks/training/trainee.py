"""A small training to be killed, resumed and cut over ranks, each in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo  # The first optimizer imports it: once here, not in every process.
import torch.distributed as dist

from models import awd_lstm, rnnlm
from models.awd_lstm import AwdLstm
from models.family import Inputs
from models.nplm import Config, Nplm
from models.rnnlm import Rnnlm
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary
from tasks.artifacts import digest
from tasks.step import Context, Resources
from tasks.storage import LocalFiles
from tasks.store import Store, Writer
from tasks.training.checkpoint import Checkpoint, Checkpoints, Standing, to_arrays
from tasks.training.learn import Loop, learn
from tasks.training.ranks import Place

RECIPE = digest("a small training")
CONFIG = Config(
    embedding=6, hidden=8, batch_size=48, epochs=2, patience=0, precision="float32", clip=0.5
)
CARRYING = rnnlm.Config(
    units=8, embedding=6, layers=2, batch_size=6, steps=5, epochs=2, patience=0, dropout=0.0,
    precision="float32", clip=0.5,
)  # fmt: skip
"""A model whose state goes from batch to batch, and over the ends of documents does not."""
AVERAGING = awd_lstm.Config(
    layers=2, units=8, embedding=6, batch_size=12, steps=9, epochs=7, precision="float32",
    learning_rate=0.1, schedule="constant", average=1, word_dropout=0, input_dropout=0,
    hidden_dropout=0, output_dropout=0, weight_drop=0,
)  # fmt: skip
"""A model that soon gets worse, so that its weights are averaged."""
MASKED = replace(
    AVERAGING, word_dropout=0.1, input_dropout=0.2, hidden_dropout=0.2, output_dropout=0.2,
    weight_drop=0.2, learning_rate=1.0,
)  # fmt: skip


def small_inputs(sentences: int = 60, seed: int = 5) -> Inputs:
    """A made-up language in which the next word depends on the last one, in two partitions."""
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary(LM_RESERVED, tuple("abcdefghij"), np.full(10, 50, np.int64))

    def text(n: int) -> TokenPartition:
        ids, starts = [], [0]
        for _ in range(n):
            word = int(random.integers(10))
            for _ in range(int(random.integers(1, 9))):
                ids.append(word)
                word = (word * 3 + int(random.integers(3))) % 10
            starts.append(len(ids))
        documents = np.arange(0, n + 3, 3, dtype=np.int64).clip(max=n)
        sentences = Sentences(np.array(ids, np.int32), np.array(starts, np.int64), documents)
        counts = np.bincount(ids, minlength=10).astype(np.int64)
        return TokenPartition(vocabulary.words, counts, sentences)

    train = Tokens([text(sentences // 2), text(sentences - sentences // 2)])
    heldout = Tokens([text(15)])
    return Inputs({"train": train, "heldout": heldout, "vocabulary": vocabulary})


def context_of(store: Store, **resources: Any) -> Context:
    """The context of a training of the recipe."""
    return Context(
        store, RECIPE, Writer(store, "train", RECIPE), Resources(**resources), lambda *_: None
    )


def weights_hash(model: Nplm | Rnnlm | AwdLstm) -> str:
    """The bits of all weights."""
    state = model.state()
    return hashlib.sha256(b"".join(state[name].tobytes() for name in sorted(state))).hexdigest()


class Log:
    """A tracker that appends to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        kept = {key: value for key, value in metrics.items() if key != "tokens_per_second"}
        with self.path.open("a") as file:
            file.write(json.dumps([step, kept]) + "\n")

    def read(self) -> dict[int, dict[str, float]]:
        """What was told by step; what was told twice has to be the same to the last bit."""
        told: dict[int, dict[str, float]] = {}
        for line in self.path.read_text().splitlines():
            step, metrics = json.loads(line)
            assert told.setdefault(step, metrics) == metrics
        return told


def die_at(event: int) -> None:
    """Have this process killed just before its ``event``-th event."""
    left = event

    def counted(action: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return action(*args, **options)

        return wrapper

    for owner, name in ((LocalFiles, "put"), (LocalFiles, "create"), (Loop, "_step")):
        setattr(owner, name, counted(getattr(owner, name)))


@dataclass(frozen=True)
class Trainee:
    """One process of a training.

    Attributes:
        folder: takes the store, the log and what comes of it.
        name: of all three.
        config: of the model.
        kill: the event at which the process dies by SIGKILL, 0 for none.
        seconds: between checkpoints; 0 writes one after every step.
        rank: of this process.
        world: processes; more than one meet at the file ``meet``.
        meet: a new file.
    """

    folder: Path
    name: str
    config: Config | rnnlm.Config | awd_lstm.Config = CONFIG
    kill: int = 0
    seconds: float = 0.0
    rank: int = 0
    world: int = 1
    meet: Path = Path()

    @property
    def store(self) -> Store:
        return Store(str(self.folder / self.name), self.folder)

    @property
    def log(self) -> Log:
        return Log(self.folder / f"{self.name}.log")

    @property
    def out(self) -> Path:
        """A file that holds the final weights' hash of this rank."""
        return self.folder / f"{self.name}.{self.rank}"

    def train(self) -> None:
        """Train to the end or to the kill; to be called in a process of its own."""
        torch.set_num_threads(1)
        if self.kill:
            die_at(self.kill)
        model = self.config.build(small_inputs(), seed=1)
        if self.world == 1:
            context = context_of(self.store, checkpoint_seconds=self.seconds)
            learn(model, small_inputs(), 1, context, self.log)
        else:
            self._train_with_others(model)
        self.out.write_text(weights_hash(model))

    def _train_with_others(self, model: Nplm | Rnnlm | AwdLstm) -> None:
        limit = timedelta(seconds=60)
        dist.init_process_group("gloo", f"file://{self.meet}", limit, self.world, self.rank)
        checkpoints = Checkpoints(self.store, RECIPE)
        if self.rank == 0 and checkpoints.newest() is None:
            checkpoints.save(Checkpoint(Standing(), to_arrays(model.state_dict()), {}, {}))
        dist.barrier()
        Loop(
            model,
            small_inputs(),
            1,
            checkpoints,
            place=Place(torch.device("cpu"), self.rank, self.world),
            tracker=self.log,
            checkpoint_seconds=self.seconds,
        ).run()
