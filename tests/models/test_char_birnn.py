from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models import char_birnn
from models.char_birnn import CharBirnn, Config, SpellingBirnn, spelt, systematic
from models.characters import BEGIN, END, PAD, RESERVED, Characters
from models.family import Inputs, Plan
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import Vocabulary

WORDS = ("walk", "walked", "walking", "talk", "talked", "talking", "a", "the", "unhappily")


def text_of(words: tuple[str, ...], counts: tuple[int, ...]) -> Tokens:
    ids = np.repeat(np.arange(len(words), dtype=np.int32), counts)
    sentences = Sentences(ids, np.array([0, len(ids)]), np.array([0, 1]))
    return Tokens([TokenPartition(words, np.array(counts, np.int64), sentences)])


def inputs_of(words: tuple[str, ...] = WORDS, counts: tuple[int, ...] = (1,) * 9) -> Inputs:
    vocabulary = Vocabulary((), words, np.array(counts, np.int64))
    text = text_of(words, counts)
    return Inputs({"train": text, "heldout": text, "vocabulary": vocabulary})


def small(**settings: object) -> CharBirnn:
    config = Config(**{"units": 7, "embedding": 5, "layers": 2, **settings})  # type: ignore[arg-type]
    return config.build(inputs_of(), seed=3)


def torchs(encoder: SpellingBirnn, kind: type[nn.LSTM] | type[nn.GRU]) -> list[nn.LSTM | nn.GRU]:
    """Torch's layers with the weights of ours, in one direction each."""
    found = []
    for stack in (encoder.ahead, encoder.behind):
        theirs = kind(encoder.C.shape[1], encoder.units, len(stack)).double()
        with torch.no_grad():
            for k, layer in enumerate(stack):
                getattr(theirs, f"weight_ih_l{k}").copy_(layer.W)
                getattr(theirs, f"weight_hh_l{k}").copy_(layer.U)
                getattr(theirs, f"bias_ih_l{k}").copy_(layer.b)
                second = getattr(theirs, f"bias_hh_l{k}")
                second.zero_()
                if layer.u is not None:
                    second[-encoder.units :] = layer.u
        found.append(theirs)
    return found


@pytest.mark.parametrize(("cell", "kind"), [("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_a_vector_is_both_final_states_of_torchs_layers_over_packed_words(
    cell: str, kind: type[nn.LSTM]
) -> None:
    model = small(cell=cell).double()
    ids, lengths = spelt(model.characters, WORDS, 40)
    packed = nn.utils.rnn.pack_padded_sequence(
        nn.functional.embedding(ids, model.encoder.C), lengths, enforce_sorted=False
    )
    turned = [word[:n].flip(0) for word, n in zip(ids.t(), lengths.tolist(), strict=True)]
    back = nn.utils.rnn.pack_sequence(
        [nn.functional.embedding(word, model.encoder.C) for word in turned], enforce_sorted=False
    )
    last: list[Tensor] = []
    for layers, words in zip(torchs(model.encoder, kind), (packed, back), strict=True):
        state = layers(words)[1]
        last.append((state[0] if cell == "lstm" else state)[-1])
    expected = torch.cat(last, 1)
    torch.testing.assert_close(model.encoder(ids, lengths), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        model.word_vectors(WORDS), expected.detach().numpy(), rtol=0, atol=1e-7
    )


def test_padding_and_company_do_not_matter() -> None:
    model = small()
    words = ["a", "unhappily", "walk", "x" * 300, ""]
    together = model.word_vectors(words)
    for word, row in zip(words, together, strict=True):
        np.testing.assert_array_equal(model.word_vectors([word])[0], row)
    ids, lengths = spelt(model.characters, words[:3], 40)
    wider = torch.cat([ids, torch.full((4, 3), PAD)])
    states = model.double().encoder.states(ids, lengths)
    more = model.encoder.states(wider, lengths)[: len(ids)]
    inside = torch.arange(len(ids))[:, None] < lengths
    torch.testing.assert_close(states[inside], more[inside], rtol=0, atol=0)


def test_what_stands_behind_a_mask_is_never_seen_and_only_it_is_scored() -> None:
    model = small(masked=0.4).double().eval()
    ids, lengths = spelt(model.characters, ["walked", "talk"], 40)
    place = 3
    nats = []
    for hidden in "kxz":
        words = ["wal" + hidden + "ed"]
        nats.append(model.restored(words[0], place))
    np.testing.assert_array_equal(nats[0], nats[1])
    for outside in (-1, 6):
        with pytest.raises(ValueError, match="from place 0 to 5"):
            model.restored("walked", outside)
    assert np.exp(nats[0]).sum() == pytest.approx(1)
    masked, targets = ids.clone(), torch.full_like(ids, -1)
    masked[place + 1, 0], targets[place + 1, 0] = (
        len(model.characters),
        ids[place + 1, 0] - RESERVED,
    )
    found = model((masked, lengths, targets))
    assert found.n_scored == 1
    assert float(found.nll_sum) == pytest.approx(-nats[0][targets[place + 1, 0]], abs=1e-12)


def test_each_word_has_a_mask_and_about_the_share_of_them() -> None:
    word = "abcdefghijklmnopqrst"
    words = tuple(word[i:] + word[:i] for i in range(20))
    model = Config(masked=0.3, batch_size=7).build(inputs_of(words, (1,) * 20), seed=1)
    shares = []
    for ids, lengths, targets in model.batches(inputs_of(words, (1,) * 20), Plan(1)):
        hidden = targets >= 0
        assert bool(hidden.any(0).all())
        assert bool((ids[hidden] == len(model.characters)).all())
        assert not bool(torch.isin(ids[~hidden], torch.tensor([len(model.characters)])).any())
        assert ids[0].tolist() == [BEGIN] * len(lengths)
        assert ids[-1].tolist() == [END] * len(lengths)
        shares.append(hidden.sum() / (lengths - 2).sum())
    assert float(np.mean(shares)) == pytest.approx(0.3, abs=0.08)
    one = small(masked=0.01)
    every = [targets for _, _, targets in one.batches(inputs_of(), Plan(1))]
    assert all(bool(((targets >= 0).sum(0) == 1).all()) for targets in every)


def test_a_character_that_was_never_seen_is_neither_masked_nor_scored() -> None:
    model = small()
    new = ("日本", "wálk")
    text = text_of(new, (1, 1))
    (batch,) = model.batches(Inputs({"heldout": text}), Plan(1, role="heldout"))
    assert 1 <= int((batch[2] >= 0).sum()) <= 3
    assert np.isfinite(model.word_vectors(new)).all()


def test_ranks_share_out_every_batch_and_held_out_masks_stay() -> None:
    model = small(batch_size=4)
    inputs = inputs_of(counts=(9, 1, 1, 5, 1, 1, 40, 80, 1))

    def words(plan: Plan) -> list[tuple[int, ...]]:
        every = []
        for ids, lengths, targets in model.batches(inputs, plan):
            both = torch.cat([ids, targets]).t().tolist()
            rows = zip(both, lengths.tolist(), strict=True)
            every += [(*row[:n], *row[len(ids) : len(ids) + n]) for row, n in rows]
        return every

    whole = words(Plan(5, epoch=2))
    halves = [words(Plan(5, epoch=2, rank=r, world=2)) for r in range(2)]
    assert sorted(whole) == sorted([*halves[0], *halves[1]])
    assert whole != words(Plan(5, epoch=3))
    assert words(Plan(5, epoch=2, start=1)) == whole[4:]
    held = words(Plan(5, role="heldout"))
    assert held == words(Plan(6, epoch=4, role="heldout"))


def test_a_systematic_sample_gives_each_word_its_share() -> None:
    weights = np.array([1.0, 2.0, 3.0, 10.0, 4.0])
    share = weights / weights.sum() * 5
    total = np.zeros(5)
    for seed in range(2000):
        found = np.bincount(systematic(weights, (seed,)), minlength=5)
        assert (np.abs(found - share) < 1).all()
        total += found
    np.testing.assert_allclose(total / 2000, share, atol=0.04)
    assert len(systematic(np.zeros(0), (1,))) == 0


def test_words_are_weighted_by_count_or_by_its_logarithm() -> None:
    by_count = small(weighting="count")._weights(np.array([1, 3]))
    np.testing.assert_array_equal(by_count, [1, 3])
    by_log = small()._weights(np.array([1, 3]))
    assert by_log[1] / by_log[0] == pytest.approx(2)  # log 4 / log 2


def test_it_learns_to_restore_what_the_rest_of_a_word_tells() -> None:
    """Of words "CVCV" with one vowel throughout, a vowel is told by the other one."""
    words = tuple(f"{a}{v}{b}{v}" for a in "ptkbdg" for b in "mnlrs" for v in "aeiou")
    inputs = inputs_of(words, (1,) * len(words))
    model = Config(units=24, embedding=12, dropout=0, batch_size=25).build(inputs, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(30):
        for batch in model.batches(inputs, Plan(1, epoch)):
            optimizer.zero_grad()
            output = model(batch)
            (output.objective / output.n_scored).backward()
            optimizer.step()
    for word, place in (("pama", 1), ("zulu", 3), ("tisi", 1)):
        best = int(model.restored(word, place).argmax())
        assert model.characters.characters[best] == word[4 - place]


def test_characters_are_kept_with_the_model() -> None:
    model = small()
    kept = Characters.from_array(model.state()["characters"])
    assert kept.hash == model.characters.hash
    assert model.characters.characters[0] == "a"  # the most frequent
    assert set(model.characters.characters) == set("".join(WORDS))


def test_listed_vectors_follow_the_weights() -> None:
    model = small()
    before = model.tables()["input"].copy()
    assert model.tables()["input"] is model.tables()["input"]
    (batch,) = model.batches(inputs_of(), Plan(1))
    model(batch).objective.backward()
    with torch.no_grad():
        model.encoder.C.add_(0.1)
    assert not np.array_equal(model.tables()["input"], before)


def test_settings_that_are_none_are_refused() -> None:
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(char_birnn.Config)
    for bad in ({"masked": 0}, {"masked": 1.5}, {"longest": 0}, {"weighting": "none"}):
        with pytest.raises(ValidationError):
            adapter.validate_python(bad)
