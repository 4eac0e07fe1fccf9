"""The commands about registered models: look them up, fetch, score and ask them."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_common import AsJson, Home, Model, Verbose, begin, out, print_json

models = typer.Typer(
    help="Registered models: list, show, promote, roll back.", no_args_is_help=True
)
query = typer.Typer(
    help="Ask a model: neighbours, analogies, similarity, odd one out, rank, perplexity.",
    no_args_is_help=True,
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


class ImportFormat(enum.StrEnum):
    """The formats of files that are imported."""

    auto = "auto"
    word2vec = "word2vec"
    word2vec_bin = "word2vec-bin"
    glove = "glove"
    fasttext = "fasttext"
    parquet = "parquet"
    native = "native"


class Errors(enum.StrEnum):
    """What becomes of records that cannot be used."""

    strict = "strict"
    reject = "reject"
    replaced = "replace"


class Method(enum.StrEnum):
    """The two ways to answer an analogy."""

    add = "3cosadd"
    mul = "3cosmul"


class Vectors(enum.StrEnum):
    """The tables of word vectors that a model may have."""

    own = "own"
    input = "input"
    output = "output"
    sum = "sum"


WhichVectors = Annotated[
    Vectors,
    typer.Option("--vectors", help="Of a model with two tables: which, or both added"),
]


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
    """Register vectors that another program made: word2vec, GloVe, fastText, Parquet."""
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
    restrict: Annotated[
        int, typer.Option(min=1, help="Analogies look at so many of the most frequent words")
    ] = 300_000,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score models on files: coverage, policy, baseline; of several, spread and difference."""
    if not (similarity or analogy or categorization or outliers or text):
        raise typer.BadParameter(
            "give at least one of --similarity, --analogy, --categorization, --outliers and --text"
        )
    settings, console = begin(verbose)
    from pipelines.console import Watch

    with Watch(console) as watch, watch.doing("evaluate"):
        from pipelines.comparison import compare, comparison_table
        from tasks.registry import open_model

        compared = compare(
            [open_model(model, settings.tracking_uri) for model in dict.fromkeys(models)],
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
        )
    if as_json:
        print_json(compared.to_json())
    else:
        out().print(comparison_table(compared), highlight=False, markup=False)


# --- questions ------------------------------------------------------------------------------


@query.command()
def neighbours(
    model: Model,
    words: Annotated[list[str], typer.Argument(help="Words, or sums: 'king - boy + girl'")],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each")] = 10,
    vectors: WhichVectors = Vectors.own,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Search by a graph, which may miss some")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The words whose vectors are nearest, to a word or to a signed sum of words.

    A sign counts as one between spaces; a word may have a weight: 'paris - 0.5 * france'.
    """
    settings, console = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    def tell(recall: float) -> None:
        console.print(f"approximate: finds {recall:.1%} of the ten nearest, as measured here")

    opened = open_model(model, settings.tracking_uri)
    told = tell if approximate else None
    answer = answers.neighbours(opened, words, k, vectors.value, told)
    print_json(answer) if as_json else out().print(answers.neighbours_table(answer))


@query.command()
def analogy(
    model: Model,
    a: Annotated[str, typer.Argument(help="a is to b ...")],
    b: Annotated[str, typer.Argument(help="... as ...")],
    c: Annotated[str, typer.Argument(help="... c is to the answer")],
    k: Annotated[int, typer.Option("-k", min=1, help="Answers")] = 5,
    method: Annotated[Method, typer.Option(help="How the answer is found")] = Method.add,
    vectors: WhichVectors = Vectors.own,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """What is to C as B is to A: the answers with their scores."""
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    answer = answers.analogy(opened, (a, b, c), k, method.value, vectors.value)
    print_json(answer) if as_json else out().print(answers.ranking_table(answer))


@query.command()
def similarity(
    model: Model,
    first: Annotated[str, typer.Argument(help="A word, or several: 'red green blue'")],
    second: Annotated[str, typer.Argument(help="Another")],
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--pair", help="Two words: compare the way from FIRST to SECOND with that between them"
        ),
    ] = None,
    vectors: WhichVectors = Vectors.own,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The cosine of two words, of the means of two sets of words, or of two offsets."""
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    cosine = answers.similarity(opened, first, second, pair, vectors.value)
    print_json({"cosine": cosine}) if as_json else out().print(f"{cosine:.4f}")


@query.command("odd-one-out")
def odd_one_out(
    model: Model,
    words: Annotated[list[str], typer.Argument(help="Words")],
    vectors: WhichVectors = Vectors.own,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The word that goes least with the others: the last one, by the cosine with their mean."""
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    answer = answers.odd_one_out(open_model(model, settings.tracking_uri), words, vectors.value)
    if as_json:
        print_json({"odd": answer[-1][0], "words": answer})
    else:
        out().print(answers.ranking_table(answer))


@query.command()
def rank(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word")],
    other: Annotated[str, typer.Argument(help="Another")],
    k: Annotated[int, typer.Option("-k", min=0, help="Nearer words to show")] = 10,
    vectors: WhichVectors = Vectors.own,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Which neighbour of WORD the OTHER is, and the words that are nearer."""
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    place, closer = answers.rank(opened, word, other, vectors.value)
    if as_json:
        print_json({"rank": place, "closer": closer[:k]})
    else:
        line = answers.rank_line(place, closer, k)
        out().print(line, highlight=False, markup=False, soft_wrap=True)


@query.command()
def perplexity(
    model: Model,
    text: Annotated[str, typer.Argument(help="Text, or - for standard input")],
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How surprised the model is by a text, word by word."""
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    given = answers.from_stdin() if text == "-" else text
    answer = answers.surprise(open_model(model, settings.tracking_uri), given)
    print_json(answer) if as_json else out().print(answers.surprise_table(answer))
