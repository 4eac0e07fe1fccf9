"""Character-aware language models: words are read letter by letter and predicted whole.

Y. Kim, Y. Jernite, D. Sontag, A. Rush, *Character-aware neural language models* (AAAI 2016; arXiv
2015). A word's characters, between marks for its two ends, go through filters of several widths
with the maximum over time, then through highway layers, and that is its vector y; an LSTM reads the
vectors, and a softmax over the vocabulary predicts the next word::

    x = CharCnn(characters of w[t-1])    z = t * relu(W_H x + b_H) + (1 - t) * x
    h[t] = LSTM(z, h[t-1])               P(w[t] | w[t-1], ...) = softmax(W h[t] + b)

What is read is how a word is written, also where the vocabulary knows it only as ``<unk>``; so any
word has a vector. Before the highway layers like spellings are near, behind them like uses.

Texts are cut into streams as in ``models.rnnlm``. Each distinct word of a batch is encoded once.

Deviations: AdamW in place of SGD; the output bias starts at the log frequencies of the words; the
maximum is taken before tanh, which changes nothing; weights start within 1 / sqrt(inputs). Where
nobody knows how an unknown word is written (text of ids alone, a generated ``<unk>``) it is read as
a character of its own, which training does not meet unless the text itself has ``<unk>``.

Shapes: ``T`` steps, ``B`` streams, ``U`` distinct words of a batch, ``W`` characters of the longest
of them, ``D`` filters, ``H`` units, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.capabilities import Decoder, LayerName
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
    CharacterMinCount,
    Clip,
    Epochs,
    LearningRate,
    Longest,
    MaxSize,
    MinCount,
    Optimizer,
    Patience,
    Precision,
    StateBoundary,
    StreamCount,
    StreamSteps,
    Warmup,
    WeightDecay,
    arrays_of,
    by_decay,
    bytes_to_train,
    loaded,
    schedule_of,
    wants_text,
)
from models.output import Output, frequencies
from models.recurrent import Stack
from models.sequences import Reader, Sequences, in_double, read_batches, read_log_prob
from models.streams import Streams
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""(U,) distinct forms, (U, W) their characters, (T, B) which of them is read, (T, B) targets."""


@dataclass(frozen=True)
class Config:
    """Settings of a character-aware language model; the sizes are its published small one."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["char-cnn"] = "char-cnn"
    char_embedding: Annotated[int, Field(ge=1, description="Width of a character's vector")] = 15
    widths: Annotated[
        tuple[Annotated[int, Field(ge=1, le=50)], ...],
        Field(min_length=1, description="Characters that a filter spans, one number a kind"),
    ] = (1, 2, 3, 4, 5, 6)
    filters: Annotated[
        tuple[Annotated[int, Field(ge=1)], ...],
        Field(min_length=1, description="Filters of each of the widths"),
    ] = (25, 50, 75, 100, 125, 150)
    highways: Annotated[int, Field(ge=1, le=8, description="Highway layers on the filters")] = 1
    layers: Annotated[int, Field(ge=1, le=16, description="LSTM layers, one on the other")] = 2
    units: Annotated[int, Field(ge=1, description="Width of an LSTM layer")] = 300
    dropout: Annotated[
        float, Field(ge=0, lt=1, description="Share of what an LSTM layer gives left out")
    ] = 0.2
    boundary: StateBoundary = "document"
    character_min_count: CharacterMinCount = 2
    longest: Longest = 50
    min_count: MinCount = 2
    max_size: MaxSize = 8000
    batch_size: StreamCount = 32
    steps: StreamSteps = 35
    accumulate: Accumulate = 1
    epochs: Epochs = 3
    patience: Patience = 1
    optimizer: Optimizer = "adamw"
    learning_rate: LearningRate = 2e-3
    warmup: Warmup = 0.02
    weight_decay: WeightDecay = 0.01
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "Char-CNN LM"
    paper: ClassVar[str] = "Kim et al. 2015"

    def __post_init__(self) -> None:
        check_filters(self.widths, self.filters, self.longest)

    def n_weights(self, words: int) -> int:
        """Parameters of a model with a vocabulary of ``words`` entries, but for its characters."""
        total = sum(self.filters)
        windows = zip(self.widths, self.filters, strict=True)
        cnn = sum(n * (w * self.char_embedding + 1) for w, n in windows)
        highways = self.highways * 2 * total * (total + 1)
        stack = sum(
            4 * self.units * ((self.units if k else total) + self.units + 1)
            for k in range(self.layers)
        )
        return cnn + highways + stack + words * (self.units + 1)

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
        return bytes_to_train(self.n_weights(words), self.optimizer)

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> CharLm:
        """Random weights; the characters are those of the training text."""
        text = inputs.tokens()
        characters = Characters.of(text, self.character_min_count)
        model = CharLm(self, inputs.vocabulary(), characters)
        model.initialize(text, torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> CharLm:
        """The model whose ``state`` this is."""
        characters = Characters.from_array(state["characters"])
        return loaded(CharLm(self, vocabulary, characters), state, "characters")


# --- the encoder ----------------------------------------------------------------------------

Activation = Literal["tanh", "relu"]
AT_ONCE = 128
"""Words of a piece; words of like length go together, so that little padding is multiplied."""
WORDS_AT_ONCE = 2048
"""Words whose vectors are made at a time when they are asked for."""
CARRY = -2.0
"""The bias of a new transform gate: it lets about an eighth through, the rest is carried."""


def check_filters(widths: Sequence[int], filters: Sequence[int], longest: int) -> None:
    """Refuse filters that no word could be read by.

    Raises:
        ValueError: there are not as many widths as numbers of filters, or one is too wide.
    """
    if len(widths) != len(filters):
        raise ValueError(
            f"there are {len(widths)} widths but numbers of filters for "
            f"{len(filters)}; give one number for each width"
        )
    if max(widths) > longest + 2:
        raise ValueError(
            f"a filter of width {max(widths)} is wider than any word: words are cut after "
            f"longest ({longest}) characters and have two marks"
        )


class Highway(nn.Module):
    """``y = t * relu(W_H x + b_H) + (1 - t) * x`` with ``t = sigmoid(W_T x + b_T)``.

    R. Srivastava, K. Greff, J. Schmidhuber, *Highway networks* (2015).

    Attributes:
        W: (2 D, D) the rows of W_H, then those of W_T.
        b: (2 D,) likewise; that of the gate is negative at the start.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(2 * width, width))
        self.b = nn.Parameter(torch.zeros(2 * width))

    def initialize(self, generator: torch.Generator) -> None:
        """Weights uniform within 1 / sqrt(D)."""
        width = self.W.shape[1]
        with torch.no_grad():
            self.W.uniform_(-(width**-0.5), width**-0.5, generator=generator)
            self.b[:width] = 0.0
            self.b[width:] = CARRY

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        h, t = F.linear(x, self.W, self.b).chunk(2, -1)
        return torch.lerp(x.to(h.dtype), F.relu(h), torch.sigmoid(t))


class CharCnn(nn.Module):
    """Words from their characters: filters of several widths, max over time, highway layers.

    With ``C`` the embeddings of a word's characters in a row, a filter ``H`` of width ``w``::

        f[i] = g(<C[i : i + w], H> + b)        y = max_i f[i]

    with g tanh or relu, which as they never fall are applied to the maximum. A word shorter than a
    filter is padded with zeros to its width; beyond that padding never reaches the maximum.

    Shapes: ``U`` words, ``W`` characters of the longest of them, ``A`` characters, ``E`` width of a
    character, ``D`` filters in all.

    Attributes:
        C: (A - 1, E) embeddings of all characters but ``PAD``, which is zeros.
        filters: for each width w (n, w E).
        biases: for each width (n,).
        highways: the layers on the filters.
        projection: (P, D) a linear layer without biases on the last of them; None for none.
    """

    def __init__(
        self,
        characters: int,
        embedding: int,
        widths: Sequence[int],
        filters: Sequence[int],
        *,
        highways: int = 1,
        activation: Activation = "tanh",
        projection: int = 0,
    ) -> None:
        """Weights are zeros until ``initialize``.

        Args:
            characters: A, with the reserved ones.
            embedding: E.
            widths: of the filters.
            filters: how many there are of each width.
            highways: layers.
            activation: g.
            projection: P; 0 for none.
        """
        super().__init__()
        self.widths, self.activation = tuple(widths), activation
        self.C = nn.Parameter(torch.zeros(characters - 1, embedding))
        self.filters = nn.ParameterList(
            nn.Parameter(torch.zeros(n, w * embedding))
            for w, n in zip(widths, filters, strict=True)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n)) for n in filters)
        total = sum(filters)
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.projection = nn.Parameter(torch.zeros(projection, total)) if projection else None
        self.width = projection or total

    def initialize(self, generator: torch.Generator) -> None:
        """Embeddings are normal; weights are uniform within 1 / sqrt(inputs), biases zeros."""
        with torch.no_grad():
            self.C.normal_(0.0, 1.0, generator=generator)
            for weight in (*self.filters, *([] if self.projection is None else [self.projection])):
                bound = weight.shape[1] ** -0.5
                weight.uniform_(-bound, bound, generator=generator)
            for bias in self.biases:
                bias.zero_()
        for layer in self.highways:
            assert isinstance(layer, Highway)
            layer.initialize(generator)

    def forward(self, spelling: Tensor) -> Tensor:
        """(U, W) characters -> (U, P or D), one vector a row."""
        x = self.features(spelling)
        for layer in self.highways:
            x = layer(x)
        return x if self.projection is None else F.linear(x, self.projection)

    def features(self, spelling: Tensor) -> Tensor:
        """(U, W) characters -> (U, D), what goes into the first highway layer."""
        sizes, order = (spelling != PAD).sum(1).sort()
        pieces = zip(torch.split(sizes, AT_ONCE), torch.split(order, AT_ONCE), strict=True)
        found = torch.cat([self._maxima(spelling[rows], size) for size, rows in pieces])
        g = torch.tanh if self.activation == "tanh" else torch.relu
        return g(found[order.argsort()])

    def _maxima(self, spelling: Tensor, sizes: Tensor) -> Tensor:
        """(U, D) of words by rising (U,) length, before g."""
        longest = max(int(sizes[-1]) if len(sizes) else 0, *self.widths)
        spelling = F.pad(spelling[:, :longest], (0, max(0, longest - spelling.shape[1])))
        x = F.embedding(spelling, F.pad(self.C, (0, 0, 1, 0))).flatten(1)
        embedding = self.C.shape[1]
        found = list[Tensor]()
        for w, weight, bias in zip(self.widths, self.filters, self.biases, strict=True):
            # A window is a stretch of the row, so all windows are a view.
            scores = F.linear(x.unfold(1, w * embedding, embedding), weight)
            places = torch.arange(scores.shape[1], device=sizes.device)
            beyond = places > (sizes[:, None] - w).clamp_min(0)
            found.append(scores.masked_fill(beyond[..., None], -torch.inf).amax(1) + bias)
        return torch.cat(found, 1)


# --- the language model -----------------------------------------------------------------------


class CharLm(nn.Module):
    """The model.

    Attributes:
        characters: those that it tells apart.
        encoder: words from characters.
        stack: the LSTM layers.
        output: the softmax over the vocabulary.
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
        )
        self.stack = Stack("lstm", self.encoder.width, config.units, config.layers)
        self.output = Output(len(vocabulary), config.units)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias of the output that of the unigram model of the text."""
        self.encoder.initialize(generator)
        self.stack.initialize(generator)
        self.output.initialize(frequencies(self.vocabulary, text), generator)

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

    def forward(self, batch: Batch, *carried: Tensor) -> StepOutput:
        """The summed negative log-likelihood of a batch."""
        distinct, spelling, places, targets = batch
        state = carried or self.stack.start(places.shape[1])
        encoded = self.encoder(spelling)
        # The gradients of a frequent word are many, and are added up in the type of this.
        exact = encoded.to(torch.promote_types(encoded.dtype, torch.float32))
        x = F.embedding(places, exact)
        dropout = self.config.dropout if self.training else 0.0
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
        words, spelt = (Examples.over(s, 1, boundary) for s in (sentences, text))
        return read_log_prob(self._reading(forms), Sequences(words, spelt=spelt))

    @property
    def reads_on(self) -> bool:
        """Whether the state is kept over the start of a sentence."""
        return self.config.boundary == "document"

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        text, forms = by_form(prefixes, self.vocabulary)
        return Reader(self._reading(forms), text)

    def _reading(self, forms: Vocabulary) -> _Reading:
        spelling = self.characters.spell(forms, self.config.longest)
        return _Reading(in_double(self), torch.from_numpy(spelling))

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32, what the LSTM reads: the last highway layer; of any word there is."""
        return self._encoded(words, lambda encoder, spelling: encoder(spelling))

    def word_layers(self) -> Mapping[LayerName, Callable[[Sequence[str]], FloatArray]]:
        """What the filters find in a word, and what the highway layers make of it."""
        return {
            "before-highway": lambda words: self._encoded(words, CharCnn.features),
            "after-highway": self.word_vectors,
        }

    def _encoded(
        self, words: Sequence[str], encode: Callable[[CharCnn, Tensor], Tensor]
    ) -> NDArray[np.float32]:
        """(N, D) of words as they are written, in 64 bits so that those beside do not matter."""
        rows = torch.from_numpy(self.characters.read(words, width=self.config.longest + 2))
        encoder = in_double(self.encoder).cpu()
        with torch.inference_mode():
            found = [encode(encoder, some).float() for some in torch.split(rows, WORDS_AT_ONCE)]
        return torch.cat(found).numpy()

    def state(self) -> State:
        """The parameters by name, and the characters."""
        return {**arrays_of(self), "characters": self.characters.to_array()}


@dataclass(frozen=True, eq=False)
class _Reading:
    """A model that reads the forms of a text.

    Attributes:
        model: in 64 bits.
        spelling: (F, W) the characters of all forms.
    """

    model: CharLm
    spelling: Tensor

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        return self.model.stack.start(sequences)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``; inputs are forms."""
        distinct, places = torch.unique(inputs, return_inverse=True)
        x = F.embedding(places, self.model.encoder(self.spelling[distinct]))
        states, state = self.model.stack(x, state, inputs != START)
        return states[-1], state

    def log_probs(self, hidden: Tensor) -> Tensor:
        """See ``models.sequences.Reads``."""
        return self.model.output.log_probs(hidden)
