"""The LSTM with projection against its equations, torch's layer and finite differences."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.projected import Projected, ResidualStack
from tests.models.carrying import check_new_starts


def layer(inputs: int = 5, cells: int = 7, units: int = 3, **clips: float) -> Projected:
    made = Projected(inputs, cells, units, **clips).double()
    made.initialize(torch.Generator().manual_seed(3))
    return made


def started(made: Projected, sequences: int) -> tuple[Tensor, ...]:
    torch.manual_seed(8)
    return tuple(torch.rand_like(part.double()) for part in made.start(sequences))


@pytest.mark.parametrize("clips", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.15), (0.3, 0.15)])
def test_the_equations_by_hand(clips: tuple[float, float]) -> None:
    """Three steps of two cells and one projected unit, with nothing but math."""
    made = layer(1, 2, 1, clip_cell=clips[0], clip_state=clips[1])
    W, U, b, P = (p.detach().tolist() for p in (made.W, made.U, made.b, made.P))

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    def clipped(x: float, limit: float) -> float:
        return max(-limit, min(limit, x)) if limit else x

    h, c, expected = 0.2, [0.5, -0.4], []
    for x in (1.0, -0.5, 2.0):
        a = [W[k][0] * x + U[k][0] * h + b[k] for k in range(8)]
        out = []
        for j in range(2):
            i, f, g, o = sigmoid(a[j]), sigmoid(a[2 + j]), math.tanh(a[4 + j]), sigmoid(a[6 + j])
            c[j] = clipped(f * c[j] + i * g, clips[0])
            out.append(o * math.tanh(c[j]))
        h = clipped(P[0][0] * out[0] + P[0][1] * out[1], clips[1])
        expected.append(h)
    state = tuple(torch.tensor([v], dtype=torch.float64) for v in ([0.2], [0.5, -0.4]))
    x = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)[:, None, None]
    states, (last, cell) = made(x, state)
    assert states.flatten().tolist() == pytest.approx(expected, abs=1e-12)
    assert (last.item(), *cell[0].tolist()) == pytest.approx((h, *c), abs=1e-12)


def test_values_and_gradients_are_those_of_torch() -> None:
    made = layer()
    other: Any = nn.LSTM(5, 7, proj_size=3).double()
    with torch.no_grad():
        other.weight_ih_l0.copy_(made.W)
        other.weight_hh_l0.copy_(made.U)
        other.weight_hr_l0.copy_(made.P)
        other.bias_ih_l0.copy_(made.b)
        other.bias_hh_l0.zero_()
    x = torch.randn(6, 4, 5, dtype=torch.float64, requires_grad=True)
    h, c = (part.requires_grad_() for part in started(made, 4))
    states, last = made(x, (h, c))
    expected, finals = other(x, (h[None], c[None]))
    torch.testing.assert_close(states, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(last, finals, strict=True):
        torch.testing.assert_close(ours, theirs[0], rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(states)
    found = torch.autograd.grad(
        (states * weight).sum() + sum(p.sum() for p in last),
        [made.W, made.U, made.P, made.b, x, h, c],
    )
    theirs = (other.weight_ih_l0, other.weight_hh_l0, other.weight_hr_l0, other.bias_ih_l0)
    wanted = torch.autograd.grad(
        (expected * weight).sum() + sum(p.sum() for p in finals), [*theirs, x, h, c]
    )
    for gradient, reference in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("clips", [(0.0, 0.0), (0.3, 0.04)], ids=["free", "clipped"])
def test_gradients_are_those_of_finite_differences(clips: tuple[float, float]) -> None:
    """Of all that it is given, its weights and a sequence that starts anew among it."""
    made = layer(2, 4, 3, clip_cell=clips[0], clip_state=clips[1])
    keep = torch.tensor([[True, True], [True, False], [True, True], [False, True]])
    x = torch.randn(4, 2, 2, dtype=torch.float64)
    values = [x, *started(made, 2), made.W, made.U, made.b, made.P]
    given = [value.detach().clone().requires_grad_() for value in values]

    def states(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip("WUbP", weights, strict=True))
        outputs, last = torch.func.functional_call(made, named, (x, (h, c), keep))
        return (outputs, *last)

    outputs, (_, cell) = made(x, (given[1], given[2]), keep)
    if clips[0]:  # some are clipped, not all
        assert 0 < int((outputs.abs() >= clips[1]).sum()) < outputs.numel()
        assert 0 < int((cell.abs() >= clips[0]).sum()) < cell.numel()
    assert torch.autograd.gradcheck(states, given)


def test_where_a_sequence_starts_anew_nothing_is_carried() -> None:
    made = layer()
    check_new_starts(made, started(made, 2))


def test_a_sequence_in_pieces_is_the_sequence() -> None:
    made = layer(clip_cell=0.5)
    x = torch.randn(7, 2, 5, dtype=torch.float64)
    whole, last = made(x, started(made, 2))
    first, state = made(x[:3], started(made, 2))
    nothing, state = made(x[3:3], state)
    second, state = made(x[3:], state)
    assert nothing.shape == (0, 2, 3)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(state, last, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_what_is_left_out_of_what_a_layer_reads_is_left_out_of_what_is_added() -> None:
    stack, read = ResidualStack(30, 7, 3).double(), list[Tensor]()
    stack.initialize(torch.Generator().manual_seed(3))
    for made in stack:
        made.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    x = torch.randn(20, 3, 30, dtype=torch.float64)
    torch.manual_seed(1)
    found, _ = stack(x, stack.start(3), None, 0.4)
    every = zip(stack, [x, *found[:-1]], list(read), strict=True)
    for k, (made, given, left) in enumerate(every):
        assert float((left == 0).double().mean()) == pytest.approx(0.4, abs=0.04)
        torch.testing.assert_close(left, torch.where(left == 0, 0.0, given / 0.6))
        states, _ = made(left, made.start(3))
        torch.testing.assert_close(found[k], states + left if k else states)


def test_products_may_be_bfloat16() -> None:
    made = layer().float()
    x = torch.randn(9, 3, 5)
    exact, _ = made(x, made.start(3))
    with torch.autocast("cpu", torch.bfloat16):
        narrow, last = made(x, made.start(3))
    assert narrow.dtype == torch.bfloat16
    assert last[1].dtype == torch.float32
    torch.testing.assert_close(narrow.float(), exact, rtol=0.05, atol=0.02)
    narrow.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in made.parameters())
