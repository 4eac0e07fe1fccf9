"""The command that lists the settings of a recipe and of its families."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pipelines.cli_common import AsJson, Home, Verbose, begin, out, print_json


def settings(
    family: Annotated[
        str, typer.Argument(metavar="[FAMILY]", help="Its settings [those of a recipe]")
    ] = "",
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """List the settings of a recipe or of a family: key, default, what may stand there, meaning."""
    begin(verbose, stack=False)
    from pipelines.described import settings_of, settings_table

    found = settings_of(family)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        out().print(settings_table(found, family), highlight=False)
