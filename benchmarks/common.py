"""What the counting benchmarks share: a text as tokens in a store, child processes, a report."""

from __future__ import annotations

import datetime
import gzip
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from tasks.artifacts import Artifact, Stats
from tasks.step import Context, Step, execute
from tasks.store import Reader, Store
from tasks.tokenize import TOKENS, TYPES_SCHEMA, TYPES_TABLE

RESULTS = Path(__file__).parent / "results"
PARTITION_BYTES = 8 << 20


@dataclass(frozen=True)
class Text:
    """A text file."""

    path: str


def _tokenize(context: Context, readers: Mapping[str, Reader], params: Text) -> Stats:
    import pyarrow as pa
    import pyarrow.compute as pc

    with Path(params.path).open(encoding="utf-8") as file:
        partition = 0
        while lines := file.readlines(PARTITION_BYTES):
            text = pa.array([line.strip() for line in lines if line.strip()], pa.large_string())
            words = pc.split_pattern(text, " ")
            encoded = words.flatten().dictionary_encode()
            ids = encoded.indices.to_numpy().astype(np.int32)
            starts = np.append(0, np.cumsum(pc.list_value_length(words).to_numpy()))
            arrays = {"ids": ids, "starts": starts.astype(np.int64)}
            arrays["documents"] = np.arange(len(starts), dtype=np.int64)
            context.out.tensors(TOKENS, arrays, partition)
            table = pa.table([encoded.dictionary, pa.array(np.bincount(ids))], schema=TYPES_SCHEMA)
            context.out.table(TYPES_TABLE, table, partition)
            partition += 1
    return {}


def tokens_of(store: Store, text: Path) -> Artifact:
    """A text as tokens, words between spaces, every line a sentence and a document."""
    return execute(Step("given", 1, "tokens", _tokenize), store, {}, Text(str(text)))[0].handle()


def unpacked(text: Path, folder: Path) -> Path:
    """The text itself, unpacked into the folder if it is a .gz."""
    if text.suffix != ".gz":
        return text
    plain = folder / "corpus.txt"
    if not plain.exists():
        with gzip.open(text) as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out)
    return plain


def in_a_process(script: str, job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a script prints as its last line, as JSON, when it is run with a job."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, script, "--job", json.dumps(job)]
    output = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE).stdout
    figures = json.loads(output.decode().strip().splitlines()[-1])
    return {**figures, "process": time.perf_counter() - began, "load_before": load}


def timed(action: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The value of an action; its seconds, its CPU seconds in all threads, the peak memory."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = action()
    seconds = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return value, {**seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def machine() -> str:
    """The processor, the cores and the Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next((x.partition(": ")[2] for x in lines if x.startswith("model name")), "a CPU")
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def write(name: str, text: str, values: Mapping[str, Any]) -> None:
    """Keep a report as Markdown, its figures as JSON, and show it."""
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"{datetime.date.today()}-{name}"
    stem.with_suffix(".md").write_text(text)
    stem.with_suffix(".json").write_text(json.dumps(values, indent=1))
    print(text)
