"""Answers about corpora and the store, as tables for a terminal."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipelines.console import span
from tasks.artifacts import Manifest
from tasks.corpus import Corpus
from tasks.errors import InputError
from tasks.export.aside import written_aside
from tasks.garbage import Garbage
from tasks.lineage import Holding, Key
from tasks.registry import Version

SHOWN = 20
"""Documents, or pieces of garbage, that are listed one by one."""
START = 60
"""Characters of a document that are shown."""
LONGEST = 1_000
"""Characters of a cell: one word without end would push the others out of the table."""


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
    return Group(models, "", documents, *more, "", artifacts)


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
        return Group("nothing to remove (what was touched of late stays: --older 0 looks at all)")
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


# --- counts ---------------------------------------------------------------------------------


def stages_table(made: Corpus) -> Table:
    """What became of every record, stage by stage."""
    table = _table("stage", "what", "")
    for stage, stats in made.stats.items():
        for name, value in stats.items():
            shown = f"{value:,}" if isinstance(value, int | float) else str(value)
            table.add_row(stage, name.replace(".", ": "), Text(shown, justify="right"))
    return table


def figures_table(figures: Mapping[str, Any]) -> Group:
    """What a corpus amounts to."""
    table = Table(box=None, show_header=False)
    for _ in range(2):
        table.add_column(overflow="fold")
    for name, value in figures.items():
        if name != "growth":
            shown = f"{value:,}" if isinstance(value, int | float) else str(value)
            table.add_row(name, Text(shown, justify="right"))
    growth = _table("tokens read", "types seen")
    points = figures["growth"]
    for n, types in points[:: max(1, len(points) // 10)]:
        growth.add_row(Text(f"{n:,}", justify="right"), Text(f"{types:,}", justify="right"))
    return Group(table, "", growth)


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Table | str:
    """Rows with the same fields."""
    if not rows:
        return "there is nothing to show"
    table = Table(box=None)
    for name in rows[0]:
        table.add_column(name, overflow="fold", justify="right" if name == "left" else "left")
    for row in rows:
        table.add_row(*(Text(_plain(value)) for value in row.values()))
    return table


def counts_table(head: pa.Table, total: int) -> Group:
    """Counted things, most frequent first."""
    number = head.column_names[-1]
    table = _table(number, *head.column_names[:-1])
    for row in head.to_pylist():
        count = Text(f"{row.pop(number):,}", justify="right")
        table.add_row(count, *(Text(_plain(value)) for value in row.values()))
    more = total - head.num_rows
    return Group(table, *([Text(f"and {more:,} more; --out FILE writes all")] if more else []))


def write_counts(table: pa.Table, path: Path) -> None:
    """Write counted things to a file, as Parquet if it is called so, else with tabs.

    Raises:
        InputError: the file cannot be written.
    """
    if str(path) == "-":
        sys.stdout.buffer.writelines(_lines(table))
        return
    if path.is_dir():
        raise InputError("this is a folder", where=str(path), remedy="name a file in it")
    if not path.parent.is_dir():
        raise InputError("there is no such folder", where=str(path.parent), remedy="make it first")
    try:
        # A device or a pipe is written to; a file is replaced, once the new one is whole.
        replaced = path.is_file() or not path.exists()
        place = written_aside(path.resolve()) if replaced else nullcontext(path)
        with place as file:
            if path.suffix == ".parquet":
                pq.write_table(table, file, compression="zstd")
            else:
                with file.open("wb") as lines:
                    lines.writelines(_lines(table))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"cannot be written: {reason}", where=str(path)) from None


def _lines(table: pa.Table) -> Iterator[bytes]:
    """A table with tabs. No token holds white space, so nothing needs quotes."""
    yield "\t".join(table.column_names).encode() + b"\n"
    for batch in table.to_batches(1 << 16):
        columns = [pc.cast(column, pa.large_string()) for column in batch.columns]
        rows = pc.binary_join_element_wise(*columns, pa.scalar("\t", pa.large_string()))
        yield "\n".join(rows.to_pylist()).encode("utf-8", "surrogatepass") + b"\n"


def _plain(value: object) -> str:
    """A value in one line; what would move the cursor is spelt out, what is endless is cut."""
    text = value if isinstance(value, str) else str(value)
    more = len(text) - LONGEST
    end = f"... and {more:,} more characters" if more > 0 else ""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:LONGEST]) + end
