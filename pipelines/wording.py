"""What pydantic finds wrong with a value, in plain words and with a remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

KINDS = {
    "int": ("a whole number", "write digits, such as 10"),
    "float": ("a number", "write a number such as 0.025 or 1e-3"),
    "finite": ("a finite number", "write a number such as 0.025 or 1e-3"),
    "bool": ("true or false", "write true or false, without quotes"),
    "string": ("text", "put it in quotes"),
    "tuple": ("a list", "put it in brackets: [...]"),
    "list": ("a list", "put it in brackets: [...]"),
    "dict": ("a mapping", "write its keys below it, each with its value"),
    "dataclass": ("a mapping", "write its keys below it, each with its value"),
    "model": ("a mapping", "write its keys below it, each with its value"),
    "mapping": ("a mapping", "write its keys below it, each with its value"),
}
"""What must stand there and how to write it, by the first word of pydantic's kind of error."""

BOUNDS = {
    "greater_than_equal": ("at least {ge}", "raise it"),
    "greater_than": ("more than {gt}", "raise it"),
    "less_than_equal": ("at most {le}", "lower it"),
    "less_than": ("less than {lt}", "lower it"),
}
TYPE_ERROR = re.compile(r"([a-z]+)_(type|parsing|from_float|number|attributes_type).*")


def plainly(error: ErrorDetails) -> tuple[str, str]:
    """What is wrong, in one clause that begins with "must", and what to do about it."""
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind in BOUNDS:
        bound, remedy = BOUNDS[kind]
        limit = bound.format(**{key: f"{value:g}" for key, value in context.items()})
        return f"must be {limit}, not {shown(given)}", remedy
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'", context["expected"])
        return (
            f"must be one of {', '.join(options)}, not {shown(given)}",
            suggestion(str(given), options),
        )
    if kind == "string_pattern_mismatch":
        return (
            f"must match {context['pattern']}, not {shown(given)}",
            "use letters, digits, - and _ only",
        )
    if kind in ("too_short", "too_long"):
        least = kind == "too_short"
        count = context["min_length" if least else "max_length"]
        items = f"at {'least' if least else 'most'} {count} item{'s' * (count != 1)}"
        return (
            f"must have {items}, not {context['actual_length']}",
            "add one" if least else "remove some",
        )
    if kind.startswith("string_too"):
        return "must be " + error["msg"].removeprefix("String should have "), "write another text"
    if (match := TYPE_ERROR.fullmatch(kind)) and match[1] in KINDS:
        what, remedy = KINDS[match[1]]
        if what == "a list" and isinstance(given, str):
            remedy = f"put it in brackets: [{given}]"
        return f"must be {what}, not {shown(given)}", remedy
    problem = error["msg"].removeprefix("Value error, ")
    if isinstance(given, Mapping):  # settings that do not go together: each by itself is right
        return problem, "change one of these settings"
    return f"{problem}, not {shown(given)}", ""


def shown(given: Any) -> str:
    """What stands there now, for people."""
    if given is None or given == "":
        return "empty"
    if isinstance(given, Mapping):
        return "a mapping"
    return "a list" if isinstance(given, list | tuple) else repr(given)


def suggestion(name: str, names: Sequence[str]) -> str:
    """What a person may have meant by a name that is none of those known."""
    close = difflib.get_close_matches(name, names, 1, 0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known are: " + ", ".join(names) if names else "nothing can be set below it"
