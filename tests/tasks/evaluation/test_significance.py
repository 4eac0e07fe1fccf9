"""The difference of two language models: by hand, against a plain loop, and refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.birnn import Config as BirnnConfig
from models.ngram import Config as NgramConfig
from pipelines.comparison import compare, comparison_table
from tasks.evaluation.significance import p_value, paired
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.registry import OpenedModel
from tasks.tokenize import Tokenize
from tests.tasks.speaking import NGRAM, speaking, trained
from tests.tasks.trained import TEXT, sentences

NATS = "nats a prediction"


def test_a_constant_difference_by_hand() -> None:
    # 100 sentences of 4 predictions: one nat a prediction against two.
    found = paired("x", NATS, np.tile([4.0, 8.0], (100, 1)), np.full(100, 4))
    assert (found.first, found.second) == (pytest.approx(math.e), pytest.approx(math.e**2))
    assert (found.value, found.interval) == (pytest.approx(-1), pytest.approx((-1, -1)))
    assert found.ratio == pytest.approx(1 / math.e)
    assert found.ratio_interval == pytest.approx((1 / math.e, 1 / math.e))
    assert (found.p, found.sentences, found.runs) == (pytest.approx(2 / 1001), 100, 100)
    assert found.shown.endswith("p = 0.002: more than chance")
    same = paired("x", NATS, np.tile([4.0, 4.0], (100, 1)), np.full(100, 4))
    assert (same.value, same.p, same.ratio) == (0.0, 1.0, 1.0)
    assert "may be chance" in same.shown


def test_a_p_value_by_hand() -> None:
    assert p_value(np.array([-1.0] * 95 + [1.0] * 4)) == pytest.approx(2 * 5 / 100)
    assert p_value(np.array([1.0] * 999)) == pytest.approx(2 / 1000)
    assert p_value(np.array([-1.0, 1.0])) == 1.0


def test_the_interval_is_that_of_a_plain_paired_bootstrap() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 30, 400)
    costs = rng.normal(3, 1, (400, 1)) * sizes[:, None] + rng.normal([0.0, 1.0], 2, (400, 2))
    found = paired("x", NATS, costs, sizes)
    drawn = [rng.integers(0, 400, 400) for _ in range(3000)]
    plain = [float((costs[d, 0] - costs[d, 1]).sum() / sizes[d].sum()) for d in drawn]
    low, high = np.quantile(plain, [0.025, 0.975])
    assert found.interval is not None
    width = high - low
    assert found.interval[0] == pytest.approx(low, abs=width / 8)
    assert found.interval[1] == pytest.approx(high, abs=width / 8)
    # Paired: what is hard about a sentence falls on both, and each alone strays far more.
    alone = np.quantile([float(costs[d, 0].sum() / sizes[d].sum()) for d in drawn], [0.025, 0.975])
    assert width < 0.5 * (alone[1] - alone[0])


def test_chance_is_called_chance_at_the_level_that_is_stated() -> None:
    rng = np.random.default_rng(5)
    calls = [
        paired("x", NATS, rng.normal(5, 1, (120, 2)), np.full(120, 3)).p or 0.0
        for _ in range(150)
    ]  # fmt: skip
    assert 0 <= np.mean(np.array(calls) <= 0.05) < 0.12
    assert 0.35 < np.mean(calls) < 0.65


def test_neighbours_stay_together() -> None:
    rng = np.random.default_rng(3)
    # Stretches of 50 sentences are alike, in which one model or the other is better.
    stretches = np.repeat(rng.choice([-1.0, 1.0], 100), 50)
    costs = np.stack([10 + stretches, np.full(5000, 10.0)], 1)
    together = paired("x", NATS, costs, np.full(5000, 5))
    shuffled = paired("x", NATS, rng.permutation(costs), np.full(5000, 5))
    assert together.interval is not None
    assert shuffled.interval is not None
    assert together.runs == 1000
    widths = [high - low for low, high in (together.interval, shuffled.interval)]
    assert widths[0] > 1.8 * widths[1]


# --- two models on a file ---------------------------------------------------------------------


def asked(model: Any, name: str, text: TextPipeline = TEXT) -> OpenedModel:
    return OpenedModel(model, text, Path(), name, None, {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "held.txt"
    path.write_text("\n".join(" ".join(words) for words in sentences(200, seed=9)), "utf-8")
    return path


def held(first: OpenedModel, second: OpenedModel, file: Path) -> Any:
    return compare([first, second], {}, "", [file], 100, lambda done, total, unit: None)


def shown(comparison: Any) -> str:
    return "\n".join(str(note) for note in comparison_table(comparison).renderables[1:])


def test_two_models_of_one_vocabulary_compare(file: Path) -> None:
    models = speaking()
    found = held(asked(models["mixture"], "mix/1"), asked(models["nplm"], "nplm/1"), file)
    difference, bits = found.differences
    (one, _), (two, _) = found.models.values()
    assert difference.name == one.name == "perplexity.held"
    assert difference.first == pytest.approx(one.value, rel=1e-9)
    assert difference.ratio == pytest.approx(one.value / two.value, rel=1e-9)
    assert difference.value == pytest.approx(math.log(one.value / two.value), abs=1e-9)
    low, high = difference.interval
    assert low <= difference.value <= high < 0
    assert (bits.name, bits.unit) == ("bits_per_character.held", "bits a character")
    assert bits.first == pytest.approx(found.models["mix/1"][1].value, rel=1e-9)
    assert bits.ratio is None
    assert "perplexity.held: mix/1 less nplm/1 -" in shown(found)
    assert "200 sentences in 200 runs" in shown(found)
    assert found.to_json()["difference"][0]["p"] == pytest.approx(2 / 1001)


def test_other_vocabularies_are_refused_and_their_bits_compare(file: Path) -> None:
    small = trained(replace(NGRAM, max_size=8))
    found = held(asked(trained(NGRAM), "a/1"), asked(small, "b/1"), file)
    difference, bits = found.differences
    assert (difference.value, difference.p, difference.ratio) == (None, None, None)
    assert difference.shown.startswith("not compared: their vocabularies differ")
    assert bits.value is not None
    assert bits.value < 0
    # Nor is there a mean of the two.
    assert found.spreads[0].mean is None
    assert found.spreads[0].reason.startswith("their vocabularies differ")


def test_other_tokens_are_refused(file: Path) -> None:
    model = trained(NgramConfig(order=2, min_count=1))
    characters = TextPipeline(Normalize(), Tokenize("characters"))
    found = held(asked(model, "a/1"), asked(model, "b/1", characters), file)
    assert "different tokens" in found.differences[0].reason
    assert found.differences[1].value is not None


def test_models_that_fill_in_hidden_words_have_no_probability_to_compare(file: Path) -> None:
    masked = BirnnConfig(objective="mask", units=4, embedding=4, min_count=1)
    hiding, other = asked(trained(masked), "masked/1"), asked(trained(masked), "masked/2")
    found = held(hiding, asked(speaking()["rnnlm"], "rnn/1"), file)
    assert [d.name for d in found.differences] == ["perplexity.held", "bits_per_character.held"]
    for difference in found.differences:
        assert difference.shown == "not compared: one of them gives no probability of text"
    assert "pseudo" in str(comparison_table(found))
    assert held(hiding, other, file).differences == ()


def test_few_sentences_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "few.txt"
    file.write_text("the cat\n" * 5)
    models = speaking()
    found = held(asked(models["ngram"], "a/1"), asked(models["nplm"], "b/1"), file)
    assert "only 5 sentences" in found.differences[0].reason


def test_context_across_sentences_does_not_compare_with_none(file: Path) -> None:
    class Reader:
        """An n-gram model that claims to read on."""

        reads_on = True

        def __init__(self, model: Any) -> None:
            self.config, self.vocabulary, self.state = model.config, model.vocabulary, model.state
            self.documents: list[int] = []
            self._model = model

        def log_prob(self, text: Any) -> Any:
            self.documents.append(len(text.documents) - 1)
            return self._model.log_prob(text)

    model = trained(NGRAM)
    reader = Reader(model)
    found = held(asked(model, "a/1"), asked(reader, "b/1"), file)
    for difference in found.differences:
        assert difference.reason == "one sees across sentences, the other does not"
    # A file is one document to it.
    assert reader.documents == [1]
