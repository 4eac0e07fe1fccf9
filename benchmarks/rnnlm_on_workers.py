"""What a second worker adds to the training of a recurrent language model.

    python benchmarks/rnnlm_on_workers.py train.txt

Two processes of one thread each. In turn, a few steps at a time, they train one model together
(``Loop`` under gloo, each on its own half of the streams), and each a copy of its own that knows of
no other (the very same loop, alone). A worker has 32 streams of 35 steps in both. What counts is
the tokens that both get done in a second, together against apart. The first turn is not counted.
What they send each other is a gradient as large as the model; ``--tied`` makes that smaller, since
one table is then input and output.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # a waiting thread is no CPU second
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from common import machine, write
from rnnlm_vs_torch import PINNED, document, our_steps
from torch import multiprocessing

from models.family import Inputs
from models.rnnlm import Config
from models.vocabulary import LM_RESERVED, select
from tasks.training.ranks import Place

WORKERS = 2


def work(rank: int, options: argparse.Namespace, folder: str) -> None:
    """A worker; the first one keeps the figures."""
    torch.set_num_threads(1)
    meeting = dist.FileStore(f"{folder}/meeting", WORKERS)
    dist.init_process_group("gloo", store=meeting, rank=rank, world_size=WORKERS)
    part = document(options.train).partitions[0]
    vocabulary = select(
        list(part.types), part.counts, min_count=4, max_size=None, reserved=LM_RESERVED
    )
    alone = Config(**PINNED, tied=options.tied, min_count=4, max_size=None, epochs=1, patience=0)
    steps = options.each * (options.turns + 2)
    both = replace(alone, batch_size=WORKERS * alone.batch_size)
    places = {
        "together": (both, Place(torch.device("cpu"), rank, WORKERS)),
        "apart": (alone, Place(torch.device("cpu"))),
    }
    with ExitStack() as exits:
        systems = {}
        for name, (config, place) in places.items():
            text = document(options.train, steps * config.batch_size * config.steps)
            inputs = Inputs({"train": text, "vocabulary": vocabulary})
            own = exits.enter_context(tempfile.TemporaryDirectory())
            model = config.build(inputs, seed=1)
            systems[name] = our_steps(model, inputs, own, options.each, place)
        sent = 4 * sum(p.numel() for p in model.parameters())
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in systems}
        for turn in range(options.turns + 1):
            for name, going in systems.items():
                dist.barrier()
                wall, cpu = time.perf_counter(), time.process_time()
                next(going)
                cpu = time.process_time() - cpu
                dist.barrier()
                sums = torch.tensor([cpu])
                dist.all_reduce(sums)
                taken = {"wall": time.perf_counter() - wall, "cpu": float(sums)}
                if turn:
                    turns[name].append(taken)
                if rank == 0:
                    print(turn, name, {k: round(v, 2) for k, v in taken.items()}, flush=True)
    if rank == 0:
        Path(folder, "turns.json").write_text(json.dumps([turns, len(vocabulary), sent]))
    dist.destroy_process_group()


def report(turns: dict[str, Any], options: argparse.Namespace, words: int, sent: int) -> str:
    """The result as Markdown."""
    each = options.each * WORKERS * PINNED["batch_size"] * PINNED["steps"]
    settings = ", ".join(f"{key} {value}" for key, value in PINNED.items())
    lines = [
        "# Two workers of a recurrent language model against two copies",
        "",
        f"{options.name}, V = {words:,}; {settings}, tied {options.tied}, for each worker; a "
        f"gradient of {sent / 1e6:.0f} MB; one thread each; "
        f"{options.turns} interleaved turns of {each:,} tokens; {machine()}, torch "
        f"{torch.__version__}; load {os.getloadavg()[1]:.1f}.",
        "",
        "| | tokens/s | a CPU second | against apart | by CPU |",
        "|---|---|---|---|---|",
    ]
    for name, taken in turns.items():
        cells = [f"{statistics.median(each / t[kind] for t in taken):,.0f}" for kind in KINDS]
        for kind in KINDS:
            pairs = zip(turns["apart"], taken, strict=True)
            ratios = [a[kind] / t[kind] for a, t in pairs]
            cells.append(
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


KINDS = ("wall", "cpu")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("--name", default="a text", help="what the report calls it")
    parser.add_argument("--each", type=int, default=3, help="steps of a turn")
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--tied", action="store_true", help="one table is input and output")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(
            work, (options, folder), nprocs=WORKERS, start_method="spawn"
        )
        turns, words, sent = json.loads(Path(folder, "turns.json").read_text())
    name = f"rnnlm-on-workers{'-tied' if options.tied else ''}"
    write(name, report(turns, options, words, sent), {"pinned": PINNED, "turns": turns})


if __name__ == "__main__":
    main()
