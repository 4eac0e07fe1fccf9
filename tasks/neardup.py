"""Near-duplicates: of documents that say nearly the same, the first one stays.

Two documents are near-duplicates if they share enough of their shingles
(``models.kernels.minhash`` says what that is); near-duplicates of near-duplicates belong to one
cluster. Signatures are a step of every partition, so a new file computes its own only. Candidates
are found by locality-sensitive hashing (Indyk & Motwani 1998; Leskovec, Rajaraman & Ullman, "Mining
of massive datasets", ch. 3): documents that agree in any *band* of their signatures, a bucket; they
are near-duplicates if the signatures agree in a share of at least the threshold.

One core signs 520,000 documents of 110 bytes a second, or 75,000 of 1 kB, and compares the
signatures of 400,000 (measured on English novels, with the default settings).

What a document is does not depend on its partition: clusters are told by signatures, which depend
on text alone, and the first of a cluster by the canonical order of the corpus.

Parts of an artifact of kind "signatures"::

    signatures.safetensors  signatures uint32 (N, K), bands uint64 (B, N)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from tasks.artifacts import Stats
from tasks.dedup import KEPT
from tasks.normalize import DOCUMENTS
from tasks.step import Context, Step
from tasks.store import Reader

SIGNATURES = "signatures.safetensors"
MISSED = 0.01
"""Documents exactly as similar as the threshold are no candidates with this probability."""
_LEADERS = 256
"""A document is held against so many different ones of a bucket at most."""
_ROWS = 1 << 17
"""Signatures that are in memory at once, about."""


@dataclass(frozen=True)
class NearDuplicates:
    """When two documents are nearly the same."""

    threshold: Annotated[
        float, Field(gt=0, le=1, description="Share of the shingles that they have in common")
    ] = 0.8
    permutations: Annotated[
        int, Field(ge=16, le=4096, description="Places of a signature; more are more exact")
    ] = 128
    shingle: Annotated[int, Field(ge=1, le=64, description="Words of a shingle")] = 5

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    @property
    def rows(self) -> int:
        """Places of a band: as many as let no more than ``MISSED`` slip through."""
        missed = [
            (1 - self.threshold**r) ** (self.permutations // r)
            for r in range(1, self.permutations + 1)
        ]
        return max((r for r, chance in enumerate(missed, 1) if chance <= MISSED), default=1)

    @property
    def bands(self) -> int:
        """Bands of a signature."""
        return self.permutations // self.rows


def sign(context: Context, readers: Mapping[str, Reader], params: NearDuplicates) -> Stats:
    """Sign the documents of a partition."""
    from models.kernels.minhash import band_keys, functions, signatures

    texts = readers["documents"].table(DOCUMENTS)["text"].combine_chunks()
    data, ends = _utf8(texts)
    a, b = functions(params.permutations)
    signs = signatures(data, ends, params.shingle, a, b)
    keys = band_keys(signs, params.bands, params.rows)
    context.out.tensors(SIGNATURES, {"signatures": signs, "bands": keys})
    return {"documents": len(texts)}


SIGN: Step[NearDuplicates] = Step("signatures", 1, "signatures", sign)


def _utf8(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of strings, and (N + 1,) where each of them begins and the last one ends."""
    if not isinstance(texts, pa.LargeStringArray) or not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return (np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)), ends


def drop_near(context: Context, readers: Mapping[str, Reader], params: NearDuplicates) -> Stats:
    """Mark the documents that stay, of those that deduplication kept."""
    before = readers["kept"].tensors
    n_partitions = readers["kept"].n_partitions
    kept = [before(KEPT, i)["kept"] for i in range(n_partitions)]
    mapped = [readers["signatures"].tensors(SIGNATURES, i) for i in range(n_partitions)]
    stays = _first_of_clusters(np.concatenate(kept), mapped, params, context)
    for i, part in enumerate(np.split(stays, np.cumsum([len(part) for part in kept])[:-1])):
        context.out.tensors(KEPT, {"kept": part}, i)
    n_before, n_after = sum(int(part.sum()) for part in kept), int(stays.sum())
    return {"read": n_before, "kept": n_after, "dropped.near_duplicate": n_before - n_after}


NEAR: Step[NearDuplicates] = Step("near", 1, "kept", drop_near)


def _first_of_clusters(
    kept: NDArray[np.bool_],
    mapped: list[dict[str, NDArray[Any]]],
    params: NearDuplicates,
    context: Context,
) -> NDArray[np.bool_]:
    """(N,) whether a document was kept before and is the first of its cluster."""
    from models.kernels.minhash import join

    parents = np.arange(len(kept))
    bases = np.cumsum([0, *(part["signatures"].shape[0] for part in mapped)])
    # Whatever is exactly at the threshold is above it, in spite of rounding.
    agreeing = math.ceil(params.threshold * params.permutations - 1e-9)
    for band in range(params.bands):
        keys = np.concatenate([np.asarray(part["bands"][band]) for part in mapped])
        for documents, starts in _buckets(np.flatnonzero(kept & (keys != 0)), keys):
            signs = _rows(mapped, bases, documents)
            join(parents, documents, starts, signs, agreeing, _LEADERS)
        context.progress(band + 1, params.bands, "bands")
    # The root of a cluster is its first document.
    first: NDArray[np.bool_] = kept & (parents == np.arange(len(kept)))
    return first


def _buckets(
    documents: NDArray[np.int64], keys: NDArray[np.uint64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Documents with equal keys side by side, and where each bucket begins; in handy portions."""
    order = documents[np.argsort(keys[documents], kind="stable")]
    ranked = keys[order]
    edges = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1], [True]]))
    if not len(order):
        return
    begins, ends = edges[:-1], edges[1:]
    begins, ends = begins[ends - begins > 1], ends[ends - begins > 1]
    sizes = ends - begins
    portion = np.cumsum(sizes) // _ROWS
    for chosen in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(portion)) + 1):
        if len(chosen):
            taken = [order[begins[i] : ends[i]] for i in chosen]
            starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[chosen])])
            yield np.concatenate(taken), starts


def _rows(
    mapped: list[dict[str, NDArray[Any]]], bases: NDArray[np.int64], documents: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """(M, K) the signatures of documents by their place in the corpus."""
    rows = np.empty((len(documents), mapped[0]["signatures"].shape[1]), np.uint32)
    partitions = np.searchsorted(bases, documents, side="right") - 1
    for i in np.unique(partitions):
        here = partitions == i
        rows[here] = mapped[i]["signatures"][documents[here] - bases[i]]
    return rows
