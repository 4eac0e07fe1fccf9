"""The optimizer of the loop: its rate, the scaling of gradients, and its state as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from models.family import Learns, Schedule
from tasks.training.checkpoint import Arrays, to_arrays, to_tensors


def rate_at(step: int, steps: int, schedule: Schedule) -> float:
    """The learning rate of a step, counted from 0: up over the warm-up, then down."""
    rising = math.ceil(schedule.warmup * steps)
    if step < rising:
        lowest, share = schedule.start, (step + 1) / rising
    elif schedule.decay > 0:
        return schedule.learning_rate / (1 + schedule.decay * step)
    else:
        lowest, share = schedule.floor, (steps - step) / max(1, steps - rising)
    if schedule.shape == "cosine":
        share = (1 - math.cos(math.pi * share)) / 2
    return schedule.learning_rate * (lowest + (1 - lowest) * share)


def optimizer_of(model: Learns) -> torch.optim.Optimizer:
    """The optimizer of a model's schedule over its parameter groups."""
    schedule = model.schedule
    groups = [{"rate": 1.0, **group} for group in model.parameter_groups()]
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(
            groups, schedule.learning_rate, momentum=schedule.momentum, fused=True
        )
    return torch.optim.AdamW(groups, schedule.learning_rate, betas=schedule.betas, fused=True)


def scale_gradients(optimizer: torch.optim.Optimizer, factor: float, clip: float) -> float:
    """Multiply all gradients, and again where their norm is over ``clip``.

    Returns:
        the norm before clipping.
    """
    gradients = [p.grad for p in _parameters(optimizer) if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients)) * factor
    if 0 < clip < norm:
        factor *= clip / norm
    torch._foreach_mul_(gradients, factor)
    return norm


# --- averages -----------------------------------------------------------------------------------
# They lie in the state of the optimizer, so that they are in checkpoints. While a model learns, it
# has its weights and the optimizer their averages; while it is asked or saved, the reverse.

AVERAGE = "average"


def starts_to_average(losses: Sequence[float], schedule: Schedule) -> bool:
    """Whether averaging begins with the last of the held-out losses (NT-ASGD, algorithm 1).

    It does when a loss is above the best of those more than ``average`` evaluations before it.
    """
    earlier = losses[: -1 - schedule.average]
    return schedule.average > 0 and len(earlier) > 0 and losses[-1] > min(earlier)


def average(optimizer: torch.optim.Optimizer, n: int) -> None:
    """Take the weights into the averages, as the last of ``n``."""
    for p in _parameters(optimizer):
        if n == 1:
            optimizer.state[p][AVERAGE] = p.detach().clone()
        else:
            optimizer.state[p][AVERAGE].lerp_(p.detach(), 1 / n)


def swap_averages(optimizer: torch.optim.Optimizer) -> None:
    """Put the averages, where there are any, in the place of the weights, and the reverse."""
    for p in _parameters(optimizer):
        if (other := optimizer.state.get(p, {}).get(AVERAGE)) is not None:
            weight = p.detach().clone()
            p.detach().copy_(other)
            other.copy_(weight)


@contextmanager
def averaged(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """The model has the averages meanwhile."""
    swap_averages(optimizer)
    try:
        yield
    finally:
        swap_averages(optimizer)


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (p for group in optimizer.param_groups for p in group["params"])


# --- as arrays ----------------------------------------------------------------------------------


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> Arrays:
    """The state of an optimizer, as ``<number of the parameter>.<name>``."""
    return to_arrays(
        {
            f"{number}.{name}": value
            for number, state in optimizer.state_dict()["state"].items()
            for name, value in state.items()
            if isinstance(value, Tensor)
        }
    )


def restore_optimizer(optimizer: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Set the state that ``optimizer_arrays`` took; rates and the like are the schedule's."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in to_tensors(arrays).items():
        number, name = key.split(".", 1)
        # The files hold no scalars: a count of steps comes back as a vector of one.
        state.setdefault(int(number), {})[name] = tensor.reshape(()) if name == "step" else tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
