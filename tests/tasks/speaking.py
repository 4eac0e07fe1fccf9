"""Language models as folders that were pulled: trained on a few sentences, in a moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from models.capabilities import LanguageModel
from models.family import Family, Fits
from models.mixture import Config as MixtureConfig
from models.mixture import Mixture
from models.ngram import Config as NgramConfig
from models.nplm import Config as NplmConfig
from models.rnnlm import Config as RnnlmConfig
from tasks.export.native import write_folder_manifest
from tasks.models import TextPipeline, write_model
from tests.tasks.trained import TEXT, inputs, sentences

NGRAM = NgramConfig(order=3, min_count=1)
NPLM = NplmConfig(context=2, embedding=8, hidden=8, min_count=1, max_size=None)

RNNLM = RnnlmConfig(units=8, embedding=8, min_count=1, max_size=None)


class Parts:
    """Writes the parts of a model into a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def json(self, name: str, value: Any) -> None:
        (self.path / name).write_text(json.dumps(value))

    def tensors(self, name: str, arrays: Any) -> None:
        save_file(dict(arrays), self.path / name)


def trained(config: Family, n: int = 120) -> Any:
    """A model of n sentences; one that learns stays as it began."""
    data = inputs(config, sentences(n))
    model = config.build(data, seed=1)
    if isinstance(model, Fits):
        model.fit(data)
    return model


def mixed(*models: LanguageModel) -> Mixture:
    """Models with equal weights."""
    config = MixtureConfig(
        parts=tuple(model.config for model in models),  # type: ignore[misc]
        weights=(1 / len(models),) * len(models),
        names=tuple(f"m{i}" for i in range(len(models))),
        contents=("",) * len(models),
    )
    return Mixture(config, models[0].vocabulary, models)


def speaking() -> Mapping[str, LanguageModel]:
    """An n-gram model, neural ones and some mixed, under one vocabulary; rnnlm reads on."""
    one, two, three = trained(NGRAM), trained(NPLM), trained(RNNLM)
    both = mixed(one, two)
    return {"ngram": one, "nplm": two, "rnnlm": three, "mixture": both, "on": mixed(one, three)}


def write_folder(path: Path, model: Any, text: TextPipeline = TEXT) -> Path:
    """The model as ``lexloom pull`` writes it."""
    path.mkdir()
    write_model(Parts(path), model, text)  # type: ignore[arg-type]
    write_folder_manifest(path, {})
    return path
