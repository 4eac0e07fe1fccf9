"""Recurrent language models against torch's layers, and each part against what it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from models.family import Inputs, Plan
from models.output import AdaptiveOutput
from models.rnnlm import Config, Rnnlm
from models.streams import NONE, Windows
from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED
from tests.models.test_nplm import SENTENCES, inputs

SMALL = Config(layers=2, units=9, embedding=7, batch_size=3, steps=4, dropout=0.0, min_count=1)
ONE = replace(SMALL, batch_size=1)


def built(config: Config, given: Inputs | None = None, seed: int = 3) -> Rnnlm:
    """A model whose weights are larger than at the start, so that all of them count."""
    model = config.build(given or inputs(), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.double()


def documents(given: Inputs, size: int = 4) -> Inputs:
    """The same text with so many sentences a document."""
    parts = [
        replace(
            part,
            text=replace(
                part.text,
                documents=np.append(np.arange(0, len(part.text), size), len(part.text)),
            ),
        )
        for part in given.tokens().partitions
    ]
    return Inputs({**given.values, "train": Tokens(parts)})


def epoch(model: Rnnlm, given: Inputs, world: int = 1) -> tuple[float, int]:
    """The summed objective and the predictions of an epoch, over all ranks, without learning."""
    total, scored = 0.0, 0
    for rank in range(world):
        carried: tuple[torch.Tensor, ...] = ()
        for batch in model.batches(given, Plan(1, rank=rank, world=world)):
            output = model(batch, *carried)
            carried = output.carried
            total, scored = total + float(output.nll_sum), scored + output.n_scored
    return total, scored


# --- the whole model against torch's layers -----------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "width"), [("elman", 7), ("lstm", 7), ("gru", 7), ("lstm", 0), ("gru", 0)]
)
def test_probabilities_against_torch(cell: Any, width: int) -> None:
    """With the embeddings as torch's inputs, or of a width of 0 with one-hot words."""
    model = built(replace(SMALL, cell=cell, embedding=width))
    kind = {"elman": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[cell]
    read = torch.eye(len(model.vocabulary)).double() if model.C is None else model.C
    theirs = kind(read.shape[1], 9, 2).double()
    with torch.no_grad():
        for k in range(2):
            ours = model._stack()[k]
            getattr(theirs, f"weight_ih_l{k}").copy_(ours.W)
            getattr(theirs, f"weight_hh_l{k}").copy_(ours.U)
            getattr(theirs, f"bias_ih_l{k}").copy_(ours.b)
            second = getattr(theirs, f"bias_hh_l{k}")
            second.zero_()
            if ours.u is not None:
                second[-9:] = ours.u
    said = model.log_prob(Sentences.of(model.vocabulary, SENTENCES))
    at = 0
    for sentence in SENTENCES:
        ids = [1, *model.vocabulary.ids(sentence).tolist(), 2]
        states, _ = theirs(read[torch.tensor(ids[:-1])][:, None])
        logits = states[:, 0] @ model.output.W.t() + model.output.b  # type: ignore[union-attr,operator]
        logits[:, 1] = -torch.inf
        expected = torch.log_softmax(logits, 1)[torch.arange(len(ids) - 1), ids[1:]]
        np.testing.assert_allclose(
            said[at : at + len(ids) - 1], expected.detach().numpy(), rtol=0, atol=1e-12
        )
        at += len(ids) - 1


# --- training and scoring agree -----------------------------------------------------------------


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("boundary", ["sentence", "document"])
def test_an_epoch_in_one_stream_is_the_probability_of_the_text(
    direction: Any, boundary: Any
) -> None:
    """Carried over batches of four steps, and cut at every unit."""
    given = documents(inputs(partitions=2))
    model = built(replace(ONE, direction=direction, boundary=boundary), given)
    total, scored = epoch(model, given)
    said = [model.log_prob(text) for text in given.tokens().under(model.vocabulary)]
    assert scored == sum(len(s) for s in said)
    assert total == pytest.approx(-float(np.concatenate(said).sum()), abs=1e-9)


def test_ranks_share_out_the_streams_and_nothing_changes() -> None:
    given = documents(inputs())
    model = built(replace(SMALL, batch_size=5), given)
    once = epoch(model, given)
    for world in (2, 3, 7):
        assert epoch(model, given, world) == pytest.approx(once, abs=1e-9)


def test_both_directions_are_two_models_that_share_embeddings_and_softmax() -> None:
    given = documents(inputs())
    both = built(replace(ONE, direction="both"), given)
    halves = []
    for i, direction in enumerate(("forward", "backward")):
        half = built(replace(ONE, direction=direction), given)
        own = {
            name.replace(f"stacks.{i}.", "stacks.0."): value
            for name, value in both.state().items()
            if not name.startswith(f"stacks.{1 - i}.")
        }
        half.load_state_dict({name: torch.tensor(value) for name, value in own.items()})
        halves.append(half)
    totals = [epoch(half, given) for half in halves]
    assert epoch(both, given) == pytest.approx(tuple(np.sum(totals, axis=0)), abs=1e-9)
    text = Sentences.of(both.vocabulary, SENTENCES)
    assert np.array_equal(both.log_prob(text), halves[0].log_prob(text))
    assert np.array_equal(both.log_prob_backward(text), halves[1].log_prob(text))
    with pytest.raises(ValueError, match="both directions"):
        halves[0].log_prob_backward(text)


def test_backward_is_forward_over_the_reversed_text() -> None:
    model = built(replace(SMALL, direction="backward"))
    mirror = Rnnlm(SMALL, model.vocabulary).double()
    mirror.load_state_dict(model.state_dict())
    turned = [sentence[::-1] for sentence in SENTENCES]
    said = model.log_prob(Sentences.of(model.vocabulary, SENTENCES))
    expected = mirror.log_prob(Sentences.of(model.vocabulary, turned))
    at = 0
    for sentence in SENTENCES:
        n = len(sentence)
        np.testing.assert_allclose(
            said[at : at + n], expected[at : at + n][::-1], rtol=0, atol=1e-12
        )
        assert said[at + n] == pytest.approx(expected[at + n])  # the beginning, then
        at += n + 1
    with pytest.raises(ValueError, match="backward"):
        model.decoder(Sentences.of(model.vocabulary, [["the"]]))


# --- windows, one-hot -------------------------------------------------------------------------


def test_windows_as_published() -> None:
    assert len(Windows(600_893, 60, 3)) == 200_278


def test_windows_predict_the_last_word_from_zeros() -> None:
    given = inputs()
    model = built(replace(SMALL, stride=3, steps=5, last=1, batch_size=4), given)
    (text,) = given.tokens().under(model.vocabulary)
    line = np.insert(text.ids, text.starts[1:], 2)  # one document a sentence: <s> begins each
    total, scored = epoch(model, given)
    assert scored == len(range(0, len(line) - 5, 3))
    first = set((text.starts[:-1] + np.arange(len(text))).tolist())
    expected = 0.0
    for at in range(0, len(line) - 5, 3):
        words = [1 if i in first else int(line[i - 1]) for i in range(at + 1, at + 6)]
        hidden, _ = model.read(torch.tensor(words)[:, None], model.start(1))
        expected -= model.log_probs(hidden[-1])[0, int(line[at + 5])].item()
    assert total == pytest.approx(expected, abs=1e-9)


def test_held_out_words_in_overlapping_windows_count_once() -> None:
    given = inputs()
    model = built(replace(SMALL, stride=3, steps=5, batch_size=4), given)
    (text,) = given.tokens("heldout").under(model.vocabulary)
    line = np.insert(text.ids, text.starts[1:], 2)
    asked = list[int]()
    for batch in model.batches(given, Plan(1, role="heldout")):
        targets = batch[1].numpy()
        for window in range(targets.shape[1]):
            asked += targets[targets[:, window] != NONE, window].tolist()
    last = 3 * len(Windows(len(line), 5, 3)) + 3
    assert asked == line[1:last].tolist()


def test_one_hot_words_are_embedded_by_the_first_layer() -> None:
    one_hot = built(replace(SMALL, embedding=0))
    the, cat, none = one_hot.word_vectors(["the", "cat", "zebra"])
    columns = one_hot._stack()[0].W.detach().float().numpy().T
    assert np.array_equal([the, cat], columns[one_hot.vocabulary.ids(["the", "cat"])])
    assert np.isnan(none).all()


# --- the adaptive softmax -----------------------------------------------------------------------


def test_the_adaptive_softmax_is_a_distribution_and_its_loss_its_logarithm() -> None:
    torch.manual_seed(2)
    output = AdaptiveOutput(60, 8).double()
    assert output.borders == [6, 24, 60]
    for parameter in output.parameters():
        nn.init.normal_(parameter, std=0.5)
    hidden = torch.randn(40, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 2, 3, 5, 6, 23, 24, 59] * 5)
    said = output.log_probs(hidden)
    assert torch.isneginf(said[:, 1]).all()
    torch.testing.assert_close(said.exp().sum(1), torch.ones(40, dtype=torch.float64))
    slow = -said[torch.arange(40), targets].sum()
    loss = output.loss(hidden, targets)
    assert float(loss) == pytest.approx(float(slow))
    given = [hidden, *output.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(loss, given), torch.autograd.grad(slow, given), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("words", [4, 5, 7])
def test_the_adaptive_softmax_of_a_few_words(words: int) -> None:
    output = AdaptiveOutput(words, 8).double()
    output.initialize(np.ones(words), torch.Generator().manual_seed(1))
    hidden = torch.randn(3, 8, dtype=torch.float64)
    assert output.log_probs(hidden).shape == (3, words)
    assert float(output.log_probs(hidden).exp().sum()) == pytest.approx(3.0)
    assert np.isfinite(float(output.loss(hidden, torch.tensor([0, 2, words - 1]))))


# --- whatever the objective ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        replace(SMALL, direction="both"),
        replace(SMALL, cell="gru", reset="before", update="replace", tied=True, embedding=9),
        replace(SMALL, cell="elman", boundary="sentence"),
        replace(SMALL, objective="adaptive-softmax"),
        replace(SMALL, objective="nce", noise=5),
        replace(SMALL, objective="importance-sampling", noise=5, direction="both"),
    ],
    ids=["both", "gru-tied", "elman", "adaptive", "nce", "importance-both"],
)
def test_analytic_against_numeric_gradients(config: Config) -> None:
    given = documents(inputs())
    model = built(config, given)
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
                ends.append(float(model(batches[1], *carried).objective))
                flat[i] -= step
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(slope[i]), rel=1e-4, abs=1e-6)


def test_settings_that_have_no_part_are_refused() -> None:
    with pytest.raises(ValueError, match="tied"):
        Config(tied=True, units=4, embedding=5)
    with pytest.raises(ValueError, match="reset has no part in cell: lstm"):
        Config(reset="before")
    with pytest.raises(ValueError, match="noise has no part in objective: softmax"):
        Config(noise=5)
    with pytest.raises(ValueError, match="adaptive"):
        Config(objective="adaptive-softmax", tied=True)
    with pytest.raises(ValueError, match=r"the last 36 steps cannot be predicted of 35"):
        Config(steps=35, last=36)
    assert Config(steps=35, last=35).last == 35


def test_growing_takes_over_all_but_what_cannot() -> None:
    base = built(SMALL).float()
    more = [*SENTENCES, ["zebra", "zebra", "the"]]
    grown = SMALL.build(inputs(more), seed=5)
    fresh = {name: value.copy() for name, value in grown.state().items()}
    grown.grow_from(base)
    rows = grown.vocabulary.ids(base.vocabulary.words)
    assert np.array_equal(grown.state()["C"][rows], base.state()["C"].astype(np.float32)[3:])
    new = grown.vocabulary.id("zebra")
    assert new >= len(LM_RESERVED)
    for name in ("C", "output.W", "output.b"):
        assert np.array_equal(grown.state()[name][new], fresh[name][new]), name
    with pytest.raises(ValueError, match="one-hot"):
        built(replace(SMALL, embedding=0)).grow_from(base)


# --- vectors of tokens and of sentences ---------------------------------------------------------


@pytest.mark.parametrize("boundary", ["sentence", "document"])
def test_vectors_of_tokens_against_torch(boundary: Any) -> None:
    """Forward and backward states that have just read a token, one after the other."""
    model = built(replace(SMALL, direction="both", boundary=boundary))
    assert model.C is not None
    text = replace(Sentences.of(model.vocabulary, SENTENCES[:4]), documents=np.array([0, 3, 4]))
    layers = model.token_vectors(text)
    assert model.layers == ("embedding", "1", "2")
    np.testing.assert_array_equal(layers[0], model.C.detach().float().numpy()[text.ids])
    theirs = [nn.LSTM(7, 9, 2).double() for _ in range(2)]
    for i, lstm in enumerate(theirs):
        with torch.no_grad():
            for k in range(2):
                getattr(lstm, f"weight_ih_l{k}").copy_(model._stack(i)[k].W)
                getattr(lstm, f"weight_hh_l{k}").copy_(model._stack(i)[k].U)
                getattr(lstm, f"bias_ih_l{k}").copy_(model._stack(i)[k].b)
                getattr(lstm, f"bias_hh_l{k}").zero_()
    ids = [model.vocabulary.ids(s).tolist() for s in SENTENCES[:4]]
    units = [[s] for s in ids] if boundary == "sentence" else [ids[:3], ids[3:]]
    expected = []
    for unit in units:
        words = [w for s in unit for w in [*s, 2]][:-1]
        forward, _ = theirs[0](model.C[torch.tensor([1, *words])][:, None])
        backward, _ = theirs[1](model.C[torch.tensor([1, *words[::-1]])][:, None])
        both = torch.cat([forward[1:, 0], backward[1:, 0].flip(0)], 1)
        expected.append(both[torch.tensor(words) != 2])
    found = torch.cat(expected).detach().numpy()
    np.testing.assert_allclose(layers[2], found, rtol=0, atol=1e-6)
    if boundary == "sentence":
        sizes = np.cumsum([len(s) for s in ids])
        ends = [np.append(found[e - 1, :9], found[e - len(s), 9:])
                for e, s in zip(sizes, ids, strict=True)]  # fmt: skip
        np.testing.assert_allclose(model.sentence_vectors(text), ends, rtol=0, atol=1e-6)


def test_a_backward_model_embeds_by_what_is_behind() -> None:
    model = built(replace(SMALL, direction="backward", embedding=0))
    assert model.layers == ("1", "2")
    one, other = (
        model.token_vectors(Sentences.of(model.vocabulary, [s.split()]))[-1]
        for s in ("the cat sat on the mat", "the old sat on the mat")
    )
    same = (one == other).all(1)
    assert same.tolist() == [False, False, True, True, True, True]
