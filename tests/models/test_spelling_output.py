from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models import spelling_output
from models.characters import BEGIN, END, RESERVED, UNKNOWN, Characters
from models.spelling_output import NONE, STOP, SpellingOutput, spelt_out, targets

AB = Characters("code point", ("a", "b"), np.array([3, 1]))


def layer(characters: Characters = AB, width: int = 4, seed: int = 1) -> SpellingOutput:
    made = SpellingOutput(len(characters), width, 3, 5)
    made.initialize(characters, torch.Generator().manual_seed(seed))
    return made.double()


def states(n: int, width: int = 4) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(7)).double()


def test_the_strings_up_to_a_length_and_what_is_longer_have_all_probability() -> None:
    """Words of an unseen character ("?") are among them."""
    output, length = layer(), 4
    state = states(1)
    words = ["".join(w) for n in range(1, length + 1) for w in itertools.product("ab?", repeat=n)]
    ended = output.log_prob(state.expand(len(words) + 1, -1), targets(AB, [*words, None]))
    # What goes on: all prefixes of the greatest length, without their end.
    open_words = targets(AB, words[-(3**length) :])
    open_words[open_words == END] = NONE
    longer = output.log_prob(state.expand(len(open_words), -1), open_words)
    finished = targets(AB, words[-(3**length) :])
    total = ended.exp().sum() + longer.exp().sum()
    total -= output.log_prob(state.expand(len(finished), -1), finished).exp().sum()
    assert float(total.detach()) == pytest.approx(1, abs=1e-12)
    # No word is empty, and only the end of a sentence has its mark.
    empty = torch.tensor([[END, NONE], [RESERVED, STOP]])
    assert torch.isneginf(output.log_prob(state.expand(2, -1), empty)).all()


def test_it_is_torchs_cell_told_the_state_at_each_step() -> None:
    output, state = layer(), states(1)
    cell = nn.LSTMCell(6, 5).double()
    with torch.no_grad():
        cell.weight_ih.copy_(output.lstm.W)
        cell.weight_hh.copy_(output.lstm.U)
        cell.bias_ih.copy_(output.lstm.b)
        cell.bias_hh.zero_()
    told, before, nats = output.P @ state[0], BEGIN, 0.0
    h = c = torch.zeros(1, 5).double()
    for place, character in enumerate([RESERVED + 1, RESERVED, END]):  # "ba"
        h, c = cell(torch.cat([output.C[before], told])[None], (h, c))
        scores = output.W @ h[0] + output.d + (output.later if place else output.first)
        nats += float(torch.log_softmax(scores, 0)[character].detach())
        before = character
    assert float(output.log_prob(state, targets(AB, ["ba"]))) == pytest.approx(nats, abs=1e-12)


def test_the_loss_is_the_sum_and_company_does_not_matter() -> None:
    output = layer()
    words = ["a", "bab", None, "b" * 300, "?", "ab"]
    hidden = states(len(words))
    together = output.log_prob(hidden, targets(AB, words))
    for i, word in enumerate(words):
        alone = output.log_prob(hidden[i : i + 1], targets(AB, [word]))
        torch.testing.assert_close(alone[0], together[i], rtol=0, atol=1e-10)
    assert torch.isfinite(together).all()
    loss = output.loss(hidden, targets(AB, words))
    assert float(loss) == pytest.approx(-float(together.sum()), rel=1e-12)
    nothing = output.loss(hidden[:0], targets(AB, []))
    nothing.backward()  # type: ignore[no-untyped-call]
    assert float(nothing) == 0
    assert all(parameter.grad is not None for parameter in output.parameters())


def test_a_long_word_does_not_make_others_as_long_as_itself() -> None:
    words = targets(AB, ["ab"] * 3000 + ["b" * 300] + ["aba"] * 40)
    met = list[int]()
    for rows, letters in spelling_output._pieces(words):
        assert letters.shape[1] == len(rows)
        assert letters.numel() <= spelling_output.LETTERS
        assert letters.shape[0] in (3, 4, 301)
        met += rows.tolist()
    assert sorted(met) == list(range(3041))
    assert sum(letters.numel() for _, letters in spelling_output._pieces(words)) < 5 * 301 * 30


def test_gradients_are_those_of_the_loss() -> None:
    output, words = layer(), targets(AB, ["ab", None, "bba"])
    hidden = states(3).requires_grad_()
    output.loss(hidden, words).backward()  # type: ignore[no-untyped-call]
    for parameter in (hidden, *output.parameters()):
        assert parameter.grad is not None
        at = int(parameter.grad.abs().argmax())
        found, values = float(parameter.grad.view(-1)[at]), []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.view(-1)[at] += sign * 1e-6
                values.append(float(output.loss(hidden, words)))
                parameter.view(-1)[at] -= sign * 1e-6
        assert found == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_words_are_drawn_as_often_as_they_are_likely() -> None:
    output, n = layer(seed=3), 20_000
    with torch.no_grad():
        output.d[UNKNOWN] = -torch.inf
        drawn = output.spell(states(1).expand(n, -1), [np.random.default_rng(5)] * n, longest=30)
        for word in ("a", "b", "aa", "ab", None):
            expected = float(output.log_prob(states(1), targets(AB, [word])).exp())
            share = sum(spelt_out(AB, found) == word for found in drawn) / n
            assert share == pytest.approx(expected, abs=4 * (expected / n) ** 0.5)


def test_it_learns_which_word_a_state_stands_for_and_spells_it() -> None:
    words = ["walk", "walks", "a", "talking", None]
    characters = Characters("code point", tuple("aklswtngi"), np.ones(9, np.int64))
    output = SpellingOutput(len(characters), 5, 6, 16)
    output.initialize(characters, torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(output.parameters(), lr=2e-2)
    for _ in range(150):
        optimizer.zero_grad()
        loss = output.loss(torch.eye(5), targets(characters, words))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.inference_mode():
        draws = [np.random.default_rng(1)] * 5
        found = output.spell(torch.eye(5), draws, longest=20, temperature=0)
        cut = output.spell(torch.eye(5), draws, longest=3, temperature=0)
    assert [spelt_out(characters, word) for word in found] == words
    assert [spelt_out(characters, word) for word in cut] == ["wal", "wal", "a", "tal", None]
