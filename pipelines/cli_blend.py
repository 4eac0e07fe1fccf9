"""The commands that blend word vectors, and tune a blend in a language model."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Literal

import typer

from pipelines.cli_common import AsJson, Changes, Home, Model, Verbose, begin, out, print_json


class How(enum.StrEnum):
    """How vectors are joined."""

    concatenation = "concatenation"
    sum = "sum"


class Missing(enum.StrEnum):
    """What becomes of words that a part does not know."""

    zeros = "zeros"
    nan = "nan"


WAYS = ("none", "least-squares", "orthogonal")


def blend(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Models that have word vectors")
    ],
    name: Annotated[str, typer.Option("--name", help="Register the blend under this name")],
    how: Annotated[How, typer.Option("--how", help="Side by side, or added up")] = (
        How.concatenation
    ),
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="W,W", help="Of each model [1,1]")
    ] = None,
    unit: Annotated[
        bool, typer.Option("--unit/--no-unit", help="Take the vectors of each model at length 1")
    ] = True,
    missing: Annotated[
        Missing,
        typer.Option("--missing", help="What a model does not know: zeros, or the word is lost"),
    ] = Missing.zeros,
    project: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="WAY",
            help="All models into the space of the first: least-squares or orthogonal, learnt from "
            "words that both know; or a .npy file, once for each model but the first [none]",
        ),
    ] = None,
    similarity: Annotated[
        list[str] | None,
        typer.Option("--similarity", metavar="SET", help="Score all of them on these word pairs"),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Score all of them on these analogies"),
    ] = None,
    sets: Annotated[
        str, typer.Option("--sets", metavar="DIR", help="Folder that named sets lie in")
    ] = "",
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Join the word vectors of several models into one, and score it beside each of them."""
    settings, console = begin(verbose)
    from pipelines import display
    from pipelines.blending import blend_registered, blend_table, scored_on
    from pipelines.console import Watch, quieten
    from tasks.blend import Blending

    if not verbose:
        quieten(settings.home / "logs" / "blend.log")
    way, files = _projection(project or [])
    blending = Blending((), how.value, _weights(weights), unit, missing.value, projection=way)
    with Watch(console) as watch:
        made = blend_registered(
            models,
            settings,
            watch,
            name=name,
            blending=blending,
            maps=files,
            sets=scored_on(similarity or (), analogy or (), sets),
        )
    if as_json:
        print_json(made.to_json())
        return
    out().print(blend_table(made))
    for note in made.notes:
        out().print(note, style="yellow", highlight=False, markup=False)
    display.show_promotion(out(), made.promotion)


def tune(
    model: Model,
    text: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Text to train on: files, globs, URLs")
    ],
    name: Annotated[str, typer.Option("--name", help="Register the new model under this name")],
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", metavar="FILE", help="Held-out text [a twentieth of the text]"),
    ] = None,
    changes: Changes = None,
    beside: Annotated[
        list[str] | None,
        typer.Option("--beside", metavar="MODEL", help="Score this model too; may be repeated"),
    ] = None,
    similarity: Annotated[
        list[str] | None,
        typer.Option("--similarity", metavar="SET", help="Score all of them on these word pairs"),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Score all of them on these analogies"),
    ] = None,
    sets: Annotated[
        str, typer.Option("--sets", metavar="DIR", help="Folder that named sets lie in")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed")] = 1,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train both parts of a blend with a char-birnn jointly, in a language model over a text."""
    settings, console = begin(verbose)
    from pipelines import display
    from pipelines.blending import blend_table, scored_on
    from pipelines.console import Watch, quieten
    from pipelines.tuning import settings_of, tune_registered

    if not verbose:
        quieten(settings.home / "logs" / "tune.log")
    config = settings_of(changes or [])
    with Watch(console) as watch:
        made = tune_registered(
            model,
            text,
            settings,
            watch,
            name=name,
            config=config,
            valid=valid or (),
            sets=scored_on(similarity or (), analogy or (), sets),
            beside=beside or (),
            seed=seed,
        )
    if as_json:
        print_json(made.to_json())
        return
    out().print(blend_table(made))
    for note in made.notes:
        out().print(note, style="yellow", highlight=False, markup=False)
    display.show_promotion(out(), made.promotion)


def _weights(given: str | None) -> tuple[float, ...] | None:
    from tasks.errors import ConfigError

    try:
        return None if given is None else tuple(float(weight) for weight in given.split(","))
    except ValueError:
        raise ConfigError(
            f"weights are numbers with commas between, unlike {given!r}",
            where="--weights",
            remedy="write them as 1,0.5",
        ) from None


def _projection(
    given: list[str],
) -> tuple[Literal["none", "least-squares", "orthogonal"], list[Path]]:
    """A way to learn it, or files."""
    from tasks.errors import ConfigError

    match given:
        case [] | ["none"]:
            return "none", []
        case ["least-squares"]:
            return "least-squares", []
        case ["orthogonal"]:
            return "orthogonal", []
    if odd := [name for name in given if not name.endswith(".npy")]:
        raise ConfigError(
            f"{odd[0]!r} is no way to project: it is one of {', '.join(WAYS)}, or files of numpy",
            where="--project",
            remedy="name one way, or a .npy file for each model but the first",
        )
    return "none", [Path(name).expanduser() for name in given]
