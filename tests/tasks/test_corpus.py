"""The whole chain: what is redone when, the same contents everywhere, and every fault told."""

import gzip
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from models.family import WantsVocabulary
from models.vocabulary import LM_RESERVED
from tasks.analyze import Analyze
from tasks.cluster import RayCluster
from tasks.corpus import SPLITS, Corpus, CorpusConfig, build_corpus
from tasks.dedup import DEDUP
from tasks.errors import InputError
from tasks.filters import C4, Filters
from tasks.ingest import INGEST
from tasks.neardup import NearDuplicates
from tasks.normalize import NORMALIZE, Normalize
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import SPLIT, Fractions
from tasks.store import Store
from tasks.tokenize import TOKENIZE, Tokenize
from tasks.vocabulary import TYPES, VOCABULARY
from tests.tasks.corpora import texts, values, write

VERSE = """The loom stood by the window, old and tall,
Its warp of grey, its weft of any thread.
She wove the rain, the shadow on the wall,
And every word the passing neighbours said.
"Don't stop," they called, "it's nearly 7.30!"
The loom stood by the window, old and tall,
Naïve cafe\u0301s, a na\u0308ive clich\u00e9 or two,
The shuttle flew \u2014 and flew, and flew, and flew.
"""


def verses(i: int) -> str:
    """The verse as it is and three times with other words, 32 lines in all."""
    marks = ["", f"{i}.1: ", f"{i}.2: ", f"{i}.3: "]
    return "".join(mark + line for mark in marks for line in VERSE.splitlines(keepends=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four files, each a partition although they are small."""
    monkeypatch.setattr("tasks.files.SMALL_BYTES", 0)
    return write(tmp_path / "text", {f"{i}.txt": verses(i) for i in range(4)})


def config(folder: Path) -> CorpusConfig:
    return CorpusConfig(
        "verse", Source((str(folder / "*.txt"),)), split=Fractions(valid=0.2, test=0.2)
    )


def work(runner: Runner) -> dict[str, int]:
    """Partitions computed, by step; nothing for a step that was reused."""
    return {o.name: o.computed for o in runner.outcomes if not o.reused}


STAGES = ["normalize train", "dedup train"]
STAGES += [f"{step} {split}" for split in SPLITS for step in ("split", "tokenize")] + ["types"]
MERGES = {"dedup train": 1, "types": 1}


# --- golden values ----------------------------------------------------------------------------

GOLDEN: dict[str, tuple[int, str]] = {
    "ingest train": (2, "779e78d49e8dbb53"),
    "normalize train": (3, "8c5ca6d54ef4e4f4"),
    "dedup train": (1, "b9d167456177c43c"),
    "split valid": (1, "df6aff06f6acbc71"),
    "tokenize train": (3, "5e345f7c67505389"),
    "types": (1, "b122e57e0fc75a56"),
    "vocabulary": (1, "fd157b4b48377fd1"),
}


def test_every_step_makes_what_its_version_made(store: Store, folder: Path) -> None:
    """If this fails on purpose, raise the version of the step, then put the new values here."""
    runner = Runner(store)
    corpus = build_corpus(runner, config(folder))
    wants = WantsVocabulary(min_count=2, max_size=12, reserved=LM_RESERVED)
    runner.run(VOCABULARY, {"types": corpus.types}, wants)
    made = {outcome.name: outcome.artifact for outcome in runner.outcomes}
    steps = {
        "ingest train": INGEST, "normalize train": NORMALIZE, "dedup train": DEDUP,
        "split valid": SPLIT, "tokenize train": TOKENIZE, "types": TYPES, "vocabulary": VOCABULARY,
    }  # fmt: skip
    found = {name: (step.version, values(store, made[name])) for name, step in steps.items()}
    assert found == GOLDEN


# --- reuse ------------------------------------------------------------------------------------


def test_a_second_run_does_nothing(store: Store, folder: Path) -> None:
    first, second = Runner(store), Runner(store)
    corpus = build_corpus(first, config(folder))
    assert work(first) == {"ingest train": 4} | dict.fromkeys(STAGES, 4) | MERGES
    assert build_corpus(second, config(folder)) == corpus
    assert work(second) == {}


@pytest.mark.parametrize(
    ("change", "redone"),
    [
        ({"name": "other"}, []),
        ({"normalize": Normalize(lowercase=True)}, STAGES),
        ({"deduplicate": False}, STAGES[1:]),
        ({"filters": Filters(min_words=9)}, ["filter train", *STAGES[1:]]),
        ({"near_duplicates": NearDuplicates()}, ["signatures train", "near train", *STAGES[2:]]),
        ({"split": Fractions(0.2, 0.2, "pepper")}, STAGES[2:]),
        (
            {"analyze": Analyze(words="porter")},
            [*(f"analyze {s}" for s in SPLITS), *(s for s in STAGES if s[:3] in ("tok", "typ"))],
        ),
        ({"tokenize": Tokenize("whitespace")}, [s for s in STAGES if s[:3] in ("tok", "typ")]),
    ],
)
def test_a_change_redoes_exactly_what_depends_on_it(
    store: Store, folder: Path, change: dict[str, object], redone: list[str]
) -> None:
    build_corpus(Runner(store), config(folder))
    runner = Runner(store)
    build_corpus(runner, replace(config(folder), **change))  # type: ignore[arg-type]
    assert set(work(runner)) == set(redone)


def test_a_change_that_alters_nothing_stops_where_it_alters_nothing(
    store: Store, tmp_path: Path
) -> None:
    folder = write(tmp_path, {"a.txt": "all lower case already\nand a second line\n"})
    build_corpus(Runner(store), config(folder))
    runner = Runner(store)
    build_corpus(runner, replace(config(folder), normalize=Normalize(lowercase=True)))
    assert set(work(runner)) == {"normalize train"}


def test_a_new_file_costs_its_own_partition_and_the_merges(store: Store, folder: Path) -> None:
    build_corpus(Runner(store), config(folder))
    write(folder, {"late.txt": verses(9)})
    runner = Runner(store)
    build_corpus(runner, config(folder))
    assert work(runner) == {"ingest train": 1} | dict.fromkeys(STAGES, 1) | MERGES


# --- the same everywhere ----------------------------------------------------------------------


def test_with_ray_or_without_the_contents_are_the_same(
    tmp_path: Path, folder: Path, ray_cluster: RayCluster
) -> None:
    def build(place: str, ray: RayCluster | None) -> tuple[Corpus, list[str]]:
        runner = Runner(Store(str(tmp_path / place), tmp_path / "cache"), ray=ray)
        corpus = build_corpus(runner, config(folder))
        return corpus, [outcome.artifact.content for outcome in runner.outcomes]

    here, there = build("here", None), build("there", ray_cluster)
    assert here == there
    assert here[0].content == there[0].content


def test_packing_and_place_do_not_matter_to_the_text(store: Store, tmp_path: Path) -> None:
    plain = write(tmp_path / "plain", {"verse.txt": VERSE})
    packed = write(tmp_path / "packed", {"verse.txt": gzip.compress(VERSE.encode())})
    one, other = (build_corpus(Runner(store), config(folder)) for folder in (plain, packed))
    assert one.content == other.content


# --- splits -----------------------------------------------------------------------------------


def test_duplicates_are_dropped_once_and_counted(store: Store, folder: Path) -> None:
    corpus = build_corpus(Runner(store), config(folder))
    assert corpus.stats["ingest train"]["read"] == 128
    assert corpus.stats["dedup train"] == {"read": 128, "kept": 91, "dropped.duplicate": 37}
    documents = [d for s in SPLITS for part in texts(store, corpus.documents[s]) for d in part]
    assert len(documents) == len(set(documents)) == 91
    assert sum(int(corpus.stats[f"tokenize {s}"]["documents"]) for s in SPLITS) == 91


def test_filters_and_near_duplicates_account_for_every_document(store: Store, folder: Path) -> None:
    choices = {"filters": Filters(min_words=8), "near_duplicates": NearDuplicates(0.5, 64, 2)}
    stats = build_corpus(Runner(store), replace(config(folder), **choices)).stats
    left = int(stats["ingest train"]["read"])
    for stage in ("ingest", "normalize", "filter", "dedup", "near"):
        counts = stats[f"{stage} train"]
        left -= sum(int(n) for reason, n in counts.items() if reason.startswith("dropped."))
        assert counts["kept"] == left
    assert int(stats["filter train"]["dropped.too_short"]) > 0
    assert int(stats["near train"]["dropped.near_duplicate"]) > 0
    assert left == sum(int(stats[f"split {split}"]["documents"]) for split in SPLITS)


def test_a_corpus_of_which_a_filter_leaves_nothing_is_refused(store: Store, folder: Path) -> None:
    rules = Filters(c4=C4(min_line_words=100))
    with pytest.raises(InputError, match=r"all of them dropped .*128 c4_no_line_left"):
        build_corpus(Runner(store), replace(config(folder), filters=rules))


def test_supplied_splits_are_taken_as_they_are(store: Store, tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            "train.txt": "a b\nc d\na b\n",
            "valid.jsonl": "\n".join(json.dumps({"text": t}) for t in ("new", "a b", "a  b")),
        },
    )
    given = CorpusConfig(
        "given",
        Source((str(folder / "train.txt"),)),
        valid=Source((str(folder / "valid.jsonl"),), format="jsonl"),
        split=Fractions(0.4, 0.4),
    )
    corpus = build_corpus(Runner(store), given)
    assert texts(store, corpus.documents["train"]) == [["a b", "c d"]]
    assert texts(store, corpus.documents["valid"]) == [["new", "a b"]]
    assert corpus.stats["tokenize test"]["tokens"] == 0
    assert corpus.stats["types"] == {"types": 4, "tokens": 4}  # of the training text alone
    assert corpus.stats["dedup valid"] == {
        "read": 3, "kept": 2, "dropped.duplicate": 1, "contaminated": 1,
    }  # fmt: skip


# --- what can go wrong ------------------------------------------------------------------------


def test_each_fault_is_told_apart(store: Store, tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            "blank.txt": "\n \n\t\n",
            "bad.txt": b"\xff\xfd\n\n\x00\n",
            "one.txt": "a single document\n",
            "empty.jsonl": b"",
        },
    )

    def fault(name: str, **source: str) -> str:
        corpus = CorpusConfig(
            "c", Source((str(folder / name),), **source), split=Fractions(0, 0.9999)
        )  # type: ignore[arg-type]
        with pytest.raises(InputError) as caught:
            build_corpus(Runner(store), corpus)
        return str(caught.value)

    faults = {
        name: fault(name, **source)
        for name, source in {
            "none.txt": {}, "none*.txt": {}, "blank.txt": {}, "bad.txt": {}, "one.txt": {},
            "empty.jsonl": {"format": "jsonl"},
        }.items()
    }  # fmt: skip
    assert "there is no such file" in faults["none.txt"]
    assert "no file matches" in faults["none*.txt"]
    assert "3 records were read, all of them dropped (3 empty)" in faults["blank.txt"]
    assert "3 records were read, all of them dropped (2 empty, 1 encoding)" in faults["bad.txt"]
    assert "no document is left to train on" in faults["one.txt"]
    assert "0 records were read" in faults["empty.jsonl"]
    assert len(set(faults.values())) == len(faults)


@pytest.mark.parametrize(
    "value",
    [
        {"nam": "x"},
        {"name": "a/b"},
        {"name": ""},
        {"train": {"path": ["x"]}},
        {"train": {"format": "pdf"}},
        {"split": {"valid": 1.5}},
        {"split": {"valid": 0.6, "test": 0.6}},
        {"tokenize": {"scheme": "syllables"}},
        {"normalize": {"lowercase": "perhaps"}},
    ],
)
def test_a_config_is_checked_and_has_defaults(value: dict[str, object]) -> None:
    adapter = TypeAdapter(CorpusConfig)
    assert adapter.validate_python({}) == CorpusConfig()
    with pytest.raises(ValidationError):
        adapter.validate_python(value)


# --- the sample -------------------------------------------------------------------------------


def test_the_packaged_sample(store: Store) -> None:
    pytest.importorskip("gensim")
    began = time.process_time()
    corpus = build_corpus(Runner(store), CorpusConfig())
    assert time.process_time() - began < 30
    ingested = corpus.stats["ingest train"]
    assert (ingested["read"], ingested["kept"]) == (206, 106)
    assert (ingested["dropped.redirect"], ingested["dropped.namespace"]) == (99, 1)
    tokens = {split: int(corpus.stats[f"tokenize {split}"]["tokens"]) for split in SPLITS}
    assert all(tokens.values())
    assert 500_000 < sum(tokens.values()) < 600_000
    text = "\n".join(t for part in texts(store, corpus.documents["train"]) for t in part)
    assert 380_000 < len(text.split()) < 450_000
    assert not any(mark in text for mark in ("{{", "}}", "[[", "]]", "<ref", "[[File", "&nbsp;"))
