"""Word similarity: the rank correlation of cosines with what people said.

Pairs with a word that has no vector are left out, and the coverage tells how many. Leaving out rare
words can flatter a model, so beside the figure stands what other policies would give: these pairs
at cosine 0, these words at the mean of all vectors, and, for a model that composes vectors of words
it has not seen, the pairs of its vocabulary alone. Models that cover different pairs are not
comparable on the first figure.

The details hold the same by frequency: a pair belongs to the band of its rarer word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import vectors
from models.family import FloatArray
from tasks.artifacts import digest
from tasks.counted import counted
from tasks.evaluation import bootstrap
from tasks.evaluation.lexicon import CASE_POLICY, Words
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score, too_few
from tasks.evaluation.sets import PairSet, WordPair

RANDOM_TABLES = 20
"""Tables of random vectors whose mean score is the baseline."""
BANDS = (1, 10, 100, 1_000, 10_000)
"""Where bands of frequency begin; below the first are words outside the vocabulary."""

EQUAL = 1e-6
"""Cosines of vectors in one direction differ by so little, for rounding."""

Cosines = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judged:
    """Pairs of a set with what people and a model say of them.

    Attributes:
        gold: (P,) the scores of people.
        cosines: (P,) of the model, NaN where a word has no vector.
        seen: (P,) whether both words are in the vocabulary.
        counts: (P,) how often the rarer word stands in the training text; 0 for one that is not.
        averaged: (P,) cosines with the mean of all vectors in place of a missing one.
        dim: width of the vectors.
    """

    gold: Cosines
    cosines: Cosines
    seen: NDArray[np.bool_]
    counts: NDArray[np.int64]
    averaged: Cosines
    dim: int

    @staticmethod
    def of(words: Words, pairs: Sequence[WordPair]) -> Judged:
        """What a model says of pairs."""
        sides = [[pair.first for pair in pairs], [pair.second for pair in pairs]]
        tables = [words.vectors(side) for side in sides]
        cosines = vectors.similarity(*tables)
        averaged = cosines
        if not np.isfinite(cosines).all():
            averaged = vectors.similarity(*(_filled(table, words.mean) for table in tables))
        seen = np.logical_and(*(words.seen(side) for side in sides))
        counts = np.minimum(*(words.counts(side) for side in sides))
        gold = np.array([pair.gold for pair in pairs], dtype=np.float64)
        return Judged(gold, cosines, seen, counts, averaged, tables[0].shape[1])

    @property
    def known(self) -> NDArray[np.bool_]:
        """(P,) whether both words have a vector."""
        return np.isfinite(self.cosines)


def _filled(table: FloatArray, mean: FloatArray) -> FloatArray:
    return np.where(np.isfinite(table).all(axis=1, keepdims=True), table, mean)


def measure(name: str, words: Words, pairs: PairSet) -> Score:
    """Spearman's correlation (average ranks for ties) of cosines with gold scores.

    Args:
        name: of the score, "similarity.wordsim353".
        words: of the model.
        pairs: the set; self pairs and repeated pairs count as they stand in it.
    """
    judged = Judged.of(words, pairs.pairs)
    gold, cosines, known = judged.gold, judged.cosines, judged.known
    scored, total = int(known.sum()), len(gold)
    value, undefined = judge(gold[known], cosines[known])
    covered = [pair for pair, keep in zip(pairs.pairs, known, strict=True) if keep]
    others = _other_policies(judged)
    composed = int((known & ~judged.seen).sum())
    details: dict[str, Any] = {
        "pearson": pearson(gold[known], cosines[known]),
        "other_policies": others,
        "pearson_with_unknown_as_0": pearson(gold, np.where(known, cosines, 0.0)),
        "covered": digest(covered),
        "unknown_pairs": total - scored,
        "unknown_share": 1 - scored / total,
        "composed_pairs": composed,
        "unknown_policy": "pairs with an unknown word are skipped",
        "case_policy": CASE_POLICY[words.case],
        "self_pairs": pairs.self_pairs,
        "repeated_pairs": pairs.repeated,
        "unread_lines": pairs.unread,
        "dim": judged.dim,
        "interval_method": bootstrap.METHOD,
        "bands": [*_bands(judged)] if words.model.vocabulary.counts.any() else [],
    }
    made_up = f"{counted(composed, 'pairs')} with a word composed of parts, " if composed else ""
    score = Score(
        name,
        value,
        unit="spearman",
        scored=scored,
        total=total,
        items="pairs",
        policy=f"pairs with an unknown word skipped, {made_up}{CASE_POLICY[words.case]}",
        undefined=undefined,
        details=details,
        interval=interval(gold[known], cosines[known]) if value is not None else None,
    )
    return score.beside(_random(words, covered, judged.dim))


def judge(gold: Cosines, cosines: Cosines) -> tuple[float | None, str]:
    """Spearman's correlation as a score, or None and why it is none."""
    value, undefined = spearman(gold, cosines)
    if value is not None and len(gold) < LEAST_SCORED:
        return None, too_few(len(gold), "pairs")
    return value, undefined


def interval(gold: Cosines, cosines: Cosines) -> bootstrap.Interval | None:
    """The confidence interval of Spearman's correlation, pairs resampled."""
    return bootstrap.interval(bootstrap.spearmans(gold, cosines[:, None])[:, 0])


def _other_policies(judged: Judged) -> dict[str, float | None]:
    """What other ways to treat words without a vector, or outside the vocabulary, would give."""
    gold, known = judged.gold, judged.known
    found: dict[str, float | None] = {}
    if not known.all():
        found["unknown pairs as 0"] = spearman(gold, np.where(known, judged.cosines, 0.0))[0]
        found["unknown words as the mean vector"] = spearman(gold, judged.averaged)[0]
    if (known & ~judged.seen).any():
        plain = known & judged.seen
        found["composed words skipped"] = spearman(gold[plain], judged.cosines[plain])[0]
    return found


def _bands(judged: Judged) -> Iterator[dict[str, Any]]:
    """The score by the frequency of the rarer word of a pair; bands without pairs are left out."""
    edges = np.searchsorted(BANDS, judged.counts, side="right")
    for band in range(len(BANDS) + 1):
        here = edges == band
        known = here & judged.known
        if not here.any():
            continue
        value, undefined = judge(judged.gold[known], judged.cosines[known])
        ends = interval(judged.gold[known], judged.cosines[known]) if value is not None else None
        yield {
            "band": _band_name(band),
            "scored": int(known.sum()),
            "total": int(here.sum()),
            "value": value,
            "undefined": undefined,
            "interval": ends and list(ends),
        }


def _band_name(band: int) -> str:
    if band == 0:
        return "not in the vocabulary"
    low = BANDS[band - 1]
    return f"{low:,} and more" if band == len(BANDS) else f"{low:,} to {BANDS[band] - 1:,}"


def _random(words: Words, pairs: Sequence[WordPair], dim: int) -> Baseline:
    """What tables of random vectors of the same width score on the same pairs."""
    form = words.lexicon.form
    forms = sorted({form(w) for pair in pairs for w in (pair.first, pair.second)})
    row = {word: i for i, word in enumerate(forms)}
    first = [row[form(pair.first)] for pair in pairs]
    second = [row[form(pair.second)] for pair in pairs]
    gold = np.array([pair.gold for pair in pairs])
    values = []
    for seed in range(RANDOM_TABLES):
        table = np.random.default_rng(seed).standard_normal((len(forms), dim))
        value, _ = spearman(gold, vectors.similarity(table[first], table[second]))
        if value is None:
            return Baseline("random", None)
        values.append(value)
    spread = np.std(values, ddof=1)
    note = f"mean of {RANDOM_TABLES} tables of random vectors, standard deviation {spread:.3f}"
    return Baseline("random", float(np.mean(values)), note)


def spearman(gold: Cosines, values: Cosines) -> tuple[float | None, str]:
    """Spearman's correlation, or None and why it is undefined."""
    from scipy import stats

    if why := _undefined(gold, values):
        return None, why
    return float(stats.spearmanr(gold, values).statistic), ""


def pearson(gold: Cosines, values: Cosines) -> float | None:
    """Pearson's correlation, or None where it is undefined."""
    from scipy import stats

    if _undefined(gold, values):
        return None
    return float(stats.pearsonr(gold, values).statistic)


def _undefined(gold: Cosines, values: Cosines) -> str:
    if len(gold) < 2:
        return f"{counted(len(gold), 'pairs')} covered, a correlation takes two"
    if np.ptp(gold) == 0:
        return "all gold scores are equal"
    if np.ptp(values) < EQUAL:
        return "all cosines are equal"
    return ""
