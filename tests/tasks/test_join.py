"""What can be joined to one contextual embedder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from models import birnn, nplm, rnnlm
from models.joined import Config, Joined
from tasks.errors import InputError
from tasks.join import check_parts, check_widths
from tests.models.test_nplm import SENTENCES, inputs

AHEAD = rnnlm.Config(units=6, embedding=6, min_count=1)


def refused(*parts: Any, match: str) -> None:
    with pytest.raises(InputError, match=match) as found:
        check_parts(parts, ["one", "other"])
    assert found.value.where == "other"


def test_models_that_cannot_be_joined_are_refused() -> None:
    one, other = AHEAD.build(inputs(), seed=1), replace(AHEAD, direction="backward")
    back = other.build(inputs(), seed=1)
    assert check_parts([one, back], ["one", "other"]) == [one, back]
    refused(one, other.build(inputs(SENTENCES[:9]), seed=1), match="its vocabulary .26 entries.")
    small = nplm.Config(embedding=4, hidden=4, min_count=1).build(inputs(), seed=1)
    refused(one, small, match="without contextual vectors")
    config = Config(parts=(AHEAD, other), names=("a", "b"), contents=("a", "b"))
    refused(one, Joined(config, one.vocabulary, [one, back]), match="made of others")


def test_vectors_of_different_widths_are_concatenated_and_nothing_else() -> None:
    wide = birnn.Config(units=6, embedding=6, min_count=1)
    parts = [c.build(inputs(), seed=1) for c in (AHEAD, wide)]
    config = Config(parts=(AHEAD, wide), names=("a", "b"), contents=("a", "b"))
    check_widths(Joined(config, parts[0].vocabulary, parts))
    summed = Joined(replace(config, combine="sum"), parts[0].vocabulary, parts)
    with pytest.raises(InputError, match="vectors of 1 are 6 and 12 wide"):
        check_widths(summed)
