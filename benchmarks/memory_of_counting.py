"""Proof that memory is bounded: a large text through tokenization, counting and co-occurrence.

    python benchmarks/memory_of_counting.py CORPUS --name "novels, repeated" [--bytes 1073741824]

CORPUS is real text, a sentence a line; .gz is unpacked first. Its lines are shuffled and repeated,
in another order each time, until the file has the asked size. The flow's own steps then run, each
in a process of its own, in this machine's memory as a worker has it: ingest, normalize,
deduplicate, tokenize, n-grams of order 3, co-occurrence. The largest peak is the result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import in_a_process, machine, timed, unpacked, write

STEPS = ("corpus", "vocabulary", "ngrams", "pairs", "cooccurrence")


def work(job: dict[str, Any]) -> dict[str, Any]:
    """One stage; earlier ones are found in the store."""
    from models.family import WantsVocabulary
    from models.vocabulary import LM_RESERVED
    from tasks.cooccurrence import COOCCURRENCE, PAIRS, Cooccurrence
    from tasks.corpus import CorpusConfig, build_corpus
    from tasks.ngrams import count_ngrams
    from tasks.runner import Runner
    from tasks.sources import Source
    from tasks.split import Fractions
    from tasks.step import Resources
    from tasks.store import Store
    from tasks.vocabulary import VOCABULARY

    home = Path(job["folder"]) / "home"
    runner = Runner(Store(str(home), home / "cache"), resources=Resources(memory=job["memory"]))

    def stage() -> Any:
        source = Source(paths=(job["text"],), format="text", document="line")
        # Lines repeat, so none is taken out: this is about memory.
        config = CorpusConfig(train=source, deduplicate=False, split=Fractions(0, 0))
        corpus = build_corpus(runner, config)
        tokens, asked = corpus.tokens["train"], Cooccurrence(10)
        wanted = WantsVocabulary(5, None, LM_RESERVED)
        if job["stage"] == "corpus":
            return tokens
        vocabulary = runner.run(VOCABULARY, {"types": corpus.types}, wanted)
        if job["stage"] == "vocabulary":
            return vocabulary
        if job["stage"] == "ngrams":
            return count_ngrams(runner, tokens, vocabulary, 3)
        pairs = runner.map(PAIRS, {"tokens": tokens}, asked)
        if job["stage"] == "pairs":
            return pairs
        return runner.run(COOCCURRENCE, {"pairs": pairs, "vocabulary": vocabulary}, asked)

    made, figures = timed(stage)
    manifest = runner.store.manifest(made)
    stored = sum(part.size for part in manifest.parts)
    return {**figures, "partitions": manifest.n_partitions, "stored_mb": stored / 1e6}


def repeated(text: Path, out: Path, size: int) -> None:
    """The lines of a text, shuffled anew each time around, up to a size."""
    lines, chance = text.read_bytes().splitlines(keepends=True), random.Random(1)
    with out.open("wb") as file:
        while file.tell() < size:
            chance.shuffle(lines)
            for begin in range(0, len(lines), 10_000):
                file.write(b"".join(lines[begin : begin + 10_000]))
                if file.tell() >= size:
                    return


def main() -> None:
    """Run every stage and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--memory", type=int, default=1 << 28)
    options = parser.parse_args()
    runs: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "repeated.txt"
        repeated(unpacked(options.corpus, folder), text, options.bytes)
        for stage in STEPS:
            job = {"stage": stage, "text": str(text), "folder": name, "memory": options.memory}
            runs[stage] = in_a_process(__file__, job, folder)
            print(stage, runs[stage], flush=True)
    lines = [
        f"# Memory of counting: {options.name}",
        "",
        f"{options.bytes / 2**20:.0f} MiB of text, memory limit of a step's tables "
        f"{options.memory / 2**20:.0f} MiB, one process a stage, one worker. {machine()}; load "
        f"average {os.getloadavg()[0]:.1f}.",
        "",
        "| stage | peak MB of the process | stored MB | partitions | seconds |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {stage} | {run['peak_mb']:.0f} | {run['stored_mb']:.0f} | {run['partitions']} | "
        f"{run['seconds']:.0f} |"
        for stage, run in runs.items()
    ]
    write("memory-of-counting", "\n".join([*lines, ""]), {"runs": runs})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps(work(json.loads(sys.argv[2]))))
    else:
        main()
