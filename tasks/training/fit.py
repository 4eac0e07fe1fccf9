"""The loop of ``Fits``: one call."""

from __future__ import annotations

import time

from models.family import Fits, Inputs, Report
from models.text import NgramCounts


def fit(model: Fits, inputs: Inputs) -> Report:
    """Estimate a model from counts.

    Returns:
        what the model reports, and ``tokens`` (sentence ends included) that were counted with
        ``tokens_per_second`` of the estimation, which reads counts and no text.
    """
    began = time.perf_counter()
    report = model.fit(inputs)
    seconds = time.perf_counter() - began
    counts = [v for v in inputs.values.values() if isinstance(v, NgramCounts)]
    # Every token ends exactly one n-gram of the highest order.
    tokens = max((int(c.counts.sum()) for c in counts), default=0)
    rate = {"tokens": tokens, "tokens_per_second": round(tokens / max(seconds, 1e-9))}
    return {**(rate if tokens else {}), **report}
