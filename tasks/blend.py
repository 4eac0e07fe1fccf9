"""The step that blends the word vectors of several models.

Its statistics are how many words have a vector, the width, and of each part how many of these words
it lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.blend import (
    LEAST,
    MOST,
    Blend,
    How,
    Missing,
    Projection,
    Unblendable,
    are_weights,
    blend,
)
from models.capabilities import EmbedsWords
from models.family import Model
from tasks.artifacts import Artifact, Stats
from tasks.errors import ConfigError, InputError
from tasks.files import import_files
from tasks.models import read_model, read_text_pipeline, write_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader

Learnt = Literal["none", "least-squares", "orthogonal"]


@dataclass(frozen=True)
class Blending:
    """What decides a blend besides its parts and matrices that are given.

    Attributes:
        names: what each part is called.
        how: see ``models.blend``, also the others.
        weights: of each part, above 0; None: 1.
        unit: vectors of parts are taken at length 1.
        missing: what becomes of words that a part does not know.
        projection: of all parts but the first.
    """

    names: tuple[str, ...]
    how: How = "concatenation"
    weights: tuple[float, ...] | None = None
    unit: bool = True
    missing: Missing = "zeros"
    projection: Projection = "none"


def blend_parts(context: Context, readers: Mapping[str, Reader], params: Blending) -> Stats:
    """Blend the inputs ``part 0``, ``part 1``, ... by the names of ``params``.

    Text is read as it was for the first of them.
    """
    sources = [readers[f"part {k}"] for k in range(len(params.names))]
    maps = [_matrix(reader) for role, reader in sorted(readers.items()) if role.startswith("map ")]
    parts = [read_model(source) for source in sources]
    contents = [source.artifact.content for source in sources]
    for k, (name, content) in enumerate(zip(params.names, contents, strict=True)):
        if content in contents[:k]:
            same = params.names[contents.index(content)]
            raise ConfigError(
                f"this is the same model as {same}", where=name, remedy="name it once"
            )
    try:
        made = blend(
            parts,
            params.names,
            contents,
            how=params.how,
            weights=params.weights,
            unit=params.unit,
            missing=params.missing,
            projection=params.projection,
            maps=maps,
        )
    except Unblendable as error:
        where = ", ".join(params.names)
        raise InputError(str(error), where=where, remedy=error.remedy) from None
    write_model(context.out, made, read_text_pipeline(sources[0]))
    return _stats(made, parts, params.names)


def _stats(made: Blend, parts: Sequence[Model], names: Sequence[str]) -> Stats:
    words = made.vocabulary.words
    stats: dict[str, float | int | str] = {
        "words": len(words),
        "dim": int(made.word_vectors(words[:1]).shape[1]),
    }
    for part, name in zip(parts, names, strict=True):
        assert isinstance(part, EmbedsWords)
        stats[f"words.{name}"] = sum(word in part.vocabulary for word in words)
    return stats


def _matrix(reader: Reader) -> NDArray[np.float32]:
    """A matrix in a file of numpy.

    Raises:
        InputError: the file holds none.
    """
    (part,) = reader.parts
    path = reader.path(part.name, part.partition)
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise _no_matrix(str(error), path) from None
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind != "f":
        raise _no_matrix("it holds no matrix of floating-point numbers", path)
    if not np.isfinite(found).all():
        raise _no_matrix("some of its numbers are not finite", path)
    return found.astype(np.float32)


def _no_matrix(problem: str, path: Path) -> InputError:
    return InputError(
        f"this is no projection: {problem}",
        where=str(path),
        remedy="write it with numpy.save, a row for each dimension of the part",
    )


BLEND: Step[Blending] = Step("blend", 1, "model", blend_parts)


def blend_models(
    runner: Runner,
    parts: Mapping[str, Artifact],
    *,
    how: How = "concatenation",
    weights: Sequence[float] | None = None,
    unit: bool = True,
    missing: Missing = "zeros",
    projection: Learnt = "none",
    maps: Sequence[Path] = (),
    label: str = "",
) -> Artifact:
    """A blend of models by name, an artifact of the kind "model".

    Args:
        runner: runs the step.
        parts: the models by what they are called.
        how: see ``models.blend``, also the others.
        weights: of each; None: 1.
        unit: vectors of parts are taken at length 1.
        missing: what becomes of words that a part does not know.
        projection: learnt, of all parts but the first.
        maps: files with a given projection of each part but the first, instead.
        label: of the step in lists of steps.

    Raises:
        ConfigError: too few models, one twice, or weights that are none.
        InputError: models that cannot be blended, or a file that holds no matrix.
    """
    if len(parts) < 2:
        raise ConfigError(
            f"{len(parts)} model makes no blend", where=", ".join(parts), remedy="name another"
        )
    if weights is not None and (len(weights) != len(parts) or not are_weights(weights)):
        raise ConfigError(
            f"{len(parts)} models need as many weights above 0, unlike "
            f"{', '.join(map(str, weights))}",
            where="weights",
            remedy=f"give one for each model, from {LEAST:g} to {MOST:g}",
        )
    if maps and (projection != "none" or len(maps) != len(parts) - 1):
        raise ConfigError(
            "a projection is learnt, or given by a file for each model but the first",
            where="projection",
            remedy=f"name {len(parts) - 1} files, or one way to learn it",
        )
    inputs = {f"part {k}": model for k, model in enumerate(parts.values())}
    for k, path in enumerate(maps):
        if not path.is_file():
            raise InputError(
                "there is no such file", where=str(path), remedy="name a file of numpy"
            )
        inputs[f"map {k:03}"] = import_files(runner.store, [path], "projection")
    params = Blending(
        tuple(parts),
        how,
        None if weights is None else tuple(weights),
        unit,
        missing,
        "given" if maps else projection,
    )
    return runner.run(BLEND, inputs, params, label=label)
