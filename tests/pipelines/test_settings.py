from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.settings import ENVIRONMENT, Settings, prepare_environment
from tasks.errors import ConfigError

pytestmark = pytest.mark.usefixtures("environment")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("LEXLOOM_", "PREFECT_", "RAY_", "MLFLOW_")) or name in ENVIRONMENT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("LEXLOOM_HOME", str(tmp_path / "home"))


def test_everything_lies_under_home(tmp_path: Path) -> None:
    settings = Settings.load()
    assert settings.store == str(tmp_path / "home" / "store")
    assert settings.tracking_uri == f"sqlite:///{tmp_path}/home/mlflow.db"
    assert settings.threads >= 1


def test_the_tracking_uri_of_mlflow_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://there:5000")
    assert Settings.load().tracking_uri == "http://there:5000"
    monkeypatch.setenv("LEXLOOM_TRACKING_URI", "http://here:5000")
    assert Settings.load().tracking_uri == "http://here:5000"


@pytest.mark.parametrize(
    ("name", "value"),
    [("LEXLOOM_THREADS", "many"), ("LEXLOOM_WORKERS", "0"), ("LEXLOOM_TIMEZONE", "Atlantis")],
)
def test_a_value_that_cannot_be_used_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name):
        Settings.load()


def test_telemetry_is_off_unless_the_user_has_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")
    prepare_environment(Settings.load())
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"
    for name in (
        "DO_NOT_TRACK", "MLFLOW_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY",
        "PREFECT_SERVER_ANALYTICS_ENABLED", "RAY_TRAIN_METRICS_ENABLED",
    ):  # fmt: skip
        assert os.environ[name] == ENVIRONMENT[name]


def test_the_token_of_ray_is_nobody_elses() -> None:
    prepare_environment(Settings.load())
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert token.stat().st_mode & 0o077 == 0
    before = token.read_text()
    prepare_environment(Settings.load())
    assert token.read_text() == before
    assert len(before) == 64
