"""Recurrent layers: Elman, LSTM, and the GRU in each of its published forms.

With ``x`` the input of a step, ``h`` the state before it, ``*`` the product element by element::

    Elman (1990), by tanh h' = tanh(W x + U h + b)

    LSTM (Hochreiter and Schmidhuber 1997; with the forget gate of Gers et al. 2000)
                          i, f, o = sigmoid(W x + U h + b)    g = tanh(W x + U h + b)
                          c' = f * c + i * g                  h' = o * tanh(c')

    GRU (Cho et al. 2014) r, z = sigmoid(W x + U h + b)
        reset "before"    n = tanh(W x + b + U (r * h))
        reset "after"     n = tanh(W x + b + r * (U h + u))           (cuDNN, torch)
        update "keep"     h' = (1 - z) * n + z * h                    (Cho et al. 2014, torch)
        update "replace"  h' = z * n + (1 - z) * h                    (Chung et al. 2014)

Rows of ``W``, ``U`` and ``b`` are stacked in torch's order: i, f, g, o and r, z, n, so that weights
pass from ours to ``torch.nn.LSTM`` and ``torch.nn.GRU`` and back as they are (their second bias
added to the first; of the GRU, only that of n is apart).

The products with ``W`` are one for all steps, so that only those with ``U`` go step by step. Under
autocast, products are bfloat16; what a state sums up over the steps (``c``) stays float32.

Shapes: ``T`` steps, ``B`` sequences, ``D`` inputs, ``H`` units, ``G`` gates (1, 4 or 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Cell = Literal["elman", "lstm", "gru"]
Reset = Literal["before", "after"]
Update = Literal["keep", "replace"]
State = tuple[Tensor, ...]
"""(B, H) each: the state h; of the LSTM also its cell c, in float32 at least."""

GATES: dict[Cell, int] = {"elman": 1, "lstm": 4, "gru": 3}


class Recurrent(nn.Module):
    """One layer in one direction.

    Attributes:
        W: (G H, D) weights of the input.
        U: (G H, H) weights of the state.
        b: (G H,) biases.
        u: (H,) the second bias of the GRU with its reset after the product; else None.
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        units: int,
        *,
        reset: Reset = "after",
        update: Update = "keep",
    ) -> None:
        super().__init__()
        self.cell, self.reset, self.update, self.units = cell, reset, update, units
        rows = GATES[cell] * units
        self.W = nn.Parameter(torch.zeros(rows, inputs))
        self.U = nn.Parameter(torch.zeros(rows, units))
        self.b = nn.Parameter(torch.zeros(rows))
        second = cell == "gru" and reset == "after"
        self.u = nn.Parameter(torch.zeros(units)) if second else None

    def initialize(self, generator: torch.Generator) -> None:
        """Uniform within 1 / sqrt(H), as torch has it; the LSTM's forget gate is open (bias 1).

        The open gate is from Jozefowicz, Zaremba and Sutskever (2015).
        """
        with torch.no_grad():
            for parameter in self.parameters():
                bound = self.units**-0.5
                parameter.uniform_(-bound, bound, generator=generator)
            if self.cell == "lstm":
                self.b[self.units : 2 * self.units] = 1.0

    def start(self, sequences: int) -> State:
        """The state before anything: zeros."""
        zeros = self.U.new_zeros(sequences, self.units)
        exact = torch.promote_types(zeros.dtype, torch.float32)
        return (zeros, zeros.to(exact)) if self.cell == "lstm" else (zeros,)

    def forward(
        self, x: Tensor, state: State, keep: Tensor | None = None, weight_drop: float = 0.0
    ) -> tuple[Tensor, State]:
        """(T, B, D) and the state before -> (T, B, H), the states h after each step, and the last.

        No step is skipped; sequences of different lengths are padded behind.

        Args:
            x: inputs.
            state: before the first step.
            keep: (T, B) bool, where a step goes on from the one before; it starts from zeros
                elsewhere. None: everywhere.
            weight_drop: the share of U that is left out, at random, by one mask for all steps
                (DropConnect, Wan et al. 2013; on U, Merity, Keskar and Socher 2017).
        """
        # The bias' own gradient is made with that of U, where a product sums it up.
        b = self.b.detach() if self.cell == "lstm" else self.b
        gates = F.linear(x, self.W, b)
        # Under autocast the product is narrower than the weights, and what follows is as narrow.
        U = F.dropout(self.U, weight_drop).to(gates.dtype)
        if self.cell == "lstm":
            h, c = state[0].to(gates.dtype), state[1]
            states, h, c = _Lstm.apply(  # type: ignore[no-untyped-call]
                gates, U, self.b, h, c, keep, torch.is_grad_enabled()
            )
            return states, (h, c)
        step = self._elman if self.cell == "elman" else self._gru
        h, outputs = state[0].to(gates.dtype), []
        cut = _cuts(keep, len(gates))
        for t, inputs in enumerate(gates.unbind(0)):
            h = step(inputs, h if keep is None or not cut[t] else h * keep[t, :, None], U)
            outputs.append(h)
        return torch.stack(outputs) if outputs else gates.new_zeros(0, len(h), self.units), (h,)

    def _elman(self, gates: Tensor, h: Tensor, U: Tensor) -> Tensor:
        return torch.tanh(torch.addmm(gates, h, U.t()))

    def _gru(self, gates: Tensor, h: Tensor, U: Tensor) -> Tensor:
        n = 2 * self.units
        if self.u is None:
            r, z = torch.sigmoid(torch.addmm(gates[:, :n], h, U[:n].t())).chunk(2, 1)
            new = torch.tanh(torch.addmm(gates[:, n:], r * h, U[n:].t()))
        else:
            product = h @ U.t()
            r, z = torch.sigmoid(gates[:, :n] + product[:, :n]).chunk(2, 1)
            new = torch.tanh(gates[:, n:] + r * (product[:, n:] + self.u.to(h.dtype)))
        return torch.lerp(new, h, z) if self.update == "keep" else torch.lerp(h, new, z)


class Stack(nn.Module):
    """Layers one on the other, in one direction."""

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        units: int,
        layers: int,
        *,
        reset: Reset = "after",
        update: Update = "keep",
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Recurrent(cell, units if k else inputs, units, reset=reset, update=update)
            for k in range(layers)
        )
        self._parts = 2 if cell == "lstm" else 1

    def __getitem__(self, k: int) -> Recurrent:
        layer = self.layers[k]
        assert isinstance(layer, Recurrent)
        return layer

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Recurrent]:
        return (self[k] for k in range(len(self)))

    def initialize(self, generator: torch.Generator) -> None:
        """See ``Recurrent.initialize``."""
        for layer in self:
            layer.initialize(generator)

    def start(self, sequences: int) -> State:
        """The state before anything, layer by layer."""
        return tuple(part for layer in self for part in layer.start(sequences))

    def forward(
        self,
        x: Tensor,
        state: State,
        keep: Tensor | None = None,
        dropout: float = 0.0,
        *,
        last: bool = True,
    ) -> tuple[list[Tensor], State]:
        """What comes out of each layer, (T, B, H), and the last state.

        Args:
            x: (T, B, D) inputs.
            state: before the first step, layer by layer.
            keep: see ``Recurrent.forward``.
            dropout: the share left out of what each layer gives (Zaremba et al. 2014: between
                layers, never along the steps).
            last: whether also of what the last one gives.
        """
        found, after = list[Tensor](), list[Tensor]()
        for k, layer in enumerate(self):
            own = state[k * self._parts : (k + 1) * self._parts]
            x, own = layer(x, own, keep)
            x = F.dropout(x, dropout if last or k + 1 < len(self) else 0.0)
            found.append(x)
            after += own
        return found, tuple(after)


def _cuts(keep: Tensor | None, steps: int) -> list[bool]:
    """(T,) whether some sequence starts anew at a step."""
    return [False] * steps if keep is None else (~keep).any(1).tolist()


class _Lstm(torch.autograd.Function):
    """All steps of an LSTM, with one product a step in each direction.

    What autograd would keep as a graph of some twenty operations a step is a few arrays here, and
    the gradient of U is one product over all steps. Between the products a compiled kernel goes
    over the elements once in training, where there is one; else torch does, which agrees to the
    last bits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        U: Tensor,
        b: Tensor,
        h: Tensor,
        c: Tensor,
        keep: Tensor | None,
        learns: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, cut = len(gates), _cuts(keep, len(gates))
        states = gates.new_empty(steps + 1, *h.shape)
        cells = c.new_empty(steps + 1, *c.shape)
        squashed = torch.empty_like(cells[1:])
        states[0], cells[0] = h, c
        before = (states[:-1], cells[:-1])
        if any(cut):
            before = (torch.empty_like(before[0]), torch.empty_like(before[1]))
        ctx.kernels = learns and _has_kernels(gates, c)
        step = _stepping(ctx.kernels, "lstm_forward", gates, before[1], cells, squashed, states)
        for t in range(steps):
            if keep is not None and any(cut):
                torch.mul(states[t], keep[t, :, None], out=before[0][t])
                torch.mul(cells[t], keep[t, :, None], out=before[1][t])
            # In place: nobody else looks at the sums.
            torch.addmm(gates[t], before[0][t], U.t(), out=gates[t])
            step(t)
        ctx.save_for_backward(U, gates, *before, squashed, keep if any(cut) else None)
        return states[1:], states[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_states: Tensor, dh: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        U, active, before_h, before_c, squashed, keep = ctx.saved_tensors
        d_gates, cut = torch.empty_like(active), _cuts(keep, len(active))
        dh, dc = dh.clone(), dc.clone()
        given = d_states.contiguous()
        step = _stepping(
            ctx.kernels, "lstm_backward", active, before_c, squashed, given, dh, dc, d_gates
        )
        for t in range(len(active) - 1, -1, -1):
            step(t)
            torch.mm(d_gates[t], U, out=dh)
            if keep is not None and cut[t]:
                dc *= keep[t, :, None]
                dh *= keep[t, :, None]
        return d_gates, *_gradients(d_gates, before_h), dh, dc, None, None


def _gradients(d_gates: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Of U and b over all steps: one product each, which sums up in float32 at least."""
    flat = d_gates.flatten(0, 1)
    return flat.t() @ before.flatten(0, 1), (flat.new_ones(1, len(flat)) @ flat)[0]


def _step(
    t: int, active: Tensor, before: Tensor, cells: Tensor, squashed: Tensor, states: Tensor
) -> None:
    """See ``models.kernels.gates.lstm_forward``."""
    i, f, g, o = active[t].chunk(4, 1)
    for gate in (i, f, o):
        gate.sigmoid_()
    g.tanh_()
    torch.mul(before[t], f, out=cells[t + 1]).addcmul_(i, g)
    torch.tanh(cells[t + 1], out=squashed[t])
    states[t + 1] = o * squashed[t]


def _back(
    t: int,
    active: Tensor,
    before: Tensor,
    squashed: Tensor,
    d_states: Tensor,
    d_later: Tensor,
    d_cell: Tensor,
    d_gates: Tensor,
) -> None:
    """See ``models.kernels.gates.lstm_backward``."""
    i, f, g, o = active[t].to(before.dtype).chunk(4, 1)
    di, df, dg, do = d_gates[t].chunk(4, 1)
    dh = d_later.to(before.dtype) + d_states[t]
    d_cell += dh * o * (1 - squashed[t] ** 2)
    di.copy_(d_cell * g * i * (1 - i))
    df.copy_(d_cell * before[t] * f * (1 - f))
    dg.copy_(d_cell * i * (1 - g**2))
    do.copy_(dh * squashed[t] * o * (1 - o))
    d_cell *= f


def _stepping(
    kernels: bool, name: Literal["lstm_forward", "lstm_backward"], *arrays: Tensor
) -> Callable[[int], None]:
    """The element-wise part of a step, by a kernel or by torch."""
    if not kernels:
        plain: Callable[..., None] = _step if name == "lstm_forward" else _back
        return lambda t: plain(t, *arrays)
    from models.kernels import gates

    kernel = getattr(gates, name)
    numbers = [_numbers(array) for array in arrays]
    return lambda t: kernel(t, *numbers)


def _has_kernels(gates: Tensor, c: Tensor) -> bool:
    """Whether training goes by the kernels: on a processor, and not in 64 bits."""
    narrow = gates.dtype in (torch.bfloat16, torch.float32)
    return gates.device.type == "cpu" and narrow and c.dtype == torch.float32


def _numbers(tensor: Tensor) -> NDArray[Any]:
    """The memory of a tensor, as the kernels want it."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    numbers: NDArray[Any] = tensor.detach().numpy()
    return numbers
