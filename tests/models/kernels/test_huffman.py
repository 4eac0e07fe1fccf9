"""Huffman's tree: a tree worked out by hand, and that no prefix code is shorter."""

from __future__ import annotations

import heapq
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.kernels.huffman import Tree, agreeing


def paths(tree: Tree) -> list[list[tuple[int, float]]]:
    return [
        list(zip(tree.nodes[a:b].tolist(), tree.signs[a:b].tolist(), strict=True))
        for a, b in zip(tree.starts[:-1], tree.starts[1:], strict=True)
    ]


def test_a_small_tree() -> None:
    # 5 4 2 1 1: the last two make node 0 (2), which word 2 (2) precedes: node 1 (4), word 1 before
    # it: node 2 (8), and word 0 (5) before that: the root, node 3 (13).
    assert paths(Tree.of(np.array([5, 4, 2, 1, 1]))) == [
        [(3, -1.0)],
        [(3, 1.0), (2, -1.0)],
        [(3, 1.0), (2, 1.0), (1, -1.0)],
        [(3, 1.0), (2, 1.0), (1, 1.0), (0, -1.0)],
        [(3, 1.0), (2, 1.0), (1, 1.0), (0, 1.0)],
    ]
    assert [len(path) for path in paths(Tree.of(np.array([3, 3, 3, 3])))] == [2, 2, 2, 2]


def test_vocabularies_of_a_word_or_two() -> None:
    assert paths(Tree.of(np.array([7]))) == [[]]
    assert paths(Tree.of(np.array([7, 3]))) == [[(0, 1.0)], [(0, -1.0)]]
    assert Tree.of(np.array([7])).depth == 0


def shortest(counts: list[int]) -> int:
    """The summed length of all codes in a text with these counts: the weights of all joins."""
    heap, cost = sorted(counts), 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        heapq.heappush(heap, joined)
        cost += joined
    return cost


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=80))
def test_codes_are_shortest_and_tell_words_apart(counts: list[int]) -> None:
    tree = Tree.of(np.array(counts))
    found = paths(tree)
    lengths = [len(path) for path in found]
    assert sum(n * length for n, length in zip(counts, lengths, strict=True)) == shortest(counts)
    assert tree.depth == max(lengths)
    assert sum(2.0**-length for length in lengths) == 1  # a full prefix code
    assert len({tuple(path) for path in found}) == len(counts)
    assert all(path[0][0] == len(counts) - 2 for path in found)
    for path in found:  # each node once, from the root down
        nodes = [node for node, _ in path]
        assert nodes == sorted(set(nodes), reverse=True)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=40), st.integers(0, 9))
def test_chances_of_all_words_sum_to_one(counts: list[int], seed: int) -> None:
    z = np.random.default_rng(seed).normal(0, 2, len(counts) - 1)
    chances = [
        np.prod([1 / (1 + np.exp(sign * z[node])) for node, sign in path])
        for path in paths(Tree.of(np.array(counts)))
    ]
    np.testing.assert_allclose(sum(chances), 1, rtol=1e-12)


# --- trees of vocabularies that grow --------------------------------------------------------


def test_nodes_that_part_the_same_words_are_found() -> None:
    before = Tree.of(np.array([5, 4, 2, 1, 1]))
    theirs, ours, signs = agreeing(before, before, np.arange(5, dtype=np.int32))
    assert (theirs.tolist(), ours.tolist(), signs.tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3], [1] * 4)
    # 9 9 9 1 1: the last two make node 0 again, and the first 9 joins it from the other side.
    after = Tree.of(np.array([9, 9, 9, 1, 1]))
    theirs, ours, signs = agreeing(before, after, np.array([1, 2, 0, 3, 4], np.int32))
    assert (theirs.tolist(), ours.tolist(), signs.tolist()) == ([0, 1], [0, 1], [1, -1])


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.lists(st.integers(1, 50), min_size=1, max_size=60),
    st.randoms(),
)
def test_nodes_that_agree_part_words_alike(old: list[int], new: list[int], random: Random) -> None:
    old = old[: len(new)]
    places = random.sample(range(len(new)), len(old))
    before, after = Tree.of(np.array(old)), Tree.of(np.array(new))
    theirs, ours, signs = agreeing(before, after, np.array(places, np.int32))
    assert len(set(theirs.tolist())) == len(set(ours.tolist())) == len(theirs)
    for their, our, turned in zip(theirs.tolist(), ours.tolist(), signs.tolist(), strict=True):
        for sign in (-1.0, 1.0):
            was = {places[w] for w, path in enumerate(paths(before)) if (their, sign) in path}
            now = {w for w, path in enumerate(paths(after)) if (our, sign * turned) in path}
            assert was == now & set(places)
