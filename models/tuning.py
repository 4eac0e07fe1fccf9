"""A blend of registered models as the begin of a language model that trains both parts jointly.

The language model (``models.blend_lm``) takes over the word vectors of the blend, which is of one
character BiRNN and one other model: E holds the vectors of the other one, the encoder is the
BiRNN's, g and P are the weight and the projection of the blend. Its layers begin at random.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from models.blend import Blend
from models.blend_lm import BlendLm, Config
from models.capabilities import EmbedsWords
from models.char_birnn import CharBirnn
from models.vocabulary import LM_RESERVED

DECIDED = (
    "how", "dim", "projection", "char_cell", "char_layers", "char_units", "char_embedding",
    "longest",
)  # fmt: skip
"""The settings that a blend decides."""


def spelling_part(blend: Blend) -> tuple[CharBirnn, int]:
    """The character BiRNN of a blend, and which of its two parts that is.

    Raises:
        ValueError: it has other parts.
    """
    spell = [isinstance(part, CharBirnn) for part in blend.parts]
    part = blend.parts[spell.index(True)] if sorted(spell) == [False, True] else None
    if isinstance(part, CharBirnn):
        return part, spell.index(True)
    raise ValueError("a blend to tune is of one character BiRNN and one other model")


def like(config: Config, blend: Blend) -> Config:
    """The settings with the widths of a blend.

    Raises:
        ValueError: the blend is of other parts.
    """
    chars, k = spelling_part(blend)
    other = blend.parts[1 - k]
    assert isinstance(other, EmbedsWords)
    there, here = blend.maps[1 - k], blend.maps[k]
    width = other.word_vectors(other.vocabulary.words[:1]).shape[1]
    return replace(
        config,
        how=blend.config.how,
        dim=width if there is None else there.shape[1],
        projection=here is not None,
        char_cell=chars.config.cell,
        char_layers=chars.config.layers,
        char_units=chars.config.units,
        char_embedding=chars.config.embedding,
        longest=chars.config.longest,
    )


def begin_as(model: BlendLm, blend: Blend) -> None:
    """Take over the word vectors of a blend, in place; all else stays as it was built.

    Vectors of spelling have one length in a language model: where the blend takes them at any, it
    is their mean over the vocabulary. Words that the other part does not know begin with zeros of
    their own. A concatenation has the vector of the other part first, whatever the order was.

    Args:
        model: under settings that are ``like`` the blend.
        blend: of one character BiRNN and one other model.

    Raises:
        ValueError: the blend is of other parts.
    """
    chars, k = spelling_part(blend)
    other, words = blend.parts[1 - k], model.vocabulary.words
    assert isinstance(other, EmbedsWords)
    own = np.asarray(other.word_vectors(words), np.float64)
    length = 1.0
    if blend.config.unit:
        own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
    else:
        spelling = chars.word_vectors(words).astype(np.float64)
        length = float(np.linalg.norm(spelling, axis=1).mean())
    own = np.nan_to_num(own * blend.config.weights[1 - k], nan=0.0)
    there, here = blend.maps[1 - k], blend.maps[k]
    if there is not None:
        own = own @ there.astype(np.float64)
    model.characters = chars.characters
    model.encoder = model.config.encoder(len(chars.characters))
    model.encoder.load_state_dict(chars.encoder.state_dict())
    with torch.no_grad():
        model.E.zero_()
        model.E[len(LM_RESERVED) :] = torch.from_numpy(own)
        model.g.fill_(blend.config.weights[k] * length)
        if model.P is not None and here is not None:
            model.P.copy_(torch.from_numpy(here))
