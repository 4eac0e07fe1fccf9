"""Joined encoders are their parts side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import birnn, rnnlm
from models.joined import Config, Joined
from models.text import Sentences
from tests.models.test_nplm import SENTENCES, inputs, one_thread  # noqa: F401 - for all tests
from tests.models.test_rnnlm import built

AHEAD = rnnlm.Config(units=6, embedding=6, layers=2, min_count=1, boundary="sentence")
BACK = replace(AHEAD, direction="backward")


def joined(*configs: Any, **settings: Any) -> Joined:
    parts = [c.build(inputs(), seed=k) for k, c in enumerate(configs)]
    names = tuple(f"part {k}" for k in range(len(parts)))
    config = Config(parts=configs, names=names, contents=names, **settings)
    return Joined(config, parts[0].vocabulary, parts)


def test_two_directions_trained_apart_are_as_two_trained_together() -> None:
    """A model of both directions, and one of each with its weights."""
    both = built(replace(AHEAD, direction="both")).float()
    halves = [built(AHEAD).float(), built(BACK).float()]
    for i, half in enumerate(halves):
        own = {name.replace(f"stacks.{i}.", "stacks.0."): value
               for name, value in both.state_dict().items()
               if not name.startswith(f"stacks.{1 - i}.")}  # fmt: skip
        half.load_state_dict(own)
    config = Config(parts=(AHEAD, BACK), names=("a", "b"), contents=("a", "b"))
    made = Joined(config, both.vocabulary, halves)
    text = Sentences.of(both.vocabulary, SENTENCES)
    assert made.layers == both.layers
    for ours, theirs in zip(
        made.token_vectors(text)[1:], both.token_vectors(text)[1:], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(made.sentence_vectors(text), both.sentence_vectors(text))
    words = ["cat", "zebra"]
    vectors = made.word_vectors(words)
    np.testing.assert_array_equal(vectors[0], np.tile(both.word_vectors(["cat"])[0], 2))
    assert np.isnan(vectors[1]).all()


@pytest.mark.parametrize(
    ("combine", "expected"),
    [("sum", lambda a, b: a + b), ("average", lambda a, b: (a + b) / 2),
     ("product", lambda a, b: a * b)],
)  # fmt: skip
def test_vectors_of_one_width_become_one(combine: Any, expected: Any) -> None:
    made = joined(AHEAD, BACK, combine=combine)
    text = Sentences.of(made.vocabulary, SENTENCES[:3])
    parts = [part.token_vectors(text) for part in made.parts]
    for ours, a, b in zip(made.token_vectors(text), *parts, strict=True):
        np.testing.assert_allclose(ours, expected(a, b), rtol=1e-6)


def test_layers_are_put_together_from_the_last_one() -> None:
    deep = birnn.Config(units=3, embedding=4, layers=3, min_count=1, boundary="document")
    made = joined(replace(AHEAD, layers=1), deep)
    assert made.layers == ("embedding+2", "1+3")
    assert made.reads_on
    assert not joined(AHEAD, BACK).reads_on
    text = Sentences.of(made.vocabulary, SENTENCES[:3])
    one, other = (part.token_vectors(text) for part in made.parts)
    for ours, a, b in zip(made.token_vectors(text), one, other[2:], strict=True):
        np.testing.assert_array_equal(ours, np.concatenate([a, b], 1))


def test_it_is_restored_from_its_arrays() -> None:
    made = joined(AHEAD, birnn.Config(units=3, embedding=4, objective="mask", min_count=1))
    again = made.config.restore(made.vocabulary, made.state())
    text = Sentences.of(made.vocabulary, SENTENCES)
    for a, b in zip(made.token_vectors(text), again.token_vectors(text), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="lexloom join"):
        made.config.build(inputs(), seed=1)
    with pytest.raises(ValueError, match="different numbers"):
        replace(made.config, names=("a",))
