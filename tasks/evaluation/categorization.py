"""Categorization: do words of a class come together when their vectors are clustered?

As in Baroni, Dinu and Kruszewski (2014), "Don't count, predict!": the words of a set are clustered
into as many clusters as it has classes, and the purity is the share of words that belong to the
most frequent class of their cluster. The clusters are those of k-means on unit vectors from
k-means++ (Arthur and Vassilvitskii 2007); of several starts the one with the tightest clusters
counts, which knows nothing of the classes.

Words without a vector are left out. So are words that the set puts into several classes: to one
place in a clustering there is no one right answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models import vectors
from tasks.artifacts import digest
from tasks.counted import counted
from tasks.errors import InputError
from tasks.evaluation import bootstrap
from tasks.evaluation.lexicon import CASE_POLICY, Words
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score, too_few
from tasks.evaluation.sets import CUTS, fields_of, lines_of, without_pos

STARTS = 10
"""Starts of k-means."""
ROUNDS = 100
"""Rounds of k-means at most; it stands still much earlier."""
SHUFFLES = 20
"""Random assignments whose mean purity is the baseline."""
SEED = 1
HEADINGS = frozenset({"word", "words", "concept", "noun", "verb", "item", "term"})

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Classes:
    """A categorization set.

    Attributes:
        of: the class of each word, in the order of the file.
        ambiguous: words that were left out for they stand in several classes.
        repeated: lines that say what another has said.
        unread: lines without a word and a class.
    """

    of: Mapping[str, str]
    ambiguous: int = 0
    repeated: int = 0
    unread: int = 0


def read_classes(path: Path, name: str = "") -> Classes:
    """The words and classes in a file: ``WORD<tab>CLASS``, further columns ignored.

    Lines may be cut by commas, semicolons or blanks as well; see ``sets.read_pairs`` for what else
    is told from the lines. The file of BLESS, a line a relation, is read as it is.

    Raises:
        InputError: no line can be read, or the file is not UTF-8.
    """
    lines = lines_of(path)
    readings = [[fields_of(line, cut) for line in lines] for cut in CUTS]
    best = max(readings, key=lambda rows: sum(_is_read(row) for row in rows))
    rows = [(row[0], row[1]) for row in best if _is_read(row)]
    if rows and rows[0][0].lower() in HEADINGS:
        best, rows = best[1:], rows[1:]
    if not rows:
        example = f", such as {lines[0].strip()[:80]!r}" if lines else ""
        raise InputError(
            f"0 of {counted(len(lines), 'lines')} parsed as a word and its class{example}",
            where=name or str(path),
            remedy="write a word a line, as WORD<tab>CLASS",
        )
    bare = without_pos(word for word, _ in rows)
    classes: dict[str, dict[str, None]] = {}
    for word, its_class in rows:
        classes.setdefault(bare(word), {})[its_class] = None
    pairs = sum(map(len, classes.values()))
    single = {word: next(iter(found)) for word, found in classes.items() if len(found) == 1}
    return Classes(single, len(classes) - len(single), len(rows) - pairs, len(best) - len(rows))


def _is_read(row: Sequence[str]) -> bool:
    return len(row) > 1 and bool(row[0] and row[1])


def measure(name: str, words: Words, classes: Classes) -> Score:
    """The purity of a clustering into as many clusters as there are classes.

    Args:
        name: of the score, "categorization.ap".
        words: of the model.
        classes: the set.
    """
    every = [*classes.of]
    table = words.vectors(every)
    known = np.asarray(np.isfinite(table).all(axis=1))
    names = [classes.of[word] for word, keep in zip(every, known, strict=True) if keep]
    titles, truth = np.unique(np.array(names, dtype=object), return_inverse=True)
    scored, k = int(known.sum()), len(titles)
    undefined = _undefined(scored, k)
    found = _starts(vectors.unit(table[known]), k) if not undefined else []
    values = [purity(labels, truth) for labels, _ in found]
    best = min(range(len(found)), key=lambda i: (found[i][1], i), default=-1)
    labels = found[best][0] if found else truth
    covered = [item for item, keep in zip(classes.of.items(), known, strict=True) if keep]
    return Score(
        name,
        None if undefined else values[best],
        unit="purity",
        scored=scored,
        total=len(every),
        items="words",
        policy=(
            f"k-means into {k} clusters, the tightest of {STARTS} starts, "
            f"words without a vector skipped, {CASE_POLICY[words.case]}"
        ),
        undefined=undefined,
        baselines=(_shuffled(labels, truth) if not undefined else Baseline("random", None),),
        details={
            "covered": digest(covered),
            "case_policy": CASE_POLICY[words.case],
            "unknown_policy": "words without a vector are skipped",
            "unknown_words": len(every) - scored,
            "classes": k,
            "starts": STARTS,
            "mean_of_starts": float(np.mean(values)) if values else None,
            "deviation_of_starts": float(np.std(values, ddof=1)) if values else None,
            "ambiguous_words": classes.ambiguous,
            "repeated_lines": classes.repeated,
            "unread_lines": classes.unread,
            "interval_method": f"{bootstrap.METHOD} of words, clusters as they are",
        },
        interval=_interval(labels, truth) if not undefined else None,
    )


def _undefined(scored: int, classes: int) -> str:
    if not scored:
        return "no word has a vector"
    if scored < LEAST_SCORED:
        return too_few(scored, "words")
    return "all words covered are of one class" if classes == 1 else ""


def contingency(labels: Labels, truth: Labels) -> NDArray[np.int64]:
    """(clusters, classes) how many words of each class are in each cluster."""
    width = int(truth.max()) + 1
    counts = np.bincount(labels * width + truth, minlength=width * (int(labels.max()) + 1))
    return counts.reshape(-1, width)


def purity(labels: Labels, truth: Labels) -> float:
    """The share of items that are of the most frequent class of their cluster."""
    return float(contingency(labels, truth).max(axis=1).sum() / len(truth))


def _interval(labels: Labels, truth: Labels) -> bootstrap.Interval | None:
    right = contingency(labels, truth).argmax(axis=1)[labels] == truth
    return bootstrap.interval(bootstrap.ratios(right, np.ones(len(truth))))


def _shuffled(labels: Labels, truth: Labels) -> Baseline:
    """What clusters of these sizes score whose words are drawn by chance."""
    rng = np.random.default_rng(SEED)
    values = [purity(rng.permutation(labels), truth) for _ in range(SHUFFLES)]
    return Baseline(
        "random",
        float(np.mean(values)),
        f"mean of {SHUFFLES} shuffles over clusters of these sizes",
    )


# --- k-means --------------------------------------------------------------------------------


def _starts(units: vectors.Matrix, k: int) -> list[tuple[Labels, float]]:
    rows = units.astype(np.float64)
    return [k_means(rows, k, np.random.default_rng((SEED, start))) for start in range(STARTS)]


def k_means(rows: NDArray[np.float64], k: int, rng: np.random.Generator) -> tuple[Labels, float]:
    """Lloyd's k-means from a k-means++ start.

    Args:
        rows: (N, D).
        k: clusters, at most N.
        rng: of the start.

    Returns:
        (N,) labels and the summed squared distance from the centres.
    """
    centres = _plus_plus(rows, k, rng)
    labels = np.full(len(rows), -1)
    for _ in range(ROUNDS):
        distances = _squared_distances(rows, centres)
        found = distances.argmin(axis=1)
        if np.array_equal(found, labels):
            break
        labels, nearest = found, distances.min(axis=1)
        for cluster in range(k):
            members = labels == cluster
            # A cluster that lost all its items begins anew at the one farthest from its centre.
            centres[cluster] = (
                rows[members].mean(axis=0) if members.any() else rows[nearest.argmax()]
            )
    return labels, float(_squared_distances(rows, centres)[np.arange(len(rows)), labels].sum())


def _plus_plus(rows: NDArray[np.float64], k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Rows as centres, each drawn by its squared distance from those before."""
    chosen = [int(rng.integers(len(rows)))]
    nearest = _squared_distances(rows, rows[chosen])[:, 0]
    while len(chosen) < k:
        total = nearest.sum()
        weights = nearest / total if total > 0 else np.full(len(rows), 1 / len(rows))
        chosen.append(int(rng.choice(len(rows), p=weights)))
        nearest = np.minimum(nearest, _squared_distances(rows, rows[chosen[-1:]])[:, 0])
    return rows[chosen]


def _squared_distances(
    rows: NDArray[np.float64], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    squares = np.einsum("nd,nd->n", rows, rows)[:, None] + np.einsum("kd,kd->k", centres, centres)
    distances: NDArray[np.float64] = np.maximum(squares - 2 * rows @ centres.T, 0.0)
    return distances
