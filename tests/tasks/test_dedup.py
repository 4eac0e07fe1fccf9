"""Deduplication: the first of equal documents stays, wherever it stands."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.dedup import DEDUP, KEPT, Deduplicate
from tasks.runner import Runner
from tasks.store import Store
from tests.tasks.corpora import documents


def kept(store: Store, artifact) -> list[list[bool]]:  # type: ignore[no-untyped-def]
    reader = store.reader(artifact)
    return [reader.tensors(KEPT, i)["kept"].tolist() for i in range(reader.n_partitions)]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=4))
def test_the_first_of_equal_documents_stays(partitions: list[list[str]]) -> None:
    seen: set[str] = set()
    expected = [[not (text in seen or seen.add(text)) for text in part] for part in partitions]
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, Path(folder) / "cache")
        runner = Runner(store)
        source = documents(store, *partitions)
        artifact = runner.run(DEDUP, {"documents": source}, Deduplicate())
        assert kept(store, artifact) == expected
        n, distinct = sum(map(len, partitions)), len(seen)
        counts = {"read": n, "kept": distinct, "dropped.duplicate": n - distinct}
        assert store.manifest(artifact).stats == counts
        artifact = runner.run(DEDUP, {"documents": source}, Deduplicate(enabled=False))
        assert kept(store, artifact) == [[True] * len(part) for part in partitions]
        counts = {"read": n, "kept": n, "duplicates": n - distinct}
        assert store.manifest(artifact).stats == counts


@pytest.mark.parametrize(("enabled", "contaminated"), [(True, 2), (False, 3)])
def test_documents_that_stand_in_the_training_text_are_counted_and_stay(
    store: Store, enabled: bool, contaminated: int
) -> None:
    inputs = {
        "documents": documents(store, ["new", "known", "known"], [], ["also known"]),
        "train": documents(store, ["also known", "x"], ["known", "known"]),
    }
    artifact = Runner(store).run(DEDUP, inputs, Deduplicate(enabled))
    assert store.manifest(artifact).stats["contaminated"] == contaminated
    assert kept(store, artifact) == [[True, True, not enabled], [], [True]]


def test_ids_that_agree_in_one_half_are_different(store: Store) -> None:
    import pyarrow as pa

    from tasks.dedup import _first_of_each

    halves = np.array([[1, 2], [1, 3], [2, 2], [1, 2], [2, 2]], "<u8")
    ids = pa.chunked_array([pa.array([row.tobytes() for row in halves], pa.binary(16))])
    assert _first_of_each(ids).tolist() == [True, True, True, False, False]
