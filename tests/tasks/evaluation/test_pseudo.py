"""Pseudo-perplexity by hand, and that nobody takes it for a perplexity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models.birnn import Config
from models.family import Model
from models.text import Sentences
from tasks.errors import TrainingError
from tasks.evaluation import perplexity, pseudo
from tasks.evaluation.score import Score, incomparable
from tasks.leaderboard import Row, coverage, label, standing
from tests.models.test_nplm import SENTENCES, inputs

DATA = inputs(SENTENCES * 30)
WORDS = len(SENTENCES) * 30


class Filler:
    """Says -1 for a word of an odd id, -2 for another, and may know documents."""

    def __init__(self, *, reads_on: bool = False, said: float = 0.0) -> None:
        self.vocabulary, self.reads_on, self.said = DATA.vocabulary(), reads_on, said
        self.seen: list[NDArray[np.int32]] = []

    def masked_log_prob(self, text: Sentences) -> NDArray[np.float64]:
        self.seen += np.split(text.ids, text.starts[1:-1])
        return np.where(text.ids % 2, -1.0, -2.0) + self.said


def measured(model: Any, **about: Any) -> Score:
    about = {"source": "text", "train": DATA.tokens(), **about}
    return pseudo.measure("test", model, DATA.tokens(), **about)


def test_the_mean_over_tokens_without_ends() -> None:
    ids = np.concatenate([t.ids for t in DATA.tokens().under(DATA.vocabulary())])
    score = measured(Filler())
    assert score.value == pytest.approx(np.exp(np.where(ids % 2, 1.0, 2.0).mean()))
    assert (score.scored, score.total, score.items) == (len(ids), len(ids), "tokens")
    assert score.interval is not None
    assert score.value is not None
    assert score.interval[0] < score.value < score.interval[1]
    words = np.bincount(ids) + 1  # add-one estimates, the ends and <unk> among the entries
    total = words[3:].sum() + 1 + WORDS + 1
    base = np.exp(-np.log(words[ids] / total).mean())
    assert score.baselines[0].value == pytest.approx(base)


def test_of_a_long_text_sentences_at_even_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = DATA.tokens().n_tokens
    monkeypatch.setattr(pseudo, "LIMIT", tokens // 4 - 5)
    model = Filler()
    score = measured(model)
    every = [DATA.vocabulary().ids(s).tolist() for s in SENTENCES * 30][::5]
    assert [s.tolist() for s in model.seen] == every
    assert score.scored == sum(map(len, every))
    assert score.total == tokens
    assert "every 5th sentence" in score.policy


def test_it_says_what_it_is_and_is_never_ranked_with_a_perplexity() -> None:
    shifted = Config(units=4, embedding=4, min_count=1).build(DATA, seed=1)
    hidden = Config(units=4, embedding=4, min_count=1, objective="mask").build(DATA, seed=1)
    text = DATA.tokens()
    perplexities = perplexity.measure("test", shifted, text, source="text")
    score = measured(hidden)
    assert score.unit == "pseudo_perplexity"
    assert "pseudo-perplexity, not comparable with perplexities" in score.policy
    assert label(score) == "pseudo-perplexity test"
    assert "hidden in turn" in coverage(score)
    assert all(incomparable(score, other) for other in perplexities)
    rows = [row(shifted, perplexities), row(hidden, (score,)), row(Filler(), (measured(Filler()),))]
    assert standing(perplexities[0], rows[0], rows).place is None
    places = [standing(r.scores[0], r, rows).place for r in rows[1:]]
    assert sorted(places) == [1, 2]  # type: ignore[type-var]
    assert incomparable(score, measured(hidden, source="another"))
    assert incomparable(score, replace(score, details={**score.details, "vocabulary": "other"}))
    assert incomparable(measured(Filler()), measured(Filler(reads_on=True)))


def row(model: Model | Any, scores: tuple[Score, ...]) -> Row:
    return Row("birnn", "Bidirectional RNN", "a paper", {}, scores)


def test_no_log_probabilities_are_refused() -> None:
    with pytest.raises(TrainingError, match="above 0"):
        measured(Filler(said=3.0))
    with pytest.raises(TrainingError, match="not a number"):
        measured(Filler(said=float("nan")))


def test_an_empty_text_is_undefined() -> None:
    score = pseudo.measure("test", Filler(), inputs([]).tokens())  # type: ignore[arg-type]
    assert score.value is None
    assert score.undefined == "the text is empty"
