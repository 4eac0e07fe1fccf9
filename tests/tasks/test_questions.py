"""Opening a large model: what is kept beside it, and that nothing stale is believed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.vocabulary import Vocabulary
from models.word2vec import Config, Model
from pipelines import answers
from tasks import questions
from tasks.errors import ConfigError, InputError
from tasks.export import native
from tasks.models import TextPipeline, write_model
from tasks.normalize import Normalize
from tasks.registry import OpenedModel, open_model
from tasks.tokenize import Tokenize

V, D = 500, 16
WORDS = ("king", "queen", "Paris", "colour", "co-operate", *(f"w{i}" for i in range(V - 5)))


class Folder:
    """Writes the parts of a model into a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def json(self, name: str, value: Any) -> None:
        import json

        (self.path / name).write_text(json.dumps(value))

    def tensors(self, name: str, arrays: Any) -> None:
        from safetensors.numpy import save_file

        save_file(dict(arrays), self.path / name)


def written(folder: Path, seed: int = 1) -> Path:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    tables = rng.normal(size=(2, V, D)).astype(np.float32)
    model = Model(Config(dim=D), Vocabulary((), WORDS, np.arange(V, 0, -1)), *tables)
    write_model(Folder(folder), model, TextPipeline(Normalize(), Tokenize()))  # type: ignore[arg-type]
    native.write_folder_manifest(folder, {})
    return folder


@pytest.fixture
def large(monkeypatch: Any) -> None:
    """What is meant for large models, for small ones."""
    monkeypatch.setattr(questions, "LARGE", 1)
    monkeypatch.setattr(native, "WORTH_A_MARK", 1)


def opened(folder: Path) -> OpenedModel:
    return open_model(str(folder), "sqlite://")


def asked(folder: Path, choice: Any = "own") -> Any:
    return answers.neighbours(opened(folder), ["king", "king - queen + Paris"], 5, choice)


def test_a_large_table_answers_as_a_small_one(tmp_path: Path, monkeypatch: Any) -> None:
    folder = written(tmp_path / "model")
    plain = {choice: asked(folder, choice) for choice in ("own", "output", "sum")}
    assert not list(folder.glob(".*"))
    monkeypatch.setattr(questions, "LARGE", 1)
    for _ in range(2):
        for choice, expected in plain.items():
            for text, ranking in asked(folder, choice).items():
                assert [w for w, _ in ranking] == [w for w, _ in expected[text]]
                np.testing.assert_allclose(
                    [c for _, c in ranking], [c for _, c in expected[text]], atol=1e-5
                )
    assert len(list(folder.glob(".nearest-*"))) == 3


@pytest.mark.usefixtures("large")
def test_the_second_opening_makes_and_hashes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    from models.kernels import shortlist

    folder = written(tmp_path / "model")
    first = asked(folder)
    monkeypatch.setattr(native, "file_hash", lambda path: pytest.fail(f"{path} was hashed"))
    monkeypatch.setattr(shortlist.Codes, "of", lambda *_: pytest.fail("codes were made"))
    assert asked(folder) == first


@pytest.mark.usefixtures("large")
def test_codes_of_other_weights_or_damaged_ones_are_made_again(tmp_path: Path) -> None:
    folder = written(tmp_path / "model")
    before = asked(folder)
    kept = folder / ".nearest-own.safetensors"
    other = asked(written(folder, seed=2))
    assert other != before
    assert other == asked(written(tmp_path / "fresh", seed=2))
    for damage in (b"", b"\0" * 100, kept.read_bytes()[:-50]):
        kept.write_bytes(damage)
        assert asked(folder) == other


@pytest.mark.usefixtures("large")
def test_a_file_that_changes_after_its_check_is_checked_again(tmp_path: Path) -> None:
    folder = written(tmp_path / "model")
    asked(folder)
    assert (folder / native.CHECKED).exists()
    weights = folder / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        opened(folder)


@pytest.mark.usefixtures("large")
def test_where_nothing_can_be_written_it_answers_all_the_same(tmp_path: Path) -> None:
    folder = written(tmp_path / "model")
    for name in (native.CHECKED, ".nearest-own.safetensors"):
        (folder / name).mkdir()  # root may write anywhere, but no file where a folder is
    assert asked(folder) == asked(folder) == asked(written(tmp_path / "other"))


def test_a_graph_answers_tells_what_it_misses_and_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    folder, told = written(tmp_path / "model"), list[float]()
    exact = asked(folder)
    for _ in range(2):
        found = answers.neighbours(opened(folder), list(exact), 5, "own", told.append)
        for text, ranking in found.items():
            # Judged by the rows themselves: what is found has its exact cosine and place.
            common = [pair for pair in exact[text] if pair[0] in dict(ranking)]
            assert len(common) >= 4
            kept = [pair for pair in ranking if pair[0] in dict(exact[text])]
            assert dict(kept) == pytest.approx(dict(common), abs=1e-5)
    assert told[0] == told[1] > 0.95
    graph, note = folder / ".nearest-own.usearch", folder / ".nearest-own.json"
    before = graph.stat().st_mtime_ns
    asked_again, _ = questions.approximate_word_vectors(opened(folder))
    assert graph.stat().st_mtime_ns == before
    assert len(asked_again.most_similar(["king"], k=3, restrict=9)) == 3
    written(folder, seed=2)
    questions.approximate_word_vectors(opened(folder))
    assert graph.stat().st_mtime_ns != before
    note.write_text("{")
    questions.approximate_word_vectors(opened(folder))


def test_without_its_library_there_is_no_graph(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ConfigError, match="takes the library usearch"):
        questions.approximate_word_vectors(opened(written(tmp_path / "model")))


# --- what is said ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("King", ["king"]), ("PARIS", ["Paris"]), ("color", ["colour"]), ("qeuen", ["queen"]),
        ("cooperate", ["co-operate"]), ("zzzzzz", []), ("", []), ("w", ["w0", "w1", "w2"]),
    ],
)  # fmt: skip
def test_close_forms(word: str, forms: list[str]) -> None:
    assert questions.close_forms(Vocabulary((), WORDS, np.arange(V, 0, -1)), word) == forms


def test_errors_say_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    model = opened(written(tmp_path / "model"))
    for ask, problem, remedy in [
        (lambda: answers.neighbours(model, ["qeen"], 3), "does not know 'qeen'", "'queen'"),
        (lambda: answers.neighbours(model, ["king + Quen"], 3), "does not know 'Quen'", "'queen'"),
        (lambda: answers.neighbours(model, ["king queen"], 3), "is no sum of words", ""),
        (lambda: answers.rank(model, "king", "zzzz"), "does not know 'zzzz'", "as they are writ"),
        (lambda: answers.similarity(model, "king", "a b"), "does not know 'a'", ""),
        (lambda: answers.similarity(model, "king", " "), "a text without words", ""),
        (
            lambda: answers.similarity(model, "king", "queen", ("w1", "w1")),
            "'w1' and 'w1' have one vector",
            "",
        ),
        (
            lambda: answers.odd_one_out(model, ["king", "queen", "king"]),
            "fewer than three different words",
            "",
        ),
        (
            lambda: answers.analogy(model, ["king - 2 * queen"], 3, "3cosmul"),
            "no weights but the signs",
            "",
        ),
    ]:
        with pytest.raises(InputError, match=problem) as caught:
            ask()
        assert remedy in str(caught.value)
        assert str(model.folder) in str(caught.value)


def test_answers(tmp_path: Path) -> None:
    model = opened(written(tmp_path / "model"))
    vectors = questions.word_vectors(model)
    assert answers.similarity(model, "king", "queen w1") == pytest.approx(
        vectors.n_similarity(["king"], ["queen", "w1"])
    )
    assert answers.similarity(model, "king", "queen", ("w1", "w2")) == pytest.approx(
        vectors.offset_similarity(("king", "queen"), ("w1", "w2"))
    )
    assert answers.odd_one_out(model, ["king", "w1", "w2"]) == vectors.doesnt_match(
        ["king", "w1", "w2"]
    )
    place, closer = answers.rank(
        model, "king", answers.neighbours(model, ["king"], 4)["king"][3][0]
    )
    assert (place, len(closer)) == (4, 3)
    found = answers.analogy(model, ("king", "queen", "w1"), 5, "3cosadd")
    (summed,) = answers.neighbours(model, ["queen - king + w1"], 5).values()
    assert dict(found) == pytest.approx(dict(summed))
    for method in ("3cosadd", "3cosmul"):
        of_words = answers.analogy(model, ("king", "queen", "w1"), 5, method)
        assert answers.analogy(model, ["queen - king + w1"], 5, method) == of_words
    (weighed,) = answers.neighbours(model, ["queen - 0.5 * king"], 5).values()
    found = answers.analogy(model, ["queen - 0.5 * king"], 5, "3cosadd")
    assert dict(found) == pytest.approx(dict(weighed))
