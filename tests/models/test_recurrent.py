from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.recurrent import GATES, Cell, Recurrent, Reset, Stack, Update
from tests.models.carrying import check_new_starts

FORMS: list[tuple[Cell, Reset, Update]] = [
    ("elman", "after", "keep"),
    ("lstm", "after", "keep"),
    *(("gru", r, u) for r, u in itertools.product(("before", "after"), ("keep", "replace"))),
]  # type: ignore[list-item]
forms = pytest.mark.parametrize("form", FORMS, ids="-".join)


def layer(form: tuple[Cell, Reset, Update], inputs: int = 5, units: int = 4) -> Recurrent:
    made = Recurrent(form[0], inputs, units, reset=form[1], update=form[2]).double()
    made.initialize(torch.Generator().manual_seed(3))
    return made


def started(made: Recurrent, sequences: int) -> tuple[Tensor, ...]:
    torch.manual_seed(8)
    return tuple(torch.rand_like(part.double()) for part in made.start(sequences))


# --- by hand --------------------------------------------------------------------------------


def by_hand(cell: Cell, reset: Reset, update: Update) -> list[float]:
    """Two steps of one unit with the weights below, by the equations, with nothing but math."""
    W, U, b, u = [0.5, -0.4, 0.3, 0.8], [0.2, 0.7, -0.6, 0.1], [0.1, 0.2, -0.1, 0.05], 0.25

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    h, c, found = 0.3, -0.2, []
    for x in (1.0, -0.5):
        a = [W[k] * x + b[k] for k in range(4)]
        if cell == "elman":
            h = math.tanh(a[0] + U[0] * h)
        elif cell == "lstm":
            i, f, o = (sigmoid(a[k] + U[k] * h) for k in (0, 1, 3))
            c = f * c + i * math.tanh(a[2] + U[2] * h)
            h = o * math.tanh(c)
        else:
            r, z = sigmoid(a[0] + U[0] * h), sigmoid(a[1] + U[1] * h)
            inner = r * (U[2] * h + u) if reset == "after" else U[2] * (r * h)
            n = math.tanh(a[2] + inner)
            h = (1 - z) * n + z * h if update == "keep" else z * n + (1 - z) * h
        found.append(h)
    return found


@forms
def test_the_equations_by_hand(form: tuple[Cell, Reset, Update]) -> None:
    made = layer(form, inputs=1, units=1)
    rows = GATES[form[0]]
    with torch.no_grad():
        made.W[:, 0] = torch.tensor([0.5, -0.4, 0.3, 0.8])[:rows]
        made.U[:, 0] = torch.tensor([0.2, 0.7, -0.6, 0.1])[:rows]
        made.b[:] = torch.tensor([0.1, 0.2, -0.1, 0.05])[:rows]
        if made.u is not None:
            made.u[0] = 0.25
    state = tuple(torch.full((1, 1), value, dtype=torch.float64) for value in (0.3, -0.2))
    x = torch.tensor([1.0, -0.5], dtype=torch.float64)[:, None, None]
    states, _ = made(x, state[: len(made.start(1))])
    assert states.flatten().tolist() == pytest.approx(by_hand(*form), abs=1e-7)


# --- against torch --------------------------------------------------------------------------


def of_torch(made: Recurrent) -> Any:
    """Torch's layer with the same weights; its second bias is 0 but for the GRU's n."""
    kinds = {"elman": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
    other = kinds[made.cell](made.W.shape[1], made.units).double()
    with torch.no_grad():
        other.weight_ih_l0.copy_(made.W)
        other.weight_hh_l0.copy_(made.U)
        other.bias_ih_l0.copy_(made.b)
        other.bias_hh_l0.zero_()
        if made.u is not None:
            other.bias_hh_l0[2 * made.units :] = made.u
    return other


@pytest.mark.parametrize("cell", ["elman", "lstm", "gru"])
def test_values_and_gradients_are_those_of_torch(cell: Cell) -> None:
    made = layer((cell, "after", "keep"))
    other = of_torch(made)
    x = torch.randn(6, 3, 5, dtype=torch.float64, requires_grad=True)
    state = started(made, 3)
    states, last = made(x, state)
    first = tuple(part[None] for part in state)
    expected, final = other(x, first if cell == "lstm" else first[0])
    finals = final if cell == "lstm" else (final,)
    torch.testing.assert_close(states, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(last, finals, strict=True):
        torch.testing.assert_close(ours, theirs[0], rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(states)
    ours = [made.W, made.U, made.b, x]
    theirs = [other.weight_ih_l0, other.weight_hh_l0, other.bias_ih_l0, x]
    # The last states count too: they are what is carried on.
    found = torch.autograd.grad((states * weight).sum() + sum(p.sum() for p in last), ours)
    wanted = torch.autograd.grad((expected * weight).sum() + sum(p.sum() for p in finals), theirs)
    for gradient, reference in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-10, atol=1e-12)


@forms
def test_gradients_are_those_of_finite_differences(form: tuple[Cell, Reset, Update]) -> None:
    made = layer(form, inputs=2, units=3)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    state = tuple(part.requires_grad_() for part in started(made, 2))

    def states(x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        outputs, last = made(x, state)
        return (outputs, *last)

    assert torch.autograd.gradcheck(states, (x, *state))
    for parameter in made.parameters():

        def moved(value: Tensor, parameter: nn.Parameter = parameter) -> Tensor:
            held, parameter.data = parameter.data, value.data
            outputs, _ = made(x.detach(), tuple(part.detach() for part in state))
            parameter.data = held
            total: Tensor = outputs.detach().square().sum()
            return total

        total = made(x.detach(), tuple(p.detach() for p in state))[0].square().sum()
        (gradient,) = torch.autograd.grad(total, parameter)
        for k in range(parameter.numel()):
            step = torch.zeros_like(parameter).view(-1)
            step[k] = 1e-6
            up, down = (moved(parameter + s * step.view_as(parameter)) for s in (1, -1))
            slope = float(up - down) / 2e-6
            assert float(gradient.view(-1)[k]) == pytest.approx(slope, rel=1e-5, abs=1e-8)


# --- carrying on ----------------------------------------------------------------------------


@forms
def test_a_sequence_in_pieces_is_the_sequence(form: tuple[Cell, Reset, Update]) -> None:
    made = layer(form)
    x = torch.randn(7, 2, 5, dtype=torch.float64)
    whole, last = made(x, started(made, 2))
    first, state = made(x[:3], started(made, 2))
    nothing, state = made(x[3:3], state)
    second, state = made(x[3:], state)
    assert nothing.shape == (0, 2, 4)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(state, last, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@forms
def test_where_a_sequence_starts_anew_nothing_is_carried(form: tuple[Cell, Reset, Update]) -> None:
    made = layer(form)
    check_new_starts(made, started(made, 2))


@forms
def test_a_sequence_does_not_see_its_neighbours(form: tuple[Cell, Reset, Update]) -> None:
    made = layer(form)
    x, state = torch.randn(4, 3, 5, dtype=torch.float64), started(made, 3)
    together, _ = made(x, state)
    alone, _ = made(x[:, 1:2], tuple(part[1:2] for part in state))
    torch.testing.assert_close(together[:, 1:2], alone, rtol=1e-12, atol=1e-12)


@forms
def test_products_may_be_bfloat16(form: tuple[Cell, Reset, Update]) -> None:
    made = layer(form).float()
    x = torch.randn(9, 3, 5)
    exact, _ = made(x, made.start(3))
    with torch.autocast("cpu", torch.bfloat16):
        narrow, last = made(x, made.start(3))
    assert narrow.dtype == torch.bfloat16
    assert form[0] != "lstm" or last[1].dtype == torch.float32
    torch.testing.assert_close(narrow.float(), exact, rtol=0.05, atol=0.02)
    narrow.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in made.parameters())


@forms
def test_a_stack_leaves_out_between_layers_and_never_along_the_steps(
    form: tuple[Cell, Reset, Update],
) -> None:
    stack = Stack(form[0], 5, 40, 2, reset=form[1], update=form[2]).double()
    stack.initialize(torch.Generator().manual_seed(3))
    x, state = torch.randn(20, 3, 5, dtype=torch.float64), stack.start(3)
    torch.manual_seed(1)
    (first, second), after = stack(x, state, None, 0.4)
    parts = len(state) // 2
    whole, end = stack[0](x, state[:parts])
    above, last = stack[1](first, state[parts:])
    for given, left in ((whole, first), (above, second)):
        assert float((left == 0).double().mean()) == pytest.approx(0.4, abs=0.04)
        torch.testing.assert_close(left, torch.where(left == 0, 0.0, given / 0.6))
    for ours, theirs in zip(after, (*end, *last), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_forget_gate_begins_open() -> None:
    made = Recurrent("lstm", 2, 3)
    made.initialize(torch.Generator().manual_seed(1))
    assert made.b[3:6].tolist() == [1.0, 1.0, 1.0]
    assert float(made.W.abs().max()) <= 3**-0.5
