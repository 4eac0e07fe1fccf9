"""The command line. Whatever is slow to import is imported by the command that needs it."""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import signal
import sys
import time
from types import FrameType
from typing import Annotated, NoReturn

import typer

from pipelines import (
    cli_blend,
    cli_common,
    cli_contextual,
    cli_corpus,
    cli_mix,
    cli_models,
    cli_rates,
    cli_settings,
    cli_vectors,
)
from pipelines.cli_common import (
    AsJson,
    Changes,
    Data,
    Families,
    Home,
    Interruptible,
    Model,
    Recipe,
    Stopped,
    Verbose,
    begin,
    names,
    out,
    print_json,
)  # fmt: skip

Direct = Annotated[bool, typer.Option("--direct", help="In this process, without Prefect and Ray")]

app = typer.Typer(
    name="lexloom",
    cls=Interruptible,
    help="A corpus goes in; registered, evaluated, comparable language-embedding models come out.",
    epilog="Begin with: lexloom run sample",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cli_corpus.corpus, name="corpus")
app.add_typer(cli_models.models, name="models")
app.add_typer(cli_contextual.query, name="query")


# --- running --------------------------------------------------------------------------------


@app.command()
def run(
    recipe: Recipe,
    data: Data = "",
    changes: Changes = None,
    families: Families = None,
    home: Home = None,
    direct: Direct = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Train anew what was trained before (a new replicate)")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make the corpus, train and compare the families, register the models."""
    settings, console = begin(verbose)
    console.print(f"  reading {recipe}", style="dim", highlight=False, markup=False)
    from pipelines.recipes import resolve

    overrides = [*(changes or []), *([f"replicate={time.time_ns() // 1000}"] if fresh else [])]
    chosen = names(families)
    config = resolve(recipe, data=data, families=chosen, overrides=overrides)
    from pipelines import display, foretold
    from pipelines.running import run_directly, run_flow

    with foretold.Measured(settings.home) as took:
        if direct:
            result = run_directly(config, settings, console, verbose=verbose)
        else:
            result = run_flow(recipe, data, chosen, overrides, settings, console, verbose=verbose)
    told = foretold.compare(config, settings, result, took, direct=direct)
    if as_json:
        print_json({**display.result_json(result, settings), "plan": told})
    else:
        display.show_result(out(), result, settings, told, home, direct=direct)


@app.command("continue")
def go_on(
    model: Model,
    text: Annotated[
        list[str],
        typer.Option("--text", metavar="FILE", help="New text: files and globs, packed or not"),
    ],
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over it [as the model's own]")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="At the start [as the model's own]")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Call the new model by this [next version of the model]")
    ] = "",
    changes: Changes = None,
    home: Home = None,
    direct: Direct = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train a registered model on new text: what it knows stays, new words are learnt besides."""
    settings, console = begin(verbose)
    from pipelines.continuing import write_recipe

    given = {"epochs": epochs, "learning_rate": learning_rate}
    said = {key: value for key, value in given.items() if value is not None}
    recipe = str(write_recipe(model, text, settings, name=name, changes=said))
    console.print(f"  recipe {recipe}", style="dim", highlight=False, markup=False, soft_wrap=True)
    run(recipe, changes=changes, home=home, direct=direct, as_json=as_json, verbose=verbose)


@app.command()
def plan(
    recipe: Recipe,
    data: Data = "",
    changes: Changes = None,
    families: Families = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a run would do: steps, what is cached, memory, disk and time. Starts nothing."""
    settings, _ = begin(verbose)
    from pipelines import foretold
    from pipelines.plan import make_plan, show_plan
    from pipelines.recipes import resolve

    config = resolve(recipe, data=data, families=names(families), overrides=changes or [])
    made = make_plan(config, settings)
    foretold.keep(made, config, settings)
    if as_json:
        print_json(made.to_json())
    else:
        out().print(show_plan(made))


# --- the local stack ------------------------------------------------------------------------


@app.command()
def up(
    home: Home = None,
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect UI; 0 for any")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI; 0 for any")] = 5000,
    ray_port: Annotated[int, typer.Option(help="Port of Ray; 0 for any")] = 6379,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Start the local stack: Prefect and its UI, a worker, the MLflow UI and one shared Ray."""
    # Flow runs of the stack log to the Prefect UI, so they may say more than this terminal.
    settings, console = begin(verbose, stack=False, chatty=True)
    from pipelines import stack
    from pipelines.console import Watch
    from pipelines.display import models_page

    with Watch(console) as watch, watch.doing("local stack"):
        ports = stack.Ports(prefect_port, mlflow_port, ray_port)
        started = stack.up(settings, ports, lambda what: console.print(f"  {what}", style="dim"))
    if as_json:
        print_json(dataclasses.asdict(started))
        return
    for name, value in {
        "Prefect": started.prefect,
        "MLflow": models_page(started.mlflow),
        "Ray": started.ray,
        "logs": started.logs,
    }.items():
        out().print(f"{name:<8} {value}", soft_wrap=True, highlight=False)
    out().print("\ndeployments: " + ", ".join(started.deployments), highlight=False)
    out().print("stop it all with: lexloom down")


@app.command()
def down(home: Home = None, verbose: Verbose = False) -> None:
    """Stop the local stack, and whatever runs on it."""
    settings, _ = begin(verbose, stack=False)
    from pipelines import stack
    from tasks.tracking import bury_dead_if_possible

    stopped = stack.down(settings.home)
    if stopped:
        bury_dead_if_possible(settings.tracking_uri)
    out().print(f"{stopped} processes stopped" if stopped else "nothing was up")


@app.command()
def deploy(home: Home = None, verbose: Verbose = False) -> None:
    """Register the deployments on the Prefect server at PREFECT_API_URL."""
    settings, _ = begin(verbose)
    if not os.environ.get("PREFECT_API_URL"):
        from tasks.errors import ConfigError

        raise ConfigError(
            "there is no Prefect server to register deployments on",
            where="PREFECT_API_URL",
            remedy="set it, or start the local stack: lexloom up",
        )
    from pipelines.deployments import POOL, register

    for name in register(settings):
        out().print(name, highlight=False)
    out().print(f"a worker runs them: prefect worker start --pool {POOL}", style="dim")


app.command()(cli_settings.settings)
app.command("import")(cli_models.import_)
app.command()(cli_models.pull)
app.command()(cli_models.evaluate)
app.command()(cli_vectors.quantize)
app.command()(cli_mix.mix)
app.command("lr-find")(cli_rates.lr_find)
app.command()(cli_blend.blend)
app.command()(cli_blend.tune)
app.command()(cli_mix.join)
app.command("map")(cli_vectors.word_map)
app.command()(cli_corpus.gc)


def main() -> None:
    """Run the command line; errors that a person can mend are told in one message."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may be no text
    signal.signal(signal.SIGTERM, _stopping)
    try:
        app()
    except (KeyboardInterrupt, Stopped):
        sys.stderr.write("stopped; run the same command again: what was done is kept\n")
        sys.exit(130)
    except Exception as error:
        if cli_common.shows_tracebacks:
            raise
        from tasks.errors import ConfigError, InputError, LexloomError

        if isinstance(error, LexloomError):
            sys.stderr.write(f"lexloom: {error}\n")
            sys.exit(2 if isinstance(error, ConfigError | InputError) else 1)
        sys.stderr.write(f"lexloom: {_unforeseen(error)}\n")
        sys.exit(1)


def _stopping(number: int, frame: FrameType | None) -> NoReturn:
    """Stop as by Ctrl-C, and say so at once: what is at work may take a while to end."""
    os.write(2, b"\nstopping ...\n")
    raise KeyboardInterrupt


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _unforeseen(error: Exception) -> str:
    """What is said of an error that nobody foresaw; of the machine's faults, what to do."""
    place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    if isinstance(error, OSError) and error.errno in FULL:
        return (
            f"{place}there is no room left on the disk\n"
            "  -> make room (lexloom gc shows what can go) and run it again: what was done is kept"
        )
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        reason = os.strerror(error.errno)
        return f"{place}{reason}\n  -> name a folder that can be written to with --home"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "there is not enough memory for this\n  -> take smaller settings; see lexloom plan"
    return f"{type(error).__name__}: {error}\n  -> --verbose shows where it happened"


if __name__ == "__main__":
    main()
