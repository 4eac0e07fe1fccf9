"""The step that tunes a blend of word vectors: both parts learn in a language model over a text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from models.blend import Blend
from models.blend_lm import Config
from models.tuning import begin_as, like
from tasks.artifacts import Artifact, Stats
from tasks.errors import ConfigError, InputError
from tasks.models import TextPipeline, read_model, write_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tracking import open_tracker
from tasks.training.checkpoint import Checkpoints
from tasks.training.inputs import read_inputs
from tasks.training.learn import learn
from tasks.training.room import check_room


@dataclass(frozen=True)
class Tune:
    """What decides a tuned blend besides its inputs.

    Attributes:
        family: the settings; those that the blend decides are its own.
        text: how the text was made; kept with the model.
        seed: of everything random.
    """

    family: Config
    text: TextPipeline
    seed: int = 1


def tune(context: Context, readers: Mapping[str, Reader], params: Tune) -> Stats:
    """Train the language model that begins as the input ``blend``, and write it.

    It trains in one process: workers would build the model anew, which begins as no blend.
    """
    inputs = read_inputs(params.family, readers)
    check_room(params.family, "tune", len(inputs.vocabulary()))
    model = params.family.build(inputs, seed=params.seed)
    blend = read_model(readers["blend"])
    assert isinstance(blend, Blend)
    begin_as(model, blend)
    anew = not Checkpoints(context.store, context.recipe).begun
    with open_tracker(context, params, context.inputs, anew=anew) as tracker:
        began = time.monotonic()
        report = learn(model, inputs, params.seed, context, tracker)
        seconds = time.monotonic() - began
    write_model(context.out, model, params.text.with_learnt(readers))
    return {"training_seconds": round(seconds, 3), **report}


TUNE: Step[Tune] = Step("tune", 1, "model", tune)


def tuned_like(runner: Runner, blend: Artifact, config: Config, where: str) -> Config:
    """The settings with the widths of a blend.

    Raises:
        InputError: the model is no blend, or one that cannot be tuned.
        ConfigError: settings that do not go together.
    """
    model = read_model(runner.store.reader(blend))
    if not isinstance(model, Blend):
        raise InputError(
            f"this is a {model.config.title}, and only blends are tuned",
            where=where,
            remedy="make one: lexloom blend MODEL CHAR-BIRNN --name NAME",
        )
    try:
        return like(config, model)
    except ValueError as error:
        raise ConfigError(
            str(error), where=where, remedy="blend a char-birnn model with one other"
        ) from None
