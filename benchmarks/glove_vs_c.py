"""GloVe training against the authors' program, and mittens, on one text.

    python benchmarks/glove_vs_c.py CORPUS --peer-bin FOLDER --name "17 M words of novels"

CORPUS is a text file, a sentence a line, words between spaces; .gz is unpacked first. FOLDER holds
``cooccur``, ``shuffle`` and ``glove``, built by you with ``gcc -Ofast -march=native``. Rare words
are taken out of the text beforehand, so that both train on the same records. For each seed the two
train one after the other, each in a process of its own; the same code (gensim's) scores their
vectors. Counting is no part of the times; the program's ``shuffle``, for which ours needs nothing,
stands beside its training.

``--mittens`` times the package of that name besides, where it can be imported, on the records of
the most frequent words: its tables are dense. It is not scored.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import in_a_process, machine, timed, tokens_of, unpacked, write
from cooccurrence_vs_glove import WINDOW, frequent
from word2vec_vs_gensim import save, score

DENSE = 4000  # words of which mittens gets the table


def counted(text: str, folder: Path, memory: int = 1 << 30) -> tuple[Any, Any]:
    """The vocabulary and the co-occurrence table of a text; found again by later processes."""
    from models.family import WantsVocabulary
    from tasks.cooccurrence import COOCCURRENCE, PAIRS, Cooccurrence, read_cooccurrence
    from tasks.runner import Runner
    from tasks.step import Resources
    from tasks.store import Store
    from tasks.vocabulary import TYPES, VOCABULARY, Types, read_vocabulary

    store = Store(str(folder / "home"), folder / "home" / "cache")
    runner = Runner(store, resources=Resources(memory=memory))
    tokens, asked = tokens_of(store, Path(text)), Cooccurrence(WINDOW)
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    vocabulary = runner.run(VOCABULARY, {"types": types}, WantsVocabulary(1, None, ()))
    inputs = {"pairs": runner.map(PAIRS, {"tokens": tokens}, asked), "vocabulary": vocabulary}
    table = runner.run(COOCCURRENCE, inputs, asked)
    return read_vocabulary(store.reader(vocabulary)), read_cooccurrence(store.reader(table))


def work(job: dict[str, Any]) -> dict[str, Any]:
    """One of our runs, or one of mittens."""
    vocabulary, table = counted(job["text"], Path(job["folder"]))
    return (mittens if job["system"] == "mittens" else lexloom)(vocabulary, table, job)


def lexloom(vocabulary: Any, table: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Train our model; the cost is half of the loss, as the program prints it."""
    from models import glove
    from models.family import Inputs
    from models.text import Pairs

    epochs, threads = job["epochs"], job["threads"]
    config = glove.Config(
        dim=job["dim"], window=WINDOW, x_max=job["x_max"], epochs=epochs, min_count=1
    )
    model = config.build(
        Inputs({"vocabulary": vocabulary, "cooccurrence": table}), seed=job["seed"]
    )
    chunks = model.chunks(Inputs({"cooccurrence": table}))
    few = np.zeros(1, np.int32)
    tiny = config.build(Inputs({"vocabulary": vocabulary}), seed=1)
    pair = Pairs(few, few + 1, few.astype(np.float64) + 2, table.symmetric)
    _, compiling = timed(lambda: tiny.sweep(pair, seed=1, done=0, until=1, threads=threads))

    def train() -> list[float]:
        costs = []
        for epoch in range(epochs):
            loss = records = 0.0
            for i in range(len(chunks)):
                at = (epoch * len(chunks) + i) / (epochs * len(chunks))
                seed = job["seed"] * 1_000_003 + epoch * len(chunks) + i
                stats = model.sweep(chunks[i], seed=seed, done=at, until=at, threads=threads)
                loss, records = loss + stats.loss, records + stats.examples
            costs.append(0.5 * loss / records)
        return costs

    costs, figures = timed(train)
    save(Path(job["out"]), vocabulary.words, model.word_vectors(vocabulary.words))
    return {
        **figures,
        "records": chunks.size * epochs,
        "costs": costs,
        "compile": compiling["seconds"],
    }


def mittens(vocabulary: Any, table: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Time the package on the table of the most frequent words."""
    from mittens import GloVe

    dense = np.zeros((DENSE, DENSE))
    for rows, columns, weights in table.entries():
        some = (rows < DENSE) & (columns < DENSE)
        dense[rows[some], columns[some]] = weights[some]
        dense[columns[some], rows[some]] = weights[some]
    epochs = min(job["epochs"], 5)
    model = GloVe(n=job["dim"], xmax=job["x_max"], max_iter=epochs, display_progress=0)
    _, figures = timed(lambda: model.fit(dense))
    return {**figures, "records": int(np.count_nonzero(dense)) * epochs}


def run_program(options: argparse.Namespace, folder: Path, seed: int, out: Path) -> dict[str, Any]:
    """Shuffle and train by the program."""

    def run(program: str, *arguments: str, **streams: Any) -> tuple[str, float, float]:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [str(options.peer_bin / program), "-seed", str(seed), *arguments]
        done = subprocess.run(command, check=True, cwd=folder, **streams)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        return str(done.stderr or ""), time.perf_counter() - began, cpu

    records, shuffled = folder / "records.bin", folder / "shuffled.bin"
    with records.open("rb") as source, shuffled.open("wb") as sink:
        _, shuffling, shuffling_cpu = run(
            "shuffle", "-verbose", "0", "-memory", "4.0", stdin=source, stdout=sink
        )
    settings = {
        "input-file": shuffled, "vocab-file": folder / "vocabulary.txt", "save-file": out / "glove",
        "threads": options.threads, "vector-size": options.dim, "iter": options.epochs,
        "x-max": options.x_max, "eta": 0.05, "alpha": 0.75, "binary": 0, "verbose": 2,
    }  # fmt: skip
    arguments = [text for name, value in settings.items() for text in (f"-{name}", str(value))]
    output, seconds, cpu = run("glove", *arguments, stderr=subprocess.PIPE, text=True)
    rows = [line.split(" ") for line in (out / "glove.txt").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row[0] != "<unk>"]
    save(out, [row[0] for row in rows], np.array([row[1:] for row in rows], np.float32))
    return {
        "seconds": seconds,
        "cpu": cpu,
        "shuffle": shuffling,
        "shuffle_cpu": shuffling_cpu,
        "records": records.stat().st_size // 16 * options.epochs,
        "costs": [float(cost) for cost in re.findall(r"cost: ([\d.]+)", output)],
    }


def report(options: argparse.Namespace, runs: dict[str, list[dict[str, Any]]]) -> str:
    """The result as Markdown."""
    loads = [figures["load_before"] for figures in runs["lexloom"]]
    lines = [
        f"# GloVe training against the authors' program: {options.name}",
        "",
        f"d={options.dim}, window {WINDOW}, x_max {options.x_max:g}, {options.epochs} iterations, "
        f"{options.threads} threads; {options.seeds} seeds, interleaved. {machine()}; load average "
        f"{min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| | records/s | records per CPU second | WordSim-353 | SimLex-999 | Google, % |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for system, figures in runs.items():
        if not figures:
            continue
        rates = [
            f"{statistics.median(f['records'] / f[key] for f in figures):,.0f}"
            for key in ("seconds", "cpu")
        ]
        scores = [
            f"{statistics.mean(f[key] for f in figures):.{digits}f}" if key in figures[0] else "-"
            for key, digits in (("wordsim353", 3), ("simlex999", 3), ("google", 2))
        ]
        lines.append(f"| {system} | {' | '.join([*rates, *scores])} |")
    lines.append("")
    pairs = list(zip(runs["program"], runs["lexloom"], strict=True))
    for key, label in (("seconds", "training"), ("cpu", "training, by CPU time")):
        for besides, what in ((0, ""), (1, " with its shuffle")):
            extra = {"seconds": "shuffle", "cpu": "shuffle_cpu"}[key]
            ratios = [
                (t[key] + besides * t[extra]) * o["records"] / (o[key] * t["records"])
                for t, o in pairs
            ]
            lines.append(
                f"- {label}{what}: {statistics.median(ratios):.1f} times the program's rate "
                f"({min(ratios):.1f} to {max(ratios):.1f})"
            )
    lines += ["", "| iteration | cost, program | cost, lexloom | difference |", "|---|---|---|---|"]
    for i, (theirs, ours) in enumerate(
        zip(*([statistics.mean(c) for c in zip(*(f["costs"] for f in runs[s]), strict=True)]
              for s in ("program", "lexloom")), strict=True), 1
    ):  # fmt: skip
        lines.append(f"| {i} | {theirs:.6f} | {ours:.6f} | {100 * (ours / theirs - 1):+.2f}% |")
    lines += ["", "Rates are medians, scores and costs means over the seeds.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--peer-bin", type=Path, required=True)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--mittens", action="store_true")
    parser.add_argument("--x-max", type=float, default=100.0)
    for key, value in {"seeds": 3, "epochs": 15, "dim": 100, "threads": 2}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    options = parser.parse_args()
    options.peer_bin = options.peer_bin.resolve()
    runs: dict[str, list[dict[str, Any]]] = {"program": [], "lexloom": [], "mittens": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, vocabulary = frequent(unpacked(options.corpus, folder), folder)
        counting = ["-symmetric", "1", "-window-size", str(WINDOW), "-verbose", "0", "-memory", "4"]
        with text.open("rb") as source, (folder / "records.bin").open("wb") as sink:
            subprocess.run(
                [str(options.peer_bin / "cooccur"), *counting, "-vocab-file", str(vocabulary)],
                check=True, cwd=folder, stdin=source, stdout=sink,
            )  # fmt: skip
        counted(str(text), folder)
        job = {key: getattr(options, key) for key in ("epochs", "dim", "threads", "x_max")}
        job |= {"text": str(text), "folder": name}
        for seed in range(1, 1 + options.seeds):
            for system in runs:
                if system == "mittens" and not options.mittens:
                    continue
                out = folder / "out"
                out.mkdir()
                if system == "program":
                    figures = run_program(options, folder, seed, out)
                else:
                    job |= {"system": system, "seed": seed, "out": str(out)}
                    figures = in_a_process(__file__, job, folder)
                if system != "mittens":
                    figures |= score(out)
                shutil.rmtree(out)
                runs[system].append({"seed": seed, **figures})
                print(system, runs[system][-1], flush=True)
    settings = {key: str(value) for key, value in vars(options).items() if key != "peer_bin"}
    write("glove-vs-c", report(options, runs), {"settings": settings, "runs": runs})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(work(json.loads(sys.argv[2]))))
    else:
        main()
