"""Perplexity by seen and unseen contexts, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from models import nplm
from models.family import Inputs
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary
from tasks.errors import InputError
from tasks.evaluation.contexts import Contexts, Part, by_context

VOCABULARY = Vocabulary(LM_RESERVED, ("a", "b", "c"), np.array([3, 2, 1], np.int64))


def tokens(*sentences: str) -> Tokens:
    types = tuple(sorted({word for sentence in sentences for word in sentence}))
    words = Vocabulary((), types, np.ones(len(types), np.int64))
    text = Sentences.of(words, [list(sentence) for sentence in sentences])
    counts = np.bincount(text.ids, minlength=len(types)).astype(np.int64)
    return Tokens([TokenPartition(types, counts, text)])


class Fixed:
    """A model that gives the words and ends of its text the log-probabilities it was made with."""

    vocabulary = VOCABULARY

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = np.array(scores)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        assert len(sentences.ids) + len(sentences) == len(self.scores)
        return self.scores


TRAIN = tokens("ab", "acx")
TEXT = tokens("abc", "xb")
# With two words of context:  a|<s><s>  b|<s>a  c|ab  </s>|bc   x|<s><s>  b|<s>?  </s>|?b
SEEN = [True, True, True, False, True, False, False]


def test_contexts_are_those_of_the_training_text() -> None:
    contexts = Contexts.of(TRAIN, VOCABULARY, 2)
    (part,) = TEXT.partitions
    assert contexts.has(part.under(VOCABULARY)).tolist() == SEEN
    assert not Contexts.of(Tokens([]), VOCABULARY, 2).has(part.under(VOCABULARY)).any()


def test_each_part_has_the_perplexity_of_its_words() -> None:
    scores = -np.array([1.0, 2, 3, 4, 5, 6, 7])
    never = np.where(np.arange(7) == 5, -np.inf, scores)
    models = {"one": Fixed(scores), "other": Fixed(never)}
    parts = by_context(models, VOCABULARY, TRAIN, TEXT, 3)
    assert [(p.model, p.seen, p.tokens, p.impossible) for p in parts] == [
        ("one", True, 4, 0),
        ("one", False, 3, 0),
        ("other", True, 4, 0),
        ("other", False, 3, 1),
    ]
    assert parts[0].perplexity == pytest.approx(np.exp((1 + 2 + 3 + 5) / 4))
    assert parts[1].perplexity == pytest.approx(np.exp((4 + 6 + 7) / 3))
    assert parts[3].perplexity is None
    assert parts[3].to_json()["nll"] is None
    assert Part("m", True, 0, 0, 0.0).perplexity is None


def test_it_takes_any_scoring_models_of_one_vocabulary() -> None:
    inputs = Inputs({"train": TRAIN, "vocabulary": VOCABULARY})
    model = nplm.Config(embedding=3, hidden=3).build(inputs, seed=1)
    assert len(by_context({"nplm": model}, VOCABULARY, TRAIN, TEXT, 3)) == 2
    other = Vocabulary(LM_RESERVED, ("a",), np.array([3], np.int64))
    with pytest.raises(InputError, match="vocabulary is another"):
        by_context({"nplm": model}, other, TRAIN, TEXT, 3)
    with pytest.raises(ValueError, match="order of 2"):
        by_context({"nplm": model}, VOCABULARY, TRAIN, TEXT, 1)
