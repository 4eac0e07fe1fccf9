"""Phrases: gensim's scores and joins, by exact counts, whatever the partitions."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from gensim.models.phrases import ENGLISH_CONNECTOR_WORDS
from gensim.models.phrases import Phrases as Gensim

from tasks.artifacts import Artifact
from tasks.joining import Joining
from tasks.phrases import (
    ABOUT,
    BIGRAMS,
    BIGRAMS_TABLE,
    ENGLISH,
    PHRASES_TABLE,
    CountBigrams,
    Phrases,
    join_corpus,
    read_joining,
)  # fmt: skip
from tasks.runner import Runner
from tasks.store import Store
from tasks.tokenize import TOKENIZE, Tokenize, TokenizeStep, read_tokens
from tasks.vocabulary import TYPES, Types, read_types
from tests.tasks.corpora import documents

NAMES = ["new york", "bank of the north", "out of order", "new york city", "a b"]


def sentences(seed: int, n: int) -> list[str]:
    rng = random.Random(seed)
    fillers = [f"w{i}" for i in range(40)] + ["of", "the", "new", "city", "bank", "new_york"]
    return [
        " ".join(
            rng.choices(fillers, k=rng.randint(0, 6)) + [rng.choice(NAMES)] * rng.randint(0, 2)
        )
        for _ in range(n)
    ]


LINES = sentences(1, 900)
SETTINGS = [
    Phrases(score, threshold, min_count=3, connectors=connectors)
    for score, threshold in (("word2phrase", 4.0), ("npmi", 0.35))
    for connectors in ("none", "english")
]  # type: ignore[arg-type]


def documents_of(lines: list[str], cut: int) -> list[list[str]]:
    return [["\n".join(lines[:cut])], ["\n".join(lines[cut:])]]


def made(
    store: Store, settings: Phrases, cut: int = 300
) -> tuple[list[list[str]], list[Artifact], Artifact]:
    source = documents(store, *documents_of(LINES, cut))
    runner = Runner(store)
    tokens = runner.map(TOKENIZE, {"documents": source}, TokenizeStep(Tokenize("whitespace")))
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    joined, types, found = join_corpus(runner, {"train": tokens}, types, settings)
    parts = read_tokens(store.reader(joined["train"])).partitions
    for part in parts:
        words = [part.types[i] for i in part.text.ids]
        assert list(part.types) == list(dict.fromkeys(words))
        assert dict(zip(part.types, part.counts.tolist(), strict=True)) == Counter(words)
    lines = [
        [part.types[i] for i in part.text.ids[a:b]]
        for part in parts
        for a, b in pairwise(part.text.starts)
    ]
    return lines, found, types


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s.score}-{s.connectors}")
def test_scores_and_joins_are_gensims(store: Store, settings: Phrases) -> None:
    text = [line.split() for line in LINES if line]
    npmi = settings.score == "npmi"
    options = {
        "min_count": 3,
        "max_vocab_size": 10**9,
        "scoring": "npmi" if npmi else "default",
        "connector_words": frozenset(settings.words),
    }
    theirs = Gensim(text, threshold=-1 if npmi else 1e-9, delimiter="\t", **options)
    # gensim multiplies by the size of its table where the tool and we take the number of tokens.
    factor = 1 if npmi else sum(map(len, text)) / len(theirs.vocab)
    theirs.threshold = settings.threshold / factor
    lines, (found,), _ = made(store, settings)
    table = store.reader(found).table(PHRASES_TABLE)
    ours = {
        "\t".join([row["first"], *row["between"].split(), row["second"]]): row["score"]
        for row in table.to_pylist()
    }
    expected = {
        phrase: score * factor
        for phrase, score in theirs.export_phrases().items()
        if phrase.count("\t") <= 3  # we allow two connectors in a row
    }
    assert len(ours) >= 3
    assert set(ours) == set(expected)
    assert ours == pytest.approx(expected, rel=1e-9)
    joined = Gensim(text, threshold=settings.threshold / factor, **options)
    assert lines == [joined[line] for line in text]
    assert set(ENGLISH) == set(ENGLISH_CONNECTOR_WORDS)


def test_partitions_do_not_matter_and_passes_join_more(store: Store) -> None:
    settings = Phrases(threshold=4.0, min_count=3, passes=2, connectors="english")
    results = [made(store, settings, cut) for cut in (0, 300, 900)]
    assert len({tuple(map(tuple, lines)) for lines, _, _ in results}) == 1
    assert len({tuple(a.content for a in found) for _, found, _ in results}) == 1
    lines, found, types = results[0]
    words = set(read_types(store.reader(types))[0])
    assert {"new_york_city", "bank_of_the_north", "out_of_order"} <= words
    joining = read_joining([store.reader(artifact) for artifact in found])
    assert joining.sentences([line.split() for line in LINES if line]) == lines
    assert joining.sentences([]) == []
    assert Joining(((("x", "", "y"),),)).sentences([["x", "y", "x", "x", "y"], ["y", "x"]]) == [
        ["x_y", "x", "x_y"], ["y", "x"],
    ]  # fmt: skip


def test_of_overlapping_pairs_the_first_is_joined() -> None:
    joining = Joining(((("a", "", "a"), ("b", "of the", "c")),), ("of", "the"))
    assert joining.sentences([["a"] * 5, ["b", "of", "the", "c"], ["b", "of", "c"]]) == [
        ["a_a", "a_a", "a"], ["b_of_the_c"], ["b", "of", "c"],
    ]  # fmt: skip


def test_the_sweep_tells_what_thresholds_give(store: Store) -> None:
    settings = Phrases("npmi", 0.35, min_count=3)
    _, (found,), _ = made(store, settings)
    reader = store.reader(found)
    sweep = {row["threshold"]: row for row in reader.json(ABOUT)["sweep"]}
    table = reader.table(PHRASES_TABLE)
    assert sweep[0.35]["phrases"] == table.num_rows == store.manifest(found).stats["phrases"]
    assert sweep[0.35]["occurrences"] == sum(table["count"].to_pylist())
    rows = [sweep[threshold]["phrases"] for threshold in sorted(sweep)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > rows[-1]
    last = table.to_pylist()[-1]
    assert sweep[0.35]["last"][0] == f"{last['first']}_{last['second']}"


def test_bigrams_are_counted_exactly(store: Store) -> None:
    settings = Phrases(threshold=4.0, min_count=1)
    made(store, settings)
    source = documents(store, *documents_of(LINES, 300))
    runner = Runner(store)
    tokens = runner.map(TOKENIZE, {"documents": source}, TokenizeStep(Tokenize("whitespace")))
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    counted = runner.map(BIGRAMS, {"tokens": tokens}, CountBigrams(1, ()), whole={"types": types})
    reader = store.reader(counted)
    found: Counter[tuple[str, str]] = Counter()
    for i in range(reader.n_partitions):
        for row in reader.table(BIGRAMS_TABLE, i).to_pylist():
            assert row["between"] == ""
            found[row["first"], row["second"]] += row["count"]
    assert found == Counter(pair for line in LINES for pair in pairwise(line.split()))
    assert reader.table(BIGRAMS_TABLE)["count"].to_numpy().dtype == np.int64
