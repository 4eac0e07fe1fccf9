"""Quantizing a registered model: the copy, its scores beside the original's, its registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from pipelines.job import git_commit
from pipelines.settings import Settings
from tasks.adopt import adopt
from tasks.artifacts import Stats
from tasks.counted import counted
from tasks.errors import InputError
from tasks.evaluation import (
    Baseline,
    EvaluationConfig,
    Score,
    check_sets,
    evaluate_words,
    incomparable,
)
from tasks.evaluation.names import Kind, find_set
from tasks.evaluation.score import show
from tasks.promotion import Promotion, promote
from tasks.quantize import QUANTIZE, Quantize, configure
from tasks.registry import OpenedModel, check_name, open_model, register
from tasks.runner import Observer, Runner
from tasks.store import Store

ORIGINAL = "original"
"""The baseline that is the score of the model that was quantized."""


@dataclass(frozen=True)
class Sets:
    """What both models are scored on.

    Attributes:
        config: the sets, and how words of them are looked up.
        missing: why a set of the usual ones, which nobody named, was left out.
    """

    config: EvaluationConfig
    missing: tuple[str, ...] = ()

    @staticmethod
    def of(similarity: Sequence[str] | None, analogy: Sequence[str] | None) -> Sets:
        """The sets that were named; those of a run by default, as far as they can be had."""
        if similarity or analogy:
            config = EvaluationConfig(
                similarity=tuple(similarity or ()), analogy=tuple(analogy or ())
            )
            check_sets(config)
            return Sets(config)
        usual, missing = EvaluationConfig(), list[str]()

        def there(references: Sequence[str], kind: Kind) -> tuple[str, ...]:
            found = []
            for reference in references:
                try:
                    find_set(reference, kind)
                    found.append(reference)
                except InputError as error:
                    missing.append(f"{reference}: {error.problem}")
            return tuple(found)

        config = EvaluationConfig(
            similarity=there(usual.similarity, "similarity"),
            analogy=there(usual.analogy, "analogy"),
        )
        return Sets(config, tuple(missing))


@dataclass(frozen=True)
class Quantized:
    """What came of it.

    Attributes:
        reference: of the registered version, "NAME/1".
        parent: what was quantized.
        stats: of the step; see ``tasks.quantize``.
        scores: of the quantized model, with those of the original as a baseline.
        reused: whether the codes were there already.
        promotion: what the gate decided.
        notes: what else a person should know.
    """

    reference: str
    parent: str
    stats: Stats
    scores: tuple[Score, ...]
    reused: bool
    promotion: Promotion
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "model": self.reference,
            "parent": self.parent,
            "reused": self.reused,
            "stats": dict(self.stats),
            "scores": [score.to_json() for score in self.scores],
            "promoted": self.promotion.promoted,
            "refused": list(self.promotion.reasons),
            "notes": list(self.notes),
        }


def quantize_model(
    reference: str,
    settings: Settings,
    observer: Observer,
    *,
    name: str = "",
    sub_vectors: int | None = None,
    norms: bool = True,
    rotation: bool = True,
    sets: Sets,
    seed: int = 1,
) -> Quantized:
    """Quantize a model, score it beside the original, and register it.

    Args:
        reference: ``NAME@ALIAS``, ``NAME/VERSION``, or a folder that was pulled.
        settings: where.
        observer: watches the steps.
        name: to register it under; empty for the original's with "-quantized".
        sub_vectors: see ``tasks.quantize.configure``, also ``norms`` and ``rotation``.
        norms: lengths have a code of their own.
        rotation: vectors are turned first.
        sets: what both are scored on.
        seed: of the rows that centroids begin as.

    Raises:
        InputError: there is no such model, or it cannot be quantized, or is no smaller then; an
            evaluation set is missing.
        ConfigError: a name or number that cannot be.
    """
    uri, store = settings.tracking_uri, Store(settings.store, settings.home / "cache")
    runner = Runner(store, resources=settings.resources, observer=observer)
    opened = open_model(reference, uri)
    name = name or f"{_name(opened)}-quantized"
    check_name(name)
    with store.files.in_use():
        parent = adopt(store, opened)
        config = configure(
            opened.model,
            parent.content,
            where=opened.reference,
            sub_vectors=sub_vectors,
            norms=norms,
            rotation=rotation,
        )
        params = Quantize(config, seed)
        model = runner.run(QUANTIZE, {"model": parent}, params, label=name)
        made = runner.outcomes[-1]
        _check_size(made.stats, opened.reference)
        before = evaluate_words(runner, parent, sets.config, opened.reference)
        scores = _beside(evaluate_words(runner, model, sets.config, name), before, opened.reference)
        registered = register(
            store,
            model,
            name,
            tracking_uri=uri,
            scores=scores,
            tags=_labels(opened, name, made.stats),
        )
    promotion = promote(registered.name, registered.version, tracking_uri=uri)
    version = f"{registered.name}/{registered.version}"
    notes = [f"not scored on {missing}" for missing in sets.missing]
    return Quantized(
        version, opened.reference, made.stats, scores, made.reused, promotion, tuple(notes)
    )


def _check_size(stats: Stats, reference: str) -> None:
    """Refuse codes that, with the centroids they stand for, take no less room than the vectors."""
    now, before = float(stats["bytes"]), float(stats["bytes_before"])
    if now >= before:
        raise InputError(
            f"its vectors take {megabytes(before)}, and quantized they would take {megabytes(now)}",
            where=reference,
            remedy="keep it as it is: codes save room where words are far more than 256",
        )


def _name(opened: OpenedModel) -> str:
    """The registered name of a model, also of one that was pulled; else that of its folder."""
    if opened.version:
        return opened.version.name
    return str(opened.about.get("registered", {}).get("name", opened.folder.resolve().name))


def _beside(scores: Sequence[Score], before: Sequence[Score], reference: str) -> tuple[Score, ...]:
    """Scores with the original's as their first baseline, where the two compare."""
    known = {score.name: score for score in before}

    def beside(score: Score) -> Score:
        first = known.get(score.name)
        if first is None or incomparable(score, first):
            return score
        baseline = Baseline(ORIGINAL, first.value, reference)
        return replace(score, baselines=(baseline, *score.baselines))

    return tuple(map(beside, scores))


def _labels(opened: OpenedModel, name: str, stats: Stats) -> dict[str, str]:
    """What MLflow is told of where a model comes from, and of what it cost."""
    tags = opened.version.tags if opened.version else {}
    return {
        "experiment": tags.get("experiment", name),
        "name": name,
        "corpus": tags.get("corpus", ""),
        "git_commit": git_commit(),
        "parent": opened.reference,
        "quantization": summary(stats),
    }


def summary(stats: Stats) -> str:
    """What a quantization saved and what it cost, in one line."""
    now, before = float(stats["bytes"]), float(stats["bytes_before"])
    return (
        f"{megabytes(now)} of {megabytes(before)}, relative error {stats['relative_error']:.3f}, "
        f"{stats['neighbours_kept']:.1%} of nearest neighbours kept"
    )


def megabytes(size: float) -> str:
    """A size for people: 3.2 MB, 480.0 kB, 96 bytes."""
    if size < 1e3:
        return f"{size:,.0f} bytes"
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def quantized_table(found: Quantized) -> Table:
    """The quantized model beside the original."""
    table = Table(box=None)
    for heading in ("", found.parent, found.reference, ""):
        table.add_column(Text(heading), justify="left" if not heading else "right")
    stats = found.stats
    now, before = float(stats["bytes"]), float(stats["bytes_before"])
    table.add_row("vectors", megabytes(before), megabytes(now), f"1/{before / now:.1f}")
    table.add_row("relative error", "0", f"{stats['relative_error']:.3f}")
    table.add_row("mean cosine with the original", "1", f"{stats['mean_cosine']:.3f}")
    asked = f"{counted(int(stats['neighbours_asked']), 'words')} asked"
    table.add_row("nearest neighbours kept", "100%", f"{stats['neighbours_kept']:.1%}", asked)
    for key, value in stats.items():
        head, _, band = key.partition(".")
        if head == "neighbours_kept" and band:
            first, last = (f"{int(rank):,}" for rank in band.split("-"))
            table.add_row(f"  of ranks {first} to {last}", "", f"{value:.1%}")
    for score in found.scores:
        original = next((b for b in score.baselines if b.name == ORIGINAL), None)
        shown = show(original.value, score.unit) if original else "does not compare"
        change = ""
        if original and original.value is not None and score.value is not None:
            change = f"{score.value - original.value:+.3f}"
        table.add_row(Text(score.name), shown, score.shown, change)
    return table
