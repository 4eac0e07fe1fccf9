"""fastText: skip-gram and CBOW over words and their character n-grams.

Bojanowski, Grave, Joulin, Mikolov (2017), "Enriching word vectors with subword information",
arXiv:1607.04606. A word is a bag of rows: one of its own, and one for each character n-gram
(``models.characters_ngrams``), which words share. Its vector ``v`` is their mean, as in the
authors' program (the paper has the sum), so a word that was never seen has one too. With ``o`` a
word of the window of ``w``, and ``K`` noise words ``n_k``::

    loss = -log s(u_o . v_w) - sum_k log s(-u_{n_k} . v_w)        s(z) = 1 / (1 + exp(-z))

That is skip-gram with negative sampling; ``u`` are rows of ``output``, of words alone. In CBOW the
mean of all rows of all words of the window predicts the word in the middle. Hierarchical softmax
sets ``v`` against the inner nodes of a Huffman tree instead.

As in the authors' program: the hash, the subsampling, windows of random width, the learning rate,
which falls to 0, noise by the square root of the counts, and a gradient that each row takes in
full although it is one of several in a mean. Deviations: the end of a line is no word; a noise word
that equals the word it stands beside is skipped, not drawn again; in skip-gram up to
``shared_noise`` words of a window share their noise words and are judged with ``v_w`` as it was
before them; and rows move once a window, by the sum of what its pairs made of ``v_w``, which is
the same but for n-grams that a word has twice. Sharing among 3, the default, took two thirds of the
time; the loss on held-out text, judged with noise for each pair, was the same to 0.1 per cent.

Shapes: ``V`` vocabulary, ``B`` buckets, ``D`` width, ``N`` words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.characters_ngrams import buckets_of
from models.family import (
    FloatArray,
    Inputs,
    State,
    Style,
    SweepsTables,
    SweepStats,
    SweptTable,
    Want,
    WantsTokens,
    WantsVocabulary,
)
from models.text import Sentences
from models.vocabulary import Vocabulary
from models.word2vec import CHUNK_WORDS, WORKERS_POWER, Chunks

WORDS_AT_ONCE = 4096  # whose rows are in memory when their vectors are made


@dataclass(frozen=True)
class Config:
    """The settings of a fastText model."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "sweeps"
    title: ClassVar[str] = "fastText"
    paper: ClassVar[str] = "Bojanowski et al. (2017), arXiv:1607.04606"
    lasting: ClassVar[tuple[str, ...]] = (
        "architecture", "objective", "dim", "min_n", "max_n", "buckets",
    )  # fmt: skip

    family: Literal["fasttext"] = "fasttext"
    architecture: Annotated[
        Literal["skip-gram", "cbow"],
        Field(description="A word predicts each word of its window, or the window predicts it"),
    ] = "skip-gram"
    objective: Annotated[
        Literal["negative-sampling", "hierarchical-softmax"], Field(description="How it predicts")
    ] = "negative-sampling"
    dim: Annotated[int, Field(ge=1, le=4096, description="Width of the vectors")] = 100
    window: Annotated[
        int, Field(ge=1, le=100, description="Words on each side, at most; drawn anew per word")
    ] = 5
    negatives: Annotated[int, Field(ge=1, le=64, description="Noise words per word")] = 5
    sample: Annotated[
        float,
        Field(ge=0, le=1, description="Words above this frequency are thinned out; 0 keeps all"),
    ] = 1e-4
    noise_power: Annotated[
        float, Field(ge=0, le=2, description="Power of the counts that noise is drawn by")
    ] = 0.5
    shared_noise: Annotated[
        int,
        Field(
            ge=1,
            le=200,
            description="Words of a window that share their noise words; 1 is the original, slower",
        ),
    ] = 3
    min_n: Annotated[
        int, Field(ge=0, le=64, description="Characters of the shortest n-grams, < and > included")
    ] = 3
    max_n: Annotated[
        int, Field(ge=0, le=64, description="Characters of the longest n-grams; 0 for none")
    ] = 6
    buckets: Annotated[
        int,
        Field(ge=1, le=2**31 - 1, description="Rows that n-grams are hashed to; each takes memory"),
    ] = 2_000_000
    learning_rate: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="At the start")
    ] = 0.05
    min_learning_rate: Annotated[
        float,
        Field(
            ge=0,
            allow_inf_nan=False,
            description="At the end; the rate falls linearly over all epochs",
        ),
    ] = 0.0
    epochs: Annotated[int, Field(ge=1, description="Passes over the text")] = 5
    min_count: Annotated[
        int, Field(ge=1, description="Rarer words are not trained on and have no row of their own")
    ] = 5
    max_size: Annotated[
        int | None, Field(ge=1, description="At most so many words, the most frequent")
    ] = None

    def __post_init__(self) -> None:
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate ({self.min_learning_rate}) must not be above learning_rate "
                f"({self.learning_rate})"
            )
        if self.min_n > self.max_n > 0:
            raise ValueError(
                f"min_n ({self.min_n}) must not be above max_n ({self.max_n}); for no n-grams at "
                "all make max_n 0"
            )
        self._refuse_what_has_no_part()

    def _refuse_what_has_no_part(self) -> None:
        """A setting that would change nothing was meant to change something."""
        defaults = type(self).__dataclass_fields__
        sampled = "objective", self.objective, "negative-sampling"
        skip_gram = "architecture", self.architecture, "skip-gram"
        parts = [
            ("negatives", sampled),
            ("noise_power", sampled),
            ("shared_noise", sampled),
            ("shared_noise", skip_gram),
        ]
        for name, (setting, value, needed) in parts:
            if value != needed and getattr(self, name) != defaults[name].default:
                raise ValueError(
                    f"{name} ({getattr(self, name)}) has no part in training where {setting} is "
                    f"{value}; leave it out, or make {setting} {needed}"
                )

    @property
    def n_buckets(self) -> int:
        """Rows of the table for n-grams: none where there are no n-grams."""
        return self.buckets if self.max_n else 0

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
        """Input rows uniform in [-1, 1) / D, output rows zero, as in the authors' program."""
        vocabulary = inputs.vocabulary()
        words = len(vocabulary)
        shape = words + self.n_buckets, self.dim
        table = np.random.default_rng(seed).random(shape, np.float32)
        table -= 0.5
        table /= self.dim / 2
        rows = max(0, words - 1) if self.outputs == "nodes" else words
        return Model(self, vocabulary, table, np.zeros((rows, self.dim), np.float32))

    def restore(self, vocabulary: Vocabulary, state: State) -> Model:
        """The model with the arrays that ``Model.state`` gave."""
        return Model(self, vocabulary, state["input"], state[self.outputs])


class Model:
    """Two tables of vectors.

    Attributes:
        input: (V + B, D) float32, rows of words, then of the buckets of n-grams.
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

    def rows(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of ``input`` that words are the mean of.

        Returns:
            (N + 1,) where the rows of each word begin, and the rows: a known word's own, then those
            of its n-grams, one as often as it comes.
        """
        config = self.config
        found = buckets_of(words, config.min_n, config.max_n, config.buckets)
        ids = self.vocabulary.ids(words)
        known = np.flatnonzero(ids >= 0)
        rows = np.insert(found.ids + len(self.vocabulary), found.starts[known], ids[known])
        return found.starts + np.concatenate([[0], np.cumsum(ids >= 0)]), rows

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32 means of rows; NaN for an unknown word without an n-gram."""
        vectors = np.full((len(words), self.config.dim), np.nan, np.float32)
        for first in range(0, len(words), WORDS_AT_ONCE):
            starts, rows = self.rows(words[first : first + WORDS_AT_ONCE])
            sizes = np.diff(starts)
            some = np.flatnonzero(sizes)
            if len(some):
                sums = np.add.reduceat(self.input[rows], starts[some], axis=0)
                vectors[first + some] = sums / sizes[some, None].astype(np.float32)
        return vectors

    def target_vectors(self) -> NDArray[np.float32] | None:
        """``output`` where its rows are words."""
        return None if self.config.outputs == "nodes" else self.output

    def grow_from(self, base: Model) -> None:
        """Rows of words and of n-grams as they are; of a tree, the nodes that part words as before.

        A new word begins at random: its n-grams, most of them known, give it a place at once.
        """
        places = self.vocabulary.ids(base.vocabulary.words)
        self.input[places] = base.input[: len(base.vocabulary)]
        self.input[len(self.vocabulary) :] = base.input[len(base.vocabulary) :]
        if self.config.outputs == "output":
            self.output[places] = base.output
            return
        from models.kernels.huffman import Tree, agreeing

        before, after = Tree.of(base.vocabulary.counts), Tree.of(self.vocabulary.counts)
        theirs, ours, signs = agreeing(before, after, places)
        self.output[ours] = base.output[theirs] * signs[:, None]

    def swept_tables(self) -> Mapping[str, SweptTable]:
        """Both tables; rows of n-grams are as busy as all words together that have them."""
        starts, rows = self.rows(self.vocabulary.words)
        uses = np.repeat(self.vocabulary.counts, np.diff(starts))
        busy = np.bincount(rows, uses, minlength=len(self.input))
        nodes = np.arange(len(self.output))[::-1] if self.config.outputs == "nodes" else None
        return {
            "input": SweptTable(self.input, np.argsort(-busy, kind="stable")),
            self.config.outputs: SweptTable(self.output, nodes),
        }

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

    def on_device(self, device: str) -> SweepsTables[Sentences]:
        """A copy on a torch device, with sweeps in batches: negative sampling alone.

        Raises:
            ValueError: another objective.
        """
        from models.kernels import batched

        tables, counts = (self.input, self.output), self.vocabulary.counts
        made_of = batched.Words.of(
            tables,
            counts,
            self.config,
            "mean" if self.config.architecture == "cbow" else "none",
            device,
        )
        bags = batched.Bags.on(device, *self.rows(self.vocabulary.words))
        return replace(made_of, bags=bags, busy=self.swept_tables()["input"].busiest)

    def _lay_out(self) -> Callable[..., Any]:
        """Move the tables to where a kernel reads them fast, and give its sweep over a text."""
        from models.kernels import fasttext, huffman, lanes, sampling

        config, counts = self.config, self.vocabulary.counts
        inputs, outputs = lanes.aligned(self.input), lanes.aligned(self.output)
        self.input, self.output = inputs[:, : config.dim], outputs[:, : config.dim]
        decisions: sampling.Noise | huffman.Tree
        if config.objective == "hierarchical-softmax":
            decisions = huffman.Tree.of(counts)
        else:
            decisions = sampling.Noise.of(counts.astype(np.float64) ** config.noise_power)
        keep = sampling.keep_chances(counts, config.sample)
        starts, rows = self.rows(self.vocabulary.words)
        return partial(
            fasttext.sweep,
            fasttext.Tables(inputs, outputs, starts, rows, keep, decisions),
            window=config.window,
            cbow=config.architecture == "cbow",
            negatives=config.negatives,
            shared=config.shared_noise,
        )
