"""fastText against the authors' program, from PyPI, on one text: skip-gram or CBOW.

    pip install --target PEER fasttext==0.9.3
    python benchmarks/fasttext_vs_fasttext.py CORPUS --peer PEER --rare-words rw.tsv

CORPUS is any text file, a sentence a line, words between spaces; .gz is unpacked first. PEER is a
folder that holds the package ``fasttext``, which pip compiles for this very processor
(``-O3 -march=native``). For each seed the systems run one after the other, each in a process of its
own, and the same code (gensim's) scores their vectors: WordSim-353, SimLex-999, the Google
analogies, and rare words (Luong et al. 2013) where a file of them is given, tab-separated: two
words and a number. "All words" takes in those that are not in the vocabulary, by their n-grams.

The authors' program reads the text twice in one call, so its training alone is the time of the call
less that of a call with no epoch, which only makes the vocabulary and the tables. A third system is
ours with noise words of its own for every pair, as in the original. With one thread version 0.9.3
leaves nine tenths of its table as the memory was found, so the scores compare from two threads on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from common import in_a_process, machine, timed, unpacked, write
from word2vec_vs_gensim import RESTRICT, read

PEER = "fasttext 0.9.3"
OURS, PAIRWISE = "lexloom", "lexloom, noise for each pair"
SCORES = {
    "wordsim353": "WordSim-353",
    "wordsim353_all": "all words",
    "simlex999": "SimLex-999",
    "simlex999_all": "all words",
    "rare_words": "rare words",
    "rare_words_all": "all words",
    "google": "Google, %",
}


# --- one run, in a process of its own ---------------------------------------------------------


def run_peer(job: Mapping[str, Any], asked: Sequence[str]) -> tuple[dict[str, float], Any]:
    """Train with the authors' program: figures, and words with their vectors."""
    sys.path.insert(0, job["peer"])
    import fasttext

    settings = job["settings"]
    fasttext.FastText.unsupervised_default["seed"] = job["seed"]  # the function takes none

    def train(epochs: int) -> Any:
        return fasttext.train_unsupervised(
            job["text"],
            model={"skip-gram": "skipgram", "cbow": "cbow"}[settings["architecture"]],
            loss={"negative-sampling": "ns", "hierarchical-softmax": "hs"}[settings["objective"]],
            lr=settings["learning_rate"],
            dim=settings["dim"],
            ws=settings["window"],
            epoch=epochs,
            minCount=settings["min_count"],
            minn=settings["min_n"],
            maxn=settings["max_n"],
            neg=settings["negatives"],
            bucket=settings["buckets"],
            thread=settings["threads"],
            t=settings["sample"],
            verbose=0,
        )

    _, before = timed(lambda: train(0))
    model, whole = timed(lambda: train(settings["epochs"]))
    words = [word for word in model.get_words() if word != "</s>"]

    def vectors(chosen: Sequence[str]) -> Any:
        return np.array([model.get_word_vector(word) for word in chosen])

    figures = {
        "training": whole["seconds"] - before["seconds"],
        "cpu": whole["cpu"] - before["cpu"],
        "end_to_end": whole["seconds"],
        "peak_mb": whole["peak_mb"],
    }
    return figures, with_vectors(words, asked, vectors)


def run_ours(job: Mapping[str, Any], asked: Sequence[str]) -> tuple[dict[str, float], Any]:
    """Train our model: figures, and words with their vectors."""
    from models import fasttext
    from models.family import Inputs
    from models.text import Sentences
    from models.vocabulary import select
    from tasks.training.sweep import sweep
    from tasks.training.tracker import Silent

    names = set(fasttext.Config.__dataclass_fields__) & set(job["settings"])
    settings = {name: job["settings"][name] for name in names}
    if job["system"] == PAIRWISE:
        settings["shared_noise"] = 1
    config = fasttext.Config(**settings)
    resources = SimpleNamespace(threads=job["settings"]["threads"])
    context: Any = SimpleNamespace(resources=resources, progress=lambda *_: None)

    def train(
        config: fasttext.Config, text: Path, min_count: int
    ) -> tuple[Any, Mapping[str, Any], dict[str, float]]:
        tokens = read(text)
        part = tokens.partitions[0]
        vocabulary = select(
            part.types, part.counts, min_count=min_count, max_size=None, reserved=()
        )
        inputs = Inputs({"train": tokens, "vocabulary": vocabulary})
        model: Any = config.build(inputs, seed=job["seed"])
        nothing = Sentences(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))
        model.sweep(nothing, seed=0, done=0, until=0, threads=1)  # makes the kernel's tables
        spent = {"training": 0.0, "cpu": 0.0}
        sweep_once = model.sweep

        def sweep_timed(*args: Any, **how: Any) -> Any:
            stats, figures = timed(lambda: sweep_once(*args, **how))
            spent["training"] += figures["seconds"]
            spent["cpu"] += figures["cpu"]
            return stats

        model.sweep = sweep_timed
        return model, sweep(model, inputs, job["seed"], context, Silent()), spent

    tiny = Path(job["folder"]) / "tiny.txt"
    tiny.write_text("\n".join(f"a{i} b{i} c{i}" for i in range(1000)))
    small = dataclasses.replace(config, buckets=1000)
    compiling = timed(lambda: train(small, tiny, 1))[1]
    text = Path(job["text"])
    (model, report, spent), whole = timed(lambda: train(config, text, config.min_count))
    figures = {
        **spent,
        "end_to_end": whole["seconds"],
        "peak_mb": whole["peak_mb"],
        "compile": compiling["seconds"],
        "loss": report["train_loss"],
    }
    return figures, with_vectors(model.vocabulary.words, asked, model.word_vectors)


def with_vectors(
    words: Sequence[str], asked: Sequence[str], vectors: Callable[[Sequence[str]], Any]
) -> tuple[list[str], Any, list[str], Any]:
    """The words of a vocabulary and those asked for that are not in it, with their vectors."""
    known = set(words)
    others = sorted(set(asked) - known)
    return list(words), vectors(words), others, vectors(others)


def work(job: Mapping[str, Any]) -> None:
    """What the fresh process does: train, score, print."""
    sets = job["sets"]
    pairs = [
        line.lower().split("\t")[:2]
        for path in sets.values()
        for line in Path(path).read_text("utf-8").splitlines()
        if not line.startswith("#")
    ]
    asked = [word for pair in pairs for word in pair if word]
    function = run_peer if job["system"] == PEER else run_ours
    figures, (words, *vectors) = function(job, asked)
    scores = score(sets, words, *vectors)
    print(json.dumps({**figures, "vocabulary": len(words), **scores}))


def score(
    sets: Mapping[str, str], words: list[str], vectors: Any, others: list[str], other_vectors: Any
) -> dict[str, float]:
    """Spearman's rho on the sets of pairs, and the share of analogies answered, in percent."""
    from gensim.models import KeyedVectors
    from gensim.test.utils import datapath

    keyed = KeyedVectors(vectors.shape[1])
    keyed.add_vectors(words, vectors)
    found = {}
    for suffix in ("", "_all"):
        if suffix and others:
            keyed.add_vectors(others, other_vectors)
        for name, path in sets.items():
            result = keyed.evaluate_word_pairs(path, restrict_vocab=len(words) + len(others))
            found[f"{name}{suffix}"] = float(result[1][0])
            found[f"{name}{suffix}_missing"] = float(result[2])
    analogies, _ = keyed.evaluate_word_analogies(datapath("questions-words.txt"), RESTRICT)
    return found | {"google": 100 * analogies}


# --- all runs, and the report ---------------------------------------------------------------


def report(options: argparse.Namespace, settings: Mapping[str, Any], runs: Any, words: int) -> str:
    """The result as Markdown."""

    def median(system: str, key: str) -> float:
        return statistics.median([figures[key] for figures in runs[system]])

    scores = [key for key in SCORES if key in runs[OURS][0]]
    loads = [figures["load_before"] for each in runs.values() for figures in each]
    total = words * settings["epochs"]
    lines = [
        f"# fastText against {PEER}",
        "",
        f"{options.name}, {words:,} words; "
        + ", ".join(f"{key} {value}" for key, value in settings.items())
        + f"; {options.seeds} seeds, interleaved.",
        f"{machine()}; the load average before a run was {min(loads):.1f} to {max(loads):.1f}.",
        "",
        "| | training, words/s | training, words per CPU second | end to end, words/s | "
        + " | ".join(SCORES[key] for key in scores)
        + " | peak MB |",
        "|---|---|---|---|" + "---|" * len(scores) + "---|",
    ]
    for system in runs:
        rates = [f"{total / median(system, key):,.0f}" for key in ("training", "cpu", "end_to_end")]
        values = [statistics.mean(figures[key] for figures in runs[system]) for key in scores]
        shown = [f"{value:.2f}" if value > 1 else f"{value:.3f}" for value in values]
        cells = [system, *rates, *shown, f"{median(system, 'peak_mb'):,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    labels = {"training": "training", "cpu": "training, by CPU time", "end_to_end": "end to end"}
    for system in (system for system in runs if system != PEER):
        for key, label in labels.items():
            ratios = [a[key] / b[key] for a, b in zip(runs[PEER], runs[system], strict=True)]
            lines.append(
                f"- {system}, {label}: {statistics.median(ratios):.1f} times the peer's rate "
                f"({min(ratios):.1f} to {max(ratios):.1f})"
            )
    compiling = ", ".join(f"{figures['compile']:.1f}" for figures in runs[OURS])
    lines += [
        "",
        "Rates are medians, scores are means over the seeds. Training is without reading the text, "
        f"counting and making tables. Compiling our kernel, before it, took {compiling} s; what is "
        "compiled is kept on disk.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="text file, a sentence a line, or .gz of one")
    parser.add_argument("--peer", required=True, help="folder with the package fasttext")
    parser.add_argument("--name", default="a text", help="what the report calls the corpus")
    parser.add_argument("--rare-words", help="a set of pairs with rare words")
    parser.add_argument("--architecture", choices=("skip-gram", "cbow"), default="skip-gram")
    objectives = ("negative-sampling", "hierarchical-softmax")
    parser.add_argument("--objective", choices=objectives, default=objectives[0])
    counts = {"seeds": 3, "dim": 100, "epochs": 1, "threads": 2, "buckets": 2_000_000, "words": 0}
    for key, value in counts.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--without-pairwise", action="store_true", help="no third system")
    options = parser.parse_args()
    from gensim.test.utils import datapath

    sets = {"wordsim353": datapath("wordsim353.tsv"), "simlex999": datapath("simlex999.txt")}
    if options.rare_words:
        sets["rare_words"] = options.rare_words
    taken = ("architecture", "objective", "dim", "epochs", "threads", "buckets")
    settings = {key: getattr(options, key) for key in taken}
    settings |= {"window": 5, "negatives": 5, "sample": 1e-4, "learning_rate": 0.05}
    settings |= {"min_n": 3, "max_n": 6, "min_count": 5}
    pairwise = options.architecture == "skip-gram" and options.objective == objectives[0]
    pairwise = pairwise and not options.without_pairwise
    systems = [PEER, OURS, *([PAIRWISE] if pairwise else [])]
    runs: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = first_words(unpacked(options.corpus, folder), options.words, folder)
        words = sum(len(line.split()) for line in text.open(encoding="utf-8"))
        for seed in range(1, 1 + options.seeds):
            for system in systems:
                job = {"system": system, "seed": seed, "text": str(text), "settings": settings}
                job |= {"sets": sets, "folder": name, "peer": options.peer}
                runs[system].append({"seed": seed, **in_a_process(__file__, job, folder)})
                print(system, runs[system][-1], flush=True)
    chosen = (options.architecture, options.objective)
    kind = [value for value in chosen if value not in ("skip-gram", objectives[0])]
    sizes = [f"d{options.dim}", f"t{options.threads}", f"e{options.epochs}"]
    values = {"settings": settings, "words": words, "runs": runs}
    text_of_report = report(options, settings, runs, words)
    write("-".join(["fasttext-vs-fasttext", *kind, *sizes]), text_of_report, values)


def first_words(text: Path, words: int, folder: Path) -> Path:
    """The first lines of a text that hold so many words; all of it if 0."""
    if not words:
        return text
    part, left = folder / "part.txt", words
    with text.open(encoding="utf-8") as lines, part.open("w", encoding="utf-8") as out:
        for line in lines:
            if left <= 0:
                break
            out.write(line)
            left -= len(line.split())
    return part


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        work(json.loads(sys.argv[2]))
    else:
        main()
