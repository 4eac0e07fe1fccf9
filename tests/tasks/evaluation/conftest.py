"""Sets of a handful of items, whose scores are worked out by hand, count as if they were large."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def small_sets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the limit itself sets it back."""
    for module in ("similarity", "analogy", "categorization", "outliers", "compare"):
        monkeypatch.setattr(f"tasks.evaluation.{module}.LEAST_SCORED", 1)
