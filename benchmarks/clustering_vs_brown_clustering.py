"""Word clustering against brown-clustering from PyPI, Liang's wcluster, and ClusterCat.

    pip install --no-deps --target DIR brown-clustering      # needs numba and tqdm besides
    python benchmarks/clustering_vs_brown_clustering.py TRAIN HELDOUT --name Brown --peers DIR
    ... --peer-bin .../wcluster .../clustercat

TRAIN and HELDOUT are text files, a sentence a line, words between spaces. wcluster
(github.com/percyliang/brown-cluster) and ClusterCat (github.com/jonsafari/clustercat) are built
elsewhere and left out if they are not named. brown-clustering takes minutes for few words and
wcluster for many classes, so there are three settings, each with the peers that can be waited for.

Systems run in turn, each in a process of its own; what is timed is from the text file to the
classes of words in memory (programs: to their file), our kernels having been compiled before. The
classes are judged by one bigram model of classes, estimated here from TRAIN, on HELDOUT:

    p(w | v) = p(c(w) | c(v)) p(w | c(w)),      Witten-Bell smoothing over p(c) with 1 added

Words rarer than the setting says, and the marks of sentences, are classes of their own for all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import in_a_process, machine, write

METHODS = ("brown", "exchange", "predictive-exchange")
Classes = Mapping[str, str]


def sentences(path: str) -> list[list[str]]:
    """Words by line."""
    return [line.split() for line in Path(path).read_text("utf-8").splitlines()]


# --- systems: from a text to the class of every frequent word ---------------------------------


def run_lexloom(method: str, path: str, min_count: int, classes: int) -> Classes:
    """Ours."""
    import numpy as np

    from models.backoff import framed
    from models.clustering import Bigrams, cluster
    from models.kernels.classes import counts_of_classes
    from models.kernels.ngram import distinct_windows, sort_windows
    from models.text import NgramCounts, Sentences
    from models.vocabulary import LM_RESERVED, select

    text = sentences(path)
    words = Counter(word for sentence in text for word in sentence)
    numbers = np.array(list(words.values()), np.int64)
    all_words, vocabulary = (
        select(list(words), numbers, min_count=least, max_size=None, reserved=LM_RESERVED)
        for least in (1, min_count)
    )
    stream = framed(Sentences.of(all_words, text))
    found = distinct_windows(stream, sort_windows(stream, 2, len(all_words)), 2)
    names = np.concatenate([np.arange(3), vocabulary.ids(all_words.words)]).astype(np.int32)
    bigrams = Bigrams.of(counts_of_classes(NgramCounts(2, *found), names), len(vocabulary))
    clusters = cluster(bigrams, method, classes)  # type: ignore[arg-type]
    return dict(zip(vocabulary.words, map(str, clusters.classes[3:].tolist()), strict=True))


def run_brown_clustering(path: str, min_count: int, classes: int, alpha: float) -> Classes:
    """brown-clustering, whose defaults add 1 to the count of every bigram."""
    from brown_clustering import BigramCorpus, BrownClustering

    corpus = BigramCorpus(sentences(path), alpha=alpha, min_count=min_count)
    found = BrownClustering(corpus, classes).train()
    return {word: str(i) for i, words in enumerate(found) for word in words}


def run_wcluster(program: str, path: str, min_count: int, classes: int) -> Classes:
    """Liang's program, one thread (its threads do not share the work of one clustering)."""
    with tempfile.TemporaryDirectory() as folder:
        options = [f"--c={classes}", f"--min-occur={min_count}", f"--output_dir={folder}/out"]
        command = [program, "--text", path, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
        lines = (Path(folder) / "out" / "paths").read_text("utf-8").splitlines()
    fields = [line.split("\t") for line in lines]
    return {word: name for name, word, _ in fields}


def run_clustercat(program: str, path: str, min_count: int, classes: int) -> Classes:
    """ClusterCat with its own defaults, two threads."""
    options = ["-c", str(classes), "--min-count", str(min_count), "-j", "2"]
    command = [program, "--in", path, *options]
    done = subprocess.run(command, check=True, capture_output=True)
    lines = done.stdout.decode().splitlines()
    fields = [line.split("\t") for line in lines]
    return {word: name for word, name, *_ in fields}


def run(job: Mapping[str, Any]) -> Classes:
    """What a system makes of a job."""
    system, path = job["system"], job["train"]
    sizes = job["min_count"], job["classes"]
    if system.startswith("brown-clustering"):
        return run_brown_clustering(path, *sizes, job["alpha"])
    if system in ("wcluster", "clustercat"):
        program = {"wcluster": run_wcluster, "clustercat": run_clustercat}[system]
        return program(job["program"], path, *sizes)
    return run_lexloom(system.removeprefix("lexloom "), path, *sizes)


def work(job: Mapping[str, Any]) -> None:
    """A run, timed, and its classes judged."""
    sys.path[:0] = [job["peers"]] if job["peers"] else []
    os.environ["TQDM_DISABLE"] = "1"
    if job["system"].startswith("lexloom"):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as tiny:
            tiny.write("a b c\nb c a\nc d\n" * 3)
            tiny.flush()
            run({**job, "train": tiny.name, "min_count": 1, "classes": 2})
    usage = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

    def cpu() -> float:
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, usage))

    began, before = time.perf_counter(), cpu()
    classes = run(job)
    seconds, spent = time.perf_counter() - began, cpu() - before
    peak = max(resource.getrusage(u).ru_maxrss for u in usage) / 1024
    figures = {
        "seconds": seconds,
        "cpu": spent,
        "peak_mb": peak,
        "found": len(set(classes.values())),
    }
    print(json.dumps({**figures, **judge(classes, job)}))


def judge(classes: Classes, job: Mapping[str, Any]) -> dict[str, float]:
    """The perplexity of held-out text under the bigram model of some classes."""
    train = sentences(job["train"])
    counts = Counter(word for sentence in train for word in sentence)
    known = {word for word, n in counts.items() if n >= job["min_count"]}

    def of(word: str) -> str:
        return classes.get(word, "missing") if word in known else "rare"

    pairs, members = Counter[tuple[str, str]](), Counter[str]()
    for sentence in train:
        names = ["<s>", *map(of, sentence), "</s>"]
        pairs.update(itertools.pairwise(names))
        members.update(names[1:])
    befores, kinds = Counter[str](), defaultdict[str, int](int)
    for (before, _), n in pairs.items():
        befores[before] += n
        kinds[before] += 1
    every, total = set(members) | {"missing", "rare"}, sum(members.values())
    bits, scored = 0.0, 0
    for sentence in sentences(job["heldout"]):
        before = "<s>"
        for word in [*sentence, "</s>"]:
            name = "</s>" if word == "</s>" else of(word)
            share = (members[name] + 1) / (total + len(every))
            mass = befores[before] + kinds[before]
            p = (pairs[before, name] + kinds[before] * share) / mass if mass else share
            if word in known:
                p *= counts[word] / members[name]
            bits -= math.log2(p)
            scored += 1
            before = name
    return {"perplexity": 2 ** (bits / scored)}


# --- all runs, and the report ---------------------------------------------------------------


def table(title: str, runs: Mapping[str, list[dict[str, float]]]) -> list[str]:
    """A table of the runs of one setting."""
    head = "| | seconds | CPU seconds | peak MB | classes | held-out perplexity |"
    lines = ["", f"## {title}", "", head, "|---|---|---|---|---|---|"]
    for system, each in runs.items():
        keys = ("seconds", "cpu", "peak_mb", "found", "perplexity")
        seconds, cpu, peak, found, perplexity = (
            statistics.median(figures[key] for figures in each) for key in keys
        )
        lines.append(
            f"| {system} | {seconds:,.2f} | {cpu:,.2f} | {peak:,.0f} | {found:.0f} "
            f"| {perplexity:.2f} |"
        )
    lines.append("")
    for system, each in runs.items():
        if not system.startswith("lexloom"):
            for ours in (name for name in runs if name.startswith("lexloom")):
                ratios = [t["cpu"] / o["cpu"] for t, o in zip(each, runs[ours], strict=False)]
                ratio = statistics.median(ratios)
                lines.append(f"- {system} takes {ratio:.1f} times the CPU seconds of {ours}")
    return lines


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path, help="text file, a sentence a line")
    parser.add_argument("heldout", type=Path, help="text file that the classes are judged on")
    parser.add_argument("--name", default="a text", help="what the report calls the corpus")
    parser.add_argument("--peers", default="", help="folder with brown-clustering")
    parser.add_argument("--alpha", type=float, nargs="+", default=[1.0], help="its smoothing")
    parser.add_argument("--peer-bin", nargs="*", default=[], help="wcluster, clustercat")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer-runs", type=int, default=1, help="of each peer")
    options = parser.parse_args()
    programs = {Path(program).name: program for program in options.peer_bin}
    ours = [f"lexloom {method}" for method in METHODS]
    brown = [f"brown-clustering, alpha {alpha:g}" for alpha in options.alpha if options.peers]
    # The least count of a word, classes, peers.
    settings = [(64, 100, [*brown, "wcluster"]), (4, 100, ["wcluster"]), (4, 500, ["clustercat"])]
    report, values = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for min_count, classes, peers in settings:
            systems = [*ours, *(peer for peer in peers if peer in brown or peer in programs)]
            runs: dict[str, list[dict[str, float]]] = {system: [] for system in systems}
            for i in range(options.runs):
                for system in systems:
                    if i >= options.peer_runs and system not in ours:
                        continue
                    job = {
                        "system": system, "program": programs.get(system, ""),
                        "train": str(options.train), "heldout": str(options.heldout),
                        "min_count": min_count, "classes": classes, "peers": options.peers,
                        "alpha": float(system.rpartition(" ")[2]) if system in brown else 0,
                    }  # fmt: skip
                    runs[system].append(in_a_process(__file__, job, Path(folder)))
                    print(system, runs[system][-1], flush=True)
            title = f"{classes} classes of words seen {min_count} times or more"
            report += table(title, runs)
            values[title] = runs
    loads = [
        figures["load_before"] for r in values.values() for each in r.values() for figures in each
    ]
    head = [
        f"# Word clustering on {options.name}",
        "",
        f"{machine()}; {options.runs} runs of ours, {options.peer_runs} of the peers, in turn, "
        f"medians; the load average before a run was {min(loads):.1f} to {max(loads):.1f}. "
        "From the text file to the classes.",
        "Perplexity is that of one class bigram model outside of all systems (see the script).",
    ]
    write("clustering-vs-brown-clustering", "\n".join([*head, *report, ""]), values)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        work(json.loads(sys.argv[2]))
    else:
        main()
