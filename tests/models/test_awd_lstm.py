"""The AWD-LSTM against torch's LSTM, its masks, its penalties, and how it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.awd_lstm import AwdLstm, Config, locked_dropout
from models.examples import START
from models.family import Inputs, Plan, StepOutput
from models.streams import NONE
from models.text import Sentences
from models.vocabulary import LM_RESERVED
from tests.models.test_nplm import SENTENCES, inputs
from tests.models.test_rnnlm import documents

PLAIN = Config(
    units=9, embedding=7, batch_size=3, steps=5, min_count=1, word_dropout=0, input_dropout=0,
    hidden_dropout=0, output_dropout=0, weight_drop=0, alpha=0, beta=0,
)  # fmt: skip
DROPPED = replace(
    PLAIN, word_dropout=0.3, input_dropout=0.3, hidden_dropout=0.3, output_dropout=0.3,
    weight_drop=0.4, alpha=2.0, beta=1.0,
)  # fmt: skip


def built(config: Config, given: Inputs | None = None, seed: int = 3) -> AwdLstm:
    """A model whose weights are larger than at the start, so that all of them count."""
    model = config.build(given or inputs(), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.double()


def outputs(model: AwdLstm, given: Inputs, plan: Plan, seed: int = 5) -> list[StepOutput]:
    """Of an epoch, without learning."""
    torch.manual_seed(seed)
    found, carried = list[StepOutput](), tuple[Tensor, ...]()
    for batch in model.batches(given, plan):
        found.append(model(batch, *carried))
        carried = found[-1].carried
    return found


# --- the whole model against torch's layers -----------------------------------------------------


def theirs(model: AwdLstm) -> list[nn.LSTM]:
    """Its layers as torch's."""
    found = []
    for layer in model._layers():
        lstm = nn.LSTM(layer.W.shape[1], layer.units).double()
        with torch.no_grad():
            lstm.weight_ih_l0.copy_(layer.W)
            lstm.weight_hh_l0.copy_(layer.U)
            lstm.bias_ih_l0.copy_(layer.b)
            lstm.bias_hh_l0.zero_()
        found.append(lstm)
    return found


def test_probabilities_against_torch() -> None:
    model = built(PLAIN)
    assert [(layer.W.shape[1], layer.units) for layer in model._layers()] == [
        (7, 9),
        (9, 9),
        (9, 7),
    ]
    assert sum(p.numel() for p in model.parameters()) == PLAIN.n_weights(len(model.vocabulary))
    said = model.log_prob(Sentences.of(model.vocabulary, SENTENCES))
    expected = list[Tensor]()
    for sentence in SENTENCES:
        ids = [1, *model.vocabulary.ids(sentence).tolist(), 2]
        x = model.C[torch.tensor(ids[:-1])][:, None]
        for lstm in theirs(model):
            x, _ = lstm(x)
        logits = x[:, 0] @ model.C.t() + model.output.b
        logits[:, START] = -torch.inf
        expected.append(torch.log_softmax(logits, 1)[torch.arange(len(ids) - 1), ids[1:]])
    np.testing.assert_allclose(said, torch.cat(expected).detach().numpy(), rtol=0, atol=1e-12)


def test_an_epoch_in_one_stream_is_the_probability_of_the_text() -> None:
    """However its batches vary in length; penalties and dropout are not in it, nor in `eval`."""
    given = documents(inputs(partitions=2))
    model = built(replace(DROPPED, batch_size=1), given).eval()
    found = outputs(model, given, Plan(1))
    assert len({len(batch[0]) for batch in model.batches(given, Plan(1))}) > 1
    said = np.concatenate([model.log_prob(text) for text in given.tokens().under(model.vocabulary)])
    assert sum(output.n_scored for output in found) == len(said)
    total = sum(float(output.nll_sum) for output in found)
    assert total == pytest.approx(-float(said.sum()), abs=1e-9)
    assert all(torch.equal(output.objective, output.nll_sum) for output in found)


# --- masks --------------------------------------------------------------------------------------


def test_a_locked_mask_is_one_for_all_steps_and_keeps_the_mean() -> None:
    torch.manual_seed(1)
    x = torch.ones(6, 50, 40, dtype=torch.float64)
    dropped = locked_dropout(x, 0.25)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 1 / 0.75}
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert len(dropped[0].unique(dim=0)) == 50  # each stream has its own
    assert torch.equal(locked_dropout(x, 0.0), x)


@pytest.mark.parametrize("name", ["word", "input", "hidden", "output", "weight"])
def test_what_is_left_out_is_left_out_at_all_steps_of_a_batch(name: str) -> None:
    """Against torch's LSTM with the very words, units and weights that are left.

    The same random numbers make the masks; of units each stream has its own.
    """
    given = documents(inputs())
    setting = "weight_drop" if name == "weight" else f"{name}_dropout"
    one = replace(PLAIN, layers=2, batch_size=2, vary=False)
    model = built(replace(one, **{setting: 0.4}), given)  # type: ignore[arg-type]
    (batch, *_) = model.batches(given, Plan(1))
    shapes = {"word": (len(model.C), 1), "input": (2, 7), "hidden": (2, 9), "output": (2, 7)}
    left = {kind: model.C.new_ones(shape) for kind, shape in shapes.items()}
    layers = theirs(model)
    torch.manual_seed(9)
    found = model(batch)
    torch.manual_seed(9)
    if name == "weight":
        with torch.no_grad():
            for lstm in layers:
                lstm.weight_hh_l0.copy_(nn.functional.dropout(lstm.weight_hh_l0, 0.4))
    else:
        left[name] = nn.functional.dropout(left[name], 0.4)
        assert 0 < int((left[name] == 0).sum()) < left[name].numel()
    total, read = 0.0, model.C * left["word"]
    for stream in range(2):
        states = [None, None]
        for word, target in zip(*(part[:, stream] for part in batch), strict=True):
            states = [None, None] if word == START else states
            x = (read[word] * left["input"][stream])[None, None]
            x, states[0] = layers[0](x, states[0])
            x, states[1] = layers[1](x * left["hidden"][stream], states[1])
            h = x[0, 0] * left["output"][stream]
            logits = h @ model.C.t() + model.output.b + model.output.never
            total -= torch.log_softmax(logits, 0)[target].item() if target != NONE else 0.0
    assert float(found.nll_sum) == pytest.approx(total, abs=1e-9)


# --- penalties ----------------------------------------------------------------------------------


def test_penalties_by_hand_are_in_the_objective_and_not_in_the_likelihood() -> None:
    """On the size of what is left of the states, and on the change of the whole of them."""
    given = documents(inputs())
    config = replace(PLAIN, vary=False, output_dropout=0.4)
    plain, model = (built(c, given) for c in (config, replace(config, alpha=2.0, beta=3.0)))
    for ours, theirs_ in zip(
        outputs(model, given, Plan(1)), outputs(plain, given, Plan(1)), strict=True
    ):
        assert torch.equal(ours.nll_sum, theirs_.nll_sum)
        assert torch.equal(theirs_.objective, theirs_.nll_sum)
    carried: tuple[Tensor, ...] = ()
    for inputs_, targets in model.batches(given, Plan(1)):
        torch.manual_seed(9)
        output = model((inputs_, targets), *carried)
        torch.manual_seed(9)
        left = nn.functional.dropout(model.C.new_ones(3, 7), 0.4)
        states, _ = model.read(inputs_, carried or model.start(3))
        size = change = 0.0
        for t in range(len(states)):
            for stream in range(3):
                if targets[t, stream] == NONE:
                    continue
                size += ((left[stream] * states[t, stream]) ** 2).mean().item()
                if t and inputs_[t, stream] != START:
                    change += ((states[t, stream] - states[t - 1, stream]) ** 2).mean().item()
        expected = float(output.nll_sum) + 2 * size + 3 * change
        assert output.objective.item() == pytest.approx(expected, abs=1e-9)
        carried = output.carried
    assert size > 0
    assert change > 0


def test_analytic_against_numeric_gradients() -> None:
    """With every mask and penalty; the same random numbers give the same masks."""
    given = documents(inputs())
    model = built(DROPPED, given)
    batches = list(model.batches(given, Plan(1)))[:2]
    carried = model(batches[0]).carried

    def objective() -> Tensor:
        torch.manual_seed(4)
        output = model(batches[1], *carried)
        assert isinstance(output, StepOutput)
        return output.objective

    objective().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in {0, len(flat) // 2, int(slope.abs().argmax())}:
            ends = []
            for step in (1e-5, -1e-5):
                flat[i] += step
                ends.append(objective().item())
                flat[i] -= step
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(slope[i]), rel=1e-4, abs=1e-6)


# --- ranks, rates -------------------------------------------------------------------------------


def test_ranks_read_batches_of_one_length_and_the_rate_follows_it() -> None:
    given = documents(inputs())
    model = built(replace(PLAIN, batch_size=5), given)
    once = outputs(model, given, Plan(1, epoch=2))
    rates = [output.rate for output in once]
    lengths = [len(batch[0]) for batch in model.batches(given, Plan(1, epoch=2))]
    assert rates == [length / 5 for length in lengths]
    assert len(set(rates)) > 1
    assert len(once) == model.n_batches(given) == len(list(model.batches(given, Plan(1, epoch=3))))
    for world in (2, 3):
        parts = [outputs(model, given, Plan(1, 2, rank=r, world=world)) for r in range(world)]
        for together in zip(once, *parts, strict=True):
            assert {output.rate for output in together} == {together[0].rate}
            total = sum(float(output.nll_sum) for output in together[1:])
            assert total == pytest.approx(float(together[0].nll_sum), abs=1e-9)
    fixed = replace(PLAIN, vary=False).build(given, seed=1)
    assert {output.rate for output in outputs(fixed, given, Plan(1))} == {1.0}


def test_lower_layers_learn_slower() -> None:
    model = built(replace(PLAIN, layer_decay=2.6))
    groups = model.parameter_groups()
    rates: dict[int, float] = {}
    for group in groups:
        for p in group["params"]:
            rates[id(p)] = group["rate"]
    assert set(rates) == {id(p) for p in model.parameters()}
    by_layer = [rates[id(layer.U)] for layer in model._layers()]
    assert by_layer == pytest.approx([1 / 2.6**2, 1 / 2.6, 1.0])
    assert rates[id(model.C)] == rates[id(model.output.b)] == 1.0


def test_settings_that_have_no_part_are_refused() -> None:
    with pytest.raises(ValueError, match="ratio has no part in schedule: constant"):
        Config(schedule="constant", ratio=10)
    with pytest.raises(ValueError, match="hidden_dropout has no part in layers: 1"):
        Config(layers=1, hidden_dropout=0.5)
    with pytest.raises(ValueError, match="units has no part"):
        Config(layers=1, units=100)
    with pytest.raises(ValueError, match="make it at least 7"):
        Config(average=5, patience=6)
    Config(average=5, patience=7)
    Config(average=0, patience=1)
    with pytest.raises(ValueError, match="make it at least 8"):
        Config(average=5, epochs=7)
    Config(average=5, epochs=8)


def grown_over(words: Sequence[str]) -> list[list[str]]:
    return [*SENTENCES, [*words, *words, "the"]]


def test_new_words_begin_as_the_mean_of_the_known_ones() -> None:
    base = built(PLAIN).float()
    grown = PLAIN.build(inputs(grown_over(["zebra", "yak"])), seed=5)
    grown.grow_from(base)
    first = len(LM_RESERVED)
    mean = base.state()["C"][first:].mean(0)
    for word in ("zebra", "yak"):
        np.testing.assert_allclose(grown.state()["C"][grown.vocabulary.id(word)], mean, rtol=1e-5)
    known = base.vocabulary.words
    assert np.array_equal(grown.word_vectors(known), base.word_vectors(known))
    assert np.array_equal(grown.state()["C"][:first], base.state()["C"][:first])
