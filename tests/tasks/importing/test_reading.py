"""Files of vectors, good and bad: read as gensim reads them, or refused with the place."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from models.imported import Model
from tasks.errors import InputError
from tasks.export.native import FILES, write_folder_manifest
from tasks.importing.steps import import_model
from tasks.models import read_model
from tasks.runner import Runner
from tasks.store import Store

WORDS = ["the", "Mühle", "a\u00a0b", "a\u3000b", "a", "дом", "😀", "#", "5", "</s>", "<unk>"]


@pytest.fixture
def runner(store: Store) -> Runner:
    return Runner(store)


def table(n: int, dim: int) -> np.ndarray:
    return np.random.default_rng(n).normal(0, 0.3, (n, dim)).astype(np.float32)


def read(
    runner: Runner, folder: Path, data: bytes, format: Any = "auto", errors: Any = "strict"
) -> tuple[Any, dict[str, Any]]:
    path = folder / "vectors"
    path.write_bytes(data)
    artifact = import_model(runner, str(path), format, errors)
    reader = runner.store.reader(artifact)
    stats = {k: v for k, v in runner.outcomes[-1].stats.items() if k not in ("words", "format")}
    return read_model(reader), stats


def refusal(runner: Runner, folder: Path, data: bytes, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(runner, folder, data, **how)
    assert "vectors" in caught.value.where
    return str(caught.value)


def text_of(words: list[str], vectors: np.ndarray, *, header: bool = True) -> bytes:
    rows = zip(words, vectors.tolist(), strict=True)
    lines = [" ".join([word, *(f"{x:.9g}" for x in row)]) for word, row in rows]
    return "\n".join(
        [*([f"{len(words)} {vectors.shape[1]}"] if header else []), *lines, ""]
    ).encode()


def binary_of(words: list[str], vectors: np.ndarray, *, feed: bytes = b"\n") -> bytes:
    records = [
        w.encode() + b" " + v.astype("<f4").tobytes() for w, v in zip(words, vectors, strict=True)
    ]
    return f"{len(words)} {vectors.shape[1]}\n".encode() + b"".join(r + feed for r in records)


def same(model: Any, words: list[str], vectors: np.ndarray) -> None:
    assert isinstance(model, Model)
    assert list(model.vocabulary.words) == words
    assert model.input.tobytes() == vectors.tobytes()
    assert np.array_equal(model.word_vectors([words[0]])[0], vectors[0])
    assert np.isnan(model.word_vectors(["nowhere"])).all()


# --- files as they should be ----------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2, 7, 50])
def test_every_format_is_found_out(dim: int, runner: Runner, tmp_path: Path) -> None:
    vectors = table(len(WORDS), dim)
    files = {
        "word2vec": text_of(WORDS, vectors),
        "glove": text_of(WORDS, vectors, header=False),
        "word2vec-bin": binary_of(WORDS, vectors),
    }
    for format, data in files.items():
        model, stats = read(runner, tmp_path, data)
        same(model, WORDS, vectors)
        assert (model.config.format, stats) == (format, {})
        assert read(runner, tmp_path, gzip.compress(data))[0].input.tobytes() == vectors.tobytes()
    same(read(runner, tmp_path, binary_of(WORDS, vectors, feed=b""))[0], WORDS, vectors)


def test_gensim_and_we_read_each_others_files(runner: Runner, tmp_path: Path) -> None:
    keyed = pytest.importorskip("gensim.models").KeyedVectors
    vectors, path = table(len(WORDS), 20), tmp_path / "gensim"
    theirs = keyed(20)
    theirs.add_vectors(WORDS, vectors)
    for binary in (False, True):
        theirs.save_word2vec_format(str(path), binary=binary)
        again = keyed.load_word2vec_format(str(path), binary=binary)
        same(read(runner, tmp_path, path.read_bytes())[0], again.index_to_key, again.vectors)


def test_oddities_of_text(runner: Runner, tmp_path: Path) -> None:
    """A byte order mark, CRLF, blanks at line ends, empty lines, words with spaces, no last LF."""
    data = b"\xef\xbb\xbf3 2\r\nnew york 1 2 \r\n\r\nat name@domain.com   3   4\r\n. . . 5 6"
    model, stats = read(runner, tmp_path, data)
    same(
        model,
        ["new york", "at name@domain.com", ". . ."],
        np.arange(1, 7, dtype="f4").reshape(3, 2),
    )
    assert stats == {"spaces_in_word": 3}
    model, _ = read(runner, tmp_path, data.partition(b"\n")[2])  # GloVe's 840B has such words
    assert list(model.vocabulary.words) == ["new york", "at name@domain.com", ". . ."]


def test_tables_with_counts_are_sorted_by_them(runner: Runner, tmp_path: Path) -> None:
    columns = {"word": ["b", "new york", "c"], "count": [2, 9, 2],
               "vector": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float64()))}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "table")
    model, stats = read(runner, tmp_path, (tmp_path / "table").read_bytes())
    same(model, ["new york", "b", "c"], np.array([[3, 4], [1, 2], [5, 6]], np.float32))
    assert model.vocabulary.counts.tolist() == [9, 2, 2]
    assert stats == {"reordered": 1}
    pq.write_table(pa.table({"token": ["a"], "vector": [[1.0]]}), tmp_path / "table")
    assert "this one has token, vector" in refusal(
        runner, tmp_path, (tmp_path / "table").read_bytes()
    )


def test_the_same_file_is_read_once(runner: Runner, tmp_path: Path) -> None:
    data = text_of(WORDS, table(len(WORDS), 3))
    (tmp_path / "copy").write_bytes(data)
    read(runner, tmp_path, data)
    import_model(runner, str(tmp_path / "copy"), "auto", "strict")
    assert [outcome.reused for outcome in runner.outcomes] == [False, True]
    assert runner.outcomes[0].artifact.content == runner.outcomes[1].artifact.content


def test_blocks_do_not_show(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"word{i}" for i in range(300)]
    vectors = table(300, 5)
    for size in (7, 64, 1000):
        monkeypatch.setattr("tasks.importing.text.BLOCK", size)
        monkeypatch.setattr("tasks.importing.binary.BLOCK", size)
        for data in (text_of(words, vectors), binary_of(words, vectors)):
            same(read(runner, tmp_path, data + b"\n" * (size % 2))[0], words, vectors)


# --- records that cannot be used ------------------------------------------------------------

ODD: list[tuple[bytes, str, dict[str, int]]] = [
    (b"2 2\na 1 2\nbr\xc3\xbc\xc3 3 4\n", "line 3: the word 'br\\xfc\\\\xc3' is no UTF-8",
     {"invalid_utf8": 1}),
    (b"2 2\na 1 2\na\xed\xa0\x80 3 4\n", "line 3: the word 'a\\\\xed\\\\xa0\\\\x80' is no UTF-8",
     {"invalid_utf8": 1}),
    (b"2 2\na 1 2\nb 3\n", "line 3: the line has fewer than a word and 2 numbers",
     {"too_few_numbers": 1}),
    (b"3 2\na 1 2\nb 3 x4\nc 5 6\n", "line 3, number 2: 'x4' is no number", {"not_a_number": 1}),
    (b"2 2\na 1 2\nb nan inf\n", "line 3: the vector of 'b' is not finite", {"not_finite": 1}),
    (b"2 2\na 1 2\nb 1e39 0\n", "line 3: the vector of 'b' is not finite", {"not_finite": 1}),
    (b"5 2\na 1 2\nb 3 4\n", "promises 5 words, the file has 2; it may be cut off",
     {"missing": 3}),
    (b"1 2\na 1 2\nb 3 4\n", "promises 1 word, the file has 2", {"not_promised": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("data", "problem", "counts"), ODD)
def test_what_cannot_be_used(
    data: bytes, problem: str, counts: dict[str, int], runner: Runner, tmp_path: Path
) -> None:
    told = refusal(runner, tmp_path, data)
    assert problem in told
    assert "--errors reject" in told
    model, stats = read(runner, tmp_path, data, errors="reject")
    assert stats == counts
    assert model.vocabulary.words[0] == "a"
    assert np.isfinite(model.input).all()


def test_empty_words_and_duplicates_are_only_counted(runner: Runner, tmp_path: Path) -> None:
    model, stats = read(runner, tmp_path, b"4 1\na 1\n 2\na 3\nb 4\n")
    same(model, ["a", "b"], np.array([[1], [4]], np.float32))
    assert stats == {"empty_word": 1, "duplicate": 1}


def test_replaced_bytes_may_make_words_equal(runner: Runner, tmp_path: Path) -> None:
    data = b"4 1\nx\xc3 1\nx\xe9 2\nok 3\nok 4\n"
    model, stats = read(runner, tmp_path, data, errors="replace")
    same(model, ["x\ufffd", "ok"], np.array([[1], [3]], np.float32))
    assert stats == {"replaced": 2, "duplicate": 2}


def test_binary_that_cannot_be_used(runner: Runner, tmp_path: Path) -> None:
    vectors = table(3, 4)
    good = binary_of(["a", "b", "c"], vectors)
    assert "byte 43: the word" in refusal(runner, tmp_path, good.replace(b"c ", b"\xbf ", 1))
    model, stats = read(runner, tmp_path, good.replace(b"c ", b"\xbf ", 1), errors="reject")
    assert (model.vocabulary.words, stats) == (("a", "b"), {"invalid_utf8": 1})
    assert "cut off" in refusal(runner, tmp_path, good[:-3])
    assert "byte 60: there are more bytes behind" in refusal(runner, tmp_path, good + b"junk")
    model, stats = read(runner, tmp_path, good + b"junk", errors="reject")
    assert (model.vocabulary.words, stats) == (("a", "b", "c"), {"trailing": 1})
    assert "promises 9 words" in refusal(runner, tmp_path, good.replace(b"3 4", b"9 4", 1))
    assert "cut off" in refusal(runner, tmp_path, good.replace(b"3 4", b"3 400000000"[:6], 1))
    told = refusal(runner, tmp_path, good.replace(b"3 4\n", b"3 99999999999999\n", 1))
    assert "does not begin with" in told
    swapped = binary_of(["a", "b", "c"], vectors.byteswap())
    assert "bytes in the wrong order" in refusal(runner, tmp_path, swapped)


def test_headers_are_not_believed(runner: Runner, tmp_path: Path) -> None:
    for header in (b"999999999999999 2", b"2 999999999999999", b"2 3"):
        told = refusal(runner, tmp_path, header + b"\na 1 2\nb 3 4\n")
        assert "promises" in told
    assert "--format glove" in refusal(runner, tmp_path, b"a 1 2\nb 3 4\n", format="word2vec")
    told = refusal(runner, tmp_path, b"2 2\na 1 2\nb 3 4\n", format="glove")
    assert 'line 1: this is the line "words width"' in told
    assert "--format word2vec" in told
    as_glove, _ = read(runner, tmp_path, b"2 2\na 1 2\nb 3 4\n", format="glove", errors="reject")
    assert as_glove.vocabulary.words == ("a", "b")


def test_what_is_no_file_of_vectors(runner: Runner, tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a 1 2\n")
        file.writestr("b.txt", "a 1 2\n")
    zipped = archive.getvalue()
    packed = gzip.compress(text_of(WORDS, table(len(WORDS), 9)))
    for data, problem in {
        b"": "the file is empty",
        b"\n": "no file of vectors",
        b"\x80\x04\x95abc": "this is a pickle",
        "a 1 2\n".encode("utf-16"): "UTF-16",
        b"FiFu\0\0\0\0": "finalfusion",
        b"3 2\n": "there is no vector",
        b"only some prose\n": "no file of vectors",
        b"a\t1\t2\nb\t3\t4\n": "parted by tabs",
        b"word\tx\ty\na\t1\t2\nb\t3\t4\n": "parted by tabs",
        b"2 2\na\t1\t2\nb\t3\t4\n": "parted by tabs",
        b"a\t1 2\nb\t3 4\n": "parted by tabs",
        b"PAR1garbagePAR1": "Parquet file cannot be read",
        zipped: "several files, such as a.txt and b.txt",
        packed[:-30]: "damaged or was cut off",
    }.items():
        assert problem in refusal(runner, tmp_path, data)
    for name, problem in {
        str(tmp_path): "(?s)this folder is no model.*name a file of vectors, or a folder that",
        "nowhere": "no such file",
    }.items():
        with pytest.raises(InputError, match=problem):
            import_model(runner, name, "auto", "strict")
    for name, format, problem in [
        (str(tmp_path), "glove", "is a folder"),
        (str(tmp_path / "vectors"), "native", "is a folder, and this is none"),
        ("nowhere", "native", "no such file"),
    ]:
        with pytest.raises(InputError, match=problem):
            import_model(runner, name, format, "strict")  # type: ignore[arg-type]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_cut_or_damaged_file_is_an_error_or_a_model(data: Any, tmp_path: Path) -> None:
    """Never any other exception, and never memory by what a file says of itself."""
    vectors = table(len(WORDS), 6)
    pq.write_table(pa.table({"word": WORDS, "vector": vectors.tolist()}), tmp_path / "table")
    files = {
        "word2vec": text_of(WORDS, vectors),
        "word2vec-bin": binary_of(WORDS, vectors),
        "parquet": (tmp_path / "table").read_bytes(),
    }
    kind = data.draw(st.sampled_from(sorted(files)))
    format = data.draw(st.sampled_from(["auto", "auto", kind, "glove", "fasttext"]))
    whole = files[kind]
    at = data.draw(st.integers(0, len(whole)))
    lost, more = whole[:at] + whole[at + 1 :], whole[:at] + b"\0" + whole[at:]
    cut = data.draw(st.sampled_from([whole[:at], lost, more, struct.pack("<q", at) + whole]))
    runner = Runner(Store(str(tmp_path / "store"), tmp_path / "cache"))
    for errors in ("strict", "reject"):
        try:
            model, _ = read(runner, tmp_path, cut, format=format, errors=errors)
        except InputError:
            continue
        assert len(model.input) == len(model.vocabulary) >= 1
        assert np.isfinite(model.input).all()


def test_a_folder_comes_back_as_it_was(runner: Runner, tmp_path: Path) -> None:
    data = text_of(WORDS, table(len(WORDS), 3))
    (tmp_path / "vectors").write_bytes(data)
    first = import_model(runner, str(tmp_path / "vectors"), "auto", "strict")
    reader, folder = runner.store.reader(first), tmp_path / "native"
    for rows in (len(WORDS), len(WORDS) - 2):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in FILES:
            (folder / name).write_bytes(reader.path(name).read_bytes())
        cut = {"input": reader.tensors("weights.safetensors")["input"][:rows].copy()}
        save_file(cut, folder / "weights.safetensors")
        write_folder_manifest(folder, {})
        if rows == len(WORDS):
            assert import_model(runner, str(folder), "native", "strict").content == first.content
        else:
            with pytest.raises(InputError, match="do not go with its 11 words"):
                import_model(runner, str(folder), "auto", "strict")
