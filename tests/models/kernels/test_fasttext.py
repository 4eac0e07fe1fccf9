"""The kernel of fastText against its plain reference, and that against gradients."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from models.kernels import fasttext, fasttext_reference, lanes, windows
from models.kernels.huffman import Tree
from models.kernels.sampling import Noise, keep_chances
from models.text import Sentences
from tests.models.kernels.test_objectives import text_of

OBJECTIVES = ("negative-sampling", "hierarchical-softmax")
every = pytest.mark.parametrize("objective", OBJECTIVES)
both_ways = pytest.mark.parametrize("cbow", [False, True], ids=["skip-gram", "cbow"])


@dataclasses.dataclass(frozen=True)
class Problem:
    """Random tables; every word has its own row and up to four others, which it shares."""

    objective: str
    words: int
    width: int
    scale: float = 0.3

    @property
    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(1)
        shape = 2 * self.words, self.width
        inputs = rng.normal(0, self.scale, shape).astype(np.float32)
        outputs = rng.normal(0, self.scale, shape).astype(np.float32)
        return inputs, outputs[: self.words - (self.objective == "hierarchical-softmax")]

    @property
    def tables(self) -> fasttext.Tables:
        rng, counts = np.random.default_rng(2), np.arange(self.words, 0, -1, dtype=np.int64) ** 2
        shared = [rng.permutation(self.words)[: rng.integers(5)] for _ in range(self.words)]
        bags = [[word, *(self.words + rows)] for word, rows in enumerate(shared)]
        starts = np.cumsum([0, *map(len, bags)])
        decisions: Noise | Tree = Noise.of(counts**0.5)
        if self.objective == "hierarchical-softmax":
            decisions = Tree.of(counts)
        inputs, outputs = map(lanes.aligned, self.matrices)
        rows = np.concatenate(bags).astype(np.int64)
        return fasttext.Tables(inputs, outputs, starts, rows, keep_chances(counts, 0.01), decisions)

    def run(self, text: Sentences, **how: Any) -> tuple[windows.Tally, np.ndarray, np.ndarray]:
        tables = self.tables
        return fasttext.sweep(tables, text, **how), tables.inputs, tables.outputs

    def expected(self, text: Sentences, **how: Any) -> tuple[windows.Tally, np.ndarray, np.ndarray]:
        inputs, outputs = (table.astype(np.float64) for table in self.matrices)
        tally = fasttext_reference.sweep(inputs, outputs, self.tables, text, **how)
        return tally, inputs, outputs


# Few words, so that windows hold a word twice and noise hits them and repeats itself; groups that
# end before they are full, and more targets than lanes.
@every
@both_ways
@pytest.mark.parametrize(
    ("words", "width", "negatives", "shared"), [(7, 20, 5, 3), (30, 48, 14, 4), (20, 16, 1, 1)]
)
def test_the_kernel_does_what_the_reference_says(
    objective: str, cbow: bool, words: int, width: int, negatives: int, shared: int
) -> None:
    problem = Problem(objective, words, width)
    text = text_of([0, 1, 2, 30, 5, 1, 0, 12, 70], words)
    how = {"window": 3, "cbow": cbow, "negatives": negatives, "shared": shared}
    how |= {"seed": 5, "rates": (0.1, 0.02)}
    tally, *ours = problem.run(text, threads=1, **how)
    expected, *theirs = problem.expected(text, **how)
    assert (tally.kept, tally.examples) == (expected.kept, expected.examples)
    assert 0 < tally.kept < np.count_nonzero(text.ids >= 0)
    assert tally.loss == pytest.approx(expected.loss, rel=1e-6)
    for found, wanted, start in zip(ours, theirs, problem.matrices, strict=True):
        assert np.abs(wanted - start).max() > 0.05
        np.testing.assert_allclose(found[:, :width], wanted, atol=2e-5)
        assert not found[:, width:].any()  # the padding takes no part


def test_a_group_of_the_reference_steps_down_the_gradient_of_its_pairs() -> None:
    outputs = np.random.default_rng(3).normal(0, 0.5, (9, 6))
    hidden = np.random.default_rng(4).normal(0, 0.5, 6)
    words, noise, rate = [1, 4, 7], [2, 4, 8], 1e-2
    u, h = (torch.tensor(array, requires_grad=True) for array in (outputs, hidden))
    pairs = [(word, [other for other in noise if other != word]) for word in words]
    loss = sum(
        -torch.nn.functional.logsigmoid(torch.cat([(u[[w]] @ h), -(u[others] @ h)])).sum()
        for w, others in pairs
    )
    to_u, to_h = torch.autograd.grad(loss, (u, h))  # type: ignore[arg-type]
    found, change = fasttext_reference.train_group(outputs, words, noise, hidden, rate)
    assert found == pytest.approx(float(loss.detach()), rel=1e-12)
    alone = [0, 1, 2, 3, 5, 6, 7, 8]  # 4 is there twice, and moved one time after the other
    np.testing.assert_allclose(
        ((outputs - u.detach().numpy()) / -rate)[alone], to_u.numpy()[alone], atol=1e-9
    )
    np.testing.assert_allclose(change / -rate, to_h.numpy(), atol=0.01)


@every
@both_ways
def test_threads_share_the_very_examples_of_one_thread(objective: str, cbow: bool) -> None:
    problem, text = Problem(objective, 50, 24), text_of([4000, *[15] * 100], 50)
    how = {
        "window": 5,
        "cbow": cbow,
        "negatives": 5,
        "shared": 3,
        "seed": 3,
        "rates": (0.025, 0.025),
    }
    first, *others = (problem.run(text, threads=n, **how)[0] for n in (1, 2, 4))
    for tally in others:
        assert (tally.kept, tally.examples) == (first.kept, first.examples)
        assert tally.loss == pytest.approx(first.loss, rel=0.03)


@every
def test_wild_vectors_show_in_the_loss_and_no_text_is_no_error(objective: str) -> None:
    how = {"window": 2, "cbow": False, "negatives": 5, "shared": 3, "seed": 1, "rates": (0.1, 0.1)}
    wild = Problem(objective, 20, 16, scale=1e30)
    assert not np.isfinite(wild.run(text_of([40], 20), threads=1, **how)[0].loss)
    for lengths in ([], [0, 0], [1, 1, 1]):
        tally, *_ = Problem(objective, 5, 16).run(text_of(lengths, 5), threads=2, **how)
        assert (tally.kept, tally.examples, tally.loss) == (0, 0, 0.0)
