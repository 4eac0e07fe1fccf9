"""Text in sequences against slow loops, and what is scored against what is read word by word."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from models import sequences
from models.examples import END, START, Boundary, Examples
from models.family import Plan
from models.sequences import Reader, Sequences, read_batches, read_log_prob
from models.streams import NONE, Streams, Windows
from models.text import Sentences

A, B, C, D = 3, 4, 5, 6


def text_of(documents: list[list[list[int]]]) -> Sentences:
    sentences = [s for d in documents for s in d]
    ids = np.array([w for s in sentences for w in s], np.int32)
    starts = np.cumsum([0, *(len(s) for s in sentences)]).astype(np.int64)
    return Sentences(ids, starts, np.cumsum([0, *(len(d) for d in documents)]).astype(np.int64))


texts = st.lists(st.lists(st.lists(st.integers(A, D), max_size=4), max_size=3), max_size=4)


@given(texts, st.sampled_from(["sentence", "document"]), st.booleans())
@settings(deadline=None)
def test_inputs_and_targets_against_a_loop(
    documents: list[list[list[int]]], boundary: Boundary, backward: bool
) -> None:
    units = documents if boundary == "document" else [[s] for d in documents for s in d]
    inputs, targets = list[int](), list[int]()
    for unit in units:
        words = [w for s in unit for w in [*s, END]]
        if not words:
            continue
        if backward:
            words = [*words[-2::-1], END]
        inputs += [START, *words[:-1]]
        targets += words
    text = Sequences(Examples.over(text_of(documents), 1, boundary), backward)
    assert len(text.examples) == len(targets)
    found = text.at(np.append(np.arange(len(targets)), NONE))
    assert found[0].tolist() == [*inputs, START]
    assert found[1].tolist() == [*targets, NONE]
    assert sorted(text.predicted(np.arange(len(targets)))) == list(range(len(targets)))


def test_a_document_by_hand_in_both_directions() -> None:
    examples = Examples.over(text_of([[[A, B], [C]]]), 1, "document")
    index = np.arange(5)
    forward, backward = Sequences(examples), Sequences(examples, backward=True)
    assert forward.at(index)[0].tolist() == [START, A, B, END, C]
    assert forward.at(index)[1].tolist() == [A, B, END, C, END]
    assert backward.at(index)[0].tolist() == [START, C, END, B, A]
    assert backward.at(index)[1].tolist() == [C, END, B, A, END]


def test_every_stream_and_every_window_is_predicted_once_over_the_ranks() -> None:
    examples = Examples.over(text_of([[[A, B, C, D, A]] * 5] * 2), 1, "document")
    text, n = Sequences(examples), len(examples)
    whole = text.at(np.arange(n))[1]
    for layout, last in ((Streams(n, 5, 4), 0), (Windows(n, 7, 2), 1)):
        parts = [
            torch.cat([t.flatten() for _, t in read_batches([text], layout, 6, last, plan)])
            for plan in (Plan(1, rank=r, world=w) for w in (1, 2, 3) for r in range(w))
        ]
        told = [np.sort(torch.cat(g).numpy()) for g in (parts[:1], parts[1:3], parts[3:])]
        told = [values[values != NONE] for values in told]
        expected = np.sort(whole if last == 0 else whole[7::2])
        assert all(values.tolist() == expected.tolist() for values in told)


# --- scoring ----------------------------------------------------------------------------------


class Sums(nn.Module):
    """A made-up model whose state is all that it has read, each step fading by a half."""

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        return (torch.zeros(sequences, 1, dtype=torch.float64),)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (s,), found = state, []
        for word in inputs:
            s = (0.5 * s * (word != START)[:, None]) + word[:, None]
            found.append(s)
        return torch.stack(found), (s,)

    def log_probs(self, hidden: Tensor) -> Tensor:
        return torch.log_softmax(torch.sin(hidden * torch.arange(1, 8)), -1)


def slow_scores(documents: list[list[list[int]]]) -> list[float]:
    """Each word given all that is before it in its document, read from the start."""
    model, found = Sums(), list[float]()
    for document in documents:
        words = [w for s in document for w in [*s, END]]
        for i in range(len(words)):
            before = torch.tensor([START, *words[:i]])[:, None]
            hidden, _ = model.read(before, model.start(1))
            found.append(float(model.log_probs(hidden[-1])[0, words[i]]))
    return found


@given(texts)
@settings(deadline=None)
def test_scores_do_not_depend_on_what_is_read_beside(documents: list[list[list[int]]]) -> None:
    text = Sequences(Examples.over(text_of(documents), 1, "document"))
    np.testing.assert_allclose(
        read_log_prob(Sums(), text), slow_scores(documents), rtol=0, atol=1e-12
    )


@given(texts, st.booleans())
@settings(deadline=None)
def test_states_are_those_right_after_an_example_is_read(
    documents: list[list[list[int]]], backward: bool
) -> None:
    text = Sequences(Examples.over(text_of(documents), 1, "document"), backward)
    found = sequences.read_hidden(Sums(), text, 1)[:, 0]
    expected = list[float]()
    for document in documents:
        words = [w for s in document for w in [*s, END]]
        own, read = [np.nan] * len(words), range(len(words) - 1)
        s = float(START)
        for i in reversed(read) if backward else read:
            own[i] = s = 0.5 * s + words[i]
        expected += own
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_long_unit_is_scored_in_pieces_that_have_warmed_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sequences, "PIECE", 8)
    monkeypatch.setattr(sequences, "WARM_UP", 5)
    monkeypatch.setattr(sequences, "AT_ONCE", 7)
    rng = np.random.default_rng(1)
    words = rng.integers(A, D + 1, 44).tolist()
    documents = [[words[:3]], [words], [words[:7], words[:8]]]
    text = Sequences(Examples.over(text_of(documents), 1, "document"))
    found, exact = read_log_prob(Sums(), text), np.array(slow_scores(documents))
    # The first document, the first 13 words of the second and the third (17 words) but its last 4.
    near = np.abs(found - exact) < 1e-12
    assert near[: 4 + 13].all()
    assert near[49:62].all()
    # A word of the second that is in the piece from 21 on has read those from 16 on.
    model, line = Sums(), [*words, END]
    hidden, _ = model.read(torch.tensor(line[15:25])[:, None], model.start(1))
    assert found[4 + 25] == pytest.approx(float(model.log_probs(hidden[-1])[0, line[25]]))
    assert not near[4 + 13 + 5 :].all()


def test_a_reader_goes_on_from_prefixes_of_several_lengths() -> None:
    prefixes = text_of([[[A, B, C]], [[]], [[D]]])
    reader = Reader(Sums(), prefixes)
    for step, words in enumerate(([A, B, C], [D, D, D])):
        said = reader.log_probs()
        for i, prefix in enumerate(([A, B, C], [], [D])):
            line = [*prefix, *([A, B, C][i : i + 1] if step else []), D]
            assert said[i, D] == pytest.approx(slow_scores([[line]])[len(line) - 1])
        reader.append(np.array(words, np.int32))
