"""What a rank makes of its hardware."""

from __future__ import annotations

import pytest
import torch

from tasks.training import ranks
from tasks.training.ranks import Place, multiplies_bfloat16, precision_of

CPU = Place(torch.device("cpu"))


@pytest.mark.parametrize(
    ("able", "fast"),
    [
        ({"avx2": True, "avx512_bf16": False}, False),
        ({"avx512_bf16": True, "avx512_fp16": False, "amx_bf16": False}, True),
        ({"avx512_bf16": True, "avx512_fp16": True, "amx_bf16": False}, False),
        ({"avx512_bf16": True, "avx512_fp16": True, "amx_bf16": True}, True),
        ({}, False),
    ],
    ids=["old", "zen 4", "amx hidden", "amx", "another architecture"],
)
def test_bfloat16_where_it_is_faster_and_not_only_known(able: dict[str, bool], fast: bool) -> None:
    assert multiplies_bfloat16(able) is fast


def test_one_slow_rank_decides_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "fast_bfloat16", lambda device: True)
    assert precision_of("auto", CPU) == "bfloat16"
    # Of two ranks only one finds it fast: each adds its own answer.
    monkeypatch.setattr(Place, "total", lambda self, *values: [1.0])
    assert precision_of("auto", Place(CPU.device, 0, 2)) == "float32"
    assert precision_of("bfloat16", Place(CPU.device, 0, 2)) == "bfloat16"
