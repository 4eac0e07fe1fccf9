"""Reading vector files: lexloom against gensim's KeyedVectors.

    python benchmarks/reading_vs_gensim.py --words 50000 --dim 300 --folder /tmp/reading

Both read the same word2vec files, text and binary, several times, interleaved, each time in a
process of its own; the medians of CPU seconds, wall seconds and peak memory are compared, and what
was read must be the same bit for bit. Needs gensim.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

OURS = """
import sys
from tasks.importing.binary import read_binary
from tasks.importing.gathering import Gathering
from tasks.importing.text import read_text
def read(path, binary):
    gathering = Gathering(path, "strict")
    with open(path, "rb") as file:
        read_binary(file, gathering) if binary else read_text(file, gathering, header=True)
    return gathering.vectors()
"""
THEIRS = """
from gensim.models import KeyedVectors
def read(path, binary):
    return KeyedVectors.load_word2vec_format(path, binary=binary).vectors
"""
MEASURE = """
import hashlib, json, resource, sys, time
path, binary, small = sys.argv[1], sys.argv[2] == "True", sys.argv[3]
read(small, binary)  # compile and import
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cpu, wall = time.process_time(), time.perf_counter()
table = read(path, binary)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"cpu": cpu, "wall": wall, "memory_over_result": (peak - before) * 1024 /
    table.nbytes, "sha256": hashlib.sha256(table.tobytes()).hexdigest()}))
"""


def write(folder: Path, words: int, dim: int) -> None:
    """The files, and small ones to warm up with."""
    rng = np.random.default_rng(1)
    table = rng.normal(0, 0.3, (min(words, 2000), dim)).astype("<f4")
    lines = [" ".join([f"{x:.6f}" for x in row]) for row in table.tolist()]
    for name, n in (("large", words), ("small", 10)):
        header = f"{n} {dim}\n"
        with (folder / f"{name}.txt").open("w") as file:
            file.write(header)
            file.writelines(f"word{i} {lines[i % len(lines)]}\n" for i in range(n))
        with (folder / f"{name}.bin").open("wb") as binary:
            binary.write(header.encode())
            for i in range(n):
                binary.write(b"word%d %b\n" % (i, table[i % len(table)].tobytes()))


def measure(program: str, folder: Path, kind: str) -> dict[str, float | str]:
    """One reading in a process of its own."""
    arguments = [str(folder / f"large.{kind}"), str(kind == "bin"), str(folder / f"small.{kind}")]
    done = subprocess.run(
        [sys.executable, "-c", program + MEASURE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    result: dict[str, float | str] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measure and print a table in JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    write(asked.folder, asked.words, asked.dim)
    report: dict[str, object] = {"words": asked.words, "dim": asked.dim, "runs": asked.runs}
    for kind in ("txt", "bin"):
        runs: dict[str, list[dict[str, float | str]]] = {"lexloom": [], "gensim": []}
        for _ in range(asked.runs):
            runs["lexloom"].append(measure(OURS, asked.folder, kind))
            runs["gensim"].append(measure(THEIRS, asked.folder, kind))
        assert len({run["sha256"] for each in runs.values() for run in each}) == 1
        medians = {
            who: {
                key: round(statistics.median(float(run[key]) for run in each), 3)
                for key in ("cpu", "wall", "memory_over_result")
            }
            for who, each in runs.items()
        }
        ratio = medians["gensim"]["cpu"] / medians["lexloom"]["cpu"]
        report[kind] = {**medians, "cpu ratio": round(ratio, 2)}
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
