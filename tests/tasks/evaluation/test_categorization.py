"""Purity: by hand, planted clusters, parity with scikit-learn, and sets that say little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tasks.errors import InputError
from tasks.evaluation.categorization import Classes, k_means, measure, purity, read_classes
from tasks.evaluation.lexicon import Words
from tests.tasks.evaluation.table import Table


def planted(k: int, each: int, noise: float, dim: int = 12) -> tuple[Table, Classes]:
    rng = np.random.default_rng(4)
    centres = rng.standard_normal((k, dim))
    names = [f"c{c}w{i}" for c in range(k) for i in range(each)]
    rows = np.repeat(centres, each, axis=0) + noise * rng.standard_normal((k * each, dim))
    return Table.of(names, rows), Classes({name: name.split("w")[0] for name in names})


def test_purity_by_hand() -> None:
    # Clusters {a, a, b}, {b}, {c, a}: 2 + 1 + 1 of 6.
    assert purity(np.array([0, 0, 0, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 0])) == pytest.approx(
        4 / 6
    )


def test_planted_clusters_are_found_and_chance_is_told() -> None:
    table, classes = planted(5, 12, 0.1)
    score = measure("categorization.x", Words(table), classes)
    assert (score.value, score.scored, score.total) == (1.0, 60, 60)
    assert score.interval == (1.0, 1.0)
    assert 0.2 < score.baselines[0].value < 0.5
    blurred = measure("x", Words(planted(5, 12, 2.0)[0]), classes)
    assert blurred.baselines[0].value < blurred.value < 1
    low, high = blurred.interval
    assert low < blurred.value < high
    assert measure("x", Words(planted(5, 12, 2.0)[0]), classes) == blurred


def test_as_tight_as_scikit_learn() -> None:
    rows = np.random.default_rng(0).standard_normal((300, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ours = min(k_means(rows, 8, np.random.default_rng(s))[1] for s in range(10))
    theirs = KMeans(8, n_init=10, random_state=0).fit(rows).inertia_
    assert ours == pytest.approx(theirs, rel=0.01)
    labels, inertia = k_means(rows, 8, np.random.default_rng(0))
    centres = np.stack([rows[labels == c].mean(axis=0) for c in range(8)])
    assert inertia == pytest.approx(((rows - centres[labels]) ** 2).sum())


@pytest.mark.parametrize("rows", [np.zeros((30, 3)), np.ones((30, 3)), np.eye(30)])
def test_vectors_without_clusters_end_too(rows: np.ndarray) -> None:
    names = [f"w{i}" for i in range(30)]
    classes = Classes({name: str(i % 3) for i, name in enumerate(names)})
    score = measure("x", Words(Table.of(names, rows)), classes)
    assert 1 / 3 <= score.value <= 1


def test_undefined_is_said_and_unknown_words_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    table, classes = planted(3, 8, 0.1)
    more = Classes({**classes.of, "nobody": "c0", "NOWHERE": "c9"})
    score = measure("x", Words(table), more)
    assert (score.scored, score.total, score.details["classes"]) == (24, 26, 3)
    one = measure("x", Words(table), Classes(dict.fromkeys(classes.of, "all")))
    assert (one.value, one.undefined) == (None, "all words covered are of one class")
    none = measure("x", Words(table), Classes({"nobody": "a", "none": "b"}))
    assert (none.value, none.undefined, none.interval) == (None, "no word has a vector", None)
    monkeypatch.setattr("tasks.evaluation.categorization.LEAST_SCORED", 25)
    assert "only 24 words covered" in measure("x", Words(table), classes).undefined


# --- files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "classes", "counts"),
    [
        ("elm\ttree\nopal\tprecious stone\n", {"elm": "tree", "opal": "precious stone"}, (0, 0, 0)),
        ("word,class\nelm,tree\noak,tree\n", {"elm": "tree", "oak": "tree"}, (0, 0, 0)),
        ("elm tree\nelm tree\noak tree\n", {"elm": "tree", "oak": "tree"}, (0, 1, 0)),
        ("elm\ttree\nash\ttree\nash\tdust\nodd\n", {"elm": "tree"}, (1, 0, 1)),
        ("elm-n\ttree\tattri\ttall-j\nelm-n\ttree\thyper\tplant-n\noak-n\ttree\tcoord\telm-n\n",
         {"elm": "tree", "oak": "tree"}, (0, 1, 0)),
    ],
)  # fmt: skip
def test_class_files(text: str, classes: dict, counts: tuple, tmp_path: Path) -> None:
    path = tmp_path / "classes.tsv"
    path.write_text(text, "utf-8")
    read = read_classes(path)
    assert dict(read.of) == classes
    assert (read.ambiguous, read.repeated, read.unread) == counts


@pytest.mark.parametrize("text", ["", "one\ntwo\n", "word\tclass\n"])
def test_a_file_without_classes_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "classes.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"0 of \d lines? parsed as a word and its class"):
        read_classes(path)
