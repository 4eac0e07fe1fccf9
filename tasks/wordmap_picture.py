"""A map of words as a PNG, drawn by matplotlib.

Letters come from whatever fonts are installed; of several the first that has a letter draws it.
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

from tasks.counted import counted
from tasks.wordmap import HEIGHT, SIZE, WIDTH, WordMap, label

INCHES = 12.0
DPI = 160
INK, SOFT, POINT, CHOSEN = "#1b1f24", "#5d6672", "#2f6fb3", "#d9822b"


def draw_map(found: WordMap, path: Path) -> list[str]:
    """Write a map as a PNG.

    Returns:
        letters that no installed font has; they are drawn as boxes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    letters = {c for word in found.words for c in label(word) if not c.isspace()}
    families, missing = _families(letters)
    unit = INCHES * 72 / WIDTH  # points in a unit of the sheet
    figure = Figure(figsize=(INCHES, INCHES * HEIGHT / WIDTH), dpi=DPI, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.set_axis_off()
    # Words may hold dollars, which are no formula.
    write = partial(axes.text, fontsize=SIZE * unit, family=families, parse_math=False)
    colours = [CHOSEN if chosen else POINT for chosen in found.chosen]
    across, down = found.points.T
    axes.scatter(across, down, s=(5 * unit) ** 2, c=colours, alpha=0.8, linewidths=0)
    for word, (x, y), chosen, shown in zip(
        found.words, found.points, found.chosen, found.labelled, strict=True
    ):
        if shown:
            weight = "bold" if chosen else "normal"
            write(x + 6, y, label(word), color=INK, va="center_baseline", weight=weight)
    write(12, 20, found.title, color=SOFT)
    write(12, HEIGHT - 12, f"{counted(len(found.words), 'words')}; {found.caption}", color=SOFT)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # told by what is returned
        canvas.print_figure(path, format="png", dpi=DPI, facecolor="white")
    return missing


def _families(letters: set[str]) -> tuple[list[str], list[str]]:
    """Names of fonts that have the letters together, and the letters that no font has."""
    from matplotlib.font_manager import fontManager, get_font

    chosen, left = [], set(letters)
    fonts = sorted(fontManager.ttflist, key=lambda font: (font.name != "DejaVu Sans", font.fname))
    for font in fonts:
        if not left:
            break
        # A font of last resort has a box for every letter.
        if font.style != "normal" or font.name in chosen or font.name.startswith("Last Resort"):
            continue
        try:
            has = {c for c in left if get_font(font.fname).get_char_index(ord(c))}
        except (OSError, RuntimeError):
            continue  # a font that is gone or broken
        if has:
            chosen.append(font.name)
            left -= has
    return chosen or ["DejaVu Sans"], sorted(left)
