"""Signed sums of words."""

from __future__ import annotations

import pytest

from models.expressions import signed_words

KNOWN = {"king", "co-operate", "C++", "-", "New York", "+1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("king", [(1, "king")]),
        ("king - boy + girl", [(1, "king"), (-1, "boy"), (1, "girl")]),
        ("  - boy   +  girl ", [(-1, "boy"), (1, "girl")]),
        ("co-operate - C++", [(1, "co-operate"), (-1, "C++")]),
        ("paris - 0.5 * france", [(1, "paris"), (-0.5, "france")]),
        ("2 * +1 + -x", [(2, "+1"), (1, "-x")]),
        ("-", [(1, "-")]),
        ("New York", [(1, "New York")]),
        ("0.5", [(1, "0.5")]),
    ],
)
def test_what_it_says(text: str, expected: list[tuple[float, str]]) -> None:
    assert signed_words(text, KNOWN.__contains__) == expected


@pytest.mark.parametrize(
    "text",
    ["king boy", "king -", "+ - king", "king + two * boy", "nan * king", "2 *", "king - * boy"],
)
def test_what_says_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="is no sum of words"):
        signed_words(text, KNOWN.__contains__)


@pytest.mark.parametrize("text", ["", "  "])
def test_no_words(text: str) -> None:
    with pytest.raises(ValueError, match="there is no word in"):
        signed_words(text, KNOWN.__contains__)
