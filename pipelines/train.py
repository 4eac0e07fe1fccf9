"""One flow a family, each with the family's own settings as a flat form.

Prefect makes a form of a flow's parameters, and the server refuses values that do not fit. The UI
replaces nested values whole, so a family's settings are parameters themselves: the signature of
each flow is made from the fields of the family's ``Config``. A field that is left at its default
takes what the recipe says of the family.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args, get_type_hints

from prefect import Flow, flow
from pydantic import Field
from pydantic.fields import FieldInfo

from models import (
    awd_lstm,
    birnn,
    blend_lm,
    char_birnn,
    char_cnn,
    class_ngram,
    elmo,
    fasttext,
    glove,
    ngram,
    nplm,
    ppmi,
    rnnlm,
    spelling_lm,
    word2vec,
)
from models.family import with_article
from pipelines.config import parse
from pipelines.flow import concluding, job, show_result
from pipelines.job import RunResult
from pipelines.recipes import resolve

_COMMON: dict[str, tuple[Any, Any]] = {
    "recipe": (
        Annotated[
            str,
            Field(
                description="A recipe, or the full path of a YAML file on the worker's machine; "
                "it gives the corpus, and the settings that the form leaves at their defaults",
                min_length=1,
            ),
        ],
        "sample",
    ),
    "seed": (Annotated[int, Field(ge=0, description="Of everything random")], 1),
}

_BASE: tuple[Any, Any] = (
    Annotated[
        str,
        Field(
            description="A registered model of this family to go on from, NAME@ALIAS or NAME/3; "
            "empty: train anew. What shapes the vectors is then as it is in that model"
        ),
    ],
    "",
)


def _train(config: type[Any]) -> Flow[..., RunResult]:
    """The flow that trains one family."""

    def train(recipe: str, seed: int, **settings: Any) -> RunResult:
        def run() -> RunResult:
            base = resolve(recipe).model_dump(mode="json")
            goes_on = settings.pop("base", "") or _base(config.family, base)
            bases = {config.family: goes_on} if goes_on else {}
            families = {config.family: merged(config, base["families"].values(), settings)}
            result = job(parse({**base, "families": families, "bases": bases, "seed": seed})).run()
            show_result(result)
            return result

        return concluding(run)  # type: ignore[return-value]

    hints = get_type_hints(config, include_extras=True)
    fields = [field for field in dataclasses.fields(config) if field.name != "family"]
    ours = {field.name: (hints[field.name], field.default) for field in fields}
    parameters = _COMMON | ({"base": _BASE} if hasattr(config, "lasting") else {}) | ours
    about = f"Train {with_article(config.title)} ({config.paper}), evaluate and register it."
    train.__name__ = train.__qualname__ = f"train_{config.family.replace('-', '_')}"
    # Prefect reads the texts of a form from the docstring.
    lines = [f"    {name}: {_description(hint)}" for name, (hint, _) in parameters.items()]
    train.__doc__ = "\n".join([about, "", "Args:", *lines])
    train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=hint)
            for name, (hint, value) in parameters.items()
        ]
    )
    made = flow(
        name=f"train-{config.family}",
        description=about,
        persist_result=False,
    )
    return made(train)


def merged(
    config: type[Any], families: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a family: a recipe's, under those of a form that are not the default."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    ours = (family for family in families if family["family"] == config.family)
    said = next(ours, {"family": config.family})
    return {**said, **{key: value for key, value in settings.items() if value != defaults[key]}}


def _base(family: str, recipe: Mapping[str, Any]) -> str:
    """What the first model of a family in a recipe goes on from; empty if it begins anew."""
    named = (name for name, config in recipe["families"].items() if config["family"] == family)
    return str(recipe["bases"].get(next(named, ""), ""))


def _description(hint: Any) -> str:
    """The description in an annotated type."""
    found = [part.description for part in get_args(hint) if isinstance(part, FieldInfo)]
    return next((text for text in found if text), "")


train_ngram = _train(ngram.Config)
train_class_ngram = _train(class_ngram.Config)
train_word2vec = _train(word2vec.Config)
train_fasttext = _train(fasttext.Config)
train_nplm = _train(nplm.Config)
train_rnnlm = _train(rnnlm.Config)
train_awd_lstm = _train(awd_lstm.Config)
train_char_cnn = _train(char_cnn.Config)
train_elmo = _train(elmo.Config)
train_birnn = _train(birnn.Config)
train_char_birnn = _train(char_birnn.Config)
train_blend_lm = _train(blend_lm.Config)
train_spelling_lm = _train(spelling_lm.Config)
train_glove = _train(glove.Config)
train_ppmi = _train(ppmi.Config)

TRAIN_FLOWS: tuple[Flow[..., RunResult], ...] = (
    train_ngram,
    train_class_ngram,
    train_word2vec,
    train_fasttext,
    train_nplm,
    train_rnnlm,
    train_awd_lstm,
    train_char_cnn,
    train_elmo,
    train_birnn,
    train_char_birnn,
    train_blend_lm,
    train_spelling_lm,
    train_glove,
    train_ppmi,
)
"""One a family, in the order of ``models.families.FAMILIES``."""
