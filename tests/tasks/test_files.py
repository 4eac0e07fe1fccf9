"""Files as partitions: ranges of large ones, groups of small ones, and what a change costs."""

import gzip
import random
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.files import Cut, import_text, locate
from tasks.ingest import INGEST
from tasks.readers import Ingest
from tasks.runner import Runner
from tasks.store import Store
from tests.tasks.corpora import texts, write


def pieces(store: Store, files: list[Path], cut: Cut | None = "line") -> list[list[bytes]]:
    """The bytes of every part of every partition."""
    parts = store.manifest(import_text(store, files, "source", cut)).parts
    found: list[list[bytes]] = [[] for _ in range(1 + max(part.partition for part in parts))]
    for part in parts:
        data = store.files.local(part).read_bytes()
        found[part.partition].append(data[part.begin or 0 :][: part.size])
    return found


# --- ranges ---------------------------------------------------------------------------------------


@pytest.fixture
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.files.RANGE_BYTES", 100)


@pytest.mark.usefixtures("_small_ranges")
def test_a_large_file_is_cut_behind_lines(store: Store, tmp_path: Path) -> None:
    draw = random.Random(3)
    ends = [b"\n", b"\r\n"]
    lines = [b"%d" % i * draw.randrange(30) + draw.choice(ends) for i in range(300)]
    lines[150] = b"long" * 200 + b"\n"
    data = b"".join(lines) + b"no end"
    (tmp_path / "f").write_bytes(data)
    found = [part for (part,) in pieces(store, [tmp_path / "f"])]
    assert b"".join(found) == data
    assert all(part.endswith(b"\n") for part in found[:-1])
    assert len(found) > 50
    # Every cut is the first line end at or behind a multiple of the range.
    position = 0
    for part in found[:-1]:
        position += len(part)
        assert data.rfind(b"\n", 0, position - 1) + 1 < position // 100 * 100 or position % 100 == 0


@pytest.mark.usefixtures("_small_ranges")
def test_ranges_change_nothing_but_where_partitions_end(store: Store, tmp_path: Path) -> None:
    lines = [f"line {i} {'ä' * (i % 60)}" for i in range(60)]
    path = tmp_path / "f.txt"
    path.write_text("\r\n".join(lines))
    source = import_text(store, [path], "source", "line")
    artifact = Runner(store).map(INGEST, {"source": source}, Ingest())
    assert [text for part in texts(store, artifact) for text in part] == lines
    origins = [
        locate(store, source, origin)
        for i in range(store.manifest(artifact).n_partitions)
        for origin in store.reader(artifact).table("documents.parquet", i)["origin"].to_pylist()
    ]
    assert origins == [f"f.txt:{n}" for n in range(1, 61)]
    assert store.manifest(artifact).stats["files"] == 1


@pytest.mark.usefixtures("_small_ranges")
def test_blocks_are_never_cut(store: Store, tmp_path: Path) -> None:
    blocks = [f"block {i}\n" * (i % 13 + 1) for i in range(60)]
    (tmp_path / "f").write_text("\n \t\n".join(blocks))
    source = import_text(store, [tmp_path / "f"], "source", "block")
    assert store.manifest(source).n_partitions > 20
    artifact = Runner(store).map(INGEST, {"source": source}, Ingest(document="block"))
    found = [text for part in texts(store, artifact) for text in part]
    assert found == [block.rstrip("\n") for block in blocks]


@pytest.mark.usefixtures("_small_ranges")
def test_what_is_packed_or_wide_is_one_stream(store: Store, tmp_path: Path) -> None:
    text = "".join(f"{i * i}\n" for i in range(2000))
    files = {"gz": gzip.compress(text.encode()), "u16": text.encode("utf-16")}
    folder = write(tmp_path / "d", files)
    for name, data in files.items():
        assert pieces(store, [folder / name]) == [[data]]


@pytest.mark.usefixtures("_small_ranges")
def test_a_file_that_grew_at_its_end_costs_its_end(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"entry {i}\n" for i in range(300)))
    source = import_text(store, [path], "source", "line")
    Runner(store).map(INGEST, {"source": source}, Ingest())
    with path.open("a") as file:
        file.write("one more\n")
    grown = import_text(store, [path], "source", "line")
    runner = Runner(store)
    artifact = runner.map(INGEST, {"source": grown}, Ingest())
    assert runner.outcomes[-1].computed == 1
    assert texts(store, artifact)[-1][-1] == "one more"
    path.write_text(path.read_text().replace("entry 7\n", "entry x\n"))
    with pytest.raises(InputError, match="changed while it was read"):
        Runner(store).map(INGEST, {"source": grown}, Ingest(nul="space"))


# --- groups ---------------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred small files, about ten to a group."""
    monkeypatch.setattr("tasks.files.GROUP_BYTES", 10 * 4100)
    return write(tmp_path / "many", {f"{i:03d}.txt": f"file {i}\nof many\n" for i in range(200)})


def computed(store: Store, folder: Path) -> tuple[int, int, list[str]]:
    """Partitions that were computed, partitions in all, and the texts."""
    runner = Runner(store)
    source = import_text(store, sorted(folder.iterdir()), "source", "line")
    artifact = runner.map(INGEST, {"source": source}, Ingest())
    outcome = runner.outcomes[-1]
    return outcome.computed, outcome.total, [t for part in texts(store, artifact) for t in part]


def test_small_files_share_partitions(store: Store, many: Path) -> None:
    first, total, found = computed(store, many)
    assert first == total
    assert 8 < total < 40
    assert found == [line for i in range(200) for line in (f"file {i}", "of many")]


def test_a_file_that_comes_goes_or_changes_costs_its_group(store: Store, many: Path) -> None:
    computed(store, many)
    before = many / "100.txt"
    changes = [
        lambda: write(many, {"100a.txt": "new\n"}),
        lambda: write(many, {"000.txt": "other\n"}),
        before.unlink,
        lambda: write(many, {"zzz.txt": "last\n"}),
    ]
    for change in changes:
        change()
        again, total, _ = computed(store, many)
        assert 1 <= again <= 2
        assert total > 8
    assert computed(store, many)[0] == 0


def test_a_large_file_among_small_ones_has_its_own(store: Store, tmp_path: Path) -> None:
    sizes = {"a": 9, "b": 2**20, "c": 9, "d": 9}
    folder = write(tmp_path / "d", {name: b"x" * size for name, size in sizes.items()})
    found = pieces(store, [folder / name for name in sizes])
    assert [[len(data) for data in part] for part in found] == [[9], [2**20], [9, 9]]


def test_what_cannot_be_read_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: Is a directory"):
        import_text(store, [tmp_path], "source", "line")
