"""Vectors of tokens and sentences as files and answers, against what the model itself says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from models import birnn, nplm, rnnlm
from models.text import Sentences
from tasks import contextual
from tasks.contextual import (
    nearest_sentences,
    senses,
    write_sentences,
    write_tokens,
)
from tasks.errors import ConfigError, InputError
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.registry import OpenedModel
from tasks.tokenize import Tokenize
from tests.models.test_nplm import SENTENCES, inputs, one_thread  # noqa: F401 - for all tests

LINES = [" ".join(sentence) for sentence in SENTENCES]


def asked(config: Any = None) -> OpenedModel:
    config = config or birnn.Config(units=4, embedding=5, layers=2, min_count=1)
    model = config.build(inputs(), seed=1)
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(3)
    text = TextPipeline(Normalize(), Tokenize(scheme="whitespace"))
    return OpenedModel(model, text, Path("model"), "small/1", None, {})


def test_vectors_of_every_token_as_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By blocks of three lines, which change nothing."""
    monkeypatch.setattr(contextual, "LINES", 3)
    opened, out = asked(), tmp_path / "vectors.parquet"
    told = list[int]()
    lines = [*LINES[:7], "", "the zebra"]
    made = write_tokens(opened, lines, out, layers=["1", "last"], progress=told.append)
    text = [*SENTENCES[:7], ["the", "zebra"]]
    model: Any = opened.model
    expected = model.token_vectors(Sentences.of(model.vocabulary, text))
    n = sum(map(len, text))
    assert (made.rows, made.tokens, made.sentences, made.widths) == (2 * n, n, 8, (8, 8))
    assert told == sorted(told)
    assert told[-1] == n
    table = pq.read_table(out)
    assert table.schema.names == ["sentence", "position", "token", "unknown", "layer", "vector"]
    assert table.schema.field("vector").type.list_size == 8
    rows = table.to_pylist()
    where = [(s, t) for s, sentence in enumerate(text) for t in range(len(sentence))]
    assert [(r["sentence"], r["position"]) for r in rows[::2]] == where
    assert [r["token"] for r in rows[1::2]] == [w for s in text for w in s]
    assert [r["unknown"] for r in rows[::2]] == [w == "zebra" for s in text for w in s]
    for k, layer in ((0, "1"), (1, "2")):
        assert {r["layer"] for r in rows[k::2]} == {layer}
        found = np.array([r["vector"] for r in rows[k::2]], np.float32)
        np.testing.assert_allclose(found, expected[k + 1], rtol=0, atol=1e-6)
    about = json.loads(table.schema.metadata[b"lexloom"])
    assert about == {"model": "small/1", "layers": ["1", "2"], "document": False}


def test_a_document_is_read_on_only_where_it_is_asked_for(tmp_path: Path) -> None:
    opened = asked(rnnlm.Config(units=4, embedding=4, min_count=1))
    vectors = []
    for document in (False, True):
        write_tokens(opened, LINES, tmp_path / "out.parquet", document=document)
        vectors.append(pq.read_table(tmp_path / "out.parquet")["vector"].to_pylist())
    n = len(SENTENCES[0])
    assert np.allclose(vectors[0][:n], vectors[1][:n])
    assert not np.allclose(vectors[0][n:], vectors[1][n:])
    with pytest.raises(ConfigError, match="each sentence alone"):
        write_tokens(asked(), LINES, tmp_path / "out.parquet", document=True)


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contextual, "LINES", 2)
    out = tmp_path / "out.parquet"
    out.write_text("before")

    def breaking() -> Any:
        yield from LINES[:5]
        raise InputError("cannot be read", where="text", remedy="name another")

    for write in (write_tokens, write_sentences):
        with pytest.raises(InputError, match="cannot be read"):
            write(asked(), breaking(), out)
        with pytest.raises(InputError, match="no words"):
            write(asked(), ["", " "], out)
        with pytest.raises(InputError, match="a folder"):
            write(asked(), LINES, tmp_path)
    assert out.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]


def test_layers_of_different_widths_are_written_one_below_the_other(tmp_path: Path) -> None:
    out, alone = tmp_path / "out.parquet", tmp_path / "alone.parquet"
    made = write_tokens(asked(), LINES, out, layers=["all"])
    assert made.widths == (5, 8, 8)
    table = pq.read_table(out)
    assert {len(vector) for vector in table["vector"].to_pylist()} == {5, 8}
    for layer, width in zip(made.layers, made.widths, strict=True):
        assert write_tokens(asked(), LINES, alone, layers=[layer]).widths == (width,)
        here = table.filter(pc.equal(table["layer"], layer))
        assert here["vector"].to_pylist() == pq.read_table(alone)["vector"].to_pylist()
        assert here["token"].to_pylist() == pq.read_table(alone)["token"].to_pylist()


def test_layers_that_are_not_there_and_models_that_have_none(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(ConfigError, match="no layer '7'"):
        write_tokens(asked(), LINES, out, layers=["7"])
    counted = asked(nplm.Config(embedding=4, hidden=4, min_count=1))
    with pytest.raises(InputError, match="no vectors of tokens"):
        write_tokens(counted, LINES, out)
    with pytest.raises(InputError, match="no vectors of sentences"):
        write_sentences(counted, LINES, out)
    assert not out.exists()


def test_a_text_is_never_written_over(tmp_path: Path) -> None:
    text, other = tmp_path / "text.txt", tmp_path / "other.txt"
    text.write_text("\n".join(LINES))
    other.hardlink_to(text)
    for out in (text, other, tmp_path):
        for write in (write_tokens, write_sentences):
            with pytest.raises(InputError, match=r"the text itself|a folder"):
                write(asked(), LINES, out, source=str(text))
    assert text.read_text() == "\n".join(LINES)
    write_sentences(asked(), LINES, tmp_path / "new.parquet", source=str(text))


def test_vectors_of_sentences_and_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contextual, "LINES", 4)
    opened, out = asked(), tmp_path / "out.parquet"
    made = write_sentences(opened, LINES, out)
    model: Any = opened.model
    expected = model.sentence_vectors(Sentences.of(model.vocabulary, SENTENCES))
    table = pq.read_table(out)
    assert table["text"].to_pylist() == LINES
    assert table["sentence"].to_pylist() == list(range(20))
    assert table["tokens"].to_pylist() == [len(s) for s in SENTENCES]
    np.testing.assert_allclose(np.array(table["vector"].to_pylist()), expected, atol=1e-6)
    assert (made.rows, made.sentences, made.widths) == (20, 20, (8,))

    near = nearest_sentences(opened, LINES[13], LINES, 4)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[13]), kind="stable")[:4]
    assert [place.sentence for place in near] == order.tolist()
    assert near[0].tokens == tuple(SENTENCES[13])
    assert near[0].cosine == pytest.approx(1)
    with pytest.raises(ConfigError, match="one sentence"):
        nearest_sentences(opened, "two\nlines", LINES)


def test_occurrences_of_a_word_and_those_that_are_nearest() -> None:
    opened = asked()
    model: Any = opened.model
    found = senses(opened, "sea", LINES, k=2, shown=3)
    where = [(s, t) for s, tokens in enumerate(SENTENCES) for t, w in enumerate(tokens)
             if w == "sea"]  # fmt: skip
    assert (found.word, found.found, found.layer) == ("sea", len(where), "2")
    assert len(found.near) == 3 == len(where)
    vectors = model.token_vectors(Sentences.of(model.vocabulary, SENTENCES))[-1]
    starts = np.cumsum([0, *(len(s) for s in SENTENCES)])
    own = np.array([vectors[starts[s] + t] for s, t in where], np.float64)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    for i, (place, near) in enumerate(found.near):
        assert (place.sentence, place.position) == where[i]
        cosines = own @ own[i]
        others = sorted((j for j in range(3) if j != i), key=lambda j: -cosines[j])
        assert [(p.sentence, p.position) for p in near] == [where[j] for j in others]
        assert [p.cosine for p in near] == pytest.approx([cosines[j] for j in others])
        assert all(p.tokens == tuple(SENTENCES[p.sentence]) for p in near)
    shown = senses(opened, "sea", LINES, layer="embedding").near[0][1]
    assert [p.cosine for p in shown] == pytest.approx([1, 1])  # without context, all alike


def test_words_that_cannot_be_looked_for() -> None:
    with pytest.raises(InputError, match="'zebra' stands nowhere"):
        senses(asked(), "zebra", LINES)
    with pytest.raises(InputError, match="'rug' stands once"):
        senses(asked(), "rug", LINES)
    with pytest.raises(ConfigError, match="2 tokens"):
        senses(asked(), "the sea", LINES)
    with pytest.raises(ConfigError, match="name one"):
        senses(asked(), "sea", LINES, layer="all")
