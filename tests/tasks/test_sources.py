"""Sources: which bytes a name stands for, and what is said when it stands for none."""

import io
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pytest

from tasks.errors import ConfigError, InputError
from tasks.ingest import INGEST
from tasks.places import SAMPLE, find_files
from tasks.readers import Ingest
from tasks.runner import Runner
from tasks.sources import Source, fetched_folder, import_source
from tasks.store import Store
from tests.tasks.corpora import texts, write


def test_files_come_in_a_canonical_order_and_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {name: name for name in ("b.txt", "B.txt", "a10.txt", "é.txt")})
    write(folder / "deep.txt", {"c.txt": "c"})  # a folder that the glob matches too
    found = find_files((str(folder / "b.txt"), str(folder / "*.txt"), str(folder / "**/c.txt")))
    assert [path.name for path in found] == ["b.txt", "B.txt", "a10.txt", "é.txt", "c.txt"]


def test_a_name_with_the_signs_of_a_pattern_is_a_name_first(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a[1].txt": "x", "a1.txt": "y"})
    assert [path.name for path in find_files((str(folder / "a[1].txt"),))] == ["a[1].txt"]


def test_a_source_is_its_bytes_not_its_place(tmp_path: Path, store: Store) -> None:
    one = write(tmp_path / "one", {"a.txt": "first", "b.txt": "second"})
    two = write(tmp_path / "two", {"x.txt": "first", "y.txt": "second"})
    handles = [import_source(store, Source((str(folder / "*.txt"),))) for folder in (one, two)]
    assert handles[0] == handles[1]
    (two / "y.txt").write_text("Second")
    assert import_source(store, Source((str(two / "*.txt"),))).content != handles[0].content


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        (Source(("none/no.txt",)), InputError, "there is no such file"),
        (Source(("none/*.txt",)), InputError, "no file matches"),
        (Source(("/",)), InputError, "this is a folder"),
        (Source(), ConfigError, "no files are named"),
        (Source((SAMPLE,), encoding="utf-99"), ConfigError, "no such encoding"),
        (Source((SAMPLE,), encoding="hex"), ConfigError, "no such encoding"),
        (Source((SAMPLE,), encoding="idna"), ConfigError, "no such encoding"),
        (Source(("a" * 5000,)), InputError, "cannot be looked up"),
        (Source(("~nobody-here/a.txt",)), InputError, "cannot be looked up"),
        (Source(("",)), InputError, "the path is empty"),
        (Source(format="dataset"), ConfigError, "no data set is named"),
        (Source(format="dataset", dataset="./none"), InputError, "cannot be loaded"),
    ],
)
def test_every_fault_has_its_own_message(
    store: Store, source: Source, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        import_source(store, source)


def test_an_absent_sample_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Path:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(resources, "files", absent)
    with pytest.raises(InputError, match=r"pip install 'lexloom\[sample\]'"):
        find_files((SAMPLE,))


def test_settings_that_cannot_be_are_refused(store: Store, tmp_path: Path) -> None:
    path = str(write(tmp_path, {"f": "x"}) / "f")
    for column in ("text", "0", "-1", "٣"):
        with pytest.raises(ConfigError, match="a column is a number from 1"):
            import_source(store, Source((path,), format="csv", field=column, header=False))


def test_a_table_without_a_header_is_read_by_number(store: Store, tmp_path: Path) -> None:
    path = str(write(tmp_path, {"f": "1;2\tthe text\n3\tmore\n"}) / "f")
    source = Source((path,), format="tsv", field="2", header=False)
    files = import_source(store, source)
    artifact = Runner(store).map(INGEST, {"source": files}, Ingest.of(source))
    assert texts(store, artifact) == [["the text", "more"]]


# --- files elsewhere ----------------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.pipe({"/corpus/b.txt": b"second\n", "/corpus/a.txt": b"first\n", "/corpus/x/c.md": b"-"})
    yield fs
    fs.rm("/corpus", recursive=True)


def names(store: Store, *paths: str) -> list[tuple[str, bytes]]:
    return [(f.name, f.read_bytes()) for f in find_files(paths, fetched_folder(store))]


def test_files_elsewhere_are_fetched_once_for_one_state_of_them(memory: Any, store: Store) -> None:
    both = [("a.txt", b"first\n"), ("b.txt", b"second\n")]
    assert names(store, "memory://corpus/*.txt") == both
    assert names(store, "memory://corpus/a.txt") == both[:1]
    opened = []
    original = memory.open
    memory.open = lambda *args, **kwargs: opened.append(args) or original(*args, **kwargs)
    try:
        assert names(store, "memory://corpus/*.txt") == both
        assert not opened
        memory.pipe("/corpus/b.txt", b"changed\n")
        assert names(store, "memory://corpus/*.txt") == [both[0], ("b.txt", b"changed\n")]
        assert [call for call in opened if call[1:] == ("rb",)] == [("/corpus/b.txt", "rb")]
    finally:
        del memory.open


def test_a_corpus_from_elsewhere_is_the_corpus_from_here(
    memory: Any, store: Store, tmp_path: Path
) -> None:
    here = write(tmp_path / "t", {"1": "first\n", "2": "second\n"})
    local = import_source(store, Source((f"file://{here}/*",)))
    assert import_source(store, Source(("memory://corpus/*.txt",))) == local
    kept = next(fetched_folder(store).glob("*/a.txt"))
    kept.unlink()  # then it is fetched again
    assert import_source(store, Source(("memory://corpus/*.txt",))) == local


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("memory://corpus/no.txt", "there is no such file"),
        ("memory://corpus/*.pdf", "no file matches"),
        ("memory://corpus", "this is a folder"),
        ("nonsense://x", "cannot be fetched"),
        ("http://127.0.0.1:9/x.txt", "there is no such file|cannot be fetched"),
    ],
)
def test_faults_elsewhere_are_told(memory: Any, store: Store, url: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        import_source(store, Source((url,)))
    with pytest.raises(InputError, match="turns out when it is fetched"):
        find_files((url,))


def test_files_come_over_http(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "www", {"a.txt": "over the wire\n"})
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *args: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.txt"
        assert names(store, url) == [("a.txt", b"over the wire\n")]
        (folder / "a.txt").write_text("changed on the server\n")
        assert names(store, url)[0][1] == b"changed on the server\n"
        server.shutdown()


def test_standard_input_that_is_closed_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        import_source(store, Source(("-",)))


def test_a_file_may_have_a_name_that_is_no_text(store: Store, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    path.write_text("woven\n")
    for _ in range(2):  # written down, and found again
        assert names(store, str(path))[0][1] == b"woven\n"


def test_standard_input_is_a_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"piped in\n")))
    source = Source(("-",))
    artifact = Runner(store).map(
        INGEST, {"source": import_source(store, source)}, Ingest.of(source)
    )
    assert texts(store, artifact) == [["piped in"]]


# --- data sets ----------------------------------------------------------------------------------


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")


@pytest.mark.usefixtures("hub_cache")
def test_a_data_set_is_the_text_that_was_read(tmp_path: Path, store: Store) -> None:
    import datasets

    rows = [{"words": "one"}, {"words": None}, {"words": "zwölf \u2028 \0"}, {"words": ""}]
    folder = write(tmp_path / "jsonl", {"train.jsonl": "\n".join(map(json.dumps, rows))})
    saved = datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)})
    saved.save_to_disk(tmp_path / "saved")
    streamed = Source(format="dataset", dataset=str(folder), field="words", streaming=True)
    handles = [
        import_source(store, source)
        for source in (
            replace(streamed, streaming=False),
            replace(streamed, streaming=False, dataset=str(tmp_path / "saved")),
            streamed,
        )
    ]
    assert handles[2] == handles[0]
    assert handles[0] == handles[1]
    lines = store.reader(handles[0]).path("file").read_bytes().split(b"\n")[:-1]
    assert [json.loads(line)["text"] for line in lines] == [row["words"] for row in rows]


@pytest.mark.usefixtures("hub_cache")
def test_a_data_set_without_the_field_or_the_split_says_so(tmp_path: Path, store: Store) -> None:
    folder = str(write(tmp_path / "d", {"train.jsonl": '{"words": "one", "n": 1}\n'}))
    with pytest.raises(InputError, match="set field to one of: words, n"):
        import_source(store, Source(format="dataset", dataset=folder))
    with pytest.raises(InputError, match="holds no text"):
        import_source(store, Source(format="dataset", dataset=folder, field="n"))
    with pytest.raises(InputError, match="valid"):
        import_source(store, Source(format="dataset", dataset=folder, field="words", split="valid"))


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("streaming", [False, True])
def test_a_data_set_is_never_empty_in_silence(
    tmp_path: Path, store: Store, streaming: bool
) -> None:
    rows = "".join(f'{{"words": "{i}"}}\n' for i in range(9))
    folder = str(write(tmp_path / "d", {"train.jsonl": rows}))
    source = Source(format="dataset", dataset=folder, field="words", streaming=streaming)
    some = import_source(store, replace(source, records=4))
    assert store.manifest(some).stats["records"] == 4
    for wrong in (replace(source, split="valid"), replace(source, field="text")):
        with pytest.raises(InputError):
            import_source(store, wrong)
    (tmp_path / "d" / "train.jsonl").write_text("")
    with pytest.raises(InputError):
        import_source(store, source)
