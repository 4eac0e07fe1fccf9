"""Bengio's model against equation 1 written out again, and its examples against slow loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.examples import Examples, shuffled
from models.family import Inputs, Plan
from models.nplm import Config, Nplm
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary, select

TEXT = """
the cat sat on the mat
the dog sat on the rug
a cat saw the dog
a dog saw the cat
the old cat slept
the young dog ran away
birds sing in the morning
the birds fly over the house
a house stands on the hill
on the hill the wind blows
the wind moves the old tree
a tree grows by the river
the river runs to the sea
by the sea a child plays
the child sings in the morning
a boat sails over the sea
the boat leaves the harbour
in the harbour ships sleep
ships carry bread and salt
bread and salt are enough
"""
SENTENCES = [line.split() for line in TEXT.strip().split("\n")]


def tokens(sentences: Sequence[Sequence[str]], partitions: int = 1) -> Tokens:
    """A corpus cut into partitions, each with its own table of types."""
    parts = []
    for chosen in np.array_split(np.arange(len(sentences)), partitions):
        types = sorted({word for s in chosen for word in sentences[s]})
        words = Vocabulary((), tuple(types), np.ones(len(types), np.int64))
        text = Sentences.of(words, [sentences[s] for s in chosen])
        counts = np.bincount(text.ids, minlength=len(types)).astype(np.int64)
        parts.append(TokenPartition(types, counts, text))
    return Tokens(parts)


def inputs(
    sentences: Sequence[Sequence[str]] = SENTENCES, *, partitions: int = 1, min_count: int = 1
) -> Inputs:
    words, counts = np.unique([w for s in sentences for w in s], return_counts=True)
    vocabulary = select(
        words.tolist(), counts, min_count=min_count, max_size=None, reserved=LM_RESERVED
    )
    text = tokens(sentences, partitions)
    return Inputs({"train": text, "heldout": text, "vocabulary": vocabulary})


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SMALL = Config(embedding=5, hidden=7, batch_size=16, min_count=1)


def build(config: Config = SMALL, data: Inputs | None = None, seed: int = 1) -> Nplm:
    return config.build(data or inputs(), seed=seed)


# --- the model --------------------------------------------------------------------------------


def test_the_published_number_of_parameters() -> None:
    words = Vocabulary(LM_RESERVED, tuple(f"w{i}" for i in range(9997)), np.ones(9997, np.int64))
    model = Nplm(Config(context=3, embedding=100, hidden=200, direct=False), words)
    assert sum(p.numel() for p in model.parameters()) == 3_070_200
    assert 3_070_200 == 10_000 * 100 + 300 * 200 + 200 + 200 * 10_000 + 10_000
    direct = Nplm(Config(context=3, embedding=100, hidden=200, direct=True), words)
    assert sum(p.numel() for p in direct.parameters()) == 3_070_200 + 10_000 * 300
    wider = Nplm(Config(context=4, embedding=100, hidden=200), words)
    assert sum(p.numel() for p in wider.parameters()) == 3_070_200 + 20_000


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"direct": True},
        {"hidden": 0, "direct": True},
        {"embedding": 7, "tied": True},
        {"embedding": 7, "tied": True, "direct": True, "context": 4},
    ],
    ids=str,
)
def test_the_number_of_weights_is_known_beforehand(changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    model = build(config)
    count = sum(p.numel() for p in model.parameters())
    assert count == config.n_weights(len(model.vocabulary))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": 0}, "add direct"),
        ({"tied": True}, "equal to embedding"),
        ({"noise": 7}, "noise has no part in objective: softmax"),
        ({"objective": "nce", "log_normalizer": "zero", "noise_power": 1.0}, ""),
        ({"objective": "importance-sampling", "log_normalizer": "learned"}, "log_normalizer"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    if message:
        with pytest.raises(ValueError, match=message):
            replace(SMALL, **changes)
    else:
        replace(SMALL, **changes)


@pytest.mark.parametrize(("hidden", "direct"), [(7, False), (7, True), (0, True)])
def test_log_prob_is_equation_1(hidden: int, direct: bool) -> None:
    model = build(replace(SMALL, hidden=hidden, direct=direct))
    text = Sentences.of(model.vocabulary, [["the", "cat", "sat", "unseen"], [], ["bread"]])
    state = {name: array.astype(np.float64) for name, array in model.state().items()}
    C, b, none = state["C"], state["b"], np.zeros
    H, d = state.get("H", none((1, 15))), state.get("d", none(1))
    U, W = state.get("U", none((len(b), 1))), state.get("W", none((len(b), 15)))
    expected = []
    for s in range(len(text)):
        words = [1, 1, 1, *text.ids[text.starts[s] : text.starts[s + 1]], 2]
        for t in range(3, len(words)):
            x = np.concatenate([C[words[t - 1]], C[words[t - 2]], C[words[t - 3]]])
            y = b + W @ x + U @ np.tanh(d + H @ x)
            y[1] = -np.inf
            expected.append(y[words[t]] - np.log(np.exp(y).sum()))
    np.testing.assert_allclose(model.log_prob(text), expected, atol=2e-6)


def test_probabilities_sum_to_one_and_a_start_is_never_predicted() -> None:
    model = build(replace(SMALL, direct=True))
    size, random = len(model.vocabulary), np.random.default_rng(3)
    contexts = [random.integers(0, size, n).tolist() for n in (0, 1, 2, 3, 5)]
    for context in contexts:
        rows = [[*context, word] for word in range(size)]
        ids = np.array(rows, np.int32)
        starts = np.arange(size + 1, dtype=np.int64) * len(rows[0])
        text = Sentences(ids.ravel(), starts, np.array([0, size]))
        # Each sentence ends with the word in question, and then with </s>.
        last = model.log_prob(text).reshape(size, -1)[:, -2]
        assert np.exp(last).sum() == pytest.approx(1.0, abs=1e-6)
        assert last[1] == -np.inf
        assert np.isfinite(np.delete(last, 1)).all()


def test_the_next_word_is_distributed_as_it_is_scored() -> None:
    model = build(replace(SMALL, direct=True))
    text = Sentences.of(model.vocabulary, [["the", "cat", "sat", "on"]])
    padded = np.array([1, 1, 1, *text.ids], np.int32)
    contexts = np.stack([padded[i : i + 3] for i in range(5)])
    following = model.next_log_probs(contexts)
    assert following.shape == (5, len(model.vocabulary))
    assert np.exp(following).sum(axis=1) == pytest.approx(1.0)
    assert (following[:, 1] == -np.inf).all()
    scored = following[np.arange(5), [*text.ids, 2]]
    np.testing.assert_allclose(scored, model.log_prob(text), rtol=0, atol=1e-12)


def test_a_score_does_not_depend_on_its_neighbours() -> None:
    model = build()
    together = model.log_prob(Sentences.of(model.vocabulary, SENTENCES))
    apart = [model.log_prob(Sentences.of(model.vocabulary, [s])) for s in SENTENCES]
    np.testing.assert_allclose(together, np.concatenate(apart), rtol=0, atol=1e-12)
    assert len(model.log_prob(Sentences.of(model.vocabulary, []))) == 0


SAMPLED = ("nce", "negative-sampling", "importance-sampling")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"direct": True},
        {"hidden": 0, "direct": True},
        {"embedding": 7, "tied": True},
        *({"objective": objective, "noise": 12} for objective in SAMPLED),
        {"objective": "nce", "log_normalizer": "learned"},
    ],
    ids=str,
)
def test_the_gradient_is_the_slope(changes: dict[str, Any]) -> None:
    config = replace(SMALL, batch_size=9999, **changes)
    model = build(config).double()
    (batch,) = list(build(config).batches(inputs(), Plan(seed=1)))
    model(batch).objective.backward()
    random = np.random.default_rng(5)
    for parameter in model.parameters():
        assert parameter.grad is not None
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in random.integers(0, len(flat), 10):
            value, epsilon = float(flat[i]), 1e-5
            flat[i] = value + epsilon
            above = model(batch).objective.item()
            flat[i] = value - epsilon
            below = model(batch).objective.item()
            flat[i] = value
            assert float(slope[i]) == pytest.approx((above - below) / (2 * epsilon), abs=1e-5)


def test_noise_depends_on_the_batch_alone() -> None:
    config = replace(SMALL, objective="nce", noise=5)
    model, data = build(config), inputs()
    plan = Plan(seed=4, epoch=2)
    whole = [batch[2].tolist() for batch in model.batches(data, plan)]
    later = [batch[2].tolist() for batch in model.batches(data, replace(plan, start=3))]
    other = [batch[2].tolist() for batch in model.batches(data, replace(plan, rank=1, world=2))]
    assert whole[3:] == later
    assert whole == other
    assert len({tuple(words) for words in whole}) == len(whole)
    assert 1 not in {word for words in whole for word in words}
    # Held-out text is scored by the softmax, whatever the objective.
    (held, *_) = model.batches(data, replace(plan, role="heldout"))
    assert len(held) == 2


def test_nothing_is_left_out_where_it_is_scored() -> None:
    model = build(replace(SMALL, dropout=0.5))
    (batch, *_) = model.batches(inputs(), Plan(seed=1))
    plain = build(SMALL)(batch).objective.item()
    assert model(batch).objective.item() != pytest.approx(plain, abs=1e-3)
    text = Sentences.of(model.vocabulary, SENTENCES)
    assert (model.log_prob(text) == build(SMALL).log_prob(text)).all()
    model.eval()
    assert model(batch).objective.item() == pytest.approx(plain)


def test_a_restored_model_answers_the_same() -> None:
    model = build(replace(SMALL, direct=True), seed=9)
    again = model.config.restore(model.vocabulary, model.state())
    text = Sentences.of(model.vocabulary, SENTENCES)
    assert (again.log_prob(text) == model.log_prob(text)).all()
    vectors = again.word_vectors(["cat", "unseen", "<s>", "dog"])
    assert vectors.dtype == np.float32
    assert np.isnan(vectors[1:3]).all()
    assert (vectors[[0, 3]] == model.state()["C"][model.vocabulary.ids(["cat", "dog"])]).all()
    other = build(replace(SMALL, direct=True), seed=10)
    assert not (other.state()["C"] == model.state()["C"]).all()


# --- examples ---------------------------------------------------------------------------------

ALL = np.arange(sum(len(s) + 1 for s in SENTENCES))


def test_contexts_end_at_the_start_of_their_sentence() -> None:
    vocabulary = Vocabulary(LM_RESERVED, ("a", "b", "c"), np.ones(3, np.int64))  # ids 3, 4, 5
    text = tokens([["a", "b", "x"], [], ["c"]])
    contexts, targets = Examples.of(text, vocabulary, 2).at(np.arange(7))
    assert contexts.tolist() == [[1, 1], [3, 1], [4, 3], [0, 4], [1, 1], [1, 1], [5, 1]]
    assert targets.tolist() == [3, 4, 0, 2, 2, 5, 2]


def test_a_context_may_reach_back_to_the_start_of_its_document() -> None:
    ids = np.array([3, 4, 5, 3, 4], np.int32)  # ab | c || ab in one document, then another
    text = Sentences(ids, np.array([0, 2, 3, 3, 5]), np.array([0, 2, 2, 4]))
    contexts, targets = Examples.over(text, 3, "document").at(np.arange(9))
    assert targets.tolist() == [3, 4, 2, 5, 2, 2, 3, 4, 2]
    assert contexts[3:6].tolist() == [[2, 4, 3], [5, 2, 4], [1, 1, 1]]
    assert contexts[6:].tolist() == [[2, 1, 1], [3, 2, 1], [4, 3, 2]]


words = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    sentences=st.lists(words, min_size=1, max_size=12).filter(any),
    partitions=st.integers(1, 4),
    size=st.integers(1, 9),
    world=st.integers(1, 4),
    start=st.integers(0, 3),
    role=st.sampled_from(["train", "heldout"]),
)
def test_ranks_share_out_every_example_once(
    sentences: list[list[str]], partitions: int, size: int, world: int, start: int, role: str
) -> None:
    data = inputs(sentences, partitions=partitions)
    model = build(replace(SMALL, batch_size=size), data)
    plan = Plan(seed=4, epoch=2, role=role)  # type: ignore[arg-type]
    whole = [_rows(batch) for batch in model.batches(data, plan)]
    assert len(whole) == model.n_batches(data, role)  # type: ignore[arg-type]
    total = sum(len(s) + 1 for s in sentences)
    examples = Examples.of(data.tokens(), model.vocabulary, SMALL.context)
    everything = _rows(tuple(map(torch.from_numpy, examples.at(np.arange(total)))))
    assert sorted(row for batch in whole for row in batch) == sorted(everything)
    # Cut for several ranks, each global batch is the same, and so are the numbers of batches.
    ranks = [
        [_rows(b) for b in model.batches(data, replace(plan, start=start, rank=r, world=world))]
        for r in range(world)
    ]
    joined = [[row for part in parts for row in part] for parts in zip(*ranks, strict=True)]
    assert joined == whole[start:]


def _rows(batch: tuple[torch.Tensor, ...]) -> list[tuple[int, ...]]:
    contexts, targets = batch
    return [(*c, t) for c, t in zip(contexts.tolist(), targets.tolist(), strict=True)]


@settings(max_examples=60, deadline=None)
@given(total=st.integers(1, 3000), seed=st.integers(0, 2**32), epoch=st.integers(0, 50))
def test_the_shuffle_is_a_permutation(total: int, seed: int, epoch: int) -> None:
    order = shuffled(np.arange(total), total, (seed, epoch))
    assert (np.sort(order) == np.arange(total)).all()
    middle = np.arange(total // 3, total)
    assert (shuffled(middle, total, (seed, epoch)) == order[total // 3 :]).all()


def test_the_shuffle_is_another_one_every_epoch_and_leaves_no_trace_of_the_order() -> None:
    n = 20_000
    orders = [shuffled(np.arange(n), n, (1, epoch)) for epoch in range(4)]
    orders.append(np.arange(n))
    for i, one in enumerate(orders):
        for other in orders[:i]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.03
            assert (one == other).sum() < 10
    # Neighbours in the text do not stay neighbours.
    assert (np.abs(np.diff(orders[0])) < 10).sum() < 40
