"""The loop of ``Fits``: one call."""

from __future__ import annotations

from models.family import Fits, Inputs, Report


def fit(model: Fits, inputs: Inputs) -> Report:
    """Estimate a model from counts."""
    return model.fit(inputs)
