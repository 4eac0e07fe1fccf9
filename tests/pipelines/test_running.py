"""What a run that was killed leaves behind is tidied up by the next one of its home."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipelines.running import end_orphans

SERVER = "import time; time.sleep(120)"


def orphan(home: Path) -> psutil.Process:
    """A process that looks like a temporary server whose run is gone."""
    python = f'"{sys.executable}" -c "{SERVER}" prefect.server.api.server:create_app'
    command = f"{python} >/dev/null 2>&1 & echo $!"
    done = subprocess.run(
        ["sh", "-c", command],
        env={"PREFECT_HOME": str(home / "prefect")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return psutil.Process(int(done.stdout))


@pytest.mark.timeout(60)
def test_servers_of_killed_runs_are_ended(tmp_path: Path) -> None:
    ours, theirs = orphan(tmp_path / "ours"), orphan(tmp_path / "theirs")
    try:
        deadline = time.monotonic() + 10
        while ours.ppid() != 1 or "create_app" not in " ".join(ours.cmdline()):
            if time.monotonic() > deadline:
                pytest.skip("orphans have another parent here")
            time.sleep(0.1)
        end_orphans(tmp_path / "ours")
        assert not ours.is_running() or ours.status() == psutil.STATUS_ZOMBIE
        assert theirs.is_running()
    finally:
        for process in (ours, theirs):
            if process.is_running():
                process.kill()
