"""Text in sequences, as recurrent language models train on it, score it and go on with it.

A *unit* is what a state is kept for: a document, or a sentence. Within a unit each word and each
sentence end is predicted from the state and the one before it; the first from ``<s>`` and zeros.
Read backward, the words of a unit come in reverse, and as well from ``<s>`` to ``</s>``::

    a b </s> c </s>         forward:    <s> a b </s> c -> a b </s> c </s>
                            backward:   <s> c </s> b a -> c </s> b a </s>

so that both directions predict the same words as often, and each gives a probability of the unit.

Shapes: ``T`` steps, ``B`` sequences, ``D`` width, ``V`` vocabulary, ``N`` tokens, ``S`` sentences.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.examples import START, Examples, shuffled
from models.family import Plan
from models.streams import NONE, Streams, Windows
from models.text import Sentences

PIECE, WARM_UP = 1024, 256
"""A unit that is longer than both together is scored in pieces of so many predictions, each after
so many that are only read: a state that has seen fewer words is never asked. The memory of such a
model does not reach further, and pieces can be read side by side."""
AT_ONCE = 1 << 12
"""Steps times sequences that are scored at a time."""
BESIDE = 128
"""Sequences that are scored side by side: the weights of a layer are read once for all. Two layers
of 512 read twice as fast with 64 or 128 as with 11."""
ROWS = 512
"""Predictions whose distributions are in memory at a time."""

State = tuple[Tensor, ...]
"""(B, H) each."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """A text as something to read in one direction.

    Attributes:
        examples: what is predicted, with contexts of one word.
        backward: each unit is read from its end.
        spelt: the same text in other ids, those of written forms; then these are the inputs.
    """

    examples: Examples
    backward: bool = False
    spelt: Examples | None = None

    def at(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets, of the shape of ``index``; ``<s>`` and ``NONE`` where it is ``NONE``.

        An input is ``<s>`` where a unit begins, and where nothing is read.
        """
        places, inputs = index[index != NONE], np.full(index.shape, START, np.int64)
        targets = np.full(index.shape, NONE, np.int64)
        before = self.spelt or self.examples
        if self.backward:
            first, end = self.examples.units(places)
            targets[index != NONE] = self.examples.at(self.predicted(places))[1]
            mirrored = before.at(first + end - 1 - places)[1]
            inputs[index != NONE] = np.where(places == first, START, mirrored)
        else:
            targets[index != NONE] = self.examples.at(places)[1]
            inputs[index != NONE] = before.at(places)[0][:, 0]
        return inputs, targets

    def predicted(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """(N,) steps of reading -> (N,) the examples that they predict."""
        if not self.backward:
            return places
        first, end = self.examples.units(places)
        return np.where(places < end - 1, first + end - 2 - places, places)

    def read_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """(N,) examples -> (N,) the steps of reading that have each as their input.

        The last of a unit, the end of a sentence, is never read.
        """
        if not self.backward:
            return places + 1
        first, end = self.examples.units(places)
        return first + end - 1 - places


# --- training -----------------------------------------------------------------------------------


def read_batches(
    directions: list[Sequences], layout: Streams | Windows, size: int, last: int, plan: Plan
) -> Iterator[tuple[Tensor, ...]]:
    """This rank's part of the batches of an epoch.

    Args:
        directions: the same text, in one direction or in both.
        layout: how it is cut.
        size: windows in a batch of all ranks.
        last: only so many steps at the end of each sequence of a batch are predicted; 0 for all. Of
            held-out text in overlapping windows then each is predicted once, by the first of them.
        plan: the part.

    Returns:
        for each direction (T, B) inputs and (T, B) targets, ``NONE`` where nothing is predicted.
    """
    for batch in range(plan.start, n_batches(layout, size)):
        if isinstance(layout, Streams):
            index = layout.at(batch, plan.rank, plan.world)
        else:
            first = batch * size
            here = min(size, len(layout) - first)
            begin, end = (here * r // plan.world for r in (plan.rank, plan.rank + 1))
            windows = np.arange(first + begin, first + end)
            if plan.role == "train":
                windows = shuffled(windows, len(layout), (plan.seed, plan.epoch))
            index = layout.at(windows)
        found = list[Tensor]()
        for text in directions:
            inputs, targets = text.at(index)
            if last:
                targets[:-last] = NONE
            elif isinstance(layout, Windows) and plan.role == "heldout":
                # What the window before has predicted: each example counts once.
                targets[: max(0, layout.steps - layout.stride), windows > 0] = NONE
            found += [torch.from_numpy(inputs), torch.from_numpy(targets)]
        yield tuple(found)


def n_batches(layout: Streams | Windows, size: int) -> int:
    """Batches of an epoch."""
    return len(layout) if isinstance(layout, Streams) else -(-len(layout) // size)


# --- scoring ------------------------------------------------------------------------------------


class Reads(Protocol):
    """A model that reads words one after another."""

    def start(self, sequences: int) -> State:
        """The state before anything."""
        ...

    def read(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """(T, B) ids and the state before -> (T, B, D) hidden states, and the last state.

        Where an input is ``<s>`` what was read before is forgotten.
        """
        ...


class Tells(Reads, Protocol):
    """One that tells the next word."""

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) nats of the next word, -inf at ``<s>``."""
        ...


@runtime_checkable
class Spells(Reads, Protocol):
    """One that tells how likely words are, without a distribution over a vocabulary."""

    def log_prob_of(self, hidden: Tensor, words: Tensor) -> Tensor:
        """(N, D) and (N,) ids -> (N,) nats."""
        ...


Module = TypeVar("Module", bound=nn.Module)


def in_double(model: Module) -> Module:
    """A copy in 64 bits: what it says of a text does not depend on what is read beside it."""
    vocabulary = getattr(model, "vocabulary", None)
    return copy.deepcopy(model, {id(vocabulary): vocabulary}).double().eval()


def read_log_prob(model: Tells | Spells, text: Sequences) -> NDArray[np.float64]:
    """(N + S,) nats of every example of a text, given the words of its unit before (behind) it."""
    result = np.full(len(text.examples), np.nan)
    with torch.inference_mode():
        for steps, targets, hidden in _readings(model, text):
            words = torch.from_numpy(targets)
            found = [
                model.log_prob_of(some, own)
                if isinstance(model, Spells)
                else model.log_probs(some).gather(1, own[:, None])[:, 0]
                for some, own in zip(
                    torch.split(hidden, ROWS), torch.split(words, ROWS), strict=True
                )
            ]
            result[text.predicted(steps)] = torch.cat(found).numpy()
    return result


def read_states(
    model: Reads, text: Sequences, steps: NDArray[np.int64], width: int
) -> NDArray[np.float32]:
    """(N, D) the hidden states of a model after some steps of reading.

    Args:
        model: whose hidden states they are.
        text: what is read.
        steps: (N,) different ones; see ``Sequences.read_at``.
        width: D.
    """
    rows = np.full(len(text.examples), NONE)
    rows[steps] = np.arange(len(steps))
    result = np.empty((len(steps), width), np.float32)
    with torch.inference_mode():
        for found, _, hidden in _readings(model, text):
            here = rows[found] != NONE
            result[rows[found[here]]] = hidden[torch.from_numpy(here)].numpy()
    return result


def _piles(examples: Examples) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Pieces of about equal length, to be read side by side.

    Returns:
        of each: where reading begins, where scoring begins, where both end.
    """
    every = np.arange(len(examples), dtype=np.int64)
    first, end = examples.units(every)
    # A piece begins with its unit, or at every PIECE predictions behind its first ones.
    far = every - first - WARM_UP
    long = end - first > PIECE + WARM_UP
    begins_piece = (every == first) | (long & (far > 0) & (far % PIECE == 0))
    scored = every[begins_piece]
    unit, limit = first[scored], end[scored]
    ends = np.append(scored[1:], len(examples))
    ends = np.minimum(ends, limit)
    begins = np.where(scored == unit, scored, scored - WARM_UP)
    order = np.argsort(begins - ends, kind="stable")
    for at in range(0, len(order), BESIDE):
        pile = order[at : at + BESIDE]
        yield begins[pile], scored[pile], ends[pile]


def _readings(
    model: Reads, text: Sequences
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Tensor]]:
    """Every step of reading a text once: (N,) its number, its target, and (N, D) what is hidden."""
    for begins, scored, ends in _piles(text.examples):
        state, steps = model.start(len(begins)), max(1, AT_ONCE // len(begins))
        longest = int((ends - begins).max())
        for t in range(0, longest, steps):
            index = begins + np.arange(t, min(t + steps, longest))[:, None]
            index = np.where(index < ends, index, NONE)
            inputs, targets = text.at(index)
            hidden, state = model.read(torch.from_numpy(inputs), state)
            asked = index >= scored
            yield index[asked], targets[asked], hidden[torch.from_numpy(asked)]


# --- going on -----------------------------------------------------------------------------------


class Reader:
    """The decoder of a model that reads: its state is kept, so that a word costs one step."""

    def __init__(self, model: Tells, prefixes: Sentences) -> None:
        self._model = model
        sizes = np.diff(prefixes.starts)
        self._state, self._hidden = model.start(len(prefixes)), torch.empty(0)
        self._read(np.full(len(prefixes), START, np.int64))
        for t in range(int(sizes.max(initial=0))):
            going = t < sizes
            words = np.full(len(prefixes), START, np.int64)
            words[going] = prefixes.ids[prefixes.starts[:-1][going] + t]
            self._read(words, torch.from_numpy(going)[:, None])

    def log_probs(self) -> NDArray[np.float64]:
        """(S, V) see ``models.capabilities.Decoder``."""
        with torch.inference_mode():
            found: NDArray[np.float64] = self._model.log_probs(self._hidden).numpy()
        return found

    def append(self, words: NDArray[np.int32]) -> None:
        """See ``models.capabilities.Decoder``."""
        self._read(words.astype(np.int64))

    def _read(self, words: NDArray[np.int64], going: Tensor | None = None) -> None:
        """Read a word of each text; of those only that are going on."""
        with torch.inference_mode():
            hidden, state = self._model.read(torch.from_numpy(words)[None], self._state)
            if going is not None:
                hidden = torch.where(going, hidden, self._hidden)
                state = tuple(
                    torch.where(going, new, old)
                    for new, old in zip(state, self._state, strict=True)
                )
        self._hidden, self._state = hidden[0], state
