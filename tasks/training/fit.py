"""The loop of ``Fits``: one call."""

from __future__ import annotations

import time

from models.family import Fits, Inputs, Report
from models.text import NgramCounts
from tasks.errors import TrainingError


def fit(model: Fits, inputs: Inputs) -> Report:
    """Estimate a model from counts.

    Returns:
        what the model reports, and ``tokens`` (sentence ends included) that were counted with
        ``tokens_per_second`` of the estimation, which reads counts and no text.

    Raises:
        TrainingError: the counts cannot make such a model.
    """
    began = time.perf_counter()
    try:
        report = model.fit(inputs)
    except ValueError as error:
        raise TrainingError(
            str(error),
            where="the counts of the training text",
            remedy="change these settings, or train on more text",
        ) from error
    seconds = time.perf_counter() - began
    counts = [v for v in inputs.values.values() if isinstance(v, NgramCounts)]
    # Every token ends exactly one n-gram of the highest order.
    tokens = max((int(c.counts.sum()) for c in counts), default=0)
    rate = {"tokens": tokens, "tokens_per_second": round(tokens / max(seconds, 1e-9))}
    return {**(rate if tokens else {}), **report}
