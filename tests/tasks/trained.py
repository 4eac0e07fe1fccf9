"""Small models of every family as artifacts, trained on a few sentences in a moment."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from models.family import Family, Fits, Inputs, Want, WantsCooccurrence, WantsNgrams, WantsTokens
from models.text import (
    CooccurrenceCounts,
    CooccurrencePart,
    NgramCounts,
    Sentences,
    TokenPartition,
    Tokens,
)
from models.vocabulary import Vocabulary, select
from tasks.artifacts import Artifact, Manifest, canonical_json, recipe_of
from tasks.models import TextPipeline, write_model
from tasks.normalize import Normalize
from tasks.store import Store, Writer
from tasks.tokenize import Tokenize

TEXT = TextPipeline(Normalize(), Tokenize())


def sentences(n: int = 120, seed: int = 5) -> list[list[str]]:
    """Sentences of a small grammar; the words have umlauts, points and other scripts in them."""
    rng = np.random.default_rng(seed)
    nouns = ["Mühle", "river", "naïve", "cat", "дом", "水", "3.14", "o'clock"]
    verbs, ends = ["turns", "sees", "keeps", "loses"], [".", "!", "..."]
    return [
        ["the", rng.choice(nouns), rng.choice(verbs), "a", rng.choice(nouns), rng.choice(ends)]
        for _ in range(n)
    ]


def inputs(family: Family, text: Sequence[Sequence[str]]) -> Inputs:
    """What a family asks for, made of the same text for every split."""
    types, counts = np.unique([word for row in text for word in row], return_counts=True)
    words = tuple(str(word) for word in types)
    tokens = Tokens(
        [TokenPartition(words, counts, Sentences.of(Vocabulary((), words, counts), text))]
    )
    want = family.wants()["vocabulary"]
    vocabulary = select(words, counts, min_count=1, max_size=want.max_size, reserved=want.reserved)

    def value(want: Want) -> object:
        if isinstance(want, WantsTokens):
            return tokens
        if isinstance(want, WantsCooccurrence):
            return cooccurrence(vocabulary, text, want.window)
        return ngrams(vocabulary, text, want.order) if isinstance(want, WantsNgrams) else vocabulary

    return Inputs({role: value(want) for role, want in family.wants().items()})


def cooccurrence(
    vocabulary: Vocabulary, text: Sequence[Sequence[str]], window: int
) -> CooccurrenceCounts:
    scale = math.lcm(*range(1, window + 1))
    table = np.zeros((len(vocabulary), len(vocabulary)), np.int64)
    for sentence in text:
        ids = vocabulary.ids(sentence)
        for i, j in itertools.permutations(range(len(ids)), 2):
            if abs(i - j) <= window:
                table[ids[i], ids[j]] += scale // abs(i - j)
    rows, columns = (a.astype(np.int32) for a in np.nonzero(np.triu(table)))
    words, firsts = np.unique(rows, return_index=True)
    starts = np.append(firsts, len(rows)).astype(np.int64)
    part = CooccurrencePart(words, starts, columns, table[rows, columns])
    return CooccurrenceCounts(len(vocabulary), window, True, scale, [part])


def ngrams(vocabulary: Vocabulary, text: Sequence[Sequence[str]], order: int) -> NgramCounts:
    rows = []
    for sentence in text:
        ids = [1] * (order - 1) + [int(i) for i in vocabulary.ids(sentence)] + [2]
        rows += [ids[i : i + order] for i in range(len(ids) - order + 1)]
    found, counts = np.unique(np.array(rows, np.int32), axis=0, return_counts=True)
    suffixes = np.lexsort(found.T)
    return NgramCounts(order, found[suffixes], counts[suffixes])


def train_small(
    store: Store, family: Family, *, seed: int = 1, text: TextPipeline = TEXT
) -> Artifact:
    """A model as an artifact; closed-form families are fitted, others stay as they began."""
    data = inputs(family, sentences())
    model = family.build(data, seed=seed)
    if isinstance(model, Fits):
        model.fit(data)
    params = {"family": family, "text": text, "seed": seed, "replicate": 0}
    source = Artifact("tokens", "tokenize", "0" * 64, "ab" * 32)
    recipe = recipe_of("train", 1, params, {"train": source})
    out = Writer(store, "train", recipe)
    write_model(out, model, text)
    origin: Mapping[str, object] = {
        "params": json.loads(canonical_json(params)),
        "inputs": {"train": source.to_json()},
    }
    stats = {"training_seconds": 0.5, "tokens_per_second": 1000.0}
    return store.commit(Manifest("model", "train", 1, recipe, out.parts, stats, origin)).handle()
