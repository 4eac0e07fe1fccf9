"""The command that finds a learning rate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_common import (
    AsJson,
    Changes,
    Data,
    Home,
    Recipe,
    Verbose,
    begin,
    out,
    print_json,
)


def lr_find(
    recipe: Recipe,
    family: Annotated[
        str, typer.Option("--family", help="Of the recipe [the only one that learns by gradients]")
    ] = "",
    target: Annotated[
        Path | None, typer.Option("--out", help="Draw the curve: a file .html or .png")
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps, each at a higher rate")] = 200,
    lowest: Annotated[float | None, typer.Option(help="The first rate [by optimizer]")] = None,
    highest: Annotated[float | None, typer.Option(help="The last rate [by optimizer]")] = None,
    data: Data = "",
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Find a learning rate for a neural family: the loss of some steps at ever higher rates."""
    settings, console = begin(verbose)
    from pipelines.console import Watch, quieten
    from pipelines.rates import Range, find_rate_for, rates_table
    from pipelines.recipes import resolve

    config = resolve(recipe, data=data, overrides=changes or [])
    if not verbose:
        quieten(settings.home / "logs" / "rates.log")
    with Watch(console) as watch:
        found = find_rate_for(
            config,
            settings,
            watch,
            name=family,
            rates=Range(lowest, highest, steps),
            picture=target,
        )
    if as_json:
        print_json(found.to_json())
        return
    out().print(rates_table(found))
    if found.test.diverged:
        out().print("the loss diverged, so higher rates were not tried", style="dim")
    said = (
        f"suggested: learning_rate {found.test.suggested:g}, a tenth of where the loss is lowest"
        if found.test.fell
        else "no suggestion: the loss fell by no more than chance; take more steps, or begin lower"
    )
    out().print(f"{said}; the recipe has {found.configured:g}", highlight=False)
    if target is not None:
        out().print(target, soft_wrap=True, highlight=False, markup=False)
