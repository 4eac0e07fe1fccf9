"""What holds of every recurrent layer that carries a state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def check_new_starts(made: Any, state: tuple[Tensor, ...]) -> None:
    """Where one of two sequences starts anew nothing is carried, and the other goes on.

    Args:
        made: a layer of 5 inputs, in 64 bits.
        state: of two sequences, before the first step.
    """
    x = torch.randn(7, 2, 5, dtype=torch.float64)
    keep = torch.ones(7, 2, dtype=torch.bool)
    keep[3, 0] = False
    states, last = made(x, state, keep)
    first, _ = made(x[:3], state)
    anew, ended = made(x[3:, :1], made.start(1))
    on, going = made(x[:, 1:], tuple(part[1:] for part in state))
    torch.testing.assert_close(states[:, :1], torch.cat([first[:, :1], anew]))
    torch.testing.assert_close(states[:, 1:], on)
    for part, a, b in zip(last, ended, going, strict=True):
        torch.testing.assert_close(part, torch.cat([a, b]))
