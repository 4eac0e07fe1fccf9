"""The scalar mix by hand, and on a task of its own beside a model that does not move."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from models.elmo import Config
from models.scalar_mix import ScalarMix, frozen
from models.text import Sentences
from tests.models.test_nplm import inputs

CLASSES = {
    "red": 0,
    "old": 0,
    "big": 0,
    "dog": 1,
    "hen": 1,
    "fox": 1,
    "ran": 2,
    "sat": 2,
    "sang": 2,
}


def test_by_hand() -> None:
    mix = ScalarMix(3).double()
    layers = [torch.tensor([[x, 2.0]], dtype=torch.float64) for x in (1.0, 4.0, 7.0)]
    assert mix(layers)[0].tolist() == pytest.approx([4.0, 2.0])  # the mean, at the start
    with torch.no_grad():
        mix.s[:] = torch.log(torch.tensor([1.0, 2.0, 1.0]))
        mix.gamma[0] = 10.0
    assert mix.weights.tolist() == pytest.approx([0.25, 0.5, 0.25])
    assert mix(layers)[0].tolist() == pytest.approx([40.0, 20.0])


def test_normalized_each_token_by_itself_in_each_layer() -> None:
    torch.manual_seed(1)
    layers = [torch.randn(5, 8, dtype=torch.float64) * scale + 3 for scale in (1, 50)]
    mix = ScalarMix(2, normalize=True).double()
    norm = nn.LayerNorm(8, elementwise_affine=False).double()
    expected = (norm(layers[0]) + norm(layers[1])) / 2
    torch.testing.assert_close(mix(layers), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mix([h[2:3] for h in layers]), expected[2:3])


def test_the_gradient_is_that_of_finite_differences() -> None:
    for normalize in (False, True):
        mix = ScalarMix(3, normalize=normalize).double()
        layers = [torch.randn(4, 5, dtype=torch.float64, requires_grad=True) for _ in range(3)]

        def mixed(
            s: torch.Tensor, gamma: torch.Tensor, *h: torch.Tensor, mix: ScalarMix = mix
        ) -> torch.Tensor:
            found: torch.Tensor = torch.func.functional_call(mix, {"s": s, "gamma": gamma}, (h,))
            return found

        given = [torch.randn(3), torch.randn(1)]
        assert torch.autograd.gradcheck(
            mixed, [*(g.double().requires_grad_() for g in given), *layers]
        )


def test_layers_of_other_numbers_or_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="2 layers of"):
        ScalarMix(3)([torch.zeros(1, 2)] * 2)
    with pytest.raises(ValueError, match=r"\(1, 2\), \(1, 3\)"):
        ScalarMix(2)([torch.zeros(1, 2), torch.zeros(1, 3)])


@pytest.mark.parametrize("task", ["of the word", "of the word before"])
def test_a_task_learns_the_mix_and_the_language_model_stays(task: str) -> None:
    """What a word is stands in the lowest layer; what is before it only in those above."""
    rng = np.random.default_rng(5)
    words = list(CLASSES)
    sentences = [rng.choice(words, 9).tolist() for _ in range(120)]
    config = Config(
        cells=96, units=32, char_embedding=6, widths=(1, 2, 3), filters=(8, 16, 16),
        character_min_count=1, min_count=1, objective="softmax",
    )  # fmt: skip
    model = config.build(inputs(sentences), seed=4)
    text = Sentences.of(model.vocabulary, sentences)
    before = {name: array.copy() for name, array in model.state().items()}
    layers = frozen(model, text)
    own = torch.tensor([CLASSES[w] for s in sentences for w in s])
    tags = own if task == "of the word" else torch.roll(own, 1)
    asked = torch.ones(len(own), dtype=torch.bool)
    asked[torch.from_numpy(text.starts[:-1])] = task == "of the word"  # nothing is before a first
    torch.manual_seed(2)
    mix, tagger = ScalarMix(len(layers), normalize=True), nn.Linear(64, 3)
    optimizer = torch.optim.Adam([*mix.parameters(), *tagger.parameters()], 0.03)
    train = asked & (torch.arange(len(own)) < 720)
    for _ in range(150):
        optimizer.zero_grad()
        logits = tagger(mix(layers))
        nn.functional.cross_entropy(logits[train], tags[train]).backward()
        optimizer.step()
    test = asked & (torch.arange(len(own)) >= 720)
    right = (logits.argmax(1) == tags)[test].float().mean()
    assert right > (0.95 if task == "of the word" else 0.6)  # by chance a third
    best = int(mix.weights.argmax())
    assert best == 0 if task == "of the word" else best > 0
    assert float(mix.weights.detach().sum()) == pytest.approx(1.0)
    assert all(p.grad is None for p in model.parameters())
    assert all(np.array_equal(before[n], a) for n, a in model.state().items())
