"""An output layer that spells words out, in place of a softmax over words.

A small LSTM over characters is told the state of the language model at each of its steps, and gives
a word the product of the probabilities of its characters, up to the mark of its end (the decoder of
Matthews, Neubig and Dyer 2018 without its table of words; over the whole vocabulary Jozefowicz et
al. 2016, "CNN softmax and char LSTM")::

    x_i = [C(c_{i-1}); P s]    g_i = lstm(x_i, g_{i-1})    c_0 = <w>
    P(word | s) = prod_i P(c_i | g_i)    P(c | g) = softmax(W g + d)    c_{n+1} = </w>

It is a distribution over all strings of at least one character, the end of a sentence beside them,
which is one character and no more. No vocabulary bounds it, so no word is unknown; of all
characters that training has not seen, one stands for any.

What it gives a word is not comparable with the probability under a closed vocabulary, where
``<unk>`` takes together what is told apart here. Bits a character are.

Shapes: ``N`` predictions, ``D`` width of a state, ``L`` characters of the longest word with its
end, ``A`` entries of the character table, ``E`` embedding, ``U`` units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.characters import BEGIN, END, MARKS, PAD, RESERVED, UNKNOWN, Characters
from models.generation import Sampling, drawn, narrowed
from models.losses import linear_cross_entropy
from models.recurrent import Recurrent
from models.vocabulary import EOS

STOP = MARKS[EOS]
"""The end of a sentence as a character: it is first, and ends the word that it is."""
NONE = -1
LETTERS = 1 << 13
"""Letters that are spelt side by side, of words of like length: one long word must not make a
thousand others as long as itself."""


class SpellingOutput(nn.Module):
    """Words from states, character by character.

    Attributes:
        C: (A, E) embeddings of characters.
        P: (E, D) what a step is told of the state.
        lstm: reads the characters before.
        W: (A, U) the softmax over characters.
        d: (A,).
    """

    first: Tensor  # (A,) -inf at what cannot be the first character of a word, else 0
    later: Tensor  # (A,) likewise for all others

    def __init__(self, characters: int, width: int, embedding: int, units: int) -> None:
        """Weights are zeros until ``initialize``.

        Args:
            characters: A, with the reserved ones.
            width: D.
            embedding: E.
            units: U.
        """
        super().__init__()
        self.C = nn.Parameter(torch.zeros(characters, embedding))
        self.P = nn.Parameter(torch.zeros(embedding, width))
        self.lstm = Recurrent("lstm", 2 * embedding, units)
        self.W = nn.Parameter(torch.zeros(characters, units))
        self.d = nn.Parameter(torch.zeros(characters))
        never = torch.zeros(characters)
        never[[PAD, BEGIN, *MARKS.values()]] = -torch.inf
        first, later = never.clone(), never.clone()
        first[STOP], first[END] = 0.0, -torch.inf
        self.register_buffer("first", first, persistent=False)
        self.register_buffer("later", later, persistent=False)

    def initialize(self, characters: Characters, generator: torch.Generator) -> None:
        """Draw the weights; the output begins as the shares of characters."""
        with torch.no_grad():
            self.C.normal_(0.0, 0.1, generator=generator)
            for matrix in (self.P, self.W):
                bound = matrix.shape[1] ** -0.5
                matrix.uniform_(-bound, bound, generator=generator)
            counts = torch.from_numpy(characters.counts + 1.0)
            self.d[RESERVED:] = (counts / counts.sum()).log()
            # An end and an unseen character: about as often as one in eight, and as the rarest.
            self.d[[END, STOP]], self.d[UNKNOWN] = -2.0, self.d[RESERVED:].amin()
        self.lstm.initialize(generator)

    def loss(self, hidden: Tensor, words: Tensor) -> Tensor:
        """The summed negative log-likelihood of words in nats.

        Args:
            hidden: (N, D) states.
            words: (N, L) ids of characters from ``targets``, padded behind with ``NONE``.
        """
        total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
        for rows, asked in _pieces(words):
            states = self._states(hidden[rows], asked)
            for some, part, bias in (
                (states[:1], asked[:1], self.first),
                (states[1:], asked[1:], self.later),
            ):
                real = part != NONE
                total = total + linear_cross_entropy(some[real], self.W, self.d + bias, part[real])
        return total

    def log_prob(self, hidden: Tensor, words: Tensor) -> Tensor:
        """(N,) nats of words, each given its state; see ``loss``."""
        found = hidden.new_zeros(len(hidden))
        for rows, asked in _pieces(words):
            states = self._states(hidden[rows], asked)
            bias = self.later.expand(len(asked), 1, -1).clone()
            bias[:1] = self.first
            nats = torch.log_softmax(F.linear(states, self.W, self.d) + bias, -1)
            own = nats.gather(-1, asked.clamp_min(0)[..., None])[..., 0]
            found[rows] = own.masked_fill(asked == NONE, 0.0).sum(0)
        return found

    def _states(self, hidden: Tensor, words: Tensor) -> Tensor:
        """(L, N, U) the state that each character of (L, N) is predicted from."""
        before = F.pad(words.clamp_min(PAD), (0, 0, 1, 0), value=BEGIN)[:-1]
        told = F.linear(hidden, self.P.to(hidden.dtype)).expand(len(before), -1, -1)
        x = torch.cat([F.embedding(before, self.C).to(told.dtype), told], -1)
        states: Tensor = self.lstm(x, self.lstm.start(len(hidden)))[0]
        return states

    def spell(
        self,
        hidden: Tensor,
        draws: Sequence[np.random.Generator],
        *,
        longest: int,
        temperature: float = 1.0,
    ) -> list[list[int]]:
        """A word for each of N states, drawn character by character.

        Args:
            hidden: (N, D).
            draws: of each word, one number a character.
            longest: a word that has not ended after so many characters is left as it is.
            temperature: of each character; 0 takes the likeliest.

        Returns:
            ids of characters without the end; ``[STOP]`` for the end of a sentence.

        Raises:
            ValueError: a temperature below 0, or weights that are no numbers.
        """
        n, how = len(hidden), Sampling(temperature)
        told = F.linear(hidden, self.P)
        state = self.lstm.start(n)
        before = torch.full((n,), BEGIN)
        words: list[list[int]] = [[] for _ in range(n)]
        going = np.ones(n, bool)
        for place in range(longest):
            x = torch.cat([F.embedding(before, self.C), told], -1)
            states, state = self.lstm(x[None], state)
            scores = F.linear(states[0], self.W, self.d) + (self.later if place else self.first)
            uniform = [draw.random() for draw, on in zip(draws, going, strict=True) if on]
            # One character stands for many, and none of them could be written: it is left out.
            shares = narrowed(scores.numpy()[going], how, UNKNOWN)
            # A word that has ended is carried along; nobody asks what would follow.
            characters = np.full(n, END, np.int64)
            characters[going] = drawn(shares, np.array(uniform))
            for i in np.flatnonzero(characters != END).tolist():
                words[i].append(int(characters[i]))
            going &= (characters != END) & (characters != STOP)
            if not going.any():
                break
            before = torch.from_numpy(characters)
        return words


def targets(characters: Characters, words: Sequence[str | None]) -> Tensor:
    """(N, L) words as ``SpellingOutput`` predicts them: whole, with their end.

    Args:
        characters: the table.
        words: None for the end of a sentence.
    """
    longest = max((len(word) for word in words if word is not None), default=1)
    rows = characters.encode([word or " " for word in words], width=max(3, 2 + longest))
    found = torch.from_numpy(rows[:, 1:].astype(np.int64))
    found = found.masked_fill(found == PAD, NONE)
    stops = torch.tensor([word is None for word in words], dtype=torch.bool)
    found[stops] = NONE
    found[stops, 0] = STOP
    return found


def spelt_out(characters: Characters, word: Sequence[int]) -> str | None:
    """A word that was drawn; None for the end of a sentence."""
    if list(word) == [STOP]:
        return None
    return "".join(characters.characters[c - RESERVED] for c in word)


def _pieces(words: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(N, L) words in pieces of like length: their rows, and they as (L', N')."""
    order = torch.argsort((words != NONE).sum(1), descending=True)
    sizes, first = (words != NONE).sum(1)[order].tolist() or [0], 0
    # No words at all are a piece too: a batch that predicts nothing still reaches every weight.
    while first < len(sizes):
        rows = order[first : first + max(1, LETTERS // max(1, sizes[first]))]
        yield rows, words[rows][:, : sizes[first]].t()
        first += max(1, len(rows))
