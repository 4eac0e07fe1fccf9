"""Outlier detection: by hand, and parity with its definition item by item."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.errors import InputError
from tasks.evaluation.lexicon import Words
from tasks.evaluation.outliers import Group, measure, phrase_vectors, read_groups
from tests.tasks.evaluation.table import Table


def circle(**degrees: float) -> Table:
    angles = np.deg2rad(list(degrees.values()))
    return Table.of(list(degrees), np.stack([np.cos(angles), np.sin(angles)], axis=1))


def test_by_hand() -> None:
    words = Words(circle(a=0, b=10, c=20, far=150, near=9, unknown_not=300))
    group = Group("g", ("a", "b", "c"), ("far", "near", "missing"))
    accuracy, opp = measure("outliers.g", words, [group])
    # far comes last of four; near lies between a and b, so that a and c stand behind it.
    assert (accuracy.scored, accuracy.total) == (2, 3)
    assert accuracy.value == pytest.approx(1 / 2)
    assert opp.value == pytest.approx((1 + 1 / 3) / 2)
    assert (accuracy.name, opp.name) == ("outliers.g", "outliers.g.opp")
    assert accuracy.baselines[0].value == pytest.approx(1 / 4)
    assert accuracy.details["other_policies"] == {"unknown outliers as wrong": pytest.approx(1 / 3)}
    assert "2 of 3 outliers" in accuracy.line


def test_equals_the_definition_and_its_chance() -> None:
    rng = np.random.default_rng(6)
    names = [f"w{i}" for i in range(320)]
    rows = rng.standard_normal((320, 10))
    groups = [Group(str(g), tuple(names[g : g + 8]), tuple(names[g + 8 : g + 16]))
              for g in range(0, 320, 16)]  # fmt: skip
    accuracy, opp = measure("x", Words(Table.of(names, rows)), groups)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    detected, positions = 0, 0.0
    for g in range(0, 320, 16):
        for outlier in range(g + 8, g + 16):
            ids = [*range(g, g + 8), outlier]
            together = [np.mean([units[i] @ units[j] for j in ids if j != i]) for i in ids]
            position = sorted(range(9), key=lambda i: -together[i]).index(8)
            detected += position == 8
            positions += position / 8
    assert (accuracy.scored, accuracy.details["groups"]) == (160, 20)
    assert accuracy.value == pytest.approx(detected / 160)
    assert opp.value == pytest.approx(positions / 160)
    assert accuracy.value == pytest.approx(accuracy.baselines[0].value, abs=0.08)
    assert opp.value == pytest.approx(0.5, abs=0.08)
    for score in (accuracy, opp):
        low, high = score.interval
        assert low <= score.value <= high


def test_ties_and_groups_of_one_are_no_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    same = Words(Table.of(["a", "b", "c", "o"], np.ones((4, 2))))
    accuracy, opp = measure("x", same, [Group("g", ("a", "b", "c"), ("o",))])
    assert (accuracy.value, opp.value) == (0.0, 0.0)
    accuracy, opp = measure("x", same, [Group("g", ("a", "none"), ("o",)), Group("h", ("x",), ())])
    assert (accuracy.value, accuracy.scored, opp.interval) == (None, 0, None)
    assert "only 0 outliers" in accuracy.undefined


def test_names_of_several_words() -> None:
    table = Table.of(["new_york", "red", "sea", "lake"], [[1, 0], [0, 2], [4, 0], [1, 1]])
    words = Words(table)
    found = phrase_vectors(words, ["New York", "Red_Sea", "red ocean", "no such", "lake"])
    expected = [[1, 0], [2, 1], [0, 2], [np.nan, np.nan], [1, 1]]
    assert np.array_equal(found, np.array(expected, np.float32), equal_nan=True)


# --- files ----------------------------------------------------------------------------------


def test_a_file_a_group_or_all_in_one(tmp_path: Path) -> None:
    trees, fish, whole = (tmp_path / name for name in ("trees.txt", "fish.txt", "all.txt"))
    trees.write_bytes(b"elm\r\noak\r\n\r\ncar\r\nbrick\r\n\r\n")
    fish.write_text("\ncod\nSea Bass\n\nhammer\n", "utf-8")
    whole.write_text(f": trees\nelm\noak\n\ncar\nbrick\n: fish\n{fish.read_text()}", "utf-8")
    expected = (
        Group("trees", ("elm", "oak"), ("car", "brick")),
        Group("fish", ("cod", "Sea Bass"), ("hammer",)),
    )
    assert read_groups({"trees": trees, "fish": fish}) == expected
    assert read_groups({"all": whole}) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no groups"),
        ("a\nb\n", "1 block"),
        ("a\n\nb\n\nc\n", "3 blocks"),
        (": t\n", "0 blocks"),
    ],
)
def test_a_file_that_is_no_group_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "group.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=problem):
        read_groups({"all": path}, "set")
