"""The steps that make a model of a file, or of a folder that was pulled.

They are keyed by the bytes of the file and by how it is read, so the same file read twice is one
model, whatever its name. A ``.bin`` of fastText becomes a model of the family ``fasttext``, a
folder in the native format the model that was pulled, an ARPA file ``models.imported_ngram``, and
everything else ``models.imported``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from models.capabilities import EmbedsWords
from models.family import Model, Progress
from models.imported import Config
from models.imported import Model as Imported
from models.imported_ngram import Config as NgramConfig
from models.imported_ngram import Model as ImportedNgram
from models.vocabulary import Vocabulary
from tasks.artifacts import Artifact, Stats
from tasks.errors import InputError
from tasks.export.native import FILES, check_folder, is_model_folder
from tasks.files import import_files, origin_of
from tasks.importing.arpa import read_arpa
from tasks.importing.binary import read_binary
from tasks.importing.detecting import FileFormat, detect
from tasks.importing.fasttext import read_fasttext
from tasks.importing.gathering import Errors, Gathering
from tasks.importing.parquet import read_parquet
from tasks.importing.text import read_text
from tasks.models import TextPipeline, read_model, write_model
from tasks.normalize import Normalize
from tasks.places import find_files
from tasks.runner import Runner
from tasks.sources import fetched_folder
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tokenize import Tokenize
from tasks.unpack import Extent, check, opened

Format = Literal[
    "auto", "word2vec", "word2vec-bin", "glove", "fasttext", "native", "parquet", "arpa"
]

START = 1 << 16
CUT = TextPipeline(Normalize(), Tokenize("whitespace"))
"""What is taken for granted of text that imported models are asked about."""


@dataclass(frozen=True)
class Import:
    """How a file is read.

    Attributes:
        format: of the file; ``auto`` finds out.
        errors: what becomes of records that cannot be used (``tasks.importing.gathering``).
    """

    format: Literal["auto"] | FileFormat = "auto"
    errors: Errors = "strict"


@dataclass(frozen=True)
class Copy:
    """A folder is taken as it is."""


def import_model(runner: Runner, name: str, format: Format, errors: Errors) -> Artifact:
    """A file as a model, or a folder that was pulled.

    Args:
        runner: runs the step.
        name: a path, a URL, or ``-`` for standard input.
        format: of the file.
        errors: the policy.

    Raises:
        InputError: there is no such file, or it cannot be used.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        if format not in ("auto", "native"):
            raise InputError(
                f"this is a folder, no {format} file", where=name, remedy="name a file in it"
            )
        if not is_model_folder(folder):
            raise InputError(
                "this folder is no model",
                where=name,
                remedy="name a file of vectors, or a folder that `lexloom pull --format native` "
                "made",
            )
        check_folder(folder)
        files = import_files(runner.store, [folder / file for file in FILES], "folder")
        return runner.run(COPY, {"folder": files}, Copy(), label=folder.name)
    path, *others = find_files((name,), fetched_folder(runner.store))
    if others:
        raise InputError(
            f"this names {1 + len(others)} files", where=name, remedy="import them one by one"
        )
    if format == "native":
        raise InputError(
            "a model in the native format is a folder, and this is none",
            where=name,
            remedy="leave --format out, or name a folder that `lexloom pull --format native` made",
        )
    file = import_files(runner.store, [path], "vectors")
    return runner.run(IMPORT, {"vectors": file}, Import(format, errors), label=path.name)


def read_vectors(context: Context, readers: Mapping[str, Reader], params: Import) -> Stats:
    """Read a file of vectors; the stats say what was left out."""
    reader = readers["vectors"]
    (part,) = reader.parts
    extent = Extent(reader.path(part.name), part.sha256, part.begin, part.size)
    gathering = Gathering(origin_of(reader, part.name).name, params.errors)
    format = params.format if params.format != "auto" else _detected(extent, gathering.name)
    model = _read(extent, format, gathering, context.progress)
    write_model(context.out, model, CUT)
    found = {reason: n for reason, n in sorted(gathering.stats.items()) if n}
    return {"words": len(model.vocabulary), "format": format, **found}


def _detected(extent: Extent, name: str) -> FileFormat:
    with opened(Extent(extent.path, "", None, extent.size)) as members:
        return detect(next(members).file.read(START), name)


def _read(extent: Extent, format: FileFormat, gathering: Gathering, progress: Progress) -> Model:
    if format == "parquet":
        check(extent)
        read_parquet(extent.path, gathering, progress)
        return _imported(gathering, format, extent.sha256)
    with opened(extent, progress) as members:
        member = next(members)
        if format == "arpa":
            model: Model = _read_ngrams(member.file, gathering, extent.sha256)
        elif format == "fasttext":
            model = read_fasttext(member.file, gathering)
        elif format == "word2vec-bin":
            read_binary(member.file, gathering)
        else:
            read_text(member.file, gathering, header=format != "glove")
        if more := next(members, None):
            raise InputError(
                f"the zip holds several files, such as {member.name} and {more.name}",
                where=gathering.name,
                remedy="unpack it, and import one of them",
            )
    return model if format in ("arpa", "fasttext") else _imported(gathering, format, extent.sha256)


def _read_ngrams(file: BinaryIO, gathering: Gathering, sha256: str) -> ImportedNgram:
    if gathering.errors != "strict":
        raise InputError(
            "without some of its n-grams a model would have other probabilities",
            where=gathering.name,
            remedy="import ARPA files with --errors strict",
        )
    vocabulary, table, stats = read_arpa(file, gathering.name)
    gathering.stats.update(stats)
    config = NgramConfig(format="arpa", sha256=sha256, order=table.order)
    return ImportedNgram(config, vocabulary, table)


def _imported(gathering: Gathering, format: str, sha256: str) -> Imported:
    """The model of what was gathered, words with counts in the order of these."""
    vectors, vocabulary = gathering.vectors(), gathering.vocabulary()
    if (np.diff(vocabulary.counts) > 0).any():
        order = np.argsort(-vocabulary.counts, kind="stable")
        words = tuple(vocabulary.words[i] for i in order)
        vectors, vocabulary = vectors[order], Vocabulary((), words, vocabulary.counts[order])
        gathering.stats["reordered"] = 1
    config = Config(format=format, sha256=sha256, dim=vectors.shape[1])
    return Imported(config, vocabulary, vectors)


def copy_model(context: Context, readers: Mapping[str, Reader], params: Copy) -> Stats:
    """Take over the files of a model; they are what they were, and so is its content."""
    reader = readers["folder"]
    parts = (replace(part, partition=0, name=FILES[part.partition]) for part in reader.parts)
    named = Reader(reader.store, reader.artifact, tuple(parts))
    words = _check_tables(read_model(named), Path(reader.path("file", 0)).parent)
    for name in FILES:
        with context.out.path(name) as target:
            shutil.copyfile(named.path(name), target)
    return {"words": words, "format": "native"}


def _check_tables(model: Model, folder: Path) -> int:
    """How many words a model has, once its tables are known to go with them."""
    words = model.vocabulary.words
    try:
        if isinstance(model, EmbedsWords):
            model.word_vectors(words[-1:])
    except (IndexError, ValueError) as error:
        problem = f"its tables do not go with its {len(words):,} words ({error})"
        raise InputError(problem, where=str(folder), remedy="pull the model again") from None
    return len(words)


IMPORT: Step[Import] = Step("import", 1, "model", read_vectors)
COPY: Step[Copy] = Step("import-native", 1, "model", copy_model)
