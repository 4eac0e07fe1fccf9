"""The commands that make something of a model's vectors: a smaller model, a map."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli_common import AsJson, Home, Model, Verbose, begin, out, print_json


class Method(enum.StrEnum):
    """How vectors become points."""

    pca = "pca"
    tsne = "tsne"


def quantize(
    model: Model,
    name: Annotated[
        str, typer.Option("--name", help="Register it under this name [NAME-quantized]")
    ] = "",
    sub_vectors: Annotated[
        int | None,
        typer.Option("--sub-vectors", help="Bytes of a vector [half of its columns]"),
    ] = None,
    norms: Annotated[
        bool, typer.Option("--norms/--no-norms", help="A code of its own for the length")
    ] = True,
    rotation: Annotated[
        bool, typer.Option("--rotation/--no-rotation", help="Turn the vectors first")
    ] = True,
    similarity: Annotated[
        list[str] | None,
        typer.Option("--similarity", metavar="SET", help="Score both on these word pairs"),
    ] = None,
    analogy: Annotated[
        list[str] | None,
        typer.Option("--analogy", metavar="SET", help="Score both on these analogies"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed")] = 1,
    home: Home = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make a model several times smaller by product quantization, and say what that costs."""
    settings, console = begin(verbose)
    from pipelines import display
    from pipelines.console import Watch, quieten
    from pipelines.quantizing import Sets, quantize_model, quantized_table

    if not verbose:
        quieten(settings.home / "logs" / "quantize.log")
    with Watch(console) as watch:
        made = quantize_model(
            model,
            settings,
            watch,
            name=name,
            sub_vectors=sub_vectors,
            norms=norms,
            rotation=rotation,
            sets=Sets.of(similarity, analogy),
            seed=seed,
        )
    if as_json:
        print_json(made.to_json())
        return
    out().print(quantized_table(made))
    for note in made.notes:
        out().print(note, style="yellow", highlight=False, markup=False)
    display.show_promotion(out(), made.promotion)


def word_map(
    model: Model,
    target: Annotated[Path, typer.Option("--out", help="File to write: .html or .png")],
    words: Annotated[list[str] | None, typer.Argument(help="Words to show")] = None,
    frequent: Annotated[
        int | None,
        typer.Option("--frequent", min=0, help="So many frequent words [300 if none is named]"),
    ] = None,
    method: Annotated[Method, typer.Option(help="Principal components, or t-SNE")] = Method.pca,
    seed: Annotated[int, typer.Option(min=0, help="Seed of t-SNE")] = 1,
    home: Home = None,
    verbose: Verbose = False,
) -> None:
    """Draw words as points of a plane, as a page with zoom and search or as a picture."""
    settings, console = begin(verbose)
    from pipelines.console import Watch

    with Watch(console) as watch, watch.doing("map"):
        from tasks.registry import open_model
        from tasks.wordmap import make_map
        from tasks.wordmap_file import check_target, write_map

        check_target(target)
        opened = open_model(model, settings.tracking_uri)
        found = make_map(
            opened.model,
            words or (),
            frequent=(0 if words else 300) if frequent is None else frequent,
            method=method.value,
            title=opened.reference,
            seed=seed,
        )
        notes = write_map(found, target)
    for note in notes:
        console.print(note, style="yellow", highlight=False, markup=False)
    out().print(target, soft_wrap=True, highlight=False, markup=False)
