"""The config of a run: what is made of which corpus. Read from YAML, changed by ``a.b=c``.

Whatever is wrong with a config is found here, before anything starts, and told as one
``ConfigError`` that names the file, the line and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from models.families import FAMILIES, FamilyConfig
from tasks.corpus import CorpusConfig
from tasks.errors import ConfigError
from tasks.evaluation import EvaluationConfig
from tasks.promotion import Gate

Key = tuple[str | int, ...]
"""The way to a value in nested mappings and lists."""


class RunConfig(BaseModel):
    """Everything that decides what a run makes.

    Attributes:
        corpus: what to read, and how.
        families: the models to train, by a name of their own; a registered model is called by
            the corpus and this name.
        evaluation: with what to compare them.
        gate: what a model must show to become champion.
        seed: of everything random.
        replicate: another number trains the same models anew, for seed spreads and benchmarks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: CorpusConfig
    families: dict[str, FamilyConfig] = Field(min_length=1)
    evaluation: EvaluationConfig = EvaluationConfig()
    gate: Gate = Gate()
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
    value = _named(value)
    try:
        return RunConfig.model_validate(value)
    except ValidationError as error:
        raise _explain(error.errors()[0], value, source, marks) from None


def load(path: Path) -> tuple[dict[str, Any], dict[Key, int]]:
    """The plain value in a YAML file, and the line of every key in it.

    Raises:
        ConfigError: there is no such file, or it is not a YAML mapping.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"this config cannot be read: {reason}",
            where=str(path),
            remedy="give the name of a recipe (`lexloom run --help` lists them) or a YAML file",
        ) from None
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "unreadable"
        raise ConfigError(f"this is not YAML: {problem}", where=f"{path}{line}") from None
    if not isinstance(value, dict):
        raise ConfigError(
            "a config is a mapping with the keys " + ", ".join(RunConfig.model_fields),
            where=str(path),
        )
    marks: dict[Key, int] = {}
    _mark(tree, (), marks, str(path))
    return value, marks


def override(value: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """A plain config with changes of the form ``a.b=c`` laid over it; ``c`` is read as YAML.

    Raises:
        ConfigError: a change that is not of this form, or that names no setting.
    """
    changed = _named(value)
    for change in changes:
        path, equals, text = change.partition("=")
        keys = tuple(path.strip().split("."))
        if not equals or not all(keys):
            raise ConfigError(
                "an override has the form a.b=c",
                where=f"--set {change}",
                remedy="for instance --set families.word2vec.dim=50",
            )
        _known(changed, keys, change)
        try:
            item = yaml.safe_load(text)
        except yaml.YAMLError:
            item = text
        changed = _replaced(changed, keys, item, text)
    return changed


def choose(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A plain config with only the named ones of its families, or with fresh ones of that name.

    Raises:
        ConfigError: a name that is neither in the config nor the name of a family.
    """
    families = _named(value)["families"]
    known = {*families, *(config.family for config in FAMILIES)}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no family {name!r}",
                where="families",
                remedy=_suggestion(name, sorted(known)),
            )
    return {**value, "families": {name: families.get(name, {"family": name}) for name in names}}


# --- plain values ---------------------------------------------------------------------------


def _named(value: Mapping[str, Any]) -> dict[str, Any]:
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


def _replaced(value: Any, keys: Sequence[str], item: Any, text: str) -> Any:
    """A copy of nested mappings and lists with one item replaced."""
    if not keys:
        # YAML 1.1 reads 1e-3 as text; and a setting that is text stays as it was typed.
        return text if isinstance(value, str) and not isinstance(item, str | None) else item
    key, *rest = keys
    if isinstance(value, list):
        index = int(key)
        return [
            _replaced(old, rest, item, text) if i == index else old for i, old in enumerate(value)
        ]
    value = value or {}
    return {**value, key: _replaced(value.get(key), rest, item, text)}


def _mark(node: Any, at: Key, marks: dict[Key, int], path: str) -> None:
    """Note the lines of all keys of a YAML tree; a key that stands twice is an error."""
    if isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            place = (*at, key.value)
            if place in marks:
                raise ConfigError(
                    f"the key {key.value!r} stands here a second time",
                    where=f"{path}:{key.start_mark.line + 1}",
                )
            marks[place] = key.start_mark.line + 1
            _mark(item, place, marks, path)
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            marks[(*at, i)] = item.start_mark.line + 1
            _mark(item, (*at, i), marks, path)


# --- what may stand where -------------------------------------------------------------------


def _known(value: Any, keys: tuple[str, ...], change: str) -> None:
    """Check that a path names a setting.

    Raises:
        ConfigError: it does not.
    """
    for i, key in enumerate(keys):
        names = keys_at(value, keys[:i])
        if names is None and i + 1 < len(keys):
            # Here stand names that a user gave: a new one needs all of its value at once.
            names = list(_at(value, keys[:i]) or {})
        if names is not None and key not in names:
            raise ConfigError(
                f"there is no setting {key!r}" + (f" in {'.'.join(keys[:i])}" if i else ""),
                where=f"--set {change}",
                remedy=_suggestion(key, names),
            )


def keys_at(value: Any, path: Sequence[str | int]) -> list[str] | None:
    """The names that may stand at a path of a config; None where any name may."""
    schema = RunConfig.model_json_schema()
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
        value = _child(value, key)
        here = _resolve(here, value, schema["$defs"])
    if isinstance(here.get("additionalProperties"), dict):
        return None
    if "items" in here and isinstance(value, list):
        return [str(i) for i in range(len(value))]
    return list(here.get("properties", {}))


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        value = _child(value, key)
    return value


def _child(value: Any, key: str | int) -> Any:
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


def _suggestion(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, 1, 0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known are: " + ", ".join(names) if names else "nothing can be set below it"


def _explain(error: ErrorDetails, value: Any, source: str, marks: Mapping[Key, int]) -> ConfigError:
    """What pydantic found, in one sentence with its place."""
    path = _real_path(error["loc"], value)
    kind, given = error["type"], error["input"]
    line = next((marks[path[:n]] for n in range(len(path), 0, -1) if path[:n] in marks), None)
    place = f"{source}:{line}: " if line else f"{source}: " if source else ""
    where = place + ".".join(str(key) for key in path)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        names = keys_at(value, path[:-1]) or []
        return ConfigError(
            f"there is no setting {path[-1]!r}",
            where=where,
            remedy=_suggestion(str(path[-1]), names),
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
            f"there is no family {tag!r}", where=where, remedy=_suggestion(tag, known)
        )
    if kind == "missing":
        return ConfigError("this setting is missing", where=where)
    message = error["msg"]
    for technical, plain in _PLAIN.items():
        message = message.replace(technical, plain)
    shown = "" if isinstance(given, Mapping | list) else f", not {given!r}"
    return ConfigError(message + shown, where=where)


_PLAIN = {
    "Value error, ": "",
    "Input should be": "must be",
    "valid dictionary or object to extract fields from": "mapping",
    "dictionary or an instance of ": "mapping, a ",
    "Dictionary should have": "must have",
    " after validation": "",
    "valid tuple": "list",
    "String should": "must",
    "should": "must",
}
"""pydantic's words in ours."""


def _real_path(location: Key, value: Any) -> Key:
    """Pydantic's location without the names of union members that it puts in."""
    path: list[str | int] = []
    for key in location:
        if isinstance(value, Mapping) and key not in value and key in value.values():
            continue
        path.append(key)
        value = _child(value, key)
    return tuple(path)
