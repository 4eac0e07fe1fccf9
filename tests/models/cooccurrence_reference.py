"""Co-occurrence counting written down plainly, with fractions, as the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction


def pairs(
    segments: Sequence[Sequence[str]], window: int, weights: str, side: str
) -> Counter[tuple[str, str]]:
    """The whole table: how much the second word stands around the first."""
    found: Counter[tuple[str, str]] = Counter()
    for words in segments:
        for i, word in enumerate(words):
            for j, other in enumerate(words):
                distance = i - j if side == "left" else j - i if side == "right" else abs(i - j)
                if 1 <= distance <= window:
                    weight = Fraction(1, distance) if weights == "harmonic" else Fraction(1)
                    found[word, other] += weight  # type: ignore[assignment]
    return found
