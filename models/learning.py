"""What the families of autograd have in common: settings of training, and what follows from them.

A family takes the settings that it has into its own ``Config``, each with a default of its own; a
setting that means something else there is described there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from models.examples import Boundary
from models.family import Schedule, State, Want, WantsTokens, WantsVocabulary
from models.vocabulary import LM_RESERVED, Vocabulary

# --- settings ---------------------------------------------------------------------------------

MinCount = Annotated[int, Field(ge=1, description="Words seen less often than this count as <unk>")]
MaxSize = Annotated[int | None, Field(ge=1, description="At most so many words; empty: no limit")]
CharacterMinCount = Annotated[
    int, Field(ge=1, description="Characters seen less often count as the unknown character")
]
Longest = Annotated[
    int, Field(ge=1, description="Characters of a word that are read; the rest is cut off")
]
StateBoundary = Annotated[
    Boundary, Field(description="Where the state starts anew; over what a document is read on")
]
StreamCount = Annotated[int, Field(ge=1, description="Streams of text, of all workers together")]
StreamSteps = Annotated[
    int, Field(ge=1, description="Words of a stream in a batch: so far gradients go back")
]
Dropout = Annotated[
    float, Field(ge=0, lt=1, description="Share left out between layers, at random")
]
NoisePower = Annotated[
    float, Field(ge=0, le=2, description="Power of the counts that noise is drawn by")
]
Accumulate = Annotated[
    int, Field(ge=1, description="Parts of a worker's batch done in turn, to save memory")
]
Epochs = Annotated[int, Field(ge=1, description="Passes over the text, at most")]
Patience = Annotated[
    int, Field(ge=0, description="Epochs without a better held-out loss that end it; 0: never")
]
Optimizer = Annotated[Literal["adamw", "sgd"], Field(description="How weights move")]
LearningRate = Annotated[float, Field(gt=0, description="The highest learning rate")]
Warmup = Annotated[
    float, Field(ge=0, lt=1, description="Share of all steps in which the rate rises")
]
WeightDecay = Annotated[
    float, Field(ge=0, description="Decay of weights and embeddings, never of biases")
]
Clip = Annotated[float, Field(ge=0, description="The largest norm of the gradient; 0: no limit")]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16"],
    Field(description="auto: bfloat16 where the hardware multiplies it fast"),
]

FLOOR = 0.1
"""The share of the highest rate at which a training ends."""


# --- what follows from them ---------------------------------------------------------------------


def schedule_of(config: Any, **more: Any) -> Schedule:
    """The schedule that a family's settings make: each setting has the name of its field.

    Unless it is said otherwise, the rate rises and then falls linearly to a tenth.

    Args:
        config: a dataclass.
        more: fields that are not settings of that name.
    """
    names = {field.name for field in fields(Schedule)} & {field.name for field in fields(config)}
    return Schedule(**({"floor": FLOOR} | {n: getattr(config, n) for n in names} | more))


def by_decay(parameters: Iterable[Tensor], weight_decay: float) -> Sequence[Mapping[str, Any]]:
    """Groups for ``torch.optim``: matrices with decay, vectors, which are biases, without."""
    chosen = list(parameters)
    return [
        {"params": [p for p in chosen if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in chosen if p.dim() <= 1], "weight_decay": 0.0},
    ]


def wants_text(min_count: int, max_size: int | None) -> Mapping[str, Want]:
    """The training text, held-out text to choose the best weights by, and a vocabulary."""
    return {
        "train": WantsTokens("train"),
        "heldout": WantsTokens("valid"),
        "vocabulary": WantsVocabulary(min_count, max_size, LM_RESERVED),
    }


def bytes_to_train(weights: int, optimizer: Literal["adamw", "sgd"] = "adamw") -> int:
    """Memory that training takes at least: weights, gradients, what the optimizer keeps."""
    return weights * 4 * (4 if optimizer == "adamw" else 2)


def known_rows(grown: Vocabulary, base: Vocabulary) -> Tensor:
    """(N,) where the entries of a base stand in a grown vocabulary, the reserved ones first."""
    reserved = np.arange(len(LM_RESERVED), dtype=np.int32)
    places = np.concatenate([reserved, grown.ids(base.words)])
    return torch.from_numpy(places.astype(np.int64))


# --- weights and arrays -------------------------------------------------------------------------

Module = TypeVar("Module", bound=nn.Module)


def loaded(model: Module, state: State, *apart: str) -> Module:
    """A model with the weights of a state, all but the arrays ``apart``, which are no weights."""
    model.load_state_dict({n: torch.tensor(a) for n, a in state.items() if n not in apart})
    return model


def arrays_of(model: nn.Module) -> dict[str, NDArray[Any]]:
    """The parameters of a model by name."""
    return {name: value.detach().cpu().numpy() for name, value in model.named_parameters()}


def rows_of(
    table: NDArray[np.float32], vocabulary: Vocabulary, words: Sequence[str]
) -> NDArray[np.float32]:
    """(N, D) the rows of words in a table (V, D); NaN for a word outside the vocabulary."""
    ids = vocabulary.ids(words)
    vectors = table[ids]
    vectors[ids == vocabulary.unknown] = np.nan
    return vectors
