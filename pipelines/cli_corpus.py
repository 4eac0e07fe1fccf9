"""The commands about corpora, each usable on files alone."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli_common import AsJson, Changes, Home, Verbose, begin, out, print_json

if TYPE_CHECKING:
    from pipelines.counting import Counting
    from tasks.lineage import Wanted

corpus = typer.Typer(
    help="Corpora: read, count, look into them. Each command takes files, or a recipe.",
    no_args_is_help=True,
)

Text = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...|RECIPE",
        help="Files and globs, packed or not, - for standard input; or a recipe (sample, a .yaml)",
    ),
]
Top = Annotated[int, typer.Option("--top", min=0, help="Show so many; 0 for all")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Write the whole table: .tsv, .parquet, or - for standard output"),
]


class Plain(enum.StrEnum):
    """How text is cut that is counted as it is."""

    whitespace = "whitespace"
    words = "words"


class Weights(enum.StrEnum):
    """What a pair counts."""

    harmonic = "harmonic"
    flat = "flat"


class Side(enum.StrEnum):
    """On which side of a word others count."""

    both = "both"
    left = "left"
    right = "right"


class Boundary(enum.StrEnum):
    """What no window crosses."""

    document = "document"
    sentence = "sentence"


@contextmanager
def _counting(text: list[str], changes: list[str] | None, verbose: bool) -> Iterator[Counting]:
    """What counts a text in this process, with its progress shown."""
    settings, console = begin(verbose)
    from pipelines.console import Watch, quieten
    from pipelines.counting import Counting, config_of

    config = config_of(text, changes or [])
    with Watch(console) as watch:
        if not verbose:
            quieten(settings.home / "logs" / "corpus.log")
        yield Counting.at(config, settings, watch)


@corpus.command()
def ingest(
    text: Text,
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Read documents, and say what became of every record."""
    with _counting(text, changes, verbose) as counting:
        made = counting.corpus()
    if as_json:
        print_json({"content": made.content, "stages": made.stats})
    else:
        from pipelines.corpus_tables import stages_table

        out().print(stages_table(made))


@corpus.command()
def stats(
    text: Text,
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Tokens, types, lengths, and how the vocabulary grows with the text."""
    with _counting(text, changes, verbose) as counting:
        figures = counting.figures()
    if as_json:
        print_json(figures)
    else:
        from pipelines.corpus_tables import figures_table

        out().print(figures_table(figures))


@corpus.command()
def show(
    text: Text,
    documents: Annotated[
        int, typer.Option("--documents", "-n", min=0, help="So many documents")
    ] = 5,
    drops: Annotated[bool, typer.Option("--drops", help="What was dropped, and why")] = False,
    word: Annotated[
        str, typer.Option("--word", "-w", help="This word with the tokens around it")
    ] = "",
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Documents as they came out, what was dropped, or a word among its neighbours."""
    with _counting(text, changes, verbose) as counting:
        rows = (
            counting.drops(documents)
            if drops
            else counting.concordance(word, documents)
            if word
            else counting.documents(documents)
        )
    if as_json:
        print_json(rows)
    else:
        from pipelines.corpus_tables import rows_table

        out().print(rows_table(rows))


@corpus.command()
def vocab(
    text: Text,
    top: Top = 20,
    min_count: Annotated[int, typer.Option(min=1, help="Only words seen so often")] = 1,
    plain: Annotated[
        Plain | None, typer.Option("--plain", help="Count text as it is, cut in this way")
    ] = None,
    file: Out = None,
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Count words: the most frequent first, ties by their bytes.

    With --plain the bytes of UTF-8 text are counted as they are, without normalization and
    without keeping anything: the fastest way to a word list.
    """
    if plain is not None:
        settings, _ = begin(verbose)
        from tasks.words import count_words

        table = count_words(text, scheme=plain.value, threads=settings.threads)
        if min_count > 1:
            table = table.filter(table["count"].to_numpy() >= min_count)
    else:
        with _counting(text, changes, verbose) as counting:
            table = counting.vocabulary(min_count)
    _answer(table, top, file, as_json)


@corpus.command()
def ngrams(
    text: Text,
    order: Annotated[int, typer.Option("--order", "-o", min=1, max=16, help="Words of one")] = 3,
    top: Top = 20,
    min_count: Annotated[int, typer.Option(min=1, help="Only those seen so often")] = 1,
    file: Out = None,
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Count n-grams within sentences, with <s> and </s> at their ends."""
    with _counting(text, changes, verbose) as counting:
        table = counting.ngrams(order, min_count)
    _answer(table, top, file, as_json)


@corpus.command()
def cooccurrence(
    text: Text,
    window: Annotated[int, typer.Option(min=1, help="Farthest distance that counts")] = 10,
    weights: Annotated[Weights, typer.Option(help="1 / distance, or 1")] = Weights.harmonic,
    side: Annotated[Side, typer.Option(help="Side on which others count")] = Side.both,
    boundary: Annotated[
        Boundary, typer.Option(help="What no window crosses; a line is a sentence")
    ] = Boundary.sentence,
    min_count: Annotated[int, typer.Option(min=1, help="Only words seen so often")] = 1,
    top: Top = 20,
    file: Out = None,
    changes: Changes = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Count which words stand near each other; words left out keep their place in windows."""
    with _counting(text, changes, verbose) as counting:
        from tasks.cooccurrence import Cooccurrence

        try:
            settings = Cooccurrence(window, weights.value, side.value, boundary.value)
        except ValueError as error:
            raise _refused(str(error), "--window") from None
        table = counting.cooccurrence(settings, min_count)
    _answer(table, top, file, as_json)


def _refused(problem: str, option: str) -> Exception:
    from tasks.errors import ConfigError

    return ConfigError(problem, where=option)


def _answer(table: object, top: int, file: Path | None, as_json: bool) -> None:
    """Write a table where it is wanted, or show the head of it."""
    import pyarrow as pa

    from pipelines.corpus_tables import counts_table, write_counts
    from tasks.counted import counted

    assert isinstance(table, pa.Table)
    if file is not None:
        write_counts(table, file)
        if str(file) != "-":
            rows = counted(table.num_rows, "rows")
            out().print(f"{rows}: {file}", soft_wrap=True, highlight=False)
        return
    head = table.slice(0, top) if top else table
    if as_json:
        print_json(head.to_pylist())
    else:
        out().print(counts_table(head, table.num_rows))


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
            configs.append(resolve(name, fetch=False))
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
