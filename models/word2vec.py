"""word2vec: skip-gram and CBOW, by four objectives.

Mikolov, Chen, Corrado, Dean (2013a), "Efficient estimation of word representations in vector
space"; Mikolov, Sutskever, Chen, Corrado, Dean (2013b), "Distributed representations of words and
phrases and their compositionality". For a word ``o`` and a word ``c`` of its window, with ``K``
words ``n_k`` drawn from the unigram distribution to the power 0.75 (2013b, equation 4)::

    loss = -log s(u_o . v_c) - sum_k log s(-u_{n_k} . v_c)        s(z) = 1 / (1 + exp(-z))

``v`` are the rows of ``input``, the word vectors; ``u`` those of ``output``. That is skip-gram with
negative sampling. CBOW has the mean or the sum of the window's words for ``v_c``. The objective may
be the full softmax itself, whose stand-in this is (``models.kernels.softmax``), hierarchical
softmax, where ``u`` are the inner nodes of a Huffman tree, or noise-contrastive estimation, which
corrects for the noise distribution (``models.kernels.binary``).

As in the authors' program: the window of each word is 1 to ``window`` words wide at random,
frequent words are left out at random before windows are laid (their ``sample`` formula), a noise
word that equals ``o`` is skipped, and words outside the vocabulary are dropped, so windows close
over the gap. Deviations: in skip-gram with negative sampling the words of one window see ``u`` as
it was before the window, and wherever there is noise they share it (Ji et al. 2016,
arXiv:1604.04661), which is what makes the kernel fast (``shared_noise: false`` is the exact
pairwise way); no sentence is cut at 1,000 words; the sigmoid is computed rather than looked up and
cut at 6, which changes no score; ``v`` begins in [-1, 1) / D, as in fastText, not in half of that.
(In one epoch over 7 M words of novels CBOW then answered 0.4 points more of the Google analogies,
and skip-gram no less, at a loss on held-out text that was up to 0.3 % lower.) Loss is the mean per
example: a pair of words in skip-gram, a word with all its context in CBOW. But for the default
kernel a pair is judged after the pairs of its window before it have been learnt, as in the authors'
program.

Shapes: ``V`` vocabulary, ``D`` width, ``N`` words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.capabilities import TableName
from models.family import (
    FloatArray,
    Inputs,
    State,
    Style,
    SweepsTables,
    SweepStats,
    SweptTable,
    Unit,
    Want,
    WantsTokens,
    WantsVocabulary,
)
from models.text import Sentences, Tokens
from models.vocabulary import Vocabulary


@dataclass(frozen=True)
class Config:
    """The settings of a word2vec model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "sweeps"
    title: ClassVar[str] = "word2vec"
    paper: ClassVar[str] = "Mikolov et al. (2013), arXiv:1301.3781 and arXiv:1310.4546"
    lasting: ClassVar[tuple[str, ...]] = ("architecture", "objective", "cbow", "dim")

    family: Literal["word2vec"] = "word2vec"
    architecture: Annotated[
        Literal["skip-gram", "cbow"],
        Field(description="Each word of a window predicts its centre, or all together do"),
    ] = "skip-gram"
    objective: Annotated[
        Literal["negative-sampling", "hierarchical-softmax", "nce", "softmax"],
        Field(description="How it predicts; softmax takes time in proportion to the vocabulary"),
    ] = "negative-sampling"
    cbow: Annotated[
        Literal["mean", "sum"], Field(description="What CBOW makes of the words of a window")
    ] = "mean"
    cbow_corrected: Annotated[
        bool,
        Field(
            description="Divide the gradient of CBOW's mean by the number of words, as the "
            "original program does not"
        ),
    ] = False
    dim: Annotated[int, Field(ge=1, le=4096, description="Width of the vectors")] = 100
    window: Annotated[
        int, Field(ge=1, le=100, description="Words on each side, at most; drawn anew per word")
    ] = 5
    negatives: Annotated[int, Field(ge=1, le=64, description="Noise words per window")] = 5
    shared_noise: Annotated[
        bool,
        Field(
            description="Words of a window share their noise words; false draws them for each "
            "pair and learns pair after pair, as the original program, several times slower"
        ),
    ] = True
    sample: Annotated[
        float,
        Field(ge=0, le=1, description="Words above this frequency are thinned out; 0 keeps all"),
    ] = 1e-3
    noise_power: Annotated[
        float, Field(ge=0, le=2, description="Power of the counts that noise is drawn by")
    ] = 0.75
    learning_rate: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="At the start")
    ] = 0.025
    min_learning_rate: Annotated[
        float,
        Field(
            ge=0,
            allow_inf_nan=False,
            description="At the end; the rate falls linearly over all epochs",
        ),
    ] = 1e-4
    epochs: Annotated[int, Field(ge=1, description="Passes over the text")] = 20
    min_count: Annotated[int, Field(ge=1, description="Rarer words get no vector")] = 5
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words, the most frequent")
    ] = None

    def __post_init__(self) -> None:
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate ({self.min_learning_rate}) must not be above learning_rate "
                f"({self.learning_rate})"
            )
        self._refuse_what_has_no_part()

    def _refuse_what_has_no_part(self) -> None:
        """A setting that would change nothing was meant to change something."""
        defaults = type(self).__dataclass_fields__
        parts = [
            ("architecture", self.architecture, ("cbow",), ("cbow", "cbow_corrected")),
            ("architecture", self.architecture, ("skip-gram",), ("shared_noise",)),
            ("cbow", self.cbow, ("mean",), ("cbow_corrected",)),
            (
                *("objective", self.objective, ("negative-sampling", "nce")),
                ("negatives", "noise_power", "shared_noise"),
            ),
        ]
        for setting, value, needed, names in parts:
            idle = [n for n in names if getattr(self, n) != defaults[n].default]
            if value not in needed and idle:
                raise ValueError(
                    f"{idle[0]} ({getattr(self, idle[0])}) has no part in training where {setting} "
                    f"is {value}; leave it out, or make {setting} {' or '.join(needed)}"
                )

    @property
    def outputs(self) -> str:
        """The name of the second table: vectors of words as targets, or of the tree's nodes."""
        return "nodes" if self.objective == "hierarchical-softmax" else "output"

    def for_workers(self, n: int) -> Config:
        """What workers add is partly averaged, so the rate is ``n ** WORKERS_POWER`` as high."""
        return replace(self, learning_rate=self.learning_rate * n**WORKERS_POWER)

    def wants(self) -> Mapping[str, Want]:
        """The training text, and a vocabulary without reserved entries."""
        return {
            "train": WantsTokens("train"),
            "vocabulary": WantsVocabulary(self.min_count, self.max_size, reserved=()),
        }

    def build(self, inputs: Inputs, *, seed: int) -> Model:
        """Input vectors uniform in [-1, 1) / D, output vectors zero."""
        vocabulary = inputs.vocabulary()
        words = len(vocabulary)
        table = np.random.default_rng(seed).random((words, self.dim), np.float32)
        table -= 0.5
        table *= 2 / self.dim
        rows = max(0, words - 1) if self.outputs == "nodes" else words
        return Model(self, vocabulary, table, np.zeros((rows, self.dim), np.float32))

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the arrays that ``Model.state`` gave."""
        return Model(self, vocabulary, state["input"], state[self.outputs])


class Model:
    """Two tables of vectors.

    Attributes:
        input: (V, D) float32, the word vectors.
        output: (V, D) float32, the vectors of words as targets; with hierarchical softmax (V - 1,
            D), those of the inner nodes of the tree.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        input: NDArray[np.float32],
        output: NDArray[np.float32],
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.input, self.output = input, output
        self._train: Callable[..., Any] | None = None  # the kernel, set up by the first sweep

    def state(self) -> State:
        """Both tables, float32: ``input``, and ``output`` or ``nodes``."""
        return {
            "input": np.ascontiguousarray(self.input),
            self.config.outputs: np.ascontiguousarray(self.output),
        }

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32 rows of ``input``; NaN for a word outside the vocabulary."""
        ids = self.vocabulary.ids(words)
        vectors = np.full((len(ids), self.config.dim), np.nan, np.float32)
        vectors[ids >= 0] = self.input[ids[ids >= 0]]
        return vectors

    def grow_from(self, base: Model) -> None:
        """Rows of words as they are; of a tree, the nodes that part the base's words as before.

        A Huffman tree is another one under other counts. A node that stands for another decision
        than any node of the base has nothing to take over, and begins at zero.
        """
        places = self.vocabulary.ids(base.vocabulary.words)
        self.input[places] = base.input
        if self.config.outputs == "output":
            self.output[places] = base.output
            return
        from models.kernels.huffman import Tree, agreeing

        before, after = Tree.of(base.vocabulary.counts), Tree.of(self.vocabulary.counts)
        theirs, ours, signs = agreeing(before, after, places)
        self.output[ours] = base.output[theirs] * signs[:, None]

    @property
    def own_table(self) -> TableName:
        """A word's vector is that of its input."""
        return "input"

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """``input``, and ``output`` where its rows are words."""
        if self.config.outputs == "nodes":
            return {"input": self.input}
        return {"input": self.input, "output": self.output}

    @property
    def epochs(self) -> int:
        """Passes over the text."""
        return self.config.epochs

    def chunks(self, inputs: Inputs) -> Chunks:
        """The training text in chunks of about a million words, cut between sentences."""
        return Chunks(inputs.tokens(), self.vocabulary, CHUNK_WORDS)

    def sweep(
        self, chunk: Sentences, *, seed: int, done: float, until: float, threads: int
    ) -> SweepStats:
        """Train on a chunk, in place.

        The learning rate falls in a straight line over the share of the whole run that is done;
        the threads take parts of the chunk by turns while the rate falls over the chunk.
        """
        train = self._train = self._train or self._lay_out()
        first, last = self.config.learning_rate, self.config.min_learning_rate
        rates = first + (last - first) * done, first + (last - first) * until
        tally = train(chunk, seed=seed, rates=rates, threads=threads)
        return SweepStats(len(chunk.ids), tally.kept, tally.examples, tally.loss, rates[1])

    def swept_tables(self) -> Mapping[str, SweptTable]:
        """Both tables; the inner nodes of a Huffman tree are numbered from rare to frequent."""
        busiest = np.arange(len(self.output))[::-1] if self.config.outputs == "nodes" else None
        return {
            "input": SweptTable(self.input),
            self.config.outputs: SweptTable(self.output, busiest),
        }

    def on_device(self, device: str) -> SweepsTables[Sentences]:
        """A copy on a torch device, with sweeps in batches: negative sampling alone.

        Raises:
            ValueError: another objective.
        """
        from models.kernels import batched

        tables, counts = (self.input, self.output), self.vocabulary.counts
        return batched.Words.of(tables, counts, self.config, self._pooling(), device)

    def _lay_out(self) -> Callable[..., Any]:
        """Move the tables to where a kernel reads them fast, and give its sweep over a text."""
        from models.kernels import binary, huffman, lanes, sampling, sgns, softmax

        config, counts = self.config, self.vocabulary.counts
        inputs, outputs = lanes.aligned(self.input), lanes.aligned(self.output)
        self.input, self.output = inputs[:, : config.dim], outputs[:, : config.dim]
        keep = sampling.keep_chances(counts, config.sample)
        weights = counts.astype(np.float64) ** config.noise_power
        decisions: binary.Decisions
        usual = "skip-gram", "negative-sampling", True
        if (config.architecture, config.objective, config.shared_noise) == usual:
            tables = sgns.Tables(inputs, outputs, keep, sampling.Noise.of(weights))
            return partial(sgns.sweep, tables, window=config.window, negatives=config.negatives)
        how: dict[str, Any] = {"window": config.window, "pooling": self._pooling()}
        match config.objective:
            case "softmax":
                return partial(softmax.sweep, softmax.Tables(inputs, outputs, keep), **how)
            case "hierarchical-softmax":
                decisions = huffman.Tree.of(counts)
            case "nce":
                decisions = binary.Sampled.nce(
                    weights, config.negatives, counts, shared=config.shared_noise
                )
            case "negative-sampling":
                decisions = binary.Sampled.negative_sampling(
                    weights, config.negatives, shared=config.shared_noise
                )
        return partial(binary.sweep, binary.Tables(inputs, outputs, keep, decisions), **how)

    def _pooling(self) -> Literal["none", "sum", "mean", "corrected-mean"]:
        """``models.kernels.windows.Pooling`` by the settings."""
        if self.config.architecture == "skip-gram":
            return "none"
        return "corrected-mean" if self.config.cbow_corrected else self.config.cbow


CHUNK_WORDS = 2**20
WORKERS_POWER = 0.5
"""Of the number of workers, by which the learning rate rises. On 17 M words of novels (one epoch) 2
and 4 workers then score as one worker does; with the rate of one worker they score less."""


class Chunks(Sequence[Sentences]):
    """A tokenized corpus under a vocabulary, in chunks that are made when they are asked for.

    A chunk ends after the last sentence that ends by a multiple of ``words``, however the corpus is
    cut into partitions. No sentence is cut, so a chunk can be larger than that.
    """

    unit: Unit = "words"

    def __init__(self, tokens: Tokens, vocabulary: Vocabulary, words: int) -> None:
        self.size = tokens.n_tokens
        self._texts = [part.text for part in tokens.partitions]
        self._tables = [vocabulary.ids(part.types) for part in tokens.partitions]
        self._first_sentences = np.cumsum([0, *map(len, self._texts)])
        cuts, places = {0, int(self._first_sentences[-1])}, np.arange(words, tokens.n_tokens, words)
        ended = np.zeros_like(places)  # sentences that have ended by each place
        for text in self._texts:
            ended += np.searchsorted(text.starts[1:], places, side="right")
            places = places - len(text.ids)
        self._cuts = sorted(cuts.union(ended.tolist()))

    def __len__(self) -> int:
        return len(self._cuts) - 1

    @overload
    def __getitem__(self, index: int) -> Sentences: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Sentences]: ...

    def __getitem__(self, index: int | slice) -> Sentences | Sequence[Sentences]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        index = range(len(self))[index]
        first, last = self._cuts[index], self._cuts[index + 1]
        ids, lengths = [], []
        for base, text, table in zip(
            self._first_sentences[:-1], self._texts, self._tables, strict=True
        ):
            starts = text.starts[max(0, first - base) : max(0, last - base) + 1]
            if len(starts) > 1:
                ids.append(table[text.ids[starts[0] : starts[-1]]])
                lengths.append(np.diff(starts))
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
        # Windows do not look at documents, so the chunk is shown as one.
        return Sentences(np.concatenate(ids), starts, np.array([0, last - first]))
