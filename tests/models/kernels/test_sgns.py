"""The kernel against its plain reference, and the tables that it draws from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels import lanes, sgns, sgns_reference
from models.kernels.sampling import Noise, keep_chances
from models.text import Sentences


def text_of(lengths: list[int], words: int, seed: int = 0) -> Sentences:
    """Random sentences of the given lengths; about one word in ten is unknown."""
    ids = np.random.default_rng(seed).integers(-1, words, sum(lengths)).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Sentences(ids, starts, np.array([0, len(lengths)]))


def tables_of(words: int, width: int, sample: float, scale: float = 0.3) -> sgns.Tables:
    random = np.random.default_rng(1)
    counts = np.arange(words, 0, -1, dtype=np.int64)
    inputs, outputs = random.normal(0, scale, (2, words, width)).astype(np.float32)
    return sgns.Tables(inputs, outputs, keep_chances(counts, sample), Noise.of(counts**0.75))


def aligned(tables: sgns.Tables) -> sgns.Tables:
    inputs, outputs = lanes.aligned(tables.inputs), lanes.aligned(tables.outputs)
    return sgns.Tables(inputs, outputs, tables.keep, tables.noise)


def exact(tables: sgns.Tables) -> sgns.Tables:
    """The tables in double precision, for the reference."""
    inputs, outputs = tables.inputs.astype(np.float64), tables.outputs.astype(np.float64)
    return sgns.Tables(inputs, outputs, tables.keep, tables.noise)  # type: ignore[arg-type]


# Few words, so that windows hold a word twice and noise hits the centre and repeats itself; more
# targets than lanes; widths below, at and above whole vectors.
@pytest.mark.parametrize(
    ("words", "width", "window", "negatives"), [(30, 20, 3, 5), (6, 100, 5, 5), (40, 32, 2, 20)]
)
def test_the_kernel_does_what_the_reference_says(
    words: int, width: int, window: int, negatives: int
) -> None:
    start = tables_of(words, width, sample=0.01)
    text = text_of([0, 1, 2, 30, 5, 1, 0, 12, 70], words)
    ours, theirs = aligned(start), exact(start)
    how = {"window": window, "negatives": negatives, "seed": 5, "rates": (0.1, 0.02)}
    tally = sgns.sweep(ours, text, threads=1, **how)  # type: ignore[arg-type]
    expected = sgns_reference.sweep(theirs, text, **how)  # type: ignore[arg-type]
    assert (tally.kept, tally.examples) == (expected.kept, expected.examples)
    assert 0 < tally.kept < np.count_nonzero(text.ids >= 0)
    assert tally.loss == pytest.approx(expected.loss, rel=1e-6)
    moved = np.abs(theirs.inputs - start.inputs).max()
    assert moved > 0.05
    np.testing.assert_allclose(ours.inputs[:, :width], theirs.inputs, atol=2e-6)
    np.testing.assert_allclose(ours.outputs[:, :width], theirs.outputs, atol=2e-6)
    assert not ours.inputs[:, width:].any()  # the padding takes no part


def test_large_logits_saturate_and_infinite_ones_show_in_the_loss() -> None:
    start, text = tables_of(20, 16, sample=0, scale=6.0), text_of([40], 20)
    how = {"window": 2, "negatives": 5, "seed": 1, "rates": (1e-4, 1e-4)}
    ours, theirs = aligned(start), exact(start)
    tally = sgns.sweep(ours, text, threads=1, **how)  # type: ignore[arg-type]
    with np.errstate(over="ignore"):
        expected = sgns_reference.sweep(theirs, text, **how)  # type: ignore[arg-type]
    assert expected.loss / expected.examples > 50
    assert tally.loss == pytest.approx(expected.loss, rel=1e-5)
    for wild in (np.inf, -np.inf, np.nan):
        ours.inputs[text.ids[0], 0] = wild
        assert not np.isfinite(sgns.sweep(ours, text, threads=1, **how).loss)  # type: ignore[arg-type]


def test_threads_share_the_very_examples_of_one_thread() -> None:
    # One sentence is longer than all others: threads must share it too.
    text = text_of([4000, *[15] * 100], 50)
    how = {"window": 5, "negatives": 5, "seed": 3, "rates": (0.025, 0.025)}
    tallies = []
    for threads in (1, 2, 4, 64):
        tables = aligned(tables_of(50, 24, sample=0.01))
        tallies.append(sgns.sweep(tables, text, threads=threads, **how))  # type: ignore[arg-type]
    assert len({(tally.kept, tally.examples) for tally in tallies}) == 1
    for tally in tallies[1:]:
        assert tally.loss == pytest.approx(tallies[0].loss, rel=0.03)


def test_a_long_sentence_is_trained_to_its_last_word() -> None:
    ids = np.zeros(10_001, np.int32)
    ids[:-1] = np.arange(10_000) % 7
    ids[-1] = 7
    text = Sentences(ids, np.array([0, len(ids)]), np.array([0, 1]))
    tables = aligned(tables_of(8, 16, sample=0))
    before = tables.inputs[7].copy()
    tally = sgns.sweep(tables, text, window=1, negatives=5, seed=1, rates=(0.025, 0.025), threads=2)
    assert (tally.kept, tally.examples) == (10_001, 20_000)
    assert not np.array_equal(tables.inputs[7], before)


def test_windows_stay_within_sentences() -> None:
    ids = np.arange(40, dtype=np.int32)
    text = Sentences(ids, np.arange(0, 41, 2), np.array([0, 20]))
    tables = aligned(tables_of(40, 16, sample=0))
    tally = sgns.sweep(tables, text, window=9, negatives=5, seed=1, rates=(0.025, 0.025), threads=2)
    assert tally.examples == 40  # each of 20 sentences of two words has two pairs


def test_nothing_to_train_on_is_no_error_here() -> None:
    for lengths in ([], [0, 0], [1, 1, 1]):
        tally = sgns.sweep(
            aligned(tables_of(5, 16, sample=0)),
            text_of(lengths, 5),
            window=2,
            negatives=5,
            seed=1,
            rates=(0.025, 0.025),
            threads=2,
        )
        assert (tally.kept, tally.examples, tally.loss) == (0, 0, 0.0)


def test_frequent_words_are_kept_by_the_authors_formula() -> None:
    counts = np.array([5000, 900, 90, 10], np.int64)
    # word2vec.c: (sqrt(cn / (sample * total)) + 1) * (sample * total) / cn
    expected = [min(1.0, ((cn / 6) ** 0.5 + 1) * 6 / cn) for cn in counts.tolist()]
    chances = keep_chances(counts, sample=1e-3)
    np.testing.assert_allclose((chances + 1.0) / 2**32, expected, atol=1e-9)
    assert (keep_chances(counts, sample=0) == 2**32 - 1).all()


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60))
def test_noise_follows_its_weights(weights: list[float]) -> None:
    noise = Noise.of(np.array(weights))
    drawn = (noise.chance + 1.0) / 2**32
    share = np.bincount(noise.other, weights=1 - drawn, minlength=len(weights)) + drawn
    np.testing.assert_allclose(share / len(weights), np.array(weights) / sum(weights), atol=1e-8)


def test_kernels_compile_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import CacheImpl

    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert lanes.compiled(lambda x: x + 1)(2) == 3
