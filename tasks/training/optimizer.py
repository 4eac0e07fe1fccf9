"""The optimizer of the loop: its rate, the scaling of gradients, and its state as arrays."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.family import Learns, Schedule
from tasks.training.checkpoint import Arrays, to_arrays, to_tensors


def rate_at(step: int, steps: int, schedule: Schedule) -> float:
    """The learning rate of a step, counted from 0: up over the warm-up, then down."""
    rising = math.ceil(schedule.warmup * steps)
    if step < rising:
        return schedule.learning_rate * (step + 1) / rising
    if schedule.decay > 0:
        return schedule.learning_rate / (1 + schedule.decay * step)
    left = (steps - step) / max(1, steps - rising)
    return schedule.learning_rate * (schedule.floor + (1 - schedule.floor) * left)


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
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients)) * factor
    if 0 < clip < norm:
        factor *= clip / norm
    torch._foreach_mul_(gradients, factor)
    return norm


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
