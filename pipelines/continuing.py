"""The short form of a training that goes on: a model and files become a recipe like any other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from models.families import FAMILIES
from pipelines.config import parse
from pipelines.counting import format_of
from pipelines.settings import Settings
from tasks.artifacts import canonical_json
from tasks.continuing import READ_ALIKE, Base, find_base, phrases_of
from tasks.errors import InputError
from tasks.places import is_local
from tasks.registry import check_name
from tasks.store import Store


def write_recipe(
    reference: str,
    text: Sequence[str],
    settings: Settings,
    *,
    name: str = "",
    changes: Mapping[str, Any] = {},
) -> Path:
    """Write the recipe of a training that goes on, and say where.

    It names the version, so that running it again finds what was made, whatever is champion by
    then.

    Args:
        reference: of the model to go on from.
        text: files, globs and URLs.
        settings: of the place.
        name: of the corpus, by which the model is called too; that of the base if empty, so that
            the model becomes its next version.
        changes: settings of the family that are not the base's.

    Raises:
        ConfigError: the files are of several formats, or a name or setting that cannot be.
        InputError: there is no such model, or training cannot go on from it.
    """
    store = Store(settings.store, settings.home / "cache")
    base = find_base(store, reference, settings.tracking_uri)
    if base.family not in {str(config.family) for config in FAMILIES}:
        raise InputError(
            f"this holds {base.title}, which training cannot go on from",
            where=base.reference,
            remedy="go on from a model that was trained here, or from a fastText .bin file",
        )
    value = recipe_for(base, text, name=name, changes=changes)
    parse(value)
    for key in value["families"]:
        check_name(f"{value['corpus']['name']}-{key}")
    path = (
        settings.home / "recipes" / f"{value['corpus']['name']}-{next(iter(value['bases']))}.yaml"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"# Training goes on from {base.reference}. The corpus is read as its own text was.\n"
    path.write_text(head + yaml.safe_dump(value, allow_unicode=True, sort_keys=False), "utf-8")
    return path


def recipe_for(
    base: Base, text: Sequence[str], *, name: str = "", changes: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """The plain config of a training that goes on; see ``write_recipe``."""
    began = f"{base.experiment}-"
    named = base.name.startswith(began) and base.name != began and bool(base.experiment)
    # A model that is not called by its experiment, such as an imported one, gives its own name.
    corpus = name or (base.experiment if named else base.name) or "continued"
    key = base.name.removeprefix(began) if named else base.family
    paths = [str(Path(one).expanduser().absolute()) if is_local(one) else one for one in text]
    phrases = phrases_of(base.text)
    read_alike = {section: getattr(base.text, section) for section in READ_ALIKE}
    return {
        "corpus": {
            "name": corpus,
            "train": {"paths": paths, "format": format_of(text)},
            **{section: _plain(value) for section, value in read_alike.items()},
            **({"phrases": _plain(phrases)} if phrases else {}),
        },
        "families": {key: {**base.settings, **changes}},
        "bases": {key: base.reference},
    }


def _plain(value: Any) -> Any:
    """The settings that are not the default ones."""
    kept = {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    }
    return json.loads(canonical_json(kept))
