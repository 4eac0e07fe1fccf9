from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.tokenize import Tokenize, tokenize_text
from tasks.words import count_words
from tests.models.ngram_reference import golden_text

# All that is white space to Python, what looks like it, and letters of one to four bytes.
LETTERS = "ab'é’界😀.\x08\x7f\u200b\u2070\u3001\u00a1\u0086" + "".join(
    chr(i) for i in range(0x3001) if chr(i).isspace()
)


def in_order(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))


def counted(*paths: Path | str, **options: object) -> list[tuple[str, int]]:
    table = count_words([str(path) for path in paths], **options)  # type: ignore[arg-type]
    return list(zip(table["type"].to_pylist(), table["count"].to_pylist(), strict=True))


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    text=st.lists(
        st.one_of(st.text(LETTERS, max_size=12), st.text("ab ", max_size=30)), max_size=30
    ).map(" ".join),
    block=st.integers(1, 40),
    threads=st.integers(1, 3),
)
def test_words_are_what_stands_between_white_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block: int, threads: int
) -> None:
    monkeypatch.setattr("tasks.words.BLOCK", block)
    (tmp_path / "text").write_bytes(text.encode())
    assert counted(tmp_path / "text", threads=threads) == in_order(Counter(text.split()))


def test_a_table_grows(tmp_path: Path) -> None:
    words = [f"{i:x}" * (1 + i % 5) for i in range(40_000)] + ["x" * 300_000, "x" * 300_001] * 2
    (tmp_path / "a").write_text(" ".join(words[:25_000]))
    (tmp_path / "b").write_text("\n".join(words[20_000:]))
    expected = Counter(words[:25_000]) + Counter(words[20_000:])
    for threads in (1, 2):
        assert counted(tmp_path / "a", tmp_path / "b", threads=threads) == in_order(expected)


def test_packed_files_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(" ".join(words) for words in golden_text())
    (tmp_path / "text.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    expected = Counter(text.split())
    assert counted(tmp_path / "text.gz", "-") == in_order(expected + expected)


def test_tokens_are_those_of_the_corpus(tmp_path: Path) -> None:
    text = "Don't stop. DON'T “stop” 3.14, 東京へ\nstop... STOP"
    (tmp_path / "text").write_text(text)
    for lowercase in (False, True):
        read = text.lower() if lowercase else text
        sentences = tokenize_text(read, Tokenize("words"))
        expected = Counter(token for tokens in sentences for token in tokens)
        found = counted(tmp_path / "text", scheme="words", lowercase=lowercase)
        assert found == in_order(expected)
    (tmp_path / "empty").write_text(" \n\u3000")
    assert counted(tmp_path / "empty", scheme="words") == []


def test_what_cannot_be_counted_is_said(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("caf\xe9 noir".encode("latin-1"))
    packed = gzip.compress(b"word " * 10_000)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "no.gz").write_bytes(b"word")
    for name, problem in [
        ("latin", "not UTF-8: it has the word b'caf"),
        ("cut.gz", "damaged or was cut off"),
        ("no.gz", "damaged"),
        ("missing", "no such file"),
        (".", "this is a folder"),
    ]:
        with pytest.raises(InputError, match=problem):
            counted(tmp_path / name, threads=2)
