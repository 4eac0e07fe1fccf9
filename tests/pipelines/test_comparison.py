"""Models held against each other on words with seen and with unseen contexts."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from models import nplm
from models.family import Inputs
from models.vocabulary import LM_RESERVED, Vocabulary
from pipelines.comparison import Comparison, compare, comparison_table
from tasks.errors import LexloomError
from tasks.evaluation.sets import read_text
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.registry import OpenedModel
from tasks.tokenize import Tokenize
from tasks.versions import Version


def test_two_models_are_told_apart_by_contexts(tmp_path: Path) -> None:
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("the sea is wide\nthe sea is deep\n")
    test.write_text("the sea is deep\na wide sea\n")
    text = TextPipeline(Normalize(), Tokenize(scheme="whitespace"))
    words = ("the", "sea", "is", "wide", "deep")
    vocabulary = Vocabulary(LM_RESERVED, words, np.array([2, 2, 2, 1, 1], np.int64))
    inputs = Inputs({"train": read_text(train, text)[0], "vocabulary": vocabulary})

    def opened(seed: int) -> OpenedModel:
        model: Any = nplm.Config(embedding=4, hidden=4).build(inputs, seed=seed)
        return OpenedModel(model, text, tmp_path, f"sea/{seed}", None, {})

    compared = compare(
        [opened(1), opened(2)], {}, "", [test], 10, lambda *_: None, seen_in=train, order=3
    )
    parts = compared.to_json()["contexts"]["test"]
    # Seen: before "the", "sea", "is", "deep", the first end and "a"; not before what follows it.
    assert [(p["model"], p["seen"], p["tokens"]) for p in parts] == [
        ("sea/1", True, 6),
        ("sea/1", False, 3),
        ("sea/2", True, 6),
        ("sea/2", False, 3),
    ]
    whole = compared.models["sea/1"][0].value
    assert whole == pytest.approx(np.exp((parts[0]["nll"] + parts[1]["nll"]) / 9))
    other = tmp_path / "other" / "test.txt"
    empty = tmp_path / "empty.txt"
    other.parent.mkdir()
    other.write_text("the sea\n")
    empty.write_text("\n \n")
    for models, texts, problem in (
        ([opened(1), opened(1)], [test], "sea/1: this model is named twice"),
        ([opened(1)], [test, other], "2 texts are called test"),
        ([opened(1)], [empty], "empty.txt: there are no words in this text"),
    ):
        with pytest.raises(LexloomError, match=problem):
            compare(models, {}, "", texts, 10, lambda *_: None)
    assert "perplexity.test, unseen contexts, sea/2" in shown(compared)

    def of_version(number: int, settings: str) -> OpenedModel:
        made = replace(VERSION, version=number, tags={"settings": settings})
        return replace(opened(number), version=made, reference=made.reference)

    def over(*models: OpenedModel) -> tuple[str, float | None]:
        found = compare(models, {}, "", [test], 10, lambda *_: None)
        return shown(found), found.spreads[0].mean

    table, mean = over(of_version(1, "a"), of_version(2, "a"))
    assert "mean ± sd" in table
    assert mean is not None
    for others in (
        (of_version(1, "a"), of_version(2, "b")),
        (of_version(1, "a"), opened(2)),
        (opened(1), opened(2)),
    ):
        table, mean = over(*others)
        assert "mean" not in table
        assert mean is None


def shown(compared: Comparison) -> str:
    console = Console(file=io.StringIO(), record=True, width=200)
    console.print(comparison_table(compared))
    return console.export_text()


VERSION = Version(
    name="sea", version=1, aliases=(), family="nplm", content="c", vocabulary="v",
    capabilities=("scores",), scores=(), created=1e9, run_id="r", location="file:///a", tags={},
)  # fmt: skip
