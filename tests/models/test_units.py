"""Units in padded batches against slow loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.examples import END, START, Boundary, Examples
from models.family import Plan
from models.units import Pieces, batches, n_batches, padded, pieces, piles
from tests.models.test_sequences import A, B, C, text_of, texts


@given(texts, st.sampled_from(["sentence", "document"]), st.integers(1, 3), st.integers(0, 2))
@settings(deadline=None)
def test_every_example_counts_in_one_piece_of_its_unit(
    documents: list[list[list[int]]], boundary: Boundary, count: int, around: int
) -> None:
    examples, size = Examples.over(text_of(documents), 1, boundary), count + 2 * around
    found = pieces(examples, size, around)
    counted = [i for a, b in zip(found.firsts, found.lasts, strict=True) for i in range(a, b)]
    assert counted == list(range(len(examples)))
    for begin, end, first, last in zip(
        found.begins, found.ends, found.firsts, found.lasts, strict=True
    ):
        (unit, over) = examples.units(np.array([first]))
        assert begin == max(unit[0], first - around)
        assert end == min(over[0], last + around)
        whole = over[0] - unit[0] <= size
        assert (first, last) == (unit[0], over[0]) if whole else last - first <= count


def test_what_is_read_of_a_document_cut_in_two() -> None:
    examples = Examples.over(text_of([[[A, B], [C]], [[]]]), 1, "document")
    entries, sizes = padded(examples, pieces(examples, 3))
    assert entries.T.tolist() == [
        [START, A, B, END],
        [END, C, END, START],
        [START, END, START, START],
    ]
    assert sizes.tolist() == [4, 3, 2]
    nothing = pieces(examples, 3).some(np.zeros(0, np.int64))
    assert padded(examples, nothing)[0].shape == (1, 0)


def of_lengths(lengths: list[int]) -> Pieces:
    ends = np.cumsum(lengths)
    return Pieces(ends - lengths, ends, ends - lengths, ends)


def epoch(text: Pieces, size: int, plan: Plan) -> list[list[int]]:
    return [part.firsts.tolist() for _, _, part in batches(text, size, plan)]


@given(st.integers(0, 200), st.integers(1, 7), st.integers(1, 5), st.sampled_from(["train", "h"]))
@settings(deadline=None, max_examples=25)
def test_ranks_share_out_every_piece_once(n: int, size: int, world: int, role: str) -> None:
    text = of_lengths(np.random.default_rng(n).integers(1, 9, n).tolist())
    role = "train" if role == "train" else "heldout"
    plans = [Plan(3, epoch=1, rank=r, world=world, role=role) for r in range(world)]  # type: ignore[arg-type]
    ranks = [epoch(text, size, plan) for plan in plans]
    assert {len(parts) for parts in ranks} == {n_batches(text, size)}
    assert sorted(i for parts in ranks for part in parts for i in part) == text.firsts.tolist()
    whole = [sorted(p) for p in epoch(text, size, Plan(3, epoch=1, role=plans[0].role))]
    for number, batch in enumerate(whole):
        assert sorted(i for parts in ranks for i in parts[number]) == batch
        given = [len(parts[number]) for parts in ranks]
        assert max(given) - min(given) <= 1


def test_a_resumed_epoch_goes_on_and_another_one_is_in_another_order() -> None:
    text = of_lengths(np.random.default_rng(1).integers(1, 40, 1000).tolist())
    first = epoch(text, 4, Plan(3))
    assert epoch(text, 4, Plan(3)) == first
    assert epoch(text, 4, Plan(3, start=77)) == first[77:]
    for other in (Plan(3, epoch=1), Plan(4)):
        assert len({tuple(b) for b in epoch(text, 4, other)} & {tuple(b) for b in first}) < 5


def test_little_is_padded_and_ranks_read_as_much() -> None:
    text = of_lengths(np.random.default_rng(1).geometric(0.05, 4000).tolist())
    for role in ("train", "heldout"):
        read, each = 0, np.zeros(2)
        for rank in range(2):
            for _, whole, mine in batches(text, 16, Plan(3, rank=rank, world=2, role=role)):  # type: ignore[arg-type]
                read += len(mine) * int(whole.sizes.max())
                each[rank] += mine.sizes.sum()
        assert read < 1.08 * text.sizes.sum()
        assert abs(each[0] / each[1] - 1) < 0.02


def test_piles_hold_all_pieces_and_are_bounded() -> None:
    text = of_lengths([5, 1, 90, 2, 2, 40, 7])
    found = list(piles(text, at_once=12))
    assert sorted(int(i) for pile in found for i in pile.firsts) == text.firsts.tolist()
    assert all(len(p) == 1 or len(p) * (int(p.sizes.max()) + 1) <= 12 for p in found)
