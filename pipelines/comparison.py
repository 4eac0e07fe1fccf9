"""What ``lexloom evaluate`` answers about one model or several, as values and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from models.capabilities import Scores
from models.family import Progress
from tasks.counted import counted
from tasks.errors import ConfigError, InputError
from tasks.evaluation import Score, evaluate_files
from tasks.evaluation.by_sentence import (
    SentenceScores,
    of_file,
    of_tokens,
    scores_on_split,
    tokens_of,
)
from tasks.evaluation.compare import Difference, Spread, differences, spreads
from tasks.evaluation.contexts import Part, by_context
from tasks.evaluation.lexicon import Words
from tasks.evaluation.names import Kind, files_of, find_set
from tasks.evaluation.score import show, shown_range
from tasks.evaluation.sets import read_text
from tasks.evaluation.significance import TextDifference, text_differences
from tasks.registry import OpenedModel
from tasks.store import Store
from tasks.versions import SETTINGS


@dataclass(frozen=True)
class Comparison:
    """Models with their scores on the same sets.

    Attributes:
        models: what they are called, with their scores.
        spreads: of every score over the models, without a mean where they differ by more than
            their seed; empty of one model.
        differences: between two models, on sets and on texts; empty of any other number.
        contexts: for every text, each model on words with seen and with unseen contexts.
    """

    models: Mapping[str, tuple[Score, ...]]
    spreads: tuple[Spread, ...] = ()
    differences: tuple[Difference | TextDifference, ...] = ()
    contexts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """One model with its scores; of several models also what is between them."""
        listed = [
            {"model": name, "scores": [score.to_json() for score in scores]}
            for name, scores in self.models.items()
        ]
        contexts = {
            name: [part.to_json() for part in parts] for name, parts in self.contexts.items()
        }
        more = {"contexts": contexts} if contexts else {}
        if len(listed) == 1:
            return {**listed[0], **more}
        return {
            **more,
            "models": listed,
            "spread": [spread.to_json() for spread in self.spreads],
            "difference": [difference.to_json() for difference in self.differences],
        }


def compare(
    opened: Sequence[OpenedModel],
    sets: Mapping[Kind, Sequence[str]],
    folder: str,
    texts: Sequence[Path],
    restrict: int,
    progress: Progress,
    *,
    seen_in: Path | None = None,
    order: int = 3,
    splits: Sequence[str] = (),
    store: Store | None = None,
) -> Comparison:
    """Score models on sets and texts, and hold them against each other.

    Args:
        opened: the models.
        sets: names and paths, by kind.
        folder: where named sets lie.
        texts: files of raw text, for perplexity.
        restrict: analogies look at so many of the most frequent words.
        progress: told about tokens and questions.
        seen_in: the training text of all models; perplexity is told for seen and unseen contexts.
        order: of those contexts with the word after them.
        splits: of the models' corpora; their scores there are those of the registry.
        store: that holds the splits.

    Raises:
        ConfigError: a model is named twice, or two texts have one name.
        InputError: a set cannot be found or used, a text has no words, or a model cannot answer
            what is asked.
    """
    _refuse_repetitions(opened, [path.name.partition(".")[0] for path in texts], splits)
    models = {
        one.reference: evaluate_files(
            one.model,
            one.text,
            sets=sets,
            folder=folder,
            texts=texts,
            restrict=restrict,
            progress=progress,
        )
        + tuple(score for split in splits for score in scores_on_split(one, split))
        for one in opened
    }
    contexts = _by_context(opened, seen_in, texts, order, progress) if seen_in else {}
    if len(models) == 1:
        return Comparison(models, contexts=contexts)
    found = list[Difference | TextDifference]()
    if len(opened) == 2 and any(sets.values()):
        words = Words(opened[0].model), Words(opened[1].model)
        for kind, references in sets.items():
            for reference in references:
                name, path = find_set(reference, kind, folder)
                files = files_of(path) if path.is_dir() else {"all": path}
                found += differences(kind, name, files, words, restrict)
    if len(opened) == 2:
        first, second = models.values()
        for path in texts:
            name, sides = path.name.partition(".")[0], partial(_on_file, opened, path, progress)
            found += text_differences(name, (first, second), sides)
        for split in splits:
            on_split = partial(_on_split, opened, split, store, progress)
            found += text_differences(split, (first, second), on_split)
    over = spreads([*models.values()])
    if not _are_replicates(opened):
        over = tuple(replace(spread, mean=None, deviation=None) for spread in over)
    return Comparison(models, over, tuple(found), contexts)


def _are_replicates(opened: Sequence[OpenedModel]) -> bool:
    """Whether models differ by their seed or replicate alone (``tasks.versions.replicates``).

    Of others a mean says nothing, nor of folders, which do not say how they were made.
    """
    versions = [one.version for one in opened]
    key = SETTINGS.removeprefix("lexloom.")
    made = {(version.name, version.tags.get(key)) for version in versions if version is not None}
    return None not in versions and len(made) == 1 and all(settings for _, settings in made)


def _refuse_repetitions(
    opened: Sequence[OpenedModel], texts: Sequence[str], splits: Sequence[str]
) -> None:
    """A model twice would be held against itself, and two texts of one name told as one."""
    references = [one.reference for one in opened]
    for reference, n in Counter(references).items():
        if n > 1:
            raise ConfigError("this model is named twice", where=reference, remedy="name it once")
    for name, n in Counter([*texts, *splits]).items():
        if n > 1:
            raise ConfigError(
                f"{n} texts are called {name}, so their scores would have one name",
                where=name,
                remedy="rename a file, or ask for one of them at a time",
            )


def _by_context(
    opened: Sequence[OpenedModel],
    seen_in: Path,
    texts: Sequence[Path],
    order: int,
    progress: Progress,
) -> dict[str, tuple[Part, ...]]:
    """The models on seen and unseen contexts of every text, cut as the first one's text was."""
    first, models = opened[0], {one.reference: one.model for one in opened}
    scoring = {name: model for name, model in models.items() if isinstance(model, Scores)}
    train, _ = read_text(seen_in, first.text)
    if train.n_tokens == 0:
        raise InputError("there is no text in it", where=str(seen_in), remedy="name another")
    return {
        path.name.partition(".")[0]: by_context(
            scoring, first.model.vocabulary, train, read_text(path, first.text)[0], order, progress
        )
        for path in texts
    }


def _context_lines(comparison: Comparison) -> Iterator[str]:
    for text, parts in comparison.contexts.items():
        for part in parts:
            kind = "seen" if part.seen else "unseen"
            value = show(part.perplexity, "perplexity")
            yield f"perplexity.{text}, {kind} contexts, {part.model}: {value} | {part.tokens:,}"


def _on_file(opened: Sequence[OpenedModel], path: Path, progress: Progress) -> list[SentenceScores]:
    return [of_file(one, path, progress) for one in opened]


def _on_split(
    opened: Sequence[OpenedModel], split: str, store: Store | None, progress: Progress
) -> list[SentenceScores]:
    if store is None:
        raise TypeError("a split lies in a store")
    return [of_tokens(one, tokens_of(store, one, split), progress) for one in opened]


def _bands(score: Score) -> Iterator[str]:
    """A line for each band of frequency that a score of word pairs is told by."""
    for band in score.details.get("bands", ()):
        ends = shown_range(band["interval"], score.unit)
        covered = f"{band['scored']:,} of {counted(band['total'], score.items)}"
        why = f"({band['undefined']})" * bool(band["undefined"])
        values = " ".join(filter(None, [show(band["value"], score.unit), ends, why]))
        yield f"  rarer word {band['band']}: {values} | {covered}"


def comparison_table(comparison: Comparison) -> RenderableType:
    """A line a score of one model; of several, a row a score and a column a model."""
    if not comparison.spreads:
        scores = [score for found in comparison.models.values() for score in found]
        lines = [line for score in scores for line in (score.line, *_bands(score))]
        return Text("\n".join([*lines, *_context_lines(comparison)]))
    table = Table(box=None)
    over = ["mean ± sd"] if any(one.mean is not None for one in comparison.spreads) else []
    for heading in ("score", *comparison.models, *over):
        table.add_column(Text(heading, overflow="fold"), overflow="fold")
    notes = list[Text]()
    for spread in comparison.spreads:
        scores = [
            next(s for s in found if s.name == spread.name) for found in comparison.models.values()
        ]
        cells = [f"{score.shown} {score.range}".rstrip() for score in scores]
        mark = "*" * bool(spread.reason)
        table.add_row(spread.name + mark, *cells, *([spread.shown] if over else []))
        if spread.reason:
            notes.append(Text(f"* {spread.name}: {spread.reason}", "italic"))
    between = " less ".join(comparison.models)
    for difference in comparison.differences:
        told = ", ".join(filter(None, [difference.shown, difference.covered]))
        notes.append(Text(f"{difference.name}: {between} {told}"))
    notes += [Text(line) for line in _context_lines(comparison)]
    return Group(table, *notes)
