"""word2vec or GloVe on several workers against one: speed, time of exchanges, quality.

    python benchmarks/sweeps_on_workers.py CORPUS --name "17 M words of novels"
    python benchmarks/sweeps_on_workers.py CORPUS --family glove --epochs 10 --workers 1 2

CORPUS is a text file, a sentence a line, words between spaces; .gz is unpacked first. For each seed
the numbers of workers come one after the other, each on a Ray of its own in a process of its own,
one thread a worker; every number of workers trains on the same text with the same settings. gensim
(4.4, not needed by lexloom) scores the vectors on WordSim-353, SimLex-999 and the Google analogies.
More workers than cores tell nothing of speed, but all of quality.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import machine, tokens_of, unpacked, write
from word2vec_vs_gensim import save, score

SCORES = ("wordsim353", "simlex999", "google")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """One training through the step that every run takes; what it tells, and its scores."""
    from models import glove, word2vec
    from models.capabilities import EmbedsWords
    from models.family import WantsVocabulary
    from tasks.cluster import RayCluster
    from tasks.cooccurrence import Cooccurrence, count_cooccurrence
    from tasks.models import TextPipeline, read_model
    from tasks.normalize import Normalize
    from tasks.runner import Runner
    from tasks.step import Resources
    from tasks.store import Store
    from tasks.tokenize import Tokenize
    from tasks.train import TRAIN, Train
    from tasks.vocabulary import TYPES, VOCABULARY, Types

    family = {"word2vec": word2vec, "glove": glove}[job["family"]].Config(**job["settings"])
    home, workers = Path(job["folder"]) / "home", job["workers"]
    store = Store(str(home), home / "cache")
    cluster = RayCluster(cpus=workers)
    # Counting takes its time once, and is found by the runs after that.
    runner = Runner(store, resources=Resources(threads=2))
    tokens = tokens_of(store, Path(job["text"]))
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    wanted = family.wants()["vocabulary"]
    assert isinstance(wanted, WantsVocabulary)
    inputs = {"vocabulary": runner.run(VOCABULARY, {"types": types}, wanted)}
    if job["family"] == "glove":
        counting = Cooccurrence(family.window)
        inputs["cooccurrence"] = count_cooccurrence(runner, tokens, inputs["vocabulary"], counting)
    else:
        inputs["train"] = tokens
    resources = Resources(threads=workers, workers=workers)
    params = Train(family, TextPipeline(Normalize(), Tokenize()), job["seed"], workers)
    trainer = Runner(store, ray=cluster)
    made = trainer.run(TRAIN, inputs, params, resources=resources, in_driver=True)
    model = read_model(store.reader(made))
    assert isinstance(model, EmbedsWords)
    out = Path(job["folder"])
    save(out, model.vocabulary.words, model.word_vectors(model.vocabulary.words))
    stats = store.manifest(made).stats
    return {**{k: v for k, v in stats.items() if not isinstance(v, str)}, **score(out)}


def child(job: dict[str, Any]) -> dict[str, Any]:
    """``run`` in a process of its own."""
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return {**json.loads(output.decode().strip().splitlines()[-1]), "load_before": load}


def report(name: str, options: argparse.Namespace, runs: dict[int, list[dict[str, Any]]]) -> str:
    """The result as Markdown."""
    rate = "tokens_per_second" if options.family == "word2vec" else "records_per_second"
    loads = [figures["load_before"] for each in runs.values() for figures in each]
    lines = [
        f"# {options.family} on workers: {name}",
        "",
        f"{options.settings}; {options.seeds} seeds, one thread a worker. {machine()}; load "
        f"average {min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| workers | " + rate.replace("_", " ") + " | exchanges, % of the time | waiting, % "
        "| loss | WordSim-353 | SimLex-999 | Google, % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for workers, each in runs.items():

        def told(key: str, each: list[dict[str, Any]] = each) -> list[float]:
            return [float(figures.get(key, 0.0)) for figures in each]

        scores = " | ".join(
            f"{statistics.mean(told(key)):.3f} ({min(told(key)):.3f} to {max(told(key)):.3f})"
            for key in SCORES
        )
        lines.append(
            f"| {workers} | {statistics.median(told(rate)):,.0f} "
            f"| {100 * statistics.median(told('sync_share')):.1f} "
            f"| {100 * statistics.median(told('wait_share')):.1f} "
            f"| {statistics.mean(told('train_loss')):.4f} | {scores} |"
        )
    lines += ["", "Rates and shares are medians, scores means with their range over the seeds.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--family", choices=("word2vec", "glove"), default="word2vec")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument(
        "--settings", type=json.loads, default={}, help='more of the family, {"window": 10}'
    )
    options = parser.parse_args()
    options.settings = {"dim": options.dim, "epochs": options.epochs, **options.settings}
    runs: dict[int, list[dict[str, Any]]] = {workers: [] for workers in options.workers}
    with tempfile.TemporaryDirectory() as name:
        os.environ["NUMBA_CACHE_DIR"] = f"{name}/numba"
        job = {"text": str(unpacked(options.corpus, Path(name))), "folder": name}
        job |= {"family": options.family, "settings": options.settings}
        child({**job, "workers": 1, "seed": 0, "settings": {**options.settings, "epochs": 1}})
        for seed in range(1, 1 + options.seeds):
            for workers, found in runs.items():
                found.append(child({**job, "workers": workers, "seed": seed}))
                print(workers, found[-1], flush=True)
    text = report(options.name, options, runs)
    write(f"{options.family}-on-workers", text, {"settings": options.settings, "runs": runs})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(run(json.loads(sys.argv[2]))))
    else:
        main()
