from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.streams import NONE, Streams, Windows


@given(
    length=st.integers(0, 60),
    streams=st.integers(1, 9),
    steps=st.integers(1, 7),
    world=st.integers(1, 4),
    seed=st.one_of(st.none(), st.tuples(st.integers(0, 9), st.integers(0, 9))),
)
def test_streams_go_through_the_text_once_and_in_order(
    length: int, streams: int, steps: int, world: int, seed: tuple[int, int] | None
) -> None:
    layout = Streams(length, streams, steps, seed)
    assert len(layout) == len(Streams(length, streams, steps))
    batches = [
        np.concatenate([layout.at(b, rank, world) for rank in range(world)], axis=1)
        for b in range(len(layout))
    ]
    lengths = np.diff(layout.cuts).tolist()
    assert sum(lengths) == layout.longest
    if seed is None:
        assert all(n == steps for n in lengths[:-1])
    assert [batch.shape for batch in batches] == [(n, streams) for n in lengths]
    assert min(lengths, default=1) > 0
    whole = np.concatenate(batches) if batches else np.zeros((0, streams), np.int64)
    read = [column[column != NONE] for column in whole.T]
    # Side by side the streams are the text, and each of them is read without a gap.
    assert np.concatenate(read).tolist() == list(range(length))
    for column, stream in zip(whole.T, read, strict=True):
        assert column[: len(stream)].tolist() == stream.tolist()
    assert max(map(len, read)) - min(map(len, read)) <= 1
    assert not batches or (batches[-1] != NONE).any()


def test_a_text_shorter_than_a_batch_is_not_filled_up_to_its_length() -> None:
    layout = Streams(5, 2, 10**12)
    assert (len(layout), layout.at(0, 0, 1).T.tolist()) == (1, [[0, 1, NONE], [2, 3, 4]])


def test_lengths_vary_as_published() -> None:
    """Around 70 with a standard deviation of 5, one in twenty around the half of it."""
    layout = Streams(70 * 5_000, 1, 70, seed=(1, 2))
    lengths = np.diff(layout.cuts)
    assert lengths.sum() == 70 * 5_000
    # Stretched, so that batches of 68.25 on average fill the text by 70 each.
    whole = lengths[lengths > 52] * 68.25 / 70
    assert len(whole) / len(lengths) == pytest.approx(0.95, abs=0.01)
    assert whole.mean() == pytest.approx(70, abs=0.5)
    assert whole.std() == pytest.approx(5, abs=0.3)
    half = lengths[lengths <= 52] * 68.25 / 70
    assert half.mean() == pytest.approx(35, abs=2)
    assert np.array_equal(layout.cuts, Streams(70 * 5_000, 1, 70, seed=(1, 2)).cuts)
    assert not np.array_equal(layout.cuts, Streams(70 * 5_000, 1, 70, seed=(1, 3)).cuts)


def test_the_windows_of_a_known_text() -> None:
    assert len(Windows(600_893, 60, 3)) == 200_278
    assert len(Windows(60, 60, 3)) == 0
    layout = Windows(10, 4, 3)
    assert layout.at(np.arange(len(layout))).T.tolist() == [[1, 2, 3, 4], [4, 5, 6, 7]]


@given(length=st.integers(0, 40), steps=st.integers(1, 9), stride=st.integers(1, 9))
def test_no_window_reaches_over_the_end(length: int, steps: int, stride: int) -> None:
    layout = Windows(length, steps, stride)
    starts = list(range(0, length - steps, stride))
    assert len(layout) == len(starts)
    assert layout.at(np.arange(len(layout)))[-1:].tolist() == [[s + steps for s in starts]]
