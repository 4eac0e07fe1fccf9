"""Bidirectional encoders: what each objective asks, and what comes out, against slow loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from models import encoding
from models.birnn import Birnn, Config, Masked, Shifted
from models.family import Inputs, Plan
from models.text import Sentences
from models.vocabulary import LM_RESERVED
from tests.models.test_nplm import SENTENCES, inputs, one_thread  # noqa: F401 - for all tests
from tests.models.test_rnnlm import documents

SHIFT = Config(layers=2, units=6, embedding=5, batch_size=4, dropout=0.0, min_count=1)
MASK = replace(SHIFT, objective="mask", masked=0.5)


def built(config: Config, given: Inputs | None = None, seed: int = 3) -> Any:
    """A model whose weights are larger than at the start, so that all of them count."""
    model = config.build(given or inputs(), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.double()


def epoch(model: Birnn, given: Inputs, world: int = 1, **plan: Any) -> tuple[float, int]:
    """The summed objective and the predictions of an epoch, over all ranks, without learning."""
    total, scored = 0.0, 0
    for rank in range(world):
        for batch in model.batches(given, Plan(1, rank=rank, world=world, **plan)):
            output = model(batch)
            total, scored = total + float(output.nll_sum), scored + output.n_scored
    return total, scored


def said(model: Shifted, given: Inputs) -> float:
    return sum(float(model.log_prob(t).sum()) for t in given.tokens().under(model.vocabulary))


# --- shift --------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", ["sentence", "document"])
def test_shift_is_a_language_model_in_each_direction(boundary: Any) -> None:
    """The epoch's objective is -log P(text) forward and backward, whatever is padded."""
    size = 1 if boundary == "sentence" else 5
    given = documents(inputs(partitions=2), size)
    model: Shifted = built(replace(SHIFT, boundary=boundary), given)
    # The backward half reads the same as a forward one over units turned round, only that it
    # begins with the mark of an end.
    mirror: Shifted = built(replace(SHIFT, boundary=boundary), given)
    mirror.load_state_dict(model.state_dict())
    mirror.encoder.ahead = model.encoder.back
    with torch.no_grad():
        mirror.C[1] = model.C[2]
    units = [SENTENCES[at : at + size] for at in range(0, len(SENTENCES), size)]
    turned = inputs([sentence[::-1] for unit in units for sentence in unit[::-1]])
    backward = said(mirror, documents(turned, size))
    total, scored = epoch(model, given)
    assert scored == 2 * sum(len(s) + 1 for s in SENTENCES)
    assert total == pytest.approx(-said(model, given) - backward, abs=1e-9)


def test_a_cut_unit_predicts_every_word_once_in_each_direction() -> None:
    given = documents(inputs())
    model: Shifted = built(replace(SHIFT, boundary="document", steps=5), given)
    for batch in model.batches(given, Plan(1)):
        assert len(batch[0]) <= 6
    assert epoch(model, given)[1] == 2 * sum(len(s) + 1 for s in SENTENCES)


def test_no_state_that_predicts_a_word_has_seen_it() -> None:
    """A word is exchanged: of all layers, states that predict it stay bit for bit."""
    model: Shifted = built(replace(SHIFT, layers=3))
    entries = torch.tensor([[1, 4, 5, 6, 7, 8, 2]]).T
    other = entries.clone()
    other[3] = 9
    sizes = torch.tensor([7])
    for (f, b), (f2, b2) in zip(
        model.states(entries, sizes), model.states(other, sizes), strict=True
    ):
        assert torch.equal(f[:3], f2[:3])  # f[2] predicts entry 3
        assert torch.equal(b[4:], b2[4:])  # b[4] predicts entry 3
        assert not torch.equal(f[3], f2[3])
        assert not torch.equal(b[3], b2[3])
    # A layer that reads both directions, as that of the objective mask, would tell.
    leaking: Masked = built(replace(MASK, layers=3))
    top, moved = leaking.states(entries, sizes)[-1], leaking.states(other, sizes)[-1]
    assert not torch.equal(top[0][2], moved[0][2])


# --- mask ---------------------------------------------------------------------------------------


def test_what_is_hidden_and_how() -> None:
    given = inputs(SENTENCES * 60)
    model: Masked = built(replace(MASK, masked=0.15, kept=0.1, replaced=0.2, batch_size=50), given)
    seen, n = [], len(model.vocabulary)
    whole = model.batches(given, Plan(1))
    plain = built(replace(SHIFT, batch_size=50), given).batches(given, Plan(1))
    counts = np.zeros(4)
    words = 0
    for (hidden, sizes, targets), (entries, same) in zip(whole, plain, strict=True):
        assert torch.equal(sizes, same)
        asked = targets >= 0
        assert torch.equal(hidden[~asked], entries[~asked])
        assert torch.equal(targets[asked], entries[asked])
        assert int(targets[asked].min()) >= len(LM_RESERVED)
        found, own = hidden[asked], entries[asked]
        assert int(found.min()) >= len(LM_RESERVED)
        counts += [
            int(asked.sum()), int((found == n).sum()), int((found == own).sum()),
            int(((found != n) & (found != own)).sum()),
        ]  # fmt: skip
        words += int((entries >= len(LM_RESERVED)).sum())
        seen.append(asked)
    assert counts[0] / words == pytest.approx(0.15, abs=0.015)
    assert counts[1] / counts[0] == pytest.approx(0.7, abs=0.04)
    assert counts[2] / counts[0] == pytest.approx(0.1 + 0.2 / (n - 3), abs=0.03)
    assert counts[3] / counts[0] == pytest.approx(0.2, abs=0.04)


def test_of_a_unit_that_is_cut_every_word_is_asked_for_once() -> None:
    """The word before a piece is read there, and asked for in the piece that it ends."""
    given = documents(inputs())
    model: Masked = built(replace(MASK, masked=1 - 1e-9, boundary="document", steps=3), given)
    asked = torch.cat([targets[targets >= 0] for _, _, targets in model.batches(given, Plan(1))])
    (text,) = given.tokens().under(model.vocabulary)
    assert sorted(asked.tolist()) == sorted(text.ids.tolist())


def test_masks_repeat_by_seed_and_differ_by_batch_and_epoch() -> None:
    given = inputs([SENTENCES[0]] * 40)
    model: Masked = built(MASK, given)

    def drawn(plan: Plan) -> list[list[int]]:
        return [targets.flatten().tolist() for _, _, targets in model.batches(given, plan)]

    first = drawn(Plan(1))
    assert drawn(Plan(1)) == first
    assert drawn(Plan(1, start=3)) == first[3:]
    assert len({tuple(t) for t in first}) == len(first)
    assert not {tuple(t) for t in drawn(Plan(1, epoch=1))} & {tuple(t) for t in first}
    assert not {tuple(t) for t in drawn(Plan(2))} & {tuple(t) for t in first}


@pytest.mark.parametrize("combine", ["concatenation", "sum", "average", "product"])
def test_the_loss_is_that_of_hidden_words_only(combine: Any) -> None:
    model: Masked = built(replace(MASK, combine=combine))
    (batch, *_) = model.batches(inputs(), Plan(1))
    hidden, sizes, targets = batch
    f, b = model.states(hidden, sizes)[-1]
    both = {
        "concatenation": torch.cat([f, b], -1), "sum": f + b, "average": (f + b) / 2,
        "product": f * b,
    }[combine]  # fmt: skip
    logits = both @ model.output.W.T + model.output.b
    logits[..., 1] = -torch.inf
    expected, n = 0.0, 0
    for t, i in torch.nonzero(targets >= 0).tolist():
        expected -= torch.log_softmax(logits[t, i], 0)[targets[t, i]].item()
        n += 1
    output = model(batch)
    assert (float(output.nll_sum), output.n_scored) == (pytest.approx(expected, abs=1e-9), n)


def test_each_word_given_all_others_against_a_loop() -> None:
    text = [*SENTENCES[:4], [], ["the"], ["zebra", "the", "zebra"]]
    model: Masked = built(MASK)
    found = model.masked_log_prob(Sentences.of(model.vocabulary, text))
    at = 0
    for sentence in text:
        ids = [1, *model.vocabulary.ids(sentence).tolist(), 2]
        for place in range(1, len(ids) - 1):
            entries = torch.tensor([ids]).T.clone()
            entries[place] = len(model.vocabulary)
            f, b = model.states(entries, torch.tensor([len(ids)]))[-1]
            said = model.log_probs(torch.cat([f[place], b[place]], -1))[0]
            assert said.exp().sum().item() == pytest.approx(1)
            assert found[at] == pytest.approx(said[ids[place]].item(), abs=1e-12)
            at += 1
    assert at == len(found)


# --- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [SHIFT, MASK, replace(MASK, boundary="document", steps=7)])
def test_ranks_share_out_the_units_and_nothing_changes(config: Config) -> None:
    given = documents(inputs())
    model = built(config, given)
    once = epoch(model, given)
    for world in (2, 3, 7):
        assert epoch(model, given, world) == pytest.approx(once, abs=1e-9)
    assert epoch(model, given, role="heldout")[1] > 0


@pytest.mark.parametrize(
    "config",
    [
        SHIFT,
        replace(SHIFT, cell="gru", reset="before", tied=True, embedding=6),
        replace(MASK, cell="elman"),
        replace(MASK, combine="product", tied=True, embedding=6),
    ],
    ids=["shift", "shift-gru-tied", "mask-elman", "mask-product"],
)
def test_analytic_against_numeric_gradients(config: Config) -> None:
    given = documents(inputs())
    model = built(config, given)
    (batch, *_) = model.batches(given, Plan(1))
    model(batch).objective.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in {len(flat) // 2, int(slope.abs().argmax())}:
            ends = []
            for step in (1e-5, -1e-5):
                flat[i] += step
                ends.append(model(batch).objective.item())
                flat[i] -= step
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(slope[i]), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("config", [SHIFT, MASK, replace(MASK, combine="average")])
def test_vectors_are_the_states_that_have_just_read_a_token(config: Config) -> None:
    model = built(config)
    text = Sentences.of(model.vocabulary, SENTENCES[:5])
    layers, sentences = model.token_vectors(text), model.sentence_vectors(text)
    assert model.layers == ("embedding", "1", "2")
    at = 0
    for s, sentence in enumerate(SENTENCES[:5]):
        ids = [1, *model.vocabulary.ids(sentence).tolist(), 2]
        n = len(sentence)
        states = model.states(torch.tensor([ids]).T, torch.tensor([n + 2]))
        for vectors, (f, b) in zip(layers[1:], states, strict=True):
            f, b = f[1 : n + 1, 0], b[1 : n + 1, 0]
            whole = (f + b) / 2 if config.combine == "average" else torch.cat([f, b], 1)
            np.testing.assert_array_equal(vectors[at : at + n], whole.detach().float().numpy())
        f, b = states[-1][0][n, 0], states[-1][1][1, 0]
        whole = (f + b) / 2 if config.combine == "average" else torch.cat([f, b])
        np.testing.assert_array_equal(sentences[s], whole.detach().float().numpy())
        at += n
    assert all(len(vectors) == at for vectors in layers)
    np.testing.assert_array_equal(layers[0], model.C.detach().numpy()[text.ids])


def test_a_long_unit_is_read_in_pieces_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 20 words around, what small weights carry from further away is lost in rounding."""
    model = replace(SHIFT, cell="elman").build(inputs(), seed=1).double()
    text = Sentences.of(model.vocabulary, [[w for s in SENTENCES for w in s]])
    whole, sentence = model.token_vectors(text), model.sentence_vectors(text)
    monkeypatch.setattr(encoding, "LONGEST", 60)
    monkeypatch.setattr(encoding, "AROUND", 20)
    for a, b in zip(model.token_vectors(text), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.sentence_vectors(text), sentence, rtol=0, atol=1e-4)
    monkeypatch.setattr(encoding, "AROUND", 1)
    assert np.abs(model.token_vectors(text)[2] - whole[2]).max() > 1e-2


def test_settings_that_have_no_part_are_refused() -> None:
    with pytest.raises(ValueError, match="tied"):
        Config(tied=True, units=4, embedding=4, objective="mask")
    with pytest.raises(ValueError, match="masked has no part in objective: shift"):
        Config(masked=0.3)
    with pytest.raises(ValueError, match="update has no part in cell: lstm"):
        Config(update="replace")
    with pytest.raises(ValueError, match="shares"):
        Config(objective="mask", kept=0.6, replaced=0.6)
    Config(tied=True, units=4, embedding=8, objective="mask")


@pytest.mark.parametrize("config", [SHIFT, replace(MASK, tied=True, embedding=12)])
def test_the_number_of_weights_is_known_beforehand(config: Config) -> None:
    model = config.build(inputs(), seed=1)
    found = sum(p.numel() for p in model.parameters())
    expected = config.n_weights(len(model.vocabulary))
    assert expected <= found <= expected + config.embedding
