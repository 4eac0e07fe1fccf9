"""The gradients of one step, for the loop and for whatever else takes steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tasks.training.ranks import Place


@dataclass(frozen=True, eq=False)
class Passed:
    """What a rank's share of a global batch came to; the gradients are at the weights.

    Attributes:
        nll: summed nats.
        scored: tokens.
        rate: multiplies the learning rate of the step.
        carried: of each part, what its next batch goes on from.
    """

    nll: float
    scored: int
    rate: float
    carried: list[tuple[Tensor, ...]]


def backward(
    module: nn.Module,
    parts: Sequence[Any],
    carried: Sequence[tuple[Tensor, ...]],
    place: Place,
    precision: str,
) -> Passed:
    """Gradients of the summed objective of a rank's parts of a batch, one after another."""
    nll, scored, rate, after = 0.0, 0, 1.0, list[tuple[Tensor, ...]]()
    for i, part in enumerate(parts):
        with place.together(module, last=i + 1 == len(parts)):
            with torch.autocast(place.device.type, torch.bfloat16, precision == "bfloat16"):
                output = module(place.put(part), *carried[i])
            output.objective.backward()
        nll += float(output.nll_sum)
        scored += output.n_scored
        rate = output.rate
        after.append(output.carried)
    return Passed(nll, scored, rate, after)
