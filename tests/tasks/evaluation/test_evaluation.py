"""Evaluating a model at hand on files, and finding the sets before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from tasks.errors import InputError
from tasks.evaluation import EvaluationConfig, check_sets, evaluate_files
from tasks.evaluation.lexicon import Lexicon
from tasks.evaluation.names import import_sets
from tasks.evaluation.neighbours import telling_words
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.store import Store
from tasks.tokenize import Tokenize
from tests.tasks.evaluation.table import Table

TEXT = TextPipeline(Normalize(), Tokenize())


@dataclass(frozen=True)
class Titled:
    title: str = "A table"


def files(folder: Path) -> tuple[Path, Path, Path]:
    pairs, questions, text = folder / "p.tsv", folder / "q.txt", folder / "t.txt"
    pairs.write_text("a\tb\t1\na\tc\t2\nb\tc\t3\n", "utf-8")
    questions.write_text("a b c d\n", "utf-8")
    text.write_text("a b c\n", "utf-8")
    return pairs, questions, text


def test_a_model_at_hand_is_asked_what_it_can_answer(tmp_path: Path) -> None:
    pairs, questions, text = files(tmp_path)
    rows = np.random.default_rng(0).standard_normal((4, 5))
    table = Table(Table.of("abcd", rows).vocabulary, rows.astype(np.float32), Titled())
    scores = evaluate_files(
        table, TEXT, sets={"similarity": [str(pairs)], "analogy": [str(questions)]}
    )
    assert [s.name for s in scores] == ["similarity.p", "analogy.q", "analogy.q.3cosmul"]
    with pytest.raises(InputError, match="A table: this model gives no probability"):
        evaluate_files(table, TEXT, texts=[text])


def test_sets_are_found_before_anything_is_trained(tmp_path: Path) -> None:
    pairs, questions, _ = files(tmp_path)
    check_sets(EvaluationConfig(similarity=(str(pairs),), analogy=(str(questions),)))
    with pytest.raises(InputError, match=r"wordsim_353: there is no such evaluation set"):
        check_sets(EvaluationConfig(similarity=("wordsim_353",)))
    with pytest.raises(InputError, match=r"no such evaluation set.*\n.*google"):
        check_sets(EvaluationConfig(similarity=(), analogy=("wordsim353",)))


def test_sets_become_inputs_by_content(store: Store, tmp_path: Path) -> None:
    pairs, _, _ = files(tmp_path)
    copy = tmp_path / "elsewhere" / "p.tsv"
    copy.parent.mkdir()
    copy.write_bytes(pairs.read_bytes())
    first, sections = import_sets(store, [str(pairs)], "similarity")
    assert (first, sections) == import_sets(store, [str(copy)], "similarity")
    assert list(first) == ["similarity:p"]
    assert sections == {}
    with pytest.raises(InputError, match="two evaluation sets have this name"):
        import_sets(store, [str(pairs), str(copy)], "similarity")


def test_a_bad_setting_is_refused() -> None:
    config = TypeAdapter(EvaluationConfig)
    assert config.validate_python({}) == EvaluationConfig()
    for bad in ({"restrict": 0}, {"case": "upper"}, {"splits": ["train"]}, {"analogies": ["x"]}):
        with pytest.raises(ValidationError):
            config.validate_python(bad)


def test_telling_words_are_frequent_content_words() -> None:
    words = [f"{'xyz'[i % 3] * 4}{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}" for i in range(600)]
    vocabulary = Table.of(["the", ",", "2,000", *words], np.zeros((603, 1))).vocabulary
    chosen = telling_words(Lexicon.of(vocabulary, "exact"))
    assert len(chosen) == len(set(chosen)) == 8
    assert set(chosen) <= set(words[100:])
    assert telling_words(Lexicon.of(Table.of(["it"], [[0]]).vocabulary, "exact")) == ()
