"""What a model is worth: every score with its coverage, its policy and its baseline.

Which evaluators a model gets follows from its capabilities: perplexity from ``Scores``,
similarity, analogies and nearest neighbours from ``EmbedsWords``. Evaluating never changes a model.

Parts of an artifact of kind "scores"::

    scores.json        a list of ``Score``
    neighbours.json    nearest neighbours of some words, with their cosines
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from models.family import EmbedsWords, Model, Progress, Scores, Split
from tasks.artifacts import Artifact, Stats
from tasks.corpus import Corpus
from tasks.errors import InputError
from tasks.evaluation import analogy, perplexity, similarity
from tasks.evaluation.lexicon import Case, Lexicon
from tasks.evaluation.neighbours import Neighbours, nearest, telling_words
from tasks.evaluation.score import Baseline, Score, incomparable
from tasks.evaluation.sets import (
    ANALOGY,
    SIMILARITY,
    find_set,
    import_sets,
    read_analogies,
    read_pairs,
    read_text,
)
from tasks.models import TextPipeline, read_capabilities, read_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader
from tasks.tokenize import read_tokens

__all__ = [
    "EVALUATE", "Baseline", "EvaluationConfig", "Neighbours", "Score", "check_sets",
    "evaluate_files", "evaluate_model", "incomparable", "nearest", "read_neighbours", "read_scores",
]  # fmt: skip


SCORES, NEIGHBOURS = "scores.json", "neighbours.json"


@dataclass(frozen=True)
class EvaluationConfig:
    """What to evaluate on; every model is given what its capabilities answer."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    splits: Annotated[
        tuple[Literal["valid", "test"], ...], Field(description="Splits whose perplexity counts")
    ] = ("test",)
    similarity: Annotated[
        tuple[str, ...],
        Field(description=f"Word-pair sets: {', '.join(SIMILARITY)}, or paths of files"),
    ] = ("wordsim353", "simlex999")
    analogy: Annotated[
        tuple[str, ...],
        Field(description=f"Analogy sets: {', '.join(ANALOGY)}, or paths of files"),
    ] = ("google",)
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
    """What shapes the scores of word vectors besides the sets."""

    restrict: int
    case: Case
    neighbours: tuple[str, ...]


@dataclass(frozen=True)
class Evaluate:
    """Parameters of the step; ``words`` is None for a model without word vectors."""

    words: WordSettings | None


def evaluate(context: Context, readers: Mapping[str, Reader], params: Evaluate) -> Stats:
    """Evaluate a model on whatever inputs there are.

    Inputs: ``model``; ``tokens:SPLIT`` to score, ``documents:SPLIT`` by which figures under
    different tokens are known to be on one text, and ``tokens:train`` for the unigram baseline;
    ``similarity:NAME`` and ``analogy:NAME``.
    """
    model = read_model(readers["model"])
    scores: list[Score] = []
    for role in sorted(readers, key=_order):
        scores += _scores(context, role, readers, model, params)
    found = _neighbours(model, params.words) if params.words else {}
    context.out.json(SCORES, [score.to_json() for score in scores])
    context.out.json(NEIGHBOURS, found)
    return {score.name: score.value for score in scores if score.value is not None}


def _order(role: str) -> tuple[int, str]:
    """Perplexities come first, then similarity, then analogies."""
    kinds = ("tokens", "similarity", "analogy", "documents", "model")
    return kinds.index(_kind(role)), role


def _kind(role: str) -> str:
    return role.partition(":")[0]


def _scores(
    context: Context, role: str, readers: Mapping[str, Reader], model: Model, params: Evaluate
) -> Sequence[Score]:
    """The scores of a model on one input."""
    reader, words, name = readers[role], params.words, role.partition(":")[2]
    match _kind(role):
        case "tokens" if name != "train":
            return perplexity.measure(
                name,
                model,
                read_tokens(reader),
                source=readers[f"documents:{name}"].artifact.content,
                train=read_tokens(readers["tokens:train"]),
                progress=context.progress,
            )
        case "similarity" if words:
            pairs = read_pairs(reader.path("file"), name)
            return [similarity.measure(f"similarity.{name}", model, pairs, words.case)]
        case "analogy" if words:
            return analogy.measure(
                f"analogy.{name}",
                model,
                read_analogies(reader.path("file"), name),
                restrict=words.restrict,
                case=words.case,
                progress=context.progress,
            )
    return []


def _neighbours(model: Model, settings: WordSettings) -> Neighbours:
    lexicon = Lexicon.of(model.vocabulary, settings.case, settings.restrict)
    words = settings.neighbours or telling_words(lexicon)
    return nearest(model, words, restrict=settings.restrict, case=settings.case)


EVALUATE: Step[Evaluate] = Step("evaluate", 2, "scores", evaluate)


def check_sets(config: EvaluationConfig) -> None:
    """Refuse a config whose evaluation sets cannot be found, before anything is trained.

    Raises:
        InputError: a set is neither built in nor a file, or the package that holds it is missing.
    """
    for reference in config.similarity:
        find_set(reference, SIMILARITY)
    for reference in config.analogy:
        find_set(reference, ANALOGY)


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
    if "scores" in able:
        splits: list[Split] = ["train", *config.splits]
        inputs |= {f"tokens:{split}": corpus.tokens[split] for split in splits}
        inputs |= {f"documents:{split}": corpus.documents[split] for split in config.splits}
    if "embeds_words" in able:
        words = WordSettings(config.restrict, config.case, config.neighbours)
        inputs |= import_sets(runner.store, config.similarity, "similarity")
        inputs |= import_sets(runner.store, config.analogy, "analogy")
    return runner.run(EVALUATE, inputs, Evaluate(words), label=label)


def read_scores(reader: Reader) -> tuple[Score, ...]:
    """The scores in a ``scores`` artifact."""
    return tuple(Score.from_json(value) for value in reader.json(SCORES))


def read_neighbours(reader: Reader) -> Neighbours:
    """The nearest neighbours in a ``scores`` artifact, by word."""
    value: dict[str, list[tuple[str, float]]] = reader.json(NEIGHBOURS)
    return {word: tuple((w, c) for w, c in found) for word, found in value.items()}


def evaluate_files(
    model: Model,
    text: TextPipeline,
    *,
    similarity_sets: Sequence[str] = (),
    analogy_sets: Sequence[str] = (),
    texts: Sequence[Path] = (),
    restrict: int = 300_000,
    case: Case = "fold",
    progress: Progress = lambda done, total, unit: None,
) -> tuple[Score, ...]:
    """The scores of a model at hand on files: what ``lexloom evaluate`` shows.

    Args:
        model: any.
        text: how the model's text was made; raw texts are made into tokens the same way.
        similarity_sets: built-in names and paths.
        analogy_sets: built-in names and paths.
        texts: files of raw text.
        restrict: analogies look at so many of the most frequent words.
        case: see ``Lexicon``.
        progress: told about tokens and questions.

    Raises:
        InputError: a file cannot be used, or the model cannot answer what is asked.
    """
    if texts and not isinstance(model, Scores):
        raise _unable(model, "gives no probability of text", "perplexity")
    if (similarity_sets or analogy_sets) and not isinstance(model, EmbedsWords):
        raise _unable(model, "has no word vectors", "similarity and analogies")
    scores = list[Score]()
    for reference in similarity_sets:
        name, path = find_set(reference, SIMILARITY)
        scores.append(similarity.measure(f"similarity.{name}", model, read_pairs(path, name), case))
    for reference in analogy_sets:
        name, path = find_set(reference, ANALOGY)
        questions = read_analogies(path, name)
        scores += analogy.measure(
            f"analogy.{name}", model, questions, restrict=restrict, case=case, progress=progress
        )
    for path in texts:
        tokens, source = read_text(path, text)
        name = path.name.partition(".")[0]
        scores += perplexity.measure(name, model, tokens, source=source, progress=progress)
    return tuple(scores)


def _unable(model: Model, what: str, asked: str) -> InputError:
    return InputError(
        f"this model {what}",
        where=model.config.title,
        remedy=f"ask a model of another family for {asked}",
    )
