"""Tokenization: what a token is, that none is lost, and what a partition keeps of them."""

import tempfile
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.normalize import Normalize, normalize_text
from tasks.runner import Runner
from tasks.store import Store
from tasks.tokenize import (
    TOKENIZE,
    Tokenize,
    TokenizeStep,
    read_tokens,
    tokenize_text,
)
from tests.tasks.corpora import documents

WORDS, WHITESPACE = Tokenize(), Tokenize("whitespace")
anything = st.text(
    st.one_of(
        st.sampled_from("ab1٣é\u0301\u200d'’.,-_ \n日ひカไ👩🏽🇩🇪\ufe0f<>½"),
        st.characters(codec="utf-8"),
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't stop!", "Don't|stop|!"),
        ("l’homme, 'quoted' rock'n'roll '90s", "l’homme|,|'|quoted|'|rock'n'roll|'|90s"),
        ("3.14 1,000,000 1.2.3 10,5% .5 5. $4", "3.14|1,000,000|1.2.3|10,5|%|.|5|5|.|$|4"),
        ("e.g. U.S. a.b 3rd x2,y", "e|.|g|.|U|.|S|.|a|.|b|3rd|x2|,|y"),
        ("state-of-the-art snake_case", "state|-|of|-|the|-|art|snake_case"),
        ("wait... what?! -- ==== …", "wait|...|what|?|!|--|====|…"),
        ("<s> </s> <unk> [MASK]", "<|s|>|<|/|s|>|<|unk|>|[|MASK|]"),
        ("naïve na\u0308ive Ελλάδα Россия", "naïve|na\u0308ive|Ελλάδα|Россия"),
        ("हिन्दी தமிழ் می\u200cخواهم", "हिन्दी|தமிழ்|می\u200cخواهم"),
        ("東京へ行く。カタカナ 한국어", "東|京|へ|行|く|。|カタカナ|한국어"),
        ("👩‍👩‍👧👍🏽🇩🇪🇫🇷 1️⃣ ☂️😀😀", "👩‍👩‍👧|👍🏽|🇩🇪|🇫🇷|1️⃣|☂️|😀😀"),
        ("x² ½ Ⅷ", "x²|½|Ⅷ"),
    ],
)
def test_what_a_token_is(text: str, tokens: str) -> None:
    assert tokenize_text(text, WORDS) == [tokens.split("|")]


def test_a_line_is_a_sentence_and_whitespace_is_a_scheme() -> None:
    assert tokenize_text("a b.\n\n \nc", WORDS) == [["a", "b", "."], ["c"]]
    assert tokenize_text("don't <unk>, 3.\nx", WHITESPACE) == [["don't", "<unk>,", "3."], ["x"]]


@given(text=anything, params=st.sampled_from([WORDS, WHITESPACE]))
def test_every_character_is_in_exactly_one_token(text: str, params: Tokenize) -> None:
    sentences = tokenize_text(text, params)
    assert ["".join(tokens) for tokens in sentences] == [
        joined for line in text.split("\n") if (joined := "".join(line.split()))
    ]
    assert all(token and not any(map(str.isspace, token)) for s in sentences for token in s)


@given(text=anything)
def test_marks_stay_with_what_they_are_on(text: str) -> None:
    for line in normalize_text(text, Normalize()).split("\n"):
        pieces = set(line.split())
        for token in (token for tokens in tokenize_text(line, WORDS) for token in tokens):
            mark = unicodedata.category(token[0]) in ("Mn", "Me")
            assert not mark or any(piece.startswith(token) for piece in pieces)


@settings(max_examples=25, deadline=None)
@given(
    partitions=st.lists(st.lists(anything, max_size=4), min_size=1, max_size=3),
    params=st.sampled_from([WORDS, WHITESPACE]),
)
def test_a_partition_keeps_every_token_in_its_place(
    partitions: list[list[str]], params: Tokenize
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, Path(folder) / "cache")
        source = documents(store, *partitions)
        artifact = Runner(store).map(TOKENIZE, {"documents": source}, TokenizeStep(params))
        tokens = read_tokens(store.reader(artifact))
        for texts, part in zip(partitions, tokens.partitions, strict=True):
            expected = [tokenize_text(text, params) for text in texts]
            assert [a.dtype for a in (part.text.ids, part.text.starts, part.text.documents)] == [
                np.int32, np.int64, np.int64,
            ]  # fmt: skip
            words = [part.types[i] for i in part.text.ids]
            starts, ends = part.text.starts, part.text.documents
            sentences = [words[a:b] for a, b in pairwise(starts)]
            assert [sentences[a:b] for a, b in pairwise(ends)] == expected
            assert list(part.types) == list(dict.fromkeys(words))  # order of first appearance
            assert dict(zip(part.types, part.counts.tolist(), strict=True)) == Counter(words)
        assert store.manifest(artifact).stats == {
            "documents": sum(map(len, partitions)),
            "sentences": tokens.n_sentences,
            "tokens": tokens.n_tokens,
        }


def test_nothing_is_cut(store: Store) -> None:
    twins = ["x" * 1500 + end for end in "ab"]
    source = documents(store, [" ".join(["word"] * 10_000 + ["last", *twins])])
    artifact = Runner(store).map(TOKENIZE, {"documents": source}, TokenizeStep(WORDS))
    part = read_tokens(store.reader(artifact)).partitions[0]
    assert part.types == ["word", "last", *twins]
    assert part.text.starts.tolist() == [0, 10_003]
