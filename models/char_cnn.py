"""Character-aware neural language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.characters import PAD

# --- the encoder ----------------------------------------------------------------------------

Activation = Literal["tanh", "relu"]
AT_ONCE = 128
"""Words of a piece; words of like length go together, so that little padding is multiplied."""
CARRY = -2.0
"""The bias of a new transform gate: it lets about an eighth through, the rest is carried."""


class Highway(nn.Module):
    """``y = t * relu(W_H x + b_H) + (1 - t) * x`` with ``t = sigmoid(W_T x + b_T)``.

    R. Srivastava, K. Greff, J. Schmidhuber, *Highway networks* (2015).

    Attributes:
        W: (2 D, D) the rows of W_H, then those of W_T.
        b: (2 D,) likewise; that of the gate is negative at the start.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(2 * width, width))
        self.b = nn.Parameter(torch.zeros(2 * width))

    def initialize(self, generator: torch.Generator) -> None:
        """Weights uniform within 1 / sqrt(D)."""
        width = self.W.shape[1]
        with torch.no_grad():
            self.W.uniform_(-(width**-0.5), width**-0.5, generator=generator)
            self.b[:width] = 0.0
            self.b[width:] = CARRY

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        h, t = F.linear(x, self.W, self.b).chunk(2, -1)
        return torch.lerp(x.to(h.dtype), F.relu(h), torch.sigmoid(t))


class CharCnn(nn.Module):
    """Words from their characters: filters of several widths, max over time, highway layers.

    With ``C`` the embeddings of a word's characters in a row, a filter ``H`` of width ``w``::

        f[i] = g(<C[i : i + w], H> + b)        y = max_i f[i]

    with g tanh or relu, which as they never fall are applied to the maximum. A word shorter than a
    filter is padded with zeros to its width; beyond that padding never reaches the maximum.

    Shapes: ``U`` words, ``W`` characters of the longest of them, ``A`` characters, ``E`` width of a
    character, ``D`` filters in all.

    Attributes:
        C: (A - 1, E) embeddings of all characters but ``PAD``, which is zeros.
        filters: for each width w (n, w E).
        biases: for each width (n,).
        highways: the layers on the filters.
        projection: (P, D) a linear layer without biases on the last of them; None for none.
    """

    def __init__(
        self,
        characters: int,
        embedding: int,
        widths: Sequence[int],
        filters: Sequence[int],
        *,
        highways: int = 1,
        activation: Activation = "tanh",
        projection: int = 0,
    ) -> None:
        """Weights are zeros until ``initialize``.

        Args:
            characters: A, with the reserved ones.
            embedding: E.
            widths: of the filters.
            filters: how many there are of each width.
            highways: layers.
            activation: g.
            projection: P; 0 for none.
        """
        super().__init__()
        self.widths, self.activation = tuple(widths), activation
        self.C = nn.Parameter(torch.zeros(characters - 1, embedding))
        self.filters = nn.ParameterList(
            nn.Parameter(torch.zeros(n, w * embedding))
            for w, n in zip(widths, filters, strict=True)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n)) for n in filters)
        total = sum(filters)
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.projection = nn.Parameter(torch.zeros(projection, total)) if projection else None
        self.width = projection or total

    def initialize(self, generator: torch.Generator) -> None:
        """Embeddings are normal; weights are uniform within 1 / sqrt(inputs), biases zeros."""
        with torch.no_grad():
            self.C.normal_(0.0, 1.0, generator=generator)
            for weight in (*self.filters, *([] if self.projection is None else [self.projection])):
                bound = weight.shape[1] ** -0.5
                weight.uniform_(-bound, bound, generator=generator)
            for bias in self.biases:
                bias.zero_()
        for layer in self.highways:
            assert isinstance(layer, Highway)
            layer.initialize(generator)

    def forward(self, spelling: Tensor) -> Tensor:
        """(U, W) characters -> (U, P or D), one vector a row."""
        x = self.features(spelling)
        for layer in self.highways:
            x = layer(x)
        return x if self.projection is None else F.linear(x, self.projection)

    def features(self, spelling: Tensor) -> Tensor:
        """(U, W) characters -> (U, D), what goes into the first highway layer."""
        sizes, order = (spelling != PAD).sum(1).sort()
        pieces = zip(torch.split(sizes, AT_ONCE), torch.split(order, AT_ONCE), strict=True)
        found = torch.cat([self._maxima(spelling[rows], size) for size, rows in pieces])
        g = torch.tanh if self.activation == "tanh" else torch.relu
        return g(found[order.argsort()])

    def _maxima(self, spelling: Tensor, sizes: Tensor) -> Tensor:
        """(U, D) of words by rising (U,) length, before g."""
        longest = max(int(sizes[-1]) if len(sizes) else 0, *self.widths)
        spelling = F.pad(spelling[:, :longest], (0, max(0, longest - spelling.shape[1])))
        x = F.embedding(spelling, F.pad(self.C, (0, 0, 1, 0))).flatten(1)
        embedding = self.C.shape[1]
        found = list[Tensor]()
        for w, weight, bias in zip(self.widths, self.filters, self.biases, strict=True):
            # A window is a stretch of the row, so all windows are a view.
            scores = F.linear(x.unfold(1, w * embedding, embedding), weight)
            places = torch.arange(scores.shape[1], device=sizes.device)
            beyond = places > (sizes[:, None] - w).clamp_min(0)
            found.append(scores.masked_fill(beyond[..., None], -torch.inf).amax(1) + bias)
        return torch.cat(found, 1)
