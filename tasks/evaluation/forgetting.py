"""What changed between two models: what a training that went on has forgotten, word by word.

The two are looked at on the words that both have, and on nothing else: the same questions of the
same sets, answered among the same words; neighbours among the same words. So what is measured is
how words moved, never that words came.

* **Overlap**: the share of a word's ``NEIGHBOURS`` nearest words in the first model that are among
  its nearest in the second. It needs no alignment (as in Hamilton, Leskovec, Jurafsky 2016,
  "Cultural shift or linguistic drift?", arXiv:1606.02821, neighbours are compared directly).
* **Cosine**: of a word's vector with its vector in the second model, after the first table was
  turned onto the second by the orthogonal matrix that fits best, ``R = U V'`` with the singular
  vectors of ``A' B`` over the unit rows of all common words, not centred (Schönemann 1966; Hamilton
  et al. 2016, "Diachronic word embeddings", arXiv:1605.09096). Two trainings from different seeds
  differ by such a turn, which means nothing. Of tables of different widths the narrower one is
  filled up with zeros. ``unaligned`` is the cosine without it, where widths agree.

Words are drawn evenly by rank from bands of frequency in the first model, without chance: rare
words move most, and a mean over all words would speak of these alone.

Parts of an artifact of kind "forgetting"::

    forgetting.json    a ``Change``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from models import vectors
from models.capabilities import EmbedsWords
from models.family import Family, FloatArray, Model, Progress, State
from models.vocabulary import Vocabulary
from tasks.artifacts import Artifact, Stats
from tasks.counted import counted
from tasks.errors import InputError
from tasks.evaluation import EvaluationConfig, analogy, similarity
from tasks.evaluation.lexicon import Case, Words
from tasks.evaluation.names import Kind, files_of, find_set, import_sets, read_files
from tasks.evaluation.score import show
from tasks.evaluation.sets import AnalogySet, PairSet, read_analogies, read_pairs
from tasks.models import read_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader

FORGETTING = "forgetting.json"
NEIGHBOURS = 10
BANDS = (100, 1_000, 10_000, 100_000)
"""The last ranks of the bands; one more band holds all rarer words."""
PER_BAND = 200
"""Words that are drawn from a band."""
SHOWN = 12
"""Words that changed most which are shown."""
DIGITS = 6
"""Of means: what follows depends on how a machine multiplies."""
BLOCK_BYTES = 32 * 2**20
"""Cosines that are held at a time, of some words with all others."""


@dataclass(frozen=True)
class Band:
    """Words of like frequency.

    Attributes:
        first: the rank of the most frequent one, from 1.
        last: that of the rarest.
        drawn: how many were looked at.
        overlap: their mean.
        cosine: their mean.
    """

    first: int
    last: int
    drawn: int
    overlap: float
    cosine: float


@dataclass(frozen=True)
class Moved:
    """A word with its nearest neighbours in the two models.

    Attributes:
        word: the word.
        count: in the first model.
        overlap: see the module.
        cosine: see the module.
        before: in the first model, nearest first.
        after: in the second.
    """

    word: str
    count: int
    overlap: float
    cosine: float
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """A score of both models on the words that they share.

    Attributes:
        name: of the score.
        before: of the first model; None where it is undefined.
        after: of the second.
        unit: of both.
        scored: pairs or questions that it rests on.
        total: in the set.
        items: what they are.
    """

    name: str
    before: float | None
    after: float | None
    unit: str
    scored: int
    total: int
    items: str

    @property
    def shown(self) -> str:
        """Both for people: "0.512 to 0.530"."""
        return f"{show(self.before, self.unit)} to {show(self.after, self.unit)}"

    @property
    def line(self) -> str:
        """With its name: "wordsim353 0.512 to 0.530"."""
        return f"{self.name.partition('.')[2]} {self.shown}"


@dataclass(frozen=True)
class Change:
    """From one model to another.

    Attributes:
        shared: words that both have.
        gone: words of the first that the second lacks.
        new: words of the second that the first lacks.
        absent: shared words that the new text does not have, where the second goes on from the
            first: their counts are the same. None for any other two models.
        overlap: mean of the bands; see the module.
        cosine: of all shared words; see the module.
        unaligned: the same without alignment; None where the widths differ.
        bands: by frequency.
        moved: the drawn words that changed most.
        scores: on the shared words.
    """

    shared: int
    gone: int
    new: int
    absent: int | None
    overlap: float
    cosine: float
    unaligned: float | None
    bands: tuple[Band, ...]
    moved: tuple[Moved, ...]
    scores: tuple[Kept, ...]

    @property
    def line(self) -> str:
        """All of it in one line for people."""
        parts = [f"{self.new:,} new words"]
        if self.absent is not None:
            parts.append(f"{self.absent / self.shared:.0%} of the old ones not in the new text")
        parts += [
            f"overlap@{NEIGHBOURS} {self.overlap:.2f}",
            f"cosine {self.cosine:.2f}",
            *(kept.line for kept in self.scores if not kept.name.endswith(".3cosmul")),
        ]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that ``from_json`` takes back."""
        return asdict(self)

    @staticmethod
    def from_json(value: Any) -> Change:
        """The change that ``to_json`` wrote."""
        return TypeAdapter(Change).validate_python(value)


# --- two models -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """A model as one that knows but the words of a vocabulary."""

    config: Family
    vocabulary: Vocabulary
    model: EmbedsWords

    def state(self) -> State:
        """Nothing: this is for asking only."""
        return {}

    def word_vectors(self, words: Sequence[str]) -> FloatArray:
        """(N, D) as of the whole model; NaN for a word that is left out."""
        found = np.array(self.model.word_vectors(words), np.float32)
        found[np.array([word not in self.vocabulary for word in words], np.bool_)] = np.nan
        return found

    @cached_property
    def units(self) -> vectors.Matrix:
        """(V, D) unit rows of all words."""
        return vectors.unit(self.word_vectors(self.vocabulary.words))


def compare(
    before: Model,
    after: Model,
    *,
    goes_on: bool,
    pairs: Mapping[str, PairSet] = {},
    questions: Mapping[str, AnalogySet] = {},
    restrict: int = analogy.RESTRICT,
    case: Case = "fold",
    progress: Progress = lambda done, total, unit: None,
) -> Change:
    """What changed from one model to another.

    Args:
        before: any model with word vectors.
        after: another.
        goes_on: whether the second was trained on from the first, so that its counts are sums.
        pairs: word-pair sets by the name of the score.
        questions: analogy sets by the name of the score.
        restrict: analogies look at so many of the most frequent common words.
        case: see ``Lexicon``.
        progress: told about words.

    Raises:
        InputError: a model has no word vectors, or they have too few words in common.
    """
    first, second = _shared(before, after)
    words = first.vocabulary.words
    bands = _drawn(len(words))
    chosen = np.concatenate([ranks for _, _, ranks in bands])
    near = (
        _nearest(first.units, chosen, lambda n: progress(n, 2 * len(chosen), "words")),
        _nearest(
            second.units, chosen, lambda n: progress(len(chosen) + n, 2 * len(chosen), "words")
        ),
    )
    overlaps = (near[0][:, :, None] == near[1][:, None, :]).sum(axis=(1, 2)) / NEIGHBOURS
    cosines, unaligned = _cosines(first.units, second.units)
    by_rank = dict(zip(chosen.tolist(), overlaps.tolist(), strict=True))
    measured = tuple(
        Band(low, high, len(ranks), _mean([by_rank[i] for i in ranks]), _mean(cosines[ranks]))
        for low, high, ranks in bands
    )
    return Change(
        shared=len(words),
        gone=len(before.vocabulary.words) - len(words),
        new=len(after.vocabulary.words) - len(words),
        absent=_absent(first.vocabulary, after.vocabulary) if goes_on else None,
        overlap=_mean([band.overlap for band in measured]),
        cosine=_mean(cosines),
        unaligned=unaligned,
        bands=measured,
        moved=_moved(first.vocabulary, chosen, overlaps, cosines[chosen], near),
        scores=tuple(_scores(first, second, pairs, questions, restrict, case)),
    )


def _shared(before: Model, after: Model) -> tuple[_Part, _Part]:
    """Both models on the words that both have a vector for, the most frequent before first."""
    for model in (before, after):
        if not isinstance(model, EmbedsWords):
            raise InputError(
                "this model has no word vectors",
                where=model.config.title,
                remedy="compare models with vectors",
            )
    assert isinstance(before, EmbedsWords)
    assert isinstance(after, EmbedsWords)
    theirs = before.vocabulary
    common = [i for i, word in enumerate(theirs.words) if word in after.vocabulary]
    words = [theirs.words[i] for i in common]
    known = np.isfinite(before.word_vectors(words)).all(axis=1)
    known &= np.isfinite(after.word_vectors(words)).all(axis=1)
    kept = np.array(common, np.int64)[known]
    if len(kept) < 2 + NEIGHBOURS:
        raise InputError(
            f"the two models have {counted(len(kept), 'words')} in common",
            where=f"{before.config.title}, {after.config.title}",
            remedy="compare models of texts of one language, cut into words alike",
        )
    kept = kept[np.argsort(-theirs.counts[kept], kind="stable")]
    shared = Vocabulary((), tuple(theirs.words[i] for i in kept), theirs.counts[kept])
    return _Part(before.config, shared, before), _Part(after.config, shared, after)


def _absent(shared: Vocabulary, after: Vocabulary) -> int:
    now = after.counts[after.ids(shared.words) - len(after.reserved)]
    return int((now == shared.counts).sum())


def _drawn(words: int) -> list[tuple[int, int, NDArray[np.int64]]]:
    """Of each band the first and the last rank, from 1, and ranks evenly spread in it, from 0."""
    edges = [0, *(band for band in BANDS if band < words), words]
    return [
        (a + 1, b, np.linspace(a, b - 1, min(PER_BAND, b - a)).astype(np.int64))
        for a, b in pairwise(edges)
    ]


def _nearest(
    units: vectors.Matrix, chosen: NDArray[np.int64], progress: Callable[[int], None]
) -> NDArray[np.int64]:
    """(N, NEIGHBOURS) the nearest words of some, nearest first, equal ones by their ids."""
    found, size = [], max(1, BLOCK_BYTES // (4 * len(units)))
    for start in range(0, len(chosen), size):
        block = chosen[start : start + size]
        cosines = units[block] @ units.T
        cosines[np.arange(len(block)), block] = -np.inf
        best = np.sort(np.argpartition(-cosines, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS], axis=1)
        order = np.argsort(-np.take_along_axis(cosines, best, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(best, order, axis=1))
        progress(start + len(block))
    return np.concatenate(found)


def _moved(
    vocabulary: Vocabulary,
    chosen: NDArray[np.int64],
    overlaps: NDArray[np.float64],
    cosines: NDArray[np.float64],
    near: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[Moved, ...]:
    """The words with the least overlap, of these the ones that moved farthest."""

    def named(ids: NDArray[np.int64]) -> tuple[str, ...]:
        return tuple(vocabulary.words[i] for i in ids)

    order = np.lexsort((chosen, cosines, overlaps))[:SHOWN]
    return tuple(
        Moved(
            vocabulary.words[chosen[i]],
            int(vocabulary.counts[chosen[i]]),
            float(overlaps[i]),
            round(float(cosines[i]), DIGITS),
            named(near[0][i]),
            named(near[1][i]),
        )
        for i in order
    )


def _mean(values: Sequence[float] | NDArray[np.float64]) -> float:
    return round(float(np.mean(values)), DIGITS)


def _cosines(
    first: vectors.Matrix, second: vectors.Matrix
) -> tuple[NDArray[np.float64], float | None]:
    """(V,) cosines after alignment, and their mean without it."""
    width = max(first.shape[1], second.shape[1])
    a, b = (np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in (first, second))
    product = a.T.astype(np.float64) @ b.astype(np.float64)
    left, _, right = np.linalg.svd(product)
    turned = a @ (left @ right).astype(np.float32)
    cosines = np.einsum("nd,nd->n", turned, b, dtype=np.float64)
    plain = (
        round(float(np.trace(product)) / len(a), DIGITS) if first.shape == second.shape else None
    )
    return cosines, plain


def _scores(
    first: _Part,
    second: _Part,
    pairs: Mapping[str, PairSet],
    questions: Mapping[str, AnalogySet],
    restrict: int,
    case: Case,
) -> list[Kept]:
    words = [Words(part, case) for part in (first, second)]
    found = [
        tuple(similarity.measure(name, of, held) for of in words) for name, held in pairs.items()
    ]
    for name, asked in questions.items():
        both = [analogy.measure(name, of, asked, restrict=restrict) for of in words]
        found += zip(*both, strict=True)
    return [Kept(a.name, a.value, b.value, a.unit, a.scored, a.total, a.items) for a, b in found]


# --- the step -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forgetting:
    """What shapes the figures besides the bytes of the sets; see ``WordSettings``."""

    restrict: int
    case: Case
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def forget(context: Context, readers: Mapping[str, Reader], params: Forgetting) -> Stats:
    """Compare a model with the base that it went on from.

    Inputs: ``base``; ``model``; ``similarity:NAME`` and ``analogy:NAME``.
    """

    def sets(kind: str) -> dict[str, Reader]:
        named = {role.partition(":")[2]: r for role, r in readers.items() if role.startswith(kind)}
        return dict(sorted(named.items()))

    change = compare(
        read_model(readers["base"]),
        read_model(readers["model"]),
        goes_on=True,
        pairs={
            f"similarity.{name}": read_pairs(reader.path("file"), name)
            for name, reader in sets("similarity:").items()
        },
        questions={
            f"analogy.{name}": read_analogies(
                read_files(reader, params.sections.get(f"analogy:{name}", ())), name
            )
            for name, reader in sets("analogy:").items()
        },
        restrict=params.restrict,
        case=params.case,
        progress=context.progress,
    )
    context.out.json(FORGETTING, change.to_json())
    return {"overlap": change.overlap, "cosine": change.cosine, "new": change.new}


FORGET: Step[Forgetting] = Step("forgetting", 1, "forgetting", forget)


def measure_forgetting(
    runner: Runner, base: Artifact, model: Artifact, config: EvaluationConfig, label: str
) -> Artifact:
    """What a model has forgotten of its base, as an artifact of the kind ``forgetting``.

    Args:
        runner: runs the step.
        base: an artifact of the kind "model".
        model: one that went on from it.
        config: its similarities and analogies are looked at.
        label: of the step in lists of steps.

    Raises:
        InputError: an evaluation set cannot be found.
    """
    inputs, sections = {"base": base, "model": model}, dict[str, tuple[str, ...]]()
    kinds: tuple[Kind, ...] = ("similarity", "analogy")
    for kind in kinds:
        sets, names = import_sets(runner.store, getattr(config, kind), kind, config.folder)
        inputs, sections = inputs | sets, sections | names
    params = Forgetting(config.restrict, config.case, sections)
    return runner.run(FORGET, inputs, params, label=label)


def read_change(reader: Reader) -> Change:
    """The change in a ``forgetting`` artifact."""
    return Change.from_json(reader.json(FORGETTING))


def compare_files(
    before: Model,
    after: Model,
    *,
    goes_on: bool,
    similarity_sets: Sequence[str] = (),
    analogy_sets: Sequence[str] = (),
    progress: Progress = lambda done, total, unit: None,
) -> Change:
    """``compare`` on sets by name or path: what ``lexloom models compare`` shows.

    Raises:
        InputError: a set cannot be used, or the models cannot be compared.
    """
    pairs = [find_set(reference, "similarity") for reference in similarity_sets]
    questions = [find_set(reference, "analogy") for reference in analogy_sets]
    return compare(
        before,
        after,
        goes_on=goes_on,
        pairs={f"similarity.{name}": read_pairs(path, name) for name, path in pairs},
        questions={
            f"analogy.{name}": read_analogies(files_of(path), name) for name, path in questions
        },
        progress=progress,
    )
