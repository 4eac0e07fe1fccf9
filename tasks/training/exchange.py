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

from collections.abc import Callable, Iterator, Mapping

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
        for name, table in self._tables().items():
            values, base = _matrix(table), self._base[name]
            for first, rows in _blocks(table, min(n, len(base)), base.device):
                before = base[rows]
                packed = torch.empty((len(before), before.shape[1] + 1), device=base.device)
                delta = torch.sub(values[rows], before, out=packed[:, :-1])
                packed[:, -1] = torch.linalg.vector_norm(delta, dim=1).square_()
                dist.all_reduce(packed)
                total, busy = packed[:, :-1], 0 if table.adds_up else max(0, FIRST - first)
                total[:busy] = merge(total[:busy], packed[:busy, -1])
                values[rows] = base[rows] = before + total
        return n >= largest


def _matrix(table: SweptTable) -> Tensor:
    """The values as a (R, D) tensor that shares their memory."""
    values = torch.as_tensor(table.values)
    return values if values.ndim == 2 else values[:, None]


def _blocks(
    table: SweptTable, n: int, device: torch.device
) -> Iterator[tuple[int, slice | Tensor]]:
    """The ``n`` busiest rows, in parts, each with the number of its first."""
    for first in range(0, n, BLOCK):
        rows = slice(first, min(first + BLOCK, n))
        if table.busiest is None:
            yield first, rows
        else:
            yield first, torch.tensor(np.ascontiguousarray(table.busiest[rows]), device=device)
