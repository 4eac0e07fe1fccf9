"""The two inner loops of k-means on short vectors; rounding is the same on every machine.

No sum is reordered and nothing is fused, so codes depend neither on threads nor on the processor.

Shapes: ``N`` rows, ``w`` their width, ``K`` centroids, a multiple of ``LANES``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.kernels.lanes import compiled

LANES = 16


@compiled
def assign(rows: Any, centroids: Any, halves: Any, codes: Any, nearest: Any) -> None:
    """The nearest centroid of every row; of equally near ones the first.

    Args:
        rows: (N, w) float32.
        centroids: (w, K) float32, a centroid a column.
        halves: (K,) float32, half the squared length of each; infinite for columns to pass over.
        codes: (N,) uint8, written.
        nearest: (N,) float32, written: half the squared distance, less half the row's own square.
    """
    scores = np.empty(len(halves), np.float32)
    best = np.empty(LANES, np.float32)
    blocks = np.empty(LANES, np.int32)
    for i in range(len(rows)):
        for k in range(len(halves)):
            scores[k] = halves[k]
        for j in range(rows.shape[1]):
            x = rows[i, j]
            for k in range(len(halves)):
                scores[k] -= x * centroids[j, k]
        # The least of each lane first, as vectors can tell; then the least of the lanes.
        for lane in range(LANES):
            best[lane], blocks[lane] = scores[lane], 0
        for block in range(1, len(halves) // LANES):
            for lane in range(LANES):
                score = scores[block * LANES + lane]
                less = score < best[lane]
                best[lane] = score if less else best[lane]
                blocks[lane] = np.int32(block) if less else blocks[lane]
        winner = 0
        for lane in range(1, LANES):
            first = blocks[lane] * LANES + lane < blocks[winner] * LANES + winner
            if best[lane] < best[winner] or (best[lane] == best[winner] and first):
                winner = lane
        codes[i] = blocks[winner] * LANES + winner
        nearest[i] = best[winner]


@compiled
def add_up(rows: Any, codes: Any, totals: Any, counts: Any) -> None:
    """Add every row to the total of its code, in the order of rows.

    Args:
        rows: (N, w) float32.
        codes: (N,) uint8.
        totals: (K, w) float64.
        counts: (K,) int64.
    """
    for i in range(len(rows)):
        code = codes[i]
        counts[code] += 1
        for j in range(rows.shape[1]):
            totals[code, j] += rows[i, j]
