"""Recurrent layers in both directions over sequences of different lengths.

M. Schuster and K. Paliwal, *Bidirectional recurrent neural networks* (1997). A layer is two, of
which one reads from the first entry to the last and the other from the last to the first::

    f_k[t] = forward_k(x_k[t], f_k[t - 1])        b_k[t] = backward_k(x_k[t], b_k[t + 1])

*Together*, a layer reads both below it, ``x_{k+1} = [f_k; b_k]``: then from the second layer on
every state has seen all of the sequence. *Apart*, each direction reads its own, ``f_k`` or ``b_k``:
a state has seen nothing but what its direction has read.

Shapes: ``T`` entries, ``B`` sequences, ``D`` inputs, ``H`` units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.recurrent import Cell, Recurrent, Reset, Update

Combine = Literal["concatenation", "sum", "average", "product"]
"""How the states of both directions become one vector."""


class Bidirectional(nn.Module):
    """Layers one on the other.

    Attributes:
        ahead: the layers that read forward.
        back: those that read backward.
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        units: int,
        layers: int,
        *,
        apart: bool,
        reset: Reset = "after",
        update: Update = "keep",
    ) -> None:
        super().__init__()
        self.apart = apart
        between = units if apart else 2 * units
        self.ahead, self.back = (
            nn.ModuleList(
                Recurrent(cell, between if k else inputs, units, reset=reset, update=update)
                for k in range(layers)
            )
            for _ in range(2)
        )

    def pairs(self) -> Iterator[tuple[Recurrent, Recurrent]]:
        """The layers from the input up, each with both directions."""
        for ahead, back in zip(self.ahead, self.back, strict=True):
            assert isinstance(ahead, Recurrent)
            assert isinstance(back, Recurrent)
            yield ahead, back

    def initialize(self, generator: torch.Generator) -> None:
        """See ``Recurrent.initialize``."""
        for pair in self.pairs():
            for layer in pair:
                layer.initialize(generator)

    def forward(
        self, x: Tensor, sizes: Tensor, dropout: float = 0.0
    ) -> list[tuple[Tensor, Tensor]]:
        """What comes out of each layer in each direction, (T, B, H) in the order of the entries.

        Args:
            x: (T, B, D) inputs, padded behind; what is there changes nothing before it.
            sizes: (B,) entries of each sequence.
            dropout: the share left out of what each layer gives.
        """
        turn = turned(sizes, len(x))
        f, b, found = x, x, list[tuple[Tensor, Tensor]]()
        for ahead, back in self.pairs():
            f = F.dropout(ahead(f, ahead.start(x.shape[1]))[0], dropout)
            b = F.dropout(along(back(along(b, turn), back.start(x.shape[1]))[0], turn), dropout)
            found.append((f, b))
            if not self.apart:
                f = b = torch.cat([f, b], -1)
        return found


def turned(sizes: Tensor, steps: int) -> Tensor:
    """(T, B) where each entry is in its sequence turned round; what is padded stays behind."""
    at = torch.arange(steps, device=sizes.device)[:, None]
    return torch.where(at < sizes, sizes - 1 - at, at)


def along(x: Tensor, index: Tensor) -> Tensor:
    """(T, B, D) in another order of the entries: those at (T, B) ``index``."""
    return x.gather(0, index[..., None].expand(-1, -1, x.shape[2]))


def combined(f: Tensor, b: Tensor, how: Combine) -> Tensor:
    """(..., H) states of both directions -> (..., 2 H) concatenated, or else (..., H)."""
    match how:
        case "concatenation":
            return torch.cat([f, b], -1)
        case "sum":
            return f + b
        case "average":
            return (f + b) / 2
        case "product":
            return f * b
