"""What a family is: the contracts between a model, the training loops and the evaluators.

A family is one file: its ``Config`` (a frozen dataclass, the family's entry in
``models.families.FamilyConfig``) and its model. A model belongs to one of three training styles
(``Fits``, ``Sweeps``, ``Learns``) and has capabilities (``models.capabilities``). There is no base
class to inherit from.

Shapes: ``B`` batch, ``T`` tokens, ``N`` words, ``D`` width, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from models.text import CooccurrenceCounts, NgramCounts, Tokens
from models.vocabulary import Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = NDArray[np.float32] | NDArray[np.float64]
State = Mapping[str, NDArray[Any]]
"""The arrays that make a model, by name. With its Config and Vocabulary it is the whole model."""

Split = Literal["train", "valid", "test"]
Style = Literal["fits", "sweeps", "learns"]


# --- what a family asks for -----------------------------------------------------------------


@dataclass(frozen=True)
class WantsTokens:
    """The tokenized text of a split."""

    split: Split


@dataclass(frozen=True)
class WantsVocabulary:
    """A vocabulary of the training split."""

    min_count: int
    max_size: int | None
    reserved: tuple[str, ...]


@dataclass(frozen=True)
class WantsNgrams:
    """The n-gram counts of the training split, in the ids of the input ``vocabulary``."""

    order: int


@dataclass(frozen=True)
class WantsCooccurrence:
    """The co-occurrence table of the training split, in the ids of the input ``vocabulary``.

    Attributes:
        window: the widest distance.
        weights: ``1 / distance``, or 1 for all.
        side: on which side of a word (the row) the other (the column) stands.
        boundary: what no window crosses.
    """

    window: int
    weights: Literal["harmonic", "flat"] = "harmonic"
    side: Literal["both", "left", "right"] = "both"
    boundary: Literal["document", "sentence"] = "sentence"


Want = WantsTokens | WantsVocabulary | WantsNgrams | WantsCooccurrence


@dataclass(frozen=True)
class Inputs:
    """What a family asked for, by role."""

    values: Mapping[str, object]

    def _get(self, role: str, kind: type[Any]) -> Any:
        value = self.values[role]
        if not isinstance(value, kind):
            raise TypeError(f"input {role!r} is {type(value).__name__}, not {kind.__name__}")
        return value

    def tokens(self, role: str = "train") -> Tokens:
        """The tokens under a role."""
        tokens: Tokens = self._get(role, Tokens)
        return tokens

    def vocabulary(self, role: str = "vocabulary") -> Vocabulary:
        """The vocabulary under a role."""
        vocabulary: Vocabulary = self._get(role, Vocabulary)
        return vocabulary

    def ngrams(self, role: str = "ngrams") -> NgramCounts:
        """The n-gram counts under a role."""
        counts: NgramCounts = self._get(role, NgramCounts)
        return counts

    def cooccurrence(self, role: str = "cooccurrence") -> CooccurrenceCounts:
        """The co-occurrence table under a role."""
        counts: CooccurrenceCounts = self._get(role, CooccurrenceCounts)
        return counts


def with_article(title: str) -> str:
    """What a family is called in a sentence: "an n-gram", "a word2vec"."""
    vowel = title[0] in "AEIOaeio" or title.startswith("n-")
    return f"{'an' if vowel else 'a'} {title}"


# --- the family and its model ---------------------------------------------------------------


class Family(Protocol):
    """The frozen dataclass ``Config`` of ``models/<family>.py``: all that shapes a model."""

    style: ClassVar[Style]
    title: ClassVar[str]  # what a leaderboard calls it
    paper: ClassVar[str]

    @property
    def family(self) -> str:
        """The discriminator of the union: ``family: Literal["word2vec"] = "word2vec"``."""
        ...

    def wants(self) -> Mapping[str, Want]:
        """What it trains on, by role; the role ``vocabulary`` is always there."""
        ...

    def build(self, inputs: Inputs, *, seed: int) -> Model:
        """An untrained model."""
        ...

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model that ``state_dict`` described."""
        ...


@runtime_checkable
class GrowingFamily(Family, Protocol):
    """A family whose training can go on from an earlier model of it, over new text."""

    lasting: ClassVar[tuple[str, ...]]  # settings that shape what is taken over: they stay


@runtime_checkable
class MayBeFixed(Protocol):
    """A growing family of which some settings make models that cannot go on."""

    @property
    def fixed(self) -> str:
        """Why they cannot, empty where they can."""
        ...


@runtime_checkable
class KnowsItsSize(Protocol):
    """A family whose settings alone can make a model too large for any memory."""

    def training_bytes(self, words: int, /) -> int:
        """Bytes that training takes at least with a vocabulary of so many entries."""
        ...


class Model(Protocol):
    """A trained or untrained model: a Config, a Vocabulary and arrays. Never a pickle."""

    @property
    def config(self) -> Family:
        """Its settings."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """Its words."""
        ...

    def state(self) -> State:
        """Its arrays by name; ``config.restore`` makes the same model of them."""
        ...


# --- training styles ------------------------------------------------------------------------

Report = Mapping[str, float | int | str]
"""What a training run found worth telling, by name; shown in the report and kept in MLflow."""


@runtime_checkable
class Fits(Protocol):
    """Closed form or EM from counts: n-gram models."""

    def fit(self, inputs: Inputs) -> Report:
        """Estimate the model from its inputs, in place."""
        ...


class Divisible(Protocol):
    """What can be cut into parts: sentences, pairs of words."""

    def share(self, i: int, n: int, /) -> Self:
        """Part ``i`` of ``n`` parts of about equal size; it may be empty."""
        ...


Chunk = TypeVar("Chunk", bound=Divisible)
Chunk_co = TypeVar("Chunk_co", covariant=True)
Chunk_contra = TypeVar("Chunk_contra", bound=Divisible, contravariant=True)
Unit = Literal["words", "records"]


class Chunks(Protocol[Chunk_co]):
    """What an epoch goes through: text, or a table; chunks are made when they are asked for."""

    @property
    def unit(self) -> Unit:
        """What a run is measured in: words of a text, or records of a co-occurrence table."""
        ...

    @property
    def size(self) -> int:
        """Units of all chunks together."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Chunk_co: ...


@dataclass(frozen=True, eq=False)
class SweepStats:
    """What one sweep over a chunk did: sums, so that threads and chunks add up exactly.

    Attributes:
        units: of the chunk, words before subsampling or records: that of rates and of progress.
        kept: how many of them took part: known words, less those that were thinned out.
        examples: training examples, the divisor of the loss.
        loss: their summed loss, in nats where it is a likelihood.
        learning_rate: at the end of the sweep; no sum, but what a chart of the run shows.
    """

    units: int
    kept: int
    examples: int
    loss: float
    learning_rate: float


@runtime_checkable
class Sweeps(Model, Protocol[Chunk]):
    """Lock-free kernels over shared tables: word2vec, fastText, GloVe."""

    @property
    def epochs(self) -> int:
        """Passes over the chunks."""
        ...

    def chunks(self, inputs: Inputs) -> Chunks[Chunk]:
        """The text or the table in chunks of about equal size, under the model's vocabulary."""
        ...

    def sweep(
        self, chunk: Chunk, *, seed: int, done: float, until: float, threads: int
    ) -> SweepStats:
        """Train on a chunk, in place.

        Args:
            chunk: one of ``chunks``.
            seed: seeds this sweep; with one thread the result depends on nothing else.
            done: the share of the whole run, over all epochs, that lies before this chunk.
            until: the share that is done after it; the learning rate falls between the two.
            threads: threads that work on it at once.
        """
        ...


@runtime_checkable
class RaisesItsRate(Protocol):
    """A Config whose learning rate is for one worker."""

    def for_workers(self, n: int) -> Self:
        """The settings by which each of n workers trains on its part, all averaged now and then."""
        ...


@dataclass(frozen=True, eq=False)
class SweptTable:
    """A table that sweeps write to, for a loop that reads and writes it between two sweeps.

    Attributes:
        values: (R, D) or (R,) float32, live: what is written into it the next sweep finds there.
        busiest: (R,) all rows, those first that are updated most often; None where they lie so.
        adds_up: it holds sums over the training (squared gradients), so what workers add to it
            counts in full.
    """

    values: NDArray[np.float32] | Tensor
    busiest: NDArray[np.int64] | None = None
    adds_up: bool = False


@runtime_checkable
class SweepsTables(Protocol[Chunk_contra]):
    """Tables that sweeps train in place, and that a loop may save, restore and average."""

    def sweep(
        self, chunk: Chunk_contra, *, seed: int, done: float, until: float, threads: int
    ) -> SweepStats:
        """See ``Sweeps``; of tables on a device, ``threads`` has no part."""
        ...

    def swept_tables(self) -> Mapping[str, SweptTable]:
        """All of them by the names of ``Model.state``; to be asked for anew after a sweep."""
        ...


@runtime_checkable
class SweepsOnDevice(Protocol[Chunk_contra]):
    """Can also be trained by batched products of matrices on a torch device: a GPU."""

    def on_device(self, device: str) -> SweepsTables[Chunk_contra]:
        """A copy of the tables on a torch device, with a sweep of its own over them.

        Raises:
            ValueError: the objective is not available there.
        """
        ...


@dataclass(frozen=True)
class Schedule:
    """How the one autograd loop trains a model; a family makes it from its Config.

    Attributes:
        epochs: passes over the training data, at most.
        learning_rate: the highest rate; a parameter group's ``rate`` multiplies it.
        optimizer: AdamW, or SGD with momentum.
        momentum: of SGD.
        betas: of AdamW.
        warmup: the share of all steps in which the rate rises.
        start: the share of ``learning_rate`` from which it rises.
        floor: the share of ``learning_rate`` to which it falls by the end of the last step.
        shape: of the rise and the fall. A linear one with ``start`` and ``floor`` of 1 / 32 is the
            slanted triangle of Howard and Ruder (2018), a cosine about the one cycle of Smith
            (2018), whose momentum turns as well.
        decay: if above 0, ``r``: after ``t`` steps the rate is ``learning_rate / (1 + r t)``
            instead (Bengio et al. 2003).
        clip: the largest norm of the gradient of the mean loss; 0 for no limit.
        accumulate: parts of a rank's batch that are worked on one after another, to save memory.
        evaluations: held-out evaluations in an epoch, evenly spaced.
        patience: evaluations in a row without improvement that end the training; 0 for never.
        average: if above 0, ``n``: weights are averaged over the steps from the first evaluation on
            that is worse than the best of those more than ``n`` before it, and the averages are
            what is evaluated and kept (NT-ASGD, Merity, Keskar and Socher 2017).
        precision: "auto" is bfloat16 autocast where the hardware multiplies it fast.
        sampled: the training objective is sampled, so it is no likelihood, and told by a name of
            its own; held-out text is scored exactly all the same.
        masked: the loss is that of hidden tokens, each predicted from what is around it. Its
            exponential is no perplexity of a text, and both are told by names of their own.
    """

    epochs: int
    learning_rate: float
    optimizer: Literal["adamw", "sgd"] = "adamw"
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    warmup: float = 0.0
    start: float = 0.0
    floor: float = 0.0
    shape: Literal["linear", "cosine"] = "linear"
    decay: float = 0.0
    clip: float = 0.0
    accumulate: int = 1
    evaluations: int = 1
    patience: int = 0
    average: int = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    sampled: bool = False
    masked: bool = False


@dataclass(frozen=True)
class Plan:
    """Which part of the data a rank reads, and in which order.

    Attributes:
        seed: seeds the shuffle.
        epoch: counts from 0.
        start: the batch of this epoch to begin with (a resumed run begins inside an epoch).
        rank: this worker.
        world: the number of workers; the global batch is cut into this many parts.
        role: the input to read: ``train`` is shuffled, ``heldout`` need not be.
    """

    seed: int
    epoch: int = 0
    start: int = 0
    rank: int = 0
    world: int = 1
    role: Literal["train", "heldout"] = "train"


@dataclass(frozen=True, eq=False)
class StepOutput:
    """What a forward pass returns to the loop.

    Attributes:
        objective: scalar *sum* over this rank's tokens that the loop differentiates; it divides
            the gradient by the number of tokens of all ranks.
        nll_sum: scalar, summed negative log-likelihood in nats without regularizers; in training
            the objective itself where that is sampled.
        n_scored: the number of tokens scored; may be 0 where a batch has fewer rows than ranks.
        carried: what the next batch of the epoch goes on from, without gradients: tensors whose
            first dimension is this rank's streams of text, with those of the ranks side by side.
            Empty for a model whose batches know nothing of each other.
        rate: multiplies the learning rate of this step; the same for all parts of a global batch.
    """

    objective: Tensor
    nll_sum: Tensor
    n_scored: int
    carried: tuple[Tensor, ...] = ()
    rate: float = 1.0


@runtime_checkable
class Learns(Model, Protocol):
    """Autograd under the one loop; also a ``torch.nn.Module``, whose ``forward`` the loop calls.

    Wherever ``Inputs`` hold a ``heldout`` role, it decides which weights are kept.
    """

    @property
    def schedule(self) -> Schedule:
        """How to train it."""
        ...

    def n_batches(self, inputs: Inputs, role: Literal["train", "heldout"] = "train") -> int:
        """Global batches in an epoch; the same on every rank."""
        ...

    def batches(self, inputs: Inputs, plan: Plan) -> Iterator[Any]:
        """This rank's part of an epoch's batches from ``plan.start``, a pure function of plan.

        A batch is a tuple of CPU tensors, which the loop moves to the device. Every rank gets
        equally many, some of them perhaps without rows, and each row goes to exactly one rank.
        """
        ...

    def forward(self, batch: Any, /, *carried: Tensor) -> StepOutput:
        """The objective of a batch; it goes on from what the output of the one before carried.

        The first batch of an epoch, and of held-out text, is called without.
        """
        ...

    def parameter_groups(self) -> Sequence[Mapping[str, Any]]:
        """Parameters for ``torch.optim``, with what each group overrides (``rate``: a factor)."""
        ...


Progress = Callable[[int, int, str], None]
"""Called as ``progress(done, total, unit)`` while long work goes on."""
