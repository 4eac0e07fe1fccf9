"""The ten nearest of 400,000 vectors, against a numpy scan and other exact searches.

    python benchmarks/topk_vs_numpy.py
    python benchmarks/topk_vs_numpy.py --vectors vectors.npy --name "word2vec, 17 M words"

The scan is what one writes in numpy: unit rows in memory, ``units @ q``, ``argpartition``. Where
they are installed, faiss's flat index and gensim's ``most_similar`` (all questions are words there)
answer too. All take turns at blocks of questions in one process; the figures are medians over the
turns, and what counts is their ratio. A process of its own is started for each number of threads.

Without --vectors the vectors are random, in two shapes: *uniform* directions, and *clustered* ones
around 4,000 centres with many lengths, in which neighbours are as close together as in trained
vectors. Recall is over the answers of a scan in 64 bits.

The opening of a model folder is measured as well: files checked before and mapped, the first
question with and without codes kept beside it.
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from common import machine, timed, write

K, QUESTIONS, BATCH = 10, 5, 32
Answer = Callable[[Any], Any]


def vectors(shape: str, size: int, width: int) -> Any:
    """(V, D) float32, made up or read."""
    if shape.endswith(".npy"):
        return np.load(shape, mmap_mode="r")
    rng = np.random.default_rng(1)
    table = rng.standard_normal((size, width), np.float32)
    if shape == "clustered":
        centres = rng.standard_normal((4000, width), np.float32)
        table *= np.float32(0.7)
        table += centres[rng.integers(len(centres), size=size)]
        table *= rng.lognormal(size=(size, 1)).astype(np.float32)
    return table


# --- one number of threads, in a process of its own -------------------------------------------


def systems(table: Any, threads: int) -> dict[str, Answer]:
    """What answers (Q, D) unit questions with (Q, K) ids."""
    from models.kernels.shortlist import Codes, Shortlist
    from models.tables import Rows
    from models.vectors import unit

    units, rows = unit(table), Rows.of(table)
    began = time.perf_counter()
    ours = Shortlist(rows, Codes.of(rows, threads), threads)
    print(f"codes made in {time.perf_counter() - began:.2f} s", file=sys.stderr)

    def scan(queries: Any) -> Any:
        found = []
        for query in queries:
            scores = units @ query
            some = np.argpartition(scores, -K)[-K:]
            found.append(some[np.argsort(-scores[some])])
        return np.array(found)

    def scan_together(queries: Any) -> Any:
        scores = queries @ units.T
        some = np.argpartition(scores, -K)[:, -K:]
        order = np.argsort(-np.take_along_axis(scores, some, 1))
        return np.take_along_axis(some, order, 1)

    def shortlist(queries: Any) -> Any:
        return np.array([ours(query[None], K, len(units))[0][0] for query in queries])

    def shortlist_together(queries: Any) -> Any:
        return np.array([ids for ids, _ in ours(queries, K, len(units))])

    found: dict[str, Answer] = {
        "numpy": scan,
        "lexloom": shortlist,
        "numpy, batch": scan_together,
        "lexloom, batch": shortlist_together,
    }
    try:
        import faiss
    except ImportError:
        pass
    else:
        faiss.omp_set_num_threads(threads)
        flat = faiss.IndexFlatIP(units.shape[1])
        flat.add(units)
        found["faiss flat"] = lambda queries: np.array(
            [flat.search(query[None], K)[1][0] for query in queries]
        )
        found["faiss flat, batch"] = lambda queries: flat.search(queries, K)[1]
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        pass
    else:
        keyed = KeyedVectors(units.shape[1])
        keyed.index_to_key = list(range(len(units)))
        keyed.key_to_index = dict(zip(keyed.index_to_key, keyed.index_to_key, strict=True))
        keyed.vectors, keyed.norms = units, np.ones(len(units), np.float32)
        found["gensim"] = lambda queries: np.array(
            [[word for word, _ in keyed.similar_by_vector(q, topn=K)] for q in queries]
        )
    return found


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Median milliseconds a question, and recall, of every system."""
    table = vectors(job["shape"], job["size"], job["dim"])
    from models.vectors import unit

    rng = np.random.default_rng(2)
    # Half of the questions are words, half sums of words as in analogies.
    chosen = rng.integers(len(table), size=(BATCH, 3))
    queries = np.array(table[chosen[:, 0]])
    queries[::2] += np.array(table[chosen[::2, 1]]) - np.array(table[chosen[::2, 2]])
    queries = unit(queries)
    answer = systems(table, job["threads"])
    exact = unit(table).astype(np.float64) @ queries.T.astype(np.float64)
    lowest = np.partition(exact, -K, axis=0)[-K]

    def recall(ids: Any) -> float:
        return float((np.take_along_axis(exact, ids.T, 0) >= lowest - 1e-7).mean())

    seconds: dict[str, list[float]] = {name: [] for name in answer}
    cpu: dict[str, list[float]] = {name: [] for name in answer}
    recalls = {name: recall(ask(queries)) for name, ask in answer.items()}
    for _ in range(job["turns"]):
        for name, ask in answer.items():
            some = queries if "batch" in name else queries[:QUESTIONS]
            _, spent = timed(lambda ask=ask, some=some: ask(some))  # type: ignore[misc]
            seconds[name].append(1e3 * spent["seconds"] / len(some))
            cpu[name].append(1e3 * spent["cpu"] / len(some))
    return {
        name: {
            "ms": statistics.median(seconds[name]),
            "cpu_ms": statistics.median(cpu[name]),
            "recall": recalls[name],
        }
        for name in answer
    }


# --- opening ----------------------------------------------------------------------------------


def opening(folder: Path) -> dict[str, float]:
    """Seconds from the name of a folder to the first answer, imports and compiling aside."""
    import pipelines.answers as answers
    from models.kernels.shortlist import Codes, Shortlist
    from models.tables import Rows
    from tasks.registry import open_model

    small = Rows.of(np.eye(40, dtype=np.float32))
    Shortlist(small, Codes.of(small, 2), 2)(np.eye(40, dtype=np.float32)[:1], 2, 40)
    began, cpu = time.perf_counter(), time.process_time()
    opened = open_model(str(folder), "")
    middle = time.perf_counter()
    answers.neighbours(opened, ["w1000"], K)
    return {
        "open": middle - began,
        "answer": time.perf_counter() - middle,
        "cpu": time.process_time() - cpu,
    }


def made_folder(folder: Path, size: int, width: int) -> None:
    """A word2vec model of random vectors in the native format."""
    from safetensors.numpy import save_file

    from models.vocabulary import Vocabulary
    from models.word2vec import Config
    from tasks.export.native import write_folder_manifest

    table = vectors("clustered", size, width)
    words = Vocabulary((), tuple(f"w{i}" for i in range(size)), np.arange(size, 0, -1))
    save_file({"input": table, "output": table[::-1].copy()}, folder / "weights.safetensors")
    config = {"format": 1, "config": {"family": "word2vec", "dim": width}, "capabilities": []}
    text: dict[str, Any] = {"normalize": {}, "tokenize": {}}
    assert Config(dim=width)
    for name, value in [
        ("config.json", config), ("vocabulary.json", words.to_json()), ("text.json", text),
    ]:  # fmt: skip
        (folder / name).write_text(json.dumps(value))
    write_folder_manifest(folder, {})


def child(job: Mapping[str, Any]) -> dict[str, Any]:
    """What a process of its own prints."""
    threads = str(job.get("threads", 2))
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    environment = {**os.environ, **dict.fromkeys(names, threads)}
    output = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout
    figures: dict[str, Any] = json.loads(output.decode().strip().splitlines()[-1])
    return figures


# --- the report -------------------------------------------------------------------------------


def report(figures: Mapping[str, Any], given: Any) -> str:
    """Markdown."""
    lines = [
        f"# Top {K} of {given.size:,} x {given.dim}, against numpy",
        "",
        f"{machine()}; load {os.getloadavg()[0]:.1f} at the end.",
        f"Medians of {given.turns} interleaved turns, milliseconds a question.",
        "",
        "| vectors | threads | system | ms | of numpy's | CPU ms | of numpy's | recall@10 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, found in figures["searches"].items():
        shape, threads = name.rsplit(", ", 1)
        for system, row in found.items():
            base = found["numpy, batch" if "batch" in system else "numpy"]
            shares = (f"{row[n]:.1f} | {row[n] / base[n]:.2f}" for n in ("ms", "cpu_ms"))
            cells = [shape, threads, system, *shares, f"{row['recall']:.4f}"]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "| opening a word2vec model | open, s | first answer, s | CPU, s |",
        "|---|---|---|---|",
    ]
    for name, row in figures["opening"].items():
        lines.append(f"| {name} | {row['open']:.2f} | {row['answer']:.2f} | {row['cpu']:.2f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run everything and keep the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vectors", help="an .npy of (V, D) float32")
    parser.add_argument("--name", default="", help="what they are")
    parser.add_argument("--size", type=int, default=400_000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        job = json.loads(given.job)
        print(json.dumps(opening(Path(job["folder"])) if "folder" in job else work(job)))
        return
    searches = {}
    for shape in [given.vectors] if given.vectors else ["uniform", "clustered"]:
        for threads in given.threads:
            job = {"shape": shape, "threads": threads}
            job |= {"size": given.size, "dim": given.dim, "turns": given.turns}
            searches[f"{given.name or shape}, {threads}"] = child(job)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made_folder(folder, given.size, given.dim)
        names = ("first time: checked, codes made", "second time", "third time")
        openings = {name: child({"folder": scratch}) for name in names}
    figures = {"searches": searches, "opening": openings}
    write("topk-vs-numpy", report(figures, given), figures)


if __name__ == "__main__":
    main()
