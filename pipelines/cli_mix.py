"""The command that mixes language models."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli_common import AsJson, Home, Verbose, begin, out, print_json


def mix(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Language models over one vocabulary")
    ],
    name: Annotated[str, typer.Option("--name", help="Register the mixture under this name")],
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="W,W", help="Of each model; they sum to 1")
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option("--fit", metavar="FILE", help="Fit weights on this held-out text instead"),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option("--score", metavar="FILE", help="Score the mixture on this text"),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Interpolate language models, with weights that are given or fitted on held-out text."""
    settings, console = begin(verbose)
    from pipelines import display
    from pipelines.console import Watch, quieten
    from pipelines.mixing import mix_registered, mixture_table
    from tasks.errors import ConfigError

    given: list[float] | None = None
    if weights is not None:
        try:
            given = [float(weight) for weight in weights.split(",")]
        except ValueError:
            raise ConfigError(
                f"weights are numbers with commas between, unlike {weights!r}",
                where="--weights",
                remedy="write them as 0.3,0.7",
            ) from None
    if not verbose:
        quieten(settings.home / "logs" / "mix.log")
    with Watch(console) as watch:
        made = mix_registered(
            models, settings, watch, name=name, weights=given, fit=fit or (), score=score or ()
        )
    if as_json:
        print_json(made.to_json())
        return
    out().print(mixture_table(made))
    for one in made.scores:
        out().print(one.line, highlight=False, markup=False)
    display.show_promotion(out(), made.promotion)
