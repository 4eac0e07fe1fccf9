"""Product quantization of a table of vectors: k-means for every group of columns.

See ``models.quantized`` for what is made and where it comes from. The centroids of a sub-vector
are those of Lloyd's algorithm (1982) from rows drawn at random, on at most ``SAMPLE`` rows; a
centroid that lost all its rows takes the row that is farthest from its own. Sub-vectors are
independent, so threads share nothing and change nothing.

Shapes: ``V`` rows, ``D`` width, ``M`` sub-vectors, ``K`` centroids, ``w`` width of a sub-vector.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from models.quantized import Codes, Config, Quantized, Table, bounds

SAMPLE = 1 << 16
"""Rows that centroids are learnt from: 256 for each of 256."""
ROUNDS = 25
"""Of Lloyd's algorithm, at most; it is at rest earlier on small tables."""
GRAIN = 1 << 20
"""Entries of a rotation are multiples of one over this. What threads of a linear algebra library
do to the last bits of eigenvectors is rounded away, and so never reaches the codes."""


def quantize(
    table: Table,
    config: Config,
    *,
    seed: int,
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Quantized:
    """The codes of a table.

    Args:
        table: (V, D) float32, finite.
        config: its ``dim``, ``sub_vectors`` and ``centroids`` fit the table; V is no less than the
            centroids.
        seed: of the rows that centroids begin as and are learnt from.
        threads: work on a sub-vector each; they do not change the result.
        progress: told how many sub-vectors are done, and of how many.
    """
    draw = np.random.default_rng(seed)
    sample = np.sort(draw.choice(len(table), min(SAMPLE, len(table)), replace=False))
    rotation = None
    if config.rotation:
        some = _directions(table[sample]) if config.norms else table[sample]
        rotation = balanced_rotation(some, config.sub_vectors)
    rows = _prepared(table, rotation, norms=config.norms)
    parts = bounds(config.dim, config.sub_vectors)
    codes = np.empty((len(rows), len(parts)), np.uint8)
    centroids = np.empty((config.centroids, config.dim), np.float32)

    def one(place: int) -> None:
        columns = np.ascontiguousarray(rows[:, parts[place]])
        found = kmeans(columns[sample], config.centroids, seed=[seed, place])
        codes[:, place] = nearest(columns, found)[0]
        centroids[:, parts[place]] = found

    with ThreadPoolExecutor(threads) as pool:
        for done, _ in enumerate(pool.map(one, range(len(parts))), 1):
            progress(done, len(parts))
    quantized = Quantized(codes, centroids, rotation=rotation)
    return _with_scales(quantized, table, config, seed) if config.norms else quantized


def _with_scales(quantized: Quantized, table: Table, config: Config, seed: int) -> Quantized:
    """The same with the factor of every row that takes what is decoded closest to the row."""
    best = np.empty((len(table), 1), np.float32)
    for first in range(0, len(table), SAMPLE):
        ids = np.arange(first, min(first + SAMPLE, len(table)))
        decoded = quantized.rows(ids)
        squares = np.einsum("nd,nd->n", decoded, decoded, dtype=np.float64)
        products = np.einsum("nd,nd->n", table[ids], decoded, dtype=np.float64)
        best[ids, 0] = products / np.where(squares == 0, 1, squares)
    scales = kmeans(best, config.centroids, seed=[seed, config.sub_vectors])
    codes = nearest(best, scales)[0]
    return Quantized(quantized.codes, quantized.centroids, codes, scales[:, 0], quantized.rotation)


def _directions(table: Table) -> Table:
    lengths = np.sqrt(np.einsum("nd,nd->n", table, table, dtype=np.float64))
    return table / np.where(lengths == 0, 1, lengths).astype(np.float32)[:, None]


def _prepared(table: Table, rotation: Table | None, *, norms: bool) -> Table:
    """The rows as they are cut: at length 1, and turned.

    Products are made in float64, whose last bits, which threads change, are lost in float32.
    """
    if not norms and rotation is None:
        return table
    rows = np.empty_like(table)
    for first in range(0, len(table), SAMPLE):
        part = table[first : first + SAMPLE]
        part = _directions(part) if norms else part
        turned = part if rotation is None else part.astype(np.float64) @ rotation.astype(np.float64)
        rows[first : first + SAMPLE] = turned
    return rows


# --- k-means --------------------------------------------------------------------------------


def kmeans(rows: Table, n: int, *, seed: int | list[int], rounds: int = ROUNDS) -> Table:
    """(n, w) centroids of (N, w) float32 rows, N no less than n; the same for the same seed."""
    from models.kernels.quantization import add_up

    start = np.random.default_rng(seed).choice(len(rows), n, replace=False)
    centroids, before = rows[start], None
    for _ in range(rounds):
        codes, distances = nearest(rows, centroids)
        if before is not None and np.array_equal(codes, before):
            break
        totals, counts = np.zeros(centroids.shape), np.zeros(n, np.int64)
        add_up(rows, codes, totals, counts)
        filled = counts > 0
        centroids[filled] = totals[filled] / counts[filled, None]
        if not filled.all():
            empty = np.flatnonzero(~filled)
            centroids[empty] = rows[np.argsort(-distances, kind="stable")[: len(empty)]]
        before = codes
    return centroids


def nearest(rows: Table, centroids: Table) -> tuple[Codes, Table]:
    """(N,) the number of the nearest centroid, and (N,) the squared distance to it."""
    from models.kernels.quantization import LANES, assign

    n = -len(centroids) % LANES
    columns = np.pad(centroids.T, ((0, 0), (0, n)))
    squares = np.einsum("kw,kw->k", centroids, centroids)
    halves = np.pad(squares / np.float32(2), (0, n), constant_values=np.inf)
    codes, least = np.empty(len(rows), np.uint8), np.empty(len(rows), np.float32)
    assign(rows, np.ascontiguousarray(columns), halves, codes, least)
    return codes, np.maximum(0, 2 * least + np.einsum("nw,nw->n", rows, rows))


# --- rotation -------------------------------------------------------------------------------


def balanced_rotation(rows: Table, sub_vectors: int) -> Table:
    """(D, D) the rotation under which sub-vectors are independent and equally hard to quantize.

    Its columns are the principal directions of the rows. From the one with most variance on, each
    goes to the sub-vector with room whose variances have the least product so far.
    """
    dim = rows.shape[1]
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(rows))
    logs = np.log(np.maximum(variances, 1e-12 * max(variances[-1], 1e-30)))
    logs -= logs.min()  # no factor below 1, so that a full sub-vector is no emptier than another
    parts = bounds(dim, sub_vectors)
    room = [part.stop - part.start for part in parts]
    filled, chosen = [0.0] * len(parts), [list[int]() for _ in parts]
    for axis in reversed(range(dim)):
        open_places = (place for place in range(len(parts)) if len(chosen[place]) < room[place])
        place = min(open_places, key=lambda place: (filled[place], place))
        chosen[place].append(axis)
        filled[place] += float(logs[axis])
    axes = [axis for places in chosen for axis in places]
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(dim)])
    rotation = (directions * signs)[:, axes]
    rounded: Table = (np.rint(rotation * GRAIN) / GRAIN).astype(np.float32)
    return rounded
