"""The commands about registered models: look them up, fetch, bring in and score them."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_common import (
    AsJson,
    Home,
    Model,
    Vectors,
    Verbose,
    WhichVectors,
    begin,
    out,
    print_json,
)

models = typer.Typer(
    help="Registered models: list, show, promote, roll back.", no_args_is_help=True
)


class Format(enum.StrEnum):
    """The formats of a pulled model."""

    native = "native"
    word2vec = "word2vec"
    word2vec_bin = "word2vec-bin"
    glove = "glove"
    fasttext = "fasttext"
    parquet = "parquet"
    arpa = "arpa"
    paths = "paths"


class ImportFormat(enum.StrEnum):
    """The formats of files that are imported."""

    auto = "auto"
    word2vec = "word2vec"
    word2vec_bin = "word2vec-bin"
    glove = "glove"
    fasttext = "fasttext"
    parquet = "parquet"
    arpa = "arpa"
    native = "native"


class Errors(enum.StrEnum):
    """What becomes of records that cannot be used."""

    strict = "strict"
    reject = "reject"
    replaced = "replace"


# --- models ---------------------------------------------------------------------------------


@models.command("list")
def list_models(home: Home = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """All versions of all registered models."""
    settings, _ = begin(verbose)
    from pipelines.answers import versions_table
    from tasks import registry
    from tasks.tracking import bury_dead_if_possible

    bury_dead_if_possible(settings.tracking_uri)
    versions = registry.list_models(settings.tracking_uri)
    if as_json:
        print_json([dataclasses.asdict(version) for version in versions])
    elif versions:
        out().print(versions_table(versions))
    else:
        out().print("no models are registered yet; lexloom run sample registers some")


@models.command()
def show(
    model: Model, home: Home = None, as_json: AsJson = False, verbose: Verbose = False
) -> None:
    """One version: its scores, its lineage, what it can do."""
    settings, _ = begin(verbose)
    from pipelines.answers import version_table
    from tasks import registry

    version = registry.find_version(model, settings.tracking_uri)
    if as_json:
        print_json(dataclasses.asdict(version))
    else:
        out().print(version_table(version))


@models.command()
def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="A model")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another, such as a later version")],
    similarity: Annotated[
        list[str] | None,
        typer.Option("--similarity", metavar="SET", help="Word pairs to ask both; or a file"),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Analogy questions to ask both; or a file"),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """What changed between two models: neighbours, aligned vectors, scores on words of both."""
    settings, console = begin(verbose)
    from pipelines.console import Watch

    with Watch(console) as watch, watch.doing("compare"):
        from tasks.evaluation.forgetting import compare_files
        from tasks.registry import open_model

        first, second = (open_model(one, settings.tracking_uri) for one in (before, after))
        change = compare_files(
            first.model,
            second.model,
            goes_on=second.goes_on_from(first),
            similarity_sets=similarity or (),
            analogy_sets=analogy or (),
            progress=lambda done, total, unit: watch.advance("compare", done, total, unit),
        )
    names = (first.reference, second.reference)
    if as_json:
        print_json({"before": names[0], "after": names[1], **change.to_json()})
    else:
        from pipelines.answers import change_table

        out().print(change_table(*names, change))


@models.command()
def promote(model: Model, home: Home = None, verbose: Verbose = False) -> None:
    """Make a version champion, if the gate of its run lets it pass."""
    settings, _ = begin(verbose)
    from pipelines import display
    from tasks import promotion, registry

    uri = settings.tracking_uri
    version = registry.find_version(model, uri)
    decided = promotion.promote(version.name, version.version, tracking_uri=uri, by_hand=True)
    display.show_promotion(out(), decided)
    if decided.reasons:
        raise typer.Exit(1)


@models.command()
def rollback(
    name: Annotated[str, typer.Argument(help="Name of the registered model")],
    home: Home = None,
    verbose: Verbose = False,
) -> None:
    """Give champion back to the version that had it before."""
    settings, _ = begin(verbose)
    from pipelines import display
    from tasks import promotion

    decided = promotion.rollback(name, tracking_uri=settings.tracking_uri)
    display.show_promotion(out(), decided)


def pull(
    model: Model,
    target: Annotated[Path, typer.Option("--out", help="File or folder to write")],
    format: Annotated[Format, typer.Option("--format", help="What to write")] = Format.native,
    vectors: WhichVectors = Vectors.own,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there")] = False,
    home: Home = None,
    verbose: Verbose = False,
) -> None:
    """Fetch a registered model, in our format or in one that other programs load."""
    settings, console = begin(verbose)
    from pipelines.console import Watch

    with Watch(console) as watch, watch.doing("pull"):
        from tasks.export.pull import pull as fetch

        path = fetch(
            model,
            format.value,
            target,
            tracking_uri=settings.tracking_uri,
            vectors=vectors.value,
            force=force,
            progress=lambda done, total, unit: watch.advance("pull", done, total, unit),
            note=lambda text: console.print(f"  {text}", highlight=False, markup=False),
        )
    out().print(path, soft_wrap=True, highlight=False, markup=False)


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file or URL, packed or not, or a pulled folder")
    ],
    name: Annotated[str, typer.Option("--name", help="To register the model under")],
    format: Annotated[
        ImportFormat, typer.Option("--format", help="Of the file; fastText's .vec is word2vec")
    ] = ImportFormat.auto,
    errors: Annotated[
        Errors,
        typer.Option(
            "--errors",
            help="Records that cannot be used: stop; leave out and count; or put U+FFFD for bytes "
            "that are no UTF-8, and leave the rest out",
        ),
    ] = Errors.strict,
    similarity: Annotated[
        list[str] | None,
        typer.Option("--similarity", metavar="SET", help="Score it: wordsim353, simlex999, a file"),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Score it: google, or a file"),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Register a model that another program made: word2vec, GloVe, fastText, Parquet, ARPA."""
    settings, console = begin(verbose)
    from pipelines.console import Watch

    with Watch(console) as watch:
        from pipelines.importing import import_file

        result = import_file(
            file,
            name,
            settings,
            watch,
            format=format.value,
            errors=errors.value,
            similarity=similarity or (),
            analogy=analogy or (),
        )
    if as_json:
        print_json(result.to_json())
    else:
        for line in result.lines:
            out().print(line, highlight=False, markup=False)


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="NAME@ALIAS, NAME/VERSION or a pulled folder"),
    ],
    similarity: Annotated[
        list[str] | None,
        typer.Option("--similarity", metavar="SET", help="Word pairs: simlex999, men, or a file"),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Analogies: google, bats, a file or folder"),
    ] = None,
    categorization: Annotated[
        list[str] | None,
        typer.Option("--categorization", metavar="SET", help="Classes of words: ap, or a file"),
    ] = None,
    outliers: Annotated[
        list[str] | None,
        typer.Option("--outliers", metavar="SET", help="Outlier detection: 8-8-8, or a folder"),
    ] = None,
    sets: Annotated[
        str, typer.Option("--sets", metavar="DIR", help="Folder that named sets lie in")
    ] = "",
    text: Annotated[
        list[Path] | None, typer.Option("--text", metavar="FILE", help="Raw text, for perplexity")
    ] = None,
    seen_in: Annotated[
        Path | None,
        typer.Option(
            "--seen-in",
            metavar="FILE",
            help="The models' training text: perplexity by contexts seen and unseen there",
        ),
    ] = None,
    order: Annotated[
        int | None,
        typer.Option(
            min=2, help="Of the n-grams that such a context and its word make", show_default="3"
        ),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="SPLIT", help="Of their corpus, valid or test"),
    ] = None,
    restrict: Annotated[
        int, typer.Option(min=1, help="Analogies look at so many of the most frequent words")
    ] = 300_000,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score models on files: coverage, policy, baseline; of several, how they differ."""
    if not (similarity or analogy or categorization or outliers or text or split):
        raise typer.BadParameter(
            "give at least one of --similarity, --analogy, --categorization, --outliers, --text "
            "and --split"
        )
    if seen_in and not text:
        raise typer.BadParameter("--seen-in parts the words of a --text; give one")
    if order and not seen_in:
        raise typer.BadParameter("--order is of the contexts of --seen-in; give it")
    settings, console = begin(verbose)
    from pipelines.console import Watch

    with Watch(console) as watch, watch.doing("evaluate"):
        from pipelines.comparison import compare, comparison_table
        from tasks.registry import open_model
        from tasks.store import Store

        compared = compare(
            [open_model(model, settings.tracking_uri) for model in models],
            {
                "similarity": similarity or (),
                "analogy": analogy or (),
                "categorization": categorization or (),
                "outliers": outliers or (),
            },
            sets,
            text or (),
            restrict,
            lambda done, total, unit: watch.advance("evaluate", done, total, unit),
            seen_in=seen_in,
            order=order or 3,
            splits=split or (),
            store=Store(settings.store, settings.home / "cache"),
        )
    if as_json:
        print_json(compared.to_json())
    else:
        out().print(comparison_table(compared), highlight=False, markup=False)
