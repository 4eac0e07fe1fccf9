"""Fetching a registered model in a format that somebody can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models.capabilities import ClassesWords, EmbedsWords
from models.family import Model, Progress, with_article
from models.fasttext import Model as Fasttext
from models.imported_ngram import Model as ImportedNgram
from models.ngram import Ngram
from models.tables import Choice, choices, chosen
from tasks.errors import InputError
from tasks.export.arpa import write_arpa
from tasks.export.aside import written_aside
from tasks.export.fasttext import write_fasttext
from tasks.export.native import copy_folder, is_model_folder
from tasks.export.parquet import write_parquet
from tasks.export.paths import write_features, write_paths
from tasks.export.word2vec import write_glove_text, write_word2vec_binary, write_word2vec_text
from tasks.registry import OpenedModel, open_model

Format = Literal[
    "native", "word2vec", "word2vec-bin", "glove", "fasttext", "parquet", "arpa", "paths"
]


@dataclass(frozen=True)
class _Export:
    """A format in one file.

    Attributes:
        suits: whether a model can be written in it.
        write: does so.
    """

    suits: Callable[[Model], bool]
    write: Callable[[Model, Path, Progress], None]


def _embeds(model: Model) -> bool:
    return isinstance(model, EmbedsWords)


def _classes(model: Model) -> bool:
    return isinstance(model, ClassesWords)


def _write_arpa(model: Model, path: Path, _progress: Progress) -> None:
    if not isinstance(model, Ngram | ImportedNgram):
        raise TypeError(f"{type(model).__name__} is no n-gram model")
    write_arpa(model, path)


def _write_paths(model: Model, path: Path, _progress: Progress) -> None:
    if not isinstance(model, ClassesWords):
        raise TypeError(f"{type(model).__name__} has no classes of words")
    write_paths(model, path)


def _write_parquet(model: Model, path: Path, progress: Progress) -> None:
    if isinstance(model, ClassesWords):
        write_features(model, path)
    else:
        write_parquet(model, path, progress)


def _write_fasttext(model: Model, path: Path, progress: Progress) -> None:
    if not isinstance(model, Fasttext):
        raise TypeError(f"{type(model).__name__} has no n-grams of characters")
    write_fasttext(model, path, progress)


EXPORTS: dict[Format, _Export] = {
    "word2vec": _Export(_embeds, write_word2vec_text),
    "word2vec-bin": _Export(_embeds, write_word2vec_binary),
    "glove": _Export(_embeds, write_glove_text),
    "fasttext": _Export(lambda model: isinstance(model, Fasttext), _write_fasttext),
    "parquet": _Export(lambda model: _embeds(model) or _classes(model), _write_parquet),
    "arpa": _Export(lambda model: isinstance(model, Ngram | ImportedNgram), _write_arpa),
    "paths": _Export(_classes, _write_paths),
}


WHOLE: tuple[Format, ...] = ("native", "fasttext")
"""Formats that hold all tables of a model."""


def formats(model: Model) -> tuple[Format, ...]:
    """The formats that a model can be pulled in."""
    return ("native", *(name for name, export in EXPORTS.items() if export.suits(model)))


def pull(
    reference: str,
    format: Format,
    out: Path,
    *,
    tracking_uri: str,
    vectors: Choice = "own",
    force: bool = False,
    progress: Progress = lambda done, total, unit: None,
    note: Callable[[str], None] = lambda text: None,
) -> Path:
    """Fetch a model; what is at ``out`` afterwards is whole, even if the pull is killed.

    Args:
        reference: ``NAME@ALIAS``, ``NAME/VERSION``, or a folder in the native format.
        format: to write it in.
        out: the folder (native) or file (any other format) to make.
        tracking_uri: of the MLflow.
        vectors: which of a model's word vectors are written; the native format has them all.
        force: replace whatever is at ``out``; without it only a model that was pulled before is.
        progress: told about words.
        note: told what the format leaves out of the model.

    Returns:
        ``out``.

    Raises:
        InputError: there is no such model, it cannot be had in this format, or ``out`` is taken.
        ConnectionError: MLflow does not answer.
    """
    if str(out) == ".":
        raise InputError("there is no place to write to", where="--out", remedy="name a path")
    replaceable = format == "native" and is_model_folder(out)
    if (out.exists() or out.is_symlink()) and not (force or replaceable):
        raise InputError(
            "there is something here already",
            where=str(out),
            remedy="choose another path, or --force to replace it",
        )
    if out.is_dir() and not is_model_folder(out) and any(out.iterdir()):
        raise InputError(
            "this folder holds other things than a pulled model, which would be lost",
            where=str(out),
            remedy="choose another path, or remove the folder yourself",
        )
    opened = open_model(reference, tracking_uri)
    if format not in formats(opened.model):
        raise InputError(
            f"{with_article(opened.model.config.title)} model cannot be had in the format {format}",
            where=opened.reference,
            remedy=f"it comes as {', '.join(formats(opened.model))}",
        )
    model = _with_vectors(opened, vectors, format)
    with written_aside(out) as aside:
        if format == "native":
            _copy(opened, aside)
        else:
            EXPORTS[format].write(model, aside, progress)
    if isinstance(opened.model, Fasttext) and format not in WHOLE:
        note(f"{format} holds the vocabulary without n-grams: unknown words have no vector in it")
    return out


def _with_vectors(opened: OpenedModel, vectors: Choice, format: Format) -> Model:
    if vectors == "own":
        return opened.model
    if format in WHOLE or vectors not in choices(opened.model):
        raise InputError(
            f"{vectors} vectors of this model cannot be had in the format {format}",
            where=opened.reference,
            remedy=f"the {format} format has all tables of a model"
            if format in WHOLE
            else f"choose among {', '.join(choices(opened.model)) or 'none'}",
        )
    return chosen(opened.model, vectors)


def _copy(opened: OpenedModel, folder: Path) -> None:
    """The files of a model, and a manifest that says which version they are."""
    manifest = dict(opened.about)
    if opened.version:
        manifest["registered"] = {
            "name": opened.version.name,
            "version": opened.version.version,
            "scores": {score.name: score.value for score in opened.version.scores},
        }
    copy_folder(opened.folder, manifest, folder)
