"""Configs as plain values: read from YAML, changed by ``a.b=c``, before they are validated."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from models.families import FAMILIES
from pipelines.config import Key, RunConfig, child, keys_at, named, place
from pipelines.wording import suggestion
from tasks.errors import ConfigError, InputError
from tasks.evaluation.names import KINDS, find_set
from tasks.places import STDIN, find_files, is_local

UNREADABLE = (yaml.YAMLError, RecursionError, ValueError)
"""What reading YAML ends with: brackets thousands deep and days that no month has among them."""
MAX_VALUES = 100_000
"""In a config with its aliases written out; a few lines of them can stand for billions."""


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
        if not _is_small(tree):
            raise ValueError(f"its aliases stand for more than {MAX_VALUES:,} values")
        value = yaml.safe_load(text)
    except UNREADABLE as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or _problem(error)
        raise ConfigError(
            f"this is not YAML: {problem}",
            where=f"{path}{line}",
            remedy="check indentation and brackets up to here; quote what has * : # or { in it",
        ) from None
    if not isinstance(value, dict):
        raise ConfigError(
            "a config is a mapping with the keys " + ", ".join(RunConfig.model_fields),
            where=str(path),
            remedy="begin with a line `corpus:` and write its settings below it",
        )
    marks: dict[Key, int] = {}
    _mark(tree, (), marks, str(path))
    return value, marks


def override(value: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """A plain config with changes of the form ``a.b=c`` laid over it; ``c`` is read as YAML.

    Raises:
        ConfigError: a change that is not of this form, or that names no setting.
    """
    changed = named(value)
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
            item = yaml.safe_load(text) if _is_small(yaml.compose(text, yaml.SafeLoader)) else text
        except UNREADABLE:
            item = text
        changed = _replaced(changed, keys, item, text)
    return changed


def key_of(change: str) -> Key:
    """What a change of the form ``a.b=c`` changes."""
    keys = change.partition("=")[0].strip().split(".")
    return tuple(int(key) if key.isdigit() else key for key in keys)


def choose(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A plain config with only the named ones of its families, or with fresh ones of that name.

    A mixture that is named brings the models that it is made of.

    Raises:
        ConfigError: a name that is neither in the config nor the name of a family.
    """
    families, mixtures = named(value)["families"], value.get("mixtures") or {}
    names, mixed = _with_parts(names, mixtures)
    others = [config.family for config in FAMILIES if config.family not in families]
    for name in names:
        if name not in (*families, *others):
            close = suggestion(name, [*families, *others])
            meant = f"{close} " if close.startswith("did") else ""
            by_default = f"; with default settings also: {', '.join(others)}" if others else ""
            raise ConfigError(
                f"there is no family {name!r}",
                where="families",
                remedy=f"{meant}this recipe has: {', '.join([*families, *mixtures])}{by_default}",
            )
    chosen = {**value, "families": {n: families.get(n, {"family": n}) for n in names}}
    if mixtures:
        chosen["mixtures"] = {n: mixture for n, mixture in mixtures.items() if n in mixed}
    if "bases" in value:
        chosen["bases"] = {name: base for name, base in value["bases"].items() if name in names}
    return chosen


def _with_parts(names: Sequence[str], mixtures: Mapping[str, Any]) -> tuple[list[str], set[str]]:
    """The families and the mixtures among names and what these are made of."""
    found, waiting = dict[str, None](), list(names)
    mixed = set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in mixtures and name not in mixed:
            mixed.add(name)
            waiting = [*mixtures[name]["parts"], *waiting]
        elif name not in mixtures:
            found.setdefault(name)
    return list(found), mixed


def anchored(value: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A plain config whose relative paths are those of files beside it.

    Args:
        value: as ``load`` gives it, right or wrong.
        folder: where its file lies.
    """

    def path(name: Any, *, must_exist: bool) -> Any:
        if not isinstance(name, str) or not name or not is_local(name):
            return name
        there = folder / name
        return str(there) if not must_exist or os.path.exists(there) else name

    def under(section: Any, changes: Mapping[str, bool]) -> Any:
        if not isinstance(section, Mapping):
            return section
        changed = dict(section)
        for key, must_exist in changes.items():
            item = section.get(key)
            if isinstance(item, list):
                changed[key] = [path(name, must_exist=must_exist) for name in item]
            elif isinstance(item, str):
                changed[key] = path(item, must_exist=must_exist)
        return changed

    # A data set and an evaluation set may also go by a name that is no path.
    value = dict(value)
    if "evaluation" in value:
        sets = {str(kind): True for kind in KINDS}
        value["evaluation"] = under(value["evaluation"], {**sets, "folder": False})
    if isinstance(value.get("bases"), Mapping):  # a registered model, or the folder of a pulled one
        value["bases"] = under(value["bases"], dict.fromkeys(value["bases"], True))
    if isinstance(value.get("corpus"), Mapping):
        value["corpus"] = {
            key: under(item, {"paths": False, "dataset": True})
            for key, item in value["corpus"].items()
        }
    return value


def check_files(config: RunConfig, source: str, marks: Mapping[Key, int]) -> None:
    """Refuse a config that names files which are not there, and say where it names them.

    Args:
        config: as it was parsed.
        source: the file it came from.
        marks: the lines of its keys.

    Raises:
        InputError: a file of the corpus or an evaluation set cannot be found.
    """
    sources = {split: getattr(config.corpus, split) for split in ("train", "valid", "test")}
    named_files: list[tuple[Key, Callable[[], object]]] = [
        (("corpus", split, "paths", i), partial(find_files, (path,)))
        for split, given in sources.items()
        if given and given.format != "dataset"
        for i, path in enumerate(given.paths)
        if path != STDIN and "://" not in path
    ]
    for kind in KINDS:
        for i, name in enumerate(getattr(config.evaluation, kind)):
            key = ("evaluation", kind, i)
            named_files.append((key, partial(find_set, name, kind, config.evaluation.folder)))
    for where, find in named_files:
        try:
            find()
        except InputError as error:
            raise InputError(
                f"{error.where}: {error.problem}",
                where=place(where, source, marks),
                remedy=error.remedy or "check the path; it is relative to the folder of the config",
            ) from None


# --- changing plain values ------------------------------------------------------------------


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


def _is_small(tree: Any) -> bool:
    """Whether a YAML tree has few values, each alias written out, and none that holds itself."""
    waiting, seen = [tree], 0
    while waiting and seen <= MAX_VALUES:
        node = waiting.pop()
        seen += 1
        if isinstance(node, yaml.MappingNode):
            waiting += [item for pair in node.value for item in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    return seen <= MAX_VALUES


def _problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return str(error) if isinstance(error, ValueError) else getattr(error, "reason", "unreadable")


def _mark(node: Any, at: Key, marks: dict[Key, int], path: str) -> None:
    """Note the lines of all keys of a YAML tree; a key that stands twice is an error."""
    if isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            here = (*at, key.value)
            if here in marks:
                raise ConfigError(
                    f"the key {key.value!r} stands here a second time",
                    where=f"{path}:{key.start_mark.line + 1}",
                    remedy=f"keep one of the two (the other is in line {marks[here]})",
                )
            marks[here] = key.start_mark.line + 1
            _mark(item, here, marks, path)
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            marks[(*at, i)] = item.start_mark.line + 1
            _mark(item, (*at, i), marks, path)


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
                remedy=suggestion(key, names),
            )


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        value = child(value, key)
    return value
