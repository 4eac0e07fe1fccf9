"""word2vec, fastText, GloVe as batched products of matrices in torch: for GPUs. Untested on CUDA.

Nothing here depends on the device: the tests run it on ``cpu``; ``batched_reference`` says the same
plainly. No GPU was at hand when it was written, so neither its speed nor its run on ``cuda`` has
been seen; there sums over equal rows are added in any order, so runs differ in the last bits.

A batch reads all its rows before it writes any. For words it is many windows in groups; those of a
group share their noise words (as windows do in ``sgns``; Ji et al. 2016, arXiv:1604.04661; a group
of many is BlazingText's, Gupta and Khare 2017), so logits and gradients are products of matrices,
one for each group. Each of the ``N`` noise words of a group counts ``K / N``, so that all count as
much as ``K`` do.

A row that is met many times in a batch would take as many steps from one place at once and
overshoot. So its summed gradient counts ``min(1, limit / n)``, where ``n`` is how often it was met:
up to ``limit`` times the sum, from there on ``limit`` times the mean.

A word of fastText is the mean of some rows, its bag; each row of it gains what the word does, as in
the original program. A batch puts each distinct word together once.

Shapes: ``V`` vocabulary, ``D`` width, ``B`` windows of a batch, ``C`` places of a window, ``G``
groups, ``N`` noise words of a group, ``h`` hidden vectors of a group, ``R`` records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from models.family import SweepStats, SweptTable
from models.kernels.sampling import SURE, keep_chances
from models.kernels.windows import Pooling
from models.text import Pairs, Sentences

if TYPE_CHECKING:
    from models import fasttext, word2vec

BATCH = 4096
"""Windows of a batch."""
GROUP = 32
"""Windows that share their noise words."""
NOISE = 32
"""Noise words of a group."""
LIMIT = 16.0
"""See the module."""
RECORDS = 1 << 14
"""Records of a batch."""


@dataclass(frozen=True, eq=False)
class Windows:
    """A batch of windows.

    Attributes:
        centres: (B,) words.
        contexts: (B, C) words.
        there: (B, C) float, 1 where a place of the window holds a word, else 0.
        noise: (G, N) noise words; B is a multiple of G.
    """

    centres: Tensor
    contexts: Tensor
    there: Tensor
    noise: Tensor


@dataclass(frozen=True, eq=False)
class Bags:
    """The rows that make up each word of fastText.

    Attributes:
        starts: (V + 1,) where the rows of each word begin.
        rows: rows of the input table.
    """

    starts: Tensor
    rows: Tensor

    @staticmethod
    def on(device: str, starts: NDArray[np.integer], rows: NDArray[np.integer]) -> Bags:
        """The same on a device."""
        begin, made_of = (torch.tensor(array, device=device).long() for array in (starts, rows))
        return Bags(begin, made_of)

    def of(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of some words back to back, and which of the words each belongs to."""
        sizes = self.starts[words + 1] - self.starts[words]
        owner = torch.repeat_interleave(torch.arange(len(words), device=words.device), sizes)
        first = (sizes.cumsum(0) - sizes)[owner]
        within = torch.arange(len(owner), device=words.device) - first
        return self.rows[self.starts[words][owner] + within], owner


def train_windows(
    inputs: Tensor,
    outputs: Tensor,
    batch: Windows,
    *,
    negatives: int,
    pooling: Pooling,
    rate: float,
    limit: float,
    bags: Bags | None = None,
) -> tuple[Tensor, Tensor]:
    """Train on a batch, in place.

    Args:
        inputs: (V, D) word vectors; with bags the rows that these are made of.
        outputs: (V, D) vectors of words as targets.
        batch: see ``Windows``.
        negatives: K.
        pooling: what the hidden vectors are, the words of a window each or what they make together.
        rate: the learning rate.
        limit: see the module.
        bags: of fastText, what its words are made of; pooling is then "none" or "mean".

    Returns:
        the number of examples and their summed loss in nats, scalars.
    """
    there = batch.there
    groups, n_noise = batch.noise.shape
    if bags is None:
        x, sizes = inputs[batch.contexts], torch.ones_like(there)
    else:
        words, place = torch.unique(batch.contexts, return_inverse=True)
        rows, owner = bags.of(words)
        x = inputs.new_zeros(len(words), inputs.shape[1]).index_add_(0, owner, inputs[rows])[place]
        sizes = torch.bincount(owner, minlength=len(words))[place].to(there.dtype)
    mean = pooling in ("mean", "corrected-mean")
    share = there / (there * sizes).sum(1, keepdim=True).clamp(min=1) if mean else there
    if pooling == "none":
        hidden, counted = x / sizes[:, :, None], there  # (B, C, D)
    else:
        hidden = (x * share[:, :, None]).sum(1, keepdim=True)  # (B, 1, D)
        counted = there.amax(1, keepdim=True)
    targets, u = outputs[batch.centres][:, None], outputs[batch.noise]
    yes = (hidden * targets).sum(2)
    flat = hidden.reshape(groups, -1, hidden.shape[2])  # (G, h, D)
    no = flat @ u.transpose(1, 2)  # (G, h, N)
    label = batch.centres[:, None].expand(yes.shape).reshape(groups, -1, 1)
    weight = (label != batch.noise[:, None]) * counted.reshape(groups, -1, 1)
    weight = weight * (negatives / n_noise)
    loss = (counted * softplus(-yes)).sum() + (weight * softplus(no)).sum()

    pull = rate * counted * torch.sigmoid(-yes)
    push = -rate * weight * torch.sigmoid(no)
    change = pull[:, :, None] * targets + (push @ u).reshape(hidden.shape)
    back = share if pooling == "corrected-mean" else there
    to_targets = (pull[:, :, None] * hidden).sum(1)
    to_noise = push.transpose(1, 2) @ flat
    gain = back[:, :, None] * change
    if bags is None:
        _add(inputs, [(batch.contexts, gain, there)], limit)
    else:
        by_word = gain.new_zeros(len(words), gain.shape[2])
        by_word.index_add_(0, place.flatten(), gain.flatten(0, 1))
        met = there.new_zeros(len(words)).index_add_(0, place.flatten(), there.flatten())
        _add(inputs, [(rows, by_word[owner], met[owner])], limit)
    _add(
        outputs,
        [(batch.centres, to_targets, counted.sum(1)), (batch.noise, to_noise, weight.sum(1))],
        limit,
    )
    return counted.sum(), loss


def _add(table: Tensor, parts: Sequence[tuple[Tensor, Tensor, Tensor]], limit: float) -> None:
    """Add to rows, in place: of each part the rows, what they gain, how often that was met."""
    met = table.new_zeros(len(table))
    for rows, _, times in parts:
        met.index_add_(0, rows.flatten(), times.flatten())
    scale = (limit / met.clamp(min=limit)).to(table.dtype)
    for rows, gain, _ in parts:
        flat = rows.flatten()
        table.index_add_(0, flat, gain.reshape(len(flat), -1) * scale[flat][:, None])


def train_records(
    sides: Sequence[Mapping[str, Tensor]],
    rows: Sequence[Tensor],
    logs: Tensor,
    weights: Tensor,
    *,
    rate: float,
    limit: float,
) -> Tensor:
    """Train GloVe on R records, in place; AdaGrad by the gradient of the batch.

    Args:
        sides: of words and of contexts ``vectors`` (V, D), ``biases`` (V,), and their
            ``vector_squares`` and ``bias_squares``.
        rows: of the words and of the contexts, (R,) each.
        logs: (R,) logarithms of what is to be met.
        weights: (R,) of the records.
        rate: of vectors; that of biases is 1.
        limit: see the module.

    Returns:
        the summed loss, a scalar.
    """
    vectors = [side["vectors"][each] for side, each in zip(sides, rows, strict=True)]
    biases = [side["biases"][each] for side, each in zip(sides, rows, strict=True)]
    difference = (vectors[0] * vectors[1]).sum(1) + biases[0] + biases[1] - logs
    slope = weights * difference
    for side, each, other in zip(sides, rows, reversed(vectors), strict=True):
        found, place, met = torch.unique(each, return_inverse=True, return_counts=True)
        scale = limit / met.to(slope.dtype).clamp(min=limit)
        gradient = other.new_zeros((len(found), other.shape[1]))
        gradient.index_add_(0, place, slope[:, None] * other)
        bias = slope.new_zeros(len(found)).index_add_(0, place, slope)
        _step(side["vectors"], side["vector_squares"], found, rate * gradient * scale[:, None])
        _step(side["biases"], side["bias_squares"], found, bias * scale)
    return (slope * difference).sum()


def _step(table: Tensor, squares: Tensor, rows: Tensor, step: Tensor) -> None:
    """AdaGrad; a square counts at once, so that no first step of a large batch is large."""
    squares[rows] += step * step
    table[rows] -= step / squares[rows].sqrt()


# --- sweeps ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Words:
    """The tables of word2vec or fastText on a device, and what sweeps over them need.

    Attributes:
        inputs: (V, D) float32; of fastText (V + buckets, D).
        outputs: (V, D) float32.
        keep: (V,) float64, the chance of each word to be kept.
        noise: (V,) float64, the cumulative distribution of noise words.
        window: words on each side, at most.
        negatives: K.
        pooling: what the hidden vectors are.
        rates: the learning rate at the start and at the end of a run.
        bags: of fastText, the rows of each word.
        busy: rows of ``inputs``, the busiest first; None where they are in this order.
    """

    inputs: Tensor
    outputs: Tensor
    keep: Tensor
    noise: Tensor
    window: int
    negatives: int
    pooling: Pooling
    rates: tuple[float, float]
    bags: Bags | None = None
    busy: NDArray[np.int64] | None = None

    @staticmethod
    def of(
        tables: tuple[NDArray[np.float32], NDArray[np.float32]],
        counts: NDArray[np.int64],
        config: word2vec.Config | fasttext.Config,
        pooling: Pooling,
        device: str,
    ) -> Words:
        """Copies of both tables on a device; counts (V,) are those of the training text.

        Raises:
            ValueError: the objective is not negative sampling.
        """
        if config.objective != "negative-sampling":
            raise ValueError(f"{config.family} trains by {config.objective} on a CPU only")
        shares = np.cumsum(counts.astype(np.float64) ** config.noise_power)
        keep = (keep_chances(counts, config.sample).astype(np.float64) + 1) / (SURE + 1)
        return Words(
            torch.tensor(tables[0], device=device),
            torch.tensor(tables[1], device=device),
            torch.tensor(keep, device=device),
            torch.tensor(shares / shares[-1], device=device),
            config.window,
            config.negatives,
            pooling,
            (config.learning_rate, config.min_learning_rate),
        )

    def swept_tables(self) -> Mapping[str, SweptTable]:
        """Both tables, tensors on the device."""
        return {"input": SweptTable(self.inputs, self.busy), "output": SweptTable(self.outputs)}

    def sweep(
        self, chunk: Sentences, *, seed: int, done: float, until: float, threads: int
    ) -> SweepStats:
        """See ``models.family.Sweeps``; the rate is the same for all of a batch."""
        device = self.inputs.device
        generator = torch.Generator(device).manual_seed(seed >> 1)
        ids, sentences = self._thin(chunk, generator)
        totals = torch.zeros(2, dtype=torch.float64, device=device)
        first, last = self.rates
        for start in range(0, len(ids), BATCH):
            share = done + (until - done) * start / len(ids)
            found = train_windows(
                self.inputs,
                self.outputs,
                self._windows(ids, sentences, start, generator),
                negatives=self.negatives,
                pooling=self.pooling,
                rate=first + (last - first) * share,
                limit=LIMIT,
                bags=self.bags,
            )
            totals += torch.stack(found)
        examples, loss = totals.tolist()
        rate = first + (last - first) * until
        return SweepStats(len(chunk.ids), len(ids), int(examples), loss, rate)

    def _thin(self, chunk: Sentences, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The words that are kept, and the sentence of each."""
        device = self.inputs.device
        ids = torch.as_tensor(chunk.ids, device=device).long()
        lengths = torch.as_tensor(np.diff(chunk.starts), device=device)
        sentences = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
        random = torch.rand(len(ids), generator=generator, device=device, dtype=torch.float64)
        kept = (ids >= 0) & (random < self.keep[ids.clamp(min=0)])
        return ids[kept], sentences[kept]

    def _windows(
        self, ids: Tensor, sentences: Tensor, start: int, generator: torch.Generator
    ) -> Windows:
        """The batch that begins at a word; where the text has ended its windows are empty."""
        device, n = ids.device, len(ids)
        on: dict[str, Any] = {"generator": generator, "device": device}
        at = torch.arange(start, start + BATCH, device=device)
        reach = torch.randint(1, 1 + self.window, (BATCH, 1), **on)
        sides = torch.arange(1, 1 + self.window, device=device)
        offsets = torch.cat([-sides.flip(0), sides])
        places = at[:, None] + offsets
        inside = (places >= 0) & (places < n) & (at < n)[:, None] & (offsets.abs() <= reach)
        at, places = at.clamp(max=n - 1), places.clamp(0, n - 1)
        there = inside & (sentences[places] == sentences[at][:, None])
        draws = torch.rand((BATCH // GROUP, NOISE), dtype=torch.float64, **on)
        noise = torch.searchsorted(self.noise, draws).clamp(max=len(self.noise) - 1)
        return Windows(ids[at], ids[places], there.to(self.inputs.dtype), noise)


@dataclass(frozen=True, eq=False)
class Cooccurrences:
    """The arrays of GloVe on a device, by the names that the model gives them."""

    arrays: Mapping[str, Tensor]
    x_max: float
    alpha: float
    rate: float

    @staticmethod
    def of(
        arrays: Mapping[str, NDArray[np.float32]],
        x_max: float,
        alpha: float,
        rate: float,
        device: str,
    ) -> Cooccurrences:
        """Copies of the arrays on a device."""
        copies = {name: torch.tensor(array, device=device) for name, array in arrays.items()}
        return Cooccurrences(copies, x_max, alpha, rate)

    def swept_tables(self) -> Mapping[str, SweptTable]:
        """All arrays, tensors on the device; sums of squares add up over workers."""
        return {
            name: SweptTable(tensor, adds_up=name.endswith("squares"))
            for name, tensor in self.arrays.items()
        }

    def sweep(
        self, chunk: Pairs, *, seed: int, done: float, until: float, threads: int
    ) -> SweepStats:
        """See ``models.family.Sweeps``; AdaGrad slows down by itself, whatever is done."""
        device = next(iter(self.arrays.values())).device
        sides = [self._side("input"), self._side("output")]
        loss, records = torch.zeros((), dtype=torch.float64, device=device), 0
        for rows, columns, logs in self._batches(chunk, seed, device):
            weights = (self.alpha * (logs - np.log(self.x_max)).clamp(max=0)).exp()
            loss += train_records(
                sides, (rows, columns), logs, weights, rate=self.rate, limit=LIMIT
            )
            records += len(rows)
        return SweepStats(records, records, records, float(loss), self.rate)

    def _side(self, side: str) -> Mapping[str, Tensor]:
        kinds = ("vectors", "biases", "vector_squares", "bias_squares")
        return {kind: self.arrays[f"{side}_{kind}"] for kind in kinds}

    def _batches(
        self, chunk: Pairs, seed: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, columns and logarithms in random order; both records of a pair together."""
        generator = torch.Generator(device).manual_seed(seed >> 1)
        rows, columns = (
            torch.as_tensor(array, device=device).long() for array in (chunk.rows, chunk.columns)
        )
        logs = torch.as_tensor(np.log(chunk.weights).astype(np.float32), device=device)
        order = torch.randperm(len(rows), generator=generator, device=device)
        size = RECORDS // 2 if chunk.symmetric else RECORDS
        for first in range(0, len(order), size):
            some = order[first : first + size]
            i, j, log = rows[some], columns[some], logs[some]
            if chunk.symmetric:
                both = i != j
                i, j = torch.cat([i, j[both]]), torch.cat([j, i[both]])
                log = torch.cat([log, log[both]])
            yield i, j, log
