"""Reading vector files: lexloom against gensim's KeyedVectors.

    python benchmarks/reading_vs_gensim.py --words 50000 --dim 300 --folder /tmp/reading

Both read the same word2vec files, text and binary, in turn, each time in a process of its own that
has compiled and imported what it needs. What was read has to be the same bit for bit. Memory is
what the process grew by, over the size of the vectors. Needs gensim.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from common import in_a_process, machine, timed, write
from numpy.typing import NDArray

from tasks.importing.binary import read_binary
from tasks.importing.gathering import Gathering
from tasks.importing.text import read_text

DISTINCT = 2000
READERS = ("lexloom", "gensim")


def make_files(folder: Path, words: int, dim: int) -> None:
    """The files, and small ones to warm up with."""
    table = np.random.default_rng(1).normal(0, 0.3, (DISTINCT, dim)).astype("<f4")
    lines = [" ".join(f"{x:.6f}" for x in row) for row in table.tolist()]
    for name, n in (("large", words), ("small", 10)):
        with (folder / f"{name}.txt").open("w") as text:
            text.write(f"{n} {dim}\n")
            text.writelines(f"word{i} {lines[i % DISTINCT]}\n" for i in range(n))
        with (folder / f"{name}.bin").open("wb") as binary:
            binary.write(b"%d %d\n" % (n, dim))
            for i in range(n):
                binary.write(b"word%d %b\n" % (i, table[i % DISTINCT].tobytes()))


def read(reader: str, path: Path) -> NDArray[np.float32]:
    """The vectors of a file."""
    binary = path.suffix == ".bin"
    if reader == "gensim":
        from gensim.models import KeyedVectors

        theirs: NDArray[np.float32] = KeyedVectors.load_word2vec_format(path, binary=binary).vectors
        return theirs
    gathering = Gathering(path.name, "strict")
    with path.open("rb") as file:
        if binary:
            read_binary(file, gathering)
        else:
            read_text(file, gathering, header=True)
    return gathering.vectors()


def measure(reader: str, folder: Path, kind: str) -> dict[str, Any]:
    """What one reading took."""
    read(reader, folder / f"small.{kind}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table, took = timed(lambda: read(reader, folder / f"large.{kind}"))
    grown = (took.pop("peak_mb") - before) * 2**20 / table.nbytes
    return {**took, "memory": grown, "sha256": hashlib.sha256(table.tobytes()).hexdigest()}


def main() -> None:
    """Measure, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--job", type=json.loads)
    asked = parser.parse_args()
    if asked.job:
        job = asked.job
        print(json.dumps(measure(job["reader"], Path(job["folder"]), job["kind"])))
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    make_files(asked.folder, asked.words, asked.dim)
    runs = [
        {"reader": reader, "kind": kind}
        | in_a_process(
            __file__, {"reader": reader, "kind": kind, "folder": str(asked.folder)}, asked.folder
        )
        for kind in ("txt", "bin")
        for _ in range(asked.runs)
        for reader in READERS
    ]
    rows = []
    for kind in ("txt", "bin"):
        found = [run for run in runs if run["kind"] == kind]
        assert len({run["sha256"] for run in found}) == 1, "they read different vectors"
        ours, theirs = (
            {
                key: statistics.median(run[key] for run in found if run["reader"] == reader)
                for key in ("cpu", "seconds", "memory")
            }
            for reader in READERS
        )
        rows.append(
            f"| {kind} | {ours['cpu']:.2f} | {theirs['cpu']:.2f} | "
            f"{theirs['cpu'] / ours['cpu']:.1f} | {ours['memory']:.1f} | {theirs['memory']:.1f} |"
        )
    load = max(run["load_before"] for run in runs)
    head = (
        f"# Reading {asked.words:,} vectors of {asked.dim} numbers\n\n{machine()}; medians of "
        f"{asked.runs}; load up to {load:.1f}. Equal bit for bit.\n\n"
        "| file | lexloom, CPU s | gensim, CPU s | ratio | lexloom, memory | gensim, memory |\n"
        "|---|---|---|---|---|---|\n"
    )
    settings = {"words": asked.words, "dim": asked.dim, "machine": machine()}
    write("reading-vs-gensim", head + "\n".join(rows) + "\n", {**settings, "runs": runs})


if __name__ == "__main__":
    main()
