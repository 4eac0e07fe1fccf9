"""Splitting: by the text of a document and the salt, by nothing else."""

import os
from collections import Counter

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from tasks.artifacts import Artifact
from tasks.dedup import DEDUP, Deduplicate
from tasks.runner import Runner
from tasks.split import SPLIT, Fractions, Select, part_of
from tasks.store import Store
from tests.tasks.corpora import documents, texts

WORDS = [f"document {i}" for i in range(300)]


def select(store: Store, source: Artifact, params: Select) -> list[list[str]]:
    runner = Runner(store)
    kept = runner.run(DEDUP, {"documents": source}, Deduplicate())
    return texts(store, runner.map(SPLIT, {"documents": source, "kept": kept}, params))


def parts(store: Store, source: Artifact, fractions: Fractions) -> dict[str, set[str]]:
    found = {}
    for part in ("train", "valid", "test"):
        chosen = select(store, source, Select(part, fractions))  # type: ignore[arg-type]
        found[part] = {text for texts in chosen for text in texts}
    return found


def test_every_document_goes_to_one_part_and_stays_there(store: Store) -> None:
    fractions = Fractions(valid=0.2, test=0.3)
    few = parts(store, documents(store, WORDS[:200]), fractions)
    assert sorted(text for part in few.values() for text in part) == sorted(WORDS[:200])
    many = parts(store, documents(store, WORDS[250:], [], WORDS[:250][::-1]), fractions)
    for part, found in few.items():
        assert found == {text for text in many[part] if text in WORDS[:200]}
    other = parts(store, documents(store, WORDS[:200]), Fractions(0.2, 0.3, "pepper"))
    assert other["test"] != few["test"]


def test_parts_have_their_shares() -> None:
    rule = Fractions(valid=0.05, test=0.1)
    counts = Counter(part_of(os.urandom(16), rule) for _ in range(20_000))
    sigma = np.sqrt(20_000 * np.array([0.05 * 0.95, 0.1 * 0.9]))
    assert abs(counts["valid"] - 1000) < 5 * sigma[0]
    assert abs(counts["test"] - 2000) < 5 * sigma[1]


def test_the_rule_is_pinned() -> None:
    parts = [part_of(bytes([i] * 16), Fractions(0.3, 0.3)) for i in range(8)]
    assert parts == ["train", "train", "train", "test", "train", "test", "valid", "test"]


def test_supplied_splits_ask_no_document(store: Store) -> None:
    source = documents(store, ["a", "b", "a"], [], ["c"])
    assert select(store, source, Select("all")) == [["a", "b"], [], ["c"]]
    assert select(store, source, Select("none")) == [[], [], []]


def test_shares_leave_something_to_train_on() -> None:
    with pytest.raises(ValidationError, match="nothing to train on"):
        TypeAdapter(Fractions).validate_python({"valid": 0.5, "test": 0.5})
