"""Linear interpolation of language models: p(w | c) = sum of m_k p_k(w | c).

F. Jelinek and R. Mercer, *Interpolated estimation of Markov source parameters from sparse data*
(1980). The weights ``m_k`` are given, or fitted by EM on held-out text, whose likelihood then
never falls from one step to the next::

    r_k(i) = m_k p_k(i) / sum_j m_j p_j(i)        m_k = mean of r_k(i) over all i

All parts share one vocabulary, and so does the mixture. A mixture of mixtures is one of their
parts, with the products of the weights.

Shapes: ``K`` parts, ``N`` predictions, ``S`` sentences, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.awd_lstm import Config as AwdLstmConfig
from models.birnn import Config as BirnnConfig
from models.blend_lm import Config as BlendLmConfig
from models.capabilities import Decoder, LanguageModel, Predicts, ReadsBackward, ReadsOn
from models.char_cnn import Config as CharCnnConfig
from models.class_ngram import Config as ClassNgramConfig
from models.elmo import Config as ElmoConfig
from models.family import Inputs, State, Style, Want
from models.imported_ngram import Config as ImportedNgramConfig
from models.ngram import Config as NgramConfig
from models.nplm import Config as NplmConfig
from models.parts import state_of_part, state_of_parts
from models.rnnlm import Config as RnnlmConfig
from models.text import Sentences
from models.vocabulary import Vocabulary

TOLERANCE = 1e-6
"""Nats a prediction between the likelihood and the highest there is, below which EM ends."""
STEPS = 10_000
"""Of EM at most; the distance to the highest likelihood is then at most log(K) / STEPS."""
SUM = 1e-6
"""How far weights may be from summing to 1."""

Part = (
    NgramConfig
    | ClassNgramConfig
    | NplmConfig
    | RnnlmConfig
    | AwdLstmConfig
    | CharCnnConfig
    | ElmoConfig
    | BirnnConfig
    | BlendLmConfig
    | ImportedNgramConfig
)
"""The settings of whatever can be mixed; of ``birnn`` only that which predicts what follows."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which models are mixed, and how."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Mixture"
    paper: ClassVar[str] = "Jelinek & Mercer 1980"

    family: Literal["mixture"] = "mixture"
    parts: Annotated[
        tuple[Annotated[Part, Field(discriminator="family")], ...],
        Field(min_length=2, description="Settings of each part"),
    ]
    weights: Annotated[tuple[float, ...], Field(description="Of each part; they sum to 1")]
    names: Annotated[tuple[str, ...], Field(description="What each part is called")]
    contents: Annotated[tuple[str, ...], Field(description="Content hash of each part")]

    def __post_init__(self) -> None:
        if not len(self.parts) == len(self.weights) == len(self.names) == len(self.contents):
            raise ValueError("parts, weights, names and contents are of different numbers")
        check_weights(self.weights, len(self.parts))

    def wants(self) -> Mapping[str, Want]:
        """Nothing of a corpus: it is made of other models."""
        return {}

    def build(self, inputs: Inputs, *, seed: int) -> Mixture:
        """There is no untrained one.

        Raises:
            TypeError: always.
        """
        raise TypeError("a mixture is made of other models, by `lexloom mix`")

    def restore(self, vocabulary: Vocabulary, state: State) -> Mixture:
        """The mixture whose ``state`` this is."""
        parts: list[LanguageModel] = []
        for k, config in enumerate(self.parts):
            part = config.restore(vocabulary, state_of_part(state, k))
            assert isinstance(part, LanguageModel)  # a birnn may be none, and is not mixed then
            parts.append(part)
        return Mixture(self, vocabulary, parts)


class Mixture:
    """A weighted sum of language models."""

    def __init__(
        self, config: Config, vocabulary: Vocabulary, parts: Sequence[LanguageModel]
    ) -> None:
        self.config, self.vocabulary, self.parts = config, vocabulary, tuple(parts)

    def state(self) -> State:
        """The arrays of all parts, each under the number of its part."""
        return state_of_parts(self.parts)

    def log_prob(self, sentences: Sentences) -> NDArray[np.float64]:
        """(N + S,) see ``models.capabilities.Scores``."""
        scores = [part.log_prob(sentences) for part in self.parts]
        return mixed(np.stack(scores), np.array(self.config.weights))

    @property
    def reads_on(self) -> bool:
        """Whether any part does."""
        return any(isinstance(part, ReadsOn) and part.reads_on for part in self.parts)

    @property
    def reads_backward(self) -> bool:
        """Whether all parts do; mixed are only those that read in one direction."""
        return any(isinstance(part, ReadsBackward) and part.reads_backward for part in self.parts)

    def decoder(self, prefixes: Sentences) -> Decoder:
        """See ``models.capabilities.Predicts``."""
        decoders = []
        for part in self.parts:
            assert isinstance(part, Predicts)
            decoders.append(part.decoder(prefixes))
        return _Together(decoders, np.array(self.config.weights))


class _Together:
    """The decoders of all parts, side by side."""

    def __init__(self, decoders: Sequence[Decoder], weights: NDArray[np.float64]) -> None:
        self._decoders, self._weights = decoders, weights

    def log_probs(self) -> NDArray[np.float64]:
        return mixed(np.stack([d.log_probs() for d in self._decoders]), self._weights)

    def append(self, words: NDArray[np.int32]) -> None:
        for decoder in self._decoders:
            decoder.append(words)


def mixed(log_probs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, ...) nats of every part -> (...) nats of their mixture; -inf where no part has any."""
    with np.errstate(divide="ignore"):
        shares = np.log(weights).reshape(-1, *[1] * (log_probs.ndim - 1))
    total: NDArray[np.float64] = np.logaddexp.reduce(log_probs + shares, axis=0)
    return total


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights and how they were found.

    Attributes:
        weights: (K,) they sum to 1.
        means: nats a prediction before each step of EM, and after the last; they never fall.
    """

    weights: NDArray[np.float64]
    means: tuple[float, ...]


def fit_weights(log_probs: NDArray[np.float64]) -> Fitted:
    """The weights under which held-out text is likeliest, by EM from equal ones.

    What no part holds for possible has no say. The likelihood is concave in the weights, so where
    EM begins does not matter, and how far it is from the highest is known: the gradient g of the
    mean bounds it by max g - 1.

    Args:
        log_probs: (K, N) nats of every part for the same predictions.

    Raises:
        ValueError: there is nothing to fit on.
    """
    possible = log_probs[:, np.isfinite(log_probs).any(axis=0)]
    if possible.shape[1] == 0:
        raise ValueError("no part holds anything of the held-out text for possible")
    highest = possible.max(axis=0)
    relative = np.exp(possible - highest)
    weights = np.full(len(log_probs), 1 / len(log_probs))
    means: list[float] = []
    for _ in range(STEPS):
        total = weights @ relative
        means.append(float(np.mean(np.log(total) + highest)))
        slope = relative @ (1 / total) / relative.shape[1]
        if slope.max() - 1 < TOLERANCE:
            break
        weights = weights * slope
        weights /= weights.sum()
    return Fitted(weights, tuple(means))


def check_weights(weights: Sequence[float], parts: int) -> None:
    """Refuse what are no weights.

    Raises:
        ValueError: too few or too many, one below 0 or no number, or their sum is not 1.
    """
    if len(weights) != parts:
        raise ValueError(f"{parts} models need {parts} weights, not {len(weights)}")
    if not all(0 <= weight <= 1 for weight in weights):
        raise ValueError(f"weights lie from 0 to 1, unlike {', '.join(map(str, weights))}")
    if abs(sum(weights) - 1) > SUM:
        raise ValueError(f"weights must sum to 1, not to {sum(weights):g}")
