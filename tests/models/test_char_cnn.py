"""The encoder of words against torch's convolution, and the family against what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.char_cnn import CharCnn, CharLm, Config, Highway
from models.characters import BEGIN, END, PAD, RESERVED, forms_of
from models.family import Inputs, Plan
from models.tables import choices
from models.text import Sentences
from models.word_vectors import WordVectors
from tests.models.test_nplm import SENTENCES, inputs, one_thread
from tests.models.test_rnnlm import documents

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


# --- the language model -----------------------------------------------------------------------

SMALL = Config(
    char_embedding=3, widths=(1, 2, 4), filters=(3, 4, 4), highways=2, layers=2, units=6,
    dropout=0.0, batch_size=3, steps=4, min_count=2, character_min_count=1,
)  # fmt: skip
RARE = ["zebra", "zebras", "x" * 300, "\u0416\u0416", ""]


def built(config: Config, given: Inputs | None = None) -> CharLm:
    """A model whose weights are larger than at the start, so that all of them count."""
    model = config.build(given or inputs(min_count=2), seed=3)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.double()


def epoch(model: CharLm, given: Inputs, world: int = 1) -> tuple[float, int]:
    """The summed objective and the predictions of an epoch, over all ranks, without learning."""
    total, scored = 0.0, 0
    for rank in range(world):
        carried: tuple[Tensor, ...] = ()
        for batch in model.batches(given, Plan(1, rank=rank, world=world)):
            output = model(batch, *carried)
            carried = output.carried
            total, scored = total + float(output.nll_sum), scored + output.n_scored
    return total, scored


def test_the_published_sizes() -> None:
    small = Config()
    assert small.filters == tuple(25 * w for w in small.widths)
    assert sum(small.filters) == 525
    widths = tuple(range(1, 8))
    large = Config(
        widths=widths, filters=tuple(min(200, 50 * w) for w in widths), highways=2, units=650
    )
    assert sum(large.filters) == 1100
    # Kim et al. (2015), table 3: 5 and 19 million with a vocabulary of 10,000.
    assert round(small.n_weights(10_000) / 1e6) == 5
    assert round(large.n_weights(10_000) / 1e6) == 19
    model = built(SMALL)
    characters = model.encoder.C.numel()
    found = sum(p.numel() for p in model.parameters()) - characters
    assert SMALL.n_weights(len(model.vocabulary)) == found
    assert characters == 3 * (len(model.characters) - 1)


def test_probabilities_against_torch() -> None:
    """Each word encoded alone as it is written, read by torch's LSTM."""
    model = built(SMALL)
    theirs = nn.LSTM(11, 6, 2).double()
    with torch.no_grad():
        for k in range(2):
            for ours, name in ((model.stack[k].W, "weight_ih"), (model.stack[k].U, "weight_hh"),
                               (model.stack[k].b, "bias_ih")):  # fmt: skip
                getattr(theirs, f"{name}_l{k}").copy_(ours)
            getattr(theirs, f"bias_hh_l{k}").zero_()
    said = [["the", "zebra", "sat"], [], RARE, ["zebras"]]
    found = model.log_prob(Sentences.of(model.vocabulary, said))
    at, marks = 0, torch.from_numpy(model.characters.spell(model.vocabulary, 50))
    for sentence in said:
        spelt = [marks[1]]
        for word in sentence:
            spelt.append(torch.from_numpy(model.characters.encode([word], width=52))[0])
        x = torch.cat([model.encoder(word[None]) for word in spelt])
        states, _ = theirs(x[:, None])
        assert model.output.W is not None
        logits = states[:, 0] @ model.output.W.t() + model.output.b
        logits[:, 1] = -torch.inf
        ids = [*model.vocabulary.ids(sentence).tolist(), 2]
        expected = torch.log_softmax(logits, 1)[torch.arange(len(ids)), ids].detach()
        np.testing.assert_allclose(found[at : at + len(ids)], expected, rtol=0, atol=1e-12)
        at += len(ids)


def test_what_is_read_is_the_spelling_also_of_what_is_predicted_as_unknown() -> None:
    model = built(SMALL)
    said = [["the", word, "sat"] for word in RARE]
    sentences = Sentences.of(model.vocabulary, said)
    assert (sentences.ids.reshape(-1, 3)[:, 1] == 0).all()
    found = model.log_prob(sentences).reshape(len(RARE), 4)
    assert np.allclose(found[:, :2], found[0, :2], rtol=0, atol=1e-12)  # predicted alike
    assert len(set(found[:, 2].round(9))) == len(RARE)  # read each for itself
    # A word is cut after so many characters.
    cut = model.log_prob(Sentences.of(model.vocabulary, [["the", "x" * 50 + "tail", "sat"]]))
    np.testing.assert_allclose(cut, found[2], rtol=0, atol=1e-12)
    # Ids alone: all are <unk>, as in a text where somebody has merged words.
    bare = replace(sentences, written=None, forms=())
    merged = Sentences.of(model.vocabulary, [["the", "<unk>", "sat"]] * len(RARE))
    assert np.array_equal(model.log_prob(bare), model.log_prob(merged))


@pytest.mark.parametrize("boundary", ["sentence", "document"])
def test_an_epoch_in_one_stream_is_the_probability_of_the_text(boundary: Any) -> None:
    given = documents(inputs([*SENTENCES, RARE], partitions=2, min_count=2))
    model = built(replace(SMALL, batch_size=1, boundary=boundary), given)
    total, scored = epoch(model, given)
    said = [model.log_prob(text) for text in given.tokens().under(model.vocabulary)]
    assert scored == sum(len(s) for s in said)
    assert total == pytest.approx(-float(np.concatenate(said).sum()), abs=1e-9)


def test_ranks_share_out_the_streams_and_nothing_changes() -> None:
    given = documents(inputs(min_count=2))
    for streams in (5, 1000):  # the latter are more than there are words
        model = built(replace(SMALL, batch_size=streams), given)
        once = epoch(model, given)
        for world in (2, 7):
            assert epoch(model, given, world) == pytest.approx(once, abs=1e-9)


def test_each_distinct_word_of_a_batch_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs([["the", "zebra", "the", "the"], ["zebra", "the"]] * 3)
    model = built(replace(SMALL, batch_size=4, steps=5), given)
    rows = list[int]()
    maxima = CharCnn._maxima

    def counted(self: CharCnn, spelling: Tensor, sizes: Tensor) -> Tensor:
        rows.append(len(spelling))
        return maxima(self, spelling, sizes)

    monkeypatch.setattr(CharCnn, "_maxima", counted)
    batches = list(model.batches(given, Plan(1)))
    assert epoch(model, given)[1] == 24
    assert rows == [len(distinct) for distinct, *_ in batches]
    assert rows == [3, 2]  # <s> the zebra for twenty predictions, <s> the for four
    rows.clear()
    model.log_prob(Sentences.of(model.vocabulary, [["the", "zebra"]] * 9))
    assert rows == [3]


# --- vectors ----------------------------------------------------------------------------------


def test_any_word_has_vectors_before_and_after_the_highway_layers() -> None:
    model = built(SMALL)
    assert choices(model) == ("own", "before-highway", "after-highway")
    words = [*RARE, "the", "<unk>"]
    before, after = (embed(words) for embed in model.word_layers().values())
    assert before.dtype == after.dtype == np.float32
    assert before.shape == after.shape == (7, 11)
    assert np.isfinite(before).all()
    assert np.isfinite(after).all()
    assert np.array_equal(model.word_vectors(words), after)
    with torch.no_grad():
        x = torch.from_numpy(before).double()
        for layer in model.encoder.highways:
            x = layer(x)
    np.testing.assert_allclose(x.numpy(), after, rtol=1e-5, atol=1e-5)
    forms = forms_of(model.vocabulary, [])
    spelling = torch.from_numpy(model.characters.spell(forms, 50))
    with torch.no_grad():
        read = model.encoder(spelling[[model.vocabulary.id(word) for word in ("the", "<unk>")]])
    np.testing.assert_allclose(read.numpy(), after[5:], rtol=1e-6, atol=1e-6)


def test_neighbours_before_and_after_are_those_of_the_layers() -> None:
    model = built(SMALL)
    words = model.vocabulary.words
    for choice, embed in model.word_layers().items():
        asked = WordVectors(model, choice)
        assert asked.knows("looooook")
        table = np.asarray(embed([*words, "looooook"]), np.float64)
        table /= np.linalg.norm(table, axis=1, keepdims=True)
        cosines = table[:-1] @ table[-1]
        best = np.argsort(-cosines)[:5]
        found = asked.most_similar(["looooook"], k=5)
        assert [word for word, _ in found] == [words[i] for i in best]
        np.testing.assert_allclose([c for _, c in found], cosines[best], atol=1e-5)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"6 widths .* for 2"):
        Config(filters=(3, 4))
    with pytest.raises(ValueError, match="width 6 is wider than any word"):
        Config(longest=3)
