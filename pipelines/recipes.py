"""Complete run configs by name: where a run begins that has no file of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models import ngram, nplm, word2vec
from pipelines.config import CHANGED, Key, RunConfig, parse
from pipelines.plain import anchored, check_files, choose, key_of, load, override
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


RECIPES: dict[str, Callable[[], RunConfig]] = {"sample": sample}
"""The recipes by name."""


def resolve(
    recipe: str, *, families: Sequence[str] = (), overrides: Sequence[str] = ()
) -> RunConfig:
    """The config of a run.

    Args:
        recipe: a name in ``RECIPES``, or the path of a YAML file.
        families: train only these; all that the recipe has if empty.
        overrides: changes of the form ``a.b=c``.

    Raises:
        ConfigError: the first thing that is wrong.
        InputError: a file that it names is not there.
    """
    value: dict[str, Any]
    marks: dict[Key, int]
    if recipe in RECIPES:
        value, marks, source = RECIPES[recipe]().model_dump(mode="json"), {}, ""
    else:
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
