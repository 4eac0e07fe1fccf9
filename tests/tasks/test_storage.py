"""Files of a store: what a disk does to them is noticed."""

from __future__ import annotations

import errno
import os
import resource

import numpy as np
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


def test_a_full_disk_is_told_as_one(store: Store) -> None:
    out, limit = Writer(store, "weave", "1" * 64), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        for write in (
            lambda: out.tensors("tensors", {"w": np.zeros(1 << 19, np.float32)}),
            lambda: out.blob("blob", bytes(1 << 21)),
        ):
            with pytest.raises(OSError, match="File too large") as caught:
                write()
            assert caught.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_a_file_may_have_a_name_that_is_no_text() -> None:
    name = os.fsdecode(b"/texts/caf\xe9.txt")
    part = Part(0, "file", name, "ab" * 32, 3)
    manifest = Manifest("source", "file", 2, "0" * 64, (part,), {})
    assert Manifest.from_json(manifest.to_json().encode().decode()) == manifest
