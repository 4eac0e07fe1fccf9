"""The step that joins models with contextual vectors into one; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.bidirectional import Combine
from models.capabilities import EmbedsSentences, EmbedsTokens, EmbedsWords
from models.family import Model
from models.joined import Config, Contextual, Joined
from models.text import Sentences
from tasks.artifacts import Artifact, Stats
from tasks.errors import ConfigError, InputError
from tasks.mix import check_sources
from tasks.models import read_model, read_text_pipeline, write_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader


@dataclass(frozen=True)
class Join:
    """What decides a joined model besides its parts.

    Attributes:
        names: what each part is called.
        combine: how vectors of the parts become one.
    """

    names: tuple[str, ...]
    combine: Combine = "concatenation"


def join(context: Context, readers: Mapping[str, Reader], params: Join) -> Stats:
    """Join the inputs ``part 0``, ``part 1``, ... by the names of ``params``."""
    sources = [readers[f"part {k}"] for k in range(len(params.names))]
    parts = check_parts([read_model(source) for source in sources], params.names)
    check_sources(sources, params.names)
    configs: list[Any] = [part.config for part in parts]
    config = Config(
        parts=tuple(configs),
        names=params.names,
        contents=tuple(source.artifact.content for source in sources),
        combine=params.combine,
    )
    joined = Joined(config, parts[0].vocabulary, parts)
    check_widths(joined)
    write_model(context.out, joined, read_text_pipeline(sources[0]))
    return {"parts": len(parts), "layers": len(joined.layers)}


JOIN: Step[Join] = Step("join", 1, "model", join)


def join_models(
    runner: Runner,
    parts: Mapping[str, Artifact],
    combine: Combine = "concatenation",
    label: str = "",
) -> Artifact:
    """Several models as one, an artifact of the kind "model".

    Args:
        runner: runs the step.
        parts: the models by what they are called.
        combine: how their vectors become one.
        label: of the step in lists of steps.

    Raises:
        ConfigError: fewer than two models, or one twice.
        InputError: a model that has no contextual vectors, or two that do not go together.
    """
    if len(parts) < 2:
        raise ConfigError(
            f"{len(parts)} model cannot be joined", where=", ".join(parts), remedy="name another"
        )
    inputs = {f"part {k}": model for k, model in enumerate(parts.values())}
    return runner.run(JOIN, inputs, Join(tuple(parts), combine), label=label)


def check_parts(models: Sequence[Model], names: Sequence[str]) -> list[Contextual]:
    """The models, if they can be joined.

    Raises:
        InputError: one that has not all kinds of vectors, one that is made of others, or two under
            different vocabularies.
    """
    found: list[Contextual] = []
    for model, name in zip(models, names, strict=True):
        if isinstance(model, Joined) or not (
            isinstance(model, EmbedsTokens)
            and isinstance(model, EmbedsSentences)
            and isinstance(model, EmbedsWords)
        ):
            what = "made of others" if isinstance(model, Joined) else "without contextual vectors"
            raise InputError(
                f"this model is {what}, so it cannot be joined",
                where=name,
                remedy="name recurrent models, such as rnnlm or birnn",
            )
        if model.vocabulary.hash != models[0].vocabulary.hash:
            raise InputError(
                f"its vocabulary ({len(model.vocabulary):,} entries) is not that of {names[0]} "
                f"({len(models[0].vocabulary):,}), so their vectors are not of the same tokens",
                where=name,
                remedy="train both with equal min_count and max_size over one corpus",
            )
        found.append(model)
    return found


def check_widths(joined: Joined) -> None:
    """Refuse vectors that cannot be added or multiplied.

    Raises:
        InputError: those of a layer, of sentences or of words are of different widths.
    """
    if joined.config.combine == "concatenation":
        return
    nothing = Sentences.of(joined.vocabulary, [])
    depth = len(joined.layers)
    each = [
        [v.shape[1] for v in part.token_vectors(nothing)[-depth:]]
        + [part.sentence_vectors(nothing).shape[1], part.word_vectors([]).shape[1]]
        for part in joined.parts
    ]
    for what, *widths in zip([*joined.layers, "sentences", "words"], *each, strict=True):
        if len(set(widths)) > 1:
            raise InputError(
                f"vectors of {what} are {' and '.join(map(str, widths))} wide",
                where=", ".join(joined.config.names),
                remedy="join them by --combine concatenation",
            )
