"""Exact co-occurrence counts: a partition at a time, then added up under a vocabulary.

Counting knows no vocabulary. A partition counts its own surface forms, numbered by falling count
(ties by UTF-8 bytes), so a new file counts its own partition only and another ``min_count`` only
adds up anew. A word outside the vocabulary keeps its place in every window and is left out.

Sums are integers, multiples of the least common multiple of all distances: exact, whatever the
order in which they are added. So the table is the same, byte for byte, however the text was cut,
whoever counted it, and in however little memory.

Parts of an artifact of kind "pairs", a partition of text::

    rows.safetensors   data uint8, all rows one after the other, as ``models.kernels.cooccurrence``
                       encodes them; sizes uint32 (T,), bytes of each
    types.parquet      type large_string, count int64, in the order of rows and columns

and of kind "cooccurrence", in numbered stretches of ``ENTRIES`` entries::

    cooccurrence.json          the settings, the scale and the number of words; first stretch only
    cooccurrence.safetensors   words int32 (R,), starts int64 (R + 1,), columns int32 (M,),
                               totals int64 (M,): see ``models.text.CooccurrencePart``
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from models.text import CooccurrenceCounts, CooccurrencePart, TokenPartition
from tasks.artifacts import Artifact, Stats
from tasks.errors import InputError
from tasks.runner import Runner
from tasks.spool import spool
from tasks.step import Context, Step
from tasks.store import Reader, map_tensors
from tasks.tokenize import TYPES_SCHEMA, TYPES_TABLE, read_tokens
from tasks.vocabulary import read_vocabulary

if TYPE_CHECKING:
    from tasks.pairs import Block

ROWS_PART, TABLE_PART, ABOUT_PART = (
    "rows.safetensors",
    "cooccurrence.safetensors",
    "cooccurrence.json",
)
MAX_WINDOW = 1_000
"""Words of a window. Pairs are as many as words times this, so more is never meant."""
ENTRIES = 1 << 22
"""Entries of a stretch, about 50 MB."""

_LARGEST = 1 << 40
"""No weight is larger: then a partition cannot come near the end of 64 bits."""
_TOKEN_BYTES = 16
"""A token takes so much memory while it is counted: in the stream, among the places, and slack."""


@dataclass(frozen=True)
class Cooccurrence:
    """What is counted, and with which weight."""

    window: Annotated[
        int, Field(ge=1, le=MAX_WINDOW, description="Farthest distance that counts")
    ] = 10
    weights: Annotated[
        Literal["harmonic", "flat"], Field(description="1 / distance, or 1 for every pair")
    ] = "harmonic"
    side: Annotated[
        Literal["both", "left", "right"],
        Field(description="Side of a word on which others count; both makes it symmetric"),
    ] = "both"
    boundary: Annotated[
        Literal["document", "sentence"],
        Field(description="What no window crosses; a line is a sentence"),
    ] = "sentence"

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if not 1 <= self.window <= MAX_WINDOW:
            raise ValueError(f"window must be from 1 to {MAX_WINDOW:,}, not {self.window}")
        if self.scale > _LARGEST:
            raise ValueError(
                f"a window of {self.window} is too wide for exact harmonic weights: 1 / distance "
                "has no common denominator that leaves room for sums in 64 bits; take a window of "
                "at most 28, or flat weights"
            )

    @property
    def scale(self) -> int:
        """What integer sums are divided by."""
        return math.lcm(*range(1, self.window + 1)) if self.weights == "harmonic" else 1

    def by_distance(self) -> NDArray[np.int64]:
        """(window + 1,) the integer weight of each distance; that of 0 means nothing."""
        if self.weights == "flat":
            return np.ones(self.window + 1, np.int64)
        return np.array([0, *(self.scale // d for d in range(1, self.window + 1))], np.int64)


# --- a partition ----------------------------------------------------------------------------


def count_pairs(context: Context, readers: Mapping[str, Reader], params: Cooccurrence) -> Stats:
    """Count the pairs of one partition, in the ids of its own forms.

    A partition too large for the memory is counted in pieces, whose sorted tables are then added.
    """
    from tasks.pairs import Table, add_tables, count_text, write_rows

    (part,) = read_tokens(readers["tokens"]).partitions
    types, ranks = _ranked(part)
    edges = part.text.starts
    if params.boundary == "document":
        edges = edges[part.text.documents]
    _refuse_overflow(len(part.text.ids), params)
    memory, scratch = context.resources.memory, context.store.files.scratch()
    pieces = _pieces(edges, memory // _TOKEN_BYTES)

    def blocks(first: int, last: int) -> Iterator[Block]:
        sides = params.side != "right", params.side != "left"
        chosen = edges[first : last + 1]
        return count_text(part.text.ids, chosen, ranks, params.by_distance(), sides, memory)

    empty: dict[str, NDArray[Any]] = {
        "data": np.zeros(0, np.uint8),
        "sizes": np.zeros(0, np.uint32),
    }
    with spool(scratch, empty) as rows:
        if len(pieces) == 1:
            entries = write_rows(rows, blocks(*pieces[0]), len(ranks))
        else:
            with tempfile.TemporaryDirectory(prefix="runs-", dir=scratch) as name:
                folder = Path(name)
                tables = []
                for i, piece in enumerate(pieces):
                    with spool(scratch, empty) as run:
                        write_rows(run, blocks(*piece), len(ranks))
                        run.save(folder / str(i))
                    tables.append(
                        Table.of(
                            map_tensors(folder / str(i)),
                            np.arange(len(ranks), dtype=np.uint32),
                            len(ranks),
                        )
                    )
                added = add_tables(tables, len(ranks), upper=False, memory=memory)
                entries = write_rows(rows, added, len(ranks))
        with context.out.path(ROWS_PART) as path:
            rows.save(path)
    context.out.table(TYPES_TABLE, types)
    return {"tokens": len(part.text.ids), "entries": entries, "pieces": len(pieces)}


def _ranked(part: TokenPartition) -> tuple[pa.Table, NDArray[np.uint32]]:
    """The types by falling count, then by their bytes; and the rank of each as it was."""
    columns = [pa.array(part.types, pa.large_string()), pa.array(part.counts)]
    table = pa.table(columns, schema=TYPES_SCHEMA).append_column(
        "id", pa.array(np.arange(len(part.types), dtype=np.int32))
    )
    table = table.sort_by([("count", "descending"), ("type", "ascending")])
    ranks = np.empty(len(part.types), np.uint32)
    ranks[table["id"].to_numpy()] = np.arange(len(ranks), dtype=np.uint32)
    return table.select(TYPES_SCHEMA.names), ranks


def _pieces(edges: NDArray[np.int64], tokens: int) -> list[tuple[int, int]]:
    """Stretches of segments with so many tokens at most, or one segment."""
    pieces, begin, n = [], 0, len(edges) - 1
    while begin < n:
        limit = edges[begin] + tokens
        end = max(begin + 1, int(np.searchsorted(edges, limit, side="right")) - 1)
        pieces.append((begin, end))
        begin = end
    return pieces or [(0, 0)]


def _refuse_overflow(tokens: int, params: Cooccurrence) -> None:
    """Raises InputError if some sum over a partition could leave 64 bits."""
    if 2 * tokens * int(params.by_distance()[1:].sum()) >= 1 << 63:
        raise InputError(
            f"a partition of {tokens} tokens is too large for exact weights in a window of "
            f"{params.window}",
            remedy="take a smaller window, flat weights, or cut the corpus into smaller documents",
        )


# --- all of them ----------------------------------------------------------------------------


def add_pairs(context: Context, readers: Mapping[str, Reader], params: Cooccurrence) -> Stats:
    """Add up the tables of all partitions under a vocabulary, in the order of its ids."""
    from tasks.pairs import Table, add_tables

    reader, vocabulary = readers["pairs"], read_vocabulary(readers["vocabulary"])
    n_words, tables = len(vocabulary), []
    for i in range(reader.n_partitions):
        ids = vocabulary.ids(reader.table(TYPES_TABLE, i)["type"].to_pylist())
        names = np.where(ids < 0, n_words, ids).astype(np.uint32)
        tables.append(Table.of(reader.tensors(ROWS_PART, i), names, n_words))
    symmetric = params.side == "both"
    about = {**asdict(params), "scale": params.scale, "words": n_words, "symmetric": symmetric}
    context.out.json(ABOUT_PART, about)
    blocks = add_tables(
        tables,
        n_words,
        upper=symmetric,
        memory=context.resources.memory,
        threads=context.resources.threads,
        progress=lambda done, total: context.progress(done, total, "words"),
    )
    n_parts, entries = 0, 0
    for n_parts, part in enumerate(_stretches(blocks), 1):
        arrays: dict[str, NDArray[Any]] = {"words": part.words, "starts": part.starts}
        arrays |= {"columns": part.columns, "totals": part.totals}
        context.out.tensors(TABLE_PART, arrays, n_parts - 1)
        entries += len(part)
    return {"entries": entries, "parts": n_parts, "words": n_words}


def _stretches(blocks: Iterator[Block]) -> Iterator[CooccurrencePart]:
    """The same entries in stretches of ``ENTRIES``, the last one shorter; at least one."""
    rows: list[NDArray[np.int32]] = []
    columns: list[NDArray[np.uint32]] = []
    sums: list[NDArray[np.int64]] = []
    held = 0
    for block in blocks:
        lengths = np.diff(block.ends, prepend=0)
        row, at = np.repeat(block.words, lengths), 0
        while at < len(row):
            take = min(len(row) - at, ENTRIES - held)
            rows.append(row[at : at + take])
            columns.append(block.columns[at : at + take])
            sums.append(block.sums[at : at + take])
            held, at = held + take, at + take
            if held == ENTRIES:
                yield _stretch(rows, columns, sums)
                rows, columns, sums, held = [], [], [], 0
    if held:
        yield _stretch(rows, columns, sums)


def _stretch(
    rows: list[NDArray[np.int32]], columns: list[NDArray[np.uint32]], sums: list[NDArray[np.int64]]
) -> CooccurrencePart:
    row = np.concatenate(rows)
    firsts = np.flatnonzero(np.diff(row, prepend=-1))
    starts = np.append(firsts, len(row)).astype(np.int64)
    return CooccurrencePart(
        row[firsts], starts, np.concatenate(columns).astype(np.int32), np.concatenate(sums)
    )


PAIRS: Step[Cooccurrence] = Step("pairs", 1, "pairs", count_pairs)
COOCCURRENCE: Step[Cooccurrence] = Step("cooccurrence", 1, "cooccurrence", add_pairs, threaded=True)


def count_cooccurrence(
    runner: Runner, tokens: Artifact, vocabulary: Artifact, settings: Cooccurrence
) -> Artifact:
    """The co-occurrence table of a tokenized split in the ids of a vocabulary.

    Args:
        runner: runs the two steps.
        tokens: the split, in partitions.
        vocabulary: any vocabulary; if it has ``<unk>``, unknown words are counted as that.
        settings: what is counted.
    """
    pairs = runner.map(PAIRS, {"tokens": tokens}, settings)
    return runner.run(COOCCURRENCE, {"pairs": pairs, "vocabulary": vocabulary}, settings)


def read_cooccurrence(reader: Reader) -> CooccurrenceCounts:
    """The table in a ``cooccurrence`` artifact, memory-mapped."""
    about: dict[str, Any] = reader.json(ABOUT_PART)
    parts = []
    for i in range(reader.n_partitions):
        if reader.has(TABLE_PART, i):
            arrays = reader.tensors(TABLE_PART, i)
            names = ("words", "starts", "columns", "totals")
            parts.append(CooccurrencePart(*(arrays[name] for name in names)))
    return CooccurrenceCounts(
        about["words"], about["window"], about["symmetric"], about["scale"], parts
    )
