"""ELMo: contextual vectors from a bidirectional language model that reads characters.

M. Peters, M. Neumann, M. Iyyer, M. Gardner, C. Clark, K. Lee, L. Zettlemoyer, *Deep contextualized
word representations* (NAACL 2018), and the released model. A word goes in as its characters,
through filters with relu, two highway layers and a linear projection (``models.char_cnn``). Two
stacks of LSTMs with projection (``models.projected``) read on, one forward and one backward; what
goes into a layer above the first is added to what comes out of it::

    x[t] = cnn(characters of w[t])    h_1 = lstm_1(x)    h_k = lstm_k(h_{k-1}) + h_{k-1}

Both predict words by one softmax, and are trained together on the sum of their log-likelihoods::

    L = - sum_t [log P(w[t] | w[t-1], ...; forward) + log P(w[t] | w[t+1], ...; backward)]

or, for a large vocabulary, on a sampled softmax, whose negatives are shared by a batch and by both
directions. Held-out text, and whatever is scored, is judged by the full softmax. ``log_prob`` is
that of the forward half, ``log_prob_backward`` that of the other: two probabilities of one text.

The vectors of a token are ``L + 1``: ``[x; x]``, and of each layer ``[forward h_k; backward h_k]``
where both have just read the token. ``models.scalar_mix`` makes one of them for a task.

A text is read in ``batch_size`` streams, ``steps`` words at a time, with the state carried over
(``models.sequences``). Words are read as they are written, also those that are ``<unk>`` to the
softmax.

Deviations: negatives are drawn with repetition; AdamW in place of Adagrad; the state starts anew in
each document or sentence; the output bias starts at the log frequencies; ``<s>`` is never
predicted. From the released program: characters are code points of the training text, not bytes,
and ``longest`` counts them without the two marks; padding never reaches the maximum; the projection
of the filters has no bias.

Shapes: ``T`` steps, ``B`` streams, ``U`` distinct words of a batch, ``R`` projected units, ``H``
cells, ``L`` layers, ``V`` vocabulary, ``N`` tokens, ``S`` sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.capabilities import Decoder
from models.char_cnn import CharCnn, check_filters
from models.characters import Characters, by_form, spelt_text
from models.examples import START, Boundary, Examples, token_examples
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
    CharacterMinCount,
    Clip,
    Epochs,
    LearningRate,
    Longest,
    MaxSize,
    MinCount,
    NoisePower,
    Patience,
    Precision,
    StateBoundary,
    StreamCount,
    StreamSteps,
    Warmup,
    WeightDecay,
    arrays_of,
    by_decay,
    loaded,
    schedule_of,
    wants_text,
)
from models.losses import Noise
from models.output import Output, draw_noise, frequencies
from models.projected import ResidualStack
from models.sequences import (
    Reader,
    Sequences,
    in_double,
    read_batches,
    read_log_prob,
    read_states,
)
from models.streams import Streams
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary

Batch = tuple[Tensor, ...]
"""(U,) distinct forms, (U, W) their characters; for each direction (T, B) which of them is read,
(T, B) targets; of the sampled softmax also what makes a ``Noise``."""
DIRECTIONS = ("forward", "backward")
WORDS_AT_ONCE = 2048
"""Words whose vectors are made at a time when they are asked for."""


@dataclass(frozen=True)
class Config:
    """Settings of a bidirectional language model over characters.

    The defaults are a quarter of the paper's in every width: it has 4,096 cells, 512 units, filters
    (32, 32, 64, 128, 256, 512, 1024), 8,192 negatives, and 128 streams of 20 words.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["elmo"] = "elmo"
    layers: Annotated[int, Field(ge=1, le=16, description="LSTM layers of a direction")] = 2
    cells: Annotated[int, Field(ge=1, description="Cells of a layer in one direction")] = 1024
    units: Annotated[
        int, Field(ge=1, description="What cells are projected to; also the width of a word")
    ] = 128
    char_embedding: Annotated[int, Field(ge=1, description="Width of a character's vector")] = 16
    widths: Annotated[
        tuple[Annotated[int, Field(ge=1, le=50)], ...],
        Field(min_length=1, description="Characters that a filter spans, one number a kind"),
    ] = (1, 2, 3, 4, 5, 6, 7)
    filters: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1, description="Filters of each of the widths"),
    ] = (8, 8, 16, 32, 64, 128, 256)
    highways: Annotated[int, Field(ge=1, le=8, description="Highway layers on the filters")] = 2
    character_min_count: CharacterMinCount = 2
    longest: Longest = 50
    clip_cell: Annotated[
        float, Field(ge=0, description="The largest size of a cell; 0: no limit")
    ] = 3.0
    clip_state: Annotated[
        float, Field(ge=0, description="The largest size of a projected unit; 0: no limit")
    ] = 3.0
    dropout: Annotated[
        float, Field(ge=0, lt=1, description="Share left out of what goes into a layer, at random")
    ] = 0.1
    boundary: StateBoundary = "document"
    min_count: MinCount = 2
    max_size: MaxSize = 50_000
    objective: Annotated[
        Literal["softmax", "sampled-softmax"],
        Field(description="What training minimizes; sampled: the sum over noise words only"),
    ] = "sampled-softmax"
    noise: Annotated[
        int, Field(ge=1, description="Noise words of the sampled softmax; a batch shares them")
    ] = 2048
    noise_by: Annotated[
        Literal["counts", "ranks"],
        Field(description="Noise by the counts to noise_power, or log-uniform by their ranks"),
    ] = "counts"
    noise_power: NoisePower = 0.75
    batch_size: StreamCount = 32
    steps: StreamSteps = 20
    accumulate: Accumulate = 1
    epochs: Epochs = 3
    patience: Patience = 1
    learning_rate: LearningRate = 2e-3
    warmup: Warmup = 0.02
    weight_decay: WeightDecay = 0.01
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "ELMo"
    paper: ClassVar[str] = "Peters et al. (2018), arXiv:1802.05365"

    def __post_init__(self) -> None:
        check_filters(self.widths, self.filters, self.longest)
        idle = {
            "noise": self.objective == "softmax",
            "noise_by": self.objective == "softmax",
            "noise_power": self.objective == "softmax" or self.noise_by == "ranks",
        }
        defaults = {field.name: field.default for field in fields(self)}
        for name in (n for n, has_no_part in idle.items() if has_no_part):
            if getattr(self, name) != defaults[name]:
                beside = "objective" if self.objective == "softmax" else "noise_by"
                raise ValueError(f"{name} has no part in {beside}: {getattr(self, beside)}")

    def n_weights(self, words: int) -> int:
        """Parameters of a model with a vocabulary of ``words`` entries, but for its characters."""
        total = sum(self.filters)
        windows = zip(self.widths, self.filters, strict=True)
        cnn = sum(n * (w * self.char_embedding + 1) for w, n in windows)
        cnn += self.highways * 2 * total * (total + 1) + total * self.units
        layer = 4 * self.cells * (2 * self.units + 1) + self.cells * self.units
        return cnn + len(DIRECTIONS) * self.layers * layer + words * (self.units + 1)

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
        return self.n_weights(words) * 4 * 4

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> Elmo:
        """Random weights; the output bias holds the log frequencies of the training text."""
        text = inputs.tokens()
        characters = Characters.of(text, self.character_min_count)
        model = Elmo(self, inputs.vocabulary(), characters)
        model.initialize(text, torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> Elmo:
        """The model whose ``state`` this is."""
        characters = Characters.from_array(state["characters"])
        return loaded(Elmo(self, vocabulary, characters), state, "characters")


class Elmo(nn.Module):
    """The model.

    Attributes:
        characters: the table of characters; it is part of the state.
        encoder: words from their characters.
        stacks: the layers that read forward, and those that read backward.
        output: the softmax of both directions.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, characters: Characters) -> None:
        super().__init__()
        self.config, self.vocabulary, self.characters = config, vocabulary, characters
        self.encoder = CharCnn(
            len(characters),
            config.char_embedding,
            config.widths,
            config.filters,
            highways=config.highways,
            activation="relu",
            projection=config.units,
        )
        clips = {"clip_cell": config.clip_cell, "clip_state": config.clip_state}
        self.stacks = nn.ModuleList(
            ResidualStack(config.units, config.cells, config.layers, **clips) for _ in DIRECTIONS
        )
        sampled = config.objective == "sampled-softmax"
        self.output = Output(
            len(vocabulary), config.units, "importance-sampling" if sampled else "softmax"
        )

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias of the output that of the unigram model of the text."""
        self.encoder.initialize(generator)
        for i in range(len(DIRECTIONS)):
            self.stack(i).initialize(generator)
        self.output.initialize(frequencies(self.vocabulary, text), generator)

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        return schedule_of(self.config, sampled=self.config.objective != "softmax")

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Matrices with decay, biases without."""
        return by_decay(self.parameters(), self.config.weight_decay)

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch."""
        return len(self._layout(inputs.tokens(role)))

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's streams of every global batch; see ``Batch``.

        Noise is drawn for a batch by its seed, epoch and number, and is the same on every rank.
        """
        config, text = self.config, inputs.tokens(plan.role)
        characters, examples, spelt = spelt_text(
            self.characters, self.vocabulary, text, config.longest, config.boundary
        )
        spelling = torch.from_numpy(characters)
        directions = [Sequences(examples, d == "backward", spelt) for d in DIRECTIONS]
        weights = self._noise_weights(text)
        every = read_batches(directions, self._layout(text), config.batch_size, 0, plan)
        for number, batch in enumerate(every, plan.start):
            read, targets = torch.stack(batch[::2]), torch.stack(batch[1::2])
            distinct, places = torch.unique(read, return_inverse=True)
            drawn: tuple[Tensor, ...] = ()
            if config.objective == "sampled-softmax" and plan.role == "train":
                asked = targets[targets >= 0].numpy()
                seed = plan.seed, plan.epoch, number
                drawn = draw_noise(*weights, config.noise, asked, seed)
            each = places[0], targets[0], places[1], targets[1]
            yield (distinct, spelling[distinct], *each, *drawn)

    def _layout(self, text: Tokens) -> Streams:
        return Streams.of(text, self.config.batch_size, self.config.steps)

    def _noise_weights(self, text: Tokens) -> tuple[NDArray[np.float64], float]:
        """(V,) what noise is drawn by, less one, and the power.

        By ranks it is Zipf's law, log((r + 2) / (r + 1)) of the r-th most frequent entry.
        """
        counts = frequencies(self.vocabulary, text)
        if self.config.noise_by == "counts":
            return counts, self.config.noise_power
        rank = np.argsort(np.argsort(-counts, kind="stable"))
        return np.log1p(1 / (rank + 1.0)) - 1, 1.0

    # --- reading ------------------------------------------------------------------------------

    def stack(self, i: int) -> ResidualStack:
        """Of the directions the numbered one."""
        stack = self.stacks[i]
        assert isinstance(stack, ResidualStack)
        return stack

    def forward(self, batch: Batch, *carried: Tensor) -> StepOutput:
        """The summed objective of a batch over both directions; each distinct word is read once."""
        distinct, dropout = batch[0], self.config.dropout if self.training else 0.0
        encoded = self.encoder(batch[1])
        # The gradients of a frequent word are many, and are added up in the type of this.
        words = encoded.to(torch.promote_types(encoded.dtype, torch.float32))
        hidden, asked, after = list[Tensor](), list[Tensor](), list[Tensor]()
        for i in range(len(DIRECTIONS)):
            stack, (places, targets) = self.stack(i), batch[2 * i + 2 : 2 * i + 4]
            size = len(carried) // len(DIRECTIONS)
            state = carried[i * size : (i + 1) * size] or stack.start(places.shape[1])
            keep = distinct[places] != START
            states, state = stack(F.embedding(places, words), state, keep, dropout)
            hidden.append(F.dropout(states[-1][targets >= 0], dropout))
            asked.append(targets[targets >= 0])
            after += [part.detach() for part in state]
        targets, noise = torch.cat(asked), Noise(*batch[6:]) if len(batch) > 6 else None
        objective = self.output.loss(torch.cat(hidden), targets, noise=noise)
        return StepOutput(objective, objective.detach(), len(targets), tuple(after))

    # --- what it answers ----------------------------------------------------------------------

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every word and sentence end, given what is before it in its unit."""
        return self._log_prob(sentences, 0)

    @property
    def scores_backward(self) -> bool:
        """It has a backward half besides the forward one."""
        return True

    def log_prob_backward(self, sentences: Sentences) -> NDArray[np.float64]:
        """See ``models.capabilities.ScoresBackward``."""
        return self._log_prob(sentences, 1)

    def _log_prob(self, sentences: Sentences, i: int) -> NDArray[np.float64]:
        spelling, texts = self._texts(sentences)
        return read_log_prob(self._half(i, spelling), texts[i])

    def _texts(
        self, sentences: Sentences, boundary: Boundary | None = None
    ) -> tuple[Tensor, list[Sequences]]:
        """(F, W) the characters of the forms of a text, and the text in each direction."""
        spelt, forms = by_form(sentences, self.vocabulary)
        boundary = boundary or self.config.boundary
        examples, written = (Examples.over(text, 1, boundary) for text in (sentences, spelt))
        texts = [Sequences(examples, d == "backward", written) for d in DIRECTIONS]
        return self._spell(forms), texts

    def _half(self, i: int, spelling: Tensor, *, every_layer: bool = False) -> _Half:
        parts = (in_double(self.encoder), in_double(self.stack(i)), in_double(self.output))
        return _Half(*parts, spelling, every_layer)

    def _spell(self, forms: Vocabulary) -> Tensor:
        return torch.from_numpy(self.characters.spell(forms, self.config.longest))

    @property
    def reads_on(self) -> bool:
        """Whether the state is kept over the start of a sentence."""
        return self.config.boundary == "document"

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``; the forward half goes on."""
        spelt, forms = by_form(prefixes, self.vocabulary)
        return Reader(self._half(0, self._spell(forms)), spelt)

    @property
    def layers(self) -> tuple[str, ...]:
        """See ``models.capabilities.EmbedsTokens``."""
        return ("characters", *(str(k + 1) for k in range(self.config.layers)))

    def token_vectors(self, sentences: Sentences) -> Sequence[FloatArray]:
        """L + 1 times (N, 2 R) float32, both directions side by side.

        In the lowest layer, which knows no context, they are equal, as in the paper.
        """
        spelling, texts = self._texts(sentences)
        places, found = token_examples(sentences), []
        for i, text in enumerate(texts):
            half = self._half(i, spelling, every_layer=True)
            width = len(self.layers) * self.config.units
            states = read_states(half, text, text.read_at(places), width)
            found.append(np.split(states, len(self.layers), axis=1))
        return [np.concatenate(both, axis=1) for both in zip(*found, strict=True)]

    def sentence_vectors(self, sentences: Sentences) -> FloatArray:
        """(S, 2 R) float32, the last states of the highest layer in both directions."""
        spelling, texts = self._texts(sentences, "sentence")
        ends = sentences.starts[1:] + np.arange(len(sentences))
        states = [
            read_states(self._half(i, spelling), text, ends, self.config.units)
            for i, text in enumerate(texts)
        ]
        return np.concatenate(states, axis=1)

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, R) float32, of any word: what the layers read, which knows no context."""
        rows = torch.from_numpy(self.characters.read(words, width=self.config.longest + 2))
        encoder = in_double(self.encoder).cpu()
        with torch.inference_mode():
            found = [encoder(some).float() for some in torch.split(rows, WORDS_AT_ONCE)]
        vectors: NDArray[np.float32] = torch.cat(found).numpy()
        return vectors

    def state(self) -> State:
        """The parameters by name, and the characters as (A, 2) code points and counts."""
        return {**arrays_of(self), "characters": self.characters.to_array()}


@dataclass(frozen=True, eq=False)
class _Half:
    """One direction of a model, in 64 bits, that reads the forms of a text.

    Attributes:
        encoder: words from their characters.
        stack: the layers.
        output: the softmax.
        spelling: (F, W) the characters of all forms.
        every_layer: states are those of all layers, the words first, and not only of the last.
    """

    encoder: CharCnn
    stack: ResidualStack
    output: Output
    spelling: Tensor
    every_layer: bool = False

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        return self.stack.start(sequences)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``; inputs are forms."""
        distinct, places = torch.unique(inputs, return_inverse=True)
        x = F.embedding(places, self.encoder(self.spelling[distinct]))
        states, state = self.stack(x, state, inputs != START)
        return torch.cat([x, *states], -1) if self.every_layer else states[-1], state

    def log_probs(self, hidden: Tensor) -> Tensor:
        """See ``models.sequences.Reads``."""
        return self.output.log_probs(hidden)
