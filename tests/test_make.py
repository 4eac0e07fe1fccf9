from __future__ import annotations

import subprocess
from pathlib import Path


def test_a_demo_on_a_fresh_machine_says_first_how_long_it_installs(tmp_path: Path) -> None:
    command = ["make", "--dry-run", f"VENV={tmp_path / 'venv'}", "demo"]
    lines = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    (said,) = [i for i, line in enumerate(lines) if "about 3 GB, some minutes" in line]
    assert "pip install" in lines[said + 1]
