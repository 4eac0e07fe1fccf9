"""The curve of a range test, as a page or as a picture."""

from __future__ import annotations

from html import escape
from pathlib import Path

from tasks import charts
from tasks.errors import ConfigError
from tasks.export.aside import written_aside
from tasks.training.finder import RangeTest

FORMATS = (".html", ".png")


def check_target(path: Path) -> None:
    """Refuse a file that no curve can be written to, before anything is computed.

    Raises:
        ConfigError: its name ends in neither .html nor .png.
    """
    if path.suffix.lower() not in FORMATS:
        ending = path.suffix or "without an ending"
        raise ConfigError(
            f"a curve is written as {' or '.join(FORMATS)}, not {ending}",
            where=f"--out {path}",
            remedy="name a file rates.html or rates.png",
        )


def write_curve(found: RangeTest, title: str, path: Path) -> None:
    """Write the losses over the rates; the file is there whole or not at all.

    Raises:
        ConfigError: see ``check_target``.
    """
    check_target(path)
    with written_aside(path) as aside:
        if path.suffix.lower() == ".html":
            aside.write_text(_page(found, title), "utf-8")
        else:
            _draw(found, title, aside)


def _series(found: RangeTest) -> dict[str, charts.Points]:
    """Both curves, and the suggestion, if there is one, as a line from below to above."""
    curves: dict[str, charts.Points] = {
        "smoothed": list(zip(found.rates, found.smoothed, strict=True)),
        "of each step": list(zip(found.rates, found.losses, strict=True)),
    }
    if not found.fell:
        return curves
    rate, ends = found.suggested, (min(found.smoothed), max(found.smoothed))
    return curves | {f"suggested, {rate:g}": [(rate, end) for end in ends]}


def _page(found: RangeTest, title: str) -> str:
    style = Path(charts.__file__).with_name("report.css").read_text("utf-8")
    series = _series(found)
    suggested = [name for name in series if name.startswith("suggested")]
    label = f"{found.loss.replace('_', ' ')}, nats per token"
    chart = charts.lines(
        series, x="learning rate", y=label, log_x=True, dashed=suggested, width=900, height=420
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f'<body><h1>{escape(title)}</h1><div class="charts">{chart}</div></body></html>\n'
    )


def _draw(found: RangeTest, title: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), dpi=120, facecolor="white", layout="constrained")
    axes = figure.add_subplot(xscale="log", xlabel="learning rate")
    axes.set_title(title, parse_math=False)
    axes.set_ylabel(f"{found.loss.replace('_', ' ')}, nats per token")
    for name, points in _series(found).items():
        faint = name == "of each step"
        axes.plot(
            *zip(*points, strict=True),
            label=name,
            linestyle="dashed" if name.startswith("suggested") else "solid",
            linewidth=0.8 if faint else 1.8,
            alpha=0.5 if faint else 1.0,
        )
    axes.grid(color="#dfe3e8", linewidth=0.6)
    axes.legend(frameon=False)
    FigureCanvasAgg(figure).print_figure(path, format="png")
