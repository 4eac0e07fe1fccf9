"""Whether a model can be in memory at all: asked before anything is read, and before training."""

from __future__ import annotations

import psutil

from models.family import Family, KnowsItsSize
from tasks.errors import ConfigError

FEWEST = 4
"""Entries that every vocabulary has: three reserved ones and a word."""
GIBI = 2**30


def check_room(family: Family, where: str, words: int = FEWEST) -> None:
    """Refuse a model whose training takes more memory than this machine has.

    Args:
        family: its settings; one that does not know its size is let pass.
        where: the key of the family, for the error.
        words: entries of the vocabulary, as far as it is known.

    Raises:
        ConfigError: it does not fit.
    """
    if not isinstance(family, KnowsItsSize):
        return
    need, there = family.training_bytes(words), psutil.virtual_memory().total
    if need > there:
        known = f" with a vocabulary of {words:,}" if words > FEWEST else " with any vocabulary"
        raise ConfigError(
            f"training this {family.title}{known} takes {need / GIBI:,.0f} GiB of memory at least, "
            f"and this machine has {there / GIBI:,.1f}",
            where=where,
            remedy="make the model smaller",
        )
