"""The kernels of the objectives against their plain reference, and that against gradients."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import pytest
import torch

from models.kernels import binary, lanes, objectives_reference, sgns_reference, softmax, windows
from models.kernels.huffman import Tree
from models.kernels.sampling import keep_chances
from models.kernels.windows import Pooling
from models.text import Sentences

OBJECTIVES = ("negative-sampling", "hierarchical-softmax", "nce", "softmax")
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
every = pytest.mark.parametrize("objective", OBJECTIVES)
each_way = pytest.mark.parametrize("pooling", POOLINGS)


def text_of(lengths: list[int], words: int) -> Sentences:
    """Random sentences of the given lengths; about one word in ten is unknown."""
    ids = np.random.default_rng(0).integers(-1, words, sum(lengths)).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Sentences(ids, starts, np.array([0, len(lengths)]))


@dataclasses.dataclass(frozen=True)
class Problem:
    """Random tables for an objective over so many words, the first being the most frequent."""

    objective: str
    words: int
    width: int
    sample: float = 0.01
    scale: float = 0.3
    negatives: int = 5
    shared: bool = True

    @property
    def counts(self) -> np.ndarray:
        return np.arange(self.words, 0, -1, dtype=np.int64) ** 2

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        shape = (2, self.words, self.width)
        inputs, outputs = np.random.default_rng(1).normal(0, self.scale, shape).astype(np.float32)
        return inputs, outputs[: self.words - (self.objective == "hierarchical-softmax")]

    @property
    def decisions(self) -> binary.Decisions:
        weights = self.counts**0.75
        match self.objective:
            case "hierarchical-softmax":
                return Tree.of(self.counts)
            case "nce":
                return binary.Sampled.nce(weights, self.negatives, self.counts, shared=self.shared)
        return binary.Sampled.negative_sampling(weights, self.negatives, shared=self.shared)

    @property
    def reference(self) -> objectives_reference.Objective:
        if self.objective == "softmax":
            return objectives_reference.softmax
        decisions = self.decisions
        if isinstance(decisions, Tree):
            return objectives_reference.hierarchical(decisions)
        return objectives_reference.sampled(decisions)

    def run(self, text: Sentences, **how: Any) -> tuple[windows.Tally, np.ndarray, np.ndarray]:
        inputs, outputs = map(lanes.aligned, self.tables)
        keep = keep_chances(self.counts, self.sample)
        if self.objective == "softmax":
            tally = softmax.sweep(softmax.Tables(inputs, outputs, keep), text, **how)
        else:
            tables = binary.Tables(inputs, outputs, keep, self.decisions)
            tally = binary.sweep(tables, text, **how)
        return tally, inputs, outputs

    def expected(self, text: Sentences, **how: Any) -> tuple[windows.Tally, np.ndarray, np.ndarray]:
        inputs, outputs = (table.astype(np.float64) for table in self.tables)
        keep = keep_chances(self.counts, self.sample)
        own = 0 if self.shared else self.negatives
        tally = objectives_reference.sweep(
            inputs, outputs, keep, self.reference, text, own_draws=own, **how
        )
        return tally, inputs, outputs


# Few words, so that windows hold a word twice and noise hits the centre and repeats itself; a
# number of words that is no multiple of what is summed together; more targets than lanes.
@every
@each_way
@pytest.mark.parametrize(("words", "width", "negatives"), [(7, 20, 5), (30, 48, 20)])
def test_the_kernel_does_what_the_reference_says(
    objective: str, pooling: Pooling, words: int, width: int, negatives: int
) -> None:
    problem = Problem(objective, words, width, negatives=negatives)
    text = text_of([0, 1, 2, 30, 5, 1, 0, 12, 70], words)
    how = {"window": 3, "pooling": pooling, "seed": 5, "rates": (0.1, 0.02)}
    tally, *ours = problem.run(text, threads=1, **how)
    expected, *theirs = problem.expected(text, **how)
    assert (tally.kept, tally.examples) == (expected.kept, expected.examples)
    assert 0 < tally.kept < np.count_nonzero(text.ids >= 0)
    assert tally.loss == pytest.approx(expected.loss, rel=1e-6)
    for found, wanted, start in zip(ours, theirs, problem.tables, strict=True):
        assert np.abs(wanted - start).max() > 0.05
        np.testing.assert_allclose(found[:, :width], wanted, atol=5e-6)
        assert not found[:, width:].any()  # the padding takes no part


@pytest.mark.parametrize("objective", ["negative-sampling", "nce"])
def test_pairs_may_have_noise_words_of_their_own(objective: str) -> None:
    text = text_of([0, 2, 30, 70], 12)
    how = {"window": 3, "pooling": "none", "seed": 5, "rates": (0.1, 0.02)}
    problem = Problem(objective, 12, 20, shared=False)
    tally, *ours = problem.run(text, threads=1, **how)
    expected, *theirs = problem.expected(text, **how)
    assert tally.loss == pytest.approx(expected.loss, rel=1e-6)
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found[:, :20], wanted, atol=5e-6)
    shared = Problem(objective, 12, 20).run(text, threads=1, **how)[0]
    assert shared.examples == tally.examples
    assert shared.loss != tally.loss


def loss_of(
    problem: Problem, hidden: Any, outputs: Any, centre: int, drawn: list[int]
) -> torch.Tensor:
    """The objective as its paper writes it, in torch."""
    match problem.objective:
        case "softmax":
            return -torch.log_softmax(outputs @ hidden, 0)[centre]
        case "hierarchical-softmax":
            tree = problem.decisions
            assert isinstance(tree, Tree)
            path = range(tree.starts[centre], tree.starts[centre + 1])
            logits = torch.stack([-tree.signs[i] * outputs[tree.nodes[i]] @ hidden for i in path])
            return -torch.nn.functional.logsigmoid(logits).sum()
        case "nce":
            noise = torch.tensor(problem.counts**0.75)
            correction = torch.log(problem.negatives * noise / noise.sum())
            counts = torch.tensor(problem.counts, dtype=torch.float64)
            scores = outputs @ hidden + torch.log(counts / counts.sum()) - correction
        case _:
            scores, drawn = outputs @ hidden, [word for word in drawn if word != centre]
    logits = torch.cat([scores[[centre]], -scores[drawn]])
    return -torch.nn.functional.logsigmoid(logits).sum()


@every
@each_way
def test_a_step_of_the_reference_is_down_the_gradient(objective: str, pooling: Pooling) -> None:
    problem, rate, centre, seed = Problem(objective, words=12, width=8, negatives=2), 1e-2, 3, 2**60
    decisions = problem.decisions
    drawn = list[int]()
    if isinstance(decisions, binary.Sampled) and objective != "softmax":
        numbers = [sgns_reference.random(seed, k) for k in (1, 2)]
        drawn = [sgns_reference.take(decisions.noise, number) for number in numbers]
        assert len({centre, *drawn}) == 3  # otherwise rows are moved twice, one after the other
    contexts = [1] if pooling == "none" else [1, 4, 9]
    inputs, outputs = (table.astype(np.float64) for table in problem.tables)
    x, u = (torch.tensor(table, requires_grad=True) for table in (inputs, outputs))
    hidden = x[contexts].sum(0) / (len(contexts) if "mean" in pooling else 1)
    loss = loss_of(problem, hidden, u, centre, drawn)
    gradients = torch.autograd.grad(loss, (x, u))
    found = objectives_reference.train_group(
        inputs, outputs, contexts, centre, problem.reference, draw=seed, rate=rate,
        mean="mean" in pooling, corrected=pooling == "corrected-mean",
    )  # fmt: skip
    assert found == pytest.approx(loss.item(), rel=1e-12)
    scale = len(contexts) if pooling == "mean" else 1  # what the original program leaves out
    moved = (x.detach().numpy() - inputs) / rate, (u.detach().numpy() - outputs) / rate
    np.testing.assert_allclose(moved[0], gradients[0].numpy() * scale, atol=1e-6)
    np.testing.assert_allclose(moved[1], gradients[1].numpy(), atol=1e-6)
    assert np.abs(moved[0]).max() > 0.01


@every
@pytest.mark.parametrize("pooling", ["none", "mean"])
def test_threads_share_the_very_examples_of_one_thread(objective: str, pooling: Pooling) -> None:
    # One sentence is longer than all others: threads must share it too.
    problem, text = Problem(objective, 50, 24), text_of([4000, *[15] * 100], 50)
    how = {"window": 5, "pooling": pooling, "seed": 3, "rates": (0.025, 0.025)}
    first, *others = (problem.run(text, threads=n, **how)[0] for n in (1, 2, 4))
    for tally in others:
        assert (tally.kept, tally.examples) == (first.kept, first.examples)
        assert tally.loss == pytest.approx(first.loss, rel=0.03)


@every
def test_threads_with_copies_of_busy_rows_learn_alike(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, text = Problem(objective, 50, 24), text_of([4000, *[15] * 100], 50)
    how = {"window": 5, "pooling": "mean", "seed": 3, "rates": (0.025, 0.025)}
    alone, *tables = problem.run(text, threads=1, **how)
    monkeypatch.setattr(windows, "LONG", 0)
    shared, *others = problem.run(text, threads=2, **how)
    assert (shared.kept, shared.examples) == (alone.kept, alone.examples)
    # A thread that is held up adds to rows what the other has long added; on so short a text that
    # shows. (That nothing is lost or counts twice is shown in ``test_replicas``.)
    assert shared.loss == pytest.approx(alone.loss, rel=0.2)
    for table, other, before in zip(tables, others, problem.tables, strict=True):
        moved, again = (found[:, :24] - before for found in (table, other))
        assert (moved * again).sum() / np.sqrt((moved**2).sum() * (again**2).sum()) > 0.5


@every
def test_large_logits_saturate_and_wild_ones_show_in_the_loss(objective: str) -> None:
    problem, text = Problem(objective, 20, 16, scale=6.0), text_of([40], 20)
    how = {"window": 2, "pooling": "sum", "seed": 1, "rates": (1e-4, 1e-4)}
    with np.errstate(over="ignore"):
        expected, *_ = problem.expected(text, **how)
    tally, *_ = problem.run(text, threads=1, **how)
    assert expected.loss / expected.examples > 50
    assert tally.loss == pytest.approx(expected.loss, rel=1e-5)
    wild = dataclasses.replace(problem, scale=1e30)
    assert not np.isfinite(wild.run(text, threads=1, **how)[0].loss)


@every
def test_nothing_to_train_on_is_no_error_here(objective: str) -> None:
    for lengths in ([], [0, 0], [1, 1, 1]):
        tally, *_ = Problem(objective, 5, 16).run(
            text_of(lengths, 5), window=2, pooling="mean", seed=1, rates=(0.1, 0.1), threads=2
        )
        assert (tally.kept, tally.examples, tally.loss) == (0, 0, 0.0)


def test_noise_is_corrected_by_its_distribution() -> None:
    counts = np.array([8, 2], np.int64)
    decisions = binary.Sampled.nce(np.array([3.0, 1.0]), 4, counts)
    expected = np.log([0.8 / (4 * 0.75), 0.2 / (4 * 0.25)])
    np.testing.assert_allclose(decisions.offsets, expected, rtol=1e-12)
    assert not decisions.skips
