"""The native format: a folder with a model's files and a list of their sizes and hashes.

    config.json vocabulary.json text.json weights.safetensors    as in ``tasks.models``
    manifest.json                                                what ought to be in them

A folder is taken only if every file is whole. This is also the ``artifacts`` folder of a model in
MLflow, and the code that comes with such a model checks it by ``check_folder`` too.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.models import CONFIG, TEXT, VOCABULARY, WEIGHTS

FILES = (CONFIG, TEXT, VOCABULARY, WEIGHTS)
FOLDER_FORMAT = 1
"""The version of the folder's format; a reader refuses any other."""
FOLDER_MANIFEST = "manifest.json"
CHECKED = ".checked.json"
"""Beside large files: which of them were whole when they were last read, so as not to read them at
every opening."""
WORTH_A_MARK = 64 * 2**20
"""Bytes of a model's files; fewer are hashed in no time."""


def write_folder_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Describe the files of a model folder, and whatever else there is to say about the model."""
    files = [
        {"name": name, "size": (folder / name).stat().st_size, "sha256": file_hash(folder / name)}
        for name in FILES
    ]
    value = {"lexloom": FOLDER_FORMAT, "files": files, **about}
    _write(folder / FOLDER_MANIFEST, value)


def copy_folder(source: Path, manifest: Mapping[str, Any], target: Path) -> None:
    """Copy a model folder, under a manifest with the same files.

    Raises:
        InputError: a copied file is not what the manifest says.
    """
    target.mkdir()
    for name in FILES:
        shutil.copyfile(source / name, target / name)
    _write(target / FOLDER_MANIFEST, manifest)
    check_folder(target)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")


def is_model_folder(folder: Path) -> bool:
    """Whether a folder claims to be a model in the native format."""
    try:
        value = json.loads((folder / FOLDER_MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and "lexloom" in value


def check_folder(folder: Path) -> dict[str, Any]:
    """The manifest of a model folder, once every file is known to be whole.

    Raises:
        InputError: a file is missing, cut short or changed, or the folder is of another format.
    """
    remedy = "pull the model again"
    try:
        manifest: dict[str, Any] = json.loads((folder / FOLDER_MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{FOLDER_MANIFEST} is missing: this is no model", where=str(folder), remedy=remedy
        ) from None
    if manifest.get("lexloom") != FOLDER_FORMAT:
        found = manifest.get("lexloom")
        raise InputError(
            f"this model is of format {found}, not {FOLDER_FORMAT}",
            where=str(folder),
            remedy="use the lexloom that wrote it, or pull the model again",
        )
    for entry in manifest["files"]:
        path = folder / str(entry["name"])
        if not path.is_file():
            raise InputError(f"{path.name} is missing", where=str(folder), remedy=remedy)
        if path.stat().st_size != entry["size"]:
            problem = f"{path.stat().st_size} bytes long, not {entry['size']}"
            raise InputError(problem, where=str(path), remedy=remedy)
    marks = {str(entry["name"]): _mark(folder, entry) for entry in manifest["files"]}
    if marks == _marks(folder):
        return manifest
    for name, (digest, *_) in marks.items():
        if file_hash(folder / name) != digest:
            problem = "this file is damaged: its hash is not the one in the manifest"
            raise InputError(problem, where=str(folder / name), remedy=remedy)
    if sum(size for _, size, *_ in marks.values()) >= WORTH_A_MARK:
        with suppress(OSError):  # it may lie where nobody can write
            (folder / CHECKED).write_text(json.dumps(marks), "utf-8")
    return manifest


def _mark(folder: Path, entry: Mapping[str, Any]) -> list[Any]:
    """What tells that a file is the one that was checked before, as git's index does."""
    state = (folder / str(entry["name"])).stat()
    return [entry["sha256"], state.st_size, state.st_mtime_ns, state.st_ino]


def _marks(folder: Path) -> dict[str, list[Any]]:
    try:
        marks: dict[str, list[Any]] = json.loads((folder / CHECKED).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return marks


def file_hash(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
