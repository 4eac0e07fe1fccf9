from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.class_ngram import ClassNgram, Config
from models.family import State
from models.vocabulary import LM_RESERVED, Vocabulary
from tasks.errors import InputError
from tasks.evaluation.clusters import chosen_clusters
from tasks.export.paths import read_paths, write_features, write_paths


def model_of(words: tuple[str, ...]) -> ClassNgram:
    """Words dealt to four classes: 3 to 6, whose paths are 00, 10, 01 and 11."""
    vocabulary = Vocabulary(LM_RESERVED, words, np.arange(len(words), 0, -1))
    classes = np.concatenate([np.arange(3), 3 + np.arange(len(words)) % 4]).astype(np.int32)
    state: State = {
        "classes": classes,
        "merges": np.array([[3, 5], [4, 6], [3, 4]], np.int32),
        "shares": np.ones(len(classes)),
        "sizes": np.array([7, 0]),
        "keys": np.zeros(0, np.int64),
        "probabilities": np.full(7, 1 / 6),
        "weights": np.ones(7),
    }
    return Config(order=2, min_count=1).restore(vocabulary, state)


def test_a_file_of_paths_is_read_back(tmp_path: Path) -> None:
    words = ("the", "of", "naïve", "New York", "d", "e")
    write_paths(model_of(words), tmp_path / "paths")
    assert (tmp_path / "paths").read_bytes().decode() == (
        "00\tthe\t6\n00\td\t2\n01\tnaïve\t4\n10\tof\t5\n10\te\t1\n11\tNew York\t3\n"
    )
    found = read_paths(tmp_path / "paths")
    assert found["naïve"] == ("01", 4)
    assert set(found) == set(words)
    assert read_paths(tmp_path / "paths") == found


def test_words_that_would_break_lines_are_refused(tmp_path: Path) -> None:
    for word in ("a\tb", "a\nb", "a\rb", "\ud800"):
        with pytest.raises(InputError, match=r"1 word cannot be written"):
            write_paths(model_of(("a", word)), tmp_path / "paths")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("0a1\tdog\t3", "'0a1' is no path"),
        ("\tdog\t3", "'' is no path"),
        ("01\tdog", "2 fields, not 3"),
        ("01\tdog\t-3", "'-3' is no count"),
        ("01\tthe\t3", "'the' is there twice"),
        ("", "1 fields"),
    ],
)
def test_bad_lines_are_told(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "paths"
    path.write_text(f"00\tthe\t6\r\n{line}\n01\tcat\t2\n")
    with pytest.raises(InputError, match=problem) as caught:
        read_paths(path)
    assert "line 2" in str(caught.value)


def test_files_that_are_no_text_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_paths(tmp_path / "nothing")
    (tmp_path / "bytes").write_bytes(b"01\t\xff\t3\n")
    with pytest.raises(InputError, match="not UTF-8 in line 1 at byte 4"):
        read_paths(tmp_path / "bytes")
    (tmp_path / "empty").write_bytes(b"")
    assert read_paths(tmp_path / "empty") == {}


def test_features_are_a_table(tmp_path: Path) -> None:
    write_features(model_of(("the", "of", "cat")), tmp_path / "f.parquet")
    table = pq.read_table(tmp_path / "f.parquet")
    assert table.column_names == ["word", "count", "path", "path_4", "path_6", "path_10", "path_20"]
    assert table.to_pylist()[1] == {
        "word": "of", "count": 2, "path": "10",
        "path_4": "10", "path_6": "10", "path_10": "10", "path_20": "10",
    }  # fmt: skip


def test_classes_to_look_at_hold_telling_words() -> None:
    found = chosen_clusters(model_of(("the", "of", "and", "boat", "ship", "lamp")), n=2, most=1)
    assert list(found) == sorted(found)
    assert all(len(words) == 1 for words in found.values())
    assert "boat" in {*found.get("11", ()), *found.get("00", ())}
