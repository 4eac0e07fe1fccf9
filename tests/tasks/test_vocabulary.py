"""Counts and vocabularies: exact, and in an order that depends on the counts alone."""

import random
from collections import Counter

import numpy as np
import pytest

from models.family import WantsVocabulary
from models.vocabulary import LM_RESERVED
from tasks.artifacts import Artifact
from tasks.runner import Runner
from tasks.store import Store
from tasks.tokenize import TOKENIZE, Tokenize, TokenizeStep
from tasks.vocabulary import TYPES, VOCABULARY, Types, read_types, read_vocabulary
from tests.tasks.corpora import documents

# In the order of their UTF-8 bytes, which is not that of UTF-16 or of a locale.
WORDS = ["Z", "a", "z", "é", "ﬀ", "𐍈"]


def types(store: Store, *partitions: list[str]) -> Artifact:
    runner, source = Runner(store), documents(store, *partitions)
    step = TokenizeStep(Tokenize("whitespace"))
    tokens = runner.map(TOKENIZE, {"documents": source}, step)
    return runner.run(TYPES, {"tokens": tokens}, Types())


@pytest.mark.parametrize("rows", [0, 1 << 22])
def test_counts_are_exact_in_any_order_of_text(
    store: Store, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr("tasks.vocabulary._MERGE_ROWS", rows)
    rng = random.Random(rows)
    words = [f"w{int(rng.paretovariate(0.7)) % 999}" for _ in range(5000)]
    contents = set()
    for _ in range(2):
        rng.shuffle(words)
        artifact = types(store, [" ".join(words[:3000])], [], words[3000:])
        contents.add(artifact.content)
        expected = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0].encode()))
        found, counts = read_types(store.reader(artifact))
        assert counts.dtype == np.int64
        assert list(zip(found, counts.tolist(), strict=True)) == expected
    assert len(contents) == 1


def test_ties_are_broken_by_bytes(store: Store) -> None:
    found, counts = read_types(store.reader(types(store, WORDS[::-1], ["a z", "z"])))
    assert found == ["z", "a", "Z", "é", "ﬀ", "𐍈"]
    assert counts.tolist() == [3, 2, 1, 1, 1, 1]


def test_a_vocabulary_is_chosen_and_says_what_it_covers(store: Store) -> None:
    artifact = types(store, ["a a a b b <unk> </s> c", "b c d"])
    wants = WantsVocabulary(min_count=2, max_size=2, reserved=LM_RESERVED)
    chosen = Runner(store).run(VOCABULARY, {"types": artifact}, wants)
    vocabulary = read_vocabulary(store.reader(chosen))
    assert vocabulary.entries == ("<unk>", "<s>", "</s>", "a", "b")
    assert vocabulary.counts.tolist() == [3, 3]
    assert store.manifest(chosen).stats == {
        "size": 5, "types": 6, "tokens": 11, "covered": 6, "reserved_surface": 2,
    }  # fmt: skip


def test_a_vocabulary_may_be_empty(store: Store) -> None:
    wants = WantsVocabulary(min_count=9, max_size=None, reserved=())
    chosen = Runner(store).run(VOCABULARY, {"types": types(store, ["a b"])}, wants)
    assert len(read_vocabulary(store.reader(chosen))) == 0
