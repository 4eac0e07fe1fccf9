"""Recurrent language models: Elman, LSTM and GRU, forward, backward, or both trained together.

A word is predicted from the state of a stack of recurrent layers that has read those before it
(Mikolov et al. 2010; of LSTMs Sundermeyer, Schlueter and Ney 2012; dropout between layers and never
along them from Zaremba, Sutskever and Vinyals 2014)::

    h_0[t] = C(w[t-1])    h_k = layer_k(h_{k-1})    P(w[t] | w[t-1], ...) = softmax(W h_K[t] + b)

Read backward the words after it predict a word. ``both`` trains two stacks that share embeddings
and softmax on the sum of both log-likelihoods (Peters et al. 2018, without their char-CNN).

A text is read in ``batch_size`` streams, ``steps`` words at a time; the state is carried over from
batch to batch, and gradients end there (truncated back-propagation through time). With ``stride``
it is cut into windows instead, which overlap and start from zeros. The state starts anew in every
unit: a document or a sentence (``boundary``).

Units are what the corpus was cut into, words or characters.

Deviations: the biases of the output start at the log frequencies of the words; ``<s>`` is never
predicted; Elman's layer has tanh where Mikolov et al. had the sigmoid. A forward model scores texts
left to right, a backward one right to left; one of both scores with its forward half.

Shapes: ``T`` steps, ``B`` streams, ``E`` embedding, ``H`` units, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.capabilities import Decoder, TableName
from models.examples import START, Examples, token_examples
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
    MaxSize,
    MinCount,
    NoisePower,
    Optimizer,
    Patience,
    Precision,
    StateBoundary,
    StreamSteps,
    Warmup,
    WeightDecay,
    arrays_of,
    by_decay,
    bytes_to_train,
    known_rows,
    loaded,
    rows_of,
    schedule_of,
    wants_text,
)
from models.losses import Noise, Objective
from models.output import AdaptiveOutput, Output, draw_noise, frequencies
from models.recurrent import GATES, Cell, Reset, Stack, Update
from models.sequences import (
    Reader,
    Sequences,
    in_double,
    n_batches,
    read_batches,
    read_log_prob,
    read_states,
)
from models.streams import Streams, Windows
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary

Direction = Literal["forward", "backward", "both"]
Batch = tuple[Tensor, ...]
"""Inputs and targets (T, B) of each direction; of a sampled objective also, for each direction,
what makes a ``Noise``."""


@dataclass(frozen=True)
class Config:
    """Settings of a recurrent language model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["rnnlm"] = "rnnlm"
    cell: Annotated[Cell, Field(description="What a layer is made of")] = "lstm"
    layers: Annotated[int, Field(ge=1, le=16, description="Layers, one on the other")] = 1
    units: Annotated[int, Field(ge=1, description="Width of a layer")] = 256
    embedding: Annotated[
        int, Field(ge=0, description="Width of a word's vector; 0: words go in one-hot")
    ] = 256
    direction: Annotated[
        Direction, Field(description="Read forward, backward, or two stacks that do both")
    ] = "forward"
    reset: Annotated[
        Reset, Field(description="Of the GRU: the gate acts before or after the product")
    ] = "after"
    update: Annotated[
        Update, Field(description="Of the GRU: z keeps the state, or replaces it")
    ] = "keep"
    tied: Annotated[
        bool,
        Field(description="The output weights are the embeddings; units equals embedding"),
    ] = False
    dropout: Dropout = 0.2
    boundary: StateBoundary = "document"
    min_count: MinCount = 2
    max_size: MaxSize = 8000
    objective: Annotated[
        Objective | Literal["adaptive-softmax"],
        Field(
            description="What training minimizes; adaptive: narrow states for rare words; the "
            "sampled ones look at noise words only, negative-sampling makes no language model"
        ),
    ] = "softmax"
    noise: Annotated[
        int, Field(ge=1, description="Noise words of a sampled objective; a batch shares them")
    ] = 1024
    noise_power: NoisePower = 0.75
    batch_size: Annotated[
        int, Field(ge=1, description="Streams of text, or windows, of all workers together")
    ] = 32
    steps: StreamSteps = 35
    stride: Annotated[
        int,
        Field(ge=0, description="Windows in place of streams, one every so many words; 0: none"),
    ] = 0
    last: Annotated[
        int, Field(ge=0, description="Predict only so many words at the end of a piece; 0: all")
    ] = 0
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
    title: ClassVar[str] = "Recurrent LM"
    paper: ClassVar[str] = "Mikolov et al. 2010"
    lasting: ClassVar[tuple[str, ...]] = (
        "cell", "layers", "units", "embedding", "direction", "reset", "update", "tied", "objective",
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.tied and self.units != self.embedding:
            raise ValueError(
                f"tied output weights need units ({self.units}) equal to embedding "
                f"({self.embedding})"
            )
        if self.tied and self.objective == "adaptive-softmax":
            raise ValueError("adaptive-softmax has output weights of its own; leave out tied")
        if self.last > self.steps:
            raise ValueError(
                f"the last {self.last} steps cannot be predicted of {self.steps}; lower last, or "
                "set it to 0 to predict all"
            )
        self._refuse_what_has_no_part()

    def _refuse_what_has_no_part(self) -> None:
        """A setting that would change nothing was meant to change something."""
        idle = {
            "noise": not self.sampled,
            "noise_power": not self.sampled,
            "reset": self.cell != "gru",
            "update": self.cell != "gru",
        }
        defaults = {field.name: field.default for field in fields(self)}
        for name in (n for n, has_no_part in idle.items() if has_no_part):
            if getattr(self, name) != defaults[name]:
                beside = "cell" if name in ("reset", "update") else "objective"
                raise ValueError(f"{name} has no part in {beside}: {getattr(self, beside)}")

    @property
    def sampled(self) -> bool:
        """Whether training looks at noise words."""
        return self.objective not in ("softmax", "adaptive-softmax")

    @property
    def directions(self) -> tuple[Literal["forward", "backward"], ...]:
        """Of its stacks."""
        return ("forward", "backward") if self.direction == "both" else (self.direction,)

    def n_weights(self, words: int) -> int:
        """Parameters of a model with a vocabulary of ``words`` entries, at least."""
        first, gates = self.embedding or words, GATES[self.cell]
        stack = sum(
            gates * self.units * ((self.units if k else first) + self.units + 1)
            for k in range(self.layers)
        )
        narrow = 0.1 if self.objective == "adaptive-softmax" else 1.0
        output = 0 if self.tied else round(narrow * words * self.units)
        return words * (self.embedding + 1) + len(self.directions) * stack + output

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
        return bytes_to_train(self.n_weights(words), self.optimizer)

    @property
    def fixed(self) -> str:
        """Why a model cannot go on over new words, empty where it can."""
        if self.embedding == 0 or self.objective == "adaptive-softmax":
            return "one-hot inputs and the adaptive softmax take in no new words"
        return ""

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> Rnnlm:
        """Random weights; the output bias holds the log frequencies of the training text."""
        model = Rnnlm(self, inputs.vocabulary())
        model.initialize(inputs.tokens(), torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> Rnnlm:
        """The model whose ``state`` this is."""
        return loaded(Rnnlm(self, vocabulary), state)


class Rnnlm(nn.Module):
    """The model.

    Attributes:
        C: (V, E) embeddings; None where words go in one-hot.
        stacks: the layers of each of the directions.
        output: the softmax of both directions.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        words, units = len(vocabulary), config.units
        self.C = nn.Parameter(torch.zeros(words, config.embedding)) if config.embedding else None
        gates: dict[str, Any] = {"reset": config.reset, "update": config.update}
        self.stacks = nn.ModuleList(
            Stack(config.cell, config.embedding or words, units, config.layers, **gates)
            for _ in config.directions
        )
        self.output: Output | AdaptiveOutput
        if config.objective == "adaptive-softmax":
            self.output = AdaptiveOutput(words, units)
        else:
            self.output = Output(words, units, config.objective, tied=config.tied)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias of the output that of the unigram model of the text."""
        if self.C is not None:
            with torch.no_grad():
                self.C.normal_(0.0, 0.1, generator=generator)
        for i in range(len(self.stacks)):
            self._stack(i).initialize(generator)
        self.output.initialize(frequencies(self.vocabulary, text), generator)

    def grow_from(self, base: Rnnlm) -> None:
        """The layers, and all rows of the entries that a base knows, the reserved included.

        The output bias of a new word stays at its log frequency, as of a model not trained.

        Raises:
            ValueError: see ``Config.fixed``.
        """
        if self.config.fixed:
            raise ValueError(self.config.fixed)
        places = known_rows(self.vocabulary, base.vocabulary)
        theirs = dict(base.named_parameters())
        with torch.no_grad():
            for name, ours in self.named_parameters():
                rows = places if name in ("C", "output.W", "output.b") else slice(None)
                ours[rows] = theirs[name]

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        return schedule_of(self.config, sampled=self.config.sampled)

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Matrices with decay, biases without."""
        return by_decay(self.parameters(), self.config.weight_decay)

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch."""
        return n_batches(self._layout(inputs, role), self.config.batch_size)

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's streams, or its share of the windows, of every global batch.

        Noise is drawn for a batch by its seed, epoch and number, and is the same on every rank.
        """
        config, text = self.config, inputs.tokens(plan.role)
        examples = Examples.of(text, self.vocabulary, 1, config.boundary)
        directions = [Sequences(examples, d == "backward") for d in config.directions]
        layout = self._layout(inputs, plan.role)
        counts = frequencies(self.vocabulary, text)
        every = read_batches(directions, layout, config.batch_size, config.last, plan)
        for number, batch in enumerate(every, plan.start):
            drawn = list[Tensor]()
            if config.sampled and plan.role == "train":
                for targets in batch[1::2]:
                    asked = targets[targets >= 0].numpy()
                    seed = plan.seed, plan.epoch, number
                    drawn += draw_noise(counts, config.noise_power, config.noise, asked, seed)
            yield (*batch, *drawn)

    def _layout(self, inputs: Inputs, role: Literal["train", "heldout"]) -> Streams | Windows:
        config, text = self.config, inputs.tokens(role)
        if config.stride:
            return Windows(text.n_tokens + text.n_sentences, config.steps, config.stride)
        return Streams.of(text, config.batch_size, config.steps)

    # --- reading ------------------------------------------------------------------------------

    def _stack(self, i: int = 0) -> Stack:
        """Of the directions the numbered one; the first gives probabilities."""
        stack = self.stacks[i]
        assert isinstance(stack, Stack)
        return stack

    def embed(self, inputs: Tensor) -> Tensor:
        """(T, B) ids -> (T, B, E), or (T, B, V) one-hot."""
        if self.C is not None:
            return F.embedding(inputs, self.C)
        return F.one_hot(inputs, len(self.vocabulary)).to(next(self.parameters()).dtype)

    def forward(self, batch: Batch, *carried: Tensor) -> StepOutput:
        """The summed objective of a batch, over both directions if there are two."""
        n, dropout = len(self.config.directions), self.config.dropout if self.training else 0.0
        losses, scored, after = list[Tensor](), 0, list[Tensor]()
        for i in range(n):
            stack, (inputs, targets) = self._stack(i), batch[2 * i : 2 * i + 2]
            size = len(carried) // n
            state = carried[i * size : (i + 1) * size] or stack.start(inputs.shape[1])
            x = F.dropout(self.embed(inputs), dropout)
            states, state = stack(x, state, inputs != START, dropout)
            asked = targets >= 0
            drawn = batch[2 * n + 3 * i : 2 * n + 3 * i + 3]
            losses.append(self._loss(states[-1][asked], targets[asked], drawn))
            scored += int(asked.sum())
            if not self.config.stride:
                after += [part.detach() for part in state]
        objective = torch.stack(losses).sum()
        return StepOutput(objective, objective.detach(), scored, tuple(after))

    def _loss(self, hidden: Tensor, targets: Tensor, drawn: Batch) -> Tensor:
        if isinstance(self.output, AdaptiveOutput):
            return self.output.loss(hidden, targets)
        tied = self.C if self.config.tied else None
        return self.output.loss(hidden, targets, tied, Noise(*drawn) if drawn else None)

    # --- what it answers ----------------------------------------------------------------------

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        return self._stack().start(sequences)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``."""
        stack = self._stack()
        states, state = stack(self.embed(inputs), state, inputs != START)
        return states[-1], state

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., H) -> (..., V) nats of the next word, -inf at ``<s>``."""
        if isinstance(self.output, AdaptiveOutput):
            return self.output.log_probs(hidden)
        return self.output.log_probs(hidden, self.C if self.config.tied else None)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every word and sentence end, given what is before it in its unit.

        A backward model gives them given what is behind; the last number of a unit is then that
        of its beginning.
        """
        return self._log_prob(sentences, 0)

    @property
    def scores_backward(self) -> bool:
        """Whether it has a backward half besides the forward one."""
        return self.config.direction == "both"

    def log_prob_backward(self, sentences: Sentences) -> NDArray[np.float64]:
        """See ``models.capabilities.ScoresBackward``."""
        if not self.scores_backward:
            raise ValueError("only a model of both directions scores backward besides")
        return self._log_prob(sentences, 1)

    def _log_prob(self, sentences: Sentences, i: int) -> NDArray[np.float64]:
        """By the stack of a numbered direction."""
        examples = Examples.over(sentences, 1, self.config.boundary)
        model, backward = in_double(self), self.config.directions[i] == "backward"
        model.stacks = nn.ModuleList([model.stacks[i]])
        return read_log_prob(model, Sequences(examples, backward))

    @property
    def reads_on(self) -> bool:
        """Whether the state is kept over the start of a sentence."""
        return self.config.boundary == "document"

    @property
    def reads_backward(self) -> bool:
        """Whether probabilities are right to left."""
        return self.config.direction == "backward"

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``.

        Raises:
            ValueError: the model reads backward, so it does not know how a text goes on.
        """
        if self.reads_backward:
            raise ValueError("a backward model says what comes before a text, not how it goes on")
        return Reader(in_double(self), prefixes)

    @property
    def layers(self) -> tuple[str, ...]:
        """See ``models.capabilities.EmbedsTokens``; the embedding knows no context."""
        numbers = tuple(str(k + 1) for k in range(self.config.layers))
        return numbers if self.C is None else ("embedding", *numbers)

    def token_vectors(self, sentences: Sentences) -> Sequence[FloatArray]:
        """See ``models.capabilities.EmbedsTokens``; states that have just read the token.

        Of a model of both directions, the forward and the backward one, one after the other.
        """
        embedded = [] if self.C is None else [self._input()[sentences.ids]]
        examples = Examples.over(sentences, 1, self.config.boundary)
        return [*embedded, *self._states(examples, token_examples(sentences))]

    def sentence_vectors(self, sentences: Sentences) -> FloatArray:
        """See ``models.capabilities.EmbedsSentences``; the last states of the last layer."""
        examples = Examples.over(sentences, 1, "sentence")
        ends = sentences.starts[1:] + np.arange(len(sentences))
        return self._states(examples, ends, last=True)[-1]

    def _states(
        self, examples: Examples, places: NDArray[np.int64], *, last: bool = False
    ) -> list[FloatArray]:
        """Of each layer (N, H), states that have read some examples, or what is before these."""
        model, found = in_double(self), list[list[NDArray[np.float32]]]()
        for i, direction in enumerate(self.config.directions):
            text = Sequences(examples, direction == "backward")
            steps = places if last else text.read_at(places)
            every = _EveryLayer(model._stack(i), model.embed)
            n = self.config.layers
            found.append(np.split(read_states(every, text, steps, n * self.config.units), n, 1))
        return [np.concatenate(layer, axis=1) for layer in zip(*found, strict=True)]

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, E) float32, the embeddings; NaN for a word that is not in the vocabulary."""
        return rows_of(self._input(), self.vocabulary, words)

    @property
    def own_table(self) -> TableName:
        """A word's vector is its embedding."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The embeddings (V, E), and the output weights (V, H) where they are apart and whole.

        Of one-hot inputs the embeddings are the weights of the first layer, (V, G H).
        """
        first = len(self.vocabulary.reserved)
        found: dict[Literal["input", "output"], NDArray[np.float32]] = {
            "input": self._input()[first:]
        }
        if isinstance(self.output, Output) and self.output.W is not None:
            found["output"] = self.output.W.detach().cpu().numpy()[first:]
        return found

    def _input(self) -> NDArray[np.float32]:
        table = self._stack()[0].W.t() if self.C is None else self.C
        found: NDArray[np.float32] = table.detach().cpu().numpy()
        return found

    def state(self) -> State:
        """The parameters by name."""
        return arrays_of(self)


@dataclass(frozen=True, eq=False)
class _EveryLayer:
    """One direction of a model, its hidden states those of all layers side by side."""

    stack: Stack
    embed: Callable[[Tensor], Tensor]

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        return self.stack.start(sequences)

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``."""
        states, state = self.stack(self.embed(inputs), state, inputs != START)
        return torch.cat(states, -1), state
