"""Tokenization: what a token is, that none is lost, and what a partition keeps of them."""

import tempfile
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.tokenize.destructive import NLTKWordTokenizer

from tasks.errors import ConfigError, InputError
from tasks.normalize import Normalize, normalize_text
from tasks.runner import Runner
from tasks.segment import LIBRARIES, Unspaced
from tasks.store import Store
from tasks.tokenize import (
    TOKENIZE,
    Tokenize,
    TokenizeStep,
    read_tokens,
    tokenize_column,
    tokenize_text,
)
from tests.tasks.corpora import documents

WORDS, WHITESPACE = Tokenize(), Tokenize("whitespace")
CHARACTERS, BYTES = Tokenize("characters"), Tokenize("bytes")
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
        ("ฉันรัก x ພາສາ", "ฉั|น|รั|ก|x|ພ|າ|ສ|າ"),
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


@given(text=st.text(st.sampled_from("ab1_'’.,-\x00\x7f$"), max_size=20))
def test_ascii_is_cut_by_the_same_rules(text: str) -> None:
    alone, beside = tokenize_text(text, WORDS), tokenize_text(f"{text}。", WORDS)
    assert beside == [[*(alone[0] if alone else []), "。"]]


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    texts=st.lists(st.lists(anything).map("\u2003".join), max_size=20),
    params=st.sampled_from([WORDS, WHITESPACE]),
    batch=st.integers(1, 300),
)
def test_large_partitions_give_what_small_ones_give(
    monkeypatch: pytest.MonkeyPatch, texts: list[str], params: Tokenize, batch: int
) -> None:
    monkeypatch.setattr("tasks.tokenize._BATCH", batch)
    column = pa.chunked_array([pa.array(["x", *texts], pa.large_string())[1:]])
    results = []
    for large in (0, 1 << 40):
        monkeypatch.setattr("tasks.tokenize._LARGE", large)
        types, text, characters = tokenize_column(column, params)
        found = [text.ids, text.starts, text.documents, characters]
        results.append((types, *(array.tolist() for array in found)))
    assert results[0] == results[1]
    kept = [sentence for text in texts for sentence in tokenize_text(text, params)]
    assert len(results[0][2]) == len(kept) + 1


@given(text=anything)
def test_marks_stay_with_what_they_are_on(text: str) -> None:
    for line in normalize_text(text, Normalize()).split("\n"):
        pieces = set(line.split())
        for token in (token for tokens in tokenize_text(line, WORDS) for token in tokens):
            mark = unicodedata.category(token[0]) in ("Mn", "Me")
            assert not mark or any(piece.startswith(token) for piece in pieces)


def test_characters_and_bytes() -> None:
    text = "na\u0308 👍🏽x  <s>\n\nก้"
    assert tokenize_text(text, CHARACTERS) == [
        ["n", "a\u0308", "▁", "👍🏽", "x", "▁", "<", "s", ">"], ["ก้"],
    ]  # fmt: skip
    assert tokenize_text("é <0x41>", BYTES) == [
        ["<0xC3>", "<0xA9>", "<0x20>", *(f"<0x{byte:02X}>" for byte in b"<0x41>")]
    ]


@given(text=anything)
def test_no_character_or_byte_is_lost(text: str) -> None:
    lines = [" ".join(line.split()) for line in text.split("\n") if line.split()]
    characters = tokenize_text(text, CHARACTERS)
    assert ["".join(tokens).replace("▁", " ") for tokens in characters] == lines
    found = tokenize_text(text, BYTES)
    assert [bytes(int(t[1:-1], 16) for t in tokens) for tokens in found] == [
        line.encode() for line in lines
    ]


TREEBANK = """ " '' . .. ... ' n't can not cannot a Mr. U.S. ) ( ] `` ` “ ” ’ s 's , : ; 3 1,000 --
- — 'tis 'twas more'n d'ye gonna wanna ? ! * » « $ % x"""
treebank_parts = st.sampled_from([*TREEBANK.split(), *" " * 15])


@pytest.mark.parametrize("line", ['He said, "I can\'t."', "''tis. )", "end .'", ""])
def test_treebank_is_nltks(line: str) -> None:
    expected = NLTKWordTokenizer().tokenize(" ".join(line.split()))
    assert tokenize_text(line, Tokenize("treebank")) == ([expected] if expected else [])


@settings(max_examples=400)
@given(parts=st.lists(treebank_parts, max_size=14))
def test_treebank_is_nltks_whatever_the_text(parts: list[str]) -> None:
    test_treebank_is_nltks("".join(parts))


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("chinese", "我来到北京清华大学。ok ไทย", "我|来到|北京|清华大学|。|ok|ไ|ท|ย"),
        ("japanese", "東京へ行く。カタカナ語 한국어", "東京|へ|行く|。|カタカナ|語|한국어"),
        ("thai", "ฉันรักภาษาไทย 中文", "ฉัน|รัก|ภาษาไทย|中|文"),
    ],
)
def test_segmenters(language: Unspaced, text: str, tokens: str) -> None:
    assert tokenize_text(text, Tokenize(unspaced=language)) == [tokens.split("|")]
    assert LIBRARIES[language][0] in TokenizeStep.of(Tokenize(unspaced=language)).libraries


def test_a_segmenter_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.segment.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="segment thai takes the library pythainlp"):
        TokenizeStep.of(Tokenize(unspaced="thai"))


def test_unspaced_scripts_can_be_refused() -> None:
    assert tokenize_text("a 한국어 カタカナ", Tokenize(unspaced="refuse"))
    with pytest.raises(InputError, match="holds '東京へ', of a script that is written without"):
        tokenize_text("a 東京へ", Tokenize(unspaced="refuse"))


@settings(max_examples=25, deadline=None)
@given(
    partitions=st.lists(st.lists(anything, max_size=4), min_size=1, max_size=3),
    params=st.sampled_from([WORDS, WHITESPACE, CHARACTERS, BYTES, Tokenize("treebank")]),
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
            written = [len(line) + 1 for text in texts for line in text.split("\n") if line.split()]
            assert part.characters is not None
            assert part.characters.tolist() == written
            assert list(part.types) == list(dict.fromkeys(words))  # order of first appearance
            assert dict(zip(part.types, part.counts.tolist(), strict=True)) == Counter(words)
        assert store.manifest(artifact).stats == {
            "documents": sum(map(len, partitions)),
            "sentences": tokens.n_sentences,
            "tokens": tokens.n_tokens,
        }


def test_white_space_is_pythons(store: Store) -> None:
    text = "x".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != 10)
    artifact = Runner(store).map(
        TOKENIZE, {"documents": documents(store, [f" {text} ", ""])}, TokenizeStep(WHITESPACE)
    )
    part = read_tokens(store.reader(artifact)).partitions[0]
    assert [part.types[i] for i in part.text.ids] == text.split()
    assert part.text.documents.tolist() == [0, 1, 1]


def test_nothing_is_cut(store: Store) -> None:
    twins = ["x" * 1500 + end for end in "ab"]
    source = documents(store, [" ".join(["word"] * 10_000 + ["last", *twins])])
    artifact = Runner(store).map(TOKENIZE, {"documents": source}, TokenizeStep(WORDS))
    part = read_tokens(store.reader(artifact)).partitions[0]
    assert part.types == ["word", "last", *twins]
    assert part.text.starts.tolist() == [0, 10_003]
