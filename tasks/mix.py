"""The step that mixes language models, with weights that are given or fitted on held-out text.

Its statistics are the weight of each part by its name, and where they were fitted the perplexity
of the held-out text under each part and under the mixture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from models.capabilities import LanguageModel, SpellsWords
from models.family import Model
from models.mixture import Config, Mixture, check_weights, fit_weights
from tasks.artifacts import Artifact, Stats, canonical_json
from tasks.errors import ConfigError, InputError
from tasks.evaluation.perplexity import chunks, direction_of, reads_on
from tasks.models import read_model, read_text_pipeline, write_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tokenize import read_tokens

AT_ONCE = 1 << 16
"""Tokens that all parts score in turn."""


@dataclass(frozen=True)
class Mixed:
    """A mixture of models of a run."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    parts: Annotated[
        tuple[str, ...], Field(min_length=2, description="Names of the models that are mixed")
    ]
    weights: Annotated[
        tuple[float, ...] | None,
        Field(description="Of each, summing to 1; empty: fitted on the validation text"),
    ] = None


@dataclass(frozen=True)
class Mix:
    """What decides a mixture besides its parts and the text that weights are fitted on.

    Attributes:
        names: what each part is called.
        weights: of each part; None to fit them on the input ``heldout``.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...] | None = None


def mix(context: Context, readers: Mapping[str, Reader], params: Mix) -> Stats:
    """Mix the inputs ``part 0``, ``part 1``, ... by the names of ``params``."""
    sources = [readers[f"part {k}"] for k in range(len(params.names))]
    models = [read_model(source) for source in sources]
    scoring = check_parts(models, sources, params.names)
    if params.weights is not None:
        check_weights(params.weights, len(models))
    stats: dict[str, float | int | str] = {}
    weights = params.weights or _fit(scoring, params.names, readers["heldout"], context, stats)
    contents = [source.artifact.content for source in sources]
    mixture = blend(scoring, weights, params.names, contents)
    stats |= {f"weight.{name}": w for name, w in zip(params.names, weights, strict=True)}
    write_model(context.out, mixture, read_text_pipeline(sources[0]))
    return stats


MIX: Step[Mix] = Step("mix", 1, "model", mix)


def mix_models(
    runner: Runner,
    parts: Mapping[str, Artifact],
    *,
    weights: Sequence[float] | None = None,
    heldout: Artifact | None = None,
    label: str = "",
) -> Artifact:
    """A mixture of models by name, an artifact of the kind "model".

    Args:
        runner: runs the step.
        parts: the models by what they are called.
        weights: of each; None to fit them.
        heldout: tokens that weights are fitted on; not asked for where they are given.
        label: of the step in lists of steps.

    Raises:
        ConfigError: weights that are none, or one model twice.
        InputError: a model that gives no probabilities, or two under different vocabularies.
    """
    if len(parts) < 2:
        raise ConfigError(
            f"{len(parts)} model makes no mixture", where=", ".join(parts), remedy="name another"
        )
    if weights is not None:
        try:
            check_weights(weights, len(parts))
        except ValueError as error:
            raise ConfigError(
                str(error), where=label or "weights", remedy="correct them, or let them be fitted"
            ) from None
    inputs = {f"part {k}": model for k, model in enumerate(parts.values())}
    if weights is None:
        if heldout is None:
            raise TypeError("weights are fitted on held-out tokens")
        inputs["heldout"] = heldout
    params = Mix(tuple(parts), None if weights is None else tuple(weights))
    return runner.run(MIX, inputs, params, label=label)


def check_parts(
    models: Sequence[Model], sources: Sequence[Reader], names: Sequence[str]
) -> list[LanguageModel]:
    """The models, if they can be mixed.

    Raises:
        ConfigError: one model twice.
        InputError: a model that gives no probabilities, or two that read text in different ways.
    """
    scoring: list[LanguageModel] = []
    for model, name in zip(models, names, strict=True):
        if not isinstance(model, LanguageModel):
            raise InputError(
                "this model gives no probability of text, so it cannot be mixed",
                where=name,
                remedy="name language models, such as ngram or nplm",
            )
        if isinstance(model, SpellsWords):
            raise InputError(
                "it spells words out, over all strings and not over a vocabulary, so it cannot be "
                "mixed",
                where=name,
                remedy="name models of the words of one vocabulary",
            )
        if model.vocabulary.hash != models[0].vocabulary.hash:
            raise InputError(
                f"its vocabulary ({len(model.vocabulary):,} entries) is not that of {names[0]} "
                f"({len(models[0].vocabulary):,}): models that are mixed must predict the same "
                "words",
                where=name,
                remedy="train both with equal min_count and max_size over one corpus",
            )
        if direction_of(model) != direction_of(models[0]):
            raise InputError(
                f"it reads {direction_of(model)} and {names[0]} {direction_of(models[0])}, so "
                "what they say of a word is given different words",
                where=name,
                remedy="mix models of one direction",
            )
        scoring.append(model)
    check_sources(sources, names)
    return scoring


def check_sources(sources: Sequence[Reader], names: Sequence[str]) -> None:
    """Refuse models that cannot be parts of one, whatever they are.

    Raises:
        ConfigError: one model twice.
        InputError: two that read text in different ways.
    """
    seen: dict[str, str] = {}
    for source, name in zip(sources, names, strict=True):
        content = source.artifact.content
        if content in seen:
            raise ConfigError(
                f"this is the same model as {seen[content]}", where=name, remedy="name it once"
            )
        pipeline = canonical_json(read_text_pipeline(source))
        if pipeline != canonical_json(read_text_pipeline(sources[0])):
            raise InputError(
                f"it reads text in another way than {names[0]}: normalization or tokenization",
                where=name,
                remedy="train both over one corpus",
            )
        seen[content] = name


def blend(
    models: Sequence[LanguageModel],
    weights: Sequence[float],
    names: Sequence[str],
    contents: Sequence[str],
) -> Mixture:
    """The mixture; of a mixture among the models, its parts are taken."""
    parts: list[Any] = []
    shares: list[float] = []
    called: list[str] = []
    hashes: list[str] = []
    for model, weight, name, content in zip(models, weights, names, contents, strict=True):
        if isinstance(model, Mixture):
            parts += model.parts
            shares += [weight * share for share in model.config.weights]
            called += [f"{name}: {inner}" for inner in model.config.names]
            hashes += model.config.contents
        else:
            parts.append(model)
            shares.append(weight)
            called.append(name)
            hashes.append(content)
    config = Config(
        parts=tuple(part.config for part in parts),
        weights=tuple(shares),
        names=tuple(called),
        contents=tuple(hashes),
    )
    return Mixture(config, models[0].vocabulary, parts)


def _fit(
    models: Sequence[LanguageModel],
    names: Sequence[str],
    heldout: Reader,
    context: Context,
    stats: dict[str, float | int | str],
) -> list[float]:
    """Weights by EM; what the parts and the mixture are worth there is added to the stats."""
    text, vocabulary = read_tokens(heldout), models[0].vocabulary
    whole = any(reads_on(model) for model in models)
    scores = [[np.zeros(0)] for _ in models]
    done, total, known = 0, text.n_tokens * len(models), 0
    for part in text.under(vocabulary):
        for chunk, _ in chunks(part, AT_ONCE, whole=whole):
            known += int((chunk.ids != vocabulary.unknown).sum())
            for model, found in zip(models, scores, strict=True):
                found.append(model.log_prob(chunk))
                done += len(chunk.ids)
                context.progress(done, total, "tokens")
    log_probs = np.stack([np.concatenate(found) for found in scores])
    if log_probs.shape[1] == 0:
        raise InputError(
            "there is no held-out text to fit weights on",
            where="mixture",
            remedy="give weights, or a corpus with validation text",
        )
    if known == 0:
        raise InputError(
            "the held-out text has no word of the vocabulary, so it says nothing of weights",
            where="mixture",
            remedy="fit them on text of the kind that the models were trained on",
        )
    try:
        fitted = fit_weights(log_probs)
    except ValueError as error:
        raise InputError(str(error), where="mixture", remedy="give weights") from None
    stats["predictions"] = log_probs.shape[1]
    stats["steps"] = len(fitted.means)
    means = dict(zip(names, log_probs.mean(axis=1), strict=True)) | {"mixture": fitted.means[-1]}
    for name, mean in means.items():
        if math.isfinite(mean):
            stats[f"heldout_perplexity.{name}"] = float(np.exp(-mean))
    return [float(weight) for weight in fitted.weights]
