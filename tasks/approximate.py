"""Nearest words by a graph (HNSW), for very large tables: faster, and it may miss some.

Malkov and Yashunin (2018), "Efficient and robust approximate nearest neighbor search using
hierarchical navigable small world graphs", as built by the library usearch, which is optional
(``pip install lexloom[ann]``). What it finds is judged by the rows themselves, so the cosines are
exact. What it misses is measured on words of the model when the graph is built, and told.

The graph is kept beside the model, like the codes of the exact search (``tasks.questions``). Exact
search was three times as fast at 30,000 words of 100 numbers, and takes 6 ms of CPU at 400,000 of
300: a graph is for tables beyond that.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.tables import Rows
from models.vectors import best, unit
from models.word_vectors import Found, Search
from tasks.errors import ConfigError

SAMPLE, SAMPLE_K = 200, 10
"""Words by which recall is measured, and the neighbours of each that should be found."""
EXPANSION = 256
"""Candidates of a search, four times usearch's own."""
MORE = 4
"""Times as many candidates are judged as were asked for, since the graph holds 8-bit numbers."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A ``models.word_vectors.Search`` that may miss some.

    Attributes:
        rows: the table.
        exact: what answers where only the first rows are asked for, which a graph cannot tell.
        index: of usearch.
        recall: the share of the ten nearest that it finds, as measured when it was built.
    """

    rows: Rows
    exact: Search
    index: Any
    recall: float

    def __call__(self, queries: Any, k: int, among: int) -> Found:
        """See ``models.word_vectors.Search``."""
        if among < len(self.rows):
            return self.exact(queries, k, among)
        return [_judged(self.rows, self.index, query, k) for query in queries]


def _judged(rows: Rows, index: Any, query: Any, k: int) -> Any:
    ids = np.sort(index.search(query, min(MORE * k, len(index))).keys).astype(np.int64)
    places, cosines = best(unit(rows.at(ids)) @ query, min(k, len(ids)))
    return ids[places], cosines


def kept_graph(path: Path, of: str, rows: Rows, exact: Search, threads: int) -> Graph:
    """The graph that is kept under a path if it is of the same weights, else a new one.

    Args:
        path: of the graph; its recall lies beside it.
        of: what tells the weights from others.
        rows: the table.
        exact: answers as a full scan does.
        threads: at work at once on a new graph.

    Raises:
        ConfigError: usearch is not installed.
    """
    try:
        from usearch.index import Index
    except ImportError:
        raise ConfigError(
            "approximate search takes the library usearch",
            remedy="pip install 'lexloom[ann]', or ask without --approximate",
        ) from None
    note = path.with_suffix(".json")
    with suppress(OSError, ValueError, KeyError, RuntimeError):
        kept = json.loads(note.read_text("utf-8"))
        if kept["of"] == of:
            index = Index.restore(path, view=True)
            if index is not None:
                index.expansion_search = EXPANSION
                return Graph(rows, exact, index, kept["recall"])
    index = Index(ndim=rows.shape[1], metric="cos", dtype="i8", expansion_search=EXPANSION)
    for some, block in rows.blocks(len(rows)):
        finite = np.isfinite(block).all(axis=1)
        index.add(np.arange(some.start, some.stop)[finite], unit(block[finite]), threads=threads)
    recall = measured_recall(rows, exact, index)
    with suppress(OSError):  # it may lie where nobody can write
        note.unlink(missing_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        try:
            index.save(aside)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        note.write_text(json.dumps({"of": of, "recall": recall}), "utf-8")
    return Graph(rows, exact, index, recall)


def measured_recall(rows: Rows, exact: Search, index: Any) -> float:
    """The share of the nearest of some rows, evenly spread over the table, that a graph finds."""
    chosen = np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(np.int64)
    queries = unit(rows.at(chosen))
    wanted = exact(queries, SAMPLE_K, len(rows))
    found = [_judged(rows, index, query, SAMPLE_K)[0] for query in queries]
    hits = sum(len(np.intersect1d(a, b)) for a, (b, _) in zip(found, wanted, strict=True))
    return hits / max(1, sum(len(ids) for ids, _ in wanted))
