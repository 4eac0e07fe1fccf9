from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.backoff import BOS
from models.kernels.arpa import write_number
from models.ngram import Ngram
from models.text import Sentences
from models.vocabulary import LM_RESERVED, Vocabulary
from tasks.errors import InputError
from tasks.export.arpa import write_arpa
from tests.models.ngram_reference import fitted, golden_text

HELDOUT = [
    ["the", "baker", "climbed", "the", "stairs", "to", "the", "top", "of", "the", "tower", "."],
    ["a", "zebra", "at", "the", "end", "of", "the", "pier", "smelled", "of", "herring"],
    ["unseen", "words", "only"],
    ["Marta"],
]


def exported(model: Ngram, path: Path) -> kenlm.Model:
    write_arpa(model, path)
    return kenlm.Model(str(path))


@pytest.mark.parametrize("order", range(2, 6))
@pytest.mark.parametrize("min_count", [1, 3])
def test_kenlm_answers_as_the_model_does(tmp_path: Path, order: int, min_count: int) -> None:
    model, _ = fitted(golden_text(), order, min_count)
    reader = exported(model, tmp_path / "model.arpa")
    assert reader.order == order
    text = golden_text() + HELDOUT
    ours = model.log_prob(Sentences.of(model.vocabulary, text))
    theirs = [row[0] for s in text for row in reader.full_scores(" ".join(s))]
    np.testing.assert_allclose(ours / math.log(10), theirs, atol=2e-6)
    perplexity = 10 ** (-sum(reader.score(" ".join(s)) for s in text) / len(ours))
    assert math.exp(-ours.mean()) == pytest.approx(perplexity, abs=5e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"smoothing": "backoff-kneser-ney"},
        {"smoothing": "katz", "prune": (0, 0, 1)},
        {"smoothing": "jelinek-mercer"},
        {"smoothing": "add-k", "k": 0.1},
        {"smoothing": "kneser-ney", "prune_entropy": 1e-5},
    ],
    ids=lambda settings: settings["smoothing"],
)
def test_kenlm_reads_every_smoothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    model, _ = fitted(golden_text(), 3, heldout=HELDOUT, **settings)
    if settings["smoothing"] in ("katz", "backoff-kneser-ney"):
        assert model.table.weights.max() > 1
    reader = exported(model, tmp_path / "model.arpa")
    text = golden_text() + HELDOUT
    ours = model.log_prob(Sentences.of(model.vocabulary, text))
    theirs = [row[0] for s in text for row in reader.full_scores(" ".join(s))]
    np.testing.assert_allclose(ours / math.log(10), theirs, atol=2e-6)


def test_what_is_impossible_is_the_customary_number(tmp_path: Path) -> None:
    model, _ = fitted(golden_text(), 3, smoothing="maximum-likelihood")
    reader = exported(model, tmp_path / "model.arpa")
    said = golden_text()[0]
    ours = model.log_prob(Sentences.of(model.vocabulary, [said])).sum() / math.log(10)
    assert reader.score(" ".join(said)) == pytest.approx(ours, abs=1e-5)
    assert reader.score("zebra") <= -99


def test_order_1_has_the_same_format(tmp_path: Path) -> None:
    model, _ = fitted(golden_text(), 1)
    write_arpa(model, tmp_path / "model.arpa")
    lines = (tmp_path / "model.arpa").read_text("utf-8").split("\n")
    size = len(model.vocabulary)
    assert lines[:4] == ["\\data\\", f"ngram 1={size}", "", "\\1-grams:"]
    assert lines[4 + size :] == ["", "\\end\\", ""]
    rows = [line.split("\t") for line in lines[4 : 4 + size]]
    assert [row[1] for row in rows] == list(model.vocabulary.entries)
    numbers = np.array([float(row[0]) for row in rows])
    assert numbers[BOS] == -99
    expected = np.delete(model.table.probabilities, BOS)
    np.testing.assert_allclose(10 ** np.delete(numbers, BOS), expected, rtol=2e-7)


def test_only_ascii_white_space_parts_words(tmp_path: Path) -> None:
    exotic = ["a\u00a0b", "a\u3000b", "a\u2028b", "\u0085", "né", "日本語", "a"]
    text = [exotic, [*exotic[::-1], "a"], ["a\u00a0b", "a"]]
    model, _ = fitted(text, 3)
    reader = exported(model, tmp_path / "model.arpa")
    assert all(word in reader for word in exotic)
    ours = model.log_prob(Sentences.of(model.vocabulary, text)) / math.log(10)
    theirs = [row[0] for sentence in text for row in reader.full_scores(" ".join(sentence))]
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.parametrize("word", ["a b", "a\tb", "a\n", "\x0b", "a\x00", "", "\ud800", "<s>"])
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, word: str) -> None:
    model, _ = fitted([["a"]], 2)
    words = Vocabulary(LM_RESERVED, (word,), np.ones(1, np.int64))
    with pytest.raises(InputError, match="1 word cannot be written"):
        write_arpa(Ngram(model.config, words, model.table), tmp_path / "model.arpa")
    assert not list(tmp_path.iterdir())


LARGE = st.sampled_from([0, 1, 9999999, 10**7, 10**17])


@given(value=st.integers(-(10**9), 10**9) | LARGE)
def test_numbers_are_written_with_seven_decimals(value: int) -> None:
    out = np.zeros(64, np.uint8)
    text = out[: write_number(out, 0, value)].tobytes().decode()
    assert text == f"{'-' if value > 0 else ''}{abs(value) // 10**7}.{abs(value) % 10**7:07d}"


def test_a_longer_vocabulary_than_a_chunk_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = fitted(golden_text(), 3)
    write_arpa(model, tmp_path / "one.arpa")
    monkeypatch.setattr("tasks.export.arpa._LINES", 7)
    monkeypatch.setattr("tasks.export.arpa._BYTES", 100)
    write_arpa(model, tmp_path / "many.arpa")
    assert (tmp_path / "one.arpa").read_bytes() == (tmp_path / "many.arpa").read_bytes()
