"""Finding a learning rate for a family of a recipe: the corpus is made, the model is not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from models.family import Family, Learns
from pipelines.config import RunConfig
from pipelines.console import Watch
from pipelines.job import Job
from pipelines.settings import Settings
from tasks.errors import ConfigError
from tasks.runner import Runner
from tasks.store import Store
from tasks.train import untrained
from tasks.training.finder import RangeTest, check_range, find_rate
from tasks.training.finder_page import check_target, write_curve

DOING = "learning rates"
ROWS = 16
"""Of the table, evenly spread over the steps."""


@dataclass(frozen=True)
class Range:
    """The rates that are tried; None as it suits the optimizer.

    Attributes:
        lowest: the first.
        highest: the last.
        steps: how many.
    """

    lowest: float | None = None
    highest: float | None = None
    steps: int = 200


@dataclass(frozen=True)
class FoundRate:
    """A learning rate for a family.

    Attributes:
        name: of the family in the recipe.
        configured: its learning rate as the recipe has it.
        test: what was seen.
        picture: the file with the curve; None if none was asked for.
    """

    name: str
    configured: float
    test: RangeTest
    picture: Path | None

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain values."""
        about = {"family": self.name, "configured": self.configured}
        fell = self.test.fell
        suggested = self.test.suggested if fell else None
        said = {"suggested": suggested, "fell": fell, "lowest": self.test.lowest}
        return {**about, **said, **asdict(self.test), "picture": self.picture}


def find_rate_for(
    config: RunConfig,
    settings: Settings,
    watch: Watch,
    *,
    name: str = "",
    rates: Range = Range(),
    picture: Path | None = None,
) -> FoundRate:
    """Try learning rates on the family of a recipe, on a model that nobody will see.

    Where the recipe has a base for it, the test begins with that.

    Args:
        config: of the run.
        settings: of the place.
        watch: told about steps.
        name: of the family; may be empty where the recipe has one that learns by gradients.
        rates: that are tried.
        picture: a file for the curve.

    Raises:
        ConfigError: no such family, or none that has a learning rate to be found; rates that make
            no range; a file that is no picture.
        TrainingError: nothing to train on.
    """
    if picture is not None:
        check_target(picture)
    name = _chosen(config.families, name)
    optimizer = getattr(config.families[name], "optimizer", "adamw")
    check_range(optimizer, rates.lowest, rates.highest, rates.steps)
    store = Store(settings.store, settings.home / "cache")
    only = config.model_copy(
        update={
            "families": {name: config.families[name]},
            "mixtures": {},
            "bases": {key: base for key, base in config.bases.items() if key == name},
        }
    )
    runner = Runner(store, resources=settings.resources, observer=watch)
    job = Job(only, settings, runner)
    job.check()
    with store.files.in_use():
        artifacts, params = job.training(job.corpus(), name)
        readers = {role: store.reader(artifact) for role, artifact in artifacts.items()}
        model, inputs = untrained(params, readers)
        assert isinstance(model, Learns)
        with watch.doing(DOING):
            test = find_rate(
                model,
                inputs,
                params.seed,
                lowest=rates.lowest,
                highest=rates.highest,
                steps=rates.steps,
                threads=settings.resources.threads,
                gpus=settings.gpus,
                progress=partial(watch.advance, DOING),
            )
    if picture is not None:
        write_curve(test, f"Learning rates of {config.model_name(name)}", picture)
    return FoundRate(name, model.schedule.learning_rate, test, picture)


def _chosen(families: Mapping[str, Family], name: str) -> str:
    """The family that is meant."""
    able = [key for key, family in families.items() if family.style == "learns"]
    if not able:
        raise ConfigError(
            "no family of the recipe learns by gradients, so none has a rate to be found so",
            where="families",
            remedy="add one, such as nplm, rnnlm or awd-lstm",
        )
    if name in able:
        return name
    if not name and len(able) == 1:
        return able[0]
    problem = f"{name!r} is none of the families that learn by gradients"
    raise ConfigError(
        problem if name else "several families of the recipe learn by gradients",
        where="--family",
        remedy=f"name one of: {', '.join(able)}",
    )


def rates_table(found: FoundRate) -> Table:
    """The losses by rates, for a terminal."""
    test = found.test
    table = Table(title=f"learning rates of {found.name}", title_justify="left")
    for heading in ("learning rate", test.loss.replace("_", " "), "smoothed", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    n, lowest = len(test.rates), test.rates.index(test.lowest)
    for i in sorted({*range(0, n, max(1, n // ROWS)), n - 1, lowest}):
        numbers = f"{test.rates[i]:.2e}", f"{test.losses[i]:.3f}", f"{test.smoothed[i]:.3f}"
        table.add_row(*numbers, "lowest" if i == lowest else "")
    return table
