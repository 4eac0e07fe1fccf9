"""Files of a store: what a disk does to them is noticed."""

from __future__ import annotations

import os

import pytest

from tasks.artifacts import Manifest, Part
from tasks.errors import InputError
from tasks.store import Store, Writer


def _kept(store: Store) -> Manifest:
    out = Writer(store, "weave", "0" * 64)
    out.blob("cloth", b"warp and weft")
    return store.commit(Manifest("cloth", "weave", 1, "0" * 64, out.parts, {}))


def test_a_flipped_bit_is_never_read_as_data(store: Store) -> None:
    manifest = _kept(store)
    reader = store.reader(manifest.handle())
    path = reader.path("cloth")
    assert path.read_bytes() == b"warp and weft"
    before = path.stat().st_mtime_ns
    path.write_bytes(b"warp and left")
    os.utime(path, ns=(before + 1, before + 1))
    assert store.find("weave", "0" * 64)  # it has its size
    with pytest.raises(InputError, match="damaged"):
        store.reader(manifest.handle()).path("cloth")


def test_a_file_may_have_a_name_that_is_no_text() -> None:
    name = os.fsdecode(b"/texts/caf\xe9.txt")
    part = Part(0, "file", name, "ab" * 32, 3)
    manifest = Manifest("source", "file", 2, "0" * 64, (part,), {})
    assert Manifest.from_json(manifest.to_json().encode().decode()) == manifest
