"""Importing a file of vectors: read, scored if asked, registered, held against the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.job import git_commit
from pipelines.settings import Settings
from tasks.artifacts import Artifact, Stats
from tasks.counted import counted
from tasks.evaluation import EvaluationConfig, Score, check_sets, evaluate_words
from tasks.importing.gathering import Errors
from tasks.importing.steps import Format, import_model
from tasks.promotion import Promotion, promote
from tasks.registry import check_name, list_models, register
from tasks.runner import Observer, Runner
from tasks.store import Store

_SUMS = (
    "warning: after some contexts the probabilities of all words sum to more than 1, so "
    "perplexities come out too low"
)


@dataclass(frozen=True)
class ImportResult:
    """What came of an import.

    Attributes:
        name: of the registered model.
        version: of it.
        reused: whether the file had been read before.
        stats: how many words there are, in which format, and what was left out by reason.
        scores: on the sets that were named.
        promotion: what the gate decided.
    """

    name: str
    version: int
    reused: bool
    stats: Stats
    scores: tuple[Score, ...]
    promotion: Promotion

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "scores": [score.to_json() for score in self.scores]}

    @property
    def lines(self) -> list[str]:
        """All of it in words."""
        stats = dict(self.stats)
        words, format = stats.pop("words"), stats.pop("format")
        left = ", ".join(f"{reason.replace('_', ' ')} {n:,}" for reason, n in stats.items())
        aliases = "@challenger @champion" if self.promotion.promoted else "@challenger"
        return [
            f"{self.name} v{self.version} {aliases}" + (" (read before)" if self.reused else ""),
            f"{counted(int(words), 'words')}, read as {format}" + (f"; {left}" if left else ""),
            *([_SUMS] if self.stats.get("sums_above_1") else []),
            *(score.line for score in self.scores),
            *(f"not champion: {reason}" for reason in self.promotion.reasons),
        ]


def import_file(
    file: str,
    name: str,
    settings: Settings,
    observer: Observer,
    *,
    format: Format = "auto",
    errors: Errors = "strict",
    similarity: Sequence[str] = (),
    analogy: Sequence[str] = (),
) -> ImportResult:
    """Read a file of vectors, or a pulled folder, and register it as a model.

    Args:
        file: its path or URL, or a folder.
        name: to register it under.
        settings: of the place.
        observer: watches the steps.
        format: of the file.
        errors: what becomes of records that cannot be used.
        similarity: sets to score it on, by name or path.
        analogy: the same.

    Raises:
        ConfigError: a name that cannot be registered.
        InputError: a file that cannot be used.
        ConnectionError: MLflow does not answer.
    """
    check_name(name)
    config = EvaluationConfig(similarity=tuple(similarity), analogy=tuple(analogy))
    check_sets(config)
    store = Store(settings.store, settings.home / "cache")
    runner = Runner(store, resources=settings.resources, observer=observer)
    with store.files.in_use():
        model = import_model(runner, file, format, errors)
        outcome = runner.outcomes[-1]
        if similarity or analogy:
            scores = evaluate_words(runner, model, config)
        else:
            scores = _known_scores(name, model, settings.tracking_uri)
        tags = {
            "experiment": "imports",
            "name": name,
            "file": Path(file).name,
            "git_commit": git_commit(),
        }
        registered = register(
            store, model, name, tracking_uri=settings.tracking_uri, scores=scores, tags=tags
        )
    promotion = promote(name, registered.version, tracking_uri=settings.tracking_uri)
    return ImportResult(name, registered.version, outcome.reused, outcome.stats, scores, promotion)


def _known_scores(name: str, model: Artifact, tracking_uri: str) -> tuple[Score, ...]:
    """What a model that is registered already was found to be worth."""
    for version in list_models(tracking_uri):
        if (version.name, version.content) == (name, model.content):
            return version.scores
    return ()
