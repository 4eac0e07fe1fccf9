"""The commands that ask a model: about its word vectors, how it finds a text, and for text."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tasks.registry import OpenedModel

query = typer.Typer(
    help="Ask a model: neighbours, analogies, similarity, odd one out, rank; perplexity, scores "
    "of a text, text that it makes; vectors of tokens and sentences.",
    no_args_is_help=True,
)


class Method(enum.StrEnum):
    """The two ways to answer an analogy."""

    add = "3cosadd"
    mul = "3cosmul"


class Row(enum.StrEnum):
    """What a row of scores is."""

    token = "token"
    sentence = "sentence"


def _show(answer: RenderableType, opened: OpenedModel, words: Iterable[str]) -> None:
    """Print an answer about words, and which of them are not in the vocabulary."""
    from rich.text import Text

    from pipelines import answers

    out().print(answer, highlight=False, soft_wrap=isinstance(answer, Text))
    if strangers := answers.composed(opened, words):
        out().print(answers.composed_line(strangers), highlight=False)


# --- questions ------------------------------------------------------------------------------


@query.command()
def neighbours(
    model: Model,
    words: Annotated[
        list[str],
        typer.Argument(
            help="Words, or sums: 'king - boy + girl' (behind -- if one begins with a sign)"
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each")] = 10,
    vectors: WhichVectors = Vectors.own,
    beside: Annotated[
        Vectors | None,
        typer.Option("--beside", help="Other vectors of the model, whose answers stand beside"),
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Search by a graph, which may miss some")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The words whose vectors are nearest, to a word or to a signed sum of words.

    A sign counts as one between spaces; a word may have a weight: 'paris - 0.5 * france'. A model
    that reads characters has two layers: --vectors before-highway --beside after-highway.
    """
    settings, console = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    def tell(recall: float) -> None:
        console.print(f"approximate: finds {recall:.1%} of the ten nearest, as measured here")

    opened = open_model(model, settings.tracking_uri)
    told = tell if approximate else None
    answer = answers.neighbours(opened, words, k, vectors.value, told)
    if beside is None:
        found: Any = answer
        shown = answers.neighbours_table(answer)
    else:
        other = answers.neighbours(opened, words, k, beside.value, told)
        found = {vectors.value: answer, beside.value: other}
        shown = answers.beside_tables(found)
    if as_json:
        print_json(found)
    else:
        _show(shown, opened, answers.words_of(opened, words))


@query.command()
def analogy(
    model: Model,
    question: Annotated[
        list[str],
        typer.Argument(
            metavar="A B C | SUM", help="A is to B as C is to the answer; or 'king - boy + girl'"
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Answers")] = 5,
    method: Annotated[Method, typer.Option(help="How the answer is found")] = Method.add,
    vectors: WhichVectors = Vectors.own,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """What is to C as B is to A, or what a sum of words comes to: the answers with their scores."""
    if len(question) not in (1, 3):
        raise typer.BadParameter(
            "give three words, or one sum in quotes, such as 'king - boy + girl'"
        )
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    answer = answers.analogy(opened, question, k, method.value, vectors.value)
    if as_json:
        print_json(answer)
    else:
        asked = question if len(question) == 3 else answers.words_of(opened, question)
        _show(answers.ranking_table(answer, method.value), opened, asked)


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
    if as_json:
        print_json({"cosine": cosine})
    else:
        line = answers.similarity_line(cosine, first, second, pair)
        sides = (first, second, *pair) if pair else (first, second)
        _show(line, opened, [word for side in sides for word in answers.listed(opened, side)])


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

    opened = open_model(model, settings.tracking_uri)
    answer = answers.odd_one_out(opened, words, vectors.value)
    if as_json:
        print_json({"odd": answer[-1][0], "words": answer})
    else:
        _show(answers.odd_table(answer), opened, words)


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
        _show(answers.rank_line(place, closer, k), opened, (word, other))


@query.command()
def perplexity(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="Text, or - for standard input")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="Score a file, packed or not, without its words"
        ),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How surprised the model is by a text: word by word, or by all of a file."""
    if (text is None) == (file is None):
        raise typer.BadParameter("give either a TEXT or a --file")
    settings, _ = begin(verbose)
    from pipelines import answers, scoring
    from tasks.registry import open_model

    if file is not None:
        answer = scoring.surprise_of_file(open_model(model, settings.tracking_uri), file)
        print_json(answer) if as_json else out().print(scoring.totals(answer), highlight=False)
        return
    given = answers.from_stdin() if text == "-" else str(text)
    answer = scoring.surprise(open_model(model, settings.tracking_uri), given)
    print_json(answer) if as_json else out().print(scoring.surprise_table(answer), highlight=False)


@query.command()
def score(
    model: Model,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Raw text, packed or not, or - for standard input")
    ],
    target: Annotated[Path, typer.Option("--out", help="Parquet file to write")],
    by: Annotated[Row, typer.Option("--by", help="What a row is")] = Row.token,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write the log-probability of every token, or of every sentence, of a file as Parquet."""
    settings, console = begin(verbose)
    from pipelines import scoring
    from pipelines.console import Watch
    from tasks.registry import open_model
    from tasks.scoring import language_model, summary, write_scores

    opened = open_model(model, settings.tracking_uri)
    with Watch(console) as watch, watch.doing("score"):
        sums = write_scores(
            opened, file, target, by.value, lambda done: watch.advance("score", done, 0, "tokens")
        )
    answer = summary(language_model(opened), sums)
    if as_json:
        print_json({"out": str(target), "by": by.value, **answer})
    else:
        line = scoring.written_line(target, by.value, answer)
        out().print(line, highlight=False, soft_wrap=True)


@query.command()
def generate(
    model: Model,
    prefix: Annotated[
        str, typer.Option("--prefix", help="Beginning of a sentence to go on from")
    ] = "",
    count: Annotated[int, typer.Option("--count", "-n", help="Texts to make")] = 1,
    length: Annotated[int, typer.Option("--length", help="Words to add, at most")] = 50,
    seed: Annotated[int, typer.Option("--seed", help="Of all texts: text i is ever the same")] = 1,
    temperature: Annotated[
        float,
        typer.Option("--temperature", help="0: always the likeliest word; 1: as the model is"),
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw among so many words; none: among all")
    ] = None,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Draw among the likeliest that hold this probability")
    ] = 1.0,
    unknown: Annotated[bool, typer.Option("--unknown", help="<unk> may be drawn as well")] = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Text that the model makes, a line each; it goes on until a sentence end or for --length."""
    settings, console = begin(verbose)
    from pipelines import scoring
    from tasks.generation import make_texts
    from tasks.registry import open_model

    how = scoring.sampling(temperature, top_k, top_p, unknown)
    opened = open_model(model, settings.tracking_uri)
    made, unheard = make_texts(opened, prefix, count, how=how, length=length, seed=seed)
    if unheard:
        console.print(f"  {unheard} of the prefix unknown to the model, taken for <unk>")
    if as_json:
        print_json(scoring.made_json(made, unheard))
    else:
        for text in made:
            out().print(text.text, highlight=False, markup=False, soft_wrap=True)
