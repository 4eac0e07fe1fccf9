"""Training that goes on: from a registered model, over new text, under a vocabulary that grows.

The model to begin with, the *base*, is an input of the step ``train`` like any other: a rerun is
reused, another base makes another model, and lineage leads from a model to its base. Nothing that
is done here writes to it.

Its text decided its words, so the new text has to be read in the same way: a corpus that is
normalized, cut or analyzed otherwise is refused, and subwords and phrases are those that the base
has learnt. Settings that shape what is taken over (``lasting``) are the base's; all others are
those of the run, the learning rate at the start and the epochs included.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from models.families import FamilyConfig, StoredConfig
from models.family import Family, GrowingFamily, MayBeFixed, with_article
from tasks.artifacts import Artifact, Manifest, Stats, canonical_json, recipe_of
from tasks.corpus import CorpusConfig
from tasks.counted import counted
from tasks.errors import ConfigError
from tasks.export.native import FILES, is_model_folder
from tasks.models import CONFIG, TextPipeline, read_text_pipeline
from tasks.phrases import ABOUT, ENGLISH, PHRASES_TABLE, Phrases
from tasks.registry import OpenedModel, find_version, open_model
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader, Store, Writer
from tasks.subwords import TOKENIZER

IMPORTED = "model"
"""The folder of models that were fetched from the registry into a store that has them not."""
READ_ALIKE = ("normalize", "tokenize", "analyze")
"""What of a corpus has to be as it was for the base."""


@dataclass(frozen=True)
class Base:
    """A model to go on from.

    Attributes:
        reference: "NAME/3", or the folder of a pulled model.
        name: of the registered model; empty for a folder.
        experiment: the corpus that it was trained on; empty for a folder.
        model: its artifact.
        settings: of its family, as plain JSON.
        text: how its text was made.
    """

    reference: str
    name: str
    experiment: str
    model: Artifact
    settings: Mapping[str, Any]
    text: TextPipeline

    @property
    def family(self) -> str:
        """The discriminator of its family."""
        return str(self.settings["family"])

    @property
    def title(self) -> str:
        """What a leaderboard calls it."""
        config: Family = TypeAdapter(StoredConfig).validate_python(self.settings)
        return config.title


# --- finding --------------------------------------------------------------------------------


def find_base(store: Store, reference: str, tracking_uri: str) -> Base:
    """The model that ``NAME@ALIAS``, ``NAME/VERSION`` or a pulled folder means.

    Where it is not in the store (made elsewhere, or removed since), it is fetched into it.

    Raises:
        InputError: there is no such model, or its files are not what was registered.
        ConnectionError: MLflow does not answer.
    """
    if is_model_folder(Path(reference)):
        opened = open_model(reference, tracking_uri)
        name, experiment = "", ""
        model = _import(store, opened)
        reference = opened.reference
    else:
        version = find_version(reference, tracking_uri)
        name, experiment = version.name, version.tags.get("experiment", "")
        reference = version.reference
        found = store.find("train", version.tags.get("recipe", ""))
        if found is not None and found.content == version.content:
            model = found.handle()
        else:
            model = _import(store, open_model(reference, tracking_uri))
    reader = store.reader(model)
    settings = reader.json(CONFIG)["config"]
    return Base(reference, name, experiment, model, settings, read_text_pipeline(reader))


def find_bases(store: Store, references: Sequence[str], tracking_uri: str) -> list[Base]:
    """Several models, all of them different.

    Raises:
        InputError: see ``find_base``.
        ConfigError: one model twice.
    """
    bases = [find_base(store, reference, tracking_uri) for reference in references]
    for reference, n in Counter(base.reference for base in bases).items():
        if n > 1:
            raise ConfigError("this model is named twice", where=reference, remedy="name it once")
    return bases


def _import(store: Store, opened: OpenedModel) -> Artifact:
    """The files of a model as an artifact; it has the content that the model was registered by."""
    recipe = recipe_of(IMPORTED, 1, {"content": str(opened.about["content"])}, {})
    with store.lease(IMPORTED, recipe):
        if found := store.find(IMPORTED, recipe):
            return found.handle()
        store.discard(IMPORTED, recipe)
        out = Writer(store, IMPORTED, recipe)
        for name in FILES:
            with out.path(name) as path:
                shutil.copyfile(opened.folder / name, path)
        origin = {"params": {"content": opened.about["content"]}, "inputs": {}}
        made = Manifest("model", IMPORTED, 1, recipe, out.parts, {}, origin)
        return store.commit(made).handle()


# --- what has to agree ----------------------------------------------------------------------


def continued(config: FamilyConfig, base: Base, where: str) -> FamilyConfig:
    """The settings of a training that goes on: what was asked for, ``lasting`` ones as they were.

    Args:
        config: what was asked for; a lasting setting at its default asks for nothing.
        base: what to go on from.
        where: the key of the family, for errors.

    Raises:
        ConfigError: the family cannot go on from a model, the base is of another family, or a
            setting contradicts what is taken over.
    """
    if not isinstance(config, GrowingFamily):
        counted = config.style == "fits"
        why = "is made of counts, which are summed anew" if counted else "cannot go on from a model"
        raise ConfigError(
            f"{with_article(config.title)} {why}",
            where=where,
            remedy="train it on both texts",
        )
    if base.family != config.family:
        raise ConfigError(
            f"{base.reference} is of the family {base.family}, this is {config.family}",
            where=where,
            remedy=f"go on from a {config.family} model, or write `family: {base.family}`",
        )
    theirs: FamilyConfig = TypeAdapter(FamilyConfig).validate_python(base.settings)
    kept = {name: getattr(theirs, name) for name in config.lasting}
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name, value in kept.items():
        asked = getattr(config, name)
        if asked not in (value, defaults[name]):
            raise ConfigError(
                f"{base.reference} has {name} {_shown(value)}, which stays as it is when training "
                f"goes on; this asks for {_shown(asked)}",
                where=f"{where}.{name}",
                remedy="leave it out",
            )
    try:
        found = dataclasses.replace(config, **kept)
    except ValueError as error:
        problem = f"{error} (what shapes the vectors is as in {base.reference})"
        raise ConfigError(problem, where=where) from None
    if isinstance(found, MayBeFixed) and found.fixed:
        raise ConfigError(
            f"training cannot go on from {base.reference}: {found.fixed}",
            where=where,
            remedy="train it on both texts",
        )
    return found


def check_bases(
    corpus: CorpusConfig, families: Mapping[str, FamilyConfig], bases: Mapping[str, Base]
) -> None:
    """Refuse bases that trainings cannot go on from, before anything is read.

    Raises:
        ConfigError: there is no such family, its settings contradict its base, or the corpus is
            read otherwise than the text of a base.
    """
    first = next(iter(bases.values()), None)
    for name, base in bases.items():
        assert first is not None
        if name not in families:
            raise ConfigError(
                f"there is a base for {name!r}, which is none of the families",
                where=f"bases.{name}",
                remedy=f"the families are: {', '.join(families)}",
            )
        continued(families[name], base, f"families.{name}")
        check_text(corpus, base)
        if (base.text.subwords, base.text.phrases) != (first.text.subwords, first.text.phrases):
            raise ConfigError(
                f"{base.reference} and {first.reference} have learnt other subwords or phrases, "
                "and a corpus can be cut in one way only",
                where=f"bases.{name}",
                remedy="go on from them in runs of their own",
            )


def check_text(corpus: CorpusConfig, base: Base) -> None:
    """Refuse a corpus that is not read as the text of the base was.

    Raises:
        ConfigError: the first setting that differs.
    """
    for section in READ_ALIKE:
        ours, theirs = getattr(corpus, section), getattr(base.text, section)
        for field in dataclasses.fields(ours):
            here, there = getattr(ours, field.name), getattr(theirs, field.name)
            if here != there:
                raise _read_otherwise(base, f"{section}.{field.name}", _shown(there), _shown(here))
    here, there = (_phrases_in_words(one) for one in (corpus.phrases, phrases_of(base.text)))
    if here != there:
        raise _read_otherwise(base, "phrases", there, here)


def phrases_of(text: TextPipeline) -> Phrases | None:
    """Settings of a corpus under which phrases that a model has learnt are joined in it."""
    if text.phrases is None:
        return None
    english = text.phrases.connectors == ENGLISH
    return Phrases(passes=len(text.phrases.passes), connectors="english" if english else "none")


def _phrases_in_words(phrases: Phrases | None) -> str:
    if phrases is None:
        return "none"
    return f"{counted(phrases.passes, 'passes')}, connectors {phrases.connectors}"


def _read_otherwise(base: Base, key: str, there: str, here: str) -> ConfigError:
    return ConfigError(
        f"{base.reference} was trained on text with {key}: {there}, and this corpus has {here}; "
        "training goes on with text that is read alike",
        where=f"corpus.{key}",
        remedy=f"set it as it was, or let `lexloom continue {base.reference}` take all of it over",
    )


def _shown(value: object) -> str:
    return json.dumps(json.loads(canonical_json(value)), ensure_ascii=False)


# --- what a base has learnt to make tokens --------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """Which of the passes of phrases; from 1."""

    number: int = 1


def take_subwords(context: Context, readers: Mapping[str, Reader], params: Pass) -> Stats:
    """The tokenizer of a model, as the step ``subwords`` would have learnt it."""
    subwords = read_text_pipeline(readers["model"]).subwords
    assert subwords is not None
    context.out.blob(TOKENIZER, subwords.encode())
    return {}


def take_phrases(context: Context, readers: Mapping[str, Reader], params: Pass) -> Stats:
    """The phrases of a model, as the step ``phrases`` would have found them, but for scores."""
    joining = read_text_pipeline(readers["model"]).phrases
    assert joining is not None
    phrases = joining.passes[params.number - 1]
    arrays = [pa.array([phrase[i] for phrase in phrases], pa.large_string()) for i in range(3)]
    context.out.table(PHRASES_TABLE, pa.table(arrays, names=["first", "between", "second"]))
    context.out.json(ABOUT, {"connectors": joining.connectors, "sweep": []})
    return {"phrases": len(phrases)}


TAKE_SUBWORDS: Step[Pass] = Step("subwords-taken", 1, "subwords", take_subwords)
TAKE_PHRASES: Step[Pass] = Step("phrases-taken", 1, "phrases", take_phrases)


def learnt_by(runner: Runner, base: Base) -> dict[str, Artifact]:
    """What a base has learnt to make tokens, by the roles of ``Corpus.learnt``."""
    inputs = {"model": base.model}
    if base.text.subwords is not None:
        return {"subwords": runner.run(TAKE_SUBWORDS, inputs, Pass())}
    passes = range(1, 1 + len(base.text.phrases.passes)) if base.text.phrases else ()
    return {f"phrases {i}": runner.run(TAKE_PHRASES, inputs, Pass(i), label=f"{i}") for i in passes}
