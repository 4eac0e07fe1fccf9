"""The commands that ask a model about tokens and sentences in their context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_common import AsJson, Home, Model, Verbose, begin, out, print_json
from pipelines.cli_query import query

__all__ = ["query"]

Text = Annotated[str | None, typer.Option("--text", help="Text; - for standard input")]
File = Annotated[
    str | None,
    typer.Option("--file", metavar="FILE", help="Text, packed or not; a line is a sentence"),
]
Document = Annotated[
    bool, typer.Option("--document", help="Read all as one document, not each sentence alone")
]
Out = Annotated[Path, typer.Option("--out", help="Parquet file to write")]


def _lines(text: str | None, file: str | None) -> Iterator[str]:
    if (text is None) == (file is None):
        raise typer.BadParameter("give either a --text or a --file")
    from tasks.scoring import read_lines

    if text is None or text == "-":
        return read_lines(file or "-")
    return iter(text.split("\n"))


@query.command()
def tokens(
    model: Model,
    target: Out,
    text: Text = None,
    file: File = None,
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", help="A layer by its name, last, or all; several times [last]"),
    ] = None,
    document: Document = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write the vector of every token of a text, in its context, as Parquet."""
    lines, (settings, console) = _lines(text, file), begin(verbose)
    from dataclasses import asdict

    from pipelines.console import Watch
    from pipelines.contextual import written_line
    from tasks.contextual import write_tokens
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    with Watch(console) as watch, watch.doing("tokens"):
        made = write_tokens(
            opened, lines, target, source=file or "-", layers=layer or ("last",), document=document,
            progress=lambda done: watch.advance("tokens", done, 0, "tokens"),
        )  # fmt: skip
    if as_json:
        print_json({"out": str(target), **asdict(made)})
    else:
        out().print(written_line(target, made), highlight=False, soft_wrap=True)


@query.command()
def sentences(
    model: Model,
    text: Text = None,
    file: File = None,
    target: Annotated[Path | None, typer.Option("--out", help="Parquet file to write")] = None,
    like: Annotated[
        str | None, typer.Option("--like", help="Show the sentences nearest to this one instead")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Sentences to show")] = 10,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write the vector of every sentence of a text as Parquet, or find the nearest to one."""
    if (target is None) == (like is None):
        raise typer.BadParameter("give either an --out or a --like")
    lines, (settings, console) = _lines(text, file), begin(verbose)
    from dataclasses import asdict

    from pipelines.console import Watch
    from pipelines.contextual import places_table, written_line
    from tasks.contextual import nearest_sentences, write_sentences
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    with Watch(console) as watch, watch.doing("sentences"):

        def told(done: int) -> None:
            watch.advance("sentences", done, 0, "tokens")

        made = None
        if target:
            made = write_sentences(opened, lines, target, source=file or "-", progress=told)
        near = nearest_sentences(opened, like, lines, k, told) if like is not None else []
    if made is None:
        answer = [asdict(place) for place in near]
        print_json(answer) if as_json else out().print(places_table(near))
    elif as_json:
        print_json({"out": str(target), **asdict(made)})
    else:
        out().print(written_line(target, made), highlight=False, soft_wrap=True)


@query.command()
def senses(
    model: Model,
    word: Annotated[str, typer.Argument(help="A word")],
    text: Text = None,
    file: File = None,
    layer: Annotated[str, typer.Option("--layer", help="A layer by its name")] = "last",
    k: Annotated[int, typer.Option("-k", min=1, help="Nearest occurrences of each")] = 3,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Occurrences to show, evenly spaced")
    ] = 5,
    document: Document = False,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Occurrences of a word in a text, each with those where it is used most alike."""
    lines, (settings, console) = _lines(text, file), begin(verbose)
    from dataclasses import asdict

    from pipelines.console import Watch
    from pipelines.contextual import senses_table
    from tasks.contextual import senses as find_senses
    from tasks.registry import open_model

    opened = open_model(model, settings.tracking_uri)
    with Watch(console) as watch, watch.doing("senses"):
        answer = find_senses(
            opened, word, lines, layer=layer, k=k, shown=count, document=document,
            progress=lambda done: watch.advance("senses", done, 0, "tokens"),
        )  # fmt: skip
    print_json(asdict(answer)) if as_json else out().print(senses_table(answer))
