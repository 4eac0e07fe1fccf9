"""Counting the words of a plain text against polars, duckdb and ``collections.Counter``.

    python benchmarks/words_vs_peers.py CORPUS --name "17 M words of novels" [--threads 2]

CORPUS is a text file with words between spaces; .gz is unpacked first. Needs polars and duckdb
(``pip install --target DIR polars duckdb`` and ``--peers DIR``). Every run is a process of its own,
interleaved; what is timed is from the file name to the sorted counts in memory, after each library
was imported and has counted a tiny file (which compiles our kernel, or reads it from the disk).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import in_a_process, machine, timed, unpacked, write

SYSTEMS = ("lexloom", "polars", "duckdb", "Counter")


def count_lexloom(path: str, threads: int) -> Any:
    """Ours."""
    from tasks.words import count_words

    return count_words([path], threads=threads)


def count_polars(path: str, threads: int) -> Any:
    """A lazy scan, split, grouped and sorted, streaming: faster than in memory by half here."""
    import polars as pl

    lines = pl.scan_csv(
        path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"]
    )
    words = lines.select(pl.col("line").str.split(" ").explode().alias("type"))
    counts = words.group_by("type").len().filter(pl.col("type") != "")
    return counts.sort(["len", "type"], descending=[True, False]).collect(engine="streaming")


def count_duckdb(path: str, threads: int) -> Any:
    """The same as SQL."""
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    return connection.execute(
        "select type, count(*) as n from (select unnest(string_split(line, ' ')) as type from "
        "read_csv(?, header=false, columns={'line': 'varchar'}, delim='\x01', quote='', "
        "escape='', auto_detect=false)) where type <> '' group by type order by n desc, type",
        [path],
    ).to_arrow_table()


def count_counter(path: str, threads: int) -> Any:
    """The idiom."""
    counts: Counter[str] = Counter()
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            counts.update(line.split())
    return counts.most_common()


def pairs(system: str, value: Any) -> dict[str, int]:
    """The counts as a dictionary."""
    if system == "Counter":
        return dict(value)
    if system == "polars":
        return dict(value.iter_rows())
    return dict(zip(*(column.to_pylist() for column in value.columns), strict=True))


def work(job: dict[str, Any]) -> dict[str, Any]:
    """One run."""
    sys.path.append(job["peers"])
    functions: dict[str, Callable[[str, int], Any]] = {
        "lexloom": count_lexloom,
        "polars": count_polars,
        "duckdb": count_duckdb,
        "Counter": count_counter,
    }
    count = functions[job["system"]]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as tiny:
        tiny.write("a b a\nc\n")
        tiny.flush()
        began = time.perf_counter()
        count(tiny.name, job["threads"])
    started = time.perf_counter() - began
    value, figures = timed(lambda: count(job["text"], job["threads"]))
    counts = pairs(job["system"], value)
    digest = hash(frozenset(counts.items()))
    return {**figures, "start": started, "types": len(counts), "digest": digest}


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--peers", default=".")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    os.environ |= {"POLARS_MAX_THREADS": str(options.threads), "PYTHONHASHSEED": "0"}
    runs: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = unpacked(options.corpus, folder)
        size = text.stat().st_size / 1e6
        for _ in range(options.repeats):
            for system in SYSTEMS:
                job = {"system": system, "text": str(text), "threads": options.threads}
                job |= {"peers": options.peers}
                runs[system].append(in_a_process(__file__, job, folder))
                print(system, runs[system][-1], flush=True)
    same = len({(run["types"], run["digest"]) for each in runs.values() for run in each}) == 1
    median = {s: statistics.median(run["seconds"] for run in runs[s]) for s in SYSTEMS}
    loads = [run["load_before"] for each in runs.values() for run in each]
    lines = [
        f"# Words counted, against polars, duckdb and Counter: {options.name}",
        "",
        f"{size:.1f} MB, {runs['lexloom'][0]['types']:,} different words, {options.threads} "
        f"threads, {options.repeats} interleaved runs. {machine()}; load average before a run "
        f"{min(loads):.1f} to {max(loads):.1f}. Counts are {'equal' if same else 'NOT EQUAL'}.",
        "",
        "| | MB/s (median) | MB per CPU second | start, s | peak MB | ours is times as fast |",
        "|---|---|---|---|---|---|",
    ]
    for system in SYSTEMS:
        cpu = statistics.median(run["cpu"] for run in runs[system])
        starts = [run["start"] for run in runs[system]]
        ratios = [
            theirs["seconds"] / ours["seconds"]
            for theirs, ours in zip(runs[system], runs["lexloom"], strict=True)
        ]
        lines.append(
            f"| {system} | {size / median[system]:.0f} | {size / cpu:.0f} | {starts[0]:.2f} then "
            f"{statistics.median(starts):.2f} | "
            f"{statistics.median(run['peak_mb'] for run in runs[system]):.0f} | "
            f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |"
        )
    lines += [
        "",
        "Start is importing and counting a tiny file: our first run compiles the kernel, the "
        "others read it from disk. Peak memory includes the check of the counts.",
        "",
    ]
    write("words-vs-peers", "\n".join(lines), {"runs": runs})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(work(json.loads(sys.argv[2]))))
    else:
        main()
