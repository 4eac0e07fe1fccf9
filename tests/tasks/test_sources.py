"""Sources: which bytes a name stands for, and what is said when it stands for none."""

import json
from importlib import resources
from pathlib import Path

import pytest

from tasks.errors import ConfigError, InputError
from tasks.places import SAMPLE, find_files
from tasks.sources import Source, import_source
from tasks.store import Store
from tests.tasks.corpora import write


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
    handles = [
        import_source(store, Source(format="dataset", dataset=str(path), field="words"))
        for path in (folder, tmp_path / "saved")
    ]
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
