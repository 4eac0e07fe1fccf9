from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
import torch

from models.blend import blend
from models.blend_lm import BlendLm, Config
from models.char_birnn import CharBirnn
from models.char_birnn import Config as CharConfig
from models.family import FloatArray, Inputs, Model, Plan
from models.imported import Config as TableConfig
from models.imported import Model as Table
from models.text import Sentences, TokenPartition, Tokens
from models.tuning import DECIDED, begin_as, like
from models.vocabulary import LM_RESERVED, Vocabulary

LINES = ["the cat sees a fish", "a dog sees the cat", "the fish sees nothing", "dogs see cats"]
SMALL = Config(
    dim=5, char_units=3, char_embedding=4, units=6, batch_size=2, steps=4, min_count=1, dropout=0
)


def text_of(lines: list[str]) -> Tokens:
    sentences = [line.split() for line in lines]
    words = [word for sentence in sentences for word in sentence]
    types = sorted(set(words))
    ids = np.array([types.index(word) for word in words], np.int32)
    starts = np.cumsum([0, *map(len, sentences)])
    counts = np.array([words.count(word) for word in types], np.int64)
    text = Sentences(ids, starts, np.arange(len(lines) + 1))
    return Tokens([TokenPartition(types, counts, text)])


def inputs_of(lines: list[str] = LINES, known: tuple[str, ...] = ()) -> Inputs:
    text = text_of(lines)
    part = text.partitions[0]
    words = known or tuple(part.types)
    vocabulary = Vocabulary(LM_RESERVED, words, np.ones(len(words), np.int64))
    return Inputs({"train": text, "heldout": text, "vocabulary": vocabulary})


def vectors(model: BlendLm, words: list[str]) -> FloatArray:
    return model.word_vectors(words)


def spelling_model() -> CharBirnn:
    return CharConfig(units=3, embedding=4, longest=9).build(inputs_of(), seed=4)


def meaning_model(words: tuple[str, ...] = ("cat", "dog", "fish", "unicorn")) -> Table:
    values = np.random.default_rng(3).standard_normal((len(words), 5)).astype(np.float32)
    config = TableConfig(format="word2vec", sha256="0", dim=5)
    return Table(config, Vocabulary((), words, np.zeros(len(words), np.int64)), values)


ASKED = ["cat", "dog", "nothing", "catfish"]


@pytest.mark.parametrize("how", ["concatenation", "sum"])
@pytest.mark.parametrize("way", ["none", "least-squares"])
def test_it_begins_with_the_vectors_of_a_blend(how: str, way: str) -> None:
    """What neither the blend's table nor the vocabulary knows has its spelling alone in both."""
    words = (*(f"w{i}" for i in range(20)), "cat", "dog")
    if how == "sum" and way == "none":
        parts: list[Model] = [wide_meaning(words), spelling_model()]
    else:
        parts = [meaning_model(words), spelling_with(words)]
    made = blend(parts, ["a", "b"], ["1", "2"], how=how, weights=(2, 0.5), projection=way)  # type: ignore[arg-type]
    config = like(SMALL, made)
    assert (config.how, config.projection) == (how, way != "none")
    changed = {f.name for f in fields(SMALL) if getattr(config, f.name) != getattr(SMALL, f.name)}
    assert changed <= set(DECIDED)
    model = config.build(inputs_of(), seed=1)
    begin_as(model, made)
    np.testing.assert_allclose(vectors(model, ASKED), made.word_vectors(ASKED), atol=1e-6)
    again = model.config.restore(model.vocabulary, model.state())
    np.testing.assert_array_equal(vectors(again, ASKED), vectors(model, ASKED))


def wide_meaning(words: tuple[str, ...]) -> Table:
    values = np.random.default_rng(3).standard_normal((len(words), 6)).astype(np.float32)
    config = TableConfig(format="word2vec", sha256="0", dim=6)
    return Table(config, Vocabulary((), words, np.zeros(len(words), np.int64)), values)


def spelling_with(words: tuple[str, ...]) -> CharBirnn:
    """It lists the words too, so that a projection can be learnt."""
    return CharConfig(units=3, embedding=4).build(inputs_of([*LINES, *words], words), seed=4)


def test_both_parts_learn_from_the_language_model_and_may_stay() -> None:
    made = blend([meaning_model(), spelling_model()], ["a", "b"], ["1", "2"])
    for rate in (1.0, 0.0):
        model = like(Config(**{**vars(SMALL), "parts_rate": rate}), made).build(inputs_of(), seed=1)
        begin_as(model, made)
        before = vectors(model, ASKED)
        optimizer = torch.optim.Adam(
            [
                {"params": g["params"], "lr": 0.01 * g.get("rate", 1)}
                for g in model.parameter_groups()
            ]
        )
        losses = [learn(model, optimizer) for _ in range(40)]
        assert losses[-1] < 0.7 * losses[0]
        moved = np.abs(vectors(model, ASKED) - before).max(axis=1) > 1e-3
        # A word that was never read moves as well, by its spelling.
        assert moved.tolist() == [rate > 0] * 4
        assert (model.E.grad is not None) == (rate > 0)


def learn(model: BlendLm, optimizer: torch.optim.Optimizer) -> float:
    total, carried = 0.0, ()
    for batch in model.batches(inputs_of(), Plan(1)):
        output = model(batch, *carried)
        carried = output.carried
        optimizer.zero_grad()
        output.objective.backward()
        optimizer.step()
        total += float(output.nll_sum)
    return total


def test_training_and_scoring_agree_and_unknown_words_are_told_apart_by_spelling() -> None:
    inputs = inputs_of(known=("the", "sees", "a"))
    model = SMALL.build(inputs, seed=2).double()
    nll, carried, scored = 0.0, (), 0
    for batch in model.batches(inputs, Plan(1, role="heldout")):
        output = model(batch, *carried)
        carried, nll, scored = output.carried, nll + float(output.nll_sum), scored + output.n_scored
    text = next(iter(inputs.tokens().under(model.vocabulary)))
    scores = model.log_prob(text)
    assert scored == len(scores)
    # One stream of both: where the second begins, its words before are not known in training.
    whole = Config(**{**vars(SMALL), "batch_size": 1}).build(inputs, seed=2)
    whole.load_state_dict(model.state_dict())
    one = sum(run(whole.double(), inputs))
    assert one == pytest.approx(-float(scores.sum()), rel=1e-6)
    said = [["the", "dog", "sees"], ["the", "xyz", "sees"]]
    found = model.log_prob(Sentences.of(model.vocabulary, said)).reshape(2, 4)
    np.testing.assert_allclose(found[0, :2], found[1, :2], rtol=1e-12)
    assert abs(found[0, 2] - found[1, 2]) > 1e-6
    assert math.isfinite(nll)


def run(model: BlendLm, inputs: Inputs) -> list[float]:
    carried: tuple[torch.Tensor, ...] = ()
    found = []
    for batch in model.batches(inputs, Plan(1, role="heldout")):
        output = model(batch, *carried)
        carried = output.carried
        found.append(float(output.nll_sum))
    return found


def test_dropout_falls_once_on_what_the_words_are_read_by() -> None:
    wide = Config(**{**vars(SMALL), "dim": 300, "char_units": 200, "dropout": 0.5})
    inputs = inputs_of()
    model = wide.build(inputs, seed=2)
    with torch.no_grad():
        model.E.normal_()
    seen = list[torch.Tensor]()
    model.stack.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    torch.manual_seed(1)
    for batch in model.batches(inputs, Plan(1)):
        model.train()(batch)
    read = torch.cat([x.flatten(0, 1) for x in seen])
    for half in (read[:, :300], read[:, 300:]):
        assert float((half == 0).float().mean()) == pytest.approx(0.5, abs=0.05)


def test_frozen_parts_take_no_more_memory_than_their_weights() -> None:
    bytes_of = [Config(**{**vars(SMALL), "parts_rate": r}).training_bytes(10**6) for r in (0, 1)]
    assert bytes_of[1] - bytes_of[0] >= 3 * 4 * 10**6 * SMALL.dim


def test_each_distinct_word_is_spelt_once_and_padding_does_not_matter() -> None:
    inputs = inputs_of()
    model = SMALL.build(inputs, seed=2).double().eval()
    for distinct, rows, places, targets in model.batches(inputs, Plan(1)):
        assert len(set(distinct.tolist())) == len(distinct) == len(rows)
        assert places.shape == targets.shape
        wide = torch.nn.functional.pad(rows, (0, 5))
        alone = torch.cat(
            [model.embed(distinct[i : i + 1], wide[i : i + 1]) for i in range(len(rows))]
        )
        torch.testing.assert_close(model.embed(distinct, rows), alone, rtol=0, atol=1e-12)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"dim \(5\) equal to twice char_units \(3\)"):
        Config(how="sum", dim=5, char_units=3)
    two = blend([meaning_model(), meaning_model(("cat", "owl"))], ["a", "b"], ["1", "2"])
    with pytest.raises(ValueError, match="of one character BiRNN and one other model"):
        like(SMALL, two)
    chars = blend([spelling_model(), spelling_with(("cat",))], ["a", "b"], ["1", "2"])
    with pytest.raises(ValueError, match="of one character BiRNN and one other model"):
        like(SMALL, chars)
