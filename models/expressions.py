"""Signed sums of words as people write them: ``king - boy + girl``, ``paris - 0.5 * france``.

A sign, or a ``*`` behind a weight, counts as one only between spaces, so ``co-operate`` and ``C++``
can be words; a text that is a word as a whole, such as ``-``, is that word.
"""

from __future__ import annotations

from collections.abc import Callable

SIGNS = {"+": 1.0, "-": -1.0}
LARGEST_WEIGHT = 1e6


def signed_words(text: str, known: Callable[[str], bool]) -> list[tuple[float, str]]:
    """The words of an expression with their weights.

    Args:
        text: words with ``+`` or ``-`` between them and perhaps before the first, each perhaps
            behind ``WEIGHT *``.
        known: whether something is a listed word; a text that is one is not taken apart.

    Raises:
        ValueError: the text is no such expression.
    """
    if known(text):
        return [(1.0, text)]
    tokens = text.split()
    if not tokens:
        raise ValueError(f"there is no word in {text!r}")
    signed = tokens if tokens[:1] and tokens[0] in SIGNS else ["+", *tokens]
    starts = [i for i, token in enumerate(signed) if token in SIGNS]
    terms = [signed[a:b] for a, b in zip(starts, [*starts[1:], len(signed)], strict=True)]
    return [_signed_word(term, text) for term in terms]


def _signed_word(term: list[str], text: str) -> tuple[float, str]:
    match term:
        case [sign, word] if word != "*":
            return SIGNS[sign], word
        case [sign, weight, "*", word] if _is_weight(weight):
            return SIGNS[sign] * float(weight), word
    raise ValueError(
        f"{text!r} is no sum of words: {' '.join(term)!r} should be a sign and a word, "
        "perhaps with `WEIGHT *` between them, a number below a million"
    )


def _is_weight(text: str) -> bool:
    try:
        return abs(float(text)) < LARGEST_WEIGHT  # false of nan too
    except ValueError:
        return False
