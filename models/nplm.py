"""The neural probabilistic language model of Bengio, Ducharme, Vincent and Jauvin (2003).

The next word is predicted from the ``n - 1`` words before it. With ``x`` the concatenation of
their feature vectors ``C(w[t-1]), ..., C(w[t-n+1])``, the nearest first (equation 1)::

    y = b + W x + U tanh(d + H x)          P(w[t] | w[t-1], ..., w[t-n+1]) = softmax(y)[w[t]]

Sentences stand alone: a context that reaches over the start of its sentence is filled with
``<s>``, and ``</s>`` is predicted after the last word.

Deviations: ``<s>`` is never predicted (its probability is exactly 0); ``b`` starts at the log
frequencies of the words, not at random; Adam in place of plain stochastic gradient ascent, unless
``optimizer`` is ``sgd``; the weight decay is decoupled from the gradient (AdamW).

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

from models.decoding import Windowed
from models.family import (
    Decoder,
    FloatArray,
    Inputs,
    Plan,
    Schedule,
    State,
    StepOutput,
    Style,
    TableName,
    Want,
    WantsTokens,
    WantsVocabulary,
)
from models.text import Sentences, Tokens
from models.vocabulary import LM_RESERVED, Vocabulary

BOS, EOS = LM_RESERVED.index("<s>"), LM_RESERVED.index("</s>")
SCORED_AT_ONCE = 512
"""Examples that ``log_prob`` works on at a time."""


@dataclass(frozen=True)
class Config:
    """Settings of the neural probabilistic language model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    family: Literal["nplm"] = "nplm"
    context: Annotated[int, Field(ge=1, le=32, description="Words before the predicted one")] = 3
    embedding: Annotated[int, Field(ge=1, description="Width of a word's feature vector")] = 100
    hidden: Annotated[int, Field(ge=1, description="Units of the hidden layer")] = 100
    direct: Annotated[
        bool, Field(description="Connect the feature vectors to the output directly as well")
    ] = False
    min_count: Annotated[
        int, Field(ge=1, description="Words seen less often than this count as <unk>")
    ] = 2
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words; empty for no limit")
    ] = 8000
    batch_size: Annotated[
        int, Field(ge=1, description="Predicted words a step, of all workers together")
    ] = 256
    accumulate: Annotated[
        int, Field(ge=1, description="Parts of a worker's batch done in turn, to save memory")
    ] = 1
    epochs: Annotated[int, Field(ge=1, description="Passes over the text, at most")] = 3
    patience: Annotated[
        int, Field(ge=0, description="Epochs without a better held-out loss that end it; 0: never")
    ] = 1
    optimizer: Annotated[Literal["adamw", "sgd"], Field(description="How weights move")] = "adamw"
    learning_rate: Annotated[float, Field(gt=0, description="The highest learning rate")] = 2e-3
    warmup: Annotated[
        float, Field(ge=0, lt=1, description="Share of all steps in which the rate rises")
    ] = 0.02
    weight_decay: Annotated[
        float, Field(ge=0, description="Decay of weights and feature vectors, never of biases")
    ] = 0.01
    clip: Annotated[
        float, Field(ge=0, description="The largest norm of the gradient; 0: no limit")
    ] = 1.0
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Field(description="auto: bfloat16 where the hardware multiplies it fast"),
    ] = "auto"

    style: ClassVar[Style] = "learns"
    title: ClassVar[str] = "Neural probabilistic LM"
    paper: ClassVar[str] = "Bengio, Ducharme, Vincent & Jauvin 2003"
    lasting: ClassVar[tuple[str, ...]] = ("context", "embedding", "hidden", "direct")

    def wants(self) -> Mapping[str, Want]:
        """The training text, held-out text to choose the best weights by, and a vocabulary."""
        return {
            "train": WantsTokens("train"),
            "heldout": WantsTokens("valid"),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, LM_RESERVED),
        }

    def build(self, inputs: Inputs, *, seed: int) -> Nplm:
        """Random weights; the output bias holds the log frequencies of the training text."""
        model = Nplm(self, inputs.vocabulary())
        model.initialize(inputs.tokens(), torch.Generator().manual_seed(seed))
        return model

    def restore(self, vocabulary: Vocabulary, state: State) -> Nplm:
        """The model whose ``state`` this is."""
        model = Nplm(self, vocabulary)
        model.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
        return model


class Nplm(nn.Module):
    """The model; its parameters have the names of the paper."""

    never: Tensor  # (V,) -inf at <s>, which is no word to predict, else 0

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        size, width, wide = len(vocabulary), config.hidden, config.context * config.embedding
        self.C = nn.Parameter(torch.zeros(size, config.embedding))
        self.H = nn.Parameter(torch.zeros(width, wide))
        self.d = nn.Parameter(torch.zeros(width))
        self.U = nn.Parameter(torch.zeros(size, width))
        self.b = nn.Parameter(torch.zeros(size))
        self.W = nn.Parameter(torch.zeros(size, wide)) if config.direct else None
        never = torch.zeros(size)
        never[BOS] = -torch.inf
        self.register_buffer("never", never, persistent=False)

    def initialize(self, text: Tokens, generator: torch.Generator) -> None:
        """Draw the weights; make the bias that of the add-one unigram model of the text."""
        with torch.no_grad():
            self.C.normal_(0.0, 0.1, generator=generator)
            for matrix in (self.H, self.U) if self.W is None else (self.H, self.U, self.W):
                bound = matrix.shape[1] ** -0.5
                matrix.uniform_(-bound, bound, generator=generator)
            counts = np.zeros(len(self.vocabulary))
            counts[len(LM_RESERVED) :] = self.vocabulary.counts
            counts[self.vocabulary.unknown] = max(0.0, text.n_tokens - counts.sum())
            counts[EOS] = text.n_sentences
            self.b.copy_(torch.from_numpy(np.log((counts + 1) / (counts + 1).sum())))

    def grow_from(self, base: Nplm) -> None:
        """The hidden layer, and all rows of the entries that a base knows, the reserved included.

        The bias of a new word stays at its log frequency, as of a model that was not trained.
        """
        reserved = np.arange(len(LM_RESERVED), dtype=np.int32)
        words = self.vocabulary.ids(base.vocabulary.words)
        places = torch.from_numpy(np.concatenate([reserved, words]).astype(np.int64))
        with torch.no_grad():
            self.H.copy_(base.H)
            self.d.copy_(base.d)
            for ours, theirs in ((self.C, base.C), (self.U, base.U), (self.b, base.b)):
                ours[places] = theirs
            if self.W is not None and base.W is not None:
                self.W[places] = base.W

    @property
    def schedule(self) -> Schedule:
        """How the loop trains it: the rate rises, then falls linearly to a tenth."""
        config = self.config
        return Schedule(
            epochs=config.epochs,
            learning_rate=config.learning_rate,
            optimizer=config.optimizer,
            warmup=config.warmup,
            floor=0.1,
            clip=config.clip,
            accumulate=config.accumulate,
            patience=config.patience,
            precision=config.precision,
        )

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Weights and features with decay, biases without."""
        weights = [self.C, self.H, self.U] + ([] if self.W is None else [self.W])
        return [
            {"params": weights, "weight_decay": self.config.weight_decay},
            {"params": [self.d, self.b], "weight_decay": 0.0},
        ]

    # --- batches ------------------------------------------------------------------------------

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch; every word and every sentence end is predicted once."""
        text = inputs.tokens(role)
        return -(-(text.n_tokens + text.n_sentences) // self.config.batch_size)

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[tuple[Tensor, Tensor]]:
        """Contexts (B, N) and targets (B,): this rank's slice of every global batch.

        The training examples come in one pseudo-random order of the whole corpus an epoch. Only
        the order of summation depends on the number of ranks.
        """
        examples = Examples.of(inputs.tokens(plan.role), self.vocabulary, self.config.context)
        total, size = len(examples), self.config.batch_size
        for first in range(plan.start * size, total, size):
            here = min(size, total - first)
            begin, end = (here * r // plan.world for r in (plan.rank, plan.rank + 1))
            index = np.arange(first + begin, first + end)
            if plan.role == "train":
                index = shuffled(index, total, (plan.seed, plan.epoch))
            contexts, targets = examples.at(index)
            yield torch.from_numpy(contexts), torch.from_numpy(targets)

    # --- equation 1 ---------------------------------------------------------------------------

    def logits(self, contexts: Tensor, precision: torch.dtype) -> Tensor:
        """(B, N) ids, the nearest word first -> (B, V), y of equation 1, -inf at ``<s>``."""
        x = F.embedding(contexts, self.C).flatten(1).to(precision)
        H, d, U, b = (p.to(precision) for p in (self.H, self.d, self.U, self.b + self.never))
        y = F.linear(torch.tanh(F.linear(x, H, d)), U, b)
        return y if self.W is None else y + F.linear(x, self.W.to(precision))

    def forward(self, batch: tuple[Tensor, Tensor]) -> StepOutput:
        """The summed negative log-likelihood of the targets; it has no regularizer."""
        contexts, targets = batch
        kind = self.C.dtype
        # Under autocast the products are bfloat16; the softmax is not.
        y = self.logits(contexts, kind).to(kind)
        nll = F.cross_entropy(y, targets, reduction="sum")
        return StepOutput(objective=nll, nll_sum=nll.detach(), n_scored=len(targets))

    # --- what it answers ----------------------------------------------------------------------

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) nats, each word given the ``context`` words before it; then each ``</s>``."""
        examples = Examples.over(sentences, self.config.context)
        result = np.empty(len(examples))
        for first in range(0, len(examples), SCORED_AT_ONCE):
            index = np.arange(first, min(first + SCORED_AT_ONCE, len(examples)))
            contexts, targets = (torch.from_numpy(a).to(self.C.device) for a in examples.at(index))
            with torch.inference_mode():
                # In 64 bits a score does not depend on what is scored beside it.
                y = self.logits(contexts, torch.float64)
                nll = F.cross_entropy(y, targets, reduction="none")
            result[index] = -nll.cpu().numpy()
        return result

    def next_log_probs(self, contexts: NDArray[np.int32]) -> NDArray[np.float64]:
        """The distribution of the next word.

        Args:
            contexts: (S, context) ids in the order of the text, ``<s>`` where there is no word.

        Returns:
            (S, V) nats; a row's probabilities sum to 1, ``<s>`` has -inf.
        """
        nearest_first = torch.from_numpy(np.ascontiguousarray(contexts[:, ::-1], dtype=np.int64))
        with torch.inference_mode():
            y = self.logits(nearest_first.to(self.C.device), torch.float64)
            found: NDArray[np.float64] = F.log_softmax(y, dim=1).cpu().numpy()
        return found

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.family.Predicts``."""
        return Windowed(self.next_log_probs, self.config.context, prefixes)

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, M) float32, the features C; NaN for a word that is not in the vocabulary."""
        ids = np.array([self.vocabulary.id(word) for word in words], dtype=np.int64)
        vectors: NDArray[np.float32] = self.C.detach().cpu().numpy()[ids]
        vectors[ids == self.vocabulary.unknown] = np.nan
        return vectors

    @property
    def own_table(self) -> TableName:
        """A word's vector is its features."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """The features C, (V, M), and the output weights U, (V, H), of the words."""
        first = len(self.vocabulary.reserved)
        return {
            "input": self.C.detach().cpu().numpy()[first:],
            "output": self.U.detach().cpu().numpy()[first:],
        }

    def state(self) -> State:
        """The parameters by the names of the paper."""
        return {name: value.detach().cpu().numpy() for name, value in self.named_parameters()}


# --- examples ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Examples:
    """Every word and sentence end of a text as something to predict; made only when asked for.

    Attributes:
        parts: the partitions, their ids still memory-mapped.
        tables: for each partition, the vocabulary's id of each of its own ids.
        firsts: for each partition, the first example of each sentence.
        ends: (P,) examples up to and with each partition.
        context: the number of context words.
    """

    parts: Sequence[Sentences]
    tables: Sequence[NDArray[np.int32]]
    firsts: Sequence[NDArray[np.int64]]
    ends: NDArray[np.int64]
    context: int

    @staticmethod
    def of(text: Tokens, vocabulary: Vocabulary, context: int) -> Examples:
        """The examples of a corpus."""
        tables = [vocabulary.ids(part.types) for part in text.partitions]
        return Examples._of([part.text for part in text.partitions], tables, context)

    @staticmethod
    def over(sentences: Sentences, context: int) -> Examples:
        """The examples of text that is under the vocabulary already."""
        size = int(sentences.ids.max(initial=0)) + 1
        return Examples._of([sentences], [np.arange(size, dtype=np.int32)], context)

    @staticmethod
    def _of(
        parts: Sequence[Sentences], tables: Sequence[NDArray[np.int32]], context: int
    ) -> Examples:
        sizes = np.array([len(part.ids) + len(part) for part in parts], dtype=np.int64)
        # A sentence has one example more than words: every earlier one adds its end.
        firsts = [part.starts[:-1] + np.arange(len(part)) for part in parts]
        return Examples(parts, tables, firsts, np.cumsum(sizes), context)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def at(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Contexts (B, N), the nearest word first, and targets (B,) of the numbered examples."""
        contexts = np.full((len(index), self.context), BOS, dtype=np.int64)
        targets = np.full(len(index), EOS, dtype=np.int64)
        owners = np.searchsorted(self.ends, index, side="right")
        for p in np.unique(owners):
            mine = np.flatnonzero(owners == p)
            part, table = self.parts[p], self.tables[p]
            offset = index[mine] - (self.ends[p] - len(part.ids) - len(part))
            sentence = np.searchsorted(self.firsts[p], offset, side="right") - 1
            token = offset - sentence
            start, end = part.starts[sentence], part.starts[sentence + 1]
            words = np.flatnonzero(token < end)
            targets[mine[words]] = table[part.ids[token[words]]]
            before = token[:, None] - np.arange(1, self.context + 1)
            rows, columns = np.nonzero(before >= start[:, None])
            contexts[mine[rows], columns] = table[part.ids[before[rows, columns]]]
        return contexts, targets


def shuffled(
    index: NDArray[np.int64], total: int, seed: Sequence[int], rounds: int = 4
) -> NDArray[np.int64]:
    """Where a seeded random permutation of ``range(total)`` sends each index.

    A Feistel network permutes the next power of four, and what leaves the range is sent on until
    it is back (Black and Rogaway 2002): any part of the order is known without making all of it.
    """
    half = np.uint64(max(1, -(-(total - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)
    keys = np.random.SeedSequence(list(seed)).generate_state(rounds, np.uint64)
    result = index.astype(np.uint64)
    astray = np.arange(len(index))
    while len(astray):
        left, right = result[astray] >> half, result[astray] & mask
        for key in keys:
            left, right = right, left ^ (_mix(right + key) & mask)
        result[astray] = left << half | right
        astray = astray[result[astray] >= total]
    return result.astype(np.int64)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit sways every other."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
