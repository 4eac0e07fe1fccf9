"""Word similarity: the rank correlation of cosines with what people said.

Pairs with an unknown word are left out, and the coverage tells how many; beside that figure stands
the one with these pairs at cosine 0, since leaving out rare words can flatter a model. Models that
cover different pairs are not comparable on the first figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import vectors
from models.family import EmbedsWords, Model
from tasks.artifacts import digest
from tasks.evaluation.lexicon import CASE_POLICY, Case, Lexicon
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score, too_few
from tasks.evaluation.sets import PairSet, WordPair

RANDOM_TABLES = 20
"""Tables of random vectors whose mean score is the baseline."""

Cosines = NDArray[np.float64]


def measure(name: str, model: Model, pairs: PairSet, case: Case = "fold") -> Score:
    """Spearman's correlation (average ranks for ties) of cosines with gold scores.

    Args:
        name: of the score, "similarity.wordsim353".
        model: one that ``EmbedsWords``.
        pairs: the set; self pairs and repeated pairs count as they stand in it.
        case: see ``Lexicon``.
    """
    if not isinstance(model, EmbedsWords):
        raise TypeError(f"{type(model).__name__} has no word vectors")
    lexicon = Lexicon.of(model.vocabulary, case)
    cosines, dim = _cosines(model, lexicon, pairs.pairs)
    gold = np.array([pair.gold for pair in pairs.pairs])
    known = np.isfinite(cosines)
    value, undefined = spearman(gold[known], cosines[known])
    if value is not None and known.sum() < LEAST_SCORED:
        value, undefined = None, too_few(int(known.sum()), "pairs")
    filled = np.where(known, cosines, 0.0)
    scored, total = int(known.sum()), len(gold)
    known_pairs = [pair for pair, keep in zip(pairs.pairs, known, strict=True) if keep]
    details: dict[str, Any] = {
        "pearson": pearson(gold[known], cosines[known]),
        "spearman_with_unknown_as_0": spearman(gold, filled)[0],
        "pearson_with_unknown_as_0": pearson(gold, filled),
        "covered": digest(known_pairs),
        "unknown_pairs": total - scored,
        "unknown_share": 1 - scored / total,
        "unknown_policy": "pairs with an unknown word are skipped",
        "case_policy": CASE_POLICY[case],
        "self_pairs": pairs.self_pairs,
        "repeated_pairs": pairs.repeated,
        "unread_lines": pairs.unread,
        "dim": dim,
    }
    score = Score(
        name,
        value,
        unit="spearman",
        scored=scored,
        total=total,
        items="pairs",
        policy=f"pairs with an unknown word skipped, {CASE_POLICY[case]}",
        undefined=undefined,
        details=details,
    )
    return score.beside(_random(lexicon, known_pairs, dim))


def _cosines(
    model: EmbedsWords, lexicon: Lexicon, pairs: Sequence[WordPair]
) -> tuple[Cosines, int]:
    """(P,) cosines, NaN where a word has no vector, and the width of the vectors."""
    first = model.word_vectors([lexicon.form(pair.first) for pair in pairs])
    second = model.word_vectors([lexicon.form(pair.second) for pair in pairs])
    return vectors.similarity(first, second), first.shape[1]


def _random(lexicon: Lexicon, pairs: Sequence[WordPair], dim: int) -> Baseline:
    """What tables of random vectors of the same width score on the same pairs."""
    words = sorted({lexicon.form(w) for pair in pairs for w in (pair.first, pair.second)})
    row = {word: i for i, word in enumerate(words)}
    first = [row[lexicon.form(pair.first)] for pair in pairs]
    second = [row[lexicon.form(pair.second)] for pair in pairs]
    gold = np.array([pair.gold for pair in pairs])
    values = []
    for seed in range(RANDOM_TABLES):
        table = np.random.default_rng(seed).standard_normal((len(words), dim))
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
        return f"{len(gold)} pairs covered, a correlation takes two"
    if np.ptp(gold) == 0:
        return "all gold scores are equal"
    if np.ptp(values) == 0:
        return "all cosines are equal"
    return ""
