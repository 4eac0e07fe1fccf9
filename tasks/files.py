"""Files from outside as artifacts: keyed by their bytes, never by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tasks.artifacts import Artifact, Manifest, Part, recipe_of
from tasks.errors import InputError
from tasks.storage import LocalFiles
from tasks.store import Store, Writer


def import_files(store: Store, paths: Sequence[Path], kind: str) -> Artifact:
    """Files as one artifact, a partition a file with the part ``file``, in the given order.

    A store in a local folder refers to the files where they lie; any other store gets a copy.

    Raises:
        InputError: a file cannot be read.
    """
    hashes = []
    for path in paths:
        try:
            with path.open("rb") as file:
                hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    recipe = recipe_of("file", 1, [kind, hashes], {})
    local = isinstance(store.files, LocalFiles)
    places = [str(path.resolve()) for path in paths]
    found = store.find("file", recipe)
    # A reference counts for the very paths that were hashed: others may hold other bytes by now.
    if found and (not local or [part.path for part in found.parts] == places):
        return found.handle()
    with store.lease("file", recipe):
        store.discard("file", recipe)
        if local:
            parts = tuple(
                Part(i, "file", place, sha256, path.stat().st_size)
                for i, (path, place, sha256) in enumerate(zip(paths, places, hashes, strict=True))
            )
        else:
            out = Writer(store, "file", recipe)
            for i, path in enumerate(paths):
                out.blob("file", path.read_bytes(), i)
            parts = out.parts
        names = {str(i): path.name for i, path in enumerate(paths)}
        manifest = Manifest(kind, "file", 1, recipe, parts, {"files": len(paths)}, names)
        return store.commit(manifest).handle()
