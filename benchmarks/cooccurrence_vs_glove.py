"""Co-occurrence counting against ``cooccur`` of the GloVe tools, on one text, with equal counts.

    python benchmarks/cooccurrence_vs_glove.py CORPUS COOCCUR --name "17 M words of novels"

CORPUS is a text file, a sentence a line, words between spaces; .gz is unpacked first. COOCCUR is
the program, built by you with ``gcc -Ofast -march=native``. Words below the minimal count are taken
out of the text beforehand: the program would close the gap that such a word leaves, we keep it, so
only without them do both count the same, and then every single count is compared.

Ours is the two steps from a tokenized artifact to the finished table, hashed and stored, in one
process with one thread; reading the text is timed besides. The program reads text. Runs are
interleaved; CPU seconds are what counts, the program has one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import in_a_process, machine, timed, tokens_of, unpacked, write

WINDOW, MIN_COUNT = 10, 5


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Our run; keeps the table for comparison."""
    from models.family import WantsVocabulary
    from tasks.cooccurrence import COOCCURRENCE, PAIRS, Cooccurrence, read_cooccurrence
    from tasks.runner import Runner
    from tasks.step import Resources
    from tasks.store import Store
    from tasks.vocabulary import TYPES, VOCABULARY, Types

    def steps(text: str, name: str) -> tuple[dict[str, float], Any, int]:
        home = Path(job["folder"]) / name
        store = Store(str(home), home / "cache")
        runner = Runner(store, resources=Resources(memory=job["memory"]))
        tokens, reading = timed(lambda: tokens_of(store, Path(text)))
        types = runner.run(TYPES, {"tokens": tokens}, Types())
        vocabulary = runner.run(VOCABULARY, {"types": types}, WantsVocabulary(1, None, ()))
        asked = Cooccurrence(WINDOW)
        pairs, counting = timed(lambda: runner.map(PAIRS, {"tokens": tokens}, asked))
        inputs = {"pairs": pairs, "vocabulary": vocabulary}
        table, adding = timed(lambda: runner.run(COOCCURRENCE, inputs, asked))
        figures = {"reading_cpu": reading["cpu"], "adding_cpu": adding["cpu"]}
        figures |= {"cpu": counting["cpu"] + adding["cpu"], "peak_mb": adding["peak_mb"]}
        figures |= {"seconds": counting["seconds"] + adding["seconds"]}
        return figures, store.reader(table), store.manifest(pairs).stats["tokens"]  # type: ignore[return-value]

    tiny = Path(job["folder"]) / "tiny.txt"
    tiny.write_text("a b a\nc d\n")
    _, compiling = timed(lambda: steps(str(tiny), "tiny"))
    figures, reader, tokens = steps(job["text"], "home")
    shutil.rmtree(Path(job["folder"]) / "tiny")
    table = read_cooccurrence(reader)
    result = {**figures, "tokens": tokens, "entries": len(table), "compile": compiling["seconds"]}
    if job["check"]:
        result |= compared(table, Path(job["check"]))
    return result


def compared(table: Any, records: Path) -> dict[str, float]:
    """The largest relative difference to the records that the program wrote."""
    kind = np.dtype([("row", "<i4"), ("column", "<i4"), ("weight", "<f8")])
    theirs = np.fromfile(records, kind)
    theirs = theirs[theirs["row"] <= theirs["column"]]
    keys = (theirs["row"].astype(np.int64) - 1) * table.n_words + theirs["column"] - 1
    order = np.argsort(keys)
    rows, columns, weights = (np.concatenate(each) for each in zip(*table.entries(), strict=True))
    ours = rows.astype(np.int64) * table.n_words + columns
    if len(ours) != len(keys) or not np.array_equal(ours, keys[order]):
        return {"difference": float("inf")}
    return {"difference": float(np.max(np.abs(theirs["weight"][order] / weights - 1)))}


def run_program(program: str, text: Path, vocabulary: Path, out: Path) -> dict[str, float]:
    """One run of the program."""
    load, began = os.getloadavg()[0], time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, "-symmetric", "1", "-window-size", str(WINDOW), "-verbose", "0"]
    command += ["-memory", "4.0", "-vocab-file", str(vocabulary)]
    command += ["-overflow-file", str(out.parent / "overflow")]
    with text.open("rb") as source, out.open("wb") as sink:
        subprocess.run(command, check=True, stdin=source, stdout=sink)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"seconds": time.perf_counter() - began, "cpu": cpu, "load_before": load}


def frequent(text: Path, folder: Path) -> tuple[Path, Path]:
    """The text without rare words, and its vocabulary in the order of our ids."""
    counts: Counter[str] = Counter()
    with text.open(encoding="utf-8") as lines:
        for line in lines:
            counts.update(line.split())
    kept = {word for word, count in counts.items() if count >= MIN_COUNT}
    filtered, vocabulary = folder / "frequent.txt", folder / "vocabulary.txt"
    with text.open(encoding="utf-8") as lines, filtered.open("w", encoding="utf-8") as out:
        for line in lines:
            if words := [word for word in line.split() if word in kept]:
                out.write(" ".join(words) + "\n")
    order = sorted(kept, key=lambda word: (-counts[word], word.encode()))
    vocabulary.write_text("".join(f"{word} {counts[word]}\n" for word in order), "utf-8")
    return filtered, vocabulary


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("cooccur")
    parser.add_argument("--name", default="a text")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=int, default=1 << 30)
    options = parser.parse_args()
    theirs: list[dict[str, float]] = []
    ours: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, vocabulary = frequent(unpacked(options.corpus, folder), folder)
        records = folder / "records.bin"
        for repeat in range(options.repeats):
            theirs.append(run_program(options.cooccur, text, vocabulary, records))
            print("cooccur", theirs[-1], flush=True)
            job = {"text": str(text), "folder": name, "memory": options.memory}
            job["check"] = str(records) if repeat == 0 else ""
            shutil.rmtree(folder / "home", ignore_errors=True)
            ours.append(in_a_process(__file__, job, folder))
            print("lexloom", ours[-1], flush=True)
    tokens = ours[0]["tokens"]
    ratios = [a["cpu"] / b["cpu"] for a, b in zip(theirs, ours, strict=True)]
    with_text = [
        a["cpu"] / (b["cpu"] + b["reading_cpu"]) for a, b in zip(theirs, ours, strict=True)
    ]
    loads = [run["load_before"] for run in [*theirs, *ours]]

    def rate(runs: list[dict[str, float]]) -> float:
        return float(tokens / statistics.median(run["cpu"] for run in runs) / 1e6)

    report = "\n".join(
        [
            f"# Co-occurrence counted, against GloVe's cooccur: {options.name}",
            "",
            f"{tokens:,.0f} tokens (words below {MIN_COUNT} taken out), window {WINDOW}, "
            f"symmetric, harmonic weights; {ours[0]['entries']:,.0f} pairs with row <= column. "
            f"{options.repeats} interleaved runs. {machine()}; load average before a run "
            f"{min(loads):.1f} to {max(loads):.1f}.",
            "",
            "| | M tokens per CPU second (median) | peak MB |",
            "|---|---|---|",
            f"| cooccur | {rate(theirs):.2f} | -memory 4.0 |",
            f"| lexloom | {rate(ours):.2f} | {max(run['peak_mb'] for run in ours):.0f} |",
            "",
            f"- ratio of CPU seconds, from tokens: {statistics.median(ratios):.1f} "
            f"({min(ratios):.1f} to {max(ratios):.1f}); with the text read and numbered: "
            f"{statistics.median(with_text):.1f}",
            f"- largest relative difference of a count: {ours[0]['difference']:.1e}",
            f"- compiling, first run: {ours[0]['compile']:.1f} s; from the disk afterwards",
            "",
        ]
    )
    write("cooccurrence-vs-glove", report, {"cooccur": theirs, "lexloom": ours})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(work(json.loads(sys.argv[2]))))
    else:
        main()
