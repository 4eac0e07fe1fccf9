"""Scoring text by an n-gram model, in batches, against a Python loop over ``kenlm``.

    python benchmarks/queries_vs_kenlm.py MODEL.arpa TEXT --name "1 M words, order 5"

MODEL.arpa is imported for us, and read by kenlm (in lexloom's test extra) as it is and, with
``--peer-bin DIR/build_binary``, as its trie. TEXT has a sentence a line. Runs are interleaved in
one process; seconds and CPU seconds are for the whole text:

* kenlm: ``for line in lines: model.score(line)``, its fastest way in Python, a number a sentence;
* kenlm, every token: ``model.full_scores(line)``, which says as much as ours does;
* ids: ``log_prob`` of sentences that are ids already, as in a store, on all processors;
* one thread: the same on one;
* words: from lists of words, the look-up of their ids in Python included.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
from common import machine, write

from models.text import Sentences
from tasks.importing.arpa import read_arpa


def clock(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """The value of an action, its seconds and its CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = action()
    return value, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Run all, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--name", default="a model")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peer-bin", type=Path)
    args = parser.parse_args()
    with args.model.open("rb") as file:
        vocabulary, table, _ = read_arpa(file, args.model.name)
    lines = [line.strip() for line in args.text.read_text("utf-8").splitlines()]
    words = [line.split() for line in lines]
    said = Sentences.of(vocabulary, words)
    n = len(said.ids) + len(said)
    peers = {"kenlm, probing": kenlm.Model(str(args.model))}
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("trie", "probing") if args.peer_bin else ():
            binary = Path(folder) / kind
            subprocess.run(
                [str(args.peer_bin), kind, str(args.model), str(binary)],
                check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            sizes[f"kenlm, {kind}"] = binary.stat().st_size
            peers[f"kenlm, {kind}"] = kenlm.Model(str(binary))
        ways: dict[str, Callable[[], Any]] = {
            name: lambda model=model: [model.score(line) for line in lines]
            for name, model in peers.items()
        }
        probing = peers["kenlm, probing"]
        ways["kenlm, probing, every token"] = lambda: [
            [score for score, _, _ in probing.full_scores(line)] for line in lines
        ]
        ways["lexloom, ids"] = lambda: table.log_prob(said)
        ways["lexloom, ids, one thread"] = lambda: table._index.log_prob(said)
        ways["lexloom, words"] = lambda: table.log_prob(Sentences.of(vocabulary, words))
        _, indexing, _ = clock(lambda: table._index)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        values = {}
        for _ in range(args.repeat + 1):  # the first warms up
            for name, way in ways.items():
                values[name], *seconds = clock(way)
                found[name].append((seconds[0], seconds[1]))
    ours = table.log_prob(said) / math.log(10)
    tokens = [row[0] for line in lines for row in peers["kenlm, probing"].full_scores(line)]
    totals = np.add.reduceat(ours, said.starts[:-1] + np.arange(len(said)))
    keys = ("sizes", "keys", "probabilities", "weights")
    own = sum(getattr(table, key).nbytes for key in keys)
    n_grams = int(table.sizes.sum())
    index = table._index.nbytes
    base = [wall for wall, _ in found["kenlm, probing"][1:]]
    rows = []
    for name, times in found.items():
        walls, cpus = zip(*times[1:], strict=True)
        ratio = statistics.median(b / a for a, b in zip(walls, base, strict=True))
        nanoseconds = [1e9 * statistics.median(seconds) / n for seconds in (walls, cpus)]
        rows.append(f"| {name} | {nanoseconds[0]:.0f} | {nanoseconds[1]:.0f} | {ratio:.2f} |")
    sentence_error = np.abs(totals - np.array(values["kenlm, probing"])).max()
    report = [
        f"# Scoring {n:,} words and sentence ends by {args.name}", "",
        f"{machine()}; load {os.getloadavg()[0]:.1f}; {n_grams:,} n-grams", "",
        "| | ns a token | CPU ns | x kenlm |", "|---|---|---|---|", *rows, "",
        f"Largest difference of a token's log10 {np.abs(ours - tokens).max():.1e}, "
        f"of a sentence's {sentence_error:.1e}.",
        f"The hash table takes {indexing:.2f} s to make, once.",
        f"Bytes an n-gram: lexloom's file {own / n_grams:.1f}, its hash table in memory besides "
        f"{index / n_grams:.1f}"
        + "".join(f"; {name} {size / n_grams:.1f}" for name, size in sizes.items()) + ".",
    ]  # fmt: skip
    write("queries-vs-kenlm", "\n".join(report) + "\n", {"seconds": found})


if __name__ == "__main__":
    main()
