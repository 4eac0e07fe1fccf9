"""Mixing registered language models: weights, scores, registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from rich.table import Table
from rich.text import Text

from pipelines.continuing import recipe_for
from pipelines.job import git_commit
from pipelines.settings import Settings
from tasks.artifacts import Artifact, Stats
from tasks.continuing import Base, find_bases, learnt_by
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.errors import ConfigError
from tasks.evaluation import Score, evaluate_text, read_scores
from tasks.mix import check_parts, mix_models
from tasks.models import read_model
from tasks.promotion import Promotion, promote
from tasks.registry import check_name, register
from tasks.runner import Observer, Runner
from tasks.store import Store


@dataclass(frozen=True)
class Made:
    """What came of it.

    Attributes:
        reference: of the registered version, "NAME/1".
        stats: of the step; see ``tasks.mix``.
        weights: of each part, by its reference.
        scores: of the mixture on the text that was named for it; none without.
        promotion: what the gate decided.
    """

    reference: str
    stats: Stats
    weights: dict[str, float]
    scores: tuple[Score, ...]
    promotion: Promotion

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "model": self.reference,
            "weights": self.weights,
            "stats": dict(self.stats),
            "scores": [score.to_json() for score in self.scores],
            "promoted": self.promotion.promoted,
            "refused": list(self.promotion.reasons),
        }


def mix_registered(
    references: Sequence[str],
    settings: Settings,
    observer: Observer,
    *,
    name: str,
    weights: Sequence[float] | None = None,
    fit: Sequence[str] = (),
    score: Sequence[str] = (),
) -> Made:
    """Mix models, score the mixture, and register it.

    Args:
        references: ``NAME@ALIAS``, ``NAME/VERSION``, or folders that were pulled.
        settings: where.
        observer: watches the steps.
        name: to register it under.
        weights: of each model.
        fit: held-out text to fit weights on instead, read as the first model's own.
        score: text that the mixture is scored on.

    Raises:
        InputError: there is no such model or text, or models that cannot be mixed.
        ConfigError: weights that are none, or neither weights nor text to fit them on, or both.
    """
    if (weights is None) == (not fit):
        raise ConfigError(
            "weights are given, or fitted on a text: one of the two",
            where="--weights, --fit",
            remedy="add --weights 0.5,0.5, or --fit FILE with text that no model was trained on",
        )
    if len(references) < 2:
        raise ConfigError(
            "one model makes no mixture", where=", ".join(references), remedy="name another"
        )
    check_name(name)
    uri, store = settings.tracking_uri, Store(settings.store, settings.home / "cache")
    runner = Runner(store, resources=settings.resources, observer=observer)
    with store.files.in_use():
        bases = find_bases(store, references, uri)
        parts = {base.reference: base.model for base in bases}
        if fit or score:
            _refuse_what_cannot_be_mixed(store, parts)
        heldout = _read(runner, bases[0], fit).tokens["train"] if fit else None
        model = mix_models(runner, parts, weights=weights, heldout=heldout, label=name)
        stats = store.manifest(model).stats
        scores: tuple[Score, ...] = ()
        if score:
            scores = _scores(runner, model, _read(runner, bases[0], score), name)
        tags = {
            "experiment": bases[0].experiment or name,
            "name": name,
            "git_commit": git_commit(),
            "parent": ", ".join(parts),
        }
        registered = register(store, model, name, tracking_uri=uri, scores=scores, tags=tags)
    promotion = promote(registered.name, registered.version, tracking_uri=uri)
    found = {reference: float(stats[f"weight.{reference}"]) for reference in parts}
    return Made(f"{registered.name}/{registered.version}", stats, found, scores, promotion)


def _refuse_what_cannot_be_mixed(store: Store, parts: Mapping[str, Artifact]) -> None:
    """The step that mixes would refuse them too, but only after a text has been made into a corpus.

    Raises:
        InputError: a model that gives no probabilities, or two that do not go together.
        ConfigError: one model twice.
    """
    readers = [store.reader(model) for model in parts.values()]
    check_parts([read_model(reader) for reader in readers], readers, [*parts])


def _read(runner: Runner, base: Base, text: Sequence[str]) -> Corpus:
    """A text as a corpus of one split, read as that of a model was."""
    value = recipe_for(base, text)["corpus"]
    value |= {"deduplicate": False, "split": {"valid": 0.0, "test": 0.0}}

    config = TypeAdapter(CorpusConfig).validate_python(value)
    return build_corpus(runner, config, learnt_by(runner, base))


def _scores(runner: Runner, model: Artifact, text: Corpus, label: str) -> tuple[Score, ...]:
    made = evaluate_text(runner, model, text.tokens["train"], text.documents["train"], label)
    return read_scores(runner.store.reader(made))


def mixture_table(made: Made) -> Table:
    """The parts with their weights, and what each is worth alone where that is known."""
    table = Table(box=None)
    fitted = any(key.startswith("heldout_perplexity.") for key in made.stats)
    table.add_column("")
    table.add_column("weight", justify="right")
    if fitted:
        table.add_column("held-out perplexity", justify="right")

    def perplexity(name: str) -> list[str]:
        value = made.stats.get(f"heldout_perplexity.{name}")
        return ([f"{float(value):,.1f}" if value is not None else "infinite"]) if fitted else []

    for reference, weight in made.weights.items():
        table.add_row(Text(reference), f"{weight:.4f}", *perplexity(reference))
    table.add_row(Text(made.reference), "", *perplexity("mixture"))
    return table
