"""What models say about tokens and sentences in their context, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tasks.contextual import OCCURRENCES, Place, Senses, Written
from tasks.counted import counted

AROUND = 12
"""Tokens that are shown on either side of an occurrence."""


def written_line(out: Path | None, made: Written) -> Text:
    """Where the vectors are, and how many."""
    layers = f" of layer {', '.join(made.layers)}" if made.layers else ""
    widths = ", ".join(str(width) for width in dict.fromkeys(made.widths))
    return Text(
        f"{out}: {counted(made.rows, 'vectors')} of {widths} numbers{layers}, "
        f"{counted(made.sentences, 'sentences')}, {counted(made.tokens, 'tokens')}"
    )


def places_table(places: Sequence[Place]) -> Table:
    """A row a place: cosine, number of the sentence, the sentence."""
    table = Table(box=None)
    for heading in ("cosine", "sentence", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    for place in places:
        table.add_row(f"{place.cosine:.3f}", f"{place.sentence:,}", _shown(place))
    return table


def senses_table(answer: Senses) -> RenderableType:
    """Each occurrence, and below it those where the word is used most alike."""
    held = f", of which the first {OCCURRENCES:,}" if answer.found > OCCURRENCES else ""
    times = counted(answer.found, "times")
    head = f"{answer.word!r} stands {times} in this text{held}; layer {answer.layer}"
    parts: list[RenderableType] = [Text(head, "bold")]
    for place, near in answer.near:
        line = Text(f"\nsentence {place.sentence:,}: ", "bold").append_text(_shown(place))
        parts += [line, places_table(near)]
    return Group(*parts)


def _shown(place: Place) -> Text:
    """A sentence; around a token, and this one marked."""
    tokens, at = place.tokens, place.position
    if at < 0:
        return Text(" ".join(tokens), overflow="fold")
    first, last = max(0, at - AROUND), at + 1 + AROUND
    before, after = " ".join(tokens[first:at]), " ".join(tokens[at + 1 : last])
    return Text.assemble(
        "... " * (first > 0), before, " " * bool(before), (tokens[at], "bold green"),
        " " * bool(after), after, " ..." * (last < len(tokens)), overflow="fold",
    )  # fmt: skip
