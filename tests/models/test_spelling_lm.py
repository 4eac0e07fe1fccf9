from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from models import spelling_lm
from models.capabilities import Predicts, Scores, SpellsWords
from models.characters import END, MARKS, RESERVED, UNKNOWN
from models.examples import START
from models.family import Inputs, Plan
from models.spelling_lm import Config, SpellingLm
from models.spelling_output import SpellingOutput, spelt_out, targets
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, OPEN, Vocabulary
from tasks.evaluation import perplexity

LINES = ["the cat sees a fish", "a dog sees the cat", "the fish sees nothing", "dogs see cats"]
SMALL = Config(
    char_units=5, char_embedding=4, units=8, speller=9, batch_size=1, steps=50, dropout=0
)


def inputs_of(lines: list[str]) -> Inputs:
    sentences = [line.split() for line in lines]
    words = [word for sentence in sentences for word in sentence]
    types = sorted(set(words))
    ids = np.array([types.index(word) for word in words], np.int32)
    starts = np.cumsum([0, *map(len, sentences)])
    counts = np.array([words.count(word) for word in types], np.int64)
    text = Sentences(ids, starts, np.arange(len(lines) + 1))
    characters = np.array([len(line) + 1 for line in lines])
    tokens = Tokens([TokenPartition(types, counts, text, characters)])
    known = [i for i, word in enumerate(types) if word != "<unk>"][:5]
    listed = Vocabulary((*LM_RESERVED, OPEN), tuple(types[i] for i in known), counts[known])
    return Inputs({"train": tokens, "heldout": tokens, "vocabulary": listed})


def said(model: SpellingLm, *sentences: str) -> Sentences:
    return Sentences.of(model.vocabulary, [sentence.split() for sentence in sentences])


@pytest.fixture(scope="module")
def trained() -> SpellingLm:
    inputs = inputs_of(LINES)
    model = Config(**{**vars(SMALL), "units": 24, "speller": 32, "char_units": 12}).build(
        inputs, seed=1
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for epoch in range(100):
        for batch in model.batches(inputs, Plan(1, epoch)):
            optimizer.zero_grad()
            model(batch).objective.backward()
            optimizer.step()
    return model.eval()


def test_a_word_has_the_probability_of_its_letters_after_those_before_it() -> None:
    model = SMALL.build(inputs_of(LINES), seed=2).double()
    found = model.log_prob(said(model, "the zebra sees"))
    rows = model.characters.encode(["the", "zebra", "sees"], width=42)
    begin = model.characters.spell(model.listed, 40)[1:2]
    with torch.inference_mode():
        x = torch.cat([model.embed(torch.from_numpy(r)) for r in (begin, rows)])[:, None]
        hidden = model.stack(x, model.stack.start(1))[0][-1][:, 0]
        words = targets(model.characters, ["the", "zebra", "sees", None])
        expected = model.output.log_prob(hidden, words)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-10)
    assert UNKNOWN in words[1]
    assert END in words[1]


def test_training_scores_what_log_prob_scores() -> None:
    inputs = inputs_of(LINES)
    model = SMALL.build(inputs, seed=2).double()
    (batch,) = model.batches(inputs, Plan(1, role="heldout"))
    output = model(batch)
    text = next(iter(inputs.tokens().under(model.vocabulary)))
    scores = model.log_prob(text)
    assert output.n_scored == len(scores)
    assert float(output.nll_sum) == pytest.approx(-float(scores.sum()), rel=1e-9)


def test_it_goes_on_by_spelling_words_out_and_invents_some(trained: SpellingLm) -> None:
    begun = said(trained, "a dog sees", "", "the fish")
    first, again = (trained.spell_on(begun, seed=1, length=5, temperature=0) for _ in range(2))
    assert first == again
    known = {word for line in LINES for word in line.split()}
    assert {word for sentence in first for word in sentence} <= known
    drawn = trained.spell_on(said(trained, *[""] * 40), seed=3, length=6, temperature=1.5)
    assert drawn == trained.spell_on(said(trained, *[""] * 40), seed=3, length=6, temperature=1.5)
    assert max(map(len, drawn)) <= 6
    words = {word for sentence in drawn for word in sentence}
    assert words - known
    assert "" not in words


def alone(model: SpellingLm, begun: str, length: int) -> list[str]:
    """The likeliest words after some, each from a reading of all that is before it."""
    model, words = copy.deepcopy(model).double(), begun.split()
    first = model.characters.spell(model.listed, 40)[1:2]
    while len(words) < length + len(begun.split()):
        rows = [first] + [model.characters.encode([word], width=42) for word in words]
        with torch.inference_mode():
            x = torch.cat([model.embed(torch.from_numpy(row)) for row in rows])[:, None]
            hidden = model.stack(x, model.stack.start(1))[0][-1][-1]
            draws = np.random.default_rng(0)
            (drawn,) = model.output.spell(hidden, [draws], longest=40, temperature=0)
        word = spelt_out(model.characters, drawn)
        if word is None:
            break
        words.append(word)
    return words[len(begun.split()) :]


def test_texts_go_on_side_by_side_as_each_does_alone(
    trained: SpellingLm, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = ["a dog sees", "", "the fish", "dogs", "zebras see a cat and a", "the cat sees a dog"]
    texts, together = said(trained, *begun), list[int]()
    spell = SpellingOutput.spell

    def counted(self: SpellingOutput, hidden: torch.Tensor, *args: Any, **how: Any) -> Any:
        together.append(len(hidden))
        return spell(self, hidden, *args, **how)

    monkeypatch.setattr(SpellingOutput, "spell", counted)
    found = trained.spell_on(texts, seed=1, length=5, temperature=0)
    assert len({len(words) for words in found}) > 1
    assert together == [sum(len(words) >= step for words in found) for step in range(len(together))]
    assert len(together) == min(5, 1 + max(map(len, found)))
    assert found == [alone(trained, text, 5) for text in begun]
    # Each is drawn by numbers of its own.
    drawn = trained.spell_on(texts, seed=4, length=5)
    assert drawn[:2] == trained.spell_on(said(trained, *begun[:2]), seed=4, length=5)
    monkeypatch.setattr(spelling_lm, "TEXTS_AT_ONCE", 2)
    assert drawn == trained.spell_on(texts, seed=4, length=5)
    same = trained.spell_on(said(trained, *[""] * 9), seed=4, length=5, temperature=1.5)
    assert len(set(map(tuple, same))) > 1
    assert trained.spell_on(said(trained), seed=4, length=5) == []


def test_merged_words_are_read_alike_in_texts_in_lists_and_when_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = SMALL.build(inputs_of(["the <unk> sees <unk>", *LINES]), seed=2)
    text = said(model, "the <unk>")
    reading = model._reading(*model._by_form(text))
    rows = model.characters.spell(model.listed, 40)
    unknown = model.listed.unknown
    assert rows[unknown, 1] == MARKS["<unk>"]
    with torch.inference_mode():
        merged = copy.deepcopy(model).double().embed(torch.from_numpy(rows[[unknown]]))
    np.testing.assert_allclose(model.word_vectors(["<unk>"]), merged.numpy(), rtol=1e-6)
    letters = [c for c in model.characters.encode(["<unk>"], width=9)[0].tolist() if c >= RESERVED]
    seen = list[torch.Tensor]()

    def spell(self: SpellingOutput, hidden: torch.Tensor, *args: Any, **how: Any) -> Any:
        seen.append(hidden[0])
        return [letters]

    monkeypatch.setattr(SpellingOutput, "spell", spell)
    assert model.spell_on(said(model, "the"), seed=1, length=2) == [["<unk>", "<unk>"]]
    with torch.inference_mode():
        state = reading.start(1)
        for form in (START, *(reading.forms.id(word) for word in ("the", "<unk>"))):
            hidden, state = reading.read(torch.tensor([[form]]), state)
    torch.testing.assert_close(seen[1], hidden[0, 0], rtol=0, atol=1e-12)


def test_dropout_falls_once_on_what_the_words_are_read_by() -> None:
    model = Config(**{**vars(SMALL), "char_units": 200}).build(inputs_of(LINES), seed=2)
    rows = torch.from_numpy(model.characters.spell(model.listed, 40))
    torch.manual_seed(1)
    vectors = model.embed(rows, dropout=0.5)
    assert not (vectors == 0).any()
    assert not torch.equal(vectors, model.embed(rows, dropout=0.5))
    seen = list[torch.Tensor]()
    model.stack.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model.config = dataclasses.replace(model.config, dropout=0.5)
    (batch,) = model.batches(inputs_of(LINES), Plan(1))
    model.train()(batch)
    assert float((seen[0] == 0).float().mean()) == pytest.approx(0.5, abs=0.03)


def test_likely_words_are_likelier_than_misspelt_ones(trained: SpellingLm) -> None:
    scores = [trained.log_prob(said(trained, f"the {word}"))[1] for word in ("cat", "cta", "xyz")]
    assert scores[0] > scores[1] > scores[2]


def test_its_perplexity_is_of_its_own_kind_and_bits_a_character_spell_nothing_twice(
    trained: SpellingLm,
) -> None:
    text = inputs_of(LINES).tokens()
    perplexities, bits = perplexity.measure("test", trained, text, train=text)
    closed = Vocabulary(LM_RESERVED, trained.vocabulary.words, trained.vocabulary.counts)
    assert perplexities.details["vocabulary"] == trained.vocabulary.hash != closed.hash
    assert perplexities.baselines[0].value is None
    assert bits.details["spelling_bytes"] == bits.details["unknown_tokens"] == 0
    nats = -trained.log_prob(next(iter(text.under(trained.vocabulary)))).sum()
    characters = sum(len(line) + 1 for line in LINES)
    assert bits.value == pytest.approx(nats / np.log(2) / characters)
    assert isinstance(trained, Scores)
    assert isinstance(trained, SpellsWords)
    assert not isinstance(trained, Predicts)
