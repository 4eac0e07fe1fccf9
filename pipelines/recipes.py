"""Complete run configs by name: where a run begins that has no file of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models import ngram, nplm, word2vec
from pipelines.brown import brown
from pipelines.config import CHANGED, Key, RunConfig, parse
from pipelines.plain import anchored, check_files, choose, key_of, load, override
from pipelines.settings import Settings
from tasks.brown import find_brown
from tasks.corpus import CorpusConfig
from tasks.errors import ConfigError
from tasks.places import SAMPLE
from tasks.sources import Source


def sample() -> RunConfig:
    """The Wikipedia extract in the gensim wheel, and one family of each training style."""
    return RunConfig(
        corpus=CorpusConfig(
            name="sample",
            train=Source(paths=(SAMPLE,), format="wikipedia"),
        ),
        families={
            # One vocabulary for both language models, so that their perplexities compare.
            "ngram": ngram.Config(min_count=nplm.Config.min_count, max_size=nplm.Config.max_size),
            "word2vec": word2vec.Config(),
            "nplm": nplm.Config(),
        },
    )


@dataclass(frozen=True)
class Recipe:
    """A config by name.

    Attributes:
        config: of the folder in which its text lies.
        find: that folder, of what a person says of it ("" for nothing) and the home; what is to be
            had elsewhere is fetched. None for a recipe that brings its own text.
    """

    config: Callable[[Path], RunConfig]
    find: Callable[[str, Path], Path] | None = None


RECIPES: dict[str, Recipe] = {
    "sample": Recipe(lambda _: sample()),
    "brown": Recipe(brown, find_brown),
}
"""The recipes by name."""


def _made(recipe: str, data: str, *, fetch: bool) -> dict[str, Any]:
    """The config of a recipe as plain values."""
    made, home = RECIPES[recipe], Settings.load().home
    if made.find is None and data:
        raise ConfigError(
            f"the recipe {recipe!r} brings its own text", where="--data", remedy="leave it out"
        )
    folder = made.find(data, home) if made.find and fetch else home / "data" / recipe
    return made.config(folder).model_dump(mode="json")


def resolve(
    recipe: str,
    *,
    data: str = "",
    families: Sequence[str] = (),
    overrides: Sequence[str] = (),
    fetch: bool = True,
) -> RunConfig:
    """The config of a run.

    Args:
        recipe: a name in ``RECIPES``, or the path of a YAML file.
        data: where the text of a recipe lies that does not bring its own.
        families: train only these; all that the recipe has if empty.
        overrides: changes of the form ``a.b=c``.
        fetch: whether text that is to be had elsewhere is fetched.

    Raises:
        ConfigError: the first thing that is wrong.
        InputError: a file that it names is not there, or cannot be fetched.
    """
    value: dict[str, Any]
    marks: dict[Key, int]
    if recipe in RECIPES:
        value, marks, source = _made(recipe, data, fetch=fetch), {}, ""
    else:
        if data:
            raise ConfigError(
                "a YAML file says itself where its text lies",
                where="--data",
                remedy="leave it out, or change the file: --set corpus.train.paths=[FILE]",
            )
        path = Path(os.path.expanduser(recipe))
        if not recipe or not os.path.exists(path):
            folder = "" if path.is_absolute() else f" in {Path.cwd()}"
            raise ConfigError(
                f"there is no recipe {recipe!r}, and no such file{folder}",
                remedy=f"recipes are: {', '.join(RECIPES)}; a file is YAML; from the Prefect UI, "
                "name it by its full path on the machine of the worker",
            )
        value, marks = load(path)
        value = anchored(value, path.absolute().parent)
        source = str(path)
    if families or overrides:
        parse(value, source=source, marks=marks)  # what is wrong in the file is told with its line
    if families:
        value = choose(value, families)
    if overrides:
        value = override(value, overrides)
    marks = {**marks, **{key_of(change): CHANGED for change in overrides}}
    config = parse(value, source=source, marks=marks)
    check_files(config, source, marks)
    return config
