"""What a bidirectional encoder has for the tokens and the sentences of a text.

Units are read in padded batches (``models.units``). One that is longer than ``LONGEST`` is read in
pieces, each with ``AROUND`` examples on either side, so that memory is bounded and every state has
seen a stretch of text; recurrent layers hardly remember what is further away.

Shapes: ``T`` entries, ``B`` pieces, ``H`` units, ``N`` tokens, ``S`` units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.examples import START, Examples
from models.sequences import ROWS
from models.streams import NONE
from models.units import Pieces, padded, pieces, piles

LONGEST, AROUND = 1536, 256
"""Examples of a unit that is read whole, and on either side of what counts in a piece."""
HIDDEN_LONGEST, HIDDEN_AROUND = 256, 64
"""The same where each token is hidden in turn, and takes a reading of its own."""

Both = tuple[Tensor, Tensor]
"""States of the forward and of the backward layer."""


class Encodes(Protocol):
    """A model that reads in both directions."""

    @property
    def hidden(self) -> int:
        """The entry that is read as a hidden token, if tokens may be hidden."""
        ...

    def states(self, entries: Tensor, sizes: Tensor) -> list[Both]:
        """(T, B) entries, (B,) how many they are -> of each layer (T, B, H) of both directions."""
        ...


def token_states(model: Encodes, examples: Examples, tokens: NDArray[np.int64]) -> list[Both]:
    """Of each layer (N, H) of both directions, where they have just read a token.

    Args:
        model: the encoder, in the type that the states shall have.
        examples: of the text.
        tokens: (N,) examples.
    """
    row = np.full(len(examples), NONE)
    row[tokens] = np.arange(len(tokens))
    found = [_room(both, len(tokens)) for both in _nothing(model)]
    for pile in piles(pieces(examples, LONGEST, AROUND)):
        entries, sizes = (torch.from_numpy(array) for array in padded(examples, pile))
        index = pile.begins + np.arange(-1, len(entries) - 1)[:, None]
        asked = (index >= pile.firsts) & (index < pile.lasts)
        asked[asked] = row[index[asked]] != NONE
        rows, here = torch.from_numpy(row[index[asked]]), torch.from_numpy(asked)
        with torch.inference_mode():
            for both, states in zip(found, model.states(entries, sizes), strict=True):
                for own, side in zip(both, states, strict=True):
                    own[rows] = side[here]
    return found


def last_states(model: Encodes, examples: Examples) -> Both:
    """(S, H) of the last layer, behind the last word that each direction reads of a unit."""
    units = pieces(examples, len(examples) + 1)
    forward, backward = _room(_nothing(model)[-1], len(units))
    for pile in piles(pieces(examples, LONGEST, AROUND)):
        unit = np.searchsorted(units.firsts, pile.firsts, side="right") - 1
        begins, ends = units.firsts[unit] == pile.firsts, units.lasts[unit] == pile.lasts
        entries, sizes = (torch.from_numpy(array) for array in padded(examples, pile))
        each = torch.arange(len(pile))
        with torch.inference_mode():
            f, b = model.states(entries, sizes)[-1]
            forward[unit[ends]] = f[sizes - 2, each][torch.from_numpy(ends)]
            backward[unit[begins]] = b[1, each][torch.from_numpy(begins)]
    return forward, backward


def hidden_states(
    model: Encodes, examples: Examples, tokens: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor, Tensor]]:
    """Each token hidden in turn, and what the last layer has there, some tokens at a time.

    Args:
        model: the encoder.
        examples: of the text.
        tokens: (N,) examples, in order.

    Returns:
        (n,) numbers of tokens, (n,) their ids, and (n, H) of either direction.
    """
    text = pieces(examples, HIDDEN_LONGEST, HIDDEN_AROUND)
    own = np.searchsorted(text.firsts, tokens, side="right") - 1
    readings = Pieces(text.begins[own], text.ends[own], tokens, tokens + 1)
    for pile in piles(readings):
        entries, sizes = padded(examples, pile)
        at = pile.firsts - pile.begins + 1, np.arange(len(pile))
        words = entries[at]
        entries[at] = model.hidden
        with torch.inference_mode():
            f, b = model.states(torch.from_numpy(entries), torch.from_numpy(sizes))[-1]
        number = np.searchsorted(tokens, pile.firsts)
        for first in range(0, len(pile), ROWS):
            some = slice(first, first + ROWS)
            here = at[0][some], at[1][some]
            yield number[some], torch.from_numpy(words[some]), f[here], b[here]


def _nothing(model: Encodes) -> list[Both]:
    """The states of each layer after ``<s>`` alone: how wide they are, and of which type."""
    with torch.inference_mode():
        return model.states(torch.full((1, 1), START), torch.ones(1, dtype=torch.int64))


def _room(both: Both, rows: int) -> Both:
    f, b = both
    return f.new_zeros(rows, f.shape[2]), b.new_zeros(rows, b.shape[2])
