from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from tasks.spool import spool


def test_a_spool_becomes_the_file_that_the_library_writes(tmp_path: Path) -> None:
    arrays = {
        "ngrams": np.arange(21, dtype=np.int32).reshape(7, 3),
        "counts": np.arange(7),
        "data": np.arange(5, dtype=np.uint8),
        "none": np.zeros((0, 2), np.uint32),
    }
    (tmp_path / "scratch").mkdir()
    with spool(tmp_path / "scratch", {name: array[:0] for name, array in arrays.items()}) as rows:
        for i in range(7):
            rows.append(ngrams=arrays["ngrams"][i : i + 1], counts=arrays["counts"][i : i + 1])
        rows.append(data=arrays["data"])
        with pytest.raises(TypeError, match="counts is int64"):
            rows.append(counts=np.zeros(1, np.int32))
        rows.save(tmp_path / "ours")
    safetensors.numpy.save_file(arrays, tmp_path / "theirs")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert not list((tmp_path / "scratch").iterdir())
