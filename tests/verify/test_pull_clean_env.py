"""Somebody pulls a champion where there is MLflow and numpy (and torch), but no lexloom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models.ngram import Config as NgramConfig
from models.nplm import Config as NplmConfig
from models.word2vec import Config as Word2vecConfig
from tasks.promotion import promote
from tasks.registry import open_model, register
from tasks.store import Store
from tests.tasks.export.questions import answers, difference, questions
from tests.tasks.trained import train_small

ASKED = Path(__file__).parents[1] / "tasks" / "export" / "asked.py"
# Without torch, then with it; each environment is what MLflow says that the models need.
CONFIGS: list[list[Any]] = [
    [NgramConfig(order=5, min_count=1), Word2vecConfig(dim=20, min_count=1)],
    [NplmConfig(embedding=10, hidden=12, min_count=1)],
]


def run(*command: object, cwd: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run([str(word) for word in command], check=True, cwd=cwd, env=clean)


@pytest.mark.verify
def test_champions_answer_in_a_clean_environment(store: Store, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "questions.json").write_text(json.dumps(questions()))
    run(sys.executable, "-m", "venv", "venv", cwd=elsewhere)
    python = elsewhere / "venv" / "bin" / "python"
    for configs in CONFIGS:
        names = [f"clean-{config.family}" for config in configs]
        for name, config in zip(names, configs, strict=True):
            model = train_small(store, config)
            register(store, model, name, tracking_uri=uri, scores=[], tags={})
            assert promote(name, 1, tracking_uri=uri).promoted
        native = {name: open_model(f"{name}@champion", uri) for name in names}
        needed = native[names[0]].folder.parent / "requirements.txt"
        run(python, "-m", "pip", "install", "--quiet", "--no-compile", "-r", needed, cwd=elsewhere)
        references = [f"models:/{name}@champion" for name in names]
        arguments = [uri, "questions.json", "answers.json", ",".join(references)]
        run(python, ASKED, *arguments, cwd=elsewhere)
        report = json.loads((elsewhere / "answers.json").read_text())
        for reference, name in zip(references, names, strict=True):
            pairs = zip(report[reference]["answers"], answers(native[name].model), strict=True)
            for found, expected in pairs:
                assert expected is None or difference(found, expected) < 1e-6
            assert report[reference]["torch"] == (name == "clean-nplm")
    run(python, "-m", "pip", "check", cwd=elsewhere)
