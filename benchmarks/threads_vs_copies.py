"""What the second thread adds to a sweep, against two independent copies with one thread each.

    python benchmarks/threads_vs_copies.py CORPUS --name "7 M words of novels"
        [--families '{"family": "word2vec"}' '{"family": "glove"}' ...]

CORPUS is a text file, a sentence a line, words between spaces; .gz is unpacked first. Each round,
interleaved: one epoch with two threads; then two processes with one thread each, which begin their
epoch at the same moment. Their joint rate is what the machine gives two threads at best.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import machine, unpacked, write
from cooccurrence_vs_glove import frequent
from glove_vs_c import counted

FAMILIES = (
    '{"family": "word2vec"}',
    '{"family": "word2vec", "dim": 300}',
    '{"family": "word2vec", "architecture": "cbow"}',
    '{"family": "word2vec", "objective": "hierarchical-softmax"}',
    '{"family": "glove"}',
)


def work(job: dict[str, Any]) -> None:
    """Get everything ready, wait for the signal, train for an epoch; prints words/s."""
    from pydantic import TypeAdapter
    from word2vec_vs_gensim import read

    from models.families import FamilyConfig
    from models.family import Inputs

    config: Any = TypeAdapter(FamilyConfig).validate_python(
        {**json.loads(job["family"]), "epochs": 1, "min_count": 1}
    )
    vocabulary, table = counted(job["text"], Path(job["folder"]))
    values = {"vocabulary": vocabulary, "cooccurrence": table, "train": read(Path(job["text"]))}
    inputs = Inputs(values)

    def epoch() -> float:
        model = config.build(inputs, seed=1)
        chunks = model.chunks(inputs)
        given = [chunks[i] for i in range(len(chunks))]
        # The first sweep lays the tables out and gets the kernel ready.
        model.sweep(given[-1], seed=1, done=0.0, until=0.0, threads=job["threads"])
        print("ready", flush=True)
        sys.stdin.readline()
        began, units = time.perf_counter(), 0
        for i, chunk in enumerate(given):
            at = i / len(given)
            units += model.sweep(chunk, seed=i, done=at, until=at, threads=job["threads"]).units
        return units / (time.perf_counter() - began)

    print(epoch(), flush=True)


def rates(jobs: list[dict[str, Any]]) -> list[float]:
    """The rates of processes that train at the same time."""
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--job", json.dumps(job)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for job in jobs
    ]  # fmt: skip
    pipes = [(process.stdin, process.stdout) for process in started]
    for _, out in pipes:
        assert out is not None
        assert out.readline() == "ready\n"
    for into, _ in pipes:
        assert into is not None
        into.write("go\n")
        into.flush()
    return [float(process.communicate()[0]) for process in started]


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--families", nargs="+", default=FAMILIES, metavar="JSON")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {family: [] for family in options.families}
    with tempfile.TemporaryDirectory() as name:
        text, _ = frequent(unpacked(options.corpus, Path(name)), Path(name))
        counted(str(text), Path(name))
        job = {"text": str(text), "folder": name}
        for _ in range(options.rounds):
            for family in options.families:
                load = os.getloadavg()[0]
                copies = rates([{**job, "family": family, "threads": 1}] * 2)
                (threads,) = rates([{**job, "family": family, "threads": 2}])
                runs[family].append({"threads": threads, "copies": sum(copies), "load": load})
                print(family, runs[family][-1], flush=True)
    loads = [run["load"] for each in runs.values() for run in each]
    lines = [
        f"# Two threads against two copies: {options.name}",
        "",
        f"{options.rounds} interleaved rounds; words or records a second. {machine()}; load "
        f"average {min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| family | 2 threads | 2 copies together | share |",
        "|---|---|---|---|",
    ]
    for family, each in runs.items():
        shares = [run["threads"] / run["copies"] for run in each]
        cells = [
            f"{statistics.median(run[key] for run in each):,.0f}" for key in ("threads", "copies")
        ]
        share = f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"
        lines.append(f"| `{family}` | {' | '.join(cells)} | {share} |")
    write("threads-vs-copies", "\n".join([*lines, ""]), {"runs": runs})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        work(json.loads(sys.argv[2]))
    else:
        main()
