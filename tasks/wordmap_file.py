"""Writing a map of words: what a file's name says is what it becomes."""

from __future__ import annotations

from pathlib import Path

from tasks.errors import ConfigError
from tasks.export.aside import written_aside
from tasks.wordmap import WordMap
from tasks.wordmap_page import map_page
from tasks.wordmap_picture import draw_map

FORMATS = (".html", ".png")


def check_target(path: Path) -> None:
    """Refuse a file that no map can be written to, before anything is computed.

    Raises:
        ConfigError: its name ends in neither .html nor .png.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"a map is written as {' or '.join(FORMATS)}, not {path.suffix or 'without an ending'}",
            where=f"--out {path}",
            remedy="name a file map.html or map.png",
        )


def write_map(found: WordMap, path: Path) -> list[str]:
    """Write a map; the file is there whole or not at all.

    Returns:
        what a person should know about the file.

    Raises:
        ConfigError: see ``check_target``.
    """
    check_target(path)
    with written_aside(path) as aside:
        if path.suffix.lower() == ".html":
            aside.write_bytes(map_page(found).encode("utf-8", "replace"))
            return []
        missing = draw_map(found, aside)
    if not missing:
        return []
    shown = "".join(missing[:20])
    return [f"no installed font has {len(missing)} of the letters ({shown}); HTML shows them"]
