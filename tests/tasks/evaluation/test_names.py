"""Named sets are found in a folder under the names that their distributors give their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.evaluation.names import NAMES, files_of, find_set, import_sets
from tasks.store import Store


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\tb\t1\n", "utf-8")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("EN-MEN-TR-3k.txt", "men"),
        ("MEN_dataset_lemma_form_full", "men"),
        ("MEN_dataset_natural_form_full.txt", "men"),
        ("EN-WS-353-ALL.txt", "wordsim353"),
        ("wordsim_similarity_goldstandard.txt", "wordsim353-sim"),
        ("EN-WS-353-REL.txt", "wordsim353-rel"),
        ("SimLex-999.txt", "simlex999"),
        ("EN-RW-STANFORD.txt", "rw"),
        ("rw.txt", "rw"),
        ("EN-MTurk-287.txt", "mturk287"),
        ("MTURK-771.csv", "mturk771"),
        ("EN-RG-65.txt", "rg65"),
        ("EN-MC-30.txt", "mc30"),
        ("EN-YP-130.txt", "yp130"),
        ("EN-VERB-143.txt", "verb143"),
        ("SimVerb-3500.txt", "simverb3500"),
        ("TermRelatednessResults.csv", "tr9856"),
    ],
)
def test_a_set_is_known_by_its_file(file: str, name: str, tmp_path: Path) -> None:
    touch(tmp_path, f"word-sim/{file}", "word-sim/README.md")
    others = [key for key in NAMES["similarity"] if key not in ("wordsim353", "simlex999", name)]
    assert find_set(name, "similarity", str(tmp_path)) == (name, tmp_path / "word-sim" / file)
    for other in others:
        with pytest.raises(InputError, match=f"{other}: this set is not at hand: no file under"):
            find_set(other, "similarity", str(tmp_path))


def test_fourteen_known_similarity_sets() -> None:
    assert len(NAMES["similarity"]) == 14
    every = [alias for sets in NAMES.values() for aliases in sets.values() for alias in aliases]
    assert len(every) == len(set(every))


def test_a_folder_comes_before_the_package(tmp_path: Path) -> None:
    touch(tmp_path, "wordsim353.tsv", "deep/wordsim353.csv")
    assert find_set("wordsim353", "similarity", str(tmp_path))[1] == tmp_path / "wordsim353.tsv"


def test_what_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no such evaluation set.*\n.*wordsim353"):
        find_set("wordsim", "similarity")
    with pytest.raises(InputError, match=r"men: this set is not at hand: no folder.*\n.*--sets"):
        find_set("men", "similarity")
    with pytest.raises(InputError, match="no such folder"):
        find_set("men", "similarity", str(tmp_path / "none"))
    monkeypatch.setattr("tasks.evaluation.names.find_spec", lambda name: None)
    with pytest.raises(InputError, match="gensim, which is not installed"):
        find_set("wordsim353", "similarity")


def test_a_path_gives_a_name_that_a_metric_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "sets/E01 [country - capital], 'x'.txt")
    file = tmp_path / "sets" / "E01 [country - capital], 'x'.txt"
    assert find_set(str(file), "analogy")[0] == "E01 _country - capital__ _x_"
    monkeypatch.chdir(tmp_path / "sets")
    assert find_set(".", "analogy")[0] == "sets"


def test_a_folder_is_a_set_of_sections(store: Store, tmp_path: Path) -> None:
    touch(tmp_path, "BATS_3.0/2/b [x - y].txt", "BATS_3.0/1/c.txt", "BATS_3.0/metadata.json")
    name, path = find_set("bats", "analogy", str(tmp_path))
    assert list(files_of(path)) == ["c", "b [x - y]"]
    artifacts, sections = import_sets(store, [name], "analogy", str(tmp_path))
    assert sections == {"analogy:bats": ("c", "b [x - y]")}
    assert store.reader(artifacts["analogy:bats"]).n_partitions == 2
    touch(tmp_path, "BATS_3.0/3/c.txt")
    with pytest.raises(InputError, match="two files are called 'c'"):
        files_of(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no files that end in"):
        files_of(tmp_path / "empty")
