"""The losses of a linear layer against torch's own, and what the sampled ones tend to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from models import losses
from models.losses import Noise, Objective, linear_cross_entropy, sampled_loss


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows at a time, so that batches of the tests take several chunks."""
    monkeypatch.setattr(losses, "AT_ONCE", 4000)


def layer(
    kind: torch.dtype, n: int = 37, width: int = 8, words: int = 50
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator).to(kind)

    hidden, weight, bias = draw(n, width), draw(words, width), draw(words)
    targets = torch.randint(0, words, (n,), generator=generator)
    return (*(x.requires_grad_() for x in (hidden, weight, bias)), targets)


def test_the_published_example() -> None:
    """Scores 2.1, 1.2, 0.6, -0.2, -1.5; the loss is that of the first word."""
    scores = torch.tensor([2.1, 1.2, 0.6, -0.2, -1.5])
    hidden, weight = torch.ones(1, 1), scores[:, None]
    nll = [
        float(linear_cross_entropy(hidden, weight, torch.zeros(5), torch.tensor([i])))
        for i in range(5)
    ]
    assert np.exp(-np.array(nll)).round(3).tolist() == [0.569, 0.231, 0.127, 0.057, 0.016]
    assert nll[0] == pytest.approx(0.56, abs=0.005)


def test_the_gradient_is_the_slope() -> None:
    hidden, weight, bias, targets = layer(torch.float64, n=9, words=11)
    assert torch.autograd.gradcheck(
        lambda *given: linear_cross_entropy(*given, targets) * 0.7, (hidden, weight, bias)
    )


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(torch.float64, 1e-13), (torch.float32, 3e-6), (torch.bfloat16, 1e-2)],
    ids=str,
)
def test_it_is_the_cross_entropy_of_torch(kind: torch.dtype, tolerance: float) -> None:
    hidden, weight, bias, targets = layer(kind)
    ours = linear_cross_entropy(hidden, weight, bias, targets)
    (2 * ours).backward()
    found = [x.grad for x in (hidden, weight, bias)]
    exact = [x.detach().double().requires_grad_() for x in (hidden, weight, bias)]
    theirs = F.cross_entropy(F.linear(*exact), targets, reduction="sum")
    (2 * theirs).backward()
    assert ours.dtype == torch.promote_types(kind, torch.float32)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=tolerance)
    for gradient, parameter in zip(found, exact, strict=True):
        assert gradient is not None
        assert parameter.grad is not None
        assert gradient.dtype == kind
        error = (gradient.double() - parameter.grad).norm() / parameter.grad.norm()
        assert float(error) < tolerance


def test_float32_weights_under_bfloat16_get_float32_gradients() -> None:
    hidden, weight, bias, targets = layer(torch.float32)
    linear_cross_entropy(hidden.bfloat16(), weight, bias, targets).backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
    assert bias.grad is not None
    # The gradients of all words' biases cancel out, to the rounding of products.
    assert abs(float(bias.grad.sum())) < 0.05


def test_a_word_that_is_taken_out_has_no_part_and_extremes_stay_finite() -> None:
    hidden, weight, bias, targets = layer(torch.float32)
    targets = targets.clamp(min=1)
    out = torch.zeros(len(bias))
    out[0] = -torch.inf
    loss = linear_cross_entropy(hidden, weight, bias + out, targets)
    loss.backward()
    assert weight.grad is not None
    assert float(weight.grad[0].abs().sum()) == 0
    without = linear_cross_entropy(hidden, weight[1:], bias[1:], targets - 1)
    torch.testing.assert_close(loss, without)
    # Where the target's share is 0 in float32 its loss still is what it is.
    extreme = torch.tensor([[400.0], [0.0]])
    nll = linear_cross_entropy(torch.ones(1, 1), extreme, torch.zeros(2), torch.tensor([1]))
    assert float(nll) == pytest.approx(400.0)


def test_a_batch_without_rows_has_a_gradient_of_zero() -> None:
    hidden, weight, bias, targets = layer(torch.float32, n=0)
    linear_cross_entropy(hidden, weight, bias, targets).backward()
    for parameter in (weight, bias):
        assert parameter.grad is not None
        assert float(parameter.grad.abs().sum()) == 0


# --- sampled ----------------------------------------------------------------------------------

Q = torch.tensor([0.4, 0.3, 0.2, 0.1])
P = torch.tensor([0.1, 0.2, 0.3, 0.4])


def noise(n: int, targets: Tensor, seed: int) -> Noise:
    words = torch.multinomial(Q, n, True, generator=torch.Generator().manual_seed(seed))
    return Noise(words, Q.log()[words], Q.log()[targets])


def fitted(objective: Objective, shift: Tensor | None = None, n: int = 20) -> Tensor:
    """The biases that a context-free model of P ends with."""
    bias = torch.zeros(4, requires_grad=True)
    hidden, weight = torch.zeros(100, 1), torch.zeros(4, 1)
    targets = torch.repeat_interleave(torch.arange(4), (100 * P).long())
    free = [bias] if shift is None else [bias, shift]
    optimizer = torch.optim.SGD(free, 0.5)
    mean = torch.zeros(4)
    for step in range(1500):
        drawn = noise(n, targets, step)
        loss = sampled_loss(objective, hidden, weight, bias, targets, drawn, shift)
        optimizer.zero_grad()
        (loss / 100).backward()
        optimizer.step()
        mean += bias.detach() * (step >= 500) / 1000
    return mean


def test_nce_finds_the_log_probabilities_themselves() -> None:
    torch.testing.assert_close(fitted("nce"), P.log(), atol=0.05, rtol=0)


def test_a_learned_normalizer_takes_a_constant() -> None:
    shift = torch.zeros(1, requires_grad=True)
    bias = fitted("nce", shift)
    torch.testing.assert_close(torch.softmax(bias, 0), P, atol=0.02, rtol=0)
    assert float(shift.detach()) == pytest.approx(float(torch.logsumexp(bias, 0)), abs=0.25)
    assert float(shift.detach()) > 0.6


def test_importance_sampling_finds_the_probabilities() -> None:
    bias = fitted("importance-sampling", n=200)  # few words bias it
    torch.testing.assert_close(torch.softmax(bias, 0), P, atol=0.02, rtol=0)


def test_negative_sampling_finds_a_ratio_and_no_probability() -> None:
    bias = fitted("negative-sampling")
    torch.testing.assert_close(bias, (P / (20 * Q)).log(), atol=0.05, rtol=0)
    assert float((torch.softmax(bias, 0) - P).abs().max()) > 0.1
