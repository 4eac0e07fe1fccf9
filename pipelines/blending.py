"""Blending the word vectors of registered models: scores beside each part alone, registration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from pipelines.job import git_commit
from pipelines.quantizing import Sets
from pipelines.settings import Settings
from tasks.artifacts import Stats
from tasks.blend import Blending, Learnt, blend_models
from tasks.continuing import find_bases
from tasks.evaluation import EvaluationConfig, Score, check_sets, evaluate_words
from tasks.evaluation.score import show
from tasks.promotion import Promotion, promote
from tasks.registry import check_name, register
from tasks.runner import Observer, Runner
from tasks.store import Store


@dataclass(frozen=True)
class Blended:
    """What came of it.

    Attributes:
        reference: of the registered version, "NAME/1".
        stats: of the step; see ``tasks.blend``.
        scores: by the reference of each part and of the blend, on the same sets.
        promotion: what the gate decided.
        notes: what else a person should know.
    """

    reference: str
    stats: Stats
    scores: Mapping[str, tuple[Score, ...]]
    promotion: Promotion
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "model": self.reference,
            "stats": dict(self.stats),
            "scores": {name: [s.to_json() for s in own] for name, own in self.scores.items()},
            "promoted": self.promotion.promoted,
            "refused": list(self.promotion.reasons),
            "notes": list(self.notes),
        }


def scored_on(similarity: Sequence[str], analogy: Sequence[str], folder: str) -> Sets:
    """The sets that were named; those of a run by default, as far as they can be had.

    Raises:
        InputError: a set that was named is not there.
    """
    if not (similarity or analogy):
        return Sets.of(None, None)
    config = EvaluationConfig(similarity=tuple(similarity), analogy=tuple(analogy), folder=folder)
    check_sets(config)
    return Sets(config)


def blend_registered(
    references: Sequence[str],
    settings: Settings,
    observer: Observer,
    *,
    name: str,
    blending: Blending,
    maps: Sequence[Path] = (),
    sets: Sets,
) -> Blended:
    """Blend models, score the blend beside each of them, and register it.

    Args:
        references: ``NAME@ALIAS``, ``NAME/VERSION``, or folders that were pulled.
        settings: where.
        observer: watches the steps.
        name: to register it under.
        blending: how; its names are not looked at.
        maps: files with a projection of each model but the first.
        sets: what all are scored on.

    Raises:
        InputError: there is no such model, or models that cannot be blended.
        ConfigError: one model twice, weights that are none.
    """
    check_name(name)
    uri, store = settings.tracking_uri, Store(settings.store, settings.home / "cache")
    runner = Runner(store, resources=settings.resources, observer=observer)
    with store.files.in_use():
        bases = find_bases(store, references, uri)
        parts = {base.reference: base.model for base in bases}
        assert blending.projection != "given"
        learnt: Learnt = blending.projection
        model = blend_models(
            runner,
            parts,
            how=blending.how,
            weights=blending.weights,
            unit=blending.unit,
            missing=blending.missing,
            projection=learnt,
            maps=maps,
            label=name,
        )
        stats = store.manifest(model).stats
        scores = {
            called: evaluate_words(runner, one, sets.config, called)
            for called, one in [*parts.items(), (name, model)]
        }
        own = scores.pop(name)
        tags = {
            "experiment": bases[0].experiment or name,
            "name": name,
            "git_commit": git_commit(),
            "parent": ", ".join(parts),
        }
        registered = register(store, model, name, tracking_uri=uri, scores=own, tags=tags)
    promotion = promote(registered.name, registered.version, tracking_uri=uri)
    reference = f"{registered.name}/{registered.version}"
    notes = tuple(f"not scored on {missing}" for missing in sets.missing)
    return Blended(reference, stats, {**scores, reference: own}, promotion, notes)


def blend_table(made: Blended) -> Table:
    """A column a model, a row a score, and below each those of its bands of frequency."""
    table = Table(box=None)
    for heading in ("", *made.scores):
        table.add_column(Text(heading), justify="left" if not heading else "right")
    for row in score_rows(list(made.scores.values())):
        table.add_row(*map(Text, row))
    return table


def score_rows(scores: Sequence[Sequence[Score]]) -> Iterator[list[str]]:
    """Rows of text, a column a model: each score, and of similarity each band of frequency.

    Figures in parentheses are the items that a score rests on.
    """
    named = [{score.name: score for score in own} for own in scores]
    for name in dict.fromkeys(name for own in named for name in own):
        found = [own.get(name) for own in named]
        yield [name, *(f"{s.shown} ({s.scored:,})" if s else "" for s in found)]
        bands = [
            {band["band"]: band for band in (s.details.get("bands", []) if s else [])}
            for s in found
        ]
        for band in dict.fromkeys(band for own in bands for band in own):
            cells = [own.get(band) for own in bands]
            values = (
                f"{show(c['value'], 'spearman')} ({c['scored']:,})" if c else "" for c in cells
            )
            yield [f"  {band}", *values]
