"""word2vec against gensim's Word2Vec on one text: skip-gram or CBOW, by two objectives.

    python benchmarks/word2vec_vs_gensim.py CORPUS --name "17 M words of novels"
    python benchmarks/word2vec_vs_gensim.py CORPUS --architecture cbow
    python benchmarks/word2vec_vs_gensim.py CORPUS --objective hierarchical-softmax

CORPUS is any text file, a sentence a line, words between spaces; .gz is unpacked first. For each
seed the systems run one after the other, each in a process of its own, and the same code (gensim's)
scores their vectors on WordSim-353, SimLex-999 and the Google analogies. The report goes to
``benchmarks/results/`` as Markdown and JSON.

gensim runs in its fastest mode, ``corpus_file``. In that mode (4.4.0) each of its W workers
measures its own progress against the whole text, so in the last epoch the learning rate falls only
1/W of the way that the settings ask for. Its workers also read the
text at W places at once, where ours read it from its beginning to its end. So there are two
comparisons of like with like: "as gensim runs it" has that schedule and that order, and "gensim,
one worker" is to be set against "as set", which is also the schedule of the original program.
gensim gets the number of workers, of ``--peer-workers``, with which it is fastest here.

One epoch over 7 M words gives scores that differ from seed to seed: gensim's one worker, on three
seeds of CBOW, had 6.6 to 7.7 % of the analogies and 0.12 to 0.18 on WordSim-353. The report tells
the standard deviation over the seeds beside each mean.

With negative sampling the last lines of the text are kept from training, and the loss on them is
compared: the same pairs for all systems, each with noise words of its own.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

RESULTS = Path(__file__).parent / "results"
PEER, ALONE = "gensim", "gensim, one worker"
AS_PEER, AS_SET = "lexloom, as gensim runs it", "lexloom, as set"
SYSTEMS = (PEER, ALONE, AS_PEER, AS_SET)
RESTRICT = 30_000  # answers to analogies are among so many of the most frequent words
HELD_OUT = 0.01  # of the lines
BATCH = 10_000  # words that a worker of gensim's takes at a time
PAIRS = 500_000  # of held-out words, for the loss


# --- one run, in a process of its own ---------------------------------------------------------


def run_gensim(text: Path, settings: Mapping[str, Any], out: Path) -> dict[str, float]:
    """Train gensim's model and save its vectors."""
    from gensim.models import Word2Vec

    hierarchical = settings["objective"] == "hierarchical-softmax"
    began = time.perf_counter()
    model = Word2Vec(
        vector_size=settings["dim"],
        window=settings["window"],
        negative=0 if hierarchical else settings["negatives"],
        hs=int(hierarchical),
        sample=settings["sample"],
        alpha=settings["learning_rate"],
        min_alpha=settings["min_learning_rate"],
        min_count=settings["min_count"],
        workers=settings["workers"],
        seed=settings["seed"],
        sg=int(settings["architecture"] == "skip-gram"),
    )
    model.build_vocab(corpus_file=str(text))
    middle, cpu_before = time.perf_counter(), time.process_time()
    model.train(
        corpus_file=str(text),
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=settings["epochs"],
    )
    end = time.perf_counter()
    save(out, model.wv.index_to_key, model.wv.vectors, None if hierarchical else model.syn1neg)
    return {
        "words": model.corpus_total_words * settings["epochs"],
        "training": end - middle,
        "cpu": time.process_time() - cpu_before,
        "end_to_end": end - began,
    }


def run_lexloom(text: Path, settings: Mapping[str, Any], out: Path) -> dict[str, float]:
    """Train our model and save its vectors."""
    from models import word2vec
    from models.family import Inputs
    from models.vocabulary import select
    from tasks.training.sweep import sweep
    from tasks.training.tracker import Silent

    names = set(word2vec.Config.__dataclass_fields__) & set(settings)
    config = word2vec.Config(**{name: settings[name] for name in names})
    context: Any = SimpleNamespace(
        resources=SimpleNamespace(threads=settings["threads"]), progress=lambda *_: None
    )

    def train(tokens: Any, min_count: int) -> tuple[Any, Mapping[str, Any], float]:
        part = tokens.partitions[0]
        vocabulary = select(
            part.types, part.counts, min_count=min_count, max_size=None, reserved=()
        )
        inputs = Inputs({"train": tokens, "vocabulary": vocabulary})
        model = config.build(inputs, seed=settings["seed"])
        before = time.process_time()
        report = sweep(model, inputs, settings["seed"], context, Silent())
        return model, report, time.process_time() - before

    began = time.perf_counter()
    tiny = out / "tiny.txt"
    tiny.write_text("\n".join(f"a{i} b{i} c{i}" for i in range(1000)))
    train(read(tiny), 1)
    compiled = time.perf_counter()
    model, report, cpu = train(read(text), config.min_count)
    end = time.perf_counter()
    vectors = model.word_vectors(model.vocabulary.words)
    save(out, model.vocabulary.words, vectors, model.state().get("output"))
    return {
        "words": report["tokens"],
        "training": report["tokens"] / report["tokens_per_second"],
        "cpu": cpu,
        "compile": compiled - began,
        "end_to_end": end - began,
    }


def read(text: Path) -> Any:
    """A text file as a tokenized corpus of one partition."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from models.text import Sentences, TokenPartition, Tokens

    lines = pa.array(text.read_text("utf-8").splitlines(), pa.large_string())
    words = pc.split_pattern(pc.utf8_trim(lines, " "), " ")
    encoded = words.flatten().dictionary_encode()
    ids = encoded.indices.to_numpy().astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(pc.list_value_length(words).to_numpy())])
    counts = np.bincount(ids, minlength=len(encoded.dictionary)).astype(np.int64)
    sentences = Sentences(ids, starts.astype(np.int64), np.array([0, len(lines)]))
    return Tokens([TokenPartition(encoded.dictionary.to_pylist(), counts, sentences)])


def save(out: Path, words: Any, vectors: Any, outputs: Any = None) -> None:
    """Vectors for ``score``, and those of words as targets for ``held_out_loss``."""
    np.save(out / "vectors.npy", vectors)
    if outputs is not None:
        np.save(out / "outputs.npy", outputs)
    (out / "words.json").write_text(json.dumps(list(words)))


def run(
    system: str, text: Path, settings: Mapping[str, Any], folder: Path, held_out: Path | None
) -> dict[str, float]:
    """One run in a fresh process: seconds, words, peak memory and scores."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        job = json.dumps([system, str(text), dict(settings), out])
        cache = {"NUMBA_CACHE_DIR": str(folder / "numba")}
        subprocess.run(
            [sys.executable, __file__, "--job", job], check=True, env={**os.environ, **cache}
        )
        figures: dict[str, float] = json.loads((Path(out) / "figures.json").read_text())
        if held_out and settings["objective"] == "negative-sampling":
            figures["held_out_loss"] = held_out_loss(Path(out), text, held_out, settings)
        return {**figures, **score(Path(out))}


def work(job: str) -> None:
    """What the fresh process does."""
    system, text, settings, out = json.loads(job)
    function = run_gensim if system in (PEER, ALONE) else run_lexloom
    figures = function(Path(text), settings, Path(out))
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (Path(out) / "figures.json").write_text(json.dumps(figures))


def score(out: Path) -> dict[str, float]:
    """Spearman's rho on both similarity sets, and the share of analogies answered, in percent."""
    from gensim.models import KeyedVectors
    from gensim.test.utils import datapath

    vectors = np.load(out / "vectors.npy")
    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(json.loads((out / "words.json").read_text()), vectors)
    analogies, _ = keyed.evaluate_word_analogies(datapath("questions-words.txt"), RESTRICT)
    return {
        "wordsim353": float(keyed.evaluate_word_pairs(datapath("wordsim353.tsv"))[1][0]),
        "simlex999": float(keyed.evaluate_word_pairs(datapath("simlex999.txt"))[1][0]),
        "google": 100 * analogies,
    }


def held_out_loss(out: Path, text: Path, held_out: Path, settings: Mapping[str, Any]) -> float:
    """The mean loss of skip-gram with negative sampling on pairs of words of other text, in nats.

    CBOW's vectors are judged by its own examples: the mean of the window predicts the word.
    """
    vectors, outputs = np.load(out / "vectors.npy"), np.load(out / "outputs.npy")
    ids = {word: i for i, word in enumerate(json.loads((out / "words.json").read_text()))}
    counts = np.zeros(len(ids))
    for line in text.open(encoding="utf-8"):
        for word in line.split():
            if word in ids:
                counts[ids[word]] += 1
    random = np.random.default_rng(0)
    noise = np.cumsum(counts**0.75)
    targets, contexts = [], []
    for line in held_out.open(encoding="utf-8"):
        words = [ids[word] for word in line.split() if word in ids]
        for i, word in enumerate(words):
            width = int(random.integers(1, settings["window"] + 1))
            around = words[max(0, i - width) : i] + words[i + 1 : i + 1 + width]
            if settings["architecture"] == "cbow" and around:
                targets.append(word)
                contexts.append(around)
            elif around:
                targets += [word] * len(around)
                contexts += [[other] for other in around]
        if len(targets) >= PAIRS:
            break
    total = 0.0
    for first in range(0, len(targets), 10_000):
        right = np.array(targets[first : first + 10_000])
        given = np.array([vectors[each].mean(axis=0) for each in contexts[first : first + 10_000]])
        drawn = np.searchsorted(
            noise, random.random((len(right), settings["negatives"])) * noise[-1]
        )
        total += np.logaddexp(0, -np.einsum("nd,nd->n", given, outputs[right])).sum()
        scores = np.einsum("nd,nkd->nk", given, outputs[drawn])
        # The original skips a noise word that is the target.
        total += (np.logaddexp(0, scores) * (drawn != right[:, None])).sum()
    return float(total / len(targets))


# --- all runs, and the report ---------------------------------------------------------------


def as_gensim_runs_it(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the learning rate at which gensim's workers really end."""
    first, last = settings["learning_rate"], settings["min_learning_rate"]
    done = (settings["epochs"] - 1 + 1 / settings["workers"]) / settings["epochs"]
    return {**settings, "min_learning_rate": first - (first - last) * done}


def as_gensim_reads_it(text: Path, workers: int, folder: Path) -> Path:
    """The text in the order in which gensim's workers read it: each its own stretch, by turns."""
    out = folder / f"read-by-{workers}.txt"
    if not out.exists():
        lines = text.read_text("utf-8").splitlines(keepends=True)
        words = np.cumsum([len(line.split()) for line in lines])
        worker = np.minimum(words * workers // (words[-1] + 1), workers - 1)
        first = np.searchsorted(worker, np.arange(workers))
        turn = (words - words[first][worker]) // BATCH
        order = np.lexsort((np.arange(len(lines)), worker, turn))
        out.write_text("".join(lines[i] for i in order), "utf-8")
    return out


def compare(
    text: Path, settings: dict[str, Any], seeds: int, workers: list[int]
) -> dict[str, list[dict[str, Any]]]:
    """Every system with every seed, interleaved; sets gensim's best number of workers."""
    runs: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if text.suffix == ".gz":
            plain = folder / "corpus.txt"
            with gzip.open(text) as packed, plain.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            text = plain
        lines = text.read_text("utf-8").splitlines(keepends=True)
        kept = int(len(lines) * (1 - HELD_OUT))
        text, held_out = folder / "train.txt", folder / "held-out.txt"
        text.write_text("".join(lines[:kept]), "utf-8")
        held_out.write_text("".join(lines[kept:]), "utf-8")
        del lines
        if len(workers) > 1:
            tried = {}
            for number in workers:
                figures = run(
                    "gensim", text, {**settings, "workers": number, "seed": 1}, folder, None
                )
                tried[number] = figures["training"]
                print("gensim,", number, "workers:", figures, flush=True)
            settings["workers"] = min(tried, key=lambda number: tried[number])
        for seed in range(1, 1 + seeds):
            for system in SYSTEMS:
                chosen = {**settings, "seed": seed}
                if system == ALONE:
                    chosen["workers"] = 1
                if system == AS_PEER:
                    chosen = as_gensim_runs_it(chosen)
                load, given = os.getloadavg()[0], text
                if system == AS_PEER:
                    given = as_gensim_reads_it(text, settings["workers"], folder)
                figures = run(system, given, chosen, folder, held_out)
                runs[system].append({"seed": seed, "load_before": load, **figures})
                print(system, runs[system][-1], flush=True)
    return runs


def report(name: str, settings: Mapping[str, Any], runs: dict[str, list[dict[str, Any]]]) -> str:
    """The result as Markdown."""

    def median(system: str, value: Callable[[Mapping[str, Any]], float]) -> float:
        return statistics.median([value(figures) for figures in runs[system]])

    def mean(system: str, key: str, digits: int) -> str:
        values = [float(figures[key]) for figures in runs[system] if key in figures]
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.{digits}f}{spread}" if values else "-"

    lines = [
        f"# word2vec against gensim, {datetime.date.today()}",
        "",
        f"{name}, {runs['gensim'][0]['words'] / settings['epochs']:,.0f} words; "
        + ", ".join(f"{key} {value}" for key, value in settings.items())
        + f"; {len(runs['gensim'])} seeds, interleaved.",
        f"{cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}; the load average "
        f"before a run was {min_max(runs, 'load_before')}.",
        "",
        "| | training, words/s | training, words per CPU second | end to end, words/s "
        "| WordSim-353 | SimLex-999 | Google, % | held-out loss | peak MB | compiling, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for system in SYSTEMS:
        rates = [
            median(system, lambda f: f["words"] / f["training"]),
            median(system, lambda f: f["words"] / f["cpu"]),
            median(system, lambda f: f["words"] / f["end_to_end"]),
        ]
        compiling = [f"{f['compile']:.1f}" for f in runs[system] if "compile" in f]
        lines.append(
            f"| {system} | {' | '.join(f'{rate:,.0f}' for rate in rates)} "
            f"| {mean(system, 'wordsim353', 3)} "
            f"| {mean(system, 'simlex999', 3)} | {mean(system, 'google', 2)} "
            f"| {mean(system, 'held_out_loss', 4)} "
            f"| {median(system, lambda f: f['peak_mb']):,.0f} | {', '.join(compiling) or '-'} |"
        )
    lines.append("")
    labels = {"training": "training", "cpu": "training, by CPU time", "end_to_end": "end to end"}
    for key, label in labels.items():
        ratios = [
            theirs[key] / ours[key] for theirs, ours in zip(runs[PEER], runs[AS_PEER], strict=True)
        ]
        spread = f"{min(ratios):.1f} to {max(ratios):.1f}"
        lines.append(f"- {label}: {statistics.median(ratios):.1f} times gensim's rate ({spread})")
    lines += [
        "",
        "Rates are medians, scores are means over the seeds, ± their standard deviation. Set the "
        "first row against the third, and the second, where there is one schedule and one order of "
        "the text, against the fourth. CPU seconds tell what a busy machine "
        "hides: both systems use all their threads. End to end is from the text file to "
        "the vectors in memory, compiling included; training is without it. The kernel is compiled "
        "in the first of our runs only and read from disk in the others.",
        "",
    ]
    return "\n".join(lines)


def min_max(runs: dict[str, list[dict[str, Any]]], key: str) -> str:
    """The range of a figure over all runs."""
    values = [figures[key] for each in runs.values() for figures in each]
    return f"{min(values):.1f} to {max(values):.1f}"


def cpu() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(": ")[2] for x in lines if x.startswith("model name")), "a CPU")


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="text file, a sentence a line, or .gz of one")
    parser.add_argument("--name", default="a text", help="what the report calls the corpus")
    parser.add_argument("--seeds", type=int, default=3)
    choices = {
        "architecture": ("skip-gram", "cbow"),
        "objective": ("negative-sampling", "hierarchical-softmax"),
    }
    for key, values in choices.items():
        parser.add_argument(f"--{key}", choices=values, default=values[0])
    for key, value in {"dim": 100, "epochs": 1, "threads": 2}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument(
        "--peer-workers", type=int, nargs="+", default=[2, 4], help="gensim's workers to try"
    )
    options = parser.parse_args()
    chosen = {key: getattr(options, key) for key in choices}
    settings = {
        **chosen,
        "dim": options.dim,
        "window": 5,
        "negatives": 5,
        "sample": 1e-3,
        "learning_rate": 0.025,
        "min_learning_rate": 1e-4,
        "min_count": 5,
        "epochs": options.epochs,
        "threads": options.threads,
        "workers": options.peer_workers[0],
    }
    runs = compare(options.corpus, settings, options.seeds, options.peer_workers)
    text = report(options.name, settings, runs)
    RESULTS.mkdir(exist_ok=True)
    other = [value for key, value in chosen.items() if value != choices[key][0]]
    sizes = [f"d{options.dim}", f"t{options.threads}"]
    name = "-".join([f"{datetime.date.today()}-word2vec-vs-gensim", *other, *sizes])
    stem = RESULTS / name
    stem.with_suffix(".md").write_text(text)
    stem.with_suffix(".json").write_text(json.dumps({"settings": settings, "runs": runs}, indent=1))
    print(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        work(sys.argv[2])
    else:
        main()
