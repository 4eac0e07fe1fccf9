"""The step that trains a model of any family, by the loop of its training style."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from models.capabilities import Grows
from models.families import FamilyConfig
from models.family import Family, Fits, Inputs, Learns, Model, Sweeps
from tasks.artifacts import Stats
from tasks.errors import TrainingError
from tasks.models import TextPipeline, read_model, write_model
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tracking import open_tracker
from tasks.training.checkpoint import Checkpoints
from tasks.training.fit import fit
from tasks.training.inputs import read_inputs
from tasks.training.learn import learn
from tasks.training.room import check_room
from tasks.training.sweep import sweep_resumably


@dataclass(frozen=True)
class Train:
    """What decides a model besides its inputs.

    Attributes:
        family: the settings of the family.
        text: how its text was made; kept with the model.
        seed: of everything random.
        replicate: another number trains the same model anew (benchmarks, seed spreads).
    """

    family: FamilyConfig
    text: TextPipeline
    seed: int = 1
    replicate: int = 0


def train(context: Context, readers: Mapping[str, Reader], params: Train) -> Stats:
    """Train a model and write it; the stats hold what cannot be the same twice, such as times.

    Inputs: what the family asks for by role; what the corpus learnt to make tokens; ``base`` where
    the training goes on from a model, under a vocabulary that has all of its words.
    """
    model, inputs = untrained(params, readers)
    anew = not Checkpoints(context.store, context.recipe).begun
    with open_tracker(context, params, context.inputs, anew=anew) as tracker:
        # Starting MLflow and waiting for it at the end is no training.
        began = time.monotonic()
        if isinstance(model, Fits):
            report = fit(model, inputs)
        elif isinstance(model, Sweeps):
            report = sweep_resumably(model, inputs, params.seed, context, tracker)
        elif isinstance(model, Learns):
            report = learn(model, inputs, params.seed, context, tracker)
        else:
            raise TypeError(f"{type(model).__name__} has none of the three training styles")
        seconds = time.monotonic() - began
    write_model(context.out, model, params.text.with_learnt(readers))
    return {"training_seconds": round(seconds, 3), **report}


def untrained(params: Train, readers: Mapping[str, Reader]) -> tuple[Model, Inputs]:
    """The model that a training begins with, and what it trains on.

    Inputs: see ``train``.

    Raises:
        TrainingError: no word is frequent enough to be in the vocabulary.
        ConfigError: the model takes more memory than there is.
    """
    family: Family = params.family
    inputs = read_inputs(family, readers)
    if len(inputs.vocabulary().words) == 0:
        raise TrainingError(
            "no word of the training text is frequent enough to be in the vocabulary",
            where=f"families.{family.family}.min_count",
            remedy="lower min_count, or train on more text",
        )
    check_room(family, f"families.{family.family}", len(inputs.vocabulary()))
    model = family.build(inputs, seed=params.seed)
    if "base" in readers:
        base = read_model(readers["base"])
        if not isinstance(model, Grows) or type(base) is not type(model):
            raise TypeError(f"{type(model).__name__} cannot go on from {type(base).__name__}")
        model.grow_from(base)
    return model, inputs


TRAIN: Step[Train] = Step("train", 1, "model", train)
