"""Joining registered models with contextual vectors: scores, registration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.bidirectional import Combine
from pipelines.job import git_commit
from pipelines.settings import Settings
from tasks.continuing import find_bases
from tasks.evaluation import EvaluationConfig, Score, evaluate_words
from tasks.join import join_models
from tasks.models import read_model
from tasks.promotion import Promotion, promote
from tasks.registry import check_name, register
from tasks.runner import Observer, Runner
from tasks.store import Store


@dataclass(frozen=True)
class Together:
    """What came of it.

    Attributes:
        reference: of the registered version, "NAME/1".
        parts: references of the parts.
        layers: names of the layers of contextual vectors.
        scores: of the vectors of words.
        promotion: what the gate decided.
    """

    reference: str
    parts: tuple[str, ...]
    layers: tuple[str, ...]
    scores: tuple[Score, ...]
    promotion: Promotion

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "model": self.reference,
            "parts": list(self.parts),
            "layers": list(self.layers),
            "scores": [score.to_json() for score in self.scores],
            "promoted": self.promotion.promoted,
            "refused": list(self.promotion.reasons),
        }


def join_registered(
    references: Sequence[str],
    settings: Settings,
    observer: Observer,
    *,
    name: str,
    combine: Combine = "concatenation",
) -> Together:
    """Join models, score the vectors of words, and register the outcome.

    Args:
        references: ``NAME@ALIAS``, ``NAME/VERSION``, or folders that were pulled.
        settings: where.
        observer: watches the steps.
        name: to register it under.
        combine: how the vectors of the parts become one.

    Raises:
        InputError: there is no such model, or models that cannot be joined.
        ConfigError: one model twice.
    """
    check_name(name)
    uri, store = settings.tracking_uri, Store(settings.store, settings.home / "cache")
    runner = Runner(store, resources=settings.resources, observer=observer)
    with store.files.in_use():
        bases = find_bases(store, references, uri)
        parts = {base.reference: base.model for base in bases}
        artifact = join_models(runner, parts, combine, label=name)
        scores = evaluate_words(runner, artifact, EvaluationConfig(), label=name)
        model: Any = read_model(store.reader(artifact))
        tags = {
            "experiment": bases[0].experiment or name,
            "name": name,
            "git_commit": git_commit(),
            "parent": ", ".join(parts),
        }
        registered = register(store, artifact, name, tracking_uri=uri, scores=scores, tags=tags)
    promotion = promote(registered.name, registered.version, tracking_uri=uri)
    reference = f"{registered.name}/{registered.version}"
    return Together(reference, tuple(parts), model.layers, scores, promotion)
