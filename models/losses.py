"""Losses of a linear layer over a vocabulary, exact and sampled, without a big float32 table.

``linear_cross_entropy`` is the full softmax: layer, normalization and loss in one, a few rows at a
time, with the gradient made in the same pass. The rest trains on a handful of noise words in place
of the vocabulary: noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012),
negative sampling (Mikolov et al. 2013), importance sampling (Bengio and Senecal 2003, with the
target among the sampled words as in Jean et al. 2015). The noise is shared by a batch, so that it
takes one product of matrices (Zoph et al. 2016).

Shapes: ``B`` examples, ``D`` width, ``V`` vocabulary, ``K`` noise words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

AT_ONCE = 1 << 25
"""Bytes of logits that are in memory at a time, about. With 1,120 rows of 14,116 words, a half took
an eighth more time, a quarter a sixth: each part adds its gradient of the weights to the whole."""

Objective = Literal["softmax", "nce", "negative-sampling", "importance-sampling"]


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Summed negative log-likelihood of ``softmax(hidden @ weight.T + bias)``, in nats.

    Products have the type of ``hidden`` (bfloat16 under autocast) and sum up in the hardware's
    float32; gradients have the types of their tensors. A bias of -inf takes a word out.

    Args:
        hidden: (B, D); B may be 0.
        weight: (V, D).
        bias: (V,).
        targets: (B,) of ids.

    Returns:
        a scalar, at least float32; it can be differentiated once.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        loss: Tensor = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, torch.is_grad_enabled()
        )
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    """The gradient needs what the loss has at hand, so it is made with it and kept until asked."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, learns: bool
    ) -> Tensor:
        kind, n = hidden.dtype, len(weight)
        exact = torch.promote_types(kind, torch.float32)
        rows = max(1, AT_ONCE // (n * hidden.element_size()))
        narrow, offset = weight.to(kind), bias.to(kind)
        loss = torch.zeros((), dtype=exact, device=hidden.device)
        d_hidden = torch.empty_like(hidden)
        d_weight, d_bias = torch.zeros((), dtype=weight.dtype), torch.zeros_like(bias)
        for first in range(0, len(hidden), rows):
            h = hidden[first : first + rows]
            own = targets[first : first + rows] + n * torch.arange(len(h), device=h.device)
            logits = torch.addmm(offset, h, narrow.t())
            # The log of the sum is the highest logit less the log of its share, which never is 0.
            lead = logits.amax(1).to(exact) - logits.view(-1)[own].to(exact)
            p = torch.softmax(logits, 1, out=logits)
            loss += (lead - p.amax(1).to(exact).log()).sum()
            if learns:
                p.view(-1)[own] -= 1
                torch.mm(p, narrow, out=d_hidden[first : first + rows])
                product = p.t() @ h
                d_weight = product.to(weight.dtype) if first == 0 else d_weight.add_(product)
                # A product sums the columns in float32 whatever their type, and fast.
                d_bias += (p.new_ones(1, len(h)) @ p)[0]
        if learns:
            d_weight = d_weight if len(hidden) else torch.zeros_like(weight)
            ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        gradients: tuple[Tensor, ...] = ctx.saved_tensors
        # A loop that differentiates the sum itself spares a pass over the weights.
        if slope.device.type != "cpu" or float(slope) != 1.0:
            gradients = tuple(g * slope.to(g.dtype) for g in gradients)
        return (*gradients, None, None)


# --- sampled ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Noise:
    """Words drawn independently from a distribution q, for one batch.

    Attributes:
        words: (K,) ids; they may repeat, and be targets too.
        log_q: (K,) nats.
        log_q_targets: (B,) nats of the targets under the same distribution.
    """

    words: Tensor
    log_q: Tensor
    log_q_targets: Tensor


def sampled_loss(
    objective: Objective,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    noise: Noise,
    log_normalizer: Tensor | None = None,
) -> Tensor:
    """The summed sampled objective in nats: a bound or an estimate, never a likelihood.

    * ``nce`` tells the target from K noise words: its scores tend to the log-probabilities, shifted
      by ``log_normalizer`` (0 if None: the scores learn to be normalized by themselves).
    * ``negative-sampling`` leaves q out: its scores tend to log(p / (K q)), so a softmax of them
      is no estimate of p. It makes word vectors, not a language model.
    * ``importance-sampling`` is the softmax with its sum estimated from the noise. The estimate of
      the sum is unbiased, that of its logarithm and of the gradient are biased for small K.

    Args:
        objective: one of the three.
        hidden: (B, D).
        weight: (V, D).
        bias: (V,).
        targets: (B,) of ids.
        noise: of this batch.
        log_normalizer: (1,), of NCE; None for 0.
    """
    if objective == "softmax":
        raise ValueError("the softmax takes no noise")
    kind, exact = hidden.dtype, torch.promote_types(hidden.dtype, torch.float32)
    own = (hidden * weight[targets].to(kind)).sum(1, dtype=exact) + bias[targets]
    others = F.linear(hidden, weight[noise.words].to(kind)).to(exact) + bias[noise.words]
    log_k = math.log(len(noise.words))
    if objective == "importance-sampling":
        same = noise.words[None, :] == targets[:, None]
        estimates = (others - noise.log_q - log_k).masked_fill(same, -torch.inf)
        total = torch.logsumexp(torch.cat([own[:, None], estimates], 1), 1)
        return (total - own).sum()
    if objective == "nce":
        shift = log_k if log_normalizer is None else log_k + log_normalizer
        own = own - noise.log_q_targets - shift
        others = others - noise.log_q - shift
    return F.softplus(-own).sum() + F.softplus(others).sum()
