"""The command line. Whatever is slow to import is imported by the command that needs it."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.settings import Settings

app = typer.Typer(
    name="lexloom",
    help="A corpus goes in; registered, evaluated, comparable language-embedding models come out.",
    epilog="Begin with: lexloom run sample",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
models = typer.Typer(
    help="Registered models: list, show, promote, roll back.", no_args_is_help=True
)
query = typer.Typer(
    help="Ask a model: neighbours, analogies, similarity, perplexity.", no_args_is_help=True
)
app.add_typer(models, name="models")
app.add_typer(query, name="query")


class Format(enum.StrEnum):
    """The formats of a pulled model."""

    native = "native"
    word2vec = "word2vec"
    word2vec_bin = "word2vec-bin"
    arpa = "arpa"


class Method(enum.StrEnum):
    """The two ways to answer an analogy."""

    add = "3cosadd"
    mul = "3cosmul"


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
    str, typer.Argument(metavar="RECIPE|FILE", help="A recipe (sample) or a YAML file")
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


# --- running --------------------------------------------------------------------------------


@app.command()
def run(
    recipe: Recipe,
    changes: Changes = None,
    families: Families = None,
    home: Home = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="In this process, without Prefect and Ray")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Train anew what was trained before (a new replicate)")
    ] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make the corpus, train and compare the families, register the models."""
    settings, console = _begin(verbose)
    from pipelines.recipes import resolve

    overrides = [*(changes or []), *([f"replicate={time.time_ns() // 1000}"] if fresh else [])]
    chosen = _names(families)
    config = resolve(recipe, families=chosen, overrides=overrides)
    from pipelines import display
    from pipelines.running import run_directly, run_flow

    if direct:
        result = run_directly(config, settings, console, verbose=verbose)
    else:
        result = run_flow(recipe, chosen, overrides, settings, console, verbose=verbose)
    if as_json:
        _print_json(display.result_json(result, settings))
    else:
        display.show_result(_out(), result, settings)


@app.command()
def plan(
    recipe: Recipe,
    changes: Changes = None,
    families: Families = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a run would do: steps, what is cached, memory, disk and time. Starts nothing."""
    settings, _ = _begin(verbose)
    from pipelines.plan import make_plan, show_plan
    from pipelines.recipes import resolve

    made = make_plan(resolve(recipe, families=_names(families), overrides=changes or []), settings)
    if as_json:
        _print_json(made.to_json())
    else:
        _out().print(show_plan(made))


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
    settings, console = _begin(verbose, stack=False, chatty=True)
    from pipelines import stack
    from pipelines.console import Watch

    with Watch(console) as watch, watch.doing("local stack"):
        ports = stack.Ports(prefect_port, mlflow_port, ray_port)
        started = stack.up(settings, ports, lambda what: console.print(f"  {what}", style="dim"))
    if as_json:
        _print_json(dataclasses.asdict(started))
        return
    for name, value in {
        "Prefect": started.prefect,
        "MLflow": started.mlflow,
        "Ray": started.ray,
        "logs": started.logs,
    }.items():
        _out().print(f"{name:<8} {value}", soft_wrap=True, highlight=False)
    _out().print("\ndeployments: " + ", ".join(started.deployments), highlight=False)
    _out().print("stop it all with: lexloom down")


@app.command()
def down(home: Home = None, verbose: Verbose = False) -> None:
    """Stop the local stack, and whatever runs on it."""
    settings, _ = _begin(verbose, stack=False)
    from pipelines import stack

    stopped = stack.down(settings.home)
    _out().print(f"{stopped} processes stopped" if stopped else "nothing was up")


@app.command()
def deploy(home: Home = None, verbose: Verbose = False) -> None:
    """Register the deployments on the Prefect server at PREFECT_API_URL."""
    settings, _ = _begin(verbose)
    if not os.environ.get("PREFECT_API_URL"):
        from tasks.errors import ConfigError

        raise ConfigError(
            "there is no Prefect server to register deployments on",
            where="PREFECT_API_URL",
            remedy="set it, or start the local stack: lexloom up",
        )
    from pipelines.deployments import POOL, register

    for name in register(settings):
        _out().print(name, highlight=False)
    _out().print(f"a worker runs them: prefect worker start --pool {POOL}", style="dim")


# --- models ---------------------------------------------------------------------------------


@models.command("list")
def list_models(home: Home = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """All versions of all registered models."""
    settings, _ = _begin(verbose)
    from pipelines.answers import versions_table
    from tasks import registry

    versions = registry.list_models(settings.tracking_uri)
    if as_json:
        _print_json([dataclasses.asdict(version) for version in versions])
    elif versions:
        _out().print(versions_table(versions))
    else:
        _out().print("no models are registered yet; lexloom run sample registers some")


@models.command()
def show(
    model: Model, home: Home = None, as_json: AsJson = False, verbose: Verbose = False
) -> None:
    """One version: its scores, its lineage, what it can do."""
    settings, _ = _begin(verbose)
    from pipelines.answers import version_table
    from tasks import registry

    version = registry.find_version(model, settings.tracking_uri)
    if as_json:
        _print_json(dataclasses.asdict(version))
    else:
        _out().print(version_table(version))


@models.command()
def promote(model: Model, home: Home = None, verbose: Verbose = False) -> None:
    """Make a version champion, if the gate of its run lets it pass."""
    settings, _ = _begin(verbose)
    from pipelines import display
    from tasks import promotion, registry

    uri = settings.tracking_uri
    version = registry.find_version(model, uri)
    decided = promotion.promote(version.name, version.version, tracking_uri=uri, by_hand=True)
    display.show_promotion(_out(), decided)
    if decided.reasons:
        raise typer.Exit(1)


@models.command()
def rollback(
    name: Annotated[str, typer.Argument(help="Name of the registered model")],
    home: Home = None,
    verbose: Verbose = False,
) -> None:
    """Give champion back to the version that had it before."""
    settings, _ = _begin(verbose)
    from pipelines import display
    from tasks import promotion

    decided = promotion.rollback(name, tracking_uri=settings.tracking_uri)
    display.show_promotion(_out(), decided)


@app.command()
def pull(
    model: Model,
    out: Annotated[Path, typer.Option("--out", help="File or folder to write")],
    format: Annotated[Format, typer.Option("--format", help="What to write")] = Format.native,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there")] = False,
    home: Home = None,
    verbose: Verbose = False,
) -> None:
    """Fetch a registered model, in our format or in one that other programs load."""
    settings, console = _begin(verbose)
    from pipelines.console import Watch
    from tasks.export.pull import pull as fetch

    with Watch(console) as watch:
        path = fetch(
            model,
            format.value,
            out,
            tracking_uri=settings.tracking_uri,
            force=force,
            progress=lambda done, total, unit: watch.advance("pull", done, total, unit),
        )
    _out().print(path, soft_wrap=True, highlight=False)


@app.command()
def evaluate(
    model: Model,
    similarity: Annotated[
        list[str] | None,
        typer.Option(
            "--similarity", metavar="SET", help="Word pairs: wordsim353, simlex999, or a file"
        ),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Analogy questions: google, or a file"),
    ] = None,
    text: Annotated[
        list[Path] | None, typer.Option("--text", metavar="FILE", help="Raw text, for perplexity")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score a model on files; every score with its coverage, policy and baseline."""
    if not (similarity or analogy or text):
        raise typer.BadParameter("give at least one of --similarity, --analogy and --text")
    settings, console = _begin(verbose)
    from pipelines.console import Watch
    from tasks.evaluation import evaluate_files
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    with Watch(console) as watch:
        scores = evaluate_files(
            opened.model,
            opened.text,
            similarity_sets=similarity or (),
            analogy_sets=analogy or (),
            texts=text or (),
            progress=lambda done, total, unit: watch.advance("evaluate", done, total, unit),
        )
    if as_json:
        _print_json({"model": opened.reference, "scores": [score.to_json() for score in scores]})
    else:
        for score in scores:
            _out().print(score.line, highlight=False)


# --- questions ------------------------------------------------------------------------------


@query.command()
def neighbours(
    model: Model,
    words: Annotated[list[str], typer.Argument(help="Words")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each")] = 10,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The words whose vectors are nearest."""
    settings, _ = _begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    answer = answers.neighbours(open_model(model, settings.tracking_uri), words, k)
    _print_json(answer) if as_json else _out().print(answers.neighbours_table(answer))


@query.command()
def analogy(
    model: Model,
    a: Annotated[str, typer.Argument(help="a is to b ...")],
    b: Annotated[str, typer.Argument(help="... as ...")],
    c: Annotated[str, typer.Argument(help="... c is to the answer")],
    k: Annotated[int, typer.Option("-k", min=1, help="Answers")] = 5,
    method: Annotated[Method, typer.Option(help="How the answer is found")] = Method.add,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """What is to C as B is to A: the answers with their scores."""
    settings, _ = _begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    answer = answers.analogy(opened, (a, b, c), k, method.value)
    _print_json(answer) if as_json else _out().print(answers.ranking_table(answer))


@query.command()
def similarity(
    model: Model,
    first: Annotated[str, typer.Argument(help="A word")],
    second: Annotated[str, typer.Argument(help="Another")],
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The cosine of the vectors of two words."""
    settings, _ = _begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    cosine = answers.similarity(open_model(model, settings.tracking_uri), first, second)
    _print_json({"cosine": cosine}) if as_json else _out().print(f"{cosine:.4f}")


@query.command()
def perplexity(
    model: Model,
    text: Annotated[str, typer.Argument(help="Text, or - for standard input")],
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How surprised the model is by a text, word by word."""
    settings, _ = _begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    answer = answers.surprise(
        open_model(model, settings.tracking_uri), sys.stdin.read() if text == "-" else text
    )
    _print_json(answer) if as_json else _out().print(answers.surprise_table(answer))


# --- helpers --------------------------------------------------------------------------------


def _begin(verbose: bool, *, stack: bool = True, chatty: bool = False) -> tuple[Settings, Console]:
    """Settings and a console for what is not the answer; sets the environment up first."""
    global _verbose
    _verbose = verbose
    from rich.console import Console

    from pipelines.settings import Settings, prepare_environment

    settings = Settings.load()
    prepare_environment(settings, verbose=verbose or chatty)
    if stack:
        from pipelines.stack import find

        if running := find(settings.home):
            for name, value in running.environment.items():
                os.environ.setdefault(name, value)
            settings = Settings.load()
    return settings, Console(stderr=True)


_verbose = False


def _out() -> Console:
    from rich.console import Console

    return Console()


def _names(families: str | None) -> list[str]:
    return [name.strip() for name in (families or "").split(",") if name.strip()]


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n")


def main() -> None:
    """Run the command line; errors that a person can mend are told in one message."""
    try:
        app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; what was finished is kept\n")
        sys.exit(130)
    except Exception as error:
        if _verbose:
            raise
        from tasks.errors import ConfigError, InputError, LexloomError

        if isinstance(error, LexloomError):
            sys.stderr.write(f"lexloom: {error}\n")
            sys.exit(2 if isinstance(error, ConfigError | InputError) else 1)
        sys.stderr.write(
            f"lexloom: {type(error).__name__}: {error}\n  -> --verbose shows where it happened\n"
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
