"""Huffman's tree over a vocabulary, by which hierarchical softmax splits a word into decisions.

Huffman (1952), "A method for the construction of minimum-redundancy codes"; Morin and Bengio
(2005), "Hierarchical probabilistic neural network language model"; Mikolov et al. (2013),
arXiv:1301.3781, who took Huffman's tree because frequent words then have short paths.

Each inner node holds a vector. A word is a path from the root: at each node a decision, whose
chance is the sigmoid of the product of the node's vector and the hidden vector. The chances of all
words sum to 1 by construction.

Shapes: ``V`` vocabulary, ``L`` the summed lengths of all paths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Tree:
    """The paths of all words, one after the other, root first.

    Attributes:
        starts: (V + 1,) int64, where the path of each word begins.
        nodes: (L,) int32 inner nodes, below V - 1; the root is V - 2.
        signs: (L,) float32, the decisions: -1 for the first branch (code 0), 1 for the second.
    """

    starts: NDArray[np.int64]
    nodes: NDArray[np.int32]
    signs: NDArray[np.float32]

    @property
    def depth(self) -> int:
        """The length of the longest path."""
        return int(np.diff(self.starts).max(initial=0))

    @staticmethod
    def of(counts: NDArray[np.int64]) -> Tree:
        """The tree of (V,) counts; of equal ones the word with the lower id goes first.

        The two rarest subtrees are joined until one is left. Those made so far grow ever heavier,
        so two queues do: the words by rising count, and the nodes in the order of their making.
        """
        n = len(counts)
        order = np.argsort(counts, kind="stable").tolist()
        weights = counts.tolist() + [0] * max(0, n - 1)
        parent, second = [0] * len(weights), [False] * len(weights)
        word, made = 0, n

        for node in range(n, len(weights)):
            for branch in (False, True):
                # Of a word and a node of equal weight the word goes first: the paths are shortest.
                if word < n and (made == node or weights[order[word]] <= weights[made]):
                    child, word = order[word], word + 1
                else:
                    child, made = made, made + 1
                parent[child], second[child] = node, branch
                weights[node] += weights[child]

        root, starts, nodes, signs = len(weights) - 1, [0], list[int](), list[float]()
        for leaf in range(n):
            path, at = [], leaf
            while at != root:
                path.append((parent[at] - n, 1.0 if second[at] else -1.0))
                at = parent[at]
            nodes.extend(node for node, _ in reversed(path))
            signs.extend(sign for _, sign in reversed(path))
            starts.append(len(nodes))
        return Tree(np.array(starts), np.array(nodes, np.int32), np.array(signs, np.float32))


def agreeing(
    before: Tree, after: Tree, places: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The nodes that mean the same in two trees: they part the words of the first alike.

    Words that only the second tree has are looked through. The sets of words on either side of a
    node are compared by sums of random 64-bit keys, a key a word (Zobrist 1970).

    Args:
        before: a tree of ``V`` words.
        after: a tree that has these words too.
        places: (V,) the word of ``after`` that each word of ``before`` is.

    Returns:
        (M,) nodes of ``before``, (M,) those of ``after`` that mean the same, and (M,) -1 where
        the two branches have changed places, else 1.
    """
    keys = np.random.default_rng(0).integers(1, 2**64, len(places), np.uint64)
    news = np.zeros(len(after.starts) - 1, np.uint64)
    news[places] = keys
    known = {sides: node for node, sides in enumerate(_sides(before, keys))}
    found = []
    for node, (first, second) in enumerate(_sides(after, news)):
        for sides, sign in (((first, second), 1), ((second, first), -1)):
            # Below a side without a word of the first tree there is nothing to agree on.
            if first and second and sides in known:
                found.append((known[sides], node, sign))
    theirs, ours, signs = np.array(found, np.int64).reshape(-1, 3).T
    return theirs, ours, signs.astype(np.float32)


def _sides(tree: Tree, keys: NDArray[np.uint64]) -> list[tuple[int, int]]:
    """For each node the summed keys, modulo 2**64, of the words in either branch."""
    sums = np.zeros((max(0, len(tree.starts) - 2), 2), np.uint64)
    branches = (tree.signs > 0).astype(np.int64)
    np.add.at(sums, (tree.nodes, branches), np.repeat(keys, np.diff(tree.starts)))
    return [(first, second) for first, second in sums.tolist()]
