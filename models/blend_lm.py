"""A language model whose words are what they mean and how they are written, both trained jointly.

A word goes into an LSTM as a vector of its own beside the vector that a character BiRNN
(``models.char_birnn``) makes of its spelling, or added to it (of the first kind Kang, Ng and Nguyen
2011, "Learning joint morphological and semantic embeddings"; the two kinds of a sum and a
concatenation in Santos and Zadrozny 2014 and Verwimp et al. 2017)::

    s(w) = g * unit([ahead at </w>; behind at <w>])
    x(w) = [E(w); s(w)]    or    E(w) + P s(w)
    h[t] = lstm(x(w[t-1]), h[t-1])    P(w[t] | w[t-1], ...) = softmax(W h[t] + b)

It may begin as a blend of registered models (``models.tuning``), whose word vectors are then its
own at first. All of it learns from what the language model gets wrong, and x(w) are the word
vectors. Without a blend it begins at random.

E is zeros for a word outside the vocabulary, so a word that is only known by its spelling has half
a vector (concatenation) or the other part alone (sum), in the language model and elsewhere.

Only distinct words of a batch are spelt. Streams, truncation and the output are those of
``models.rnnlm``.

Shapes: ``T`` steps, ``B`` streams, ``U`` distinct words of a batch, ``L`` characters of the longest
of them, ``D`` width of E, ``M`` of a word's vector, ``H`` units, ``V`` vocabulary, ``F`` forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.capabilities import Decoder, TableName
from models.char_birnn import SpellingBirnn, spelt
from models.characters import PAD, Characters, by_form, spelt_text
from models.examples import START, Examples
from models.family import (
    FloatArray,
    Inputs,
    Plan,
    Schedule,
    State,
    StepOutput,
    Style,
    Want,
)
from models.learning import (
    Accumulate,
    Clip,
    Dropout,
    Epochs,
    LearningRate,
    Longest,
    MaxSize,
    Patience,
    Precision,
    StateBoundary,
    StreamCount,
    StreamSteps,
    Warmup,
    arrays_of,
    by_decay,
    loaded,
    schedule_of,
    wants_text,
)
from models.output import Output, frequencies
from models.recurrent import GATES, Cell, Stack
from models.sequences import Reader, Sequences, in_double, read_batches, read_log_prob
from models.streams import Streams
from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary

WORDS_AT_ONCE = 512
"""Whose vectors are made side by side, words of like length together."""
Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""(U,) distinct forms, (U, L) their characters, (T, B) which of them is read, (T, B) targets."""


@dataclass(frozen=True)
class Config:
    """Settings of a language model over blended vectors."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["blend-lm"] = "blend-lm"
    how: Annotated[
        Literal["concatenation", "sum"], Field(description="Both vectors side by side, or added up")
    ] = "concatenation"
    dim: Annotated[int, Field(ge=1, description="Width of a word's own vector")] = 128
    projection: Annotated[
        bool, Field(description="A learned matrix brings the vector of spelling to dim")
    ] = False
    char_cell: Annotated[Cell, Field(description="What reads characters")] = "lstm"
    char_layers: Annotated[int, Field(ge=1, le=16, description="Layers of each direction")] = 1
    char_units: Annotated[int, Field(ge=1, description="Width of a layer, in each direction")] = 64
    char_embedding: Annotated[int, Field(ge=1, description="Width of a character's vector")] = 32
    longest: Longest = 40
    layers: Annotated[int, Field(ge=1, le=16, description="LSTM layers over words")] = 1
    units: Annotated[int, Field(ge=1, description="Width of such a layer")] = 256
    dropout: Dropout = 0.2
    boundary: StateBoundary = "document"
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often have no vector but that of spelling")
    ] = 2
    max_size: MaxSize = None
    batch_size: StreamCount = 20
    accumulate: Accumulate = 1
    steps: StreamSteps = 35
    epochs: Epochs = 5
    patience: Patience = 1
    learning_rate: LearningRate = 2e-3
    parts_rate: Annotated[
        float, Field(ge=0, description="Times the learning rate, of the word vectors; 0: they stay")
    ] = 1.0
    warmup: Warmup = 0.02
    weight_decay: Annotated[
        float, Field(ge=0, description="Decay of weights, never of word vectors and biases")
    ] = 0.01
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "Blended LM"
    paper: ClassVar[str] = "Verwimp et al. 2017, arXiv:1704.02813"

    def __post_init__(self) -> None:
        if self.how == "sum" and not self.projection and self.dim != 2 * self.char_units:
            raise ValueError(
                f"a sum needs dim ({self.dim}) equal to twice char_units ({self.char_units}), or a "
                "projection"
            )

    @property
    def width(self) -> int:
        """M, of a word's vector."""
        other = self.dim if self.projection else 2 * self.char_units
        return self.dim if self.how == "sum" else self.dim + other

    def encoder(self, characters: int) -> SpellingBirnn:
        """What reads the spelling of a word, over a table of so many characters."""
        return SpellingBirnn(
            characters, self.char_embedding, self.char_cell, self.char_units, self.char_layers
        )

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what AdamW keeps.

        With ``parts_rate`` 0 what makes word vectors has weights alone.
        """
        gates = GATES[self.char_cell] * self.char_units
        chars = 2 * gates * (self.char_embedding + self.char_units)
        stack = 4 * self.units * (self.width + self.units + 2 * self.units * (self.layers - 1))
        kept = 4 if self.parts_rate else 1
        return 4 * (kept * (words * self.dim + chars) + 4 * (words * self.units + stack))

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> BlendLm:
        """Random weights; the characters are those of the training text."""
        text = inputs.tokens()
        model = BlendLm(self, inputs.vocabulary(), Characters.of(text))
        model.initialize(text, torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> BlendLm:
        """The model whose ``state`` this is."""
        characters = Characters.from_array(state["characters"])
        return loaded(BlendLm(self, vocabulary, characters), state, "characters")


class BlendLm(nn.Module):
    """The model.

    Attributes:
        characters: those that it tells apart.
        E: (V, D) words' own vectors; that of ``<unk>`` is never looked at.
        encoder: reads the spelling of a word.
        g: (1,) length of the vector of spelling.
        P: (2 H', D) brings it to the width of E, H' the units of the encoder; None for none.
        stack: the LSTM layers.
        output: the softmax over the vocabulary.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, characters: Characters) -> None:
        super().__init__()
        self.config, self.vocabulary, self.characters = config, vocabulary, characters
        self.E = nn.Parameter(torch.zeros(len(vocabulary), config.dim))
        self.encoder = config.encoder(len(characters))
        self.g = nn.Parameter(torch.ones(1))
        shape = 2 * config.char_units, config.dim
        self.P = nn.Parameter(torch.zeros(shape)) if config.projection else None
        self.stack = Stack("lstm", config.width, config.units, config.layers)
        self.output = Output(len(vocabulary), config.units)
        self._listed: NDArray[np.float32] | None = None  # vectors of the vocabulary, once asked for
        if config.parts_rate == 0:
            for parameter in self._own():  # nor do they count where gradients are clipped
                parameter.requires_grad_(False)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias of the output that of the unigram model of the text."""
        with torch.no_grad():
            self.E.normal_(0.0, self.config.dim**-0.5, generator=generator)
            if self.P is not None:
                self.P.normal_(0.0, self.config.dim**-0.5, generator=generator)
        self.encoder.initialize(generator)
        self.stack.initialize(generator)
        self.output.initialize(frequencies(self.vocabulary, text), generator)

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        return schedule_of(self.config)

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """What makes word vectors, at a rate of its own; matrices with decay; biases without."""
        rest = [*self.stack.parameters(), *self.output.parameters()]
        learning = by_decay(rest, self.config.weight_decay)
        if self.config.parts_rate == 0:
            return learning
        rate = self.config.parts_rate
        return [{"params": self._own(), "weight_decay": 0.0, "rate": rate}, *learning]

    def _own(self) -> list[nn.Parameter]:
        """What makes word vectors."""
        rest = [] if self.P is None else [self.P]
        return [self.E, self.g, *self.encoder.parameters(), *rest]

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch."""
        return len(self._streams(inputs, role))

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's streams of every global batch, with the spelling of each distinct word."""
        config, text = self.config, inputs.tokens(plan.role)
        characters, words, spelt = spelt_text(
            self.characters, self.vocabulary, text, config.longest, config.boundary
        )
        spelling, directions = torch.from_numpy(characters), [Sequences(words, spelt=spelt)]
        streams = self._streams(inputs, plan.role)
        for read, targets in read_batches(directions, streams, config.batch_size, 0, plan):
            distinct, places = torch.unique(read, return_inverse=True)
            yield distinct, spelling[distinct], places, targets

    def _streams(self, inputs: Inputs, role: Literal["train", "heldout"]) -> Streams:
        return Streams.of(inputs.tokens(role), self.config.batch_size, self.config.steps)

    # --- reading ------------------------------------------------------------------------------

    def embed(self, forms: Tensor, rows: Tensor, dropout: float = 0.0) -> Tensor:
        """The vectors of words.

        Args:
            forms: (U,) ids; from V on of words outside the vocabulary.
            rows: (U, L) their characters.
            dropout: of the encoder, see ``models.recurrent.Stack``.

        Returns:
            (U, M).
        """
        known = (forms < len(self.vocabulary)) & (forms != self.vocabulary.unknown)
        own = F.embedding(forms * known, self.E) * known[:, None]
        lengths = (rows != PAD).sum(1)
        letters = rows[:, : int(lengths.amax()) if len(rows) else 1].t().long()
        spelling = F.normalize(self.encoder(letters, lengths, dropout), dim=1) * self.g
        if self.P is not None:
            spelling = spelling @ self.P
        if self.config.how == "sum":
            return own + spelling
        return torch.cat([own.to(spelling.dtype), spelling], 1)

    def forward(self, batch: Batch, *carried: Tensor) -> StepOutput:
        """The summed negative log-likelihood of a batch."""
        distinct, rows, places, targets = batch
        self._listed = None
        dropout = self.config.dropout if self.training else 0.0
        encoded = self.embed(distinct, rows, dropout)
        # The gradients of a frequent word are many, and are added up in the type of this.
        x = F.embedding(places, encoded.to(torch.promote_types(encoded.dtype, torch.float32)))
        state = carried or self.stack.start(places.shape[1])
        x = F.dropout(x, dropout)
        states, state = self.stack(x, state, distinct[places] != START, dropout)
        asked = targets >= 0
        nll = self.output.loss(states[-1][asked], targets[asked])
        after = tuple(part.detach() for part in state)
        return StepOutput(nll, nll.detach(), int(asked.sum()), after)

    # --- what it answers ----------------------------------------------------------------------

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every word and sentence end, given what is before it in its unit."""
        text, forms = by_form(sentences, self.vocabulary)
        boundary = self.config.boundary
        words, by_forms = (Examples.over(s, 1, boundary) for s in (sentences, text))
        return read_log_prob(self._reading(text, forms), Sequences(words, spelt=by_forms))

    @property
    def reads_on(self) -> bool:
        """Whether the state is kept over the start of a sentence."""
        return self.config.boundary == "document"

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        text, forms = by_form(prefixes, self.vocabulary)
        return Reader(self._reading(text, forms, whole=True), text)

    def _reading(self, text: Sentences, forms: Vocabulary, *, whole: bool = False) -> _Reading:
        """A reader of a text, which spells its words once; the whole vocabulary if it goes on."""
        double = in_double(self)
        used = np.unique(np.append(text.ids, np.arange(len(LM_RESERVED)))).astype(np.int64)
        ids = torch.arange(len(forms)) if whole else torch.from_numpy(used)
        rows = torch.from_numpy(self.characters.spell(forms, self.config.longest))
        table = torch.zeros(len(forms), self.config.width, dtype=torch.float64)
        with torch.inference_mode():
            order = (rows[ids] != PAD).sum(1).argsort()
            for some in torch.split(ids[order], WORDS_AT_ONCE):
                table[some] = double.embed(some, rows[some])
        return _Reading(double, table)

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, M) float32 of any words, made in 64 bits so that none depends on the others."""
        double = in_double(self).cpu()
        found = np.empty((len(words), self.config.width), np.float32)
        ids = np.array([self.vocabulary.id(word) for word in words], np.int64)
        order = np.argsort([len(word) for word in words], kind="stable")
        with torch.inference_mode():
            for first in range(0, len(words), WORDS_AT_ONCE):
                some = order[first : first + WORDS_AT_ONCE]
                letters, _ = spelt(self.characters, [words[i] for i in some], self.config.longest)
                found[some] = double.embed(torch.from_numpy(ids[some]), letters.t()).numpy()
        return found

    @property
    def own_table(self) -> TableName:
        """The vectors of listed words are made once, then looked up."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The vectors of the vocabulary (V, M), and the output weights (V, H)."""
        if self._listed is None:
            self._listed = np.asarray(self.word_vectors(self.vocabulary.words), np.float32)
        assert self.output.W is not None
        weights: NDArray[np.float32] = self.output.W.detach().cpu().numpy()
        return {"input": self._listed, "output": weights[len(LM_RESERVED) :]}

    def state(self) -> State:
        """The parameters by name, and the characters."""
        return {**arrays_of(self), "characters": self.characters.to_array()}


@dataclass(frozen=True, eq=False)
class _Reading:
    """A model that reads the forms of a text.

    Attributes:
        model: in 64 bits.
        table: (F, M) the vectors of all forms that are read.
    """

    model: BlendLm
    table: Tensor

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        return self.model.stack.start(sequences)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``; inputs are forms."""
        states, state = self.model.stack(F.embedding(inputs, self.table), state, inputs != START)
        return states[-1], state

    def log_probs(self, hidden: Tensor) -> Tensor:
        """See ``models.sequences.Reads``."""
        return self.model.output.log_probs(hidden)
