"""The commands about corpora, each usable on a file alone."""

from __future__ import annotations

import dataclasses
import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli_common import AsJson, Home, Verbose, begin, out, print_json

if TYPE_CHECKING:
    from tasks.lineage import Wanted

corpus = typer.Typer(help="Corpora: read, count, look into them.", no_args_is_help=True)


# --- what is kept ---------------------------------------------------------------------------


@corpus.command()
def where(
    document: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENT", help="A document's id or the start of it, its origin, or a file"
        ),
    ],
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Say which artifacts and models contain a document."""
    settings, _ = begin(verbose)
    from pipelines.corpus_tables import whereabouts
    from tasks import lineage
    from tasks.errors import InputError
    from tasks.registry import list_models
    from tasks.store import Store

    wanted = _wanted(document)
    store = Store(settings.store, settings.home / "cache")
    catalogue = lineage.read_catalogue(store)
    holdings = lineage.find_documents(catalogue, store, wanted)
    if not holdings:
        raise InputError(
            "no artifact in the store holds such a document",
            where=document,
            remedy="name its id, its origin as `lexloom corpus show` prints it, or its file",
        )
    made = lineage.descendants(catalogue, holdings)
    contents = {manifest.content for manifest in made}
    versions = [v for v in list_models(settings.tracking_uri) if v.content in contents]
    if as_json:
        print_json(
            {
                "documents": sorted({row[:2] for holding in holdings for row in holding.rows}),
                "artifacts": [
                    {"step": step, "recipe": recipe}
                    for step, recipe in [
                        *(holding.key for holding in holdings),
                        *((manifest.step, manifest.recipe) for manifest in made),
                    ]
                ],
                "models": [version.reference for version in versions],
            }
        )
    else:
        out().print(whereabouts(catalogue, holdings, made, versions))


def _wanted(document: str) -> Wanted:
    """What a person means by a document.

    Raises:
        InputError: nothing that could be one.
    """
    from tasks.errors import InputError
    from tasks.lineage import Wanted
    from tasks.storage import sha256_of

    if Path(document).is_file():
        return Wanted(origin=sha256_of(Path(document))[:12] + ":")
    if re.fullmatch(r"[0-9a-f]{12}:[0-9]*", document):
        return Wanted(origin=document)
    if re.fullmatch(r"([0-9a-f]{2}){4,16}", document):
        return Wanted(id=bytes.fromhex(document))
    raise InputError(
        "this is no file, no id (8 to 32 hexadecimal digits) and no origin",
        where=document,
        remedy="`lexloom corpus show` prints ids and origins",
    )


def gc(
    recipe: Annotated[
        list[str] | None,
        typer.Option(metavar="RECIPE|FILE", help="Keep what a run of this would find again"),
    ] = None,
    older: Annotated[
        float, typer.Option(min=0, metavar="HOURS", help="Only what was untouched for so long")
    ] = 24.0,
    delete: Annotated[bool, typer.Option("--delete", help="Remove it; without, only show")] = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show, or remove, what no registered model, MLflow run or recipe needs any more."""
    settings, _ = begin(verbose)
    from pipelines.corpus_tables import garbage_table
    from pipelines.keeping import roots
    from pipelines.recipes import RECIPES, resolve
    from tasks import garbage, lineage
    from tasks.errors import InputError
    from tasks.store import Store

    store = Store(settings.store, settings.home / "cache")
    configs = [resolve(name) for name in recipe or []]
    for name in RECIPES:
        try:
            configs.append(resolve(name))
        except InputError:
            continue  # its corpus is not installed, so it found nothing either
    with garbage.alone(store) if delete else nullcontext():
        keep = roots(lineage.read_catalogue(store), settings, configs)
        found = garbage.find_garbage(store, keep, older=older * 3600)
        if delete:
            garbage.remove(store, found)
    if as_json:
        print_json({"deleted": delete, "garbage": [dataclasses.asdict(one) for one in found]})
    else:
        out().print(garbage_table(found, deleted=delete))
