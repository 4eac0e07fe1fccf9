"""Ctrl-C and SIGTERM, as a terminal and a service manager send them, in the middle of training."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.verify

LONG = ["--families", "word2vec", "--set", "families.word2vec.epochs=20000"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupted")


def rows(database: Path, query: str) -> list[str]:
    """The first column of what a database answers; nothing as long as there is none."""
    if not database.exists():
        return []
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return [row[0] for row in connection.execute(query)]
    except sqlite3.OperationalError:
        return []


def runs(home: Path) -> list[str]:
    """The states of the runs in MLflow."""
    return rows(home / "mlflow.db", "select status from runs order by start_time")


@pytest.fixture
def command(recipe: Path, home: Path) -> Iterator[list[str]]:
    """A run that would take for ever; nothing of it may be left."""
    yield [sys.executable, "-m", "pipelines.cli", "run", str(recipe), "--home", str(home), *LONG]
    left = [p for p in psutil.process_iter(["cmdline"]) if str(home) in str(p.info["cmdline"])]
    assert left == []


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "flow"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_run_that_is_stopped_says_so_everywhere(
    command: list[str], home: Path, direct: bool, sent: signal.Signals
) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LEXLOOM_", "PREFECT_"))}
    before = len(runs(home))
    process = subprocess.Popen(
        [*command, "--set", f"replicate={before + 1}", *(["--direct"] if direct else [])],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while runs(home)[before:] != ["RUNNING"]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(2)
    if sent == signal.SIGINT:
        os.killpg(process.pid, sent)  # a terminal sends it to every process of the command
    else:
        process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.splitlines()[-1] == "stopped; run the same command again: what was done is kept"
    assert "Traceback" not in err
    assert runs(home)[before:] == ["KILLED"]
    if not direct:
        query = "select state_type from flow_run order by created desc limit 1"
        assert rows(home / "prefect" / "prefect.db", query) == ["CANCELLED"]
