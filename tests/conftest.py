"""What every test shares: a quiet environment of its own and, for those that ask, one small Ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ |= {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    # Threads of torch wait for each other by spinning, so that a busy machine slows them tenfold.
    "OMP_NUM_THREADS": "1",
}

from tasks.cluster import RayCluster
from tasks.store import Store

# A busy machine is no failure; pytest-timeout ends what hangs.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True, scope="session")
def lexloom_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LEXLOOM_HOME that no test shares with the user's own."""
    home = tmp_path_factory.mktemp("home")
    os.environ["LEXLOOM_HOME"] = str(home)
    return home


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store in a local folder."""
    return Store(str(tmp_path / "store"), tmp_path / "cache")


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """One local Ray with two CPUs for the whole session; it costs about ten seconds."""
    cluster = RayCluster(cpus=2)
    ray = cluster.connect()
    yield cluster
    ray.shutdown()
