"""The exchange between workers that train copies of the same tables: what each has added to a row.

Frequent rows travel often and rare rows seldom, as in pWord2Vec (Ji, Satish, Li, Dubey 2016,
arXiv:1604.04661): exchange ``s`` takes the ``FIRST * 2 ** t`` busiest rows of each
table, where ``2 ** t`` is the largest power of two that divides ``s``. Every second exchange takes
``FIRST`` rows, every fourth twice as many, and so on; some take all.

Mean and sum of what the workers added are both wrong. A rare row that one worker has met keeps
``1 / W`` of its update under the mean; a frequent one, that each worker has moved to the same
place, overshoots under the sum. So the rows beyond the ``FIRST``, which are exchanged after a few
updates, are summed. Of the ``FIRST`` counts how much the updates have in common: orthogonal ones
are summed, equal ones averaged (Maleki et al. 2021, "Scaling distributed training with adaptive
summation", arXiv:2006.02924; for word2vec Gill et al. 2019, arXiv:1909.03359). Theirs is a rule for
two, applied in a tree; ours has the same values for two orthogonal or equal updates, and takes any
number at once, from sums alone::

    merged = S min(1, Q / |S| ** 2)        S = sum over w of d_w,  Q = sum over w of |d_w| ** 2

Tables that hold sums (the squared gradients of AdaGrad) are summed.

Shapes: ``R`` rows of a table, ``k`` rows of a block, ``D`` width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from models.family import SweptTable

FIRST = 1024
BLOCK = 1 << 16
"""Rows that travel at once, which bounds the memory that it takes."""


def rows_at(number: int) -> int:
    """How many rows of a table exchange ``number``, counted from 1, takes."""
    return FIRST * (number & -number)


def merge(total: Tensor, squares: Tensor) -> Tensor:
    """What a row gains.

    Args:
        total: (k, D) the sum of what the workers added.
        squares: (k,) the sum of the squared lengths of that.
    """
    length = torch.linalg.vector_norm(total, dim=1).square_()
    common = torch.where(length > squares, squares / length, 1.0)
    return total * common[:, None]


class Exchange:
    """Keeps the copies of a model's tables together; a collective of the default process group.

    It holds the tables as they were after the last exchange, so it takes as much memory as they.

    Args:
        tables: gives the live tables.
    """

    def __init__(self, tables: Callable[[], Mapping[str, SweptTable]]) -> None:
        self._tables = tables
        self._base = {name: _matrix(table).clone() for name, table in tables().items()}

    def take(self, n: int | None = None) -> bool:
        """Make the ``n`` busiest rows of each table, or all, equal on all workers.

        Returns:
            whether they were all.
        """
        largest = max(len(base) for base in self._base.values())
        n = largest if n is None else n
        for parcel in _parcels(self._tables(), n):
            self._send(parcel)
        return n >= largest

    def _send(self, parcel: Sequence[_Piece]) -> None:
        """Make rows of some tables equal on all workers, in one exchange of messages."""
        device = self._base[parcel[0].name].device
        ends = list(accumulate(piece.n * (piece.width + 1) for piece in parcel))
        message, added = torch.empty(ends[-1], device=device), list[Tensor]()
        for piece, first, end in zip(parcel, [0, *ends], ends, strict=False):
            packed = message[first:end].view(piece.n, piece.width + 1)
            rows, values = piece.rows(device), _matrix(piece.table)
            delta = torch.sub(values[rows], self._base[piece.name][rows], out=packed[:, :-1])
            packed[:, -1] = torch.linalg.vector_norm(delta, dim=1).square_()
            added.append(packed)
        dist.all_reduce(message)
        for piece, packed in zip(parcel, added, strict=True):
            total, busy = packed[:, :-1], 0 if piece.table.adds_up else max(0, FIRST - piece.first)
            total[:busy] = merge(total[:busy], packed[:busy, -1])
            rows, values, base = piece.rows(device), _matrix(piece.table), self._base[piece.name]
            values[rows] = base[rows] = total.add_(base[rows])


@dataclass(frozen=True, eq=False)
class _Piece:
    """The rows ``first`` to ``first + n`` of a table in the order of their traffic."""

    name: str
    table: SweptTable
    first: int
    n: int

    @property
    def width(self) -> int:
        """Of a row."""
        return _matrix(self.table).shape[1]

    def rows(self, device: torch.device) -> slice | Tensor:
        """Where they are in the table."""
        rows = slice(self.first, self.first + self.n)
        if self.table.busiest is None:
            return rows
        return torch.tensor(np.ascontiguousarray(self.table.busiest[rows]), device=device)


def _matrix(table: SweptTable) -> Tensor:
    """The values as a (R, D) tensor that shares their memory."""
    values = torch.as_tensor(table.values)
    return values if values.ndim == 2 else values[:, None]


def _parcels(tables: Mapping[str, SweptTable], n: int) -> Iterator[list[_Piece]]:
    """The ``n`` busiest rows of each table, in parts of at most ``BLOCK`` rows of them all.

    A message takes a millisecond however short it is, so the tables travel together.
    """
    parcel, free = list[_Piece](), BLOCK
    for name, table in tables.items():
        first, last = 0, min(n, len(table.values))
        while first < last:
            piece = _Piece(name, table, first, min(last - first, free))
            parcel.append(piece)
            first, free = first + piece.n, free - piece.n
            if free == 0:
                yield parcel
                parcel, free = [], BLOCK
    if parcel:
        yield parcel
