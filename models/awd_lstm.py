"""The AWD-LSTM of Merity, Keskar and Socher (2017), the language model of ULMFiT.

Three layers of LSTM, the last as wide as a word's vector, whose table is also the softmax (Press
and Wolf 2017). What is new is how it is kept from learning by heart::

    x[t]   = m_x * (m_w(w[t-1]) C(w[t-1]))        whole words left out, then a locked mask
    h_k    = layer_k(m_k * h_{k-1}; W_k, M_k * U_k)
    P(w[t] | w[t-1], ...) = softmax(C (m_K * h_K[t]) + b)

A *locked* mask m is one for all steps of a stream in a batch (Gal and Ghahramani 2016); M drops
weights of the recurrent matrix (DropConnect, Wan et al. 2013), one mask for all steps and streams
of a batch. To the mean loss of a word are added (Merity, McCann and Socher 2017), with |.|^2 the
mean of squares over the width::

    alpha |m_K * h_K[t]|^2 + beta |h_K[t] - h_K[t-1]|^2

They are in the objective and not in the likelihood, so training perplexity stays a perplexity.

Batches vary in length around ``steps`` and the learning rate with them (``models.streams``). The
authors' program trains by ``optimizer: sgd, learning_rate: 30, clip: 0.25, schedule: constant,
average: 5, weight_decay: 1.2e-6, epochs: 500, units: 1150, embedding: 400, steps: 70, batch_size:
20`` and dropouts ``input_dropout: 0.4, hidden_dropout: 0.25, output_dropout: 0.4, weight_drop: 0.5,
word_dropout: 0.1`` on the Penn Treebank. ULMFiT (Howard and Ruder 2018) goes on from such a model
on other text: rates slant (``schedule``) and are lower in lower layers (``layer_decay: 2.6``), and
the vector of a new word begins as the mean of those that are known.

Deviations: the bias of the output starts at the log frequencies of the words; ``<s>`` is never
predicted, and where it begins a document the state starts anew; lengths of batches are stretched so
that every epoch has equally many. The tied table learns with the highest layer; in ULMFiT's program
it is a group of its own, at half that rate. In bfloat16 the masked U is what is rounded.

Shapes: ``T`` steps, ``B`` streams, ``E`` embedding, ``H`` units, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.capabilities import Decoder, TableName
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
    Epochs,
    LearningRate,
    MaxSize,
    MinCount,
    Optimizer,
    Patience,
    Precision,
    StateBoundary,
    StreamCount,
    WeightDecay,
    arrays_of,
    known_rows,
    loaded,
    rows_of,
    schedule_of,
    wants_text,
)
from models.output import Output, frequencies
from models.recurrent import Recurrent
from models.sequences import Reader, Sequences, in_double, read_batches, read_log_prob
from models.streams import Streams
from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary

Batch = tuple[Tensor, ...]
"""Inputs and targets (T, B)."""


@dataclass(frozen=True)
class Config:
    """Settings of an AWD-LSTM."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["awd-lstm"] = "awd-lstm"
    layers: Annotated[int, Field(ge=1, le=16, description="Layers, one on the other")] = 3
    units: Annotated[int, Field(ge=1, description="Width of all layers but the last")] = 512
    embedding: Annotated[
        int, Field(ge=1, description="Width of a word's vector and of the last layer")
    ] = 256
    word_dropout: Annotated[
        float,
        Field(ge=0, lt=1, description="Share of words left out of a batch, wherever they are"),
    ] = 0.05
    input_dropout: Annotated[
        float, Field(ge=0, lt=1, description="Share left out of words' vectors, at all steps alike")
    ] = 0.2
    hidden_dropout: Annotated[float, Field(ge=0, lt=1, description="The same between layers")] = (
        0.15
    )
    output_dropout: Annotated[
        float, Field(ge=0, lt=1, description="The same of what the last layer gives")
    ] = 0.3
    weight_drop: Annotated[
        float, Field(ge=0, lt=1, description="Share left out of the recurrent weights, for a batch")
    ] = 0.2
    alpha: Annotated[
        float, Field(ge=0, description="Penalty on large states of the last layer (AR)")
    ] = 2.0
    beta: Annotated[
        float, Field(ge=0, description="Penalty on their changes from step to step (TAR)")
    ] = 1.0
    boundary: StateBoundary = "document"
    min_count: MinCount = 2
    max_size: MaxSize = 30_000
    batch_size: StreamCount = 32
    steps: Annotated[
        int,
        Field(ge=1, description="Words of a stream in a batch, about; gradients go so far back"),
    ] = 35
    vary: Annotated[
        bool, Field(description="Batches vary in length at random, and the rate with them")
    ] = True
    accumulate: Accumulate = 1
    epochs: Epochs = 8
    patience: Patience = 0
    optimizer: Optimizer = "adamw"
    average: Annotated[
        int,
        Field(
            ge=0,
            description="Weights are averaged once the held-out loss is above the best of those "
            "before the last this many epochs; 0: never, nor without held-out text",
        ),
    ] = 0
    learning_rate: LearningRate = 3e-3
    schedule: Annotated[
        Literal["constant", "slanted", "cosine"],
        Field(description="The rate is the same throughout, or rises and falls"),
    ] = "slanted"
    cut: Annotated[
        float, Field(gt=0, lt=1, description="Share of all steps in which the rate rises")
    ] = 0.1
    ratio: Annotated[float, Field(ge=1, description="The highest rate by the lowest")] = 32.0
    layer_decay: Annotated[
        float, Field(ge=1, description="The rate of a layer by that of the one below")
    ] = 1.0
    weight_decay: WeightDecay = 0.01
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "AWD-LSTM"
    paper: ClassVar[str] = "Merity, Keskar & Socher 2017"
    lasting: ClassVar[tuple[str, ...]] = ("layers", "units", "embedding")

    def __post_init__(self) -> None:
        defaults = {field.name: field.default for field in fields(self)}
        idle = {
            "schedule: constant": ("cut", "ratio") if self.schedule == "constant" else (),
            "layers: 1": ("units", "hidden_dropout") if self.layers == 1 else (),
        }
        for beside, names in idle.items():
            for name in names:
                if getattr(self, name) != defaults[name]:
                    raise ValueError(f"{name} has no part in {beside}")
        if self.average and self.epochs < self.average + 3:
            raise ValueError(
                f"in {self.epochs} epochs no weights are averaged; make it at least "
                f"{self.average + 3}, average ({self.average}) and 3 more, or average 0"
            )
        # Averages may begin only where the best loss is average + 1 evaluations old.
        if self.average and 0 < self.patience <= self.average + 1:
            raise ValueError(
                f"patience ({self.patience}) can end the training before weights are averaged; "
                f"make it at least {self.average + 2}, average ({self.average}) and 2 more"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the input and of each layer."""
        return (self.embedding, *[self.units] * (self.layers - 1), self.embedding)

    def n_weights(self, words: int) -> int:
        """Parameters of a model with a vocabulary of ``words`` entries."""
        layers = sum(4 * n * (m + n + 1) for m, n in pairwise(self.widths))
        return words * (self.embedding + 1) + layers

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
        kept = (4 if self.optimizer == "adamw" else 2) + (self.average > 0)
        return self.n_weights(words) * 4 * kept

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> AwdLstm:
        """Random weights; the output bias holds the log frequencies of the training text."""
        model = AwdLstm(self, inputs.vocabulary())
        model.initialize(inputs.tokens(), torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> AwdLstm:
        """The model whose ``state`` this is."""
        return loaded(AwdLstm(self, vocabulary), state)


class AwdLstm(nn.Module):
    """The model.

    Attributes:
        C: (V, E) embeddings, and weights of the softmax.
        layers: of LSTM, from the input up.
        output: the softmax over C.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        widths = config.widths
        self.C = nn.Parameter(torch.zeros(len(vocabulary), config.embedding))
        self.layers = nn.ModuleList(
            Recurrent("lstm", before, units) for before, units in pairwise(widths)
        )
        self.output = Output(len(vocabulary), config.embedding, tied=True)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias of the output that of the unigram model of the text."""
        with torch.no_grad():
            self.C.uniform_(-0.1, 0.1, generator=generator)
        for layer in self._layers():
            layer.initialize(generator)
        self.output.initialize(frequencies(self.vocabulary, text), generator)

    def grow_from(self, base: AwdLstm) -> None:
        """The layers, and all rows of the entries that a base knows, the reserved included.

        The vector of a new word begins as the mean of the known words' (Howard and Ruder 2018), its
        output bias stays at its log frequency, as of a model not trained.
        """
        places = known_rows(self.vocabulary, base.vocabulary)
        theirs = dict(base.named_parameters())
        with torch.no_grad():
            self.C.copy_(base.C[len(LM_RESERVED) :].mean(0))
            for name, ours in self.named_parameters():
                ours[places if name in ("C", "output.b") else slice(None)] = theirs[name]

    # --- training -----------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it."""
        config, moves = self.config, self.config.schedule != "constant"
        return schedule_of(
            config,
            warmup=config.cut if moves else 0.0,
            start=1 / config.ratio if moves else 1.0,
            floor=1 / config.ratio if moves else 1.0,
            shape="cosine" if config.schedule == "cosine" else "linear",
        )

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Of each layer, from the input up, matrices with decay and biases without.

        A layer learns by ``layer_decay`` slower than the one above. The table and the bias of the
        softmax learn with the last layer.
        """
        config, layers = self.config, list(self._layers())
        groups = list[Mapping[str, Any]]()
        for k, layer in enumerate(layers):
            parameters = list(layer.parameters())
            if k + 1 == len(layers):
                parameters += [self.C, self.output.b]
            rate = config.layer_decay ** -(len(layers) - 1 - k)
            for matrices, decay in ((True, config.weight_decay), (False, 0.0)):
                chosen = [p for p in parameters if (p.dim() > 1) == matrices]
                groups.append({"params": chosen, "weight_decay": decay, "rate": rate})
        return groups

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch."""
        return len(self._streams(inputs, role))

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's streams; in training, batches vary in length anew in every epoch."""
        config, text = self.config, inputs.tokens(plan.role)
        examples = Examples.of(text, self.vocabulary, 1, config.boundary)
        vary = config.vary and plan.role == "train"
        streams = self._streams(inputs, plan.role, (plan.seed, plan.epoch) if vary else None)
        return read_batches([Sequences(examples)], streams, config.batch_size, 0, plan)

    def _streams(
        self, inputs: Inputs, role: Literal["train", "heldout"], seed: tuple[int, ...] | None = None
    ) -> Streams:
        return Streams.of(inputs.tokens(role), self.config.batch_size, self.config.steps, seed)

    def forward(self, batch: Batch, *carried: Tensor) -> StepOutput:
        """The summed objective of a batch."""
        config, (inputs, targets) = self.config, batch
        asked, steps = targets >= 0, len(inputs)
        state = carried or self.start(inputs.shape[1])
        hidden, state = self._states(inputs, state, dropped=self.training)
        seen = locked_dropout(hidden, config.output_dropout if self.training else 0.0)[asked]
        nll = objective = self.output.loss(seen, targets[asked], self.C)
        if self.training:
            goes_on = (asked & (inputs != START))[1:]
            change = (hidden[1:] - hidden[:-1])[goes_on]
            objective = nll + config.alpha * _size(seen) + config.beta * _size(change)
        return StepOutput(
            objective,
            nll.detach(),
            int(asked.sum()),
            tuple(part.detach() for part in state),
            rate=steps / config.steps if config.vary else 1.0,
        )

    # --- reading ------------------------------------------------------------------------------

    def _layers(self) -> Iterator[Recurrent]:
        for layer in self.layers:
            assert isinstance(layer, Recurrent)
            yield layer

    def _states(
        self, inputs: Tensor, state: tuple[Tensor, ...], *, dropped: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(T, B) ids -> (T, B, E) states of the last layer, and the last states of all."""
        config, on = self.config, float(dropped)
        x = F.embedding(inputs, self.C)
        words = F.dropout(x.new_ones(len(self.C), 1), on * config.word_dropout)
        x = locked_dropout(x * words[inputs], on * config.input_dropout)
        after = list[Tensor]()
        for k, layer in enumerate(self._layers()):
            x = locked_dropout(x, on * config.hidden_dropout) if k else x
            own = state[2 * k : 2 * k + 2]
            x, own = layer(x, own, inputs != START, on * config.weight_drop)
            after += own
        return x, tuple(after)

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        return tuple(part for layer in self._layers() for part in layer.start(sequences))

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``."""
        return self._states(inputs, state, dropped=False)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., E) -> (..., V) nats of the next word, -inf at ``<s>``."""
        return self.output.log_probs(hidden, self.C)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every word and sentence end, given what is before it in its unit."""
        examples = Examples.over(sentences, 1, self.config.boundary)
        return read_log_prob(in_double(self), Sequences(examples))

    @property
    def reads_on(self) -> bool:
        """Whether the state is kept over the start of a sentence."""
        return self.config.boundary == "document"

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        return Reader(in_double(self), prefixes)

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, E) float32, the embeddings; NaN for a word that is not in the vocabulary."""
        return rows_of(self.C.detach().cpu().numpy(), self.vocabulary, words)

    @property
    def own_table(self) -> TableName:
        """A word's vector is its embedding."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The embeddings (V, E)."""
        return {"input": self.C.detach().cpu().numpy()[len(LM_RESERVED) :]}

    def state(self) -> State:
        """The parameters by name."""
        return arrays_of(self)


def locked_dropout(x: Tensor, share: float) -> Tensor:
    """(T, B, D) with a share of the D left out at random, of each stream the same at all steps."""
    return x * F.dropout(x.new_ones(1, *x.shape[1:]), share)


def _size(x: Tensor) -> Tensor:
    """Of (N, D) the sum over N of the mean of squares."""
    return x.square().sum(dtype=torch.promote_types(x.dtype, torch.float32)) / x.shape[1]
