"""Word vectors as a Parquet table: ``word``, ``count`` and ``vector``, a list of fixed size.

pandas, polars, DuckDB and Spark read it. Any word has a place in it, with spaces too.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from models.family import Model, Progress
from tasks.export.word2vec import blocks


def write_parquet(
    model: Model, path: Path, progress: Progress = lambda done, total, unit: None
) -> None:
    """Write the word vectors of a model, in the order of its vocabulary."""
    counts, done = model.vocabulary.counts, 0
    writer: pq.ParquetWriter | None = None
    for words, vectors in blocks(model, progress):
        width = vectors.shape[1]
        vector = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), width)
        columns = {
            "word": pa.array(words, pa.string()),
            "count": pa.array(counts[done : done + len(words)], pa.int64()),
            "vector": vector,
        }
        done += len(words)
        table = pa.table(columns)
        if writer is None:
            # Vectors hold no repetition that a dictionary could find.
            writer = pq.ParquetWriter(path, table.schema, compression="zstd", use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()
