"""One MLflow for all tests of this folder; to make a database takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tracking_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An embedded MLflow, shared: tests use names of their own in it."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    """A folder to write exports to."""
    folder = tmp_path / "workshop"
    folder.mkdir()
    return folder
