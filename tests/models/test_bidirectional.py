"""Layers in both directions against torch's, and what each of their states has seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.bidirectional import Bidirectional, combined, turned

SIZES = torch.tensor([6, 1, 4, 6, 2])


def layers(cell: Any, *, apart: bool, depth: int = 3) -> Bidirectional:
    made = Bidirectional(cell, 5, 4, depth, apart=apart).double()
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0.0, 0.6, generator=generator)
    return made


def given() -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(6, 5, 5, dtype=torch.float64, generator=generator)


def copy(ours: nn.Module, theirs: nn.Module, suffix: str) -> None:
    with torch.no_grad():
        getattr(theirs, f"weight_ih_{suffix}").copy_(ours.W)
        getattr(theirs, f"weight_hh_{suffix}").copy_(ours.U)
        getattr(theirs, f"bias_ih_{suffix}").copy_(ours.b)
        second = getattr(theirs, f"bias_hh_{suffix}")
        second.zero_()
        if ours.u is not None:
            second[-4:] = ours.u


def read(theirs: nn.Module, x: Tensor) -> Tensor:
    packed = pack_padded_sequence(x, SIZES, enforce_sorted=False)
    return pad_packed_sequence(theirs(packed)[0])[0]


@pytest.mark.parametrize("cell", ["elman", "lstm", "gru"])
def test_together_is_torchs_bidirectional_stack(cell: str) -> None:
    ours = layers(cell, apart=False)
    kind = {"elman": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
    theirs = kind(5, 4, 3, bidirectional=True).double()
    for k, (ahead, back) in enumerate(ours.pairs()):
        copy(ahead, theirs, f"l{k}")
        copy(back, theirs, f"l{k}_reverse")
    there = (torch.arange(6)[:, None] < SIZES)[..., None]
    found = torch.cat(ours(given(), SIZES)[-1], -1) * there
    torch.testing.assert_close(found, read(theirs, given()), rtol=0, atol=1e-12)


def test_apart_is_two_stacks_that_know_nothing_of_each_other() -> None:
    ours = layers("lstm", apart=True)
    there = (torch.arange(6)[:, None] < SIZES)[..., None]
    for direction in range(2):
        theirs = nn.LSTM(5, 4, 3).double()
        for k, pair in enumerate(ours.pairs()):
            copy(pair[direction], theirs, f"l{k}")
        x = given()
        if direction:
            x = torch.stack([x[:, i].flip(0).roll(int(SIZES[i]), 0) for i in range(5)], 1)
        expected = read(theirs, x)
        if direction:
            rows = [expected[:, i].flip(0).roll(int(SIZES[i]), 0) for i in range(5)]
            expected = torch.stack(rows, 1)
        found = ours(given(), SIZES)[-1][direction]
        torch.testing.assert_close(found * there, expected * there, rtol=0, atol=1e-12)


@pytest.mark.parametrize("apart", [True, False])
def test_what_a_state_has_seen(apart: bool) -> None:
    """Entry 3 is moved: apart, what is before it forward, and behind it backward, stays."""
    ours, x = layers("gru", apart=apart), given()
    other = x.clone()
    other[3, 0] += 1
    for k, (before, after) in enumerate(zip(ours(x, SIZES), ours(other, SIZES), strict=True)):
        for name, a, b in zip(("forward", "backward"), before, after, strict=True):
            moved = (a != b).any(-1)
            assert not moved[:, 1:].any()  # other sequences
            seen = range(3, 6) if name == "forward" else range(4)
            expected = [(apart is False and k > 0) or t in seen for t in range(6)]
            assert moved[:, 0].tolist() == expected, (name, k)


@pytest.mark.parametrize("apart", [True, False])
def test_what_is_padded_does_not_matter(apart: bool) -> None:
    ours, x = layers("lstm", apart=apart), given()
    there = torch.arange(6)[:, None] < SIZES
    noise = torch.where(there[..., None], x, torch.full_like(x, 9.0))
    for (f, b), (f2, b2) in zip(ours(x, SIZES), ours(noise, SIZES), strict=True):
        assert torch.equal(f[there], f2[there])
        assert torch.equal(b[there], b2[there])


def test_turned_and_combined_by_hand() -> None:
    assert turned(torch.tensor([3, 1]), 4).T.tolist() == [[2, 1, 0, 3], [0, 1, 2, 3]]
    f, b = torch.tensor([2.0, 3.0]), torch.tensor([4.0, -1.0])
    assert combined(f, b, "concatenation").tolist() == [2, 3, 4, -1]
    assert combined(f, b, "sum").tolist() == [6, 2]
    assert combined(f, b, "average").tolist() == [3, 1]
    assert combined(f, b, "product").tolist() == [8, -3]
