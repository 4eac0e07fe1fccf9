"""The layers of a contextual model as one vector for a task.

M. Peters et al., *Deep contextualized word representations* (NAACL 2018), eq. 1. With ``h_j[t]``
the vector of token t in layer j, from the input (j = 0) up, a task learns L + 1 weights and a
scale::

    v[t] = gamma * sum_{j = 0}^{L} softmax(s)_j h_j[t]

The vectors are data: the model that they are of does not learn. Before they are weighed, the vector
of each token may be normalized in each layer (J. Ba, J. Kiros, G. Hinton, 2016, without gain and
bias); the released program took mean and variance over a whole batch, so that what stands beside a
token changed it. A penalty on s, which is ``weight_decay`` in its optimizer, pulls the mix towards
the mean of the layers.

Shapes: ``L`` layers above the input, ``N`` tokens, ``D`` width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.capabilities import EmbedsTokens
from models.text import Sentences


class ScalarMix(nn.Module):
    """A weighted sum of layers.

    Attributes:
        s: (L + 1,) the weights before their softmax; zeros at the start, so a mean.
        gamma: (1,) the scale.
    """

    def __init__(self, layers: int, *, normalize: bool = False) -> None:
        """A mean of the layers.

        Args:
            layers: L + 1, the input among them.
            normalize: whether vectors are normalized first.
        """
        super().__init__()
        self.normalize = normalize
        self.s = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(1))

    @property
    def weights(self) -> Tensor:
        """(L + 1,) what each layer counts for; they sum to 1."""
        return torch.softmax(self.s, 0)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """L + 1 times (..., D) -> (..., D).

        Raises:
            ValueError: there are more layers than weights, or fewer, or their shapes differ.
        """
        shapes = {tuple(h.shape) for h in layers}
        if len(layers) != len(self.s) or len(shapes) > 1:
            found = ", ".join(map(str, sorted(shapes)))
            raise ValueError(f"{len(layers)} layers of {found} for {len(self.s)} weights")
        if self.normalize:
            layers = [F.layer_norm(h, h.shape[-1:]) for h in layers]
        mixed = torch.einsum("l,l...->...", self.weights, torch.stack(list(layers)))
        return self.gamma * mixed


def frozen(model: EmbedsTokens, sentences: Sentences) -> list[Tensor]:
    """Of each layer (N, D) vectors of the tokens of some text; no gradient leads to the model."""
    return [torch.from_numpy(vectors) for vectors in model.token_vectors(sentences)]
