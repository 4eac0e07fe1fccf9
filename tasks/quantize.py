"""The step that quantizes a model's vectors, and says what that cost.

Its statistics are of the copy beside the original (see ``tasks.evaluation.fidelity``):
``relative_error``, ``mean_cosine``, ``neighbours_kept`` with one more for every band of ranks, and
``bytes`` against ``bytes_before``, the same vectors as float32.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.capabilities import EmbedsWords
from models.family import Model
from models.fasttext import Model as FastText
from models.quantized import Config, Table
from models.quantized import Model as QuantizedModel
from models.vocabulary import Vocabulary
from tasks.artifacts import Stats
from tasks.counted import counted
from tasks.errors import ConfigError, InputError
from tasks.evaluation import fidelity
from tasks.models import read_model, read_text_pipeline, write_model
from tasks.step import Context, Step
from tasks.store import Reader

CENTROIDS = 256
COLUMNS = 2
"""Columns that share a code, unless said otherwise: a byte for what took eight."""


@dataclass(frozen=True)
class Quantize:
    """What decides a quantized model besides the model it is made of.

    Attributes:
        family: the settings, as of a model that is trained; see ``configure``.
        seed: of the rows that centroids begin as.
    """

    family: Config
    seed: int = 1


def configure(
    model: Model,
    content: str,
    *,
    where: str,
    sub_vectors: int | None = None,
    norms: bool = True,
    rotation: bool = True,
) -> Config:
    """The settings under which a model can be quantized.

    A model with fewer words than 256 gets as many centroids as words. Of a fastText model the rows
    of n-grams are quantized too.

    Args:
        model: the model.
        content: its content hash.
        where: what people call it, for errors.
        sub_vectors: codes of a vector; None for one every two columns.
        norms: give lengths a code of their own.
        rotation: turn the vectors first.

    Raises:
        InputError: the model has no word vectors, no words, or is quantized already.
        ConfigError: more sub-vectors than columns.
    """
    if not isinstance(model, EmbedsWords):
        raise InputError(
            "this model has no word vectors to quantize",
            where=where,
            remedy="name a model of another family, such as word2vec",
        )
    if isinstance(model, QuantizedModel):
        raise InputError(
            "this model is quantized already",
            where=where,
            remedy=f"quantize what it was made of: the model with content {model.config.parent}",
        )
    words = model.vocabulary.words
    subwords = model.config if isinstance(model, FastText) else None
    rows = len(words) + (subwords.n_buckets if subwords else 0)
    if len(words) < 2:
        there = counted(len(words), "words")
        raise InputError(f"this model has {there}, too few to quantize", where=where)
    dim = model.word_vectors(words[:1]).shape[1]
    chosen = max(1, dim // COLUMNS) if sub_vectors is None else sub_vectors
    if not 1 <= chosen <= dim:
        raise ConfigError(
            f"vectors of {dim} columns cannot be cut into {chosen} sub-vectors",
            where="--sub-vectors",
            remedy=f"give a number from 1 to {dim}",
        )
    return Config(
        dim=dim,
        sub_vectors=chosen,
        centroids=min(CENTROIDS, rows),
        norms=norms,
        rotation=rotation,
        min_n=subwords.min_n if subwords else 0,
        max_n=subwords.max_n if subwords else 0,
        buckets=subwords.n_buckets if subwords else 0,
        parent=content,
        parent_family=str(model.config.family),
    )


def quantize(context: Context, readers: Mapping[str, Reader], params: Quantize) -> Stats:
    """Quantize the input ``model``, and measure what is lost."""
    from models.quantization import quantize as encode

    config, began = params.family, time.monotonic()
    parent = read_model(readers["model"])
    words, counts = parent.vocabulary.words, parent.vocabulary.counts
    table = word_table(parent)
    rows = parent.input if isinstance(parent, FastText) else table
    made = encode(
        np.ascontiguousarray(rows),
        config,
        seed=params.seed,
        threads=context.resources.threads,
        progress=lambda done, total: context.progress(done, total, "sub-vectors"),
    )
    model = QuantizedModel(config, Vocabulary((), words, counts), made)
    write_model(context.out, model, read_text_pipeline(readers["model"]))
    seconds = time.monotonic() - began
    found = fidelity.measure(table, word_table(model), context.progress)
    return {
        "quantization_seconds": round(seconds, 3),
        "words": len(words),
        "bytes": made.bytes,
        "rows": len(rows),
        "bytes_before": rows.nbytes,
        "relative_error": found.relative_error,
        "mean_cosine": found.mean_cosine,
        "neighbours_kept": found.neighbours_kept,
        **{f"neighbours_kept.{band}": share for band, share in found.bands.items()},
        "neighbours_asked": found.asked,
    }


QUANTIZE: Step[Quantize] = Step("quantize", 1, "model", quantize, threaded=True)


def word_table(model: Model) -> Table:
    """(V, D) float32, the vectors of all words.

    Raises:
        InputError: a vector is not finite.
    """
    if not isinstance(model, EmbedsWords):
        raise TypeError(f"{type(model).__name__} has no word vectors")
    words = model.vocabulary.words
    table = np.ascontiguousarray(model.word_vectors(words), np.float32)
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if len(bad):
        raise InputError(
            f"the vectors of {counted(len(bad), 'words')} are not finite, the first is that of "
            f"{words[bad[0]]!r}",
            where=model.config.title,
            remedy="train the model again, or import it without these words",
        )
    return table
