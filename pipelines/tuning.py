"""Tuning a blend in a language model: training, scores beside the blend, registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from models.blend_lm import Config
from models.tuning import DECIDED
from pipelines.blending import Blended
from pipelines.continuing import recipe_for
from pipelines.counting import format_of
from pipelines.job import git_commit
from pipelines.plain import UNREADABLE
from pipelines.quantizing import Sets
from pipelines.settings import Settings
from tasks.continuing import find_base, learnt_by
from tasks.corpus import CorpusConfig, build_corpus
from tasks.errors import ConfigError
from tasks.evaluation import evaluate_text, evaluate_words, read_scores
from tasks.places import is_local
from tasks.prepare import prepare
from tasks.promotion import promote
from tasks.registry import check_name, register
from tasks.runner import Observer, Runner
from tasks.store import Store
from tasks.tune import TUNE, Tune, tuned_like


def settings_of(changes: Sequence[str]) -> Config:
    """Settings of the language model, the defaults but for what is given as KEY=VALUE.

    Raises:
        ConfigError: what is given is no setting of it, does not fit, or is for the blend to decide.
    """
    given = dict[str, Any]()
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise ConfigError(
                f"{change!r} is not KEY=VALUE", where="--set", remedy="for instance --set units=128"
            )
        if key in DECIDED:
            raise ConfigError(
                f"{key} is that of the blend", where=f"--set {change}", remedy="leave it out"
            )
        try:
            given[key] = yaml.safe_load(value)
        except UNREADABLE:
            given[key] = value
    try:
        return TypeAdapter(Config).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            where="--set",
            remedy="docs/families.md lists the settings of blend-lm",
        ) from None


def tune_registered(
    reference: str,
    text: Sequence[str],
    settings: Settings,
    observer: Observer,
    *,
    name: str,
    config: Config,
    valid: Sequence[str] = (),
    sets: Sets,
    beside: Sequence[str] = (),
    seed: int = 1,
) -> Blended:
    """Train both parts of a blend in a language model, score it beside the blend, register it.

    Args:
        reference: of a blend of a character BiRNN and one other model.
        text: to train on, read as the text of the blend's first part was.
        settings: where.
        observer: watches the steps.
        name: to register it under.
        config: of the language model; what the blend decides is taken from it.
        valid: held-out text to choose the best weights by; a twentieth of ``text`` by default.
        sets: what all are scored on.
        beside: other registered models that are scored too.
        seed: of everything random.

    Raises:
        InputError: there is no such model or text, or the model cannot be tuned.
        ConfigError: settings that do not go together.
    """
    check_name(name)
    uri, store = settings.tracking_uri, Store(settings.store, settings.home / "cache")
    runner = Runner(store, resources=settings.resources, observer=observer)
    with store.files.in_use():
        base = find_base(store, reference, uri)
        others = [find_base(store, one, uri) for one in beside]
        config = tuned_like(runner, base.model, config, base.reference)
        value = recipe_for(base, text)["corpus"] | {"name": name}
        if valid:
            paths = [
                str(Path(one).expanduser().absolute()) if is_local(one) else one for one in valid
            ]
            value["valid"] = {"paths": paths, "format": format_of(valid)}
        corpus = build_corpus(
            runner, TypeAdapter(CorpusConfig).validate_python(value), learnt_by(runner, base)
        )
        inputs = {**prepare(runner, corpus, config), "blend": base.model}
        model = runner.run(TUNE, inputs, Tune(config, base.text, seed), label=name)
        stats = store.manifest(model).stats
        models = {one.reference: one.model for one in (*others, base)} | {name: model}
        scores = {
            called: evaluate_words(runner, one, sets.config, called)
            for called, one in models.items()
        }
        heldout = evaluate_text(
            runner, model, corpus.tokens["valid"], corpus.documents["valid"], f"{name} on held-out"
        )
        own = (*read_scores(store.reader(heldout)), *scores.pop(name))
        tags: Mapping[str, str] = {
            "experiment": name,
            "name": name,
            "git_commit": git_commit(),
            "parent": base.reference,
        }
        registered = register(store, model, name, tracking_uri=uri, scores=own, tags=tags)
    promotion = promote(registered.name, registered.version, tracking_uri=uri)
    version = f"{registered.name}/{registered.version}"
    notes = tuple(f"not scored on {missing}" for missing in sets.missing)
    return Blended(version, stats, {**scores, version: own}, promotion, notes)
