"""Whatever stands in a file of a set: it is read, or refused in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.evaluation.categorization import read_classes
from tasks.evaluation.outliers import read_groups
from tasks.evaluation.sets import read_analogies, read_pairs

PIECES = ("a", "b-n", "word1", "score", "\t", ",", ";", '"', "'", " ", "\n", "\n\n", "\r", ": x",
          "/", "#", "1", "-2.5", "nan", "1e999", "\0", "\u2028", "é", "_")  # fmt: skip

READERS: dict[str, Callable[[Path], object]] = {
    "pairs": read_pairs,
    "classes": read_classes,
    "analogies": read_analogies,
    "groups": lambda path: read_groups({"all": path}, "set"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_any_text_is_read_or_refused(
    read: Callable[[Path], object], tmp_path: Path, pieces: list[str]
) -> None:
    path = tmp_path / "set.txt"
    path.write_bytes("".join(pieces).encode())
    with contextlib.suppress(InputError):
        assert read(path)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_not_utf8_or_has_endless_fields_is_refused(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "set.txt"
    path.write_bytes(b"caf\xe9 b 1\n")
    with pytest.raises(InputError, match="not UTF-8 in line 1 at byte 4"):
        read(path)
    path.write_text('"' + "a" * 200_000, "utf-8")
    with pytest.raises(InputError):
        read(path)
