"""Word vectors made of those of several models: side by side, or added up.

A model of co-occurrences knows what a word means if it has seen it often; one of spelling knows any
word a little, by its form. Both together (as Lazaridou et al. 2013 and Luong, Socher and Manning
2013 join morphology and meaning; on simple ways to join, Yin and Schuetze 2016, "Learning word
meta-embeddings")::

    x_k(w) = weight_k * (v_k(w) / |v_k(w)|) P_k
    concatenation: [x_1(w); ...; x_K(w)]        sum: x_1(w) + ... + x_K(w)

The division is left out unless ``unit``. P_k is a projection into the space of the first part, if
there is to be one. It is given, or learnt from the words that both know: by least squares (Mikolov,
Le and Sutskever 2013), so that a model of spelling foretells the vector of a word that the first
one has never seen (Pinter, Guthrie and Eisenstein 2017), or as the nearest orthogonal map
(Schoenemann 1966; Xing et al. 2015).

What a part does not know counts as zeros (``missing: zeros``): half of a concatenation is empty, a
sum is that of the others alone. Or the blend does not know it either (``missing: nan``). A word
that no part knows has no vector.

Shapes: ``K`` parts, ``V`` words that have a vector, ``N`` words asked for, ``D_k`` width of a part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from models.awd_lstm import Config as AwdLstmConfig
from models.birnn import Config as BirnnConfig
from models.blend_lm import Config as BlendLmConfig
from models.capabilities import EmbedsWords, TableName
from models.char_birnn import Config as CharBirnnConfig
from models.char_cnn import Config as CharCnnConfig
from models.elmo import Config as ElmoConfig
from models.family import FloatArray, Inputs, State, Style, Want
from models.family import Model as AnyModel
from models.fasttext import Config as FasttextConfig
from models.glove import Config as GloveConfig
from models.imported import Config as ImportedConfig
from models.nplm import Config as NplmConfig
from models.parts import state_of_part
from models.ppmi import Config as PpmiConfig
from models.quantized import Config as QuantizedConfig
from models.rnnlm import Config as RnnlmConfig
from models.spelling_lm import Config as SpellingLmConfig
from models.vocabulary import Vocabulary
from models.word2vec import Config as Word2vecConfig

Part = (
    Word2vecConfig
    | FasttextConfig
    | GloveConfig
    | PpmiConfig
    | NplmConfig
    | RnnlmConfig
    | CharBirnnConfig
    | CharCnnConfig
    | AwdLstmConfig
    | BirnnConfig
    | ElmoConfig
    | BlendLmConfig
    | SpellingLmConfig
    | ImportedConfig
    | QuantizedConfig
)
"""The settings of whatever can be a part."""

How = Literal["concatenation", "sum"]
Missing = Literal["zeros", "nan"]
Projection = Literal["none", "least-squares", "orthogonal", "given"]
Matrix = NDArray[np.float64]
LEAST, MOST = 1e-6, 1e6
"""Of weights: beyond, a part would not be seen in 32 bits beside another, or nothing else."""


class Unblendable(ValueError):
    """Models that do not go together, with what to do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which models are blended, and how."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    style: ClassVar[Style] = "fits"
    title: ClassVar[str] = "Blended vectors"
    paper: ClassVar[str] = "Yin & Schütze 2016, arXiv:1508.04257"

    family: Literal["blend"] = "blend"
    parts: Annotated[
        tuple[Annotated[Part, Field(discriminator="family")], ...],
        Field(min_length=2, description="Settings of each part"),
    ]
    how: Annotated[How, Field(description="Side by side, or added up")] = "concatenation"
    weights: Annotated[tuple[float, ...], Field(description="Of each part, 1e-6 to 1e6")]
    unit: Annotated[bool, Field(description="Vectors of parts are taken at length 1")] = True
    missing: Annotated[Missing, Field(description="What a part does not know: zeros, or all lost")]
    projection: Annotated[Projection, Field(description="Into the first part's space")] = "none"
    names: Annotated[tuple[str, ...], Field(description="What each part is called")]
    contents: Annotated[tuple[str, ...], Field(description="Content hash of each part")]

    def __post_init__(self) -> None:
        if not len(self.parts) == len(self.weights) == len(self.names) == len(self.contents):
            raise ValueError("parts, weights, names and contents are of different numbers")
        if not are_weights(self.weights):
            raise ValueError(
                f"weights lie from {LEAST:g} to {MOST:g}, unlike "
                f"{', '.join(map(str, self.weights))}"
            )

    def wants(self) -> Mapping[str, Want]:
        """Nothing of a corpus: it is made of other models."""
        return {}

    def build(self, inputs: Inputs, *, seed: int) -> Blend:
        """There is no untrained one.

        Raises:
            TypeError: always.
        """
        raise TypeError("a blend is made of other models, by `lexloom blend`")

    def restore(self, vocabulary: Vocabulary, state: State) -> Blend:
        """The blend whose ``state`` this is."""
        parts = list[AnyModel]()
        for k, config in enumerate(self.parts):
            own = state_of_part(state, k)
            words = json.loads(np.asarray(state[f"vocabulary.{k}"]).tobytes())
            parts.append(config.restore(Vocabulary.from_json(words), own))
        maps = [state.get(f"projection.{k}") for k in range(len(parts))]
        return Blend(self, vocabulary, parts, maps)


class Blend:
    """Several models as one.

    Attributes:
        parts: they keep their own vocabularies.
        maps: of each part (D_k, D_1) float32, or None for a part whose vectors stay as they are.
    """

    def __init__(
        self,
        config: Config,
        vocabulary: Vocabulary,
        parts: Sequence[AnyModel],
        maps: Sequence[NDArray[np.float32] | None],
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.parts, self.maps = tuple(parts), tuple(maps)

    def state(self) -> State:
        """The arrays of all parts under their numbers, their vocabularies, and projections."""
        found = dict[str, NDArray[Any]]()
        for k, (part, projection) in enumerate(zip(self.parts, self.maps, strict=True)):
            found |= {f"{k}.{name}": array for name, array in part.state().items()}
            text = json.dumps(part.vocabulary.to_json()).encode()
            found[f"vocabulary.{k}"] = np.frombuffer(text, np.uint8)
            if projection is not None:
                found[f"projection.{k}"] = projection
        return found

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) float32; NaN for a word that no part knows, or not all (see ``missing``)."""
        tables = [_vectors(part, words, self.config.unit) for part in self.parts]
        known = np.stack([_finite(table) for table in tables])
        for k, (table, weight) in enumerate(zip(tables, self.config.weights, strict=True)):
            projection = self.maps[k]
            filled = np.where(known[k][:, None], table, 0.0) * weight
            tables[k] = filled if projection is None else filled @ projection.astype(np.float64)
        together = known.any(axis=0) if self.config.missing == "zeros" else known.all(axis=0)
        mixed = np.hstack(tables) if self.config.how == "concatenation" else np.sum(tables, axis=0)
        mixed[~together] = np.nan
        return np.asarray(mixed, np.float32)

    @property
    def own_table(self) -> TableName:
        """The vectors of listed words are made once, then looked up."""
        return "input"

    @cached_property
    def _listed(self) -> NDArray[np.float32]:
        return np.asarray(self.word_vectors(self.vocabulary.words), np.float32)

    def tables(self) -> Mapping[Literal["input", "output"], NDArray[np.float32]]:
        """(V, D) the vectors of the vocabulary."""
        return {"input": self._listed}


def blend(
    parts: Sequence[AnyModel],
    names: Sequence[str],
    contents: Sequence[str],
    *,
    how: How = "concatenation",
    weights: Sequence[float] | None = None,
    unit: bool = True,
    missing: Missing = "zeros",
    projection: Projection = "none",
    maps: Sequence[NDArray[np.float32]] = (),
) -> Blend:
    """A blend of models.

    Args:
        parts: the models; the first gives the space that others are projected into, and the counts
            of a word are the highest that a part has.
        names: what each is called.
        contents: the content hash of each.
        how: side by side, or added up.
        weights: of each part, 1 if None.
        unit: vectors of parts are taken at length 1.
        missing: see the module.
        projection: of all parts but the first; learnt from the words that both list.
        maps: (D_k, D_1) the given ones, of all parts but the first.

    Raises:
        Unblendable: a part has no word vectors or is a blend itself, widths do not go together, no
            word is left, or too few to learn a projection from.
    """
    for part, name in zip(parts, names, strict=True):
        if not isinstance(part, EmbedsWords):
            raise Unblendable(f"{name} has no word vectors", "blend models that have some")
        if not isinstance(part.config, Part):
            title = part.config.title
            raise Unblendable(
                f"{name} is a {title}, which is no part of a blend", "blend models of other kinds"
            )
    if len(maps) != (len(parts) - 1 if projection == "given" else 0):
        raise Unblendable(
            f"{len(maps)} projections are given for {len(parts)} models",
            "give a matrix for each of them but the first",
        )
    widths = [_width(part) for part in parts]
    learnt: list[NDArray[np.float32] | None] = [None] * len(parts)
    if projection != "none":
        learnt[1:] = maps or [
            learn_map(*_shared(parts[0], part, unit, names[0], name), projection)
            for part, name in zip(parts[1:], names[1:], strict=True)
        ]
    _check_widths(names, widths, learnt, how)
    config = Config(
        parts=tuple(part.config for part in parts),  # type: ignore[misc]
        how=how,
        weights=tuple(weights or [1.0] * len(parts)),
        unit=unit,
        missing=missing,
        projection=projection,
        names=tuple(names),
        contents=tuple(contents),
    )
    made = Blend(config, _all_words(parts), parts, learnt)
    has = _finite(made.word_vectors(made.vocabulary.words))
    words = tuple(word for word, there in zip(made.vocabulary.words, has, strict=True) if there)
    if not words:
        raise Unblendable(
            "no word is known to all of the models", "keep what some of them know: --missing zeros"
        )
    return Blend(config, Vocabulary((), words, made.vocabulary.counts[has]), parts, learnt)


def are_weights(weights: Sequence[float]) -> bool:
    """Whether all of them can weigh a part."""
    return all(LEAST <= weight <= MOST for weight in weights)


def learn_map(vectors: Matrix, targets: Matrix, projection: Projection) -> NDArray[np.float32]:
    """The (D, D') map that brings (N, D) vectors nearest to (N, D') targets, by squared distance.

    The nearest orthogonal one is that of Schoenemann (1966), which has to keep all lengths.

    Raises:
        Unblendable: fewer words than dimensions to map, or an orthogonal map into fewer dimensions.
    """
    wide, narrow = vectors.shape[1], targets.shape[1]
    if len(vectors) < wide:
        raise Unblendable(
            f"a projection of {wide} dimensions cannot be learnt from the {len(vectors)} words "
            "that both models know",
            "blend without a projection, or models that share more words",
        )
    if projection == "orthogonal" and wide > narrow:
        raise Unblendable(
            f"no orthogonal map takes {wide} dimensions into {narrow}",
            "name the wider model first, or use --project least-squares",
        )
    if projection == "least-squares":
        found = np.linalg.lstsq(vectors, targets, rcond=None)[0]
    else:
        left, _, right = np.linalg.svd(vectors.T @ targets, full_matrices=False)
        found = left @ right
    return np.asarray(found, np.float32)


def _finite(table: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """(N,) which rows are vectors."""
    return np.asarray(np.isfinite(table).all(axis=1))


def _vectors(part: AnyModel, words: Sequence[str], unit: bool) -> Matrix:
    """(N, D_k) float64, NaN where a part does not know a word."""
    assert isinstance(part, EmbedsWords)
    found = np.asarray(part.word_vectors(words), np.float64)
    if not unit:
        return found
    lengths = np.sqrt((found * found).sum(axis=1, keepdims=True))
    return found / np.where(lengths == 0, 1.0, lengths)


def _width(part: AnyModel) -> int:
    assert isinstance(part, EmbedsWords)
    return int(part.word_vectors(part.vocabulary.words[:1]).shape[1])


def _shared(
    first: AnyModel, other: AnyModel, unit: bool, called: str, name: str
) -> tuple[Matrix, Matrix]:
    """Vectors of the words that both list: of the other, and of the first."""
    words = [word for word in first.vocabulary.words if word in other.vocabulary]
    found = _vectors(other, words, unit), _vectors(first, words, unit)
    finite = _finite(found[0]) & _finite(found[1])
    if not finite.any():
        raise Unblendable(
            f"{name} and {called} list no word in common", "blend them without a projection"
        )
    return found[0][finite], found[1][finite]


def _check_widths(
    names: Sequence[str],
    widths: Sequence[int],
    maps: Sequence[NDArray[np.float32] | None],
    how: How,
) -> None:
    """Refuse what cannot be multiplied or added."""
    for name, width, projection in zip(names, widths, maps, strict=True):
        if projection is not None and projection.shape != (width, widths[0]):
            raise Unblendable(
                f"the projection of {name} is {' x '.join(map(str, projection.shape))}, not "
                f"{width} x {widths[0]}",
                "give a matrix of so many rows and columns",
            )
        if how == "sum" and projection is None and width != widths[0]:
            raise Unblendable(
                f"{names[0]} has {widths[0]} dimensions and {name} has {width}: a sum needs as "
                "many, or a projection",
                "--how concatenation takes any widths, and --project least-squares brings them to "
                "that of the first",
            )


def _all_words(parts: Sequence[AnyModel]) -> Vocabulary:
    """The words of all parts, the most frequent first, else in the order of the parts."""
    counts = dict[str, int]()
    for part in parts:
        known = part.vocabulary
        for word, count in zip(known.words, known.counts.tolist(), strict=True):
            counts[word] = max(count, counts.get(word, 0))
    words = sorted(counts, key=lambda word: -counts[word])
    return Vocabulary((), tuple(words), np.array([counts[word] for word in words], np.int64))
