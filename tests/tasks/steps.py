"""A pipeline of three small steps over a store, also run as a program that tests may kill.

python steps.py STORE N [DELAY]      prints the content hash of the total as JSON
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.artifacts import Artifact, Stats
from tasks.runner import Runner
from tasks.step import Context, Step
from tasks.store import Reader, Store


@dataclass(frozen=True)
class Size:
    n: int = 3
    offset: int = 0


DELAY = 0.0


def generate(context: Context, readers: Mapping[str, Reader], params: Size) -> Stats:
    for i in range(params.n):
        rows = np.arange(i * 10, i * 10 + 10, dtype=np.int64)
        context.out.tensors("rows.safetensors", {"rows": rows}, i)
        time.sleep(DELAY)
    return {"kept": params.n}


def shift(context: Context, readers: Mapping[str, Reader], params: Size) -> Stats:
    rows = readers["rows"].tensors("rows.safetensors")["rows"]
    context.out.tensors("rows.safetensors", {"rows": rows + params.offset})
    time.sleep(DELAY)
    context.out.json("note.json", {"offset": params.offset})
    return {"kept": len(rows)}


def total(context: Context, readers: Mapping[str, Reader], params: Size) -> Stats:
    reader = readers["rows"]
    parts = range(reader.n_partitions)
    value = sum(int(reader.tensors("rows.safetensors", i)["rows"].sum()) for i in parts)
    context.progress(1, 1, "rows")
    context.out.json("total.json", value)
    time.sleep(DELAY)
    return {"total": value}


GENERATE, SHIFT = Step("generate", 1, "rows", generate), Step("shift", 1, "rows", shift)
TOTAL = Step("total", 1, "total", total)


def pipeline(runner: Runner, *, n: int = 3, offset: int = 0) -> Artifact:
    rows = runner.run(GENERATE, {}, Size(n))
    shifted = runner.map(SHIFT, {"rows": rows}, Size(offset=offset))
    return runner.run(TOTAL, {"rows": shifted}, Size())


if __name__ == "__main__":
    folder, n = sys.argv[1], int(sys.argv[2])
    DELAY = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    runner = Runner(Store(folder, Path(folder).parent / "cache"))
    content = pipeline(runner, n=n).content
    print(json.dumps({"content": content, "computed": sum(o.computed for o in runner.outcomes)}))
