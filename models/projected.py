"""The LSTM with a recurrent projection (Sak, Senior and Beaufays 2014), without peepholes.

With ``x`` the input of a step, ``h`` the projected state before it, ``*`` the product element by
element::

    i, f, o = sigmoid(W x + U h + b)    g = tanh(W x + U h + b)
    c' = f * c + i * g                  h' = P (o * tanh(c'))

The cell may be wide and what goes on, to the next step and the next layer, narrow: with 4,096 cells
and 512 projected units a step takes an eighth of the products of an LSTM of 4,096. ``c'`` and
``h'`` may be clipped, as in the released ELMo (Peters et al. 2018); no gradient goes through what
was.

Rows of ``W``, ``U`` and ``b`` are in the order of ``models.recurrent`` and of torch, so that
weights pass to ``torch.nn.LSTM(proj_size=...)`` and back as they are. Products with ``W`` are one
for all steps; under autocast they are bfloat16, and ``c`` stays float32.

Shapes: ``T`` steps, ``B`` sequences, ``D`` inputs, ``H`` cells, ``R`` projected units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.recurrent import State


class Projected(nn.Module):
    """One layer in one direction; it is called as ``models.recurrent.Recurrent`` is.

    Attributes:
        W: (4 H, D) weights of the input.
        U: (4 H, R) weights of the projected state.
        b: (4 H,) biases.
        P: (R, H) the projection.
        clip_cell, clip_state: what ``c`` and ``h`` are clipped to, in size; 0 for no limit.
    """

    def __init__(
        self,
        inputs: int,
        cells: int,
        units: int,
        *,
        clip_cell: float = 0.0,
        clip_state: float = 0.0,
    ) -> None:
        super().__init__()
        self.cells, self.units = cells, units
        self.clip_cell, self.clip_state = clip_cell, clip_state
        self.W = nn.Parameter(torch.zeros(4 * cells, inputs))
        self.U = nn.Parameter(torch.zeros(4 * cells, units))
        self.b = nn.Parameter(torch.zeros(4 * cells))
        self.P = nn.Parameter(torch.zeros(units, cells))

    def initialize(self, generator: torch.Generator) -> None:
        """Uniform within 1 / sqrt(H), as torch has it; the forget gate is open (bias 1)."""
        bound = self.cells**-0.5
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-bound, bound, generator=generator)
            self.b[self.cells : 2 * self.cells] = 1.0

    def start(self, sequences: int) -> State:
        """The state before anything: zeros, (B, R) and (B, H)."""
        h = self.U.new_zeros(sequences, self.units)
        exact = torch.promote_types(h.dtype, torch.float32)
        return h, h.new_zeros(sequences, self.cells, dtype=exact)

    def forward(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        """(T, B, D) and the state before -> (T, B, R), the states h after each step, and the last.

        Args:
            x: inputs.
            state: before the first step.
            keep: see ``models.recurrent.Recurrent.forward``.
        """
        gates = F.linear(x, self.W, self.b)
        # Under autocast the product is narrower than the weights, and what follows is as narrow.
        kind = gates.dtype
        states, h, c = _Projected.apply(  # type: ignore[no-untyped-call]
            gates,
            self.U.to(kind),
            self.P.to(kind),
            state[0].to(kind),
            state[1],
            keep,
            (self.clip_cell, self.clip_state),
        )
        return states, (h, c)


class ResidualStack(nn.Module):
    """Layers of one direction; above the first, what goes in is added to what comes out."""

    def __init__(
        self,
        units: int,
        cells: int,
        layers: int,
        *,
        clip_cell: float = 0.0,
        clip_state: float = 0.0,
    ) -> None:
        super().__init__()
        clips = {"clip_cell": clip_cell, "clip_state": clip_state}
        self.layers = nn.ModuleList(Projected(units, cells, units, **clips) for _ in range(layers))

    def __iter__(self) -> Iterator[Projected]:
        for layer in self.layers:
            assert isinstance(layer, Projected)
            yield layer

    def initialize(self, generator: torch.Generator) -> None:
        """See ``Projected.initialize``."""
        for layer in self:
            layer.initialize(generator)

    def start(self, sequences: int) -> State:
        """The state before anything, layer by layer."""
        return tuple(part for layer in self for part in layer.start(sequences))

    def forward(
        self, x: Tensor, state: State, keep: Tensor | None = None, dropout: float = 0.0
    ) -> tuple[list[Tensor], State]:
        """(T, B, R) -> what comes out of each layer, (T, B, R), and the last state.

        Args:
            x: inputs.
            state: before the first step, layer by layer.
            keep: see ``models.recurrent.Recurrent.forward``.
            dropout: the share left out of what goes into a layer, and so of what is added.
        """
        found, after = list[Tensor](), list[Tensor]()
        for k, layer in enumerate(self):
            x = F.dropout(x, dropout)
            states, own = layer(x, state[2 * k : 2 * k + 2], keep)
            x = states + x if k else states
            found.append(x)
            after += own
        return found, tuple(after)


class _Projected(torch.autograd.Function):
    """All steps, with two products a step in each direction.

    As ``models.recurrent``'s of the LSTM: a few arrays in place of autograd's graph, and the
    gradients of U and P are one product each over all steps.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        U: Tensor,
        P: Tensor,
        h: Tensor,
        c: Tensor,
        keep: Tensor | None,
        clips: tuple[float, float],
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, n = len(gates), P.shape[1]
        active = torch.empty_like(gates)
        states = gates.new_empty(steps + 1, *h.shape)
        cells = c.new_empty(steps + 1, *c.shape)
        squashed = torch.empty_like(cells[1:])
        states[0], cells[0] = h, c
        whole = keep is None or bool(keep.all())
        before = (states[:-1], cells[:-1])
        if not whole:
            before = (torch.empty_like(before[0]), torch.empty_like(before[1]))
        for t in range(steps):
            h, c = before[0][t], before[1][t]
            if keep is not None and not whole:
                torch.mul(states[t], keep[t, :, None], out=h)
                torch.mul(cells[t], keep[t, :, None], out=c)
            a = torch.addmm(gates[t], h, U.t(), out=active[t])
            a[:, : 2 * n].sigmoid_()
            a[:, 2 * n : 3 * n].tanh_()
            a[:, 3 * n :].sigmoid_()
            i, f, g, o = a.chunk(4, 1)
            torch.mul(c, f, out=cells[t + 1]).addcmul_(i, g)
            _clip(cells[t + 1], clips[0])
            torch.tanh(cells[t + 1], out=squashed[t])
            torch.mm((o * squashed[t]).to(P.dtype), P.t(), out=states[t + 1])
            _clip(states[t + 1], clips[1])
        found = (active, *before, states, cells, squashed)
        ctx.save_for_backward(U, P, *found, None if whole else keep)
        ctx.clips = clips
        return states[1:], states[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor, dh: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        U, P, active, before_h, before_c, states, cells, squashed, keep = ctx.saved_tensors
        exact = cells.dtype
        d_gates, d_projected = torch.empty_like(active), torch.empty_like(before_h)
        dh = dh.to(exact)
        for t in range(len(active) - 1, -1, -1):
            i, f, g, o = active[t].to(exact).chunk(4, 1)
            di, df, dg, do = d_gates[t].chunk(4, 1)
            d_projected[t] = _unclipped(dh + d_states[t], states[t + 1], ctx.clips[1])
            d_out = (d_projected[t] @ P).to(exact)
            dc = dc + d_out * o * (1 - squashed[t] ** 2)
            dc = _unclipped(dc, cells[t + 1], ctx.clips[0])
            di.copy_(dc * g * i * (1 - i))
            df.copy_(dc * before_c[t] * f * (1 - f))
            dg.copy_(dc * i * (1 - g**2))
            do.copy_(d_out * squashed[t] * o * (1 - o))
            dc = dc * f
            dh = (d_gates[t] @ U).to(exact)
            if keep is not None:
                dc, dh = dc * keep[t, :, None], dh * keep[t, :, None]
        d_U = d_gates.flatten(0, 1).t() @ before_h.flatten(0, 1)
        out = (active[..., 3 * P.shape[1] :] * squashed).to(P.dtype)
        d_P = d_projected.flatten(0, 1).t() @ out.flatten(0, 1)
        return d_gates, d_U, d_P, dh.to(before_h.dtype), dc, None, None


def _clip(values: Tensor, limit: float) -> None:
    """In place, to a size; 0 for no limit."""
    if limit:
        values.clamp_(-limit, limit)


def _unclipped(slope: Tensor, values: Tensor, limit: float) -> Tensor:
    """The gradient of what came out as ``values``, before it was clipped."""
    return slope * (values.abs() < limit) if limit else slope
