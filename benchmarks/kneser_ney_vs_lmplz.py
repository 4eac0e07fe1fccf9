"""Text to a modified Kneser-Ney ARPA file, against KenLM's lmplz; every number is compared.

    python benchmarks/kneser_ney_vs_lmplz.py TEXT --peer-bin DIR/lmplz --name "5 M words of novels"

TEXT has a sentence a line and words between single spaces; .gz is unpacked first. lmplz is built
outside (its source is in kenlm's sdist on PyPI: cmake, boost, eigen). Runs are processes of their
own, interleaved, from the command to its end: ours with the start of Python and the reading of
compiled kernels from the disk, which a run on a few lines (``cold``) wrote.
With ``--irstlm DIR/tlm`` (Debian's irstlm has it in /usr/lib/irstlm/bin) IRSTLM's improved
Kneser-Ney runs beside them: the same method with discounts of its own, so no number is compared.
With ``--nltk LINES`` NLTK's ``KneserNeyInterpolated`` is fitted to so many lines. It estimates when
it is asked, so it is asked for some of the n-grams that an ARPA file would list, drawn at random,
and their time is that of all in proportion.

"lexloom" here is counting, estimation and export in one process, without a store; ``lexloom run``
does the same and more (splits, cards, deduplication, evaluation, registering).
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from models.text import Sentences

FIGURES = ("seconds", "cpu", "peak_mb")
NLTK_ASKED = 300
"""N-grams that NLTK is asked for."""


BLOCK = 1 << 21
"""Bytes that are read at a time."""


def estimate(text: Path, out: Path, order: int) -> None:
    """Ours: the seconds of each part go to standard error."""
    from models.backoff import framed
    from models.family import Inputs
    from models.ngram import Config
    from models.trie import Trie
    from models.vocabulary import LM_RESERVED, select
    from tasks.export.arpa import write_arpa

    began = time.perf_counter()

    def lap(what: str) -> None:
        nonlocal began
        print(f"{what} {time.perf_counter() - began:.2f} s", file=sys.stderr)
        began = time.perf_counter()

    types, counts, said = read(text)
    vocabulary = select(types, counts, min_count=1, max_size=None, reserved=LM_RESERVED)
    said = replace(said, ids=vocabulary.ids(types)[said.ids])
    lap("tokens")
    trie = Trie.of_text(framed(said), order, len(vocabulary))
    del said
    lap("counts")
    inputs = Inputs({"vocabulary": vocabulary})
    model = Config(order=order, min_count=1).build(inputs, seed=1)
    model.estimate(trie, inputs)
    del trie
    lap("estimates")
    write_arpa(model, out)
    lap("file")


def read(text: Path) -> tuple[list[str], NDArray[np.int64], Sentences]:
    """The words of a text with a sentence a line, their counts, and the text in their numbers."""
    from models.kernels.words import PADDING, Words
    from models.text import Sentences

    words, ids, ends, n, rest = Words(), [], [np.zeros(1, np.int64)], 0, b""
    with text.open("rb") as file:
        while block := file.read(BLOCK):
            cut = block.rfind(b"\n") + 1
            here, rest = rest + block[:cut], block[cut:]
            letters = np.frombuffer(here + bytes(PADDING), np.uint8)
            begins, numbers = words.number(letters, len(here))
            ids.append(numbers.astype(np.int32))
            lines = np.flatnonzero(letters[: len(here)] == ord("\n"))
            ends.append(n + np.searchsorted(begins, lines))
            n += len(numbers)
    if rest:
        raise SystemExit("the last line does not end")
    cuts, letters = words.ends[: len(words) + 1].tolist(), words.letters.tobytes()
    types = [letters[a:b].decode() for a, b in itertools.pairwise(cuts)]
    starts = np.concatenate(ends)
    return types, words.counts, Sentences(np.concatenate(ids), starts, starts[:0])


def run(command: list[str], stdin: Path | None, stdout: Path | None, **env: str) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of a process."""
    load, began = os.getloadavg()[0], time.perf_counter()
    with (
        (stdin or Path(os.devnull)).open("rb") as given,
        (stdout or Path(os.devnull)).open("wb") as taken,
    ):
        child = subprocess.Popen(
            command, stdin=given, stdout=taken, stderr=subprocess.PIPE, env={**os.environ, **env}
        )
        said = child.stderr.read().decode() if child.stderr else ""
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} failed: {said[-2000:]}")
    seconds, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    peak = usage.ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "peak_mb": peak, "load_before": load, "said": said}


def sections(path: Path) -> Iterator[dict[bytes, tuple[float, float]]]:
    """The numbers of an ARPA file by n-gram, order by order."""
    with path.open("rb") as file:
        for heading in file:
            if not heading.endswith(b"-grams:\n"):
                continue
            rows = (line.rstrip(b"\n").split(b"\t") for line in itertools.takewhile(
                lambda line: line != b"\n", file))  # fmt: skip
            yield {row[1]: (float(row[0]), float(row[2]) if len(row) > 2 else 0.0) for row in rows}


def compare(ours: Path, theirs: Path) -> dict[str, Any]:
    """How far two files differ."""
    sizes, missing, probability, weight = [], 0, 0.0, 0.0
    for mine, other in zip(sections(ours), sections(theirs), strict=True):
        sizes.append(len(mine))
        missing += len(mine.keys() ^ other.keys())
        for ngram in mine.keys() & other.keys():
            if ngram != b"<s>":  # lmplz writes 0, ours the customary -99; nobody predicts it
                probability = max(probability, abs(mine[ngram][0] - other[ngram][0]))
            weight = max(weight, abs(mine[ngram][1] - other[ngram][1]))
    return {"sizes": sizes, "not_in_both": missing, "probability": probability, "weight": weight}


def nltk_seconds(text: Path, lines: int, order: int) -> dict[str, float]:
    """CPU seconds of NLTK for some lines: of counting, and of the estimates of all n-grams."""
    from nltk.lm import KneserNeyInterpolated
    from nltk.lm.preprocessing import padded_everygram_pipeline

    with text.open(encoding="utf-8") as file:
        said = [line.split() for line in itertools.islice(file, lines)]
    began = time.process_time()
    ngrams, words = padded_everygram_pipeline(order, said)
    model = KneserNeyInterpolated(order)
    model.fit(ngrams, words)
    counted = time.process_time()
    listed = sorted({
        tuple(padded[i : i + n])
        for padded in (["<s>", *line, "</s>"] for line in said)
        for n in range(1, order + 1)
        for i in range(len(padded) - n + 1)
    })  # fmt: skip
    asked = [listed[i] for i in np.random.default_rng(1).integers(len(listed), size=NLTK_ASKED)]
    before = time.process_time()
    for *context, word in asked:
        model.score(word, context)
    each = (time.process_time() - before) / len(asked)
    return {
        "counting": counted - began,
        "estimating": each * len(listed),
        "words": sum(map(len, said)),
    }


def _of_nltk(nltk: dict[str, float], own: float) -> list[str]:
    """What is reported of NLTK, against our words a CPU second."""
    counting = nltk["words"] / nltk["counting"]
    whole = nltk["words"] / (nltk["counting"] + nltk["estimating"])
    return [
        f"NLTK, {nltk['words']:,} words: counting {counting:,.0f} words a CPU second, ours with "
        f"everything {own / counting:,.0f} times that; with the estimates {whole:,.1f}, "
        f"{own / whole:,.0f} times."
    ]


def _loads(found: list[dict[str, Any]]) -> str:
    return ", ".join(f"{r['load_before']:.1f}" for r in found)


def main() -> None:
    """Run all, compare, report."""
    from common import machine, unpacked, write  # not before: it would count as our own start

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--peer-bin", type=Path)
    parser.add_argument("--name", default="a text")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", default="50%", help="of lmplz, -S")
    parser.add_argument("--irstlm", type=Path, metavar="TLM")
    parser.add_argument("--nltk", type=int, default=0, metavar="LINES")
    args = parser.parse_args()
    if args.out:
        estimate(args.text, args.out, args.order)
        return
    if not args.peer_bin:
        parser.error("--peer-bin names lmplz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = unpacked(args.text, folder)
        few = folder / "few.txt"
        few.write_bytes(b"".join(itertools.islice(text.open("rb"), 2000)))
        ours, theirs = folder / "ours.arpa", folder / "theirs.arpa"
        caches = str(folder / "numba")
        mine = [sys.executable, __file__, "--order", str(args.order)]
        cold = run([*mine, str(few), str(ours)], None, None, NUMBA_CACHE_DIR=caches)
        peer = [str(args.peer_bin), "-o", str(args.order), "--skip_symbols", "-S", args.memory]
        runs: dict[str, list[dict[str, Any]]] = {"lexloom": [], "lmplz": []}
        irst: list[str] = []
        if args.irstlm:
            runs["irstlm"] = []
            irst = [
                str(args.irstlm),
                f"-tr={text}",
                f"-n={args.order}",
                "-lm=ikn",
                "-bo=no",
                "-ps=no",
            ]
            irst.append(f"-oARPA={folder / 'irst.arpa'}")
        for _ in range(args.repeat):
            runs["lmplz"].append(run([*peer, "-T", name], text, theirs))
            found = run([*mine, str(text), str(ours)], None, None, NUMBA_CACHE_DIR=caches)
            runs["lexloom"].append(found)
            if irst:
                runs["irstlm"].append(run(irst, None, None))
        difference = compare(ours, theirs)
        nltk = nltk_seconds(text, args.nltk, args.order) if args.nltk else None
        n_words = sum(len(line.split()) for line in text.open("rb"))
    rows = []
    for system, found in runs.items():
        medians = [statistics.median(r[key] for r in found) for key in FIGURES]
        rows.append(f"| {system} | {medians[0]:.1f} | {medians[1]:.1f} | {medians[2]:,.0f} |")
    ratios = [
        statistics.median(
            b[key] / a[key] for a, b in zip(runs["lexloom"], runs["lmplz"], strict=True)
        )
        for key in FIGURES
    ]
    own = statistics.median(r["cpu"] for r in runs["lexloom"])
    report = "\n".join(
        [
            f"# Order {args.order} Kneser-Ney ARPA of {args.name} ({n_words:,} words)", "",
            machine(), "", "| | s | CPU s | peak MB |", "|---|---|---|---|", *rows,
            f"| lmplz / lexloom | {ratios[0]:.2f} | {ratios[1]:.2f} | {ratios[2]:.2f} |", "",
            f"n-grams by order {difference['sizes']}, in one file only: "
            f"{difference['not_in_both']}; largest difference of log10 probabilities "
            f"{difference['probability']:.1e}, of back-off weights {difference['weight']:.1e}.",
            f"Parts of the last run: {', '.join(runs['lexloom'][-1]['said'].split(chr(10)))}",
            f"A first run, which compiles the kernels, takes {cold['seconds']:.1f} s "
            "for 2,000 lines.",
            f"Load before the runs: {_loads(runs['lexloom'])}"
            f" (lexloom), {_loads(runs['lmplz'])} (lmplz).",
            *(_of_nltk(nltk, n_words / own) if nltk else []),
        ]
    )  # fmt: skip
    if not math.isfinite(difference["probability"]):
        raise SystemExit("a probability is not finite")
    values = {"runs": runs, "difference": difference, "cold": cold, "nltk": nltk}
    write("kneser-ney-vs-lmplz", report + "\n", values)


if __name__ == "__main__":
    main()
