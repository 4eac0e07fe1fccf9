"""ELMo against torch's layers and each part against what it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.characters import BEGIN, END, MARKS, PAD
from models.elmo import Config, Elmo
from models.examples import START
from models.family import Inputs, Plan
from models.text import Sentences
from models.vocabulary import BOS, EOS
from tests.models.test_nplm import inputs
from tests.models.test_rnnlm import documents, epoch

SMALL = Config(
    cells=7, units=6, char_embedding=3, widths=(1, 3), filters=(4, 5), character_min_count=1,
    objective="softmax", batch_size=3, steps=4, dropout=0.0, min_count=2,
)  # fmt: skip
ONE = replace(SMALL, batch_size=1)
SAID = [["the", "cat", "xylophones", "a"], ["wind"], [], ["a", "zebu", "ships", "the", "cat", "."]]
"""Most of its words are <unk> to the softmax, some of their characters unknown."""


def built(config: Config, given: Inputs | None = None, seed: int = 3) -> Elmo:
    """A model whose weights are larger than at the start, so that all of them count."""
    model = config.build(given or inputs(min_count=2), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.double()


# --- the whole model against torch's layers -----------------------------------------------------


def of_torch(layer: Any) -> Any:
    """Torch's layer with the same weights; it clips nothing."""
    other: Any = nn.LSTM(layer.W.shape[1], layer.cells, proj_size=layer.units).double()
    with torch.no_grad():
        other.weight_ih_l0.copy_(layer.W)
        other.weight_hh_l0.copy_(layer.U)
        other.weight_hr_l0.copy_(layer.P)
        other.bias_ih_l0.copy_(layer.b)
        other.bias_hh_l0.zero_()
    return other


def clipped(layer: Any, cell: float, state: float) -> Any:
    """The equations of a layer step by step, with limits."""

    def read(x: Tensor) -> tuple[Tensor]:
        h, c, found = x.new_zeros(1, layer.units), x.new_zeros(1, layer.cells), []
        for step in x:
            gates = step @ layer.W.t() + h @ layer.U.t() + layer.b
            i, f, g, o = gates.chunk(4, 1)
            c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).clamp(-cell, cell)
            h = ((o.sigmoid() * c.tanh()) @ layer.P.t()).clamp(-state, state)
            found.append(h)
        return (torch.stack(found),)

    return read


def word(model: Elmo, written: str) -> Tensor:
    """(R,) a word by convolutions, highway layers and the projection."""
    table = model.characters.characters
    middle = [MARKS[written]] if written in (BOS, EOS) else [
        7 + table.index(c) if c in table else 1 for c in written
    ]  # fmt: skip
    characters = torch.tensor([BEGIN, *middle, END])
    encoder = model.encoder
    embedded = F.embedding(characters - 1, encoder.C)
    if len(embedded) < max(model.config.widths):
        embedded = F.pad(embedded, (0, 0, 0, max(model.config.widths) - len(embedded)))
    assert PAD == 0
    found = []
    for width, weight, bias in zip((1, 3), encoder.filters, encoder.biases, strict=True):
        kernel = weight.view(len(weight), width, -1).transpose(1, 2)
        scores = F.conv1d(embedded.t()[None], kernel, bias)
        found.append(torch.relu(scores[0].amax(1)))
    y = torch.cat(found)
    for layer in encoder.highways:
        (W_h, W_t), (b_h, b_t) = layer.W.chunk(2), layer.b.chunk(2)
        t = torch.sigmoid(W_t @ y + b_t)
        y = t * torch.relu(W_h @ y + b_h) + (1 - t) * y
    return encoder.projection @ y


@pytest.mark.parametrize(
    ("boundary", "clips"),
    [("sentence", (0.0, 0.0)), ("document", (0.0, 0.0)), ("document", (0.2, 0.1))],
)
def test_probabilities_and_vectors_against_torch(boundary: Any, clips: tuple[float, float]) -> None:
    model = built(replace(SMALL, boundary=boundary, clip_cell=clips[0], clip_state=clips[1]))
    text = Sentences.of(model.vocabulary, SAID)
    if boundary == "document":
        text = replace(text, documents=np.array([0, 2, 4]))
        units = [[*SAID[0], EOS, *SAID[1], EOS], [*SAID[2], EOS, *SAID[3], EOS]]
    else:
        units = [[*sentence, EOS] for sentence in SAID]
    ahead, back = (
        [clipped(layer, *clips) if any(clips) else of_torch(layer) for layer in model.stack(i)]
        for i in range(2)
    )
    scores: tuple[list[float], list[float]] = ([], [])
    vectors: list[list[Tensor]] = [[], [], []]
    for unit in units:
        ids = [2 if w == EOS else model.vocabulary.id(w) for w in unit]
        lines = unit[:-1], unit[-2::-1]
        sides = []
        for line, stack, own, predicted in (
            (lines[0], ahead, scores[0], ids),
            (lines[1], back, scores[1], [*ids[-2::-1], 2]),
        ):
            x = torch.stack([word(model, w) for w in (BOS, *line)])
            first = stack[0](x[:, None])[0][:, 0]
            second = stack[1](first[:, None])[0][:, 0] + first
            logits = second @ model.output.W.t() + model.output.b  # type: ignore[union-attr]
            logits[:, START] = -torch.inf
            nats = torch.log_softmax(logits, 1)[torch.arange(len(unit)), predicted].tolist()
            own += nats if stack is ahead else [*nats[-2::-1], nats[-1]]
            sides.append([states[1:] for states in (x, first, second)])
        tokens = [i for i, w in enumerate(unit[:-1]) if w != EOS]
        for layer, f, b in zip(vectors, sides[0], sides[1], strict=True):
            layer += [torch.cat([f[i], b.flip(0)[i]]) for i in tokens]
    np.testing.assert_allclose(model.log_prob(text), scores[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.log_prob_backward(text), scores[1], rtol=0, atol=1e-12)
    assert model.layers == ("characters", "1", "2")
    for layer, wanted in zip(model.token_vectors(text), vectors, strict=True):
        assert layer.dtype == np.float32
        expected = torch.stack(wanted).detach().numpy()
        np.testing.assert_allclose(layer, expected, rtol=1e-5, atol=1e-6)


def test_the_lowest_layer_is_twice_the_word_vector_of_any_word() -> None:
    model = built(SMALL)
    words = ["the", "xylophones", "xylophone", "ŋ", "x" * 300, "<unk>"]
    (lowest, *others) = model.token_vectors(Sentences.of(model.vocabulary, [words]))
    alone = model.word_vectors(words)
    assert alone.shape == (6, 6)
    assert np.array_equal(lowest, np.concatenate([alone, alone], 1))
    assert len(np.unique(alone.round(4), axis=0)) == 6
    # Above it, the same word between others is another vector.
    twice = model.token_vectors(Sentences.of(model.vocabulary, [["the", "old", "the"]]))
    assert np.array_equal(twice[0][0], twice[0][2])
    assert all(np.abs(layer[0] - layer[2]).max() > 1e-3 for layer in twice[1:])
    assert [layer.shape for layer in others] == [(6, 12), (6, 12)]


def test_unknown_words_are_told_apart_by_their_spelling() -> None:
    model = built(SMALL)
    first, second = (
        model.log_prob(Sentences.of(model.vocabulary, [["the", unknown, "cat"]]))
        for unknown in ("walrus", "zebras")
    )
    assert np.array_equal(first[:2], second[:2])  # both are predicted as <unk>
    assert not np.isclose(first[2], second[2])
    merged = Sentences.of(model.vocabulary, [["the", "walrus", "cat"]])
    assert np.isfinite(model.log_prob(replace(merged, written=None))).all()


# --- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", ["sentence", "document"])
def test_an_epoch_in_one_stream_is_the_probability_of_the_text_in_both_directions(
    boundary: Any,
) -> None:
    """Carried over batches of four steps, and cut at every unit."""
    given = documents(inputs(partitions=2, min_count=2))
    model = built(replace(ONE, boundary=boundary), given)
    total, scored = epoch(model, given)  # type: ignore[arg-type]
    texts = list(given.tokens().under(model.vocabulary))
    said = [f(text) for f in (model.log_prob, model.log_prob_backward) for text in texts]
    assert scored == sum(len(s) for s in said)
    assert total == pytest.approx(-float(np.concatenate(said).sum()), abs=1e-9)


def test_ranks_share_out_the_streams_and_nothing_changes() -> None:
    given = documents(inputs(min_count=2))
    model = built(replace(SMALL, batch_size=5), given)
    once = epoch(model, given)  # type: ignore[arg-type]
    for world in (2, 3, 7):
        assert epoch(model, given, world) == pytest.approx(once, abs=1e-9)  # type: ignore[arg-type]


def test_each_distinct_word_of_a_batch_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = documents(inputs(min_count=2))
    model = built(SMALL, given)
    read = list[int]()
    forward = model.encoder.forward
    monkeypatch.setattr(model.encoder, "forward", lambda x: (read.append(len(x)), forward(x))[1])
    (text,) = given.tokens().partitions
    batch = next(model.batches(given, Plan(1)))
    model(batch)
    forms = [*model.vocabulary.entries, *(w for w in text.types if w not in model.vocabulary)]
    spelt = {forms[i] for places in (batch[2], batch[4]) for i in batch[0][places].flatten()}
    assert read == [len(spelt)]
    assert len(spelt) < batch[2].numel() + batch[4].numel()
    assert BOS in spelt


def test_the_sampled_softmax_tends_to_the_full_one_and_is_full_where_text_is_held_out() -> None:
    given = documents(inputs(min_count=2))
    full = built(SMALL, given)
    for by in ("counts", "ranks"):
        config = replace(SMALL, objective="sampled-softmax", noise=20_000, noise_by=by)
        sampled = Elmo(config, full.vocabulary, full.characters).double()
        sampled.load_state_dict(full.state_dict())
        assert sampled.schedule.sampled
        for role, rel in (("train", 0.02), ("heldout", 1e-9)):
            plan = Plan(1, role=role)  # type: ignore[arg-type]
            found, exact = (
                [float(model(batch).objective.detach()) for batch in model.batches(given, plan)]
                for model in (sampled, full)
            )
            assert found == pytest.approx(exact, rel=rel)


def test_noise_by_ranks_is_log_uniform() -> None:
    given = inputs(min_count=2)
    model = built(replace(SMALL, objective="sampled-softmax", noise_by="ranks"), given)
    weights, power = model._noise_weights(given.tokens())
    counts = {word: 1 + w for word, w in zip(model.vocabulary.entries, weights, strict=True)}
    assert power == 1.0
    assert counts["<unk>"] == pytest.approx(np.log(3 / 2))  # the second, after "the"
    assert counts["the"] == pytest.approx(np.log(2))
    assert min(counts, key=lambda w: counts[w]) == BOS


@pytest.mark.parametrize("objective", ["softmax", "sampled-softmax"])
def test_analytic_against_numeric_gradients(objective: Any) -> None:
    given = documents(inputs(min_count=2))
    config = replace(SMALL, objective=objective, highways=1)
    model = built(replace(config, noise=9) if objective != "softmax" else config, given)
    batches = list(model.batches(given, Plan(1)))[:2]
    carried = model(batches[0]).carried
    model(batches[1], *carried).objective.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in {0, len(flat) // 2, int(slope.abs().argmax())}:
            ends = []
            for step in (1e-5, -1e-5):
                flat[i] += step
                ends.append(float(model(batches[1], *carried).objective.detach()))
                flat[i] -= step
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(slope[i]), rel=1e-4, abs=1e-6)


def trained(config: Config, given: Inputs, epochs: int, rate: float) -> Elmo:
    model = config.build(given, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    batches = list(model.batches(given, Plan(1)))
    for _ in range(epochs):
        carried: tuple[Tensor, ...] = ()
        for batch in batches:
            output = model(batch, *carried)
            carried = output.carried
            optimizer.zero_grad()
            output.objective.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model


def test_two_senses_of_a_word_come_apart_above_the_lowest_layer() -> None:
    rng = np.random.default_rng(3)
    wet, said = rng.random(80) < 0.5, list[list[str]]()
    for water in wet:
        kinds, ends = (
            (["green", "muddy", "steep"], ["lies by a river", "lies by a lake"])
            if water
            else (["rich", "honest", "large"], ["gives us a loan", "gives us a coin"])
        )
        said.append(f"the {rng.choice(kinds)} bank {rng.choice(ends)}".split())
    config = replace(
        SMALL, cells=32, units=16, filters=(4, 8), min_count=1, boundary="sentence",
        batch_size=16, steps=12,
    )  # fmt: skip
    model = trained(config, inputs(said), 15, 0.015)
    layers = model.token_vectors(Sentences.of(model.vocabulary, said))
    at = [i for i, written in enumerate(w for s in said for w in s) if written == "bank"]
    same = wet[:, None] == wet
    for j, vectors in enumerate(layers):
        units = vectors[at] / np.linalg.norm(vectors[at], axis=1, keepdims=True)
        cosines = units @ units.T
        apart = cosines[same].mean() - cosines[~same].mean()
        assert apart == pytest.approx(0, abs=1e-6) if j == 0 else apart > 0.01 * j, j


def test_settings_that_cannot_be_or_have_no_part_are_refused() -> None:
    with pytest.raises(ValueError, match="2 widths but numbers of filters for 1"):
        Config(widths=(1, 2), filters=(3,))
    with pytest.raises(ValueError, match="wider than any word"):
        Config(widths=(9,), filters=(3,), longest=6)
    with pytest.raises(ValueError, match="noise has no part in objective: softmax"):
        Config(objective="softmax", noise=5)
    with pytest.raises(ValueError, match="noise_power has no part in noise_by: ranks"):
        Config(noise_by="ranks", noise_power=0.5)


def test_the_paper_has_94_million_weights_and_the_softmax() -> None:
    """93.6 million, as the released model of 262 characters is said to have, beside its softmax."""
    paper = Config(
        cells=4096, units=512, filters=(32, 32, 64, 128, 256, 512, 1024), noise=8192,
        noise_by="ranks", batch_size=128,
    )  # fmt: skip
    assert paper.n_weights(0) + 261 * 16 == pytest.approx(93.6e6, rel=0.001)
    model = Elmo(replace(SMALL), built(SMALL).vocabulary, built(SMALL).characters)
    own = sum(p.numel() for p in model.parameters()) - model.encoder.C.numel()
    assert SMALL.n_weights(len(model.vocabulary)) == own
