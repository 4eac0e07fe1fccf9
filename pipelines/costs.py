"""What steps cost: CPU seconds and bytes, from a sample of the corpus and costs a unit of work.

The costs were measured on one machine and are scaled to this one by how fast it multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from models import (
    char_birnn,
    class_ngram,
    fasttext,
    glove,
    losses,
    ngram,
    nplm,
    ppmi,
    rnnlm,
    spelling_lm,
    word2vec,
)
from models.families import FamilyConfig
from models.family import KnowsItsSize, WantsVocabulary
from pipelines.config import RunConfig
from pipelines.sampling import Sample, speed
from pipelines.settings import Settings

MEBI = 2**20
REFERENCE_SPEED = 175e9
"""Floating-point operations a CPU second (``sampling.speed``) where the costs were measured."""

# CPU seconds a unit of work.
WINDOW = 9e-8  # an n-gram window and word of it: counting
CLASSIFY = 4e-9  # a distinct bigram, class and round of exchange
NGRAM = 1.3e-7  # a distinct n-gram and word of it: estimating
SWEEP = 8.7e-11  # a word visited, dimension and row met (``_rows``): word2vec
SUBWORD = 1.8e-10  # a word visited, dimension and row met (``_subword_rows``): fastText
PAIR = 3.5e-8  # a word and distance of the window: counting of co-occurrence
PAIR_SUM = 2e-7  # a pair of words that stand together: adding up partitions
RECORD = 1.4e-9  # a record and dimension: GloVe
PRODUCT = 2e-10  # an entry of a sparse matrix and dimension: PPMI
FLOP = 2.2e-11  # a floating-point operation of a neural model, with what is around it
DOUBLE = 5e-11  # the same in 64 bits, when text is scored
LETTERS = 8  # of a word, with its ends: models that read or spell it letter by letter
VECTOR_WIDTH = 300  # of word vectors, where their width is no setting
VECTOR = 4e-7  # a word and dimension: similarity and analogies
START_DIRECT, START_SERVERS = 5.0, 30.0  # imports and MLflow; Prefect and Ray
CARD = 1.0  # the card of the corpus; most of it identifies languages
PER_FAMILY = 1.0  # registration
COMPILING = {
    "ngram": 7.0,
    "class-ngram": 14.0,
    "word2vec": 3.0,
    "fasttext": 4.0,
    "nplm": 0.0,
    "rnnlm": 4.0,
    "glove": 6.0,
    "ppmi": 4.0,
}  # the kernels, once a home

# Bytes.
BASE, SERVERS = 620 * MEBI, 1400 * MEBI  # this process; Prefect, Ray and its workers besides
STEP = 80 * MEBI  # a step over one partition
NGRAM_WORK = 45.0  # a distinct n-gram and word of it, in memory
TRACKING = 6 * MEBI  # databases and kernels


@dataclass(frozen=True)
class Cost:
    """What a step takes: CPU seconds, how many threads they spread over, bytes."""

    seconds: float = 0.0
    threads: int = 1
    memory: float = 0.0
    disk: float = 0.0

    @property
    def wall(self) -> float:
        """Seconds on a quiet machine."""
        return self.seconds / self.threads


def step_costs(config: RunConfig, settings: Settings, sample: Sample) -> dict[str, Cost]:
    """What every step of a run costs that is not cached, by its name in lists."""
    slow = REFERENCE_SPEED / speed()
    threads = min(settings.threads, sample.partitions)
    costs = {
        name: Cost(
            step.seconds * sample.factor,
            1 if name.split(" ")[0] in ("dedup", "near", "types", "card") else threads,
            STEP,
            step.disk * sample.factor,
        )
        for name, step in sample.steps.items()
    }
    for split in ("valid", "test"):  # supplied ones go the same way as the training text
        for stage in ("ingest", "normalize", "filter", "dedup", "signatures", "near"):
            if f"{stage} train" in costs:
                costs.setdefault(f"{stage} {split}", costs[f"{stage} train"])
    costs["card"] = Cost(CARD * slow, 1, STEP, 20_000)
    for name, family in config.families.items():
        for step, cost in _family_costs(name, family, config, settings, sample):
            costs[step] = Cost(cost.seconds * slow, cost.threads, cost.memory, cost.disk)
    return costs


def _family_costs(
    name: str, family: FamilyConfig, config: RunConfig, settings: Settings, sample: Sample
) -> Iterable[tuple[str, Cost]]:
    wants = family.wants()["vocabulary"]
    assert isinstance(wants, WantsVocabulary)
    words = sample.n_types(wants.min_count)
    words = min(words, wants.max_size or words) + len(wants.reserved)
    tokens = sample.n_tokens("train")
    held_out = sum(sample.n_tokens(split) for split in config.evaluation.splits)
    yield f"vocabulary {family.family}", Cost(words * 1e-6, 1, STEP, words * 15)
    match family:
        case ngram.Config():
            yield from _ngram_costs(name, family, sample, held_out, settings)
        case class_ngram.Config():
            yield from _ngram_costs(name, family, sample, held_out, settings)
            seconds, memory = _clustering_costs(family, sample, words)
            estimating = sample.n_ngrams(family.order) * family.order
            yield (
                f"train {name}",
                Cost(
                    seconds + estimating * NGRAM, 1, memory + estimating * NGRAM_WORK, 12.0 * words
                ),
            )
        case word2vec.Config():
            work = family.dim * _rows(family, words)
            table = words * family.dim * 4.0
            visits = tokens * family.epochs
            memory = 4 * table + 4 * tokens + 20 * MEBI
            yield (
                f"train {name}",
                Cost(visits * work * SWEEP, settings.threads, memory, 4 * table),
            )
            yield f"evaluate {name}", _vectors_cost(words, family.dim)
        case fasttext.Config():
            rows = words + family.n_buckets
            work = family.dim * _subword_rows(family, words)
            visits = tokens * family.epochs
            table = 4.0 * family.dim * (rows + words)
            memory = 2.3 * table + 4 * tokens + 200.0 * words
            yield (
                f"train {name}",
                Cost(0.5 + visits * work * SUBWORD, settings.threads, memory, 2 * table),
            )
            yield f"evaluate {name}", _vectors_cost(words, family.dim)
        case nplm.Config():
            wide = family.context * family.embedding
            weights = family.n_weights(round(words))
            outputs = words if family.objective == "softmax" else family.noise
            into = family.hidden + wide * family.direct
            flops = 2.0 * (outputs * into + wide * family.hidden)
            scores = 2.0 * (words * into + wide * family.hidden)
            visits = (tokens + sample.n_sentences()) * family.epochs
            memory = 1.5 * family.training_bytes(round(words)) + losses.AT_ONCE + 150 * MEBI
            threads = settings.threads
            yield (
                f"train {name}",
                Cost(visits * 3 * flops * FLOP, threads, memory, 8 * weights),
            )
            scoring = Cost(held_out * scores * FLOP, 1, memory)
            vectors = _vectors_cost(words, family.embedding)
            yield (
                f"evaluate {name}",
                Cost(scoring.seconds + vectors.seconds, 1, vectors.memory, vectors.disk),
            )
        case rnnlm.Config():
            weights = family.n_weights(round(words))
            # Every weight but those that a word looks up takes part in a product.
            flops = 2.0 * (weights - (words * family.embedding if not family.tied else 0))
            visits = (tokens + sample.n_sentences()) * family.epochs
            memory = 1.5 * family.training_bytes(round(words)) + losses.AT_ONCE + 150 * MEBI
            yield (
                f"train {name}",
                Cost(visits * 3 * flops * FLOP, settings.threads, memory, 8 * weights),
            )
            vectors = _vectors_cost(words, family.embedding or family.units)
            double = held_out * flops * DOUBLE
            yield (
                f"evaluate {name}",
                Cost(double + vectors.seconds, 1, vectors.memory, vectors.disk),
            )
        case KnowsItsSize():
            met, letters = float(tokens + sample.n_sentences()), 1
            if isinstance(family, char_birnn.Config):
                met = sample.n_types(1)
            if isinstance(family, char_birnn.Config | spelling_lm.Config):
                letters = LETTERS
            # As if every weight took part in a product for every word, or letter.
            size = family.training_bytes(round(words))
            flops = 2.0 * letters * size / 16
            memory = 1.5 * size + losses.AT_ONCE + 150 * MEBI
            yield (
                f"train {name}",
                Cost(met * family.epochs * 3 * flops * FLOP, settings.threads, memory, size / 2),
            )
            vectors, double = _vectors_cost(words, VECTOR_WIDTH), held_out * flops * DOUBLE
            yield (
                f"evaluate {name}",
                Cost(double + vectors.seconds, 1, vectors.memory, vectors.disk),
            )
        case glove.Config():
            pairs = sample.n_pairs(family.window, family.min_count)
            yield from _pair_costs(sample, family.window, pairs, settings)
            records, table = 2 * pairs * family.epochs, words * family.dim * 4.0
            yield (
                f"train {name}",
                Cost(
                    records * family.dim * RECORD,
                    settings.threads,
                    9 * table + 14 * pairs + 90 * MEBI,
                    8 * table,
                ),
            )
            yield f"evaluate {name}", _vectors_cost(words, family.dim)
        case ppmi.Config():
            pairs = sample.n_pairs(family.window, family.min_count)
            yield from _pair_costs(sample, family.window, pairs, settings)
            width = family.dim + ppmi.OVERSAMPLING
            products = 2 * pairs * width * (2 * family.iterations + 2)
            seconds = products * PRODUCT + 8 * words * width**2 * family.iterations * FLOP
            memory = 28 * pairs + 40.0 * words * width
            yield f"train {name}", Cost(seconds, 1, memory, 8.0 * words * family.dim)
            yield f"evaluate {name}", _vectors_cost(words, family.dim)


def _pair_costs(
    sample: Sample, window: int, pairs: float, settings: Settings
) -> Iterable[tuple[str, Cost]]:
    """Of counting which words stand together: by partition, then added up."""
    threads = min(settings.threads, sample.partitions)
    counting = sample.n_tokens("train") * window * PAIR
    yield "pairs", Cost(0.25 + counting, threads, STEP + 150 * MEBI, 6 * pairs)
    yield "cooccurrence", Cost(0.25 + pairs * PAIR_SUM, 1, STEP + 100 * MEBI, 12 * pairs)


def _ngram_costs(
    name: str,
    family: ngram.Config | class_ngram.Config,
    sample: Sample,
    held_out: float,
    settings: Settings,
) -> Iterable[tuple[str, Cost]]:
    n, distinct = family.order, sample.n_ngrams(family.order)
    windows = sample.n_tokens("train") + sample.n_sentences()
    rows = distinct * (4 * n + 8)
    threads = min(settings.threads, sample.partitions)
    yield "ngrams", Cost(0.25 + windows * n * WINDOW, threads, STEP, min(rows * 1.3, windows * 28))
    # At most half a million rows a thread are in memory at a time; the rest lies on the disk.
    sorting = min(distinct, 1 << 19) * (8 * n + 32)
    yield "ngrams-map", Cost(distinct * n * WINDOW / 2, 1, STEP + sorting, 2 * rows)
    # With every order come the shorter n-grams of its own; MLflow keeps a copy of the model.
    model = distinct * max(14, 22 * n - 42)
    yield f"train {name}", Cost(distinct * n * NGRAM, 1, distinct * n * NGRAM_WORK, 2 * model)
    yield f"evaluate {name}", Cost(0.05 + held_out * 1e-6, 1, STEP, 4096)


def _clustering_costs(
    config: class_ngram.Config, sample: Sample, words: float
) -> tuple[float, float]:
    """Seconds and bytes; agglomeration, measured, costs a few rounds and a scan a word."""
    bigrams, classes = sample.n_ngrams(2), min(config.classes, words)
    rounds = 3 if config.clustering == "brown" else config.iterations
    seconds = bigrams * classes * rounds * CLASSIFY + words * classes**2 * 5e-10
    wide = words if config.clustering == "predictive-exchange" else classes
    return seconds, 60.0 * bigrams + 4.0 * wide * classes + 30.0 * classes**2


def _rows(config: word2vec.Config, words: float) -> float:
    """Rows of the tables that a word meets, counted by what one costs the default kernel.

    Measured: the other kernels take about twice as long for a row, and CBOW, which meets each
    target once, three times for each word of the window that goes into the sum and comes back.
    """
    match config.objective:
        case "softmax":
            targets = words
        case "hierarchical-softmax":
            targets = math.log2(max(2.0, words))
        case _:
            targets = 1.0 + config.negatives
    if config.architecture == "cbow":
        return 2 * targets + 3 * config.window
    default = config.objective == "negative-sampling"
    return config.window * targets * (1 if default else 2)


def _subword_rows(config: fasttext.Config, words: float) -> float:
    """Rows of the tables that a word of usual length meets: summed, moved and set against."""
    length = 8  # of most words that are left after thinning out, with their marks
    ngrams = sum(max(0, length - n + 1) for n in range(config.min_n, config.max_n + 1))
    own, targets = 1 + ngrams, 1.0 + config.negatives
    if config.objective == "hierarchical-softmax":
        targets = 2 * math.log2(max(2.0, words))
    if config.architecture == "cbow":
        return config.window * own / 2 + targets  # half, for they were just met; measured
    return own + config.window * (1 + (targets - 1) / config.shared_noise)


def _vectors_cost(words: float, dim: int) -> Cost:
    return Cost(0.4 + words * dim * VECTOR, 1, 64 * MEBI + 8 * words * dim, 10_000)
