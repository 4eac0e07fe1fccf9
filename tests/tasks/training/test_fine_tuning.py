"""A language model goes on with another text: what the first taught helps with the second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models import awd_lstm, rnnlm
from models.awd_lstm import AwdLstm
from models.family import Inputs
from models.rnnlm import Rnnlm
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary, grown, select
from tasks.store import Store
from tasks.training.learn import learn
from tasks.training.tracker import Silent
from tests.tasks.training.trainee import context_of

Text = list[list[str]]
PLACES = [f"{first}{last}" for first in "bdfgk" for last in "aeiou"]
OTHERS = [f"{first}{last}" for first in "mnpst" for last in "aeiou"]
COMMON: dict[str, rnnlm.Config | awd_lstm.Config] = {
    "awd-lstm": awd_lstm.Config(
        layers=2, units=24, embedding=16, batch_size=8, steps=12, min_count=1, epochs=8,
        learning_rate=0.02, word_dropout=0.0, input_dropout=0.05, hidden_dropout=0.05,
        output_dropout=0.05, weight_drop=0.05, precision="float32",
    ),
    "rnnlm": rnnlm.Config(
        layers=2, units=16, embedding=16, batch_size=8, steps=12, min_count=1, epochs=8,
        learning_rate=0.02, dropout=0.05, precision="float32", patience=0,
    ),
}  # fmt: skip
FINE_TUNED: dict[str, dict[str, Any]] = {
    "awd-lstm": {"layer_decay": 2.6, "schedule": "slanted", "cut": 0.1, "ratio": 32.0},
    "rnnlm": {},
}


def written(places: Sequence[str], lines: int, seed: int) -> Text:
    """Journeys: who goes must come back, and numbers of days agree with what is said of them."""
    random = np.random.default_rng(seed)
    text = []
    for _ in range(lines):
        who = str(random.choice(["she", "he"]))
        back = {"she": "her", "he": "his"}[who]
        first, second = random.choice(places, 2)
        days = int(random.integers(2))
        far = ["one day", "ten days"][days].split()
        said = ["it was near", "they were weary"][days].split()
        line = [who, "went", "from", first, "to", second, "in", *far, "and", *said, "when", who]
        text.append([*line, "saw", back, "house", "in", str(second), "."])
    return text


def tokens(text: Text) -> Tokens:
    types = sorted({word for line in text for word in line})
    sentences = Sentences.of(Vocabulary((), tuple(types), np.ones(len(types), np.int64)), text)
    counts = np.bincount(sentences.ids, minlength=len(types)).astype(np.int64)
    return Tokens([TokenPartition(types, counts, sentences)])


def counted(text: Text) -> tuple[list[str], np.ndarray]:
    words, counts = np.unique([word for line in text for word in line], return_counts=True)
    return words.tolist(), counts


@pytest.mark.parametrize("family", list(COMMON))
def test_going_on_beats_beginning_anew(family: str, tmp_path: Path) -> None:
    """Under one vocabulary, as long and on the same text."""
    torch.set_num_threads(1)
    config = COMMON[family]
    first, second = written(PLACES, 150, 1), written(OTHERS, 40, 2)
    known = select(*counted(first), min_count=1, max_size=None, reserved=LM_RESERVED)
    more = grown(known, *counted(second), min_count=1, max_size=None)
    old = Inputs(
        {"train": tokens(first), "heldout": tokens(written(PLACES, 40, 3)), "vocabulary": known}
    )
    new = Inputs(
        {"train": tokens(second), "heldout": tokens(written(OTHERS, 40, 4)), "vocabulary": more}
    )

    def train(
        name: str, settings: rnnlm.Config | awd_lstm.Config, given: Inputs, base: Any = None
    ) -> tuple[Rnnlm | AwdLstm, float]:
        model = settings.build(given, seed=1)
        if base is not None:
            model.grow_from(base)
        store = Store(str(tmp_path / name), tmp_path)
        report = learn(model, given, 1, context_of(store), Silent())
        return model, float(report["heldout_perplexity"])

    base, _ = train("base", config, old)
    tuned = replace(config, learning_rate=0.01, **FINE_TUNED[family])
    _, anew = train("anew", config, new)
    _, fine_tuned = train("tuned", tuned, new, base)
    assert fine_tuned < 0.8 * anew
