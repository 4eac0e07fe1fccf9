"""Models that are made of other models: the arrays of each part lie under its number."""

from __future__ import annotations

from collections.abc import Iterable

from models.family import Model, State


def state_of_part(state: State, k: int) -> State:
    """The arrays of part ``k``, by its own names."""
    prefix = f"{k}."
    return {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}


def state_of_parts(parts: Iterable[Model]) -> State:
    """The arrays of all parts, each under the number of its part."""
    return {f"{k}.{name}": a for k, part in enumerate(parts) for name, a in part.state().items()}
