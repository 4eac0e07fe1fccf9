"""Text to token ids: lexloom beside ``datasets.map`` and ``tokenizers``.

    python benchmarks/tokens_vs_tokenizers.py CORPUS [--name NAME] [--runs 3] [--lines N]

Three comparisons on one text, a sentence a line:

* corpus: text in a table to token ids in files, with two processes. Ours: the steps normalize and
  tokenize with their default settings on two Ray workers that are running already. The peer:
  ``datasets.map`` in batches with ``tokenizers`` (NFC, the pre-tokenizer ``Whitespace``, a
  WordLevel model that knows every word), ``num_proc=2``.
* words: lines in memory to ids. Ours: the scheme ``whitespace``, one thread. The peer:
  ``encode_batch_fast`` of a WordLevel tokenizer with ``WhitespaceSplit``, one thread and two.
* wordpiece: the same with a WordPiece tokenizer of 8,000 entries that lexloom learnt.

In the last two the ids are compared, and the run fails if they differ. Needs nothing but lexloom:
``datasets`` and ``tokenizers`` are among what it depends on.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

RESULTS = Path(__file__).parent / "results"
SYSTEMS = {
    "corpus": ["lexloom", "datasets.map"],
    "words": ["lexloom", "tokenizers, 1 thread", "tokenizers, 2 threads"],
    "wordpiece": ["lexloom", "tokenizers, 1 thread", "tokenizers, 2 threads"],
}


def timed(action: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What an action gives, its seconds, and CPU seconds of this process and its children."""
    before, began = os.times(), time.perf_counter()
    result = action()
    seconds, after = time.perf_counter() - began, os.times()
    return result, {"seconds": seconds, "cpu": sum(after[:4]) - sum(before[:4])}


# --- text in a table to ids in files --------------------------------------------------------


def corpus_lexloom(lines: list[str], folder: Path) -> dict[str, float]:
    """The steps normalize and tokenize on two Ray workers."""
    from tasks.cluster import RayCluster
    from tasks.normalize import DOCUMENTS, NORMALIZE, SCHEMA, Normalize, NormalizeStep
    from tasks.runner import Runner
    from tasks.step import Step, execute
    from tasks.store import Store
    from tasks.tokenize import TOKENIZE, Tokenize, TokenizeStep

    def write(context: Any, readers: Any, params: Any) -> dict[str, int]:
        for i, part in enumerate(np.array_split(np.arange(len(lines)), 8)):
            texts = lines[part[0] : part[-1] + 1]
            rows = [[b"0" * 16] * len(texts), ["x"] * len(texts), texts]
            arrays = [pa.array(row, f.type) for row, f in zip(rows, SCHEMA, strict=True)]
            context.out.table(DOCUMENTS, pa.table(arrays, schema=SCHEMA), i)
        return {}

    store = Store(str(folder / "store"), folder / "cache")
    raw = execute(Step("texts", 1, "documents", write), store, {}, {})[0].handle()
    root = str(Path(__file__).parent.parent)
    cluster = RayCluster(cpus=2, env={"PYTHONPATH": root})
    ray = cluster.connect()
    began = time.perf_counter()
    ray.get([ray.remote(num_cpus=1)(warm_up).remote() for _ in range(2)])
    start = time.perf_counter() - began
    runner = Runner(store, cluster)
    workers = cpu_of_children()

    def steps() -> Any:
        step = NormalizeStep(Normalize(markup="none"))
        documents = runner.map(NORMALIZE, {"documents": raw}, step)
        return runner.map(TOKENIZE, {"documents": documents}, TokenizeStep.of(Tokenize()))

    tokens, figures = timed(steps)
    figures["cpu"] += cpu_of_children() - workers
    figures["tokens"] = store.manifest(tokens).stats["tokens"]  # type: ignore[assignment]
    figures["start"] = start
    ray.shutdown()
    return figures


def warm_up() -> None:
    """Import the libraries and get the kernel ready, in one of two workers."""
    import time

    import pyarrow as pa

    from tasks.tokenize import Tokenize, tokenize_column

    tokenize_column(
        pa.chunked_array([pa.array(["a b"] * (1 << 18), pa.large_string())]), Tokenize()
    )
    time.sleep(1)  # so that the other worker gets the other call


def cpu_of_children() -> float:
    """CPU seconds of all processes below this one that still live."""
    import psutil

    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in times)


def corpus_datasets(lines: list[str], folder: Path) -> dict[str, float]:
    """``datasets.map`` with two processes."""
    import datasets
    from tokenizers import normalizers, pre_tokenizers

    datasets.disable_progress_bars()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    split = pre_tokenizers.Whitespace()
    words = {w for line in set(lines) for w, _ in split.pre_tokenize_str(line)}
    tokenizer = word_level(sorted(words))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFC(), split
    table = datasets.Dataset.from_dict({"text": lines})

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        return {"ids": [e.ids for e in tokenizer.encode_batch_fast(batch["text"])]}

    def work(some: Any, name: str) -> Any:
        return some.map(
            encode, batched=True, num_proc=2, remove_columns=["text"],
            cache_file_name=str(folder / name), load_from_cache_file=False,
        )  # fmt: skip

    began = time.perf_counter()
    work(table.select(range(min(len(lines), 1000))), "warm.arrow")
    start = time.perf_counter() - began
    encoded, figures = timed(lambda: work(table, "ids.arrow"))
    figures["start"] = start
    counts = pa.compute.list_value_length(encoded.data.column("ids"))
    figures["tokens"] = pa.compute.sum(counts).as_py()
    return figures


def word_level(words: list[str]) -> Any:
    """A tokenizer that knows these words."""
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<unk>", *words])}, "<unk>"))


# --- lines in memory to ids -----------------------------------------------------------------


def tokenizer_for(comparison: str, lines: list[str]) -> Any:
    """The tokenizer of a comparison, by the counts of the text."""
    from collections import Counter

    from tokenizers import pre_tokenizers

    from tasks.subwords import LearnSubwords, train_tokenizer
    from tasks.tokenize import Tokenize

    counts = Counter(word for line in lines for word in line.split())
    if comparison == "words":
        tokenizer = word_level(sorted(counts))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return tokenizer
    params = LearnSubwords.of(Tokenize("wordpiece"))
    return train_tokenizer([*counts], np.array([*counts.values()], np.int64), params)


def memory_lexloom(comparison: str, lines: list[str], tokenizer: Any) -> Any:
    """(N,) the tokenizer's ids of all tokens, and (S + 1,) where lines begin."""
    from models.text import Sentences
    from tasks.subwords import encode_pieces
    from tasks.tokenize import Tokenize, expand, tokenize_column

    column = pa.chunked_array([pa.array(lines, pa.large_string())])
    types, text, _ = tokenize_column(column, Tokenize("whitespace"))
    if comparison == "wordpiece":
        types, *expansions = encode_pieces(tokenizer, types)
        ids, starts = expand(text.ids, text.starts, *expansions)
        text = Sentences(ids, starts, text.documents)
    return np.array([tokenizer.token_to_id(token) for token in types], np.int32)[text.ids], text


def memory(comparison: str, system: str, lines: list[str]) -> dict[str, float]:
    """A run of "words" or "wordpiece"."""
    import hashlib

    tokenizer = tokenizer_for(comparison, lines)
    if system == "lexloom":
        memory_lexloom(comparison, lines[:9], tokenizer)  # what is imported is not timed
        (ids, _), figures = timed(lambda: memory_lexloom(comparison, lines, tokenizer))
    else:
        encoded, figures = timed(lambda: [e.ids for e in tokenizer.encode_batch_fast(lines)])
        ids = np.fromiter((i for line in encoded for i in line), np.int32)
    digest = hashlib.sha256(np.ascontiguousarray(ids, np.int32)).hexdigest()
    return {**figures, "tokens": len(ids), "ids": digest}  # type: ignore[dict-item]


# --- all runs, and the report ---------------------------------------------------------------


def work(job: str) -> None:
    """What a fresh process does."""
    comparison, system, corpus, limit, out = json.loads(job)
    text = gzip.open(corpus, "rt", encoding="utf-8") if corpus.endswith(".gz") else open(corpus)  # noqa: SIM115
    with text:
        lines = [line for line in text.read().split("\n") if line][:limit]
    if comparison == "corpus":
        function = corpus_lexloom if system == "lexloom" else corpus_datasets
        figures = function(lines, Path(out))
    else:
        figures = memory(comparison, system, lines)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures["megabytes"] = sum(len(line.encode()) + 1 for line in lines) / 1e6
    (Path(out) / "figures.json").write_text(json.dumps(figures))


def run(comparison: str, system: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run in a fresh process."""
    root = str(Path(__file__).parent.parent)
    threads = "2" if system.endswith("2 threads") else "1"
    env = {**os.environ, "PYTHONPATH": root, "RAYON_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    env["TOKENIZERS_PARALLELISM"] = "true" if threads == "2" else "false"
    with tempfile.TemporaryDirectory() as out:
        job = json.dumps([comparison, system, str(options.corpus), options.lines, out])
        load = os.getloadavg()[0]
        subprocess.run([sys.executable, __file__, "--job", job], check=True, env=env)
        figures = json.loads((Path(out) / "figures.json").read_text())
    return {"load_before": load, **figures}


def report(options: argparse.Namespace, runs: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """The result as Markdown."""
    some = next(iter(runs.values()))["lexloom"][0]
    every = [r for systems in runs.values() for each in systems.values() for r in each]
    loads = [r["load_before"] for r in every]
    lines = [
        f"# Text to ids against datasets.map and tokenizers, {datetime.date.today()}",
        "",
        f"{options.name}, {some['megabytes']:.1f} MB, {some['tokens']:,} pieces; medians of "
        f"{options.runs} interleaved runs; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; load average {min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| | | seconds | CPU seconds | MB a CPU second | tokens | peak MB | time against ours "
        "| CPU time against ours |",
        "|---|---|---|---|---|---|---|---|---|",
    ]

    def ratio(comparison: str, system: str, key: str) -> str:
        pairs = zip(runs[comparison][system], runs[comparison]["lexloom"], strict=True)
        ratios = [theirs[key] / ours[key] for theirs, ours in pairs]
        return f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"

    for comparison, systems in runs.items():
        for system, figures in systems.items():
            middle = {k: statistics.median(f[k] for f in figures) for k in figures[0] if k != "ids"}
            rate = middle["megabytes"] / middle["cpu"]
            lines.append(
                f"| {comparison} | {system} | {middle['seconds']:.1f} | {middle['cpu']:.1f} "
                f"| {rate:.1f} | {middle['tokens']:,.0f} | {middle['peak_mb']:,.0f} "
                f"| {ratio(comparison, system, 'seconds')} | {ratio(comparison, system, 'cpu')} |"
            )
    lines += [
        "",
        "In words and wordpiece all systems give the same ids. In corpus the rules differ: "
        "`Whitespace` cuts `don't` and `3.14` and does not count repeated marks alike. Peak memory "
        "is that of the main process, text and all.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="text file, a sentence a line, or .gz of one")
    parser.add_argument("--name", default="a text", help="what the report calls the corpus")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--lines", type=int, default=None, help="only the first lines")
    parser.add_argument("--only", choices=SYSTEMS, help="one comparison")
    options = parser.parse_args()
    comparisons = {c: s for c, s in SYSTEMS.items() if options.only in (c, None)}
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        comparison: {system: [] for system in systems}
        for comparison, systems in comparisons.items()
    }
    for _ in range(options.runs):
        for comparison, systems in comparisons.items():
            for system in systems:
                runs[comparison][system].append(run(comparison, system, options))
                print(comparison, system, runs[comparison][system][-1], flush=True)
    for comparison in comparisons.keys() - {"corpus"}:
        if len({f["ids"] for each in runs[comparison].values() for f in each}) > 1:
            raise SystemExit(f"{comparison}: the ids differ")
    text = report(options, runs)
    RESULTS.mkdir(exist_ok=True)
    slug = options.name.replace(" ", "-").replace(",", "").lower()
    stem = RESULTS / f"{datetime.date.today()}-tokens-vs-tokenizers-{slug}"
    stem.with_suffix(".md").write_text(text)
    stem.with_suffix(".json").write_text(json.dumps(runs, indent=1))
    print(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        work(sys.argv[2])
    else:
        main()
