"""The recipe of the table in Bengio et al. (2003): the classical models on the Brown corpus.

Every row of the paper's table 1 is a model here by the paper's shape, trained by our means: what a
row has from the paper is what it is (order, classes, context, widths, direct connections), not how
it was optimized. Beside them stand rows of our own, which have no published figure.
"""

from __future__ import annotations

from pathlib import Path

from models import ngram, nplm
from models.families import FamilyConfig
from pipelines.config import RunConfig
from tasks.brown import SPLITS
from tasks.corpus import CorpusConfig
from tasks.evaluation import EvaluationConfig
from tasks.published import Published
from tasks.sources import Source
from tasks.tokenize import Tokenize

MIN_COUNT = 4
"""Words seen three times or less in the training text are one, as in the paper."""

BENGIO_2003: dict[str, tuple[int, int]] = {
    "deleted-interpolation-3": (352, 336),
    "kneser-ney-3": (334, 323),
    "kneser-ney-4": (332, 321),
    "kneser-ney-5": (332, 321),
    "class-150": (348, 334),
    "class-200": (354, 340),
    "class-500": (326, 312),
    "class-1000": (335, 319),
    "class-2000": (343, 326),
    "class-500-4": (327, 312),
    "class-500-5": (327, 312),
    "mlp1": (284, 268),
    "mlp2": (275, 257),
    "mlp3": (327, 310),
    "mlp4": (286, 272),
    "mlp5": (296, 279),
    "mlp6": (273, 259),
    "mlp7": (309, 293),
    "mlp8": (284, 270),
    "mlp9": (280, 276),
    "mlp10": (265, 252),
}
"""Table 1 of the paper: perplexity of validation and test text, by our names of its rows."""

NOTES = (
    "The paper counts 1,181,041 tokens and 16,383 words, of all its text; this edition has "
    "1,161,192 tokens, and ours are the words seen more than three times in the training text, "
    "the others being one word; sentence ends are predicted and counted, which the paper leaves "
    "open.",
    "The paper's Kneser-Ney backs off, ours interpolates; its neural models read on over the ends "
    "of sentences, all of ours begin anew with each.",
)


def brown(folder: Path) -> RunConfig:
    """Every row of the table, over ``train.txt``, ``valid.txt`` and ``test.txt`` of a folder."""
    train, valid, test = (Source(paths=(str(folder / f"{split}.txt"),)) for split in SPLITS)
    return RunConfig(
        corpus=CorpusConfig(
            name="brown",
            train=train,
            valid=valid,
            test=test,
            deduplicate=False,  # sentences that occur twice are part of the text
            tokenize=Tokenize(scheme="whitespace"),
        ),
        families=rows(),
        evaluation=EvaluationConfig(splits=("valid", "test")),
        published=Published(
            source="Bengio, Ducharme, Vincent and Jauvin 2003, table 1",
            against="kneser-ney-5",
            notes=NOTES,
            scores={
                name: {"perplexity.valid": valid, "perplexity.test": test}
                for name, (valid, test) in BENGIO_2003.items()
            },
        ),
    )


def rows() -> dict[str, FamilyConfig]:
    """The models by name."""
    n_grams: dict[str, FamilyConfig] = {
        f"kneser-ney-{n}": ngram.Config(order=n, min_count=MIN_COUNT) for n in (3, 4, 5)
    }
    return n_grams | {
        "mlp1": mlp(context=4, hidden=50, embedding=60, direct=True),
        "mlp5": mlp(context=4, hidden=50, embedding=30, direct=True),
        "mlp7": mlp(context=2, hidden=50, embedding=30, direct=True),
        "mlp9": mlp(context=4, hidden=100, embedding=30, direct=False),
    }


def mlp(*, context: int, hidden: int, embedding: int, direct: bool) -> nplm.Config:
    """A neural model of the paper's shape."""
    return nplm.Config(
        context=context,
        hidden=hidden,
        embedding=embedding,
        direct=direct,
        min_count=MIN_COUNT,
        max_size=None,
    )
