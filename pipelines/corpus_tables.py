"""Answers about corpora and the store, as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipelines.console import span
from tasks.artifacts import Manifest
from tasks.garbage import Garbage
from tasks.lineage import Holding, Key
from tasks.registry import Version

SHOWN = 20
"""Documents, or pieces of garbage, that are listed one by one."""
START = 60
"""Characters of a document that are shown."""


def whereabouts(
    catalogue: Mapping[Key, Manifest],
    holdings: Sequence[Holding],
    made: Sequence[Manifest],
    versions: Sequence[Version],
) -> Group:
    """Where documents are: in which artifacts, and in what was made from those."""
    rows = list(dict.fromkeys(row for holding in holdings for row in holding.rows))
    documents = _table("document", "origin", "begins with")
    for name, origin, text in rows[:SHOWN]:
        documents.add_row(name[:12], origin, Text(text[:START].replace("\n", " ")))
    # A collection and its partitions are one thing to people.
    held = [(key[0], catalogue[key].content) for key in (holding.key for holding in holdings)]
    held += [(manifest.step, manifest.content) for manifest in made]
    artifacts = _table("held by", "content")
    for step, content in dict.fromkeys(held):
        artifacts.add_row(step, content[:12])
    more = [Text(f"and {len(rows) - SHOWN:,} more documents")] if len(rows) > SHOWN else []
    names = ", ".join(version.reference for version in versions)
    models = Text(f"registered models that saw it: {names or 'none'}")
    return Group(documents, *more, "", artifacts, "", models)


def garbage_table(found: Sequence[Garbage], *, deleted: bool) -> Group:
    """What can go from a store, or is gone."""
    table = _table("path", "why", "size", "untouched for")
    for one in sorted(found, key=lambda one: -one.size)[:SHOWN]:
        table.add_row(_short(one.path), one.reason, size(one.size), span(one.age))
    more = [Text(f"and {len(found) - SHOWN:,} more")] if len(found) > SHOWN else []
    reasons = Counter(one.reason for one in found)
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    total = size(sum(one.size for one in found))
    if not found:
        return Group("nothing to remove")
    end = f"{total} freed" if deleted else f"{total} can be freed: run it again with --delete"
    return Group(table, *more, "", Text(f"{why}; {end}"))


def _short(path: str) -> str:
    """A path in the store with its hashes cut to what tells them apart."""
    return "/".join(part[:12] if len(part) == 64 else part for part in path.split("/"))


def size(number: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 9.95 else f"{number:.1f} {unit}"


def _table(*headings: str) -> Table:
    table = Table(box=None)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table
