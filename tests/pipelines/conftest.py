"""A tiny corpus with a config, and the command line run in this very process."""

from __future__ import annotations

import logging
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Done:
    """What a run of the command line came to."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 600 made-up sentences."""
    draw = random.Random(3)
    nouns = ["ship", "harbour", "sailor", "wave", "rope", "gull", "lantern", "island"]
    verbs = ["leaves", "meets", "lifts", "crosses", "finds"]
    lines = [
        f"the {draw.choice(nouns)} {draw.choice(verbs)} a {draw.choice(nouns)} and "
        f"{draw.choice(verbs)} number {i % 40} ."
        for i in range(600)
    ]
    path = tmp_path_factory.mktemp("text") / "sea.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def recipe(corpus_file: Path) -> Path:
    """A config over it with word2vec alone."""
    path = corpus_file.with_name("sea.yaml")
    path.write_text(
        f"corpus: {{name: sea, train: {{paths: [{corpus_file}]}}}}\n"
        "families:\n"
        "  word2vec: {dim: 8, epochs: 1, min_count: 1}\n"
        "evaluation: {similarity: [], analogy: [], neighbours: [ship]}\n"
    )
    return path


@pytest.fixture(scope="session")
def cli_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the tests of a session share."""
    return tmp_path_factory.mktemp("cli-home")


@pytest.fixture
def environment() -> Iterator[None]:
    """Whatever a test does to the environment and to logging is undone."""
    before = dict(os.environ)
    root = logging.root.handlers[:]
    os.environ.pop("MLFLOW_TRACKING_URI", None)  # MLflow leaves it behind
    yield
    os.environ.clear()
    os.environ.update(before)
    logging.root.handlers[:] = root


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cli_home: Path,
    environment: None,
) -> Cli:
    """Runs the command line in this process, in the shared home."""
    from pipelines import cli as module

    def run(*arguments: str, home: Path = cli_home) -> Done:
        monkeypatch.setattr(sys, "argv", ["lexloom", *arguments, "--home", str(home)])
        code = 0
        capsys.readouterr()
        try:
            module.main()
        except SystemExit as exit:
            code = int(exit.code or 0)
        return Done(code, *capsys.readouterr())

    return run
