"""How many of something there are, in words for people."""

from __future__ import annotations


def counted(n: int, items: str) -> str:
    """A number with what it counts: "1 question", "1,204 entries".

    Args:
        n: how many.
        items: what they are, in the plural.
    """
    return f"{n:,} {singular(items) if n == 1 else items}"


def singular(items: str) -> str:
    """One of what a plural names, by the rules that the words of our messages need."""
    for ending, one in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if items.endswith(ending):
            return items.removesuffix(ending) + one
    return items
