from __future__ import annotations

import pytest

from tasks.counted import counted


@pytest.mark.parametrize(
    ("n", "items", "text"),
    [
        (0, "questions", "0 questions"),
        (1, "questions", "1 question"),
        (1, "entries", "1 entry"),
        (1, "passes", "1 pass"),
        (1, "sentence ends", "1 sentence end"),
        (1204, "entries", "1,204 entries"),
    ],
)
def test_one_is_no_plural(n: int, items: str, text: str) -> None:
    assert counted(n, items) == text
