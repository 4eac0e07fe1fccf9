"""How a training loop tells what it is doing, without knowing who listens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Tracker(Protocol):
    """Takes live metrics."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Metrics at a step: ``loss`` (nats), ``tokens_per_second``, ``learning_rate``.

        A resumed training by steps tells its history again, in order, with the same losses: a
        tracker that outlives an interruption keeps what it has and takes what it missed. One by
        sweeps goes on where it was.
        """
        ...


class Silent:
    """Nobody listens."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Nothing."""
