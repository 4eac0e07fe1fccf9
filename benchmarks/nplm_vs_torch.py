"""The neural model of Bengio against an idiomatic torch loop of the same model, in float32.

    python benchmarks/nplm_vs_torch.py train.txt valid.txt
    python benchmarks/nplm_vs_torch.py train.txt valid.txt --steps 400 --rounds 1     # quality

The texts have a sentence a line, words between spaces. The peer is what one writes in torch:
``nn.Embedding``, two ``nn.Linear``, ``F.cross_entropy``, ``AdamW``, ``clip_grad_norm_``, over
contexts that are tensors beforehand (ours are made for each batch, and counted). Both begin with
the same weights, see the same batches in the same order at the same rates, and are scored by the
same code in float64 with the full softmax. They take turns in one process; what counts is the
ratio. Pinned: context 4, 100 features, 300 hidden units, words seen more than 3 times, 512 words a
step, AdamW at 1e-3, two threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # a waiting thread is no CPU second
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
import torch.nn.functional as F
from common import machine, write
from torch import nn

from models.family import Inputs, Plan
from models.nplm import Config, Nplm
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary, select
from tasks.step import Context, Resources
from tasks.store import Store, Writer
from tasks.training.learn import learn
from tasks.training.optimizer import rate_at
from tasks.training.tracker import Silent

SEED = 1
PINNED = {"context": 4, "embedding": 100, "hidden": 300, "batch_size": 512, "learning_rate": 1e-3}


def tokens(path: Path, limit: int | None = None) -> Tokens:
    """A text of at most so many words, whole sentences."""
    sentences, n = [], 0
    for line in path.read_text("utf-8").splitlines():
        words = line.split()
        if limit is not None and n + len(words) > limit:
            break
        sentences.append(words)
        n += len(words)
    types = sorted({word for words in sentences for word in words})
    table = Vocabulary((), tuple(types), np.ones(len(types), np.int64))
    text = Sentences.of(table, sentences)
    counts = np.bincount(text.ids, minlength=len(types)).astype(np.int64)
    return Tokens([TokenPartition(types, counts, text)])


class Peer(nn.Module):
    """The same model as one writes it in torch."""

    def __init__(self, ours: Nplm) -> None:
        super().__init__()
        config, size = ours.config, len(ours.vocabulary)
        self.features = nn.Embedding(size, config.embedding)
        self.hidden = nn.Linear(config.context * config.embedding, config.hidden)
        self.output = nn.Linear(config.hidden, size)
        with torch.no_grad():
            pairs = zip(self.parameters(), (ours.C, ours.H, ours.d, ours.U, ours.b), strict=True)
            for mine, theirs in pairs:
                mine.copy_(theirs)

    def forward(self, contexts: torch.Tensor) -> torch.Tensor:
        """(B, N) -> (B, V)."""
        x = self.features(contexts).flatten(1)
        return self.output(torch.tanh(self.hidden(x)))


def train_peer(model: Nplm, batches: list[Any]) -> float:
    """Train the peer and write its weights into the model; the seconds of its steps."""
    peer, schedule = Peer(model), model.schedule
    optimizer = torch.optim.AdamW(peer.parameters(), weight_decay=model.config.weight_decay)
    began = time.perf_counter()
    for step, (contexts, targets) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, len(batches), schedule)
        optimizer.zero_grad()
        loss = F.cross_entropy(peer(contexts), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), schedule.clip)
        optimizer.step()
        loss.item()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        for theirs, mine in zip(
            (model.C, model.H, model.d, model.U, model.b), peer.parameters(), strict=True
        ):
            theirs.copy_(mine)
    return seconds


def train_ours(model: Nplm, inputs: Inputs, threads: int) -> float:
    """Train ours by the loop of every run; the seconds of its steps, checkpoints not counted."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, Path(folder))
        place = Context(
            store,
            "0" * 64,
            Writer(store, "train", "0" * 64),
            Resources(threads=threads),
            lambda *_: None,
        )
        report = learn(model, inputs, SEED, place, Silent())
    return float(report["tokens"]) / float(report["tokens_per_second"])


def run(options: argparse.Namespace) -> None:
    """All rounds, and the report."""
    torch.set_num_threads(options.threads)
    everything = tokens(options.train)
    part = everything.partitions[0]
    vocabulary = select(
        list(part.types), part.counts, min_count=4, max_size=None, reserved=LM_RESERVED
    )
    text = tokens(options.train, options.steps * PINNED["batch_size"])
    held = tokens(options.valid, options.held_out).partitions[0].under(vocabulary)
    inputs = Inputs({"train": text, "vocabulary": vocabulary})
    config = Config(**PINNED, min_count=4, max_size=None, epochs=1, patience=0)
    systems = {"torch, float32": "float32", "lexloom": "auto", "lexloom, float32": "float32"}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
    for _ in range(options.rounds):
        for name, precision in systems.items():
            chosen = Config(**{**vars(config), "precision": precision})
            model = chosen.build(inputs, seed=SEED)
            batches = list(model.batches(inputs, Plan(SEED)))
            load, cpu = os.getloadavg()[0], time.process_time()
            if name.startswith("torch"):
                seconds = train_peer(model, batches)
            else:
                seconds = train_ours(model, inputs, options.threads)
            cpu = time.process_time() - cpu
            words = sum(len(targets) for _, targets in batches)
            model.eval()
            ppl = float(np.exp(-model.log_prob(held).mean()))
            figures = {
                "words": words,
                "seconds": seconds,
                "cpu": cpu,
                "perplexity": ppl,
                "load": load,
            }
            runs[name].append(figures)
            print(name, figures, flush=True)
    size = len(vocabulary)
    write(
        f"nplm-vs-torch-t{options.threads}-s{options.steps}",
        report(runs, options, size),
        {"pinned": PINNED, "runs": runs},
    )


def report(runs: dict[str, list[dict[str, float]]], options: argparse.Namespace, size: int) -> str:
    """The result as Markdown."""
    base = runs["torch, float32"]
    settings = ", ".join(f"{key} {value}" for key, value in PINNED.items())
    loads = [figures["load"] for each in runs.values() for figures in each]
    lines = [
        "# The neural probabilistic language model against plain torch",
        "",
        f"{options.name}, V = {size:,}; {settings}; {options.threads} threads; {options.rounds} "
        f"interleaved rounds of {base[0]['words']:,.0f} words; {machine()}, torch "
        f"{torch.__version__}; load {min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| | words/s | a CPU second | against torch | by CPU time | perplexity |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in runs.items():
        rate = statistics.median(f["words"] / f["seconds"] for f in figures)
        lean = statistics.median(f["words"] / f["cpu"] for f in figures)
        ratios, by_cpu = (
            [theirs[key] / ours[key] for theirs, ours in zip(base, figures, strict=True)]
            for key in ("seconds", "cpu")
        )
        lines.append(
            f"| {name} | {rate:,.0f} | {lean:,.0f} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) | {statistics.median(by_cpu):.2f} "
            f"| {statistics.mean(f['perplexity'] for f in figures):.2f} |"
        )
    lines += [
        "",
        "CPU seconds of ours count the start of the loop and its checkpoints too. The peer's "
        "contexts are tensors beforehand, ours are made for every batch.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("--name", default="a text", help="what the report calls it")
    parser.add_argument("--steps", type=int, default=30, help="of training a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--held-out", type=int, default=5000, help="words that are scored")
    parser.add_argument("--threads", type=int, default=2)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
