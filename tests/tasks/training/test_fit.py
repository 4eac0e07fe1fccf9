from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from models.family import Inputs, Report
from models.text import NgramCounts
from tasks.training.fit import fit


class Slow:
    """Takes a while to fit."""

    def fit(self, inputs: Inputs) -> Report:
        time.sleep(0.05)
        return {"order_1.ngrams": 2}


def test_a_fit_tells_the_rate_of_the_text_that_was_counted() -> None:
    ngrams = np.array([[1, 3], [3, 2]], np.int32)
    counts = NgramCounts(2, ngrams, np.array([600, 400], np.int64))
    model: Any = Slow()
    report = fit(model, Inputs({"ngrams": counts}))
    assert report["tokens"] == 1000
    assert float(report["tokens_per_second"]) == pytest.approx(1000 / 0.05, rel=0.5)
    assert report["order_1.ngrams"] == 2
