"""A recurrent language model against an idiomatic torch loop of the same model.

    python benchmarks/rnnlm_vs_torch.py train.txt valid.txt

The texts have a sentence a line, words between spaces. The peer is what one writes in torch:
``nn.Embedding``, ``nn.LSTM``, ``nn.Linear``, ``F.cross_entropy``, ``AdamW``, ``clip_grad_norm_``,
the state detached from batch to batch, over batches that are tensors beforehand (ours are made for
each step, and counted); in float32, under bfloat16 autocast, and that compiled. Ours is the loop of
every run (``tasks.training.learn.Loop``). All begin with the same weights, read the same streams in
the same order at the same rates, and are scored in the end by the same code in float64.

They take turns in one process, a few steps each; what counts is the ratio within a turn. The first
turn is not counted. With them goes the rate of a large product, in the faster of float32 and
bfloat16, of which the products of the model take a share. Pinned: two layers of 512 LSTM units,
embeddings of 512, words seen more than 3 times, 32 streams of 35 steps, AdamW at 1e-3, no dropout,
two threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # a waiting thread is no CPU second
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
import torch.nn.functional as F
from common import machine, write
from nplm_vs_torch import tokens
from torch import nn

from models.family import Inputs, Plan
from models.output import Output
from models.rnnlm import Config, Rnnlm
from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED, select
from tasks.store import Store
from tasks.training.checkpoint import Checkpoint, Checkpoints, Standing, to_arrays
from tasks.training.learn import Loop
from tasks.training.optimizer import rate_at
from tasks.training.ranks import Place

SEED = 1
PINNED: dict[str, Any] = {
    "cell": "lstm",
    "layers": 2,
    "units": 512,
    "embedding": 512,
    "batch_size": 32,
    "steps": 35,
    "learning_rate": 1e-3,
    "dropout": 0.0,
}
OURS: dict[str, dict[str, Any]] = {
    "lexloom": {},
    "lexloom, float32": {"precision": "float32"},
    "lexloom, sampled": {"objective": "importance-sampling"},
    "lexloom, adaptive": {"objective": "adaptive-softmax"},
}
PEERS = {
    "torch, float32": (False, False),
    "torch, bfloat16": (True, False),
    "torch, bfloat16, compiled": (True, True),
}
"""Whether under autocast, whether compiled."""
PRODUCT = 2048
"""Rows and columns of the product whose rate is measured."""

Turn = dict[str, float]


def document(path: Path, limit: int | None = None) -> Tokens:
    """A text of at most so many words as one document, so that its state is never cut off."""
    part = tokens(path, limit).partitions[0]
    whole = np.array([0, len(part.text)], np.int64)
    return Tokens([replace(part, text=replace(part.text, documents=whole))])


class Peer(nn.Module):
    """The same model as one writes it in torch."""

    def __init__(self, ours: Rnnlm) -> None:
        super().__init__()
        config, size = ours.config, len(ours.vocabulary)
        self.embedding = nn.Embedding(size, config.embedding)
        self.lstm = nn.LSTM(config.embedding, config.units, config.layers)
        self.output = nn.Linear(config.units, size)
        with torch.no_grad():
            for name, parameter in self.lstm.named_parameters():
                if name.startswith("bias_hh"):
                    # Ours has one bias where torch adds up two, which would learn twice as fast.
                    parameter.zero_().requires_grad_(False)
            for mine, theirs in self.pairs(ours):
                mine.copy_(theirs)

    def pairs(self, ours: Rnnlm) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Its parameters and those of ours."""
        assert isinstance(ours.output, Output)
        assert ours.C is not None
        assert ours.output.W is not None
        yield self.embedding.weight, ours.C
        yield self.output.weight, ours.output.W
        yield self.output.bias, ours.output.b
        for k, layer in enumerate(ours.stacks[0]):  # type: ignore[arg-type]
            yield getattr(self.lstm, f"weight_ih_l{k}"), layer.W
            yield getattr(self.lstm, f"weight_hh_l{k}"), layer.U
            yield getattr(self.lstm, f"bias_ih_l{k}"), layer.b

    def write_to(self, ours: Rnnlm) -> None:
        """Make ours the same model, to be scored."""
        with torch.no_grad():
            for mine, theirs in self.pairs(ours):
                theirs.copy_(mine)

    def forward(self, inputs: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        """(T, B) -> (T, B, V), and the state."""
        hidden, state = self.lstm(self.embedding(inputs), state)
        return self.output(hidden), state


def peer_steps(model: Rnnlm, batches: list[Any], *, narrow: bool, compiled: bool) -> Iterator[None]:
    """Train the peer, a step whenever the next is asked for; then ours is the same model."""
    peer, schedule = Peer(model), model.schedule
    run = torch.compile(peer) if compiled else peer
    optimizer = torch.optim.AdamW(
        [parameter for parameter in peer.parameters() if parameter.requires_grad],
        weight_decay=model.config.weight_decay,
    )
    state = None
    for step, (inputs, targets) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, len(batches), schedule)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, narrow):
            logits, state = run(inputs, state)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), schedule.clip)
        optimizer.step()
        state = tuple(part.detach() for part in state)
        loss.item()
        if step + 1 == len(batches):
            peer.write_to(model)
        yield


class Pause(Exception):
    """Ours has done its steps of a turn."""


def our_steps(
    model: Rnnlm, inputs: Inputs, folder: str, each: int, place: Place | None = None
) -> Iterator[None]:
    """Train ours by the loop of every run, and stop it after every ``each`` steps."""
    checkpoints = Checkpoints(Store(folder, Path(folder)), "0" * 64)
    checkpoints.save(Checkpoint(Standing(), to_arrays(model.state_dict()), {}, {}))
    batches = model.batches

    def some(inputs: Inputs, plan: Plan) -> Iterator[Any]:
        """The batches of a turn: on every rank, where the next turn begins."""
        for number, batch in enumerate(batches(inputs, plan), plan.start):
            if number > plan.start and number % each == 0:
                raise Pause
            yield batch

    model.batches = some  # type: ignore[method-assign]
    loop = Loop(
        model,
        inputs,
        SEED,
        checkpoints,
        place=place or Place.alone(0),
        checkpoint_seconds=1e9,
    )
    while not loop.at.finished:
        try:
            loop.run()
        except Pause:
            yield


def product_rate() -> Turn:
    """FLOP/s of a large product in the faster type, by wall and by CPU time."""
    rates = []
    for kind in (torch.float32, torch.bfloat16):
        a = torch.randn(PRODUCT, PRODUCT).to(kind)
        a @ a
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(5):
            a @ a
        rates.append(
            {
                "wall": 10 * PRODUCT**3 / (time.perf_counter() - wall),
                "cpu": 10 * PRODUCT**3 / (time.process_time() - cpu),
            }
        )
    return max(rates, key=lambda rate: rate["wall"])


def flops(config: Config, words: int) -> int:
    """Of the products of a training step, for one token: one forward, two backward."""
    layers = config.layers * 4 * config.units * (config.embedding + config.units)
    return 3 * 2 * (layers + words * config.units)


def run(options: argparse.Namespace) -> None:
    """All turns, and the report."""
    torch.set_num_threads(options.threads)
    part = document(options.train).partitions[0]
    vocabulary = select(
        list(part.types), part.counts, min_count=4, max_size=None, reserved=LM_RESERVED
    )
    size = options.each * (options.turns + 1) * PINNED["batch_size"] * PINNED["steps"]
    held = document(options.valid, options.held_out).partitions[0].under(vocabulary)
    inputs = Inputs({"train": document(options.train, size), "vocabulary": vocabulary})
    config = Config(**PINNED, min_count=4, max_size=None, epochs=1, patience=0)
    models = {name: replace(config, **own).build(inputs, seed=SEED) for name, own in OURS.items()}
    batches = list(models["lexloom"].batches(inputs, Plan(SEED)))
    with ExitStack() as exits:
        systems: dict[str, Iterator[None]] = {}
        for name, (narrow, compiled) in PEERS.items():
            if compiled and not options.compile:
                continue
            models[name] = config.build(inputs, seed=SEED)
            one = peer_steps(models[name], batches, narrow=narrow, compiled=compiled)
            systems[name] = every(one, options.each)
        for name in OURS:
            folder = exits.enter_context(tempfile.TemporaryDirectory())
            systems[name] = our_steps(models[name], inputs, folder, options.each)
        turns = take_turns(systems, [int((b[1] >= 0).sum()) for b in batches], options.each)
    found = {
        name: {"turns": turns[name], "perplexity": score(models[name], held)} for name in systems
    }
    rates, words = turns.pop("product"), len(vocabulary)
    write(
        f"rnnlm-vs-torch-t{options.threads}{options.mark and f'-{options.mark}'}",
        report(found, rates, options, words, flops(config, words)),
        {"pinned": PINNED, "words": words, "product": rates, "systems": found},
    )


def every(steps: Iterator[None], n: int) -> Iterator[None]:
    """So many steps at a time."""
    for number, _ in enumerate(steps, 1):
        if number % n == 0:
            yield


def take_turns(
    systems: dict[str, Iterator[None]], sizes: list[int], each: int
) -> dict[str, list[Turn]]:
    """Seconds, CPU seconds and tokens of every turn but the first, and the rate of a product."""
    turns: dict[str, list[Turn]] = {name: [] for name in (*systems, "product")}
    for first in range(0, len(sizes), each):
        scored = sum(sizes[first : first + each])
        whole = first > 0 and first + each <= len(sizes)
        if whole:
            turns["product"].append(product_rate())
        for name, steps in systems.items():
            load, wall, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
            next(steps, None)
            taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            if whole:
                turns[name].append({"tokens": scored, "load": load, **taken})
            print(first, name, {k: round(v, 2) for k, v in taken.items()}, flush=True)
    return turns


def score(model: Rnnlm, held: Sentences) -> float:
    """Perplexity of held-out text in 64 bits."""
    model.eval()
    return float(np.exp(-model.log_prob(held).mean()))


def report(
    found: dict[str, Any], rates: list[Turn], options: argparse.Namespace, words: int, each: int
) -> str:
    """The result as Markdown."""
    settings = ", ".join(f"{key} {value}" for key, value in PINNED.items())
    loads = [turn["load"] for system in found.values() for turn in system["turns"]]
    product = {kind: statistics.median(rate[kind] for rate in rates) for kind in ("wall", "cpu")}
    base = found["torch, float32"]["turns"]
    narrow = found["torch, bfloat16"]["turns"]
    lines = [
        "# A recurrent language model against plain torch",
        "",
        f"{options.name}, V = {words:,}; {settings}; {options.threads} threads; {len(base)} "
        f"interleaved turns of {base[0]['tokens']:,.0f} tokens; {machine()}, torch "
        f"{torch.__version__}; load {min(loads):.1f} to {max(loads):.1f}. A product of "
        f"{PRODUCT} by {PRODUCT} ran at {product['wall'] / 1e9:,.0f} GFLOP/s, "
        f"{product['cpu'] / 1e9:,.0f} a CPU second; a token is {each / 1e6:.1f} MFLOP.",
        "",
        "| | tokens/s | a CPU second | against float32 | by CPU | against bfloat16 | by CPU "
        "| of the product rate | by CPU | perplexity |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, system in found.items():
        turns = system["turns"]
        cells = [
            f"{statistics.median(turn['tokens'] / turn[kind] for turn in turns):,.0f}"
            for kind in ("wall", "cpu")
        ]
        for other in (base, narrow):
            for kind in ("wall", "cpu"):
                ratios = [b[kind] / t[kind] for b, t in zip(other, turns, strict=True)]
                cells.append(f"{statistics.median(ratios):.2f}")
                if kind == "wall":
                    cells[-1] += f" ({min(ratios):.2f} to {max(ratios):.2f})"
        for kind in ("wall", "cpu"):
            shares = [
                t["tokens"] * each / t[kind] / rate[kind]
                for t, rate in zip(turns, rates, strict=True)
            ]
            whole = not any(word in name for word in ("sampled", "adaptive"))
            cells.append(f"{statistics.median(shares):.0%}" if whole else "")
        lines.append(f"| {name} | {' | '.join(cells)} | {system['perplexity']:.2f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("--name", default="a text", help="what the report calls it")
    parser.add_argument("--mark", default="", help="ends the name of the report")
    parser.add_argument("--each", type=int, default=5, help="steps of a turn")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--held-out", type=int, default=5000, help="words that are scored")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
