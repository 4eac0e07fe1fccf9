"""The encoder of words against torch's convolution, and the family against what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.char_cnn import CharCnn, Highway
from models.characters import BEGIN, END, PAD, RESERVED
from tests.models.test_nplm import one_thread

__all__ = ["one_thread"]

LETTERS = 20
SIZES = (0, 1, 2, 3, 5, 8, 12, 300)


def random_words(sizes: Sequence[int], width: int = 0, seed: int = 1) -> Tensor:
    """Rows of words of so many characters between their two ends."""
    rng = np.random.default_rng(seed)
    rows = np.full((len(sizes), max(width, max(sizes, default=0) + 2)), PAD, np.int32)
    for row, size in zip(rows, sizes, strict=True):
        row[: size + 2] = [BEGIN, *rng.integers(1, RESERVED + LETTERS, size), END]
    return torch.from_numpy(rows)


def encoder(**settings: Any) -> CharCnn:
    given: dict[str, Any] = {"embedding": 4, "widths": (1, 2, 4, 7), "filters": (3, 5, 2, 6)}
    model = CharCnn(RESERVED + LETTERS, **{**given, **settings})
    generator = torch.Generator().manual_seed(3)
    model.initialize(generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.double()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_filters_against_a_convolution_of_each_word_alone(activation: Any) -> None:
    model, words = encoder(activation=activation), random_words(SIZES, width=310)
    g = {"tanh": torch.tanh, "relu": torch.relu}[activation]
    found = model.features(words)
    for row, word in zip(found, words, strict=True):
        own, expected = word[word != PAD].long(), []
        for w, weight, bias in zip(model.widths, model.filters, model.biases, strict=True):
            theirs = nn.Conv1d(4, len(bias), w).double()
            with torch.no_grad():
                theirs.weight.copy_(weight.view(len(bias), w, 4).transpose(1, 2))
                theirs.bias.copy_(bias)  # type: ignore[union-attr]
            x = model.C[own - 1].t()
            x = nn.functional.pad(x, (0, max(0, w - x.shape[1])))
            expected.append(g(theirs(x[None]))[0].amax(1))
        torch.testing.assert_close(row, torch.cat(expected), rtol=0, atol=1e-12)


def test_absurdity_gives_maps_of_8_7_and_6() -> None:
    """Kim et al. (2015), figure 1: filters of widths 2, 3, 4, before the two marks are there."""
    model = encoder(widths=(2, 3, 4), filters=(3, 4, 5))
    seen = list[tuple[int, int]]()
    linear = nn.functional.linear

    def spy(x: Tensor, *weights: Tensor) -> Tensor:
        y = linear(x, *weights)
        seen.append((y.shape[1], y.shape[2]))
        return y

    word = torch.tensor([[RESERVED + "abdirstuy".index(letter) for letter in "absurdity"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "linear", spy)
        assert model.features(word).shape == (1, 12)
    assert seen == [(8, 3), (7, 4), (6, 5)]


def test_a_highway_layer_by_its_equation() -> None:
    layer = Highway(6)
    layer.initialize(torch.Generator().manual_seed(1))
    assert (layer.b[6:] == -2).all()
    layer = layer.double()
    nn.init.normal_(layer.b)
    x = torch.randn(5, 6, dtype=torch.float64)
    (h, t), (c, d) = layer.W.chunk(2), layer.b.chunk(2)
    gate = 1 / (1 + (-(x @ t.t() + d)).exp())
    expected = gate * (x @ h.t() + c).clamp_min(0) + (1 - gate) * x
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-14)
    model = encoder(highways=2, projection=7)
    a, b = model.highways
    assert model.projection is not None
    words = random_words(SIZES)
    expected = b(a(model.features(words))) @ model.projection.t()
    torch.testing.assert_close(model(words), expected)
    assert model.width == 7
    assert encoder(highways=0).width == 16


def test_neither_padding_nor_the_words_beside_matter() -> None:
    model = encoder()
    words = random_words(SIZES * 40)
    together = model(words)
    assert torch.equal(model(random_words(SIZES * 40, width=400)), together)
    for i in (0, 1, 6, 7, 300):
        torch.testing.assert_close(model(words[i : i + 1]), together[i : i + 1], rtol=0, atol=1e-14)
    backwards = torch.arange(len(words) - 1, -1, -1)
    torch.testing.assert_close(model(words[backwards]), together[backwards], rtol=0, atol=1e-14)
    assert torch.isfinite(together).all()


def test_no_words_at_all_still_reach_every_weight() -> None:
    """A worker without text in a batch takes part in the exchange of gradients."""
    model = encoder(projection=3)
    found = model(random_words([], width=3))
    assert found.shape == (0, 3)
    found.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_under_autocast_products_are_bfloat16() -> None:
    model = encoder(highways=2, projection=5).float()
    words = random_words(SIZES)
    exact = model(words)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(words)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), exact, rtol=0.1, atol=0.1)
    found.float().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_analytic_against_numeric_gradients_of_the_encoder(activation: Any) -> None:
    model = encoder(highways=2, projection=5, activation=activation)
    words = random_words((0, 1, 3, 9), seed=4)
    slope = torch.randn(4, 5, dtype=torch.float64)

    def loss(*_: Tensor) -> Tensor:
        summed: Tensor = (model(words) * slope).sum()
        return summed

    assert torch.autograd.gradcheck(loss, tuple(model.parameters()), fast_mode=True)
