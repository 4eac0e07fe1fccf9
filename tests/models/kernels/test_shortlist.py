"""The shortlist finds exactly what a full scan finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.kernels import shortlist
from models.kernels.shortlist import Codes, Shortlist
from models.tables import Rows
from models.vectors import unit
from models.word_vectors import scan


def clustered(size: int, width: int, seed: int, noise: float = 0.3) -> Any:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(1 + size // 40, width))
    table = centres[rng.integers(len(centres), size=size)] + noise * rng.normal(size=(size, width))
    return (table * rng.lognormal(size=(size, 1))).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 900),
    width=st.integers(1, 70),
    k=st.integers(1, 40),
    noise=st.sampled_from([0.0, 1e-4, 0.3, 5.0]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_it_answers_as_a_scan(
    size: int, width: int, k: int, noise: float, threads: int, seed: int
) -> None:
    table = clustered(size, width, seed, noise)
    rng = np.random.default_rng(seed)
    table[rng.integers(size, size=size // 9)] = 0
    table[rng.integers(size, size=size // 9), 0] = np.nan
    rows, among = Rows.of(table), int(rng.integers(1, size + 1))
    queries = unit(np.concatenate([rng.normal(size=(2, width)), np.nan_to_num(table[:1])]))
    found = Shortlist(rows, Codes.of(rows, threads), threads)(queries, k, among)
    for (ids, cosines), (expected, scores) in zip(
        found, scan(rows)(queries, k, among), strict=True
    ):
        # Equal up to what rounding may swap: the same cosines, and each that of its row.
        assert len(set(ids.tolist())) == len(ids) == len(expected)
        assert (ids < among).all()
        np.testing.assert_allclose(cosines, scores, atol=2e-6)
    own = unit(table)
    for (ids, cosines), query in zip(found, queries, strict=True):
        np.testing.assert_allclose(own[ids] @ query, cosines, atol=2e-6)


def test_the_bounds_hold_and_are_tight() -> None:
    table = clustered(3000, 300, 1)
    rows = Rows.of(table)
    codes = Codes.of(rows, 1)
    queries = unit(clustered(20, 300, 2))
    rounded, steps, misses = shortlist._rounded(queries, codes.codes.shape[1])
    products = rounded.astype(np.int64) @ codes.codes.astype(np.int64).T
    assert np.abs(products).max() < 2**31
    near = products * codes.scales * steps[:, None]
    errors = codes.errors + (1 + codes.errors) * misses[:, None]
    assert (np.abs(unit(table) @ queries.T - near.T) <= errors.T).all()
    assert errors.max() < 0.015
    ids = Shortlist(rows, codes)._shortlists(queries, 10, 3000)
    assert max(map(len, ids)) < 600


def test_the_table_is_hardly_read() -> None:
    table = clustered(5000, 64, 3, noise=1.0)
    codes, read = Codes.of(Rows.of(table), 2), []

    def at(ids: Any) -> Any:
        read.append(len(ids))
        return table[ids]

    rows = Rows((5000, 64), at)
    queries = unit(np.random.default_rng(4).normal(size=(5, 64)))
    found = Shortlist(rows, codes, 2)(queries, 10, 5000)
    assert [ids.tolist() for ids, _ in found] == [
        ids.tolist() for ids, _ in scan(Rows.of(table))(queries, 10, 5000)
    ]
    assert sum(read) < 5 * 500


@pytest.mark.parametrize("width", [4096])
def test_wide_rows_do_not_overflow(width: int) -> None:
    table = np.ones((40, width), np.float32)
    table[1::2] = -1
    rows = Rows.of(table)
    ids, cosines = Shortlist(rows, Codes.of(rows, 1))(unit(table[:1]), 25, 40)[0]
    assert (ids[:20] % 2 == 0).all()
    np.testing.assert_allclose(cosines, [1] * 20 + [-1] * 5, atol=1e-5)
