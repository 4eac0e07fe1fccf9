"""The commands that make one model of several: mixed language models, joined encoders."""

from __future__ import annotations

import enum
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


class Combining(enum.StrEnum):
    """How vectors become one."""

    concatenation = "concatenation"
    sum = "sum"
    average = "average"
    product = "product"


def join(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Models with contextual vectors, one vocabulary"),
    ],
    name: Annotated[str, typer.Option("--name", help="Register what comes of it by this name")],
    combine: Annotated[
        Combining, typer.Option("--combine", help="How their vectors become one")
    ] = Combining.concatenation,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Join encoders, such as a forward and a backward one, into one contextual embedder."""
    settings, console = begin(verbose)
    from pipelines import display
    from pipelines.console import Watch, quieten
    from pipelines.joining import join_registered

    if not verbose:
        quieten(settings.home / "logs" / "join.log")
    with Watch(console) as watch:
        made = join_registered(models, settings, watch, name=name, combine=combine.value)
    if as_json:
        print_json(made.to_json())
        return
    line = f"{made.reference}: {' + '.join(made.parts)}, layers {', '.join(made.layers)}"
    out().print(line, highlight=False, markup=False, soft_wrap=True)
    for one in made.scores:
        out().print(one.line, highlight=False, markup=False)
    display.show_promotion(out(), made.promotion)
