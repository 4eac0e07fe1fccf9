"""Small charts as SVG text that goes into an HTML page and takes its colours from it.

Colours are CSS variables of the page (``--s0`` ... ``--s4``, ``--grid``), so a chart follows its
light and its dark scheme.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]
MOST_POINTS = 400
"""A line is thinned out to so many points."""


@dataclass(frozen=True)
class Axis:
    """An axis from data to pixels.

    Attributes:
        low: the smallest value.
        high: the largest.
        start: the pixel of ``low``.
        end: the pixel of ``high``.
        log: logarithmic; values are above 0.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values along the axis: decades, or four to eight steps of 1, 2 or 5."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            found = [10.0**power for power in range(first, last + 1)]
        else:
            rough = (self.high - self.low) / 4 or 1.0
            power = 10.0 ** math.floor(math.log10(rough))
            step = max(s for s in (power, 2 * power, 5 * power) if s <= rough)
            first, last = math.ceil(self.low / step), math.floor(self.high / step)
            found = [step * i for i in range(first, last + 1)]
        slack = 1e-6 * (self.high - self.low)
        return [tick for tick in found if self.low - slack <= tick <= self.high + slack]


def lines(
    series: Mapping[str, Points],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    dashed: Sequence[str] = (),
    width: int = 520,
    height: int = 250,
) -> str:
    """A line chart.

    Args:
        series: points by name.
        x: what the horizontal axis is.
        y: what the vertical axis is.
        log_x: decades on the horizontal axis; points at or below 0 are left out.
        log_y: the same on the vertical axis.
        dashed: names of series that are drawn as a reference.
        width: in pixels.
        height: in pixels.
    """
    shown = {
        name: [p for p in points if (p[0] > 0 or not log_x) and (p[1] > 0 or not log_y)]
        for name, points in series.items()
    }
    every = [point for points in shown.values() for point in points if math.isfinite(point[1])]
    if not every:
        return ""
    xs, ys = [p[0] for p in every], [p[1] for p in every]
    across = Axis(min(xs), max(xs), 56, width - 12, log_x)
    up = Axis(min(ys), max(ys), height - 40, 14, log_y)
    marks = [
        f'<line class="grid" x1="56" x2="{width - 12}" y1="{up(t):.1f}" y2="{up(t):.1f}"/>'
        f'<text x="50" y="{up(t) + 4:.1f}" text-anchor="end">{number(t)}</text>'
        for t in up.ticks()
    ]
    marks += [
        f'<text x="{across(t):.1f}" y="{height - 23}" text-anchor="middle">{number(t)}</text>'
        for t in across.ticks()
    ]
    middle = (width + 44) / 2
    marks.append(f'<text x="{middle}" y="{height - 5}" text-anchor="middle">{escape(x)}</text>')
    for i, (name, points) in enumerate(shown.items()):
        step = max(1, len(points) // MOST_POINTS)
        kept = [*points[::step], *points[-1:]]
        path = " ".join(f"{across(px):.1f},{up(py):.1f}" for px, py in kept if math.isfinite(py))
        style = ' stroke-dasharray="4 4"' if name in dashed else ""
        marks.append(f'<polyline points="{path}" stroke="var(--s{i % 5})"{style}/>')
    legend = "".join(
        f'<span><i style="background:var(--s{i % 5})"></i>{escape(name)}</span>'
        for i, name in enumerate(shown)
    )
    caption = f'<figcaption>{escape(y)}<span class="legend">{legend}</span></figcaption>'
    return f"<figure>{caption}{_svg(width, height, marks, y)}</figure>"


@dataclass(frozen=True)
class Bar:
    """A bar with the figure that it is to be held against.

    Attributes:
        label: what it is.
        value: how long it is; None where it is undefined.
        shown: its value for people.
        baseline: a mark; None for none.
        title: what a pointer over it tells.
    """

    label: str
    value: float | None
    shown: str
    baseline: float | None = None
    title: str = ""


def bars(
    rows: Sequence[Bar],
    *,
    caption: str = "",
    width: int = 520,
    label_width: int = 190,
    tail: int = 70,
) -> str:
    """Horizontal bars from zero, each with a tick at its baseline.

    Args:
        rows: the bars.
        caption: above them.
        width: in pixels.
        label_width: of it, for the labels on the left.
        tail: of it, for the values on the right.
    """
    values = [v for row in rows for v in (row.value, row.baseline) if v is not None]
    across = Axis(min([0.0, *values]), max([0.0, *values]) or 1.0, label_width, width - tail)
    marks = [_bar(row, across, 6 + 26 * i) for i, row in enumerate(rows)]
    head = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{head}{_svg(width, 26 * len(rows) + 8, marks, caption)}</figure>"


def _bar(row: Bar, across: Axis, top: int) -> str:
    zero, end, room = across(0), across(row.value or 0), int(across.start) // 7
    label = row.label if len(row.label) <= room else f"{row.label[: room - 1]}…"
    left, length = min(zero, end), abs(end - zero)
    beside, tick = max(zero, end) + 8, ""
    if row.baseline is not None:
        at = across(row.baseline)
        y1, y2 = top - 3, top + 21
        tick = f'<line class="base" x1="{at:.1f}" x2="{at:.1f}" y1="{y1}" y2="{y2}"/>'
        # The tick must not cross the figure beside the bar.
        if beside - 8 <= at <= beside + 7 * len(row.shown) + 4:
            beside = at + 8
    return (
        f"<g><title>{escape(row.title or row.label)}</title>"
        f'<text x="{across.start - 8}" y="{top + 13}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="18" rx="3"/>'
        f'{tick}<text class="value" x="{beside:.1f}" y="{top + 13}">{escape(row.shown)}</text></g>'
    )


def number(value: float) -> str:
    """A tick for people: 1,200, 0.05, 1e-05, 2M."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _svg(width: int, height: int, marks: Sequence[str], name: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(name)}">'
        f"{''.join(marks)}</svg>"
    )
