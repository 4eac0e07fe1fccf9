"""The commands that ask a model: about its word vectors, and how it finds a text."""

from __future__ import annotations

import enum
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

query = typer.Typer(
    help="Ask a model: neighbours, analogies, similarity, odd one out, rank, perplexity.",
    no_args_is_help=True,
)


class Method(enum.StrEnum):
    """The two ways to answer an analogy."""

    add = "3cosadd"
    mul = "3cosmul"


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
