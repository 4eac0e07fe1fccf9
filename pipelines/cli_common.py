"""What the commands share: options, the environment they run in, where they print."""

from __future__ import annotations

import enum
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.settings import Settings


def _home(value: Path | None) -> Path | None:
    if value is not None:
        os.environ["LEXLOOM_HOME"] = str(value.expanduser().absolute())
    return value


Home = Annotated[
    Path | None,
    typer.Option(
        "--home", callback=_home, help="Folder of store, models and databases [~/.lexloom]"
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show what Ray, Prefect and MLflow say, and tracebacks"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE|FILE", help="A recipe (sample, brown) or a YAML file")
]
Data = Annotated[
    str, typer.Option("--data", metavar="DIR", help="Where the text of the recipe lies (brown)")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Change a setting; may be given several times"),
]
Families = Annotated[
    str | None, typer.Option("--families", metavar="A,B", help="Train only these families")
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="NAME@ALIAS, NAME/VERSION, or a pulled folder")
]


class Vectors(enum.StrEnum):
    """The word vectors that a model may have: tables of them, or layers that make them."""

    own = "own"
    input = "input"
    output = "output"
    sum = "sum"
    before_highway = "before-highway"
    after_highway = "after-highway"


WhichVectors = Annotated[
    Vectors,
    typer.Option("--vectors", help="Of a model with several: which; sum is input and output"),
]


class Stopped(Exception):
    """Ctrl-C, as something that click does not take for its own."""


class Interruptible(TyperGroup):
    """The commands; click would say "Aborted" and return 1 if one is interrupted."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Stopped from interrupt


def begin(verbose: bool, *, stack: bool = True, chatty: bool = False) -> tuple[Settings, Console]:
    """Settings and a console for what is not the answer; sets the environment up first."""
    global shows_tracebacks
    shows_tracebacks = verbose
    from pipelines.settings import Settings, prepare_environment

    settings = Settings.load()
    prepare_environment(settings, verbose=verbose or chatty)
    if stack:
        from pipelines.stack import find

        if running := find(settings.home):
            for name, value in running.environment.items():
                os.environ.setdefault(name, value)
            settings = Settings.load()
    return settings, _console(stderr=True)


shows_tracebacks = False
"""Whether the command that runs was asked to be verbose."""


UNFOLDED = 10_000
"""Columns of what is no terminal: a file and a pipe get whole lines."""


def out() -> Console:
    """A console for answers."""
    return _console()


def _console(*, stderr: bool = False) -> Console:
    """A console as wide as its terminal; what goes elsewhere is never folded or cut."""
    from rich.console import Console

    console = Console(stderr=stderr)
    if not console.is_terminal:
        console.width = UNFOLDED
    return console


def names(families: str | None) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in (families or "").split(",") if name.strip()]


def print_json(value: Any) -> None:
    """Print an answer as JSON, and nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n")
