"""The settings that a recipe and a family may have, for people: key, default, values, meaning.

All of it comes from the JSON schema that pydantic makes of the classes which read the YAML file, so
nothing here has to be kept in step with them.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from models.families import FAMILIES
from pipelines.answers import Fitting
from pipelines.config import RunConfig
from pipelines.wording import suggestion
from tasks.errors import ConfigError
from tasks.published import Published

ANY = "NAME"
"""In a key, for a name that the writer of a recipe chooses."""
KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
    "object": "mapping",
}
"""What stands for a value, by its type in a JSON schema."""
EMPTY = "empty"
"""What is said of nothing; "none" is a value of its own where it is one of several."""
REQUIRED = "required"
"""In place of a default."""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Described:
    """A setting.

    Attributes:
        key: its way in the YAML file, "corpus.split.valid".
        default: as it would be written there; "required" if there is none.
        values: what may stand there, "number, 0 to 1".
        description: what it does.
    """

    key: str
    default: str
    values: str
    description: str


def settings_of(family: str = "") -> tuple[Described, ...]:
    """The settings of a family by its name, or those of a recipe besides its families.

    Raises:
        ConfigError: there is no such family.
    """
    if not family:
        return tuple(_below("", RunConfig.model_json_schema(), _OF_A_RUN, {}))
    config = next((config for config in FAMILIES if config.family == family), None)
    if config is None:
        known = [config.family for config in FAMILIES]
        near = suggestion(family, known)
        listed = f"the families are: {', '.join(known)}"
        raise ConfigError(
            f"there is no family {family!r}",
            where="settings",
            remedy=f"{near} {listed}" if near.startswith("did you mean") else listed,
        )
    return tuple(_below("", TypeAdapter(config).json_schema(), {}, {}))


def _attributes(of: type) -> dict[str, str]:
    """What the docstring of a class says of its attributes."""
    _, _, listed = (inspect.getdoc(of) or "").partition("Attributes:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", listed, re.M)
    plain = {name: " ".join(text.split()).replace("``", "").rstrip(".") for name, text in found}
    return {name: text[:1].upper() + text[1:] for name, text in plain.items()}


_OF_A_RUN = _attributes(RunConfig) | {
    f"published.{name}": text for name, text in _attributes(Published).items()
}
"""Descriptions of settings by key, where the class has none in its fields."""


def _below(
    path: str, schema: Schema, told: Mapping[str, str], seen: dict[str, str]
) -> Iterator[Described]:
    """The settings below a key.

    Args:
        path: the key; empty at the top.
        schema: of what stands there.
        told: descriptions by key, where the schema has none.
        seen: the keys below which definitions have been told already, by name; grows.
    """
    definitions = schema.get("$defs", {})
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        if "const" in field:  # the discriminator of a family
            continue
        key = f"{path}.{name}" if path else name
        about = field.get("description") or told.get(key, "")
        default = REQUIRED if name in required else _written(field.get("default", {}))
        target, inner = _inner(field)
        if "discriminator" in inner:
            values = "families, each with its settings: lexloom settings FAMILY"
            yield Described(f"{key}.{ANY}", default, values, about)
        elif not target:
            yield Described(key, default, _values(field), about)
        elif target in seen:
            told_above = f"as {seen[target]}"
            yield Described(key, _outer(field, default, definitions[target]), told_above, about)
        else:
            below = f"{key}.{ANY}" if "additionalProperties" in field else key
            seen[target] = below
            body = {**definitions[target], "$defs": definitions}
            yield Described(key, _outer(field, default, body), "settings below", about)
            yield from _below(below, body, told, seen)


def _inner(field: Schema) -> tuple[str, Schema]:
    """The name of the definition that a field or the items of a mapping have; empty for values."""
    options: Sequence[Schema] = field.get("anyOf", (field,))
    inner = options[0]
    if isinstance(inner.get("additionalProperties"), Mapping):
        inner = inner["additionalProperties"]
    return str(inner.get("$ref", "")).rpartition("/")[2], inner


def _outer(field: Schema, default: str, below: Schema) -> str:
    """The default of what has settings of its own: as they tell, but for what is otherwise."""
    given = field.get("default")
    if not isinstance(given, Mapping):
        return default
    own = {name: one.get("default", {}) for name, one in below["properties"].items()}
    other = {name: value for name, value in given.items() if value != own[name]}
    return _written(other) if other else "as below"


def _written(value: Any) -> str:
    """A default as YAML has it; "empty" where nothing stands behind the key."""
    if value is None:
        return EMPTY
    if isinstance(value, str) and value:
        return value
    if isinstance(value, float):
        return f"{value:.12g}"
    return json.dumps(value, ensure_ascii=False)


def _values(schema: Schema) -> str:
    """What may stand for a value, in words."""
    if "anyOf" in schema:
        options = dict.fromkeys(map(_values, schema["anyOf"]))
        return " or ".join(sorted(options, key=EMPTY.__ne__))
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum") or [schema["const"]]))
    kind = schema.get("type")
    if kind == "null":
        return EMPTY
    if kind == "array":
        if "prefixItems" in schema:
            return f"list of {len(schema['prefixItems'])}: {_values(schema['prefixItems'][0])}"
        least = schema.get("minItems")
        return f"list{f' of at least {least}' * bool(least)}: {_values(schema['items'])}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"mapping of names to: {_values(inner)}" if isinstance(inner, Mapping) else "mapping"
    like = f"matching {schema['pattern']}" if "pattern" in schema else ""
    return ", ".join(filter(None, [KINDS[str(kind)], _range(schema), like]))


def _range(schema: Schema) -> str:
    """The range of a number."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}"
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
    }
    said = [f"{words} {_number(schema[key])}" for key, words in bounds.items() if key in schema]
    return " and ".join(said)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.12g}"


# --- for a terminal -------------------------------------------------------------------------


def settings_table(settings: Sequence[Described], family: str = "") -> RenderableType:
    """A row a setting, and above them where they stand in a recipe."""
    head = (
        f"settings of {family}, in a recipe below families.{ANY} with family: {family}"
        if family
        else "settings of a recipe; of a family: lexloom settings FAMILY, with one of\n"
        + ", ".join(config.family for config in FAMILIES)
    )
    return Group(Text(head), Fitting((_in_columns(settings), _in_lines(settings))))


def _in_columns(settings: Sequence[Described]) -> Table:
    table = Table("key", "default", "values", "what it is", box=None)
    for one in settings:
        cells = (_indented(one.key), one.default, one.values, one.description)
        table.add_row(*map(Text, cells))
    return table


def _in_lines(settings: Sequence[Described]) -> Table:
    """Below what a setting is what may stand there: for a terminal, where columns are narrow."""
    table = Table(box=None)
    table.add_column("key", no_wrap=True)
    table.add_column("default", overflow="fold", max_width=20)
    table.add_column("what it is, and what may stand there", overflow="fold")
    for one in settings:
        about = Text.assemble(one.description, ("\n" + one.values, "dim"))
        table.add_row(Text(_indented(one.key)), Text(one.default), about)
    return table


def _indented(key: str) -> str:
    """A key as it stands in a YAML file, below those that it belongs to."""
    *outer, name = key.replace(f".{ANY}.", f"{ANY}.").split(".")
    return "  " * len(outer) + name
