"""Evaluating a model at hand on files, and finding the sets before anything is trained."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from models import word2vec
from tasks.artifacts import Artifact
from tasks.corpus import Corpus
from tasks.errors import InputError
from tasks.evaluation import (
    EvaluationConfig,
    check_sets,
    evaluate_files,
    evaluate_model,
    read_scores,
)
from tasks.evaluation.lexicon import Lexicon, Words
from tasks.evaluation.names import import_sets
from tasks.evaluation.neighbours import telling_words
from tasks.models import TextPipeline, read_model
from tasks.normalize import Normalize
from tasks.runner import Runner
from tasks.store import Store
from tasks.tokenize import Tokenize
from tests.tasks.evaluation.table import Table
from tests.tasks.trained import train_small

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


def test_every_kind_of_set_is_scored_by_the_step(store: Store, tmp_path: Path) -> None:
    known = [w for w in Words(read_model(store.reader(trained(store)))).lexicon.words if len(w) > 1]
    folder = tmp_path / "sets"
    (folder / "bats").mkdir(parents=True)
    (folder / "8-8-8").mkdir()
    rows = "\n".join(f"{a}\t{b}" for a, b in zip(known[:8:2], known[1:8:2], strict=True))
    (folder / "bats" / "made up.txt").write_text(rows, "utf-8")
    (folder / "8-8-8" / "g.txt").write_text("\n".join([*known[:4], "", *known[4:6]]), "utf-8")
    (folder / "ap.tsv").write_text("".join(f"{w}\t{len(w)}\n" for w in known), "utf-8")
    (folder / "EN-RG-65.txt").write_text(
        "".join(f"{a}\t{b}\t{len(b)}\n" for a, b in itertools.pairwise(known)), "utf-8"
    )
    config = EvaluationConfig(
        similarity=("rg65",),
        analogy=("bats",),
        categorization=("ap",),
        outliers=("8-8-8",),
        folder=str(folder),
    )
    check_sets(config)

    def scored(config: EvaluationConfig) -> Artifact:
        no_corpus = cast(Corpus, None)  # a model that gives no probability of text reads none
        return evaluate_model(Runner(store), trained(store), no_corpus, config, "x")

    artifact = scored(config)
    scores = {score.name: score for score in read_scores(store.reader(artifact))}
    assert list(scores) == [
        "similarity.rg65", "analogy.bats", "analogy.bats.3cosmul", "categorization.ap",
        "outliers.8-8-8", "outliers.8-8-8.opp",
    ]  # fmt: skip
    assert all(score.value is not None for score in scores.values())
    assert list(scores["analogy.bats"].details["sections"]) == ["made up"]
    # Where the sets lie is no matter, what their sections are called is.
    moved = folder.rename(tmp_path / "moved")
    assert scored(replace(config, folder=str(moved))) == artifact
    (moved / "bats" / "made up.txt").rename(moved / "bats" / "called otherwise.txt")
    again = scored(replace(config, folder=str(moved)))
    (add,) = [s for s in read_scores(store.reader(again)) if s.name == "analogy.bats"]
    assert list(add.details["sections"]) == ["called otherwise"]
    (moved / "bats" / "more.txt").write_text("a\tb\n", "utf-8")
    wrong = EvaluationConfig(similarity=(str(moved / "bats"),), analogy=())
    with pytest.raises(InputError, match="similarity is one file, not 2"):
        scored(wrong)


def trained(store: Store) -> Artifact:
    return train_small(store, word2vec.Config(dim=6, min_count=1))


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
