"""What a model is worth: every score with its coverage, its policy and its baseline.

Which evaluators a model gets follows from its capabilities: perplexity from ``Scores``,
pseudo-perplexity from ``FillsIn``,
similarity, analogies, categorization, outlier detection and nearest neighbours from
``EmbedsWords``. Evaluating never changes a model. docs/evaluation.md has the policies.

Parts of an artifact of kind "scores"::

    scores.json        a list of ``Score``
    neighbours.json    nearest neighbours of some words, with their cosines
    clusters.json      some classes of words, of a model that has them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from models.capabilities import ClassesWords, EmbedsWords, FillsIn, Scores
from models.family import Model, Progress, Split
from models.text import Tokens
from tasks.artifacts import Artifact, Stats
from tasks.corpus import Corpus
from tasks.errors import InputError
from tasks.evaluation import analogy, categorization, outliers, perplexity, pseudo, similarity
from tasks.evaluation.clusters import Clusters, chosen_clusters
from tasks.evaluation.lexicon import Case, Lexicon, Words
from tasks.evaluation.names import KINDS, NAMES, Kind, files_of, find_set, import_sets, read_files
from tasks.evaluation.neighbours import Neighbours, nearest, telling_words
from tasks.evaluation.score import Baseline, Score, incomparable
from tasks.evaluation.sets import read_analogies, read_pairs, read_text
from tasks.models import TextPipeline, read_capabilities, read_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader, Store
from tasks.tokenize import read_tokens

__all__ = [
    "EVALUATE", "Baseline", "EvaluationConfig", "Neighbours", "Score", "check_sets",
    "evaluate_files", "evaluate_model", "evaluate_text", "evaluate_words", "incomparable",
    "nearest", "read_clusters", "read_neighbours", "read_scores", "score_set",
]  # fmt: skip


SCORES, NEIGHBOURS, CLUSTERS = "scores.json", "neighbours.json", "clusters.json"


@dataclass(frozen=True)
class EvaluationConfig:
    """What to evaluate on; every model is given what its capabilities answer."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    splits: Annotated[
        tuple[Literal["valid", "test"], ...], Field(description="Splits whose perplexity counts")
    ] = ("test",)
    similarity: Annotated[
        tuple[str, ...],
        Field(description=f"Word-pair sets: {', '.join(NAMES['similarity'])}, or paths of files"),
    ] = ("wordsim353", "simlex999")
    analogy: Annotated[
        tuple[str, ...],
        Field(description=f"Analogy sets: {', '.join(NAMES['analogy'])}, or paths"),
    ] = ("google",)
    categorization: Annotated[
        tuple[str, ...],
        Field(description=f"Sets of classes: {', '.join(NAMES['categorization'])}, or paths"),
    ] = ()
    outliers: Annotated[
        tuple[str, ...],
        Field(description=f"Outlier detection: {', '.join(NAMES['outliers'])}, or paths"),
    ] = ()
    folder: Annotated[
        str, Field(description="Where named sets lie; WordSim, SimLex and google are at hand")
    ] = ""
    restrict: Annotated[
        int, Field(ge=1, description="Analogies look at so many of the most frequent words")
    ] = 300_000
    case: Annotated[
        Case,
        Field(description="fold: the most frequent form stands for all; exact: case matters"),
    ] = "fold"
    neighbours: Annotated[
        tuple[str, ...], Field(description="Words whose neighbours are shown; empty: frequent ones")
    ] = ()


@dataclass(frozen=True)
class WordSettings:
    """What shapes the scores of word vectors besides the bytes of the sets.

    Attributes:
        restrict: analogies and neighbours look at so many words.
        case: see ``Lexicon``.
        neighbours: words to look at.
        sections: the names of the files of sets that are folders, by role.
    """

    restrict: int
    case: Case
    neighbours: tuple[str, ...]
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluate:
    """Parameters of the step; ``words`` is None for a model without word vectors."""

    words: WordSettings | None


def evaluate(context: Context, readers: Mapping[str, Reader], params: Evaluate) -> Stats:
    """Evaluate a model on whatever inputs there are.

    Inputs: ``model``; ``tokens:SPLIT`` to score, ``documents:SPLIT`` by which figures under
    different tokens are known to be on one text, and ``tokens:train`` for the unigram baseline
    (uniform without);
    ``similarity:NAME`` and so on for every kind of set.
    """
    model = read_model(readers["model"])
    scores: list[Score] = []
    for role in sorted(readers, key=_order):
        kind, _, name = role.partition(":")
        if kind == "tokens" and name != "train":
            scores += text_scores(
                name,
                model,
                read_tokens(readers[role]),
                source=readers[f"documents:{name}"].artifact.content,
                train=read_tokens(readers["tokens:train"]) if "tokens:train" in readers else None,
                progress=context.progress,
            )
    found: Neighbours = {}
    if params.words:
        words = Words(model, params.words.case)
        for role in sorted(readers, key=_order):
            kind, _, name = role.partition(":")
            if kind in KINDS:
                files = read_files(readers[role], params.words.sections.get(role, ()))
                scores += score_set(
                    kind, name, files, words, params.words.restrict, context.progress
                )
        found = _neighbours(model, params.words)
    context.out.json(SCORES, [score.to_json() for score in scores])
    context.out.json(NEIGHBOURS, found)
    if isinstance(model, ClassesWords):
        context.out.json(CLUSTERS, chosen_clusters(model))
    return {score.name: score.value for score in scores if score.value is not None}


def text_scores(name: str, model: Model, text: Tokens, **about: Any) -> tuple[Score, ...]:
    """What a model is worth on a text; see ``perplexity.measure`` and ``pseudo.measure``."""
    if isinstance(model, FillsIn):
        return (pseudo.measure(name, model, text, **about),)
    return perplexity.measure(name, model, text, **about)


def _order(role: str) -> tuple[int, str]:
    """Perplexities come first, then similarity, then analogies and so on."""
    kinds = ("tokens", *KINDS, "documents", "model")
    return kinds.index(role.partition(":")[0]), role


def score_set(
    kind: str,
    name: str,
    files: Mapping[str, Path],
    words: Words,
    restrict: int,
    progress: Progress,
) -> Sequence[Score]:
    """The scores of word vectors on one set.

    Args:
        kind: one of ``KINDS``.
        name: of the set.
        files: of the set, by name.
        words: of the model.
        restrict: analogies look at so many of the most frequent words.
        progress: told about questions.

    Raises:
        InputError: a file cannot be read as such a set.
    """
    label = f"{kind}.{name}"
    match kind:
        case "analogy":
            questions = read_analogies(files, name)
            return analogy.measure(label, words, questions, restrict=restrict, progress=progress)
        case "outliers":
            return outliers.measure(label, words, outliers.read_groups(files, name))
    path = _single(files, kind, name)
    if kind == "similarity":
        return [similarity.measure(label, words, read_pairs(path, name))]
    return [categorization.measure(label, words, categorization.read_classes(path, name))]


def _single(files: Mapping[str, Path], kind: str, name: str) -> Path:
    path, *others = files.values()
    if others:
        raise InputError(
            f"a set for {kind} is one file, not {1 + len(others)}",
            where=name,
            remedy="name one of the files in this folder",
        )
    return path


def _neighbours(model: Model, settings: WordSettings) -> Neighbours:
    lexicon = Lexicon.of(model.vocabulary, settings.case, settings.restrict)
    words = settings.neighbours or telling_words(lexicon)
    return nearest(model, words, restrict=settings.restrict, case=settings.case)


EVALUATE: Step[Evaluate] = Step("evaluate", 3, "scores", evaluate)


def check_sets(config: EvaluationConfig) -> None:
    """Refuse a config whose evaluation sets cannot be found, before anything is trained.

    Raises:
        InputError: a set is neither built in nor a file, or the package that holds it is missing.
    """
    for kind in KINDS:
        for reference in getattr(config, kind):
            files_of(find_set(reference, kind, config.folder)[1])


def evaluate_model(
    runner: Runner, model: Artifact, corpus: Corpus, config: EvaluationConfig, label: str
) -> Artifact:
    """The scores of a model, as an artifact of the kind ``scores``.

    Args:
        runner: runs the step.
        model: an artifact of the kind "model".
        corpus: whose held-out splits the model is scored on.
        config: what to evaluate on; only what the model can answer becomes an input of the step.
        label: of the step in lists of steps.

    Raises:
        InputError: an evaluation set cannot be found.
    """
    able = read_capabilities(runner.store.reader(model))
    inputs = {"model": model}
    words = None
    if "scores" in able or "fills_in" in able:
        splits: list[Split] = ["train", *config.splits]
        inputs |= {f"tokens:{split}": corpus.tokens[split] for split in splits}
        inputs |= {f"documents:{split}": corpus.documents[split] for split in config.splits}
    if "embeds_words" in able:
        sets, words = word_inputs(runner.store, config)
        inputs |= sets
    return runner.run(EVALUATE, inputs, Evaluate(words), label=label)


def evaluate_text(
    runner: Runner, model: Artifact, tokens: Artifact, documents: Artifact, label: str = ""
) -> Artifact:
    """The perplexity of a language model on a text of its own, as "perplexity.test".

    Args:
        runner: runs the step.
        model: an artifact of the kind "model".
        tokens: of the text, which was read as the model's own.
        documents: that they are of.
        label: of the step in lists of steps.
    """
    inputs = {"model": model, "tokens:test": tokens, "documents:test": documents}
    return runner.run(EVALUATE, inputs, Evaluate(None), label=label)


def evaluate_words(
    runner: Runner, model: Artifact, config: EvaluationConfig, label: str = ""
) -> tuple[Score, ...]:
    """The scores of a model's word vectors alone; none if it has no vectors.

    Raises:
        InputError: an evaluation set cannot be found.
    """
    if "embeds_words" not in read_capabilities(runner.store.reader(model)):
        return ()
    sets, words = word_inputs(runner.store, config)
    scores = runner.run(EVALUATE, {"model": model, **sets}, Evaluate(words), label=label)
    return read_scores(runner.store.reader(scores))


def word_inputs(store: Store, config: EvaluationConfig) -> tuple[dict[str, Artifact], WordSettings]:
    """What the step needs for word vectors besides a model: the sets by role, and its settings.

    Raises:
        InputError: an evaluation set cannot be found.
    """
    inputs, sections = dict[str, Artifact](), dict[str, tuple[str, ...]]()
    for kind in KINDS:
        sets, names = import_sets(store, getattr(config, kind), kind, config.folder)
        inputs, sections = inputs | sets, sections | names
    return inputs, WordSettings(config.restrict, config.case, config.neighbours, sections)


def read_scores(reader: Reader) -> tuple[Score, ...]:
    """The scores in a ``scores`` artifact."""
    return tuple(Score.from_json(value) for value in reader.json(SCORES))


def read_neighbours(reader: Reader) -> Neighbours:
    """The nearest neighbours in a ``scores`` artifact, by word."""
    value: dict[str, list[tuple[str, float]]] = reader.json(NEIGHBOURS)
    return {word: tuple((w, c) for w, c in found) for word, found in value.items()}


def read_clusters(reader: Reader) -> Clusters:
    """Some classes of words in a ``scores`` artifact, by their path; none of most models."""
    if CLUSTERS not in {part.name for part in reader.parts}:
        return {}
    found: Clusters = reader.json(CLUSTERS)
    return found


def evaluate_files(
    model: Model,
    text: TextPipeline,
    *,
    sets: Mapping[Kind, Sequence[str]] = {},
    folder: str = "",
    texts: Sequence[Path] = (),
    restrict: int = 300_000,
    case: Case = "fold",
    progress: Progress = lambda done, total, unit: None,
) -> tuple[Score, ...]:
    """The scores of a model at hand on files: what ``lexloom evaluate`` shows.

    Args:
        model: any.
        text: how the model's text was made; raw texts are made into tokens the same way.
        sets: names and paths, by kind.
        folder: where named sets lie.
        texts: files of raw text.
        restrict: analogies look at so many of the most frequent words.
        case: see ``Lexicon``.
        progress: told about tokens and questions.

    Raises:
        InputError: a file cannot be used, or the model cannot answer what is asked.
    """
    if texts and not isinstance(model, Scores | FillsIn):
        raise _unable(model, "gives no probability of text", "perplexity")
    if any(sets.values()) and not isinstance(model, EmbedsWords):
        raise _unable(model, "has no word vectors", "similarity and analogies")
    scores, words = list[Score](), Words(model, case)
    for kind in KINDS:
        for reference in sets.get(kind, ()):
            name, path = find_set(reference, kind, folder)
            files = files_of(path) if path.is_dir() else {"all": path}
            scores += score_set(kind, name, files, words, restrict, progress)
    for path in texts:
        tokens, source = read_text(path, text)
        name = path.name.partition(".")[0]
        if tokens.n_tokens == 0:
            raise InputError(
                "there are no words in this text", where=str(path), remedy="give some text"
            )
        scores += text_scores(name, model, tokens, source=source, progress=progress)
    return tuple(scores)


def _unable(model: Model, what: str, asked: str) -> InputError:
    return InputError(
        f"this model {what}",
        where=model.config.title,
        remedy=f"ask a model of another family for {asked}",
    )
