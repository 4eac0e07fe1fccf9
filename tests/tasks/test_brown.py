from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import brown
from tasks.brown import cut, cut_brown, find_brown, untagged
from tasks.errors import InputError

TAGGED = (
    "\n\n\tThe/at 1\\/2/cd-tl dogs/nns ,/, and\\/or/cc ``/`` run/vb ''/'' ./.\n\n\nEnd/nn ./.\n"
)


def test_tags_are_dropped_and_slashes_of_words_stay() -> None:
    first, second = untagged(TAGGED)
    assert " ".join(first) == "The 1\\/2 dogs , and\\/or `` run '' ."
    assert second == ["End", "."]


def test_what_is_not_tagged_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match=r"'dog' is no word with a tag") as caught:
        list(untagged("a/at\n\nthe/at dog", "ca07"))
    assert caught.value.where == "ca07:3"


@given(
    lengths=st.lists(st.integers(1, 7), max_size=12),
    sizes=st.lists(st.integers(1, 9), max_size=3),
)
def test_parts_hold_all_words_in_order(lengths: list[int], sizes: list[int]) -> None:
    words = [f"w{i}" for i in range(sum(lengths))]
    source = iter(words)
    sentences = [[next(source) for _ in range(length)] for length in lengths]
    parts = cut(sentences, sizes)
    assert [word for part in parts for sentence in part for word in sentence] == words
    for part, size in zip(parts[:-1], sizes, strict=False):
        assert sum(map(len, part)) == size
    # Each border between parts cuts at most the one sentence that it goes through.
    assert all(sentence for part in parts for sentence in part)
    assert len(sentences) <= sum(map(len, parts)) <= len(sentences) + max(0, len(parts) - 1)


def corpus_at(folder: Path, archive: bool) -> Path:
    """A corpus of two files, which are told apart from what else lies there."""
    texts = {"ca01": "a/at b/nn ./.\nc/nn d/nn\n", "cr09": "e/nn f/nn g/nn\n", "README": "no tags"}
    folder.mkdir(parents=True, exist_ok=True)
    if archive:
        with zipfile.ZipFile(folder / "brown.zip", "w") as file:
            for name, text in reversed(texts.items()):
                file.writestr(f"brown/{name}", text)
        return folder / "brown.zip"
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("archive", [False, True])
def test_a_corpus_is_cut_once(
    tmp_path: Path, archive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brown, "CUTS", (4, 2))
    given = corpus_at(tmp_path / "given", archive)
    home = tmp_path / "home"
    for said in (given, given.parent if archive else given):
        folder = find_brown(str(said), home)
        texts = [(folder / f"{name}.txt").read_text() for name in ("train", "valid", "test")]
        assert texts == ["a b .\nc\n", "d\ne\n", "f g\n"]
    assert find_brown(str(folder), tmp_path / "elsewhere") == folder
    assert find_brown("", home) == folder


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no Brown corpus") as caught:
        find_brown(str(tmp_path), tmp_path / "home")
    assert caught.value.where == str(tmp_path)
    with pytest.raises(InputError, match="8 tokens, which leaves nothing to test on"):
        cut_brown(corpus_at(tmp_path / "small", False), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_corpus_that_cannot_be_downloaded_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])

    def refuse(*_: object, **__: object) -> bool:
        print("[nltk_data] Error loading brown: no network")
        return False

    monkeypatch.setattr(nltk, "download", refuse)
    with pytest.raises(InputError, match=r"Error loading brown: no network") as caught:
        find_brown("", tmp_path)
    assert "--data" in str(caught.value.remedy)
