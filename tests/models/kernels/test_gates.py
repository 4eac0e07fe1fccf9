"""The compiled steps of an LSTM against torch's, in both kinds of numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models import recurrent
from models.recurrent import Recurrent

kinds = pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)


def trained(kind: torch.dtype, *, kernels: bool, scale: float = 1.0) -> list[Tensor]:
    """States, the last state and all gradients of a layer, some sequences beginning anew."""
    layer = Recurrent("lstm", 5, 19)
    layer.initialize(torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    x = (scale * torch.randn(6, 3, 5)).requires_grad_()
    keep = torch.ones(6, 3, dtype=torch.bool)
    keep[2, 1] = keep[4, 0] = False
    state = (0.5 * torch.randn(3, 19)).requires_grad_(), torch.randn(3, 19).requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        if not kernels:
            patch.setattr(recurrent, "_has_kernels", lambda *_: False)
        with torch.autocast("cpu", torch.bfloat16, kind == torch.bfloat16):
            states, last = layer(x, state, keep)
        total = (states * torch.randn(6, 3, 19)).sum() + sum(part.float().sum() for part in last)
        gradients = torch.autograd.grad(total, [x, *state, *layer.parameters()])
    return [states, *last, *gradients]


@kinds
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_a_layer_by_kernels_is_that_of_torch(kind: torch.dtype, scale: float) -> None:
    found = trained(kind, kernels=True, scale=scale)
    # A number that lies between two of bfloat16 may be rounded to the other one.
    rounding = 2**-7 if kind == torch.bfloat16 else 2e-6
    for ours, theirs in zip(found, trained(kind, kernels=False, scale=scale), strict=True):
        assert ours.dtype == theirs.dtype
        error = float((ours.detach().double() - theirs.detach().double()).abs().max())
        assert error <= rounding * float(theirs.detach().abs().max())


@kinds
def test_tanh_and_sigmoid_far_out_and_near_zero(kind: torch.dtype) -> None:
    """One step with all sums of the gates equal: i tanh(x) is the cell."""
    from models.kernels.gates import lstm_forward

    x = torch.tensor([0.0, 1e-30, 1e-4, 0.2499, 0.2501, 3.0, 88.0, 1e30, torch.inf])
    x = torch.cat([x, -x, torch.tensor([torch.nan])]).to(kind)
    gates, n = x.repeat(4)[None, None], len(x)
    cells, states = torch.zeros(2, 1, n), torch.zeros(2, 1, n, dtype=kind)
    squashed = torch.zeros(1, 1, n)
    arrays = gates.clone(), cells[:1], cells, squashed, states
    lstm_forward(0, *(recurrent._numbers(array) for array in arrays))
    sigmoid, tanh = torch.sigmoid(x), torch.tanh(x)
    expected = sigmoid.float() * tanh.float()
    torch.testing.assert_close(cells[1, 0], expected, rtol=1e-6, atol=1e-37, equal_nan=True)
    torch.testing.assert_close(
        squashed[0, 0], torch.tanh(expected), rtol=1e-6, atol=1e-37, equal_nan=True
    )
    assert torch.isnan(states[1, 0, -1])
