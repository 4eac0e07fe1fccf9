"""The neural probabilistic language model of Bengio, Ducharme, Vincent and Jauvin (2003).

The next word is predicted from the ``n - 1`` words before it. With ``x`` the concatenation of
their feature vectors ``C(w[t-1]), ..., C(w[t-n+1])``, the nearest first (equation 1)::

    y = b + W x + U tanh(d + H x)          P(w[t] | w[t-1], ..., w[t-n+1]) = softmax(y)[w[t]]

A context that reaches over the start of its sentence (or of its document, with ``boundary``) is
filled with ``<s>``, and ``</s>`` is predicted after the last word.

Deviations: ``<s>`` is never predicted (its probability is exactly 0); ``b`` starts at the log
frequencies of the words, not at random; Adam in place of plain stochastic gradient ascent, unless
``optimizer`` is ``sgd``; the weight decay of Adam is decoupled from the gradient (AdamW). The
training of the paper is ``optimizer: sgd, batch_size: 1, learning_rate: 0.001, decay: 1e-8,
weight_decay: 1e-4, warmup: 0, clip: 0``. Beyond the paper: dropout, features shared with the output
(Press and Wolf 2017), and the sampled objectives of ``models.losses``. Whatever it was trained by,
it is scored by the full softmax.

Shapes: ``B`` examples, ``N`` context words, ``M`` features, ``H`` hidden units, ``V`` vocabulary.
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
from models.decoding import Windowed
from models.examples import START, Boundary, Examples, shuffled
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
    NoisePower,
    Optimizer,
    Patience,
    Precision,
    Warmup,
    arrays_of,
    bytes_to_train,
    known_rows,
    loaded,
    rows_of,
    schedule_of,
    wants_text,
)
from models.losses import Noise, Objective, linear_cross_entropy, sampled_loss
from models.output import draw_noise, frequencies
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary

SCORED_AT_ONCE = 512
"""Examples that ``log_prob`` works on at a time."""
Batch = tuple[Tensor, ...]
"""Contexts (B, N) and targets (B,); of a sampled objective also what makes a ``Noise``."""


@dataclass(frozen=True)
class Config:
    """Settings of the neural probabilistic language model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["nplm"] = "nplm"
    context: Annotated[int, Field(ge=1, le=32, description="Words before the predicted one")] = 3
    embedding: Annotated[int, Field(ge=1, description="Width of a word's feature vector")] = 100
    hidden: Annotated[
        int, Field(ge=0, description="Units of the hidden layer; 0, with direct: there is none")
    ] = 100
    direct: Annotated[
        bool, Field(description="Connect the feature vectors to the output directly as well")
    ] = False
    tied: Annotated[
        bool,
        Field(description="The output weights are the feature vectors; hidden equals embedding"),
    ] = False
    boundary: Annotated[
        Boundary,
        Field(
            description="What no context reaches over; with document, a sentence end is a word of "
            "the contexts behind it"
        ),
    ] = "sentence"
    min_count: MinCount = 2
    max_size: MaxSize = 8000
    objective: Annotated[
        Objective,
        Field(
            description="What training minimizes; all but the softmax look at noise words only. "
            "negative-sampling makes word vectors, not a language model"
        ),
    ] = "softmax"
    noise: Annotated[
        int, Field(ge=1, description="Noise words for each predicted one; a batch shares them")
    ] = 256
    noise_power: NoisePower = 0.75
    log_normalizer: Annotated[
        Literal["zero", "learned"],
        Field(description="Of nce: the scores are log-probabilities, or so up to a learned number"),
    ] = "zero"
    dropout: Annotated[
        float,
        Field(ge=0, lt=1, description="Share of features and hidden units left out at random"),
    ] = 0.0
    batch_size: Annotated[
        int, Field(ge=1, description="Predicted words a step, of all workers together")
    ] = 256
    accumulate: Accumulate = 1
    epochs: Epochs = 3
    patience: Patience = 1
    optimizer: Optimizer = "adamw"
    learning_rate: LearningRate = 2e-3
    warmup: Warmup = 0.02
    decay: Annotated[
        float,
        Field(
            ge=0,
            description="r of the paper's rate after t steps, learning_rate / (1 + r t); 0: the "
            "rate falls linearly to a tenth",
        ),
    ] = 0.0
    weight_decay: Annotated[
        float, Field(ge=0, description="Decay of weights and feature vectors, never of biases")
    ] = 0.01
    clip: Clip = 1.0
    precision: Precision = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "Neural probabilistic LM"
    paper: ClassVar[str] = "Bengio, Ducharme, Vincent & Jauvin 2003"
    lasting: ClassVar[tuple[str, ...]] = ("context", "embedding", "hidden", "direct", "tied")

    def __post_init__(self) -> None:
        if self.hidden == 0 and not self.direct:
            raise ValueError("hidden: 0 leaves nothing to predict from; add direct: true")
        if self.tied and self.hidden != self.embedding:
            raise ValueError(
                f"tied output weights need hidden ({self.hidden}) equal to embedding "
                f"({self.embedding})"
            )
        self._refuse_what_has_no_part()

    def _refuse_what_has_no_part(self) -> None:
        """A setting that would change nothing was meant to change something."""
        defaults = type(self).__dataclass_fields__
        idle = [] if self.objective != "softmax" else ["noise", "noise_power"]
        idle += [] if self.objective == "nce" else ["log_normalizer"]
        for name in idle:
            if getattr(self, name) != defaults[name].default:
                raise ValueError(f"{name} has no part in objective: {self.objective}")

    def n_weights(self, words: int) -> int:
        """Parameters of a model with a vocabulary of ``words`` entries."""
        wide, width = self.context * self.embedding, self.hidden
        output = words * (0 if self.tied else width) + words * (wide if self.direct else 0)
        return words * (self.embedding + 1) + wide * width + width + output

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
        return bytes_to_train(self.n_weights(words), self.optimizer)

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> Nplm:
        """Random weights; the output bias holds the log frequencies of the training text."""
        model = Nplm(self, inputs.vocabulary())
        model.initialize(inputs.tokens(), torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> Nplm:
        """The model whose ``state`` this is."""
        return loaded(Nplm(self, vocabulary), state)


class Nplm(nn.Module):
    """The model; its parameters have the names of the paper.

    ``H``, ``d`` and ``U`` are None without a hidden layer, ``U`` also where it is ``C``; ``W``
    without direct connections. ``z`` is the learned log-normalizer of NCE.
    """

    never: Tensor  # (V,) -inf at <s>, which is no word to predict, else 0

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        size, width, wide = len(vocabulary), config.hidden, config.context * config.embedding
        deep = width > 0
        self.C = nn.Parameter(torch.zeros(size, config.embedding))
        self.H = nn.Parameter(torch.zeros(width, wide)) if deep else None
        self.d = nn.Parameter(torch.zeros(width)) if deep else None
        self.U = nn.Parameter(torch.zeros(size, width)) if deep and not config.tied else None
        self.b = nn.Parameter(torch.zeros(size))
        self.W = nn.Parameter(torch.zeros(size, wide)) if config.direct else None
        self.z = nn.Parameter(torch.zeros(1)) if config.log_normalizer == "learned" else None
        never = torch.zeros(size)
        never[START] = -torch.inf
        self.register_buffer("never", never, persistent=False)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias that of the add-one unigram model of the text."""
        with torch.no_grad():
            self.C.normal_(0.0, 0.1, generator=generator)
            for matrix in (self.H, self.U, self.W):
                if matrix is not None:
                    bound = matrix.shape[1] ** -0.5
                    matrix.uniform_(-bound, bound, generator=generator)
            counts = frequencies(self.vocabulary, text) + 1
            self.b.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def grow_from(self, base: Nplm) -> None:
        """The hidden layer, and all rows of the entries that a base knows, the reserved included.

        The bias of a new word stays at its log frequency, as of a model that was not trained.
        """
        places = known_rows(self.vocabulary, base.vocabulary)
        theirs = dict(base.named_parameters())
        with torch.no_grad():
            for name, ours in self.named_parameters():
                if name in theirs:
                    rows = places if name in ("C", "U", "b", "W") else slice(None)
                    ours[rows] = theirs[name]

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly or as in the paper."""
        return schedule_of(self.config, sampled=self.config.objective != "softmax")

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Weights and features with decay, biases without."""
        weights, biases = (self.C, self.H, self.U, self.W), (self.d, self.b, self.z)
        return [
            {
                "params": [p for p in weights if p is not None],
                "weight_decay": self.config.weight_decay,
            },
            {"params": [p for p in biases if p is not None], "weight_decay": 0.0},
        ]

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch; every word and every sentence end is predicted once."""
        text = inputs.tokens(role)
        return -(-(text.n_tokens + text.n_sentences) // self.config.batch_size)

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's slice of every global batch.

        The training examples come in one pseudo-random order of the whole corpus an epoch. Only
        the order of summation depends on the number of ranks. Noise is drawn for a batch by its
        seed, epoch and number, and is the same on every rank.
        """
        config, text = self.config, inputs.tokens(plan.role)
        examples = Examples.of(text, self.vocabulary, config.context, config.boundary)
        total, size = len(examples), config.batch_size
        counts = frequencies(self.vocabulary, text)
        for first in range(plan.start * size, total, size):
            here = min(size, total - first)
            begin, end = (here * r // plan.world for r in (plan.rank, plan.rank + 1))
            index = np.arange(first + begin, first + end)
            if plan.role == "train":
                index = shuffled(index, total, (plan.seed, plan.epoch))
            contexts, targets = examples.at(index)
            batch = torch.from_numpy(contexts), torch.from_numpy(targets)
            if plan.role == "train" and config.objective != "softmax":
                seed = plan.seed, plan.epoch, first // size
                noise = draw_noise(counts, config.noise_power, config.noise, targets, seed)
                yield (*batch, *noise)
            else:
                yield batch

    # --- equation 1 ---------------------------------------------------------------------------

    def output(
        self, contexts: Tensor, kind: torch.dtype, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What ``y`` is linear in, its weights and its bias, -inf at ``<s>``.

        Args:
            contexts: (B, N) ids, the nearest word first.
            kind: of the products, if autocast does not choose it.
            dropout: the share of features and hidden units that is left out.

        Returns:
            ``h`` (B, D), weight (V, D) and bias (V,), with ``y = h @ weight.T + bias``.
        """
        x = F.embedding(contexts, self.C).flatten(1).to(kind)
        x = F.dropout(x, dropout)
        parts, weights = list[Tensor](), list[Tensor]()
        if self.H is not None and self.d is not None:
            a = torch.tanh(F.linear(x, self.H.to(kind), self.d.to(kind)))
            parts.append(F.dropout(a, dropout))
            weights.append(self.C if self.U is None else self.U)
        if self.W is not None:
            parts.append(x)
            weights.append(self.W)
        bias = self.b + self.never
        if len(parts) == 1:
            return parts[0], weights[0], bias
        return torch.cat([p.to(parts[0].dtype) for p in parts], 1), torch.cat(weights, 1), bias

    def log_probs(self, contexts: NDArray[np.int64]) -> Tensor:
        """(B, N) ids, the nearest word first -> (B, V) float64 nats, -inf at ``<s>``.

        In 64 bits a score does not depend on what is scored beside it.
        """
        with torch.inference_mode():
            h, weight, bias = self.output(
                torch.from_numpy(contexts).to(self.C.device), torch.float64
            )
            return torch.log_softmax(F.linear(h, weight.double(), bias.double()), 1)

    def forward(self, batch: Batch) -> StepOutput:
        """The summed objective of a batch; it has no regularizer."""
        contexts, targets, *drawn = batch
        device, kind = self.C.device.type, self.C.dtype
        if torch.is_autocast_enabled(device):
            kind = torch.get_autocast_dtype(device)
        dropout = self.config.dropout if self.training else 0.0
        h, weight, bias = self.output(contexts, kind, dropout)
        if drawn:
            loss = sampled_loss(
                self.config.objective, h, weight, bias, targets, Noise(*drawn), self.z
            )
        else:
            loss = linear_cross_entropy(h, weight, bias, targets)
        return StepOutput(objective=loss, nll_sum=loss.detach(), n_scored=len(targets))

    # --- what it answers ----------------------------------------------------------------------

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats, each word given the ``context`` words before it; then each ``</s>``."""
        examples = Examples.over(sentences, self.config.context, self.config.boundary)
        result = np.empty(len(examples))
        for first in range(0, len(examples), SCORED_AT_ONCE):
            contexts, targets = examples.at(
                np.arange(first, min(first + SCORED_AT_ONCE, len(examples)))
            )
            found = self.log_probs(contexts).cpu().numpy()
            result[first : first + len(targets)] = found[np.arange(len(targets)), targets]
        return result

    def next_log_probs(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """The distribution of the next word.

        Args:
            contexts: (S, context) ids in the order of the text, ``<s>`` where there is no word.

        Returns:
            (S, V) nats; a row's probabilities sum to 1, ``<s>`` has -inf.
        """
        nearest_first = np.ascontiguousarray(contexts[:, ::-1], dtype=np.int64)
        result: NDArray[np.float64] = self.log_probs(nearest_first).cpu().numpy()
        return result

    @property
    def reads_on(self) -> bool:
        """Whether contexts reach over the start of a sentence."""
        return self.config.boundary == "document"

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, M) float32, the features C; NaN for a word that is not in the vocabulary."""
        return rows_of(self.C.detach().cpu().numpy(), self.vocabulary, words)

    @property
    def own_table(self) -> TableName:
        """A word's vector is its features."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The features C, (V, M), and if there are any the output weights U, (V, H), of the words.

        Without a hidden layer the output weights W, (V, N M), belong to places in the context.
        """
        first = len(self.vocabulary.reserved)
        found: dict[Literal["input", "output"], NDArray[np.float32]] = {
            "input": self.C.detach().cpu().numpy()[first:]
        }
        if self.U is not None:
            found["output"] = self.U.detach().cpu().numpy()[first:]
        return found

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        return Windowed(self.next_log_probs, self.config.context, prefixes)

    def state(self) -> State:
        """The parameters by the names of the paper."""
        return arrays_of(self)
