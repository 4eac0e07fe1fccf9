"""Bidirectional recurrent encoders, trained on text alone; for vectors of tokens in their context.

M. Schuster and K. Paliwal, *Bidirectional recurrent neural networks* (1997), with a loss that takes
no labels. Trained as it stands, such a network would read what it is to predict. There are two ways
around (``objective``):

* ``shift``: no state is asked for what it has read. Forward states predict the next word and
  backward states the one before, by one softmax; in all layers the directions stay apart, since
  a layer that read both would pass the answer on::

      L = - sum_t [log P(w[t] | f_K[t - 1]) + log P(w[t] | b_K[t + 1])]

  The forward half is a language model like any other, and scores text.

* ``mask``: some words are hidden, and predicted from both directions (as in O. Melamud,
  J. Goldberger and I. Dagan, *context2vec*, 2016, here with hidden words that are read as a mark,
  as in J. Devlin et al., *BERT*, 2019). Every layer reads both directions of the one below::

      L = - sum_{t hidden}  log P(w[t] | combine(f_K[t], b_K[t]))

  Of the words that are asked for, some stay as they are and some are replaced by any other, so
  that a state cannot rely on a word (BERT: 0.1 and 0.1 of 0.15). Such a model has no probability
  of a text; each word in turn given all others comes to a pseudo-perplexity.

The vector of a token is what both directions have where they have just read it, combined; that of
a sentence is what each has behind its last word.

Deviations: a unit (sentence or document) longer than ``steps`` is read in pieces; sentence ends are
never hidden; units of like length make a batch, so that little is padded.

Shapes: ``T`` entries, ``B`` units, ``E`` embedding, ``H`` units, ``V`` vocabulary, ``N`` tokens.
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

from models.bidirectional import Bidirectional, Combine, combined
from models.capabilities import Decoder, TableName
from models.encoding import hidden_states, last_states, token_states
from models.examples import END, START, Boundary, Examples, token_examples
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
    Optimizer,
    Patience,
    Precision,
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
from models.output import Output, frequencies
from models.recurrent import GATES, Cell, Reset, Update
from models.sequences import Reader, Sequences, in_double, read_log_prob
from models.streams import NONE
from models.text import Sentences, Tokens
from models.units import Pieces, padded, pieces
from models.units import batches as batches_of
from models.units import n_batches as number_of
from models.vocabulary import LM_RESERVED, Vocabulary

Batch = tuple[Tensor, ...]
"""(T, B) entries and (B,) their number; of the objective ``mask`` the entries are with words
hidden, and (T, B) those asked for follow, ``NONE`` where none is."""


@dataclass(frozen=True)
class Config:
    """Settings of a bidirectional encoder."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["birnn"] = "birnn"
    objective: Annotated[
        Literal["shift", "mask"],
        Field(description="Predict the words beside, directions apart; or words that are hidden"),
    ] = "shift"
    cell: Annotated[Cell, Field(description="What a layer is made of")] = "lstm"
    layers: Annotated[int, Field(ge=1, le=16, description="Layers, one on the other")] = 1
    units: Annotated[int, Field(ge=1, description="Width of a layer in one direction")] = 256
    embedding: Annotated[int, Field(ge=1, description="Width of a word's vector")] = 256
    combine: Annotated[Combine, Field(description="How both directions make one vector")] = (
        "concatenation"
    )
    reset: Annotated[
        Reset, Field(description="Of the GRU: the gate acts before or after the product")
    ] = "after"
    update: Annotated[
        Update, Field(description="Of the GRU: z keeps the state, or replaces it")
    ] = "keep"
    tied: Annotated[
        bool,
        Field(description="The output weights are the embeddings; what is below is as wide"),
    ] = False
    dropout: Dropout = 0.2
    masked: Annotated[
        float, Field(gt=0, lt=1, description="Share of words asked for, of the objective mask")
    ] = 0.15
    kept: Annotated[
        float, Field(ge=0, le=1, description="Share of these that stay as they are")
    ] = 0.1
    replaced: Annotated[
        float, Field(ge=0, le=1, description="Share of these in whose place is any word")
    ] = 0.1
    boundary: Annotated[
        Boundary, Field(description="What is read as one: a sentence, or a document")
    ] = "sentence"
    min_count: MinCount = 2
    max_size: MaxSize = 8000
    batch_size: Annotated[
        int, Field(ge=1, description="Sentences or documents in a batch of all workers together")
    ] = 32
    steps: Annotated[
        int, Field(ge=1, description="Words read as one at most; what is longer is cut")
    ] = 128
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
    title: ClassVar[str] = "Bidirectional RNN"
    paper: ClassVar[str] = "Schuster & Paliwal 1997"
    lasting: ClassVar[tuple[str, ...]] = (
        "objective", "cell", "layers", "units", "embedding", "combine", "reset", "update", "tied",
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.tied and self.asked_width != self.embedding:
            raise ValueError(
                f"tied output weights need embedding ({self.embedding}) equal to what is predicted "
                f"from ({self.asked_width})"
            )
        if self.kept + self.replaced > 1:
            raise ValueError(f"kept and replaced are shares, unlike {self.kept} + {self.replaced}")
        idle = dict.fromkeys(("masked", "kept", "replaced"), self.objective == "shift")
        idle |= dict.fromkeys(("reset", "update"), self.cell != "gru")
        defaults = {field.name: field.default for field in fields(self)}
        for name in (n for n, has_no_part in idle.items() if has_no_part):
            if getattr(self, name) != defaults[name]:
                beside = "cell" if name in ("reset", "update") else "objective"
                raise ValueError(f"{name} has no part in {beside}: {getattr(self, beside)}")

    @property
    def asked_width(self) -> int:
        """Of what a word is predicted from."""
        both = self.objective == "mask" and self.combine == "concatenation"
        return 2 * self.units if both else self.units

    def n_weights(self, words: int) -> int:
        """Parameters of a model with a vocabulary of ``words`` entries, at least."""
        between = self.units if self.objective == "shift" else 2 * self.units
        layers = sum(
            2
            * GATES[self.cell]
            * self.units
            * ((between if k else self.embedding) + self.units + 1)
            for k in range(self.layers)
        )
        return words * (self.embedding + 1) + layers + (not self.tied) * words * self.asked_width

    def training_bytes(self, words: int) -> int:
        """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
        return bytes_to_train(self.n_weights(words), self.optimizer)

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return wants_text(self.min_count, self.max_size)

    def build(self, inputs: Inputs, *, seed: int) -> Birnn:
        """Random weights; the output bias holds the log frequencies of the training text."""
        model = self._model(inputs.vocabulary())
        model.initialize(inputs.tokens(), torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> Birnn:
        """The model whose ``state`` this is."""
        return loaded(self._model(vocabulary), state)

    def _model(self, vocabulary: Vocabulary) -> Birnn:
        return (Shifted if self.objective == "shift" else Masked)(self, vocabulary)


class Birnn(nn.Module):
    """The encoder, and what both objectives have in common.

    Attributes:
        C: (V, E) embeddings.
        mask: (E,) what a hidden word is read as; None where none is hidden.
        encoder: the layers.
        output: the softmax.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.C = nn.Parameter(torch.zeros(len(vocabulary), config.embedding))
        hides = config.objective == "mask"
        self.mask = nn.Parameter(torch.zeros(config.embedding)) if hides else None
        self.encoder = Bidirectional(
            config.cell,
            config.embedding,
            config.units,
            config.layers,
            apart=not hides,
            reset=config.reset,
            update=config.update,
        )
        self.output = Output(len(vocabulary), config.asked_width, tied=config.tied)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias of the output that of the unigram model of the text."""
        with torch.no_grad():
            self.C.normal_(0.0, 0.1, generator=generator)
            if self.mask is not None:
                self.mask.normal_(0.0, 0.1, generator=generator)
        self.encoder.initialize(generator)
        self.output.initialize(frequencies(self.vocabulary, text), generator)

    def grow_from(self, base: Birnn) -> None:
        """The layers, and all rows of the entries that a base knows, the reserved included.

        The output bias of a new word stays at its log frequency, as of a model not trained.
        """
        places = known_rows(self.vocabulary, base.vocabulary)
        theirs = dict(base.named_parameters())
        with torch.no_grad():
            for name, ours in self.named_parameters():
                rows = places if name in ("C", "output.W", "output.b") else slice(None)
                ours[rows] = theirs[name]

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        return schedule_of(self.config, masked=self.config.objective == "mask")

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Matrices with decay, biases without."""
        return by_decay(self.parameters(), self.config.weight_decay)

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch."""
        text = self._pieces(self._examples(inputs, role))
        return number_of(text, self.config.batch_size)

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Batch]:
        """This rank's units of every global batch.

        What is hidden is drawn for a batch by its seed, epoch and number, over all ranks.
        """
        examples = self._examples(inputs, plan.role)
        every = batches_of(self._pieces(examples), self.config.batch_size, plan)
        for number, whole, mine in every:
            entries, sizes = padded(examples, mine)
            given = [torch.from_numpy(entries), torch.from_numpy(sizes)]
            if self.mask is not None:
                draw = np.random.default_rng([plan.seed, plan.epoch, number])
                shape = int(whole.sizes.max(initial=0)) + 1, len(whole)
                own = slice(len(entries)), slice(plan.rank, None, plan.world)
                lots, words = draw.random((2, *shape)), draw.random(shape)
                given = self._hide(entries, lots[:, *own], words[own], given)
            yield tuple(given)

    def _examples(self, inputs: Inputs, role: Literal["train", "heldout"]) -> Examples:
        return Examples.of(inputs.tokens(role), self.vocabulary, 1, self.config.boundary)

    def _pieces(self, examples: Examples) -> Pieces:
        return pieces(examples, self.config.steps)

    def _hide(
        self,
        entries: NDArray[np.int64],
        lots: NDArray[np.float64],
        words: NDArray[np.float64],
        given: list[Tensor],
    ) -> list[Tensor]:
        """A batch with words hidden, by (2, T, B) and (T, B) numbers from 0 to 1."""
        config, first = self.config, len(LM_RESERVED)
        asked = (entries != START) & (entries != END) & (lots[0] < config.masked)
        asked[0] = False  # what stands before a piece is read, not asked for
        other = first + (words * (len(self.vocabulary) - first)).astype(np.int64)
        instead = np.where(lots[1] < config.kept + config.replaced, other, self.hidden)
        hidden = np.where(asked & (lots[1] >= config.kept), instead, entries)
        targets = np.where(asked, entries, NONE)
        return [torch.from_numpy(hidden), given[1], torch.from_numpy(targets)]

    # --- reading ------------------------------------------------------------------------------

    def embed(self, entries: Tensor) -> Tensor:
        """(T, B) ids -> (T, B, E); the number behind the last id is a hidden word."""
        if self.mask is None:
            return F.embedding(entries, self.C)
        hidden = entries == self.hidden
        return torch.where(
            hidden[..., None], self.mask, F.embedding(entries.masked_fill(hidden, START), self.C)
        )

    @property
    def hidden(self) -> int:
        """The entry that is read as a hidden word."""
        return len(self.vocabulary)

    def states(self, entries: Tensor, sizes: Tensor) -> list[tuple[Tensor, Tensor]]:
        """See ``models.encoding.Encodes``."""
        dropout = self.config.dropout if self.training else 0.0
        found: list[tuple[Tensor, Tensor]] = self.encoder(
            F.dropout(self.embed(entries), dropout), sizes, dropout
        )
        return found

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) nats of a word, -inf at ``<s>``."""
        return self.output.log_probs(hidden, self._tied)

    @property
    def _tied(self) -> Tensor | None:
        return self.C if self.config.tied else None

    # --- what it answers ----------------------------------------------------------------------

    @property
    def reads_on(self) -> bool:
        """Whether what is read together is a document."""
        return self.config.boundary == "document"

    @property
    def layers(self) -> tuple[str, ...]:
        """See ``models.capabilities.EmbedsTokens``; the embedding knows no context."""
        return ("embedding", *(str(k + 1) for k in range(self.config.layers)))

    def token_vectors(self, sentences: Sentences) -> Sequence[FloatArray]:
        """See ``models.capabilities.EmbedsTokens``; both directions, combined."""
        examples = Examples.over(sentences, 1, self.config.boundary)
        found = token_states(in_double(self), examples, token_examples(sentences))
        combine = self.config.combine
        vectors = [combined(f, b, combine).float().numpy() for f, b in found]
        return [self.C.detach().cpu().numpy()[sentences.ids], *vectors]

    def sentence_vectors(self, sentences: Sentences) -> FloatArray:
        """See ``models.capabilities.EmbedsSentences``; the last states of both directions.

        These are of the last layer, behind the last word that each direction reads.
        """
        f, b = last_states(in_double(self), Examples.over(sentences, 1, "sentence"))
        vectors: NDArray[np.float32] = combined(f, b, self.config.combine).float().numpy()
        return vectors

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, E) float32, the embeddings; NaN for a word that is not in the vocabulary."""
        return rows_of(self.C.detach().cpu().numpy(), self.vocabulary, words)

    @property
    def own_table(self) -> TableName:
        """A word's vector is its embedding."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The embeddings (V, E), and the output weights where they are apart."""
        first = len(self.vocabulary.reserved)
        found: dict[Literal["input", "output"], NDArray[np.float32]] = {
            "input": self.C.detach().cpu().numpy()[first:]
        }
        if self.output.W is not None:
            found["output"] = self.output.W.detach().cpu().numpy()[first:]
        return found

    def state(self) -> State:
        """The parameters by name."""
        return arrays_of(self)


class Shifted(Birnn):
    """Each direction predicts the word that it reads next."""

    def forward(self, batch: Batch) -> StepOutput:
        """The summed objective of a batch, over both directions."""
        entries, sizes = batch
        f, b = self.states(entries, sizes)[-1]
        asked = torch.arange(1, len(entries), device=sizes.device)[:, None] < sizes
        before = entries[:-1].masked_fill(entries[:-1] == START, END)
        targets = torch.cat([entries[1:][asked], before[asked]])
        hidden = torch.cat([f[:-1][asked], b[1:][asked]])
        loss = self.output.loss(hidden, targets, self._tied)
        return StepOutput(loss, loss.detach(), len(targets))

    def start(self, sequences: int) -> tuple[Tensor, ...]:
        """See ``models.sequences.Reads``."""
        pairs = self.encoder.pairs()
        return tuple(part for ahead, _ in pairs for part in ahead.start(sequences))

    def read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """See ``models.sequences.Reads``; forward."""
        x, after, n = self.embed(inputs), list[Tensor](), len(state) // self.config.layers
        for k, (ahead, _) in enumerate(self.encoder.pairs()):
            x, own = ahead(x, state[k * n : (k + 1) * n], inputs != START)
            after += own
        return x, tuple(after)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats of every word and sentence end, by the forward half."""
        examples = Examples.over(sentences, 1, self.config.boundary)
        return read_log_prob(in_double(self), Sequences(examples))

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``; by the forward half."""
        return Reader(in_double(self), prefixes)


class Masked(Birnn):
    """Hidden words are predicted from both directions."""

    def forward(self, batch: Batch) -> StepOutput:
        """The summed objective of a batch, over hidden words."""
        entries, sizes, targets = batch
        f, b = self.states(entries, sizes)[-1]
        asked = targets != NONE
        hidden = combined(f[asked], b[asked], self.config.combine)
        loss = self.output.loss(hidden, targets[asked], self._tied)
        return StepOutput(loss, loss.detach(), int(asked.sum()))

    def masked_log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """See ``models.capabilities.FillsIn``."""
        model, combine = in_double(self), self.config.combine
        examples = Examples.over(sentences, 1, self.config.boundary)
        result = np.empty(len(sentences.ids))
        for tokens, words, f, b in hidden_states(model, examples, token_examples(sentences)):
            with torch.inference_mode():
                said = model.log_probs(combined(f, b, combine)).gather(1, words[:, None])
            result[tokens] = said[:, 0].numpy()
        return result
