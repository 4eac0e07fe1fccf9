"""Running text scored: as the model scores it, in any pieces, and nothing hidden."""

from __future__ import annotations

import gzip
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from models import rnnlm
from models.char_cnn import Config as CharConfig
from models.generation import Sampling
from models.spelling_lm import Config as SpellingConfig
from models.text import Sentences
from pipelines import scoring as answers
from tasks import scoring
from tasks.errors import ConfigError, InputError
from tasks.evaluation.by_sentence import of_file, of_tokens
from tasks.evaluation.perplexity import measure, reads_on
from tasks.evaluation.sets import read_text
from tasks.generation import Made, make_texts, written
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.registry import OpenedModel, open_model
from tasks.scoring import read_lines, write_scores
from tasks.tokenize import Tokenize
from tests.tasks.speaking import NGRAM, RNNLM, speaking, trained, write_folder
from tests.tasks.trained import TEXT, sentences

MODELS = speaking()
LINES = [" ".join(words) for words in sentences(60, seed=9)]
LINES[7] += " gannets"
LINES.insert(11, "")


@pytest.fixture(params=list(MODELS))
def opened(request: pytest.FixtureRequest) -> OpenedModel:
    return asked(MODELS[request.param])


def asked(model: Any, text: TextPipeline = TEXT) -> OpenedModel:
    return OpenedModel(model, text, Path(), "model/1", None, {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES), "utf-8")
    return path


def test_a_file_comes_to_what_its_text_and_an_evaluation_come_to(
    opened: OpenedModel, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = answers.surprise_of_file(opened, str(file))
    shown = answers.surprise(opened, "\n".join(LINES))
    words = shown.pop("words")
    assert shown == whole
    assert whole["unknown"] == sum(not word["known"] for word in words) == 1
    assert whole["nats"] == pytest.approx(-sum(word["log_prob"] for word in words))
    text, source = read_text(file, opened.text)
    score, bits = measure("x", opened.model, text, source=source)
    assert whole["perplexity"] == pytest.approx(score.value, rel=1e-12)
    assert whole["bits_per_character"] == pytest.approx(bits.value, rel=1e-12)
    assert whole["perplexity_of_known"] == pytest.approx(score.details["perplexity_of_known"])
    assert whole["vocabulary"] == score.details["vocabulary"]
    monkeypatch.setattr(scoring, "LINES", 7)
    pieces = answers.surprise_of_file(opened, str(file))
    assert pieces == {
        name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        for name, value in whole.items()
    }


def test_a_model_that_spells_is_not_charged_the_spelling_of_unlisted_words_besides(
    file: Path, tmp_path: Path
) -> None:
    settings = SpellingConfig(char_units=3, char_embedding=3, units=4, speller=4, min_count=2)
    model = asked(trained(settings))
    assert "gannets" not in model.model.vocabulary
    found = answers.surprise_of_file(model, str(file))
    assert (found["unknown"], found["spelling_bytes"]) == (0, 0)
    assert found["perplexity_of_known"] == found["perplexity"]
    bits = found["nats"] / math.log(2) / found["characters"]
    assert found["bits_per_character"] == pytest.approx(bits, rel=1e-12)
    text, source = read_text(file, model.text)
    measured = measure("x", model.model, text, source=source)[1]
    assert measured.value == pytest.approx(bits, rel=1e-12)
    assert "unknown words spelt out" in measured.policy
    assert "unknown words spelt out" in answers.totals(found).plain
    assert all(word["known"] for word in answers.surprise(model, "a gannet")["words"])
    write_scores(model, str(file), tmp_path / "t.parquet", "token")
    assert not any(pq.read_table(tmp_path / "t.parquet")["unknown"].to_pylist())
    for scores in (
        of_file(model, file, lambda *told: None),
        of_tokens(model, text, lambda *told: None),
    ):
        assert scores.bits.sum() == pytest.approx(bits * found["characters"], rel=1e-12)


def test_a_prefix_is_unknown_only_to_models_that_do_not_read_letters() -> None:
    by_letters = CharConfig(char_embedding=3, widths=(1, 2), filters=(4, 4), units=4, min_count=2)
    by_words = rnnlm.Config(units=4, embedding=4, min_count=2)
    for config, expected in ((by_letters, 0), (by_words, 1)):
        model = asked(trained(config))
        assert make_texts(model, "the qqqq", 1, how=Sampling(), length=2, seed=1)[1] == expected


def test_a_model_that_spells_makes_text_letter_by_letter() -> None:
    settings = SpellingConfig(char_units=3, char_embedding=3, units=4, speller=4, min_count=2)
    model = asked(trained(settings))

    def made(count: int, seed: int = 1, **how: Any) -> list[Made]:
        found, unheard = make_texts(
            model, "the gannet", count, how=Sampling(**how), length=4, seed=seed
        )
        assert unheard == 0
        return found

    for text in made(6, temperature=0.3):
        assert text.text == " ".join(["the", "gannet", *text.tokens])
        assert (text.prefix, text.ended) == (("the", "gannet"), len(text.tokens) < 4)
        scores = answers.surprise(model, text.text)["words"]
        if "." not in text.text:  # which a tokenizer would take off its word
            told = scores[2 : 2 + len(text.tokens) + text.ended]
            assert text.log_prob == pytest.approx(sum(word["log_prob"] for word in told))
    assert made(3) == made(5)[:3]
    assert made(1, temperature=0) == made(1, seed=2, temperature=0)
    with pytest.raises(ConfigError, match="spells words letter by letter") as refused:
        made(1, top_k=3)
    assert "--top-k" in str(refused.value)


@pytest.mark.parametrize("lines", [7, 4096])
def test_the_scores_in_a_file_add_up(
    opened: OpenedModel, file: Path, tmp_path: Path, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "LINES", lines)
    vocabulary = opened.model.vocabulary
    tables = {}
    for by in ("token", "sentence"):
        out = tmp_path / f"{by}.parquet"
        sums = write_scores(opened, str(file), out, by)  # type: ignore[arg-type]
        totals = scoring.summary(scoring.language_model(opened), sums)
        assert totals == answers.surprise_of_file(opened, str(file))
        tables[by] = pq.read_table(out)
        about = json.loads(tables[by].schema.metadata[b"lexloom"])
        assert about["vocabulary"] == vocabulary.hash
        assert (about["model"], about["sentence_ends_counted"]) == ("model/1", True)
    tokens, rows = tables["token"].to_pydict(), tables["sentence"].to_pydict()
    assert -math.fsum(tokens["log_prob"]) == pytest.approx(totals["nats"], rel=1e-12)
    np.testing.assert_allclose(
        np.bincount(tokens["sentence"], tokens["log_prob"]), rows["log_prob"], atol=1e-9
    )
    texts = opened.text.sentences("\n".join(LINES))
    assert [token for t in texts for token in (*t, "</s>")] == tokens["token"]
    assert rows["tokens"] == [len(t) for t in texts]
    assert rows["unknown"][7] == sum(rows["unknown"]) == sum(tokens["unknown"]) == 1
    assert rows["characters"] == [len(line) + 1 for line in LINES if line]
    assert rows["sentence"] == list(range(len(texts)))
    assert tokens["position"][: len(texts[0]) + 2] == [*range(len(texts[0]) + 1), 0]
    assert tokens["id"] == [int(vocabulary.id(t)) if t != "</s>" else 2 for t in tokens["token"]]
    # A model that reads on has seen the sentences before it in the file.
    first = 0 if reads_on(opened.model) else 20
    before = replace(Sentences.of(vocabulary, texts[first:21]), documents=np.array([0, 21 - first]))
    said = scoring.language_model(opened).log_prob(before)[-len(texts[20]) - 1 :]
    at = tokens["sentence"].index(20)
    np.testing.assert_allclose(tokens["log_prob"][at : at + len(said)], said, atol=1e-9)


def test_a_file_is_read_packed_from_a_pipe_and_with_any_line_ends(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(read_lines(str(file)))
    assert expected == LINES
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert list(read_lines(str(packed))) == expected
    ends = tmp_path / "ends.txt"
    ends.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(LINES[:5]).encode() + b"\rmore\r\n")
    assert list(read_lines(str(ends))) == [*LINES[:5], "more"]
    stdin = SimpleNamespace(buffer=io.BytesIO(file.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(read_lines("-")) == expected


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(read_lines(str(tmp_path / "none")))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        list(read_lines(str(tmp_path)))
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"good\nb\xffd\n")
    with pytest.raises(InputError, match=r"broken.txt, line 2: not UTF-8 at byte 2"):
        list(read_lines(str(broken)))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"text " * 10_000)[:-20])
    with pytest.raises(InputError, match="damaged or was cut off"):
        list(read_lines(str(cut)))


def test_scores_take_the_place_of_no_folder_and_of_no_text(file: Path, tmp_path: Path) -> None:
    for out, what in ((tmp_path, "a folder"), (file, "the text itself")):
        with pytest.raises(InputError, match=f"this is {what}"):
            write_scores(asked(MODELS["ngram"]), str(file), out, "token")
    assert file.read_text() == "\n".join(LINES)


@pytest.mark.parametrize("empty", ["", "\n\n", " \t\n"])
def test_a_text_without_words_is_refused(opened: OpenedModel, empty: str, tmp_path: Path) -> None:
    file, out = tmp_path / "empty.txt", tmp_path / "scores.parquet"
    file.write_text(empty)
    out.write_bytes(b"before")
    for ask in (
        lambda: answers.surprise(opened, empty),
        lambda: answers.surprise_of_file(opened, str(file)),
        lambda: write_scores(opened, str(file), out, "token"),
    ):
        with pytest.raises(InputError, match="no words in this text"):
            ask()
    assert out.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "scores.parquet"]


def test_a_text_of_unknown_words_alone_has_figures(opened: OpenedModel) -> None:
    found = answers.surprise(opened, "gannets puffins\nskuas")
    assert (found["tokens"], found["unknown"], found["unknown_share"]) == (3, 3, 1.0)
    # What is known are the sentence ends.
    ends = [word["log_prob"] for word in found["words"] if word["word"] == "</s>"]
    assert found["perplexity_of_known"] == pytest.approx(math.exp(-np.mean(ends)))
    assert math.isfinite(found["perplexity"])
    assert found["spelling_bytes"] == 8 + 8 + 6


def test_an_infinite_perplexity_is_said_not_shown(tmp_path: Path) -> None:
    model = trained(NGRAM)
    sure = SimpleNamespace(
        config=model.config, vocabulary=model.vocabulary, state=model.state,
        log_prob=lambda s: np.where(np.insert(s.ids, s.starts[1:], 2) == 0, -np.inf, -1.0),
    )  # fmt: skip
    found = answers.surprise(asked(sure), "the cat gannet")
    assert (found["perplexity"], found["bits_per_character"], found["nats"]) == (None,) * 3
    assert (found["impossible"], found["perplexity_of_known"]) == (1, pytest.approx(math.e))
    assert [word["log_prob"] for word in found["words"]] == [-1, -1, None, -1]
    json.loads(json.dumps(found, allow_nan=False))
    line = answers.totals(found).plain
    assert line.startswith("perplexity is infinite: the model holds 1 of 4 tokens")


def test_a_line_without_tokens_is_no_sentence_and_counts_no_characters() -> None:
    pipeline = TextPipeline(Normalize(), Tokenize())
    sentences, characters = pipeline.sentences_and_characters("the cat\n\u0001\u0002\nsat")
    assert len(sentences) == len(characters)


def test_a_model_without_probabilities_is_refused() -> None:
    vectors = SimpleNamespace(config=None, vocabulary=None, state=dict)
    with pytest.raises(InputError, match="gives no probability of text"):
        answers.surprise(asked(vectors), "the")


# --- text that a model makes ------------------------------------------------------------------


def make(opened: OpenedModel, prefix: str = "", count: int = 3, **asked: Any) -> Any:
    length, seed = asked.pop("length", 9), asked.pop("seed", 1)
    how = answers.sampling(
        asked.get("temperature", 1.0), asked.get("top_k"), asked.get("top_p", 1.0), False
    )
    return make_texts(opened, prefix, count, how=how, length=length, seed=seed)


def test_texts_go_on_from_a_prefix_through_the_pipeline_of_the_model(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "model", MODELS["mixture"], TextPipeline(Normalize(lowercase=True), Tokenize())
    )
    opened = open_model(str(folder), "sqlite://")
    made, unknown = make(opened, "The  CAT gannets")
    assert unknown == 1
    for text in made:
        assert text.prefix == ("the", "cat", "gannets")
        assert text.text.split() == ["the", "cat", "gannets", *text.tokens]
        assert "<unk>" not in text.tokens
        assert text.ended or len(text.tokens) == 9
    assert made == make(opened, "The  CAT gannets", 3)[0]
    assert made[:2] == make(opened, "The  CAT gannets", 2)[0]
    assert made != make(opened, "The  CAT gannets", 3, seed=2)[0]


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"temperature": -1.0}, "temperature is a number from 0 on"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top-k is 1 or more"),
        ({"top_p": 0.0}, "top-p is a share"),
        ({"top_p": 1.5}, "top-p is a share"),
        ({"length": 0}, "length is 1 or more, not 0"),
        ({"seed": -1}, "seed is 0 or more"),
        ({"count": 0}, "count is 1 or more, not 0"),
        ({"count": 10**6, "length": 11}, "1,000,000 texts of up to 11 words are more than"),
    ],
)
def test_what_cannot_be_asked_for(how: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make(asked(MODELS["ngram"]), **how)


def test_a_backward_model_scores_but_does_not_go_on() -> None:
    opened = asked(trained(replace(RNNLM, direction="backward")))
    assert answers.surprise(opened, "the cat")["direction"] == "right to left"
    with pytest.raises(ConfigError, match="a backward model says what comes before a text"):
        make(opened, "the cat")


def test_the_likeliest_text_is_one_text(opened: OpenedModel) -> None:
    made, _ = make(opened, "the", 2, temperature=0.0)
    assert made[0] == made[1]
    assert made == make(opened, "the", 2, temperature=0.0, seed=5)[0]


def test_a_prefix_is_one_sentence() -> None:
    with pytest.raises(InputError, match="one sentence, and these are 2"):
        make(asked(MODELS["ngram"]), "the cat\nthe river")


@pytest.mark.parametrize(
    ("scheme", "tokens", "text"),
    [
        ("words", ["the", "cat", "<unk>"], "the cat <unk>"),
        ("bpe", ["▁the", "▁c", "at", "."], "the cat."),
        ("wordpiece", ["the", "c", "##at", "."], "the cat ."),
        ("characters", ["t", "o", "▁", "m", "é"], "to mé"),
        ("bytes", ["<0xC3>", "<0xA9>", "<0x20>", "<0xC3>"], "é \ufffd"),
    ],
)
def test_tokens_are_written_as_text(scheme: Any, tokens: list[str], text: str) -> None:
    assert written(tokens, Tokenize(scheme)) == text
