"""Where a document went: through the splits that hold it, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.lineage import Wanted, descendants, find_documents, read_catalogue
from tasks.normalize import document_id
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import Fractions
from tasks.storage import sha256_of
from tasks.store import Store
from tests.tasks.corpora import texts, write


@pytest.fixture
def corpus(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr("tasks.files.SMALL_BYTES", 0)  # a partition a file
    files = {f"{i}.txt": "".join(f"line {n} of file {i}\n" for n in range(40)) for i in range(2)}
    folder = write(tmp_path / "text", files | {"1.txt": files["1.txt"] + "line 3 of file 0\n"})
    source = Source((str(folder / "*.txt"),))
    config = CorpusConfig("lines", source, split=Fractions(valid=0.3, test=0.3))
    return build_corpus(Runner(store), config)


def steps(store: Store, wanted: Wanted) -> tuple[set[str], set[str]]:
    """The contents that hold what is wanted, and those that were made from them."""
    catalogue = read_catalogue(store)
    holdings = find_documents(catalogue, store, wanted)
    held = {catalogue[holding.key].content for holding in holdings}
    return held, {manifest.content for manifest in descendants(catalogue, holdings)}


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_document_is_followed_into_its_own_split_only(
    store: Store, corpus: Corpus, split: str
) -> None:
    text = texts(store, corpus.documents[split])[1][0]
    held, made = steps(store, Wanted(id=document_id(text)[:5]))
    assert {name for name, one in corpus.documents.items() if one.content in held} == {split}
    assert {name for name, one in corpus.tokens.items() if one.content in made} == {split}
    assert (corpus.types.content in made) == (split == "train")


def test_a_partition_without_the_document_is_not_touched(store: Store, corpus: Corpus) -> None:
    text = texts(store, corpus.documents["train"])[1][0]
    _, made = steps(store, Wanted(ids=frozenset([document_id(text)])))
    parts = store.partitions(corpus.tokens["train"])
    assert [part.content in made for part in parts] == [False, True]


def test_a_duplicate_is_found_where_it_stayed(store: Store, corpus: Corpus, tmp_path: Path) -> None:
    catalogue = read_catalogue(store)
    found = find_documents(catalogue, store, Wanted(id=document_id("line 3 of file 0")))
    normalized = [h for h in found if h.key[0] == "normalize"]
    origins = {row[1].partition(":")[0] for holding in normalized for row in holding.rows}
    files = sorted((tmp_path / "text").glob("*.txt"))
    assert origins == {sha256_of(file)[:12] for file in files}
    split = {row[1] for h in found if h.key[0] == "split" for row in h.rows}
    assert split == {f"{sha256_of(files[0])[:12]}:4"}


def test_a_file_and_a_record_of_it_are_found_by_origin(store: Store, corpus: Corpus) -> None:
    catalogue = read_catalogue(store)
    (origin, *_) = {
        row[1]
        for holding in find_documents(catalogue, store, Wanted(id=document_id("line 7 of file 1")))
        for row in holding.rows
    }
    (one,) = {
        row[2]
        for holding in find_documents(catalogue, store, Wanted(origin=origin))
        for row in holding.rows
    }
    assert one == "line 7 of file 1"
    file = origin.partition(":")[0] + ":"
    found = find_documents(catalogue, store, Wanted(origin=file))
    assert len({row for holding in found for row in holding.rows}) == 41
    assert find_documents(catalogue, store, Wanted(origin="0" * 12 + ":")) == []
