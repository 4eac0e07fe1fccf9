"""n-grams of classes: from counts of words to counts of classes, and to a back-off table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.backoff import Table
from models.family import Inputs, Report
from models.kernels.ngram import add_equal, sort_rows
from models.ngram import Config
from models.text import NgramCounts
from models.vocabulary import LM_RESERVED, Vocabulary


def counts_of_classes(counts: NgramCounts, classes: NDArray[np.int32]) -> NgramCounts:
    """The counts of n-grams of classes.

    Args:
        counts: of n-grams of words.
        classes: (V,) of every word; those of the reserved entries are their ids.
    """
    ngrams = classes[np.asarray(counts.ngrams)]
    rows = sort_rows(ngrams, int(classes.max()) + 1)
    return NgramCounts(counts.order, *add_equal(ngrams, np.asarray(counts.counts), rows))


def estimate(counts: NgramCounts, n_classes: int) -> tuple[Table, Report]:
    """The modified Kneser-Ney model of n-grams of classes, the reserved three included."""
    names = tuple(map(str, range(len(LM_RESERVED), n_classes)))
    vocabulary = Vocabulary(LM_RESERVED, names, np.ones(len(names), np.int64))
    inputs = Inputs({"ngrams": counts, "vocabulary": vocabulary})
    model = Config(order=counts.order, min_count=1).build(inputs, seed=0)
    report = model.fit(inputs)
    return model.table, report
