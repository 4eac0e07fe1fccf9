"""The output layer of a language model: from hidden states to words.

``Output`` is a linear layer under a softmax, perhaps with the embeddings of the input as weights
(Press and Wolf 2017), trained whole or on a handful of noise words (``models.losses``).
``AdaptiveOutput`` (Grave et al. 2017) has the frequent words in its head, beside one entry for each
group of rarer ones, and a softmax over narrower states in each group. Both are whole when a text is
scored, and neither ever predicts ``<s>``.

Shapes: ``N`` predictions, ``D`` width of hidden states, ``V`` vocabulary, ``K`` noise words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from models.examples import END, START
from models.losses import Noise, Objective, linear_cross_entropy, sampled_loss
from models.text import Tokens
from models.vocabulary import LM_RESERVED, Vocabulary


class Output(nn.Module):
    """One softmax over all words.

    Attributes:
        W: (V, D); None where it is the embeddings of the input, which calls are then given.
        b: (V,).
        z: (1,) the learned log-normalizer of NCE, or None.
    """

    never: Tensor  # (V,) -inf at <s>, else 0

    def __init__(
        self,
        words: int,
        width: int,
        objective: Objective = "softmax",
        *,
        tied: bool = False,
        learned_normalizer: bool = False,
    ) -> None:
        super().__init__()
        self.objective: Objective = objective
        self.W = None if tied else nn.Parameter(torch.zeros(words, width))
        self.b = nn.Parameter(torch.zeros(words))
        self.z = nn.Parameter(torch.zeros(1)) if learned_normalizer else None
        self.register_buffer("never", _never(words), persistent=False)

    def initialize(self, frequencies: NDArray[np.float64], generator: torch.Generator) -> None:
        """Weights uniform within 1 / sqrt(D); the bias is the add-one unigram model of (V,)."""
        with torch.no_grad():
            if self.W is not None:
                _uniform(self.W, generator)
            self.b.copy_(torch.from_numpy(_log_shares(frequencies)))

    def loss(
        self,
        hidden: Tensor,
        targets: Tensor,
        embeddings: Tensor | None = None,
        noise: Noise | None = None,
    ) -> Tensor:
        """The summed objective in nats; with noise the sampled one.

        Args:
            hidden: (N, D); its type is that of the products.
            targets: (N,) ids.
            embeddings: (V, D) of a tied layer.
            noise: of this batch.
        """
        weight, bias = self._weight(embeddings), self.b + self.never
        if noise is None:
            return linear_cross_entropy(hidden, weight, bias, targets)
        return sampled_loss(self.objective, hidden, weight, bias, targets, noise, self.z)

    def log_probs(self, hidden: Tensor, embeddings: Tensor | None = None) -> Tensor:
        """(..., D) -> (..., V) nats of the type of ``hidden``, -inf at ``<s>``."""
        return torch.log_softmax(
            F.linear(hidden, self._weight(embeddings), self.b + self.never), -1
        )

    def _weight(self, embeddings: Tensor | None) -> Tensor:
        found = self.W if embeddings is None else embeddings
        if found is None:
            raise ValueError("a tied output layer is given the embeddings")
        return found


HEAD, REST = 0.1, 0.4
"""Shares of the vocabulary: in the head, and in the head and the first group. Its words are by
falling count, and of a text of words some nine in ten are among the first tenth."""
NARROWER = 4
"""A group's states are so many times narrower than those of the group before (the paper's)."""


class AdaptiveOutput(nn.Module):
    """A head over the frequent words and the groups, and a softmax in each group.

    Attributes:
        head: the words of the head (the reserved among them) and one entry a group.
        narrow: (D_g, D) the projection of each group.
        groups: (V_g, D_g) the words of each group, and biases ``b_g`` (V_g,).
    """

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        first = max(len(LM_RESERVED) + 1, round(words * HEAD))
        borders = sorted({min(first, words), min(max(first, round(words * REST)), words), words})
        self.borders = borders
        sizes = np.diff(borders).tolist()
        widths = [max(1, width // NARROWER ** (g + 1)) for g in range(len(sizes))]
        self.head = Output(borders[0] + len(sizes), width)
        self.narrow = nn.ParameterList(nn.Parameter(torch.zeros(d, width)) for d in widths)
        self.groups = nn.ParameterList(
            nn.Parameter(torch.zeros(n, d)) for n, d in zip(sizes, widths, strict=True)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n)) for n in sizes)

    def initialize(self, frequencies: NDArray[np.float64], generator: torch.Generator) -> None:
        """As ``Output.initialize``; the bias of a group is its share."""
        parts = np.split(frequencies, self.borders[:-1])
        self.head.initialize(np.append(parts[0], [part.sum() for part in parts[1:]]), generator)
        with torch.no_grad():
            for part, narrow, group, b in self._each(parts[1:]):
                _uniform(narrow, generator)
                _uniform(group, generator)
                b.copy_(torch.from_numpy(_log_shares(part)))

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The summed negative log-likelihood in nats; see ``Output.loss``."""
        first = self.borders[0]
        owner = torch.bucketize(targets, targets.new_tensor(self.borders[:-1]), right=True)
        heads = torch.where(owner == 0, targets, first + owner - 1)
        loss = self.head.loss(hidden, heads)
        for g, (start, narrow, group, b) in enumerate(self._each(self.borders[:-1])):
            mine = torch.nonzero(owner == g + 1)[:, 0]
            state = F.linear(hidden[mine], narrow.to(hidden.dtype))
            loss = loss + linear_cross_entropy(state, group, b, targets[mine] - start)
        return loss

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) nats of the type of ``hidden``, -inf at ``<s>``."""
        head, first = self.head.log_probs(hidden), self.borders[0]
        parts = [head[..., :first]]
        for g, (narrow, group, b) in enumerate(self._each()):
            inside = torch.log_softmax(F.linear(F.linear(hidden, narrow), group, b), -1)
            parts.append(head[..., first + g, None] + inside)
        return torch.cat(parts, -1)

    def _each(self, *beside: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        return zip(*beside, self.narrow, self.groups, self.biases, strict=True)


def frequencies(vocabulary: Vocabulary, text: Tokens) -> NDArray[np.float64]:
    """(V,) how often each entry is predicted in a training text; ``<s>`` never is.

    Of a vocabulary that has grown, words have the sums over all texts.
    """
    counts = np.zeros(len(vocabulary))
    counts[len(LM_RESERVED) :] = vocabulary.counts
    for part in text.partitions:
        unknown = vocabulary.ids(part.types) == vocabulary.unknown
        counts[vocabulary.unknown] += part.counts[unknown].sum()
    counts[END] = text.n_sentences
    return counts


def draw_noise(
    counts: NDArray[np.float64],
    power: float,
    n: int,
    targets: NDArray[np.int64],
    seed: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The fields of a ``Noise`` from q proportional to ``counts ** power``.

    Args:
        counts: (V,) ``frequencies``; each is added to one, so that only ``<s>`` is left out.
        power: of the counts.
        n: noise words.
        targets: (N,) ids of a batch.
        seed: of the draw.
    """
    q = (counts + 1) ** power
    q[START] = 0
    q /= q.sum()
    words = np.random.default_rng(list(seed)).choice(len(q), n, p=q)
    with np.errstate(divide="ignore"):
        log_q = np.log(q).astype(np.float32)
    drawn, own = torch.from_numpy(log_q[words]), torch.from_numpy(log_q[targets])
    return torch.from_numpy(words), drawn, own


def _never(words: int) -> Tensor:
    never = torch.zeros(words)
    never[START] = -torch.inf
    return never


def _uniform(matrix: Tensor, generator: torch.Generator) -> None:
    bound = matrix.shape[1] ** -0.5
    matrix.uniform_(-bound, bound, generator=generator)


def _log_shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    added: NDArray[np.float64] = np.log((counts + 1) / (counts + 1).sum())
    return added
