"""A language model without a vocabulary: words are read and predicted letter by letter.

Each word is read by a character BiRNN (``models.char_birnn``), an LSTM goes over the words, and the
next one is spelt out from its state (``models.spelling_output``), as in the models of Matthews,
Neubig and Dyer (2018) and Kawakami, Dyer and Blunsom (2017), without their tables and caches::

    x(w) = [ahead at </w>; behind at <w>]    h[t] = lstm(x(w[t-1]), h[t-1])
    P(w[t] | w[t-1], ...) = prod_i P(c_i | c_1 ... c_{i-1}, h[t])

No word is unknown. Its perplexity is over all strings, so it is compared with that of no closed
vocabulary; bits a character are. The vocabulary lists words with their vectors, no more.

Streams and truncation are those of ``models.rnnlm``. In reading, words are cut after ``longest``
characters; in being predicted they are whole.

Shapes: ``T`` steps, ``B`` streams, ``U`` distinct words of a batch, ``L`` characters of the longest
of them, ``N`` predictions, ``H`` units, ``F`` forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.char_birnn import SpellingBirnn, spelt
from models.characters import PAD, Characters, by_form, forms_of
from models.examples import END, START, Examples
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
from models.generation import TEXTS_AT_ONCE
from models.learning import (
    Clip,
    Dropout,
    Epochs,
    LearningRate,
    Longest,
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
)
from models.recurrent import Stack
from models.sequences import Sequences, in_double, read_batches, read_log_prob
from models.spelling_output import SpellingOutput, spelt_out, targets
from models.streams import NONE, Streams
from models.text import Sentences
from models.vocabulary import LM_RESERVED, OPEN, Vocabulary

WORDS_AT_ONCE = 512
"""Whose vectors are made side by side, words of like length together."""
Batch = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""(U,) distinct forms, (U, L) how they are read, (U, L) how they are predicted, and which of them
is read and which predicted, (T, B) each, ``NONE`` where none is."""


@dataclass(frozen=True)
class Config:
    """Settings of a language model that spells."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["spelling-lm"] = "spelling-lm"
    char_units: Annotated[
        int, Field(ge=1, description="Width of a layer that reads characters, in each direction")
    ] = 64
    char_embedding: Annotated[int, Field(ge=1, description="Width of a character's vector")] = 32
    longest: Longest = 40
    layers: Annotated[int, Field(ge=1, le=16, description="LSTM layers over words")] = 1
    units: Annotated[int, Field(ge=1, description="Width of such a layer")] = 256
    speller: Annotated[int, Field(ge=1, description="Width of the LSTM that spells")] = 128
    dropout: Dropout = 0.2
    boundary: StateBoundary = "document"
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often are not listed with their vectors")
    ] = 2
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words are listed; empty for no limit")
    ] = None
    batch_size: StreamCount = 20
    steps: StreamSteps = 35
    epochs: Epochs = 5
    patience: Patience = 1
    learning_rate: LearningRate = 2e-3
    warmup: Warmup = 0.02
    weight_decay: Annotated[float, Field(ge=0, description="Decay of weights, never of biases")] = (
        0.01
    )
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "Spelling LM"
    paper: ClassVar[str] = "Matthews, Neubig & Dyer 2018"

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least; it does not depend on the number of words."""
        chars, read = self.char_units, 2 * self.char_units
        reading = 2 * 4 * chars * (self.char_embedding + chars)
        stack = 4 * self.units * (read + self.units + 2 * self.units * (self.layers - 1))
        speller = 4 * self.speller * (self.char_embedding + self.speller)
        weights = reading + stack + speller + self.char_embedding * self.units
        return weights * 4 * 4

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and words to list."""
        reserved = (*LM_RESERVED, OPEN)
        return {
            "train": WantsTokens("train"),
            "heldout": WantsTokens("valid"),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, reserved),
        }

    def build(self, inputs: Inputs, *, seed: int) -> SpellingLm:
        """Random weights; the characters are those of the training text."""
        model = SpellingLm(self, inputs.vocabulary(), Characters.of(inputs.tokens()))
        model.initialize(torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> SpellingLm:
        """The model whose ``state`` this is."""
        characters = Characters.from_array(state["characters"])
        return loaded(SpellingLm(self, vocabulary, characters), state, "characters")


class SpellingLm(nn.Module):
    """The model.

    Attributes:
        characters: those that it tells apart.
        encoder: reads the spelling of a word.
        stack: the LSTM layers over words.
        output: spells the next word.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, characters: Characters) -> None:
        super().__init__()
        self.config, self.vocabulary, self.characters = config, vocabulary, characters
        # Sentence ends and beginnings are read by marks of their own, as no word is written.
        self.listed = Vocabulary(LM_RESERVED, vocabulary.words, vocabulary.counts)
        self.encoder = SpellingBirnn(
            len(characters), config.char_embedding, "lstm", config.char_units, 1
        )
        self.stack = Stack("lstm", 2 * config.char_units, config.units, config.layers)
        self.output = SpellingOutput(
            len(characters), config.units, config.char_embedding, config.speller
        )

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the weights; spelling begins with the shares of characters."""
        self.encoder.initialize(generator)
        self.stack.initialize(generator)
        self.output.initialize(self.characters, generator)

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        return schedule_of(self.config)

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Matrices with decay, biases without."""
        return by_decay(self.parameters(), self.config.weight_decay)

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch."""
        return len(self._streams(inputs, role))

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's streams of every global batch, with the spelling of each distinct word."""
        config, text = self.config, inputs.tokens(plan.role)
        forms = forms_of(self.listed, (part.types for part in text.partitions))
        spelling = torch.from_numpy(self.characters.spell(forms, config.longest))
        words = Sequences(Examples.of(text, forms, 1, config.boundary))
        streams = self._streams(inputs, plan.role)
        for read, asked in read_batches([words], streams, config.batch_size, 0, plan):
            both = torch.stack([read, torch.where(asked == NONE, START, asked)])
            distinct, places = torch.unique(both, return_inverse=True)
            predicted = self.predicted(forms, distinct)
            own = torch.where(asked == NONE, NONE, places[1])
            yield distinct, spelling[distinct], predicted, places[0], own

    def predicted(self, forms: Vocabulary, ids: Tensor) -> Tensor:
        """(U, L) forms as they are spelt out; ``<s>`` never is."""
        entries = forms.entries
        words = [None if i == END else entries[i] for i in ids.tolist()]
        return targets(self.characters, words)

    def _streams(self, inputs: Inputs, role: Literal["train", "heldout"]) -> Streams:
        return Streams.of(inputs.tokens(role), self.config.batch_size, self.config.steps)

    # --- reading ------------------------------------------------------------------------------

    def embed(self, rows: Tensor, dropout: float = 0.0) -> Tensor:
        """(U, L) characters of words -> (U, 2 H') their vectors."""
        lengths = (rows != PAD).sum(1)
        letters = rows[:, : int(lengths.amax()) if len(rows) else 1].t().long()
        vectors: Tensor = self.encoder(letters, lengths, dropout)
        return vectors

    def forward(self, batch: Batch, *carried: Tensor) -> StepOutput:
        """The summed negative log-likelihood of a batch."""
        distinct, rows, predicted, places, asked = batch
        dropout = self.config.dropout if self.training else 0.0
        encoded = self.embed(rows, dropout)
        # The gradients of a frequent word are many, and are added up in the type of this.
        exact = encoded.to(torch.promote_types(encoded.dtype, torch.float32))
        x = F.dropout(F.embedding(places, exact), dropout)
        state = carried or self.stack.start(places.shape[1])
        states, state = self.stack(x, state, distinct[places] != START, dropout)
        real = asked != NONE
        nll = self.output.loss(states[-1][real], predicted[asked[real]])
        after = tuple(part.detach() for part in state)
        return StepOutput(nll, nll.detach(), int(real.sum()), after)

    # --- what it answers ----------------------------------------------------------------------

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every word as it is written, and of every sentence end."""
        text, forms = self._by_form(sentences)
        words = Sequences(Examples.over(text, 1, self.config.boundary))
        return read_log_prob(self._reading(text, forms), words)

    def _by_form(self, sentences: Sentences) -> tuple[Sentences, Vocabulary]:
        """Text in the ids of its forms; a word of which only the id is known is written so."""
        if sentences.written is None:
            entries = self.vocabulary.entries
            sentences = replace(sentences, written=sentences.ids, forms=entries)
        return by_form(sentences, self.listed)

    def _reading(self, text: Sentences, forms: Vocabulary) -> _Reading:
        """A reader of a text, which spells each of its words once."""
        double = in_double(self)
        used = np.union1d(text.ids, [START, END]).astype(np.int64)
        rows = torch.from_numpy(self.characters.spell(forms, self.config.longest))
        table = torch.zeros(len(forms), 2 * self.config.char_units, dtype=torch.float64)
        with torch.inference_mode():
            for some in torch.split(torch.from_numpy(used), WORDS_AT_ONCE):
                table[some] = double.embed(rows[some])
        return _Reading(double, table, forms)

    @property
    def reads_on(self) -> bool:
        """Whether the state is kept over the start of a sentence."""
        return self.config.boundary == "document"

    def spell_on(
        self, sentences: Sentences, *, seed: int, length: int, temperature: float = 1.0
    ) -> list[list[str]]:
        """See ``models.capabilities.SpellsWords``."""
        text, forms = self._by_form(sentences)
        reading, found = self._reading(text, forms), list[list[str]]()
        for first in range(0, len(text), TEXTS_AT_ONCE):
            texts = range(first, min(first + TEXTS_AT_ONCE, len(text)))
            begun = [text.ids[text.starts[i] : text.starts[i + 1]] for i in texts]
            # Each has a generator of its own: a text is the same whatever is made beside it.
            draws = [np.random.default_rng([seed, i]) for i in texts]
            with torch.inference_mode():
                found += reading.go_on(begun, draws, length, temperature)
        return found

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, 2 H') float32 of any words, made in 64 bits so that none depends on the others."""
        double = in_double(self.encoder).cpu()
        found = np.empty((len(words), 2 * self.config.char_units), np.float32)
        order = np.argsort([len(word) for word in words], kind="stable")
        with torch.inference_mode():
            for first in range(0, len(words), WORDS_AT_ONCE):
                some = order[first : first + WORDS_AT_ONCE]
                ids = spelt(self.characters, [words[i] for i in some], self.config.longest)
                found[some] = double(*ids).numpy()
        return found

    def state(self) -> State:
        """The parameters by name, and the characters."""
        return {**arrays_of(self), "characters": self.characters.to_array()}


@dataclass(frozen=True, eq=False)
class _Reading:
    """A model that reads the forms of a text and spells them out.

    Attributes:
        model: in 64 bits.
        table: (F, 2 H') the vectors of all forms that are read.
        forms: with their spelling.
    """

    model: SpellingLm
    table: Tensor
    forms: Vocabulary

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Spells``."""
        return self.model.stack.start(sequences)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Spells``; inputs are forms."""
        states, state = self.model.stack(F.embedding(inputs, self.table), state, inputs != START)
        return states[-1], state

    def log_prob_of(self, hidden: Tensor, words: Tensor) -> Tensor:
        """See ``models.sequences.Spells``."""
        return self.model.output.log_prob(hidden, self.model.predicted(self.forms, words))

    def go_on(
        self,
        begun: Sequence[NDArray[np.int32]],
        draws: Sequence[np.random.Generator],
        length: int,
        temperature: float,
    ) -> list[list[str]]:
        """The new words of texts that go on side by side; see ``models.capabilities.SpellsWords``.

        Args:
            begun: the forms of each text.
            draws: the generator of each.
            length: words at most.
            temperature: of each character.
        """
        model, longest = self.model, self.model.config.longest
        # Shorter texts are filled up in front: each <s> begins anew, so that all end together.
        inputs = np.full((1 + max(map(len, begun)), len(begun)), START, np.int64)
        for i, ids in enumerate(begun):
            inputs[len(inputs) - len(ids) :, i] = ids
        hidden, state = torch.empty(0), self.start(len(begun))
        for step in torch.from_numpy(inputs):
            hidden, state = self.read(step[None], state)
        found, going = [list[str]() for _ in begun], list(range(len(begun)))
        for _ in range(length):
            own = [draws[i] for i in going]
            letters = model.output.spell(hidden[0], own, longest=longest, temperature=temperature)
            spelt = [spelt_out(model.characters, word) for word in letters]
            goes_on = torch.tensor([word is not None for word in spelt])
            going = [i for i, word in zip(going, spelt, strict=True) if word is not None]
            words = [word for word in spelt if word is not None]
            if not going:
                break
            for i, word in zip(going, words, strict=True):
                found[i].append(word)
            rows = torch.from_numpy(model.characters.read(words, width=longest + 2))
            state = tuple(part[goes_on] for part in state)
            states, state = model.stack(model.embed(rows)[None], state)
            hidden = states[-1]
        return found
