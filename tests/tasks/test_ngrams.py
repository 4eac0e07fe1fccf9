from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.family import WantsVocabulary
from models.vocabulary import LM_RESERVED
from tasks.artifacts import Artifact, Stats
from tasks.cluster import RayCluster
from tasks.ngrams import count_ngrams, read_ngrams
from tasks.runner import Runner
from tasks.step import Context, Resources, Step, execute
from tasks.store import Reader, Store
from tasks.tokenize import TOKENS, TYPES_SCHEMA, TYPES_TABLE
from tasks.vocabulary import TYPES, VOCABULARY, Types, read_vocabulary
from tests.models.ngram_reference import golden_text, in_suffix_order, windows

Text = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Given:
    partitions: tuple[tuple[tuple[str, ...], ...], ...]


def _write(context: Context, readers: Mapping[str, Reader], params: Given) -> Stats:
    for i, sentences in enumerate(params.partitions):
        counts = Counter(word for sentence in sentences for word in sentence)
        number = {word: n for n, word in enumerate(counts)}
        ids = np.array([number[word] for s in sentences for word in s], np.int32)
        starts = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
        tensors = {"ids": ids, "starts": starts, "documents": np.array([0, len(sentences)])}
        context.out.tensors(TOKENS, tensors, i)
        rows = [pa.array(list(counts), pa.large_string()), pa.array(counts.values(), pa.int64())]
        context.out.table(TYPES_TABLE, pa.table(rows, schema=TYPES_SCHEMA), i)
    return {}


def tokens_of(store: Store, *partitions: Text) -> Artifact:
    params = Given(tuple(tuple(tuple(s) for s in part) for part in partitions))
    return execute(Step("given", 1, "tokens", _write), store, {}, params)[0].handle()


def count(
    runner: Runner, *partitions: Text, order: int, min_count: int = 1
) -> tuple[Artifact, Artifact]:
    tokens = tokens_of(runner.store, *partitions)
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    vocabulary = runner.run(
        VOCABULARY, {"types": types}, WantsVocabulary(min_count, None, LM_RESERVED)
    )
    return count_ngrams(runner, tokens, vocabulary, order), vocabulary


def assert_counts(
    store: Store, counts: Artifact, vocabulary: Artifact, text: Text, order: int
) -> None:
    """Every n-gram of the mapped text, each with its count, in suffix order."""
    entries = read_vocabulary(store.reader(vocabulary))
    expected = in_suffix_order(windows([entries.ids(s) for s in text], order), order)
    found = read_ngrams(store.reader(counts))
    assert found.order == order
    np.testing.assert_array_equal(found.ngrams, expected.ngrams)
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert (found.ngrams.dtype, found.counts.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("min_count", [1, 3])
def test_counts_are_exact(store: Store, order: int, min_count: int) -> None:
    text = golden_text()
    parts = text[:30], [], text[30:31], text[31:]
    counts, vocabulary = count(Runner(store), *parts, order=order, min_count=min_count)
    assert_counts(store, counts, vocabulary, text, order)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    text=st.lists(
        st.lists(st.sampled_from(["a", "b", "é", "日本", "<s>", "<unk>"]), max_size=5),
        min_size=1,
        max_size=8,
    ).filter(any),
    order=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 8), max_size=4),
    memory=st.sampled_from([1, 300, 1 << 30]),
    threads=st.integers(1, 3),
)
def test_counts_do_not_depend_on_cuts_memory_or_threads(
    tmp_path_factory: pytest.TempPathFactory,
    text: list[list[str]],
    order: int,
    cuts: list[int],
    memory: int,
    threads: int,
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    store = Store(str(folder / "store"), folder / "cache")
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts = [text[a:b] for a, b in itertools.pairwise(edges)]
    whole, vocabulary = count(Runner(store), text, order=order, min_count=2)
    other = Store(str(folder / "other"), folder / "cache")
    runner = Runner(other, resources=Resources(threads=threads, memory=memory))
    cut, _ = count(runner, *parts, order=order, min_count=2)
    assert cut.content == whole.content
    assert_counts(store, whole, vocabulary, text, order)


def test_what_does_not_fit_goes_through_the_disk(store: Store) -> None:
    # Thousands of forms, all but a few unknown: n-grams that become one, more than fit at a time.
    text = [[f"w{i}", f"v{i}", "the"] + ["and", "of"] * (i % 3) for i in range(3000)]
    runner = Runner(store, resources=Resources(memory=1 << 16))
    tight, vocabulary = count(runner, text[:2500], text[2500:], order=3, min_count=2)
    assert sum(int(o.stats.get("pieces", 0)) for o in runner.outcomes) > 10
    assert_counts(store, tight, vocabulary, text, 3)
    assert not list(store.files.scratch().iterdir())


def test_ray_counts_the_same(store: Store, tmp_path: Path, ray_cluster: RayCluster) -> None:
    text = golden_text()
    parts = [text[i : i + 13] for i in range(0, len(text), 13)]
    runner = Runner(store, ray=ray_cluster)
    on_ray, _ = count(runner, *parts, order=5, min_count=2)
    alone, _ = count(Runner(Store(str(tmp_path / "b"), tmp_path / "c")), text, order=5, min_count=2)
    assert on_ray.content == alone.content


def test_another_vocabulary_counts_nothing_anew(store: Store) -> None:
    text = golden_text()
    count(Runner(store), text[:50], text[50:], order=3, min_count=1)
    runner = Runner(store)
    counts, vocabulary = count(runner, text[:50], text[50:], order=3, min_count=4)
    reused = {outcome.name: outcome.reused for outcome in runner.outcomes}
    assert reused == {
        "types": True,
        "vocabulary": False,
        "ngrams": True,
        "ngrams-map": False,
    }
    assert_counts(store, counts, vocabulary, text, 3)


def test_a_new_partition_counts_itself_only(store: Store) -> None:
    text = golden_text()
    count(Runner(store), text[:50], order=3)
    runner = Runner(store)
    count(runner, text[:50], text[50:], order=3)
    counted = next(outcome for outcome in runner.outcomes if outcome.name == "ngrams")
    assert counted.computed == 1


def test_marks_in_the_text_are_words_and_no_boundaries(store: Store) -> None:
    text = [["a", "<s>", "b", "</s>", "a"], ["<unk>", "a", "b"]]
    counts, vocabulary = count(Runner(store), text, order=2)
    entries = read_vocabulary(store.reader(vocabulary))
    assert entries.entries == (*LM_RESERVED, "a", "b")
    found = read_ngrams(store.reader(counts))
    assert found.counts.sum() == 8 + 2
    a, b = entries.id("a"), entries.id("b")
    rows = dict(zip(map(tuple, found.ngrams.tolist()), found.counts.tolist(), strict=True))
    assert rows == {
        (1, 0): 1, (1, a): 1, (a, 0): 1, (b, 0): 1, (0, a): 2, (0, b): 1, (a, b): 1, (a, 2): 1,
        (b, 2): 1,
    }  # fmt: skip


def test_a_vocabulary_of_another_order_is_no_trouble(store: Store) -> None:
    text = [["b"], ["a", "b", "b", "c"], ["a", "a"]]
    tokens = tokens_of(store, text)
    runner = Runner(store)
    types = runner.run(TYPES, {"tokens": tokens}, Types())
    others = runner.run(TYPES, {"tokens": tokens_of(store, [["c", "c", "c", "a"]])}, Types())
    wanted = WantsVocabulary(1, None, LM_RESERVED)
    vocabulary = runner.run(VOCABULARY, {"types": others}, wanted)
    assert_counts(store, count_ngrams(runner, tokens, vocabulary, 3), vocabulary, text, 3)
    reserved = runner.run(VOCABULARY, {"types": types}, WantsVocabulary(1, None, ()))
    with pytest.raises(ValueError, match="need a vocabulary"):
        count_ngrams(runner, tokens, reserved, 3)


def test_the_output_of_every_step_is_known(store: Store) -> None:
    """Whoever changes what a step writes raises its version and these numbers with it."""
    text = golden_text()
    counts, _ = count(Runner(store), text, order=4, min_count=2)
    found = read_ngrams(store.reader(counts))
    digest = hashlib.sha256(found.ngrams.tobytes() + found.counts.tobytes()).hexdigest()
    assert digest == "6f1af3e9818490ac17992dd93fc06d2b7440b351306a1358c879090e49ecbd82"
