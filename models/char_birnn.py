"""Word vectors out of spelling: a character BiRNN that restores masked characters.

Two stacks of recurrent layers read a word between its two marks, one from its begin and one from
its end (Schuster and Paliwal 1997; over the characters of a word Ling et al. 2015, "Finding
function in form"), and learn to restore what was hidden of it (Devlin et al. 2019, there of words
in a sentence)::

    c = <w> c_1 ... c_n </w>, some of the c_t replaced by a mask
    f_t = ahead(f_{t-1}, C(c_t))    b_t = behind(b_{t+1}, C(c_t))
    P(c_t | the rest) = softmax(W [f_t; b_t] + d)           at masked t alone
    vector of the word = [f at </w>; b at <w>]              nothing masked

The directions are kept apart in all layers. Both ends are the word's own: padding is never read.

It knows nothing of a word but its letters, so any string has a vector, and words are near each
other that are written alike: forms of one stem, words of one ending, misspellings.

It trains on the distinct words of a text. An epoch takes as many words as there are distinct ones,
by weight (``weighting``): a systematic sample, in which each word comes as often as it should, give
or take one. Each time other characters are masked, one at least.

Deviations: a mask always takes the place of a hidden character; the output reaches over characters
of the training text, none of them reserved. What does not fit into ``longest`` is not read. In
training, the "perplexity" is that of a masked character given all others: no probability of text.

Shapes: ``N`` words, ``L`` characters of the longest with its marks, ``A`` entries of the character
table, ``A'`` of them not reserved, ``E`` embedding, ``H`` units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.capabilities import TableName
from models.characters import PAD, RESERVED, Characters
from models.examples import shuffled
from models.family import (
    FloatArray,
    Inputs,
    Plan,
    Schedule,
    State,
    StepOutput,
    Style,
    Want,
    WantsTokens,
    WantsVocabulary,
)
from models.learning import (
    Accumulate,
    Clip,
    Dropout,
    LearningRate,
    Longest,
    Patience,
    Precision,
    Warmup,
    WeightDecay,
    arrays_of,
    by_decay,
    loaded,
    schedule_of,
)
from models.losses import linear_cross_entropy
from models.recurrent import GATES, Cell, Stack
from models.sequences import in_double
from models.text import Tokens
from models.vocabulary import Vocabulary

NONE = -1
"""A target where nothing is masked."""
WORDS_AT_ONCE = 512
"""Whose vectors are made side by side, words of like length together."""
Batch = tuple[Tensor, Tensor, Tensor]
"""Words (L, N) with masks, their lengths (N,), and what is behind the masks (L, N)."""


@dataclass(frozen=True)
class Config:
    """Settings of a character BiRNN."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["char-birnn"] = "char-birnn"
    cell: Annotated[Cell, Field(description="What a layer is made of")] = "lstm"
    layers: Annotated[int, Field(ge=1, le=16, description="Layers of each direction")] = 1
    units: Annotated[
        int, Field(ge=1, description="Width of a layer; a word's vector is twice as wide")
    ] = 128
    embedding: Annotated[int, Field(ge=1, description="Width of a character's vector")] = 32
    masked: Annotated[
        float, Field(gt=0, le=1, description="Share of characters to restore, one a word at least")
    ] = 0.3
    weighting: Annotated[
        Literal["count", "log-count"],
        Field(description="How often a word is trained on: by its count, or the log of it"),
    ] = "log-count"
    longest: Longest = 40
    dropout: Dropout = 0.1
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often are trained on but not listed")
    ] = 2
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words are listed; empty for no limit")
    ] = None
    epochs: Annotated[int, Field(ge=1, description="Passes over the distinct words")] = 10
    patience: Patience = 0
    batch_size: Annotated[int, Field(ge=1, description="Words in a batch of all workers")] = 128
    accumulate: Accumulate = 1
    learning_rate: LearningRate = 3e-3
    warmup: Warmup = 0.02
    weight_decay: WeightDecay = 0.01
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "Character BiRNN"
    paper: ClassVar[str] = "Ling et al. 2015, arXiv:1508.02096"

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what AdamW keeps."""
        gates = GATES[self.cell] * self.units
        stack = sum(
            gates * ((self.units if k else self.embedding) + self.units + 1)
            for k in range(self.layers)
        )
        return 2 * stack * 4 * 4

    def wants(self) -> Mapping[str, Want]:
        """The words of the training and of held-out text, and which of them are listed."""
        return {
            "train": WantsTokens("train"),
            "heldout": WantsTokens("valid"),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, ()),
        }

    def build(self, inputs: Inputs, *, seed: int) -> CharBirnn:
        """Random weights over the characters of the training text."""
        model = CharBirnn(self, inputs.vocabulary(), Characters.of(inputs.tokens()))
        model.initialize(torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> CharBirnn:
        """The model whose ``state`` this is."""
        characters = Characters.from_array(state["characters"])
        return loaded(CharBirnn(self, vocabulary, characters), state, "characters")


# --- spelling -----------------------------------------------------------------------------------


def types_of(text: Tokens) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct words of a text in the order of its partitions, and how often each comes."""
    counts = Counter[str]()
    for part in text.partitions:
        counts.update(dict(zip(part.types, part.counts.tolist(), strict=True)))
    return list(counts), np.fromiter(counts.values(), np.int64, len(counts))


def spelt(characters: Characters, words: Sequence[str], longest: int) -> tuple[Tensor, Tensor]:
    """Words as (L, N) ids of characters between their marks, and their lengths (N,), marks too."""
    ids = torch.from_numpy(characters.read(words, width=longest + 2).T.astype(np.int64))
    return ids, (ids != PAD).sum(0)


# --- the encoder --------------------------------------------------------------------------------


class SpellingBirnn(nn.Module):
    """Reads words from both ends.

    Attributes:
        C: (A + 1, E) embeddings of characters; the last is the mask.
        ahead: from a word's begin.
        behind: from its end.
    """

    def __init__(self, characters: int, embedding: int, cell: Cell, units: int, layers: int):
        super().__init__()
        self.units = units
        self.C = nn.Parameter(torch.zeros(characters + 1, embedding))
        self.ahead = Stack(cell, embedding, units, layers)
        self.behind = Stack(cell, embedding, units, layers)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights."""
        with torch.no_grad():
            self.C.normal_(0.0, 0.1, generator=generator)
        self.ahead.initialize(generator)
        self.behind.initialize(generator)

    def states(
        self, words: Tensor, lengths: Tensor, dropout: float = 0.0, *, last: bool = True
    ) -> Tensor:
        """The states of both directions at each character.

        Args:
            words: (L, N) ids, padded behind.
            lengths: (N,) with the marks.
            dropout: see ``models.recurrent.Stack``.
            last: see there.

        Returns:
            (L, N, 2 H); behind a word's end they mean nothing.
        """
        steps = torch.arange(len(words), device=words.device)[:, None]
        # Each word is turned around by itself, so that its end comes first and padding last.
        turned = torch.where(steps < lengths, lengths - 1 - steps, steps)
        start = self.ahead.start(words.shape[1])
        how: dict[str, Any] = {"dropout": dropout, "last": last}
        ahead, _ = self.ahead(self._embed(words, dropout), start, **how)
        behind, _ = self.behind(self._embed(words.gather(0, turned), dropout), start, **how)
        back = behind[-1].gather(0, turned[..., None].expand_as(behind[-1]))
        return torch.cat([ahead[-1], back], -1)

    def forward(self, words: Tensor, lengths: Tensor, dropout: float = 0.0) -> Tensor:
        """(N, 2 H) the final states: ahead at the end of a word, behind at its begin.

        Dropout is of what is inside; whoever reads words drops out of their vectors.
        """
        states = self.states(words, lengths, dropout, last=False)
        last = states[lengths - 1, torch.arange(words.shape[1], device=words.device)]
        return torch.cat([last[:, : self.units], states[0, :, self.units :]], -1)

    def _embed(self, words: Tensor, dropout: float) -> Tensor:
        return F.dropout(F.embedding(words, self.C), dropout)


# --- the model ----------------------------------------------------------------------------------


class CharBirnn(nn.Module):
    """The model.

    Attributes:
        characters: the table.
        encoder: reads a word.
        W: (A', 2 H) the output over characters, those that are not reserved.
        d: (A',).
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, characters: Characters) -> None:
        super().__init__()
        self.config, self.vocabulary, self.characters = config, vocabulary, characters
        self.encoder = SpellingBirnn(
            len(characters), config.embedding, config.cell, config.units, config.layers
        )
        self.W = nn.Parameter(torch.zeros(len(characters) - RESERVED, 2 * config.units))
        self.d = nn.Parameter(torch.zeros(len(characters) - RESERVED))
        self._listed: NDArray[np.float32] | None = None  # vectors of the vocabulary, once asked for

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights; the output begins as the shares of characters."""
        self.encoder.initialize(generator)
        shares = (self.characters.counts + 1) / (self.characters.counts + 1).sum()
        with torch.no_grad():
            bound = (2 * self.config.units) ** -0.5
            self.W.uniform_(-bound, bound, generator=generator)
            self.d.copy_(torch.from_numpy(np.log(shares)))

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        return schedule_of(self.config, masked=True)

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Matrices with decay, biases without."""
        return by_decay(self.parameters(), self.config.weight_decay)

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch: as many words as there are distinct ones."""
        return -(-len(types_of(inputs.tokens(role))[0]) // self.config.batch_size)

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's part of every global batch; held-out words and masks are always the same."""
        words, counts = types_of(inputs.tokens(plan.role))
        size = self.config.batch_size
        order = np.arange(len(words))
        epoch: tuple[int, ...] = (plan.seed, plan.epoch) if plan.role == "train" else (0,)
        if plan.role == "train":
            order = shuffled(order, len(words), epoch)
        drawn = systematic(self._weights(counts), epoch)[order]
        for number in range(plan.start, -(-len(words) // size)):
            some = drawn[number * size : (number + 1) * size]
            first, last = (len(some) * r // plan.world for r in (plan.rank, plan.rank + 1))
            chances = np.random.default_rng([*epoch, number]).random((len(some), self._width))
            mine = [words[i] for i in some[first:last].tolist()]
            yield self._masked(mine, chances[first:last])

    @property
    def _width(self) -> int:
        return self.config.longest + 2

    def _weights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of words in training: log(1 + n) leaves a rare word a share of its own."""
        return counts.astype(float) if self.config.weighting == "count" else np.log1p(counts)

    def _masked(self, words: Sequence[str], chances: NDArray[np.float64]) -> Batch:
        """Hide the characters with the smallest chances; none that is not in the table."""
        ids, lengths = spelt(self.characters, words, self.config.longest)
        known = ids >= RESERVED
        chance = torch.from_numpy(chances).t()[: len(ids)].masked_fill(~known, torch.inf)
        hidden = known & (chance <= chance.amin(0).clamp(min=self.config.masked))
        targets = torch.where(hidden, ids - RESERVED, NONE)
        return ids.masked_fill(hidden, len(self.characters)), lengths, targets

    def forward(self, batch: Batch) -> StepOutput:
        """The summed negative log-likelihood of the characters behind the masks."""
        words, lengths, targets = batch
        self._listed = None
        states = self.encoder.states(words, lengths, self.config.dropout if self.training else 0.0)
        asked = targets != NONE
        loss = linear_cross_entropy(states[asked], self.W, self.d, targets[asked])
        return StepOutput(loss, loss.detach(), int(asked.sum()))

    # --- what it answers ----------------------------------------------------------------------

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, 2 H) float32 of any words; made in 64 bits, so that none depends on the others."""
        double = in_double(self.encoder)
        found = np.empty((len(words), 2 * self.config.units), np.float32)
        order = np.argsort([len(word) for word in words], kind="stable")
        with torch.inference_mode():
            for first in range(0, len(words), WORDS_AT_ONCE):
                some = order[first : first + WORDS_AT_ONCE]
                ids = spelt(self.characters, [words[i] for i in some], self.config.longest)
                found[some] = double(*ids).numpy()
        return found

    def restored(self, word: str, place: int) -> NDArray[np.float64]:
        """(A',) nats of each character of the table at a place of a word, given the others.

        Args:
            word: what stands at the place does not matter.
            place: of one of its characters, from 0.

        Raises:
            ValueError: the word has no such place, or is cut off before it.
        """
        end = min(len(word), self.config.longest)
        if not 0 <= place < end:
            raise ValueError(f"{word!r} is read from place 0 to {end - 1}, and has no {place}")
        ids, lengths = spelt(self.characters, [word], self.config.longest)
        ids[place + 1] = len(self.characters)
        double = in_double(self)
        with torch.inference_mode():
            state = double.encoder.states(ids, lengths)[place + 1, 0]
            found: NDArray[np.float64] = torch.log_softmax(double.W @ state + double.d, 0).numpy()
        return found

    @property
    def own_table(self) -> TableName:
        """The vectors of listed words are made once, then looked up."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """(V, 2 H) the vectors of the vocabulary."""
        if self._listed is None:
            self._listed = np.asarray(self.word_vectors(self.vocabulary.words), np.float32)
        return {"input": self._listed}

    def state(self) -> State:
        """The parameters by name, and the table of characters."""
        return {**arrays_of(self), "characters": self.characters.to_array()}


def systematic(weights: NDArray[np.float64], seed: Sequence[int]) -> NDArray[np.int64]:
    """As many draws as there are weights (N,): each index ``N w / sum w`` times, rounded at random.

    All draws hang on one random number (Madow 1949), so none strays from its share by one.
    """
    n = len(weights)
    if n == 0:
        return np.zeros(0, np.int64)
    places = (np.arange(n) + np.random.default_rng(list(seed)).random()) / n
    ends = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(ends, places, side="right"), n - 1)
