"""Write the lock files: the closure of pyproject.toml's dependencies at the installed versions."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pip(*arguments: str) -> str:
    """What pip prints."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def lock(extras: str, path: Path, title: str) -> None:
    """Resolve ``.[extras]`` within the installed versions and write the result."""
    with tempfile.TemporaryDirectory() as folder:
        installed, report = Path(folder, "installed.txt"), Path(folder, "report.json")
        lines = pip("freeze", "--exclude-editable").splitlines()
        # A local version (+cpu) is this machine's build; the pin names the release.
        installed.write_text("\n".join(line.split("+")[0] for line in lines))
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        pip("install", *options, "-c", str(installed), f".[{extras}]")
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    rows = {
        f"{item['name'].lower().replace('_', '-')}=={item['version'].split('+')[0]}"
        for item in found
        if item["name"].lower() != "lexloom"
    }
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    header = f"# {title}: Python {version}, Linux x86-64. Made by `make lock`.\n"
    path.write_text(header + "\n".join(sorted(rows)) + "\n")
    print(f"{path.name}: {len(rows)} packages")


if __name__ == "__main__":
    lock("sample,s3", ROOT / "requirements.lock", "Everything that lexloom needs at run time")
    lock(
        "sample,s3,segmenters,ann,dev",
        ROOT / "requirements-dev.lock",
        "The same with what its tests need",
    )
