"""n-grams of order 5 and co-occurrence on Ray: the rate with 2 workers, and what the second adds.

    python benchmarks/counting_on_ray.py CORPUS --name "17 M words of novels"

CORPUS is a text file, a sentence a line, words between spaces; .gz is unpacked first. In each
round, interleaved: every step on Ray with one worker, the same with two, and, as the measure of
what the machine gives at that moment, the same partitions in one plain process and in two
independent ones, half of the partitions each. Ray and all kernels are warm before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import machine, timed, tokens_of, unpacked, write


def counting(job: dict[str, Any], runner: Any, tokens: Any) -> Any:
    """The step of a job over all partitions."""
    from tasks.cooccurrence import PAIRS, Cooccurrence
    from tasks.ngrams import NGRAMS, Windows

    if job["what"] == "ngrams":
        return runner.map(NGRAMS, {"tokens": tokens}, Windows(5))
    return runner.map(PAIRS, {"tokens": tokens}, Cooccurrence(10))


def clear(folder: Path) -> None:
    """Forget what was counted."""
    for step in ("ngrams", "ngrams-map", "pairs"):
        shutil.rmtree(folder / step, ignore_errors=True)


def on_ray(job: dict[str, Any]) -> dict[str, float]:
    """Seconds of the counting step, and of adding up under a vocabulary (n-grams only)."""
    from models.family import WantsVocabulary
    from models.vocabulary import LM_RESERVED
    from tasks.cluster import RayCluster
    from tasks.ngrams import MAP, Whole
    from tasks.runner import Runner
    from tasks.step import Resources
    from tasks.store import Store
    from tasks.vocabulary import TYPES, VOCABULARY, Types

    workers = job["workers"]
    cluster = RayCluster(cpus=workers)
    for name, text in (("tiny", job["tiny"]), ("home", job["text"])):
        home = Path(job["folder"]) / name
        clear(home)
        store = Store(str(home), home / "cache")
        runner = Runner(store, ray=cluster, resources=Resources(threads=workers))
        tokens = tokens_of(store, Path(text))
        types = runner.run(TYPES, {"tokens": tokens}, Types())
        wanted = WantsVocabulary(2, None, LM_RESERVED)
        vocabulary = runner.run(VOCABULARY, {"types": types}, wanted)
        counted, figures = timed(lambda: counting(job, runner, tokens))  # noqa: B023
        if job["what"] == "ngrams":
            inputs = {"counts": counted, "vocabulary": vocabulary}
            figures["adding"] = timed(lambda: runner.run(MAP, inputs, Whole()))[1]["seconds"]  # noqa: B023
    cluster.connect().shutdown()
    return {"seconds": figures["seconds"], "adding": figures.get("adding", 0.0)}


def copies(job: dict[str, Any], n: int, folder: Path) -> float:
    """Seconds until n independent processes have counted their shares."""
    clear(folder / "home")
    command = [sys.executable, __file__, "--job"]
    jobs = [{**job, "share": [i, n], "folder": str(folder)} for i in range(n)]
    children = [
        subprocess.Popen(
            [*command, json.dumps(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for each in jobs
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()  # it is warm
    began = time.perf_counter()
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
    for child in children:
        child.wait()
    return time.perf_counter() - began


def share(job: dict[str, Any]) -> None:
    """Count every n-th partition, once warm and told to."""
    from tasks.cooccurrence import PAIRS, Cooccurrence
    from tasks.ngrams import NGRAMS, Windows
    from tasks.step import execute
    from tasks.store import Store

    step: Any = NGRAMS if job["what"] == "ngrams" else PAIRS
    params: Any = Windows(5) if job["what"] == "ngrams" else Cooccurrence(10)
    number, n = job["share"]
    for name, text in (("tiny", job["tiny"]), ("home", job["text"])):
        home = Path(job["folder"]) / name
        store = Store(str(home), home / "cache")
        partitions = store.partitions(tokens_of(store, Path(text)))
        if name == "home":
            print("warm", flush=True)
            sys.stdin.read()
        for partition in partitions[number::n] if name == "home" else partitions:
            execute(step, store, {"tokens": partition}, params)


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {"ngrams": [], "pairs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, tiny = unpacked(options.corpus, folder), folder / "tiny.txt"
        tiny.write_text("a b a\nc d\n")
        os.environ["NUMBA_CACHE_DIR"] = str(folder / "numba")
        job = {"text": str(text), "tiny": str(tiny), "folder": name, "workers": 0, "what": ""}
        for number in range(options.rounds + 1):
            for what, found in rounds.items():
                job["what"] = what
                one, two = (child({**job, "workers": workers}) for workers in (1, 2))
                figures = {"ray_1": one["seconds"], "ray_2": two["seconds"]}
                figures |= {"adding_2": two["adding"], "load": os.getloadavg()[0]}
                figures |= {f"copies_{n}": copies(job, n, folder) for n in (1, 2)}
                print(what, figures, flush=True)
                if number:  # the first round compiles and fills the caches
                    found.append(figures)
        tokens = sum(len(line.split()) for line in text.open(encoding="utf-8"))
    report(options.name, tokens, rounds)


def child(job: dict[str, Any]) -> dict[str, float]:
    """``on_ray`` in a process of its own, so that each cluster is new."""
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    figures: dict[str, float] = json.loads(output.decode().strip().splitlines()[-1])
    return figures


def report(name: str, tokens: int, rounds: dict[str, list[dict[str, float]]]) -> None:
    """Write the result."""
    ngrams = rounds["ngrams"]
    rates = [tokens / (each["ray_2"] + each["adding_2"]) / 1e6 for each in ngrams]
    loads = [each["load"] for found in rounds.values() for each in found]
    lines = [
        f"# Counting on Ray: {name}",
        "",
        f"{tokens:,} tokens; {len(ngrams)} rounds. {machine()}; load average "
        f"{min(loads):.1f} to {max(loads):.1f}.",
        "",
        f"n-grams of order 5, tokens to counts under a vocabulary, 2 workers: "
        f"{statistics.median(rates):.2f} M tokens/s ({min(rates):.2f} to {max(rates):.2f})",
        "",
        "| counting step | Ray 1 to 2 workers | independent copies 1 to 2 | share |",
        "|---|---|---|---|",
    ]
    for what, found in rounds.items():
        ray = [each["ray_1"] / each["ray_2"] for each in found]
        plain = [each["copies_1"] / each["copies_2"] for each in found]
        shares = [a / b for a, b in zip(ray, plain, strict=True)]
        lines.append(
            f"| {what} | {statistics.median(ray):.2f} | {statistics.median(plain):.2f} | "
            f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%}) |"
        )
    write("counting-on-ray", "\n".join([*lines, ""]), {"tokens": tokens, "rounds": rounds})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        asked = json.loads(sys.argv[2])
        if "share" in asked:
            share(asked)
        else:
            print(json.dumps(on_ray(asked)))
    else:
        main()
