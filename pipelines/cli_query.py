"""The commands that ask a model: about its word vectors, and how it finds a text."""

from __future__ import annotations

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

query = typer.Typer(
    help="Ask a model: neighbours, analogies, similarity, odd one out, rank, perplexity, text.",
    no_args_is_help=True,
)


class Method(enum.StrEnum):
    """The two ways to answer an analogy."""

    add = "3cosadd"
    mul = "3cosmul"


class By(enum.StrEnum):
    """What a row of scores is about."""

    token = "token"
    sentence = "sentence"


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


# --- language models ------------------------------------------------------------------------


@query.command()
def perplexity(
    model: Model,
    text: Annotated[str | None, typer.Argument(help="Text, or - for standard input")] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="A file of text, packed or not, or -")
    ] = "",
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """How surprised the model is by a text, word by word; or by a file, in all."""
    if (text is None) == (not file):
        raise typer.BadParameter("give either a text or --file")
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    if text is None:
        found = answers.file_perplexity(opened, file)
        if as_json:
            print_json(found)
        else:
            out().print(answers.summary_lines(found), highlight=False, markup=False)
        return
    given = answers.from_stdin() if text == "-" else text
    answer = answers.surprise(opened, given)
    print_json(answer) if as_json else out().print(answers.surprise_table(answer))


@query.command()
def score(
    model: Model,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text, packed or not, or -")],
    target: Annotated[Path, typer.Option("--out", metavar="FILE", help="Parquet file to write")],
    by: Annotated[By, typer.Option("--by", help="A row a token or a sentence")] = By.token,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there")] = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The log-probability of every word or sentence of a file, in nats, as Parquet."""
    settings, _ = begin(verbose)
    from pipelines import answers
    from tasks import scoring
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    vocabulary = opened.model.vocabulary
    about = {"model": opened.reference, "text": file, "vocabulary": vocabulary.hash}
    scored = scoring.score_text(
        opened.model, opened.text, scoring.read_blocks(file), where=opened.reference
    )
    sums = scoring.write_scores(scored, target, by.value, about, force=force)
    found = scoring.summary(sums, opened.model)
    if as_json:
        print_json({"file": str(target), **found})
    else:
        out().print(answers.summary_lines(found), highlight=False, markup=False)


@query.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A language model")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text, packed or not")],
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Two language models on one text: their difference, and whether it may be chance."""
    if file == "-":
        raise typer.BadParameter("both models read the text: give a file")
    settings, _ = begin(verbose)
    from tasks import scoring
    from tasks.registry import open_model

    both = [open_model(one, settings.tracking_uri) for one in (first, second)]
    one, other = (
        scoring.score_text(m.model, m.text, scoring.read_blocks(file), where=m.reference)
        for m in both
    )
    found = scoring.compare(one, other, where=file)
    if as_json:
        print_json({"models": [m.reference for m in both], **found.to_json()})
        return
    chance = "too few sentences for an interval"
    if found.interval and found.p_value is not None:
        low, high = found.interval
        chance = f"95% [{low:+.4g}, {high:+.4g}], p = {found.p_value:.3g} (paired bootstrap)"
    unit = found.unit.replace("_", " ")
    lines = [
        f"{unit}: {both[0].reference} {found.first:,.4f}, {both[1].reference} {found.second:,.4f}",
        f"difference {found.difference:+,.4f}; {chance}",
        *filter(None, [found.note]),
    ]
    out().print("\n".join(lines), highlight=False, markup=False)


@query.command()
def generate(
    model: Model,
    prefix: Annotated[str, typer.Option("--prefix", help="How every text begins")] = "",
    count: Annotated[int, typer.Option("--count", min=1, help="Texts")] = 1,
    length: Annotated[int, typer.Option("--length", min=1, help="Words of each at most")] = 50,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random numbers")] = 1,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Divides log-probabilities; 0: likeliest word")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Only so many likeliest words")
    ] = None,
    top_p: Annotated[
        float, typer.Option("--top-p", help="Only the likeliest words that reach so much")
    ] = 1.0,
    unknown: Annotated[bool, typer.Option("--unknown", help="Let <unk> be drawn")] = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Text drawn from a language model, from the start of a sentence to its end."""
    settings, console = begin(verbose)
    from models.generation import Sampling
    from pipelines import answers
    from tasks.errors import ConfigError
    from tasks.registry import open_model

    try:
        sampling = Sampling(temperature, top_k, top_p, unknown, seed)
    except ValueError as error:
        raise ConfigError(str(error), where="query generate") from None
    opened = open_model(model, settings.tracking_uri)
    answer = answers.generated(opened, prefix, count=count, length=length, sampling=sampling)
    if as_json:
        print_json(answer)
        return
    if answer["unknown_words"]:
        words = ", ".join(answer["unknown_words"])
        console.print(f"  read as <unk>: {words}", style="yellow", highlight=False, markup=False)
    for text in answer["texts"]:
        shown = text["text"] + ("" if text["ended"] else " ...")
        out().print(shown, highlight=False, markup=False, soft_wrap=True)
