"""What a model can do: protocols that evaluators and exporters ask for with ``isinstance``.

Shapes: ``S`` sentences or texts, ``N`` tokens or words, ``D`` width, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from models.characters import Characters
from models.family import FloatArray, Model
from models.text import Sentences


@runtime_checkable
class EmbedsWords(Protocol):
    """Has a vector for a word."""

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32; a row of NaN where the model has no vector for a word."""
        ...


TableName = Literal["input", "output", "sum"]
"""A table of word vectors: that of words, that of words as targets or contexts, or both added."""


@runtime_checkable
class HasTables(Protocol):
    """Keeps its word vectors in tables, which may be chosen from (``models.tables``)."""

    @property
    def own_table(self) -> TableName:
        """The table that ``word_vectors`` takes."""
        ...

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """(V, D) float32, a row a word in the order of ``vocabulary.words``; never copies.

        Widths may differ. Tables whose rows are no words, such as the inner nodes of a tree, are
        not among them.
        """
        ...


@runtime_checkable
class HasTargets(Protocol):
    """Makes its word vectors, and keeps others of words as targets (``models.tables``)."""

    def target_vectors(self) -> NDArray[np.float32] | None:
        """(V, D) float32, a row a word in the order of ``vocabulary.words``; never copies.

        D is the width of the vectors that it makes. None where what it predicts are no words, such
        as the inner nodes of a tree.
        """
        ...


LayerName = Literal["before-highway", "after-highway"]
"""A layer that has a vector for a word: what filters find in its characters, or the last one."""


@runtime_checkable
class HasWordLayers(Protocol):
    """Makes the vector of any word in layers, which may be chosen from (``models.tables``)."""

    def word_layers(self) -> Mapping[LayerName, Callable[[Sequence[str]], FloatArray]]:
        """For each layer, from the input up, what gives N words their (N, D) float32 vectors."""
        ...


@runtime_checkable
class Scores(Protocol):
    """Gives the probability of text."""

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """Log-probabilities in nats, left to right, each sentence conditioned on its start alone.

        A model that ``ReadsOn`` also sees the sentences before in the document. One that
        ``ReadsBackward`` gives them right to left; the number of ``</s>`` is then that of a begin.

        Args:
            sentences: S sentences with N tokens, under the model's vocabulary.

        Returns:
            (N + S,) for every sentence the tokens in order and then its ``</s>``.
        """
        ...


@runtime_checkable
class LanguageModel(Model, Scores, Protocol):
    """A model of the probability of text."""


@runtime_checkable
class ReadsOn(Protocol):
    """May see, besides a sentence, those before it in its document."""

    @property
    def reads_on(self) -> bool:
        """Whether ``log_prob`` conditions on them; its sentences then come as whole documents."""
        ...


@runtime_checkable
class ReadsBackward(Protocol):
    """May read a text from its end."""

    @property
    def reads_backward(self) -> bool:
        """Whether ``log_prob`` gives each token what it is worth after those behind it."""
        ...


@runtime_checkable
class ScoresBackward(Protocol):
    """May give the probability of a text read from its end, besides that read from its start."""

    @property
    def scores_backward(self) -> bool:
        """Whether it does."""
        ...

    def log_prob_backward(self, sentences: Sentences) -> NDArray[np.float64]:
        """As ``Scores.log_prob``, each token given what is behind it in its sentence.

        Of a model that ``ReadsOn`` it is what is behind it in its document. The last number of what
        is read together is that of its beginning.

        Raises:
            ValueError: it does not score backward.
        """
        ...


@runtime_checkable
class ReadsLetters(Protocol):
    """Reads words by their spelling, so that it tells those apart which it cannot predict.

    Attributes:
        characters: those that it knows.
    """

    characters: Characters


@runtime_checkable
class SpellsWords(Protocol):
    """Scores any word by its spelling, so that none is unknown: its vocabulary is open.

    Its perplexity compares with none under a closed vocabulary, so a reserved entry of its own
    (``OPEN`` in ``models.vocabulary``) sets its vocabulary apart from all of these.
    """

    def spell_on(
        self, sentences: Sentences, *, seed: int, length: int, temperature: float = 1.0
    ) -> Sequence[Sequence[str]]:
        """Let S beginnings of a sentence go on by words that are drawn letter by letter.

        Args:
            sentences: the beginnings, which may be empty.
            seed: of the draws.
            length: words at most; a sentence may end before.
            temperature: of each character; 0 takes the likeliest.

        Returns:
            the new words of each.
        """
        ...


class Decoder(Protocol):
    """A batch of S texts that grow word by word."""

    def log_probs(self) -> NDArray[np.float64]:
        """(S, V) nats of the next word of each text; ``exp`` sums to 1, ``<s>`` has -inf."""
        ...

    def append(self, words: NDArray[np.int32]) -> None:
        """Let each text go on with a word of its own, (S,); after ``</s>`` nothing is defined."""
        ...


@runtime_checkable
class Predicts(Scores, Protocol):
    """Gives the distribution of the next word, so text can be generated."""

    def decoder(self, prefixes: Sentences) -> Decoder:
        """The texts to go on from: S beginnings of a sentence, which may be empty."""
        ...


@runtime_checkable
class FillsIn(Protocol):
    """Gives the probability of a token that is hidden in its text."""

    def masked_log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N,) nats of every token, each hidden in turn and predicted from all others.

        They are no factors of the probability of the text: their sum is a pseudo-log-likelihood,
        and not comparable with what ``Scores`` gives. Others are those of the sentence, or of the
        document by a model that ``ReadsOn``; of a long one, those in a stretch around.
        """
        ...


@runtime_checkable
class EmbedsTokens(Protocol):
    """Has vectors for each token of a text that depend on the text around it."""

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of its layers, from the input up."""
        ...

    def token_vectors(self, sentences: Sentences) -> Sequence[FloatArray]:
        """For each layer (N, D) float32; widths may differ between layers.

        A model that ``ReadsOn`` also sees the sentences before in the document (behind it too, if
        it reads backward). A model of characters reads ``sentences.written`` where it is there.
        """
        ...


@runtime_checkable
class EmbedsSentences(Protocol):
    """Has a vector for a whole sentence."""

    def sentence_vectors(self, sentences: Sentences) -> FloatArray:
        """(S, D) float32, each of a sentence read alone."""
        ...


@runtime_checkable
class ClassesWords(Protocol):
    """Puts words into classes that are the leaves of a binary tree."""

    def paths(self) -> Sequence[str]:
        """The path of every word of the vocabulary from the root, of 0 and 1."""
        ...


@runtime_checkable
class Grows(Protocol):
    """Goes on from a trained model; the family's Config is a ``GrowingFamily``."""

    def grow_from(self, base: Any) -> None:
        """Take over what a base has learnt, in place and before any training.

        The model is as ``build`` made it, under ``models.vocabulary.grown``: with the reserved
        entries and all words of the base, in an order of its own, and with new words. What belongs
        to an entry of the base becomes equal to the base's bit for bit, what belongs to a new word
        stays as it was built, or begins as the mean of what belongs to the words of the base. The
        base is not changed.

        Args:
            base: a model of the same class, whose ``lasting`` settings agree.
        """
        ...
