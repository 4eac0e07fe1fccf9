"""Pieces of HTML that the sections of a report are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from tasks.evaluation.score import Score
from tasks.leaderboard import Row, standing


def table(head: Sequence[str], body: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table of cells that are HTML already; the columns of ``right`` hold numbers."""
    places = set(right)

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=right' if i in places else ''}>{cell}</{tag}>"
            for i, cell in enumerate(cells)
        )

    top = f"<thead><tr>{line([escape(cell) for cell in head], 'th')}</tr></thead>" if head else ""
    rows = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in body)
    return f'<div class="scroll"><table>{top}<tbody>{rows}</tbody></table></div>'


def listed(known: Mapping[str, str]) -> str:
    """A list of names with what they are; those that are nothing are left out."""
    items = [f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in known.items() if v]
    return f"<dl>{''.join(items)}</dl>" if items else ""


def soft(text: str) -> str:
    """Small grey text."""
    return f'<span class="soft small">{escape(text)}</span>'


def shown_value(score: Score, row: Row, rows: Sequence[Row], marks: Mapping[str, str]) -> str:
    """The value of a score, the best one stressed, with the mark of why it is not ranked."""
    place = standing(score, row, rows)
    style = ' class="first"' if place.best else ""
    return f"<span{style}>{score.shown}{marks.get(place.reason, '')}</span>"


def registered_as(row: Row) -> str:
    """The registered name, version and aliases of a model."""
    if row.registered is None:
        return ""
    aliases = "".join(
        f' <span class="tag">@{escape(alias)}</span>' for alias in row.registered.aliases
    )
    return (
        f'<span class="tag">{escape(row.registered.name)} v{row.registered.version}</span>{aliases}'
    )


def plain(value: object) -> str:
    """A value for people: 12,345 or 0.12346."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value.is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.5g}"
