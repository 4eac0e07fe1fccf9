from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.family import WantsVocabulary
from models.vocabulary import LM_RESERVED
from tasks.artifacts import Artifact
from tasks.cluster import RayCluster
from tasks.cooccurrence import Cooccurrence, count_cooccurrence, read_cooccurrence
from tasks.errors import InputError
from tasks.runner import Runner
from tasks.step import Resources
from tasks.store import Store
from tasks.vocabulary import TYPES, VOCABULARY, Types, read_vocabulary
from tests.models.cooccurrence_reference import pairs
from tests.models.ngram_reference import golden_text
from tests.tasks.test_ngrams import tokens_of

Text = Sequence[Sequence[str]]


def count(
    runner: Runner, asked: Cooccurrence, *partitions: Text, min_count: int = 1, reserved: Any = ()
) -> tuple[Artifact, Artifact]:
    tokens = tokens_of(runner.store, *partitions)
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    wanted = WantsVocabulary(min_count, None, reserved)
    vocabulary = runner.run(VOCABULARY, {"types": types}, wanted)
    return count_cooccurrence(runner, tokens, vocabulary, asked), vocabulary


def assert_counts(
    store: Store, counts: Artifact, vocabulary: Artifact, asked: Cooccurrence, segments: Text
) -> None:
    entries = read_vocabulary(store.reader(vocabulary))
    table = read_cooccurrence(store.reader(counts))
    known = [[w if w in entries else "<unk>" for w in words] for words in segments]
    expected = {
        (entries.id(a), entries.id(b)): float(weight)
        for (a, b), weight in pairs(known, asked.window, asked.weights, asked.side).items()
        if entries.id(a) >= 0 and entries.id(b) >= 0
    }
    stored = list(table.entries())
    rows, columns = (
        np.concatenate([np.zeros(0, np.int32), *(e[k] for e in stored)]) for k in (0, 1)
    )
    assert sorted(zip(rows, columns, strict=True)) == list(zip(rows, columns, strict=True))
    assert not table.symmetric or (rows <= columns).all()
    found: dict[tuple[int, int], float] = {}
    for part in table.entries(whole=True):
        for a, b, weight in zip(*(values.tolist() for values in part), strict=True):
            assert (a, b) not in found
            found[a, b] = weight
    assert found.keys() == expected.keys()
    assert all(abs(found[pair] - weight) <= 1e-12 * weight for pair, weight in expected.items())


@pytest.mark.parametrize("side", ["both", "left", "right"])
@pytest.mark.parametrize(("weights", "window"), [("harmonic", 5), ("flat", 2), ("harmonic", 28)])
def test_counts_are_those_of_the_reference(
    store: Store, side: Any, weights: Any, window: int
) -> None:
    text, asked = golden_text(), Cooccurrence(window, weights, side)
    parts = text[:30], [], text[30:31], text[31:]
    for min_count, reserved in [(1, ()), (3, ()), (3, LM_RESERVED)]:
        counts, vocabulary = count(
            Runner(store), asked, *parts, min_count=min_count, reserved=reserved
        )
        assert_counts(store, counts, vocabulary, asked, text)


def test_windows_may_cross_lines_but_no_documents(store: Store) -> None:
    text = golden_text()
    for boundary, segments in [
        ("document", [list(itertools.chain(*text[:9])), list(itertools.chain(*text[9:]))]),
        ("sentence", text),
    ]:
        asked = Cooccurrence(4, boundary=boundary)  # type: ignore[arg-type]
        # Every partition of these tokens is one document.
        counts, vocabulary = count(Runner(store), asked, text[:9], text[9:])
        assert_counts(store, counts, vocabulary, asked, segments)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    text=st.lists(
        st.lists(st.sampled_from(["a", "b", "é", "日本", "<s>", "<unk>"]), max_size=9),
        min_size=1,
        max_size=8,
    ).filter(any),
    side=st.sampled_from(["both", "left"]),
    cuts=st.lists(st.integers(0, 8), max_size=7),
    memory=st.sampled_from([1, 100, 1 << 30]),
    threads=st.integers(1, 3),
)
def test_counts_do_not_depend_on_cuts_memory_or_threads(
    tmp_path_factory: pytest.TempPathFactory,
    text: list[list[str]],
    side: Any,
    cuts: list[int],
    memory: int,
    threads: int,
) -> None:
    folder, asked = tmp_path_factory.mktemp("cut"), Cooccurrence(3, side=side)
    store = Store(str(folder / "store"), folder / "cache")
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts = [text[a:b] for a, b in itertools.pairwise(edges)]
    whole, vocabulary = count(Runner(store), asked, text, min_count=2)
    other = Store(str(folder / "other"), folder / "cache")
    runner = Runner(other, resources=Resources(threads=threads, memory=memory))
    cut, _ = count(runner, asked, *parts, min_count=2)
    assert cut.content == whole.content
    assert_counts(store, whole, vocabulary, asked, text)


def test_ray_counts_the_same(store: Store, tmp_path: Path, ray_cluster: RayCluster) -> None:
    text, asked = golden_text(), Cooccurrence(10)
    parts = [text[i : i + 13] for i in range(0, len(text), 13)]
    on_ray, _ = count(Runner(store, ray=ray_cluster), asked, *parts, min_count=2)
    alone = Store(str(tmp_path / "b"), tmp_path / "c")
    assert on_ray.content == count(Runner(alone), asked, text, min_count=2)[0].content


def test_stretches_are_cut_by_entries_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.cooccurrence.ENTRIES", 100)
    text, asked = golden_text(), Cooccurrence(5)
    counts, vocabulary = count(Runner(store), asked, text[:20], text[20:])
    sizes = [len(part) for part in read_cooccurrence(store.reader(counts)).parts]
    assert set(sizes[:-1]) == {100}
    assert_counts(store, counts, vocabulary, asked, text)


def test_what_does_not_fit_goes_through_the_disk(store: Store, tmp_path: Path) -> None:
    text, asked = golden_text() * 3, Cooccurrence(10)
    runner = Runner(store, resources=Resources(memory=1 << 10))  # 64 tokens at a time
    tight, _ = count(runner, asked, text)
    assert sum(int(o.stats.get("pieces", 0)) for o in runner.outcomes) > 5
    roomy = Store(str(tmp_path / "b"), tmp_path / "c")
    assert count(Runner(roomy), asked, text)[0].content == tight.content
    assert not list(store.files.scratch().iterdir())


def test_only_what_is_new_is_counted(store: Store) -> None:
    text, asked = golden_text(), Cooccurrence(5)
    count(Runner(store), asked, text[:50])
    runner = Runner(store)
    count(runner, asked, text[:50], text[50:])
    assert next(o for o in runner.outcomes if o.name == "pairs").computed == 1
    runner = Runner(store)
    counts, vocabulary = count(runner, asked, text[:50], text[50:], min_count=3)
    assert next(o for o in runner.outcomes if o.name == "pairs").reused
    assert_counts(store, counts, vocabulary, asked, text)


def test_what_64_bits_do_not_hold_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="window of 29 is too wide"):
        Cooccurrence(29)
    assert Cooccurrence(1000, "flat").scale == 1
    for window in (0, 1001, 10**30):  # at once, whatever its common multiple would be
        with pytest.raises(ValueError, match="window must be from 1 to 1,000"):
            Cooccurrence(window)
    asked = Cooccurrence(1)
    monkeypatch.setattr(Cooccurrence, "by_distance", lambda self: np.array([0, 1 << 60]))
    with pytest.raises(InputError, match="too large for exact weights"):
        count(Runner(store), asked, [["a", "b", "a", "b", "a", "b"]])
    with pytest.raises(InputError, match="does not fit in 64 bits"):
        count(Runner(store), replace(asked, side="right"), *([["a", "b"]] * 1 for _ in range(9)))


def test_the_output_of_every_step_is_known(store: Store) -> None:
    """Whoever changes what a step writes raises its version and this number with it."""
    counts, _ = count(Runner(store), Cooccurrence(4), golden_text(), min_count=2)
    (part,) = read_cooccurrence(store.reader(counts)).parts
    held = part.rows.tobytes() + part.columns.tobytes() + part.totals.tobytes()
    assert hashlib.sha256(held).hexdigest()[:12] == "21d8cba312e8"
