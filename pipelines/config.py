"""The config of a run: what is made of which corpus.

Whatever is wrong with a config is found here, before anything starts, and told as one
``ConfigError`` that names the file, the line and the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from models.families import FAMILIES, FamilyConfig
from models.mixture import Part, check_weights
from models.ngram import Config as NgramConfig
from pipelines.wording import plainly, suggestion
from tasks.corpus import CorpusConfig
from tasks.errors import ConfigError
from tasks.evaluation import EvaluationConfig
from tasks.mix import Mixed
from tasks.promotion import Gate
from tasks.published import Published

Key = tuple[str | int, ...]
"""The way to a value in nested mappings and lists."""
MAX_INT = 2**63 - 1
"""Whole numbers are those of 64 bits: what computes with them knows no others."""
CHANGED = 0
"""In place of a line, for a value that was changed after it was read."""


class RunConfig(BaseModel):
    """Everything that decides what a run makes.

    Attributes:
        corpus: what to read, and how.
        families: the models to train, by a name of their own; a registered model is called by
            the corpus and this name.
        mixtures: of these and of mixtures named before, by names of their own.
        bases: for some of them, the registered model (``NAME@ALIAS``, ``NAME/3``) that its training
            goes on from; see ``tasks.continuing``.
        evaluation: with what to compare them.
        gate: what a model must show to become champion.
        published: figures of a paper, to be shown beside those of the run.
        seed: of everything random.
        replicate: another number trains the same models anew, for seed spreads and benchmarks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: CorpusConfig
    families: dict[str, FamilyConfig] = Field(min_length=1)
    mixtures: dict[str, Mixed] = Field(default_factory=dict)
    bases: dict[str, str] = Field(default_factory=dict)
    evaluation: EvaluationConfig = EvaluationConfig()
    gate: Gate = Gate()
    published: Published | None = None
    seed: int = Field(default=1, ge=0)
    replicate: int = Field(default=0, ge=0)

    def model_name(self, name: str) -> str:
        """The name under which a model of this run is registered."""
        return f"{self.corpus.name}-{name}"


def parse(
    value: Mapping[str, Any], *, source: str = "", marks: Mapping[Key, int] = {}
) -> RunConfig:
    """A config in plain mappings and lists, as YAML gives them.

    Args:
        value: the config; a family may leave out ``family`` where its name says it.
        source: the file it came from, for errors.
        marks: the lines of its keys, for errors.

    Raises:
        ConfigError: the first thing that is wrong with it.
    """
    value = named(value)
    try:
        config = RunConfig.model_validate(value)
    except ValidationError as error:
        raise _explain(error.errors()[0], value, source, marks) from None
    for path, problem, remedy in _odd_numbers(config.model_dump(), value):
        raise ConfigError(problem, where=place(path, source, marks), remedy=remedy)
    for path, problem, remedy in chain(
        _odd_smoothing(config), _odd_parts(config), _odd_mixtures(config)
    ):
        raise ConfigError(problem, where=place(path, source, marks), remedy=remedy)
    return config


def _has_valid(config: RunConfig) -> bool:
    """Whether there is to be validation text, brought along or split off."""
    corpus = config.corpus
    return corpus.valid is not None or (corpus.test is None and corpus.split.valid > 0)


def _odd_smoothing(config: RunConfig) -> Iterator[tuple[Key, str, str]]:
    """Deleted interpolation without text to fit its weights on, told before all counting."""
    for name, family in config.families.items():
        fitted = isinstance(family, NgramConfig) and family.smoothing == "jelinek-mercer"
        if fitted and not _has_valid(config):
            problem = "jelinek-mercer fits its weights to held-out text, and there is none"
            remedy = "give the corpus a valid split, or take another smoothing"
            yield ("families", name, "smoothing"), problem, remedy


def _odd_parts(config: RunConfig) -> Iterator[tuple[Key, str, str]]:
    """Batches that are to be done in more parts than they have: some would hold nothing."""
    for name, family in config.families.items():
        parts, size = getattr(family, "accumulate", 1), getattr(family, "batch_size", 1)
        if parts > size:
            problem = f"a batch of {size} has no {parts} parts"
            yield ("families", name, "accumulate"), problem, "lower it, or raise batch_size"


def _odd_mixtures(config: RunConfig) -> Iterator[tuple[Key, str, str]]:
    """What no mixture can be of: it would be found out when all the training is done."""
    scoring = [
        name
        for name, family in config.families.items()
        if isinstance(family, Part)
        and not (family.family == "birnn" and family.objective == "mask")
    ]
    for name, mixed in config.mixtures.items():
        here: Key = ("mixtures", name)
        if name in config.families:
            yield here, f"there is a family {name!r} already", "call the mixture by another name"
        for i, part in enumerate(mixed.parts):
            if part in mixed.parts[:i]:
                yield (*here, "parts", i), f"{part!r} stands here twice", "name it once"
            if part not in scoring:
                what = "gives no probability of text" if part in config.families else "is not there"
                known = f"a mixture may be of: {', '.join(scoring)}"
                yield (*here, "parts", i), f"the model {part!r} {what}", known
        if mixed.weights is not None:
            try:
                check_weights(mixed.weights, len(mixed.parts))
            except ValueError as error:
                yield (*here, "weights"), str(error), "correct them, or leave them out to fit them"
        elif not _has_valid(config):
            yield here, "there is no validation text to fit weights on", "give weights"
        scoring.append(name)


def _odd_numbers(made: Any, given: Any, path: Key = ()) -> Iterator[tuple[Key, str, str]]:
    """What pydantic takes for a number and we do not: yes and no, and what no machine word holds.

    Args:
        made: the validated value.
        given: what it was made of, as far as it was said.
        path: to both.
    """
    if isinstance(made, Mapping | list | tuple):
        items = made.items() if isinstance(made, Mapping) else enumerate(made)
        for key, item in items:
            yield from _odd_numbers(item, child(given, key), (*path, key))
    elif isinstance(made, bool) or not isinstance(made, int | float):
        return
    elif isinstance(given, bool):
        yield path, f"must be a number, not {str(given).lower()}", "write digits, such as 10"
    elif not math.isfinite(made):
        yield path, f"must be a finite number, not {made}", "write a number such as 0.025 or 1e-3"
    elif isinstance(made, int) and made > MAX_INT:
        yield path, f"must be at most {MAX_INT}, not {made}", "lower it"


def named(value: Mapping[str, Any]) -> dict[str, Any]:
    """The value with every family's ``family`` written out where its name says it."""
    families = value.get("families")
    if not isinstance(families, Mapping):
        return dict(value)
    titles = {config.family for config in FAMILIES}
    full = {}
    for name, settings in families.items():
        settings = {} if settings is None else settings
        if isinstance(settings, Mapping) and name in titles:
            settings = {"family": name, **settings}
        full[name] = settings
    return {**value, "families": full}


# --- what may stand where -------------------------------------------------------------------


def keys_at(value: Any, path: Sequence[str | int]) -> list[str] | None:
    """The names that may stand at a path of a config; None where any name may."""
    schema = _schema()
    here: Any = _resolve(schema, value, schema["$defs"])
    for key in path:
        if key in here.get("properties", {}):
            here = here["properties"][key]
        elif "items" in here and str(key).isdigit():
            here = here["items"]
        elif isinstance(here.get("additionalProperties"), dict):
            here = here["additionalProperties"]
        else:
            return []
        value = child(value, key)
        here = _resolve(here, value, schema["$defs"])
    if isinstance(here.get("additionalProperties"), dict):
        return None
    if "items" in here and isinstance(value, list):
        return [str(i) for i in range(len(value))]
    return list(here.get("properties", {}))


@cache
def _schema() -> dict[str, Any]:
    return RunConfig.model_json_schema()


def child(value: Any, key: str | int) -> Any:
    """What lies under a key of a mapping or a list; None if there is no such thing."""
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list) and str(key).isdigit() and int(key) < len(value):
        return value[int(key)]
    return None


def _resolve(schema: Any, value: Any, definitions: Mapping[str, Any]) -> Any:
    """A JSON schema with references followed and a union narrowed down to what the value is."""
    while True:
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
        elif "discriminator" in schema:
            field = schema["discriminator"]["propertyName"]
            tag = value.get(field) if isinstance(value, Mapping) else None
            target = schema["discriminator"]["mapping"].get(tag)
            if target is None:
                return {"properties": {field: {}}}
            schema = {"$ref": target}
        elif "anyOf" in schema or "allOf" in schema:
            options = schema.get("anyOf") or schema["allOf"]
            schema = next(
                (option for option in options if "$ref" in option or "discriminator" in option),
                options[0],
            )
        else:
            return schema


def place(path: Key, source: str, marks: Mapping[Key, int]) -> str:
    """Where a value stands: the file, the line if it is known, and its key."""
    line = next((marks[path[:n]] for n in range(len(path), 0, -1) if path[:n] in marks), None)
    if line == CHANGED:
        return f"--set {'.'.join(str(key) for key in path)}"
    file = f"{source}:{line}: " if line else f"{source}: " if source else ""
    return file + ".".join(str(key) for key in path)


def _explain(error: ErrorDetails, value: Any, source: str, marks: Mapping[Key, int]) -> ConfigError:
    """What pydantic found, in one sentence with its place."""
    path = _real_path(error["loc"], value)
    kind, where = error["type"], place(path, source, marks)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        names = keys_at(value, path[:-1]) or []
        return ConfigError(
            f"there is no setting {path[-1]!r}",
            where=where,
            remedy=suggestion(str(path[-1]), names),
        )
    if kind.startswith("union_tag"):
        context = error.get("ctx", {})
        known = [config.family for config in FAMILIES]
        if "tag" not in context:
            return ConfigError(
                "it is not said of which family this is",
                where=where,
                remedy=f"add `family:` with one of {', '.join(known)}",
            )
        tag = context["tag"]
        return ConfigError(
            f"there is no family {tag!r}", where=where, remedy=suggestion(tag, known)
        )
    if kind == "missing":
        return ConfigError(
            "this setting is missing", where=where, remedy=f"add `{path[-1]}:` with its value"
        )
    problem, remedy = plainly(error)
    keys = keys_at(value, path) if "must be a mapping" in problem else None
    if keys:
        remedy = f"write one of its keys below it: {', '.join(keys)}"
    return ConfigError(problem, where=where, remedy=remedy)


def _real_path(location: Key, value: Any) -> Key:
    """Pydantic's location without the names of union members that it puts in."""
    path: list[str | int] = []
    for key in location:
        if isinstance(value, Mapping) and key not in value and key in value.values():
            continue
        path.append(key)
        value = child(value, key)
    return tuple(path)
