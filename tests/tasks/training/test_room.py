"""Models that no memory holds are refused before they are made."""

from __future__ import annotations

import psutil
import pytest

from models import ngram, nplm
from tasks.errors import ConfigError
from tasks.training.room import check_room


def test_an_absurd_width_is_refused_with_the_memory_it_needs() -> None:
    check_room(nplm.Config(), "families.nplm")
    check_room(ngram.Config(), "families.ngram")
    huge = nplm.Config(hidden=10**9)
    with pytest.raises(ConfigError, match=r"takes 4,\d\d\d GiB .* has \d+\.\d") as caught:
        check_room(huge, "families.nplm")
    assert caught.value.where == "families.nplm"


def test_what_fits_with_few_words_may_not_with_many() -> None:
    config = nplm.Config(embedding=10, hidden=1000)
    words = psutil.virtual_memory().total // (4 * 4 * 1000)
    check_room(config, "families.nplm")
    with pytest.raises(ConfigError, match="with a vocabulary of"):
        check_room(config, "families.nplm", words)


def test_plain_descent_keeps_no_moments() -> None:
    adam, descent = nplm.Config(), nplm.Config(optimizer="sgd")
    assert adam.training_bytes(100) == 2 * descent.training_bytes(100)
    assert adam.training_bytes(100) == 16 * adam.n_weights(100)
