"""The recipe of the table in Bengio et al. (2003): the classical models on the Brown corpus.

Every row of the paper's table 1 is a model here by the paper's shape, trained by our means: what a
row has from the paper is what it is (order, classes, context, widths, direct connections), not how
it was optimized. Beside them stand rows of our own, which have no published figure.
"""

from __future__ import annotations

from pathlib import Path

from models import class_ngram, ngram, nplm, rnnlm
from models.families import FamilyConfig
from models.recurrent import Cell
from pipelines.config import RunConfig
from tasks.brown import SPLITS
from tasks.corpus import CorpusConfig
from tasks.evaluation import EvaluationConfig
from tasks.mix import Mixed
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
    "The paper's Kneser-Ney backs off, ours interpolates. Neural models read on over the ends of "
    "sentences, n-gram models begin anew with each. What a row has from the paper is what it is, "
    "not how it was trained.",
)

TRIGRAM, KNESER_NEY = "deleted-interpolation-3", "kneser-ney-5"


def brown(folder: Path) -> RunConfig:
    """Every row of the table, over ``train.txt``, ``valid.txt`` and ``test.txt`` of a folder."""
    # A file is one document, so that models which read on do so through all of it.
    train, valid, test = (
        Source(paths=(str(folder / f"{split}.txt"),), document="file") for split in SPLITS
    )
    return RunConfig(
        corpus=CorpusConfig(
            name="brown",
            train=train,
            valid=valid,
            test=test,
            deduplicate=False,
            tokenize=Tokenize(scheme="whitespace"),
        ),
        families={**n_gram_rows(), **neural_rows(), **recurrent_rows()},
        mixtures=mixed_rows(),
        evaluation=EvaluationConfig(splits=("valid", "test")),
        published=Published(
            source="Bengio, Ducharme, Vincent and Jauvin 2003, table 1",
            against=KNESER_NEY,
            notes=NOTES,
            scores={
                name: {"perplexity.valid": valid, "perplexity.test": test}
                for name, (valid, test) in BENGIO_2003.items()
            },
        ),
    )


def n_gram_rows() -> dict[str, FamilyConfig]:
    """Models of counts, of words and of classes of words."""
    trigram = ngram.Config(
        order=3, smoothing="jelinek-mercer", buckets="count", min_count=MIN_COUNT
    )
    found: dict[str, FamilyConfig] = {TRIGRAM: trigram}
    for order in (3, 4, 5):
        found[f"kneser-ney-{order}"] = ngram.Config(order=order, min_count=MIN_COUNT)
    for classes in (150, 200, 500, 1000, 2000):
        found[f"class-{classes}"] = class_ngram.Config(classes=classes, min_count=MIN_COUNT)
    for order in (4, 5):
        found[f"class-500-{order}"] = class_ngram.Config(order=order, min_count=MIN_COUNT)
    return found


def neural_rows() -> dict[str, FamilyConfig]:
    """The paper's networks by their numbers, and one of our own."""
    return {
        "mlp1": mlp(context=4, hidden=50, embedding=60, direct=True),
        "mlp3": mlp(context=4, hidden=0, embedding=60, direct=True),
        "mlp5": mlp(context=4, hidden=50, embedding=30, direct=True),
        "mlp7": mlp(context=2, hidden=50, embedding=30, direct=True),
        "mlp9": mlp(context=4, hidden=100, embedding=30, direct=False),
        "nplm": nplm.Config(
            context=5,
            embedding=300,
            hidden=300,
            tied=True,
            boundary="document",
            min_count=MIN_COUNT,
            max_size=None,
            dropout=0.35,
            batch_size=512,
            epochs=12,
            patience=3,
            learning_rate=1.5e-3,
        ),
    }


def recurrent_rows() -> dict[str, FamilyConfig]:
    """Of our own: the three kinds of layers, which read on through a whole text."""
    return {
        "lstm": recurrent("lstm", layers=2, units=512, dropout=0.5, epochs=12),
        "gru": recurrent("gru", layers=1, units=512, dropout=0.5, epochs=8),
        "elman": recurrent("elman", layers=1, units=512, dropout=0.4, epochs=8),
    }


def recurrent(cell: Cell, *, layers: int, units: int, dropout: float, epochs: int) -> rnnlm.Config:
    """Tied embeddings and output, so that most of the weights are used twice."""
    return rnnlm.Config(
        cell=cell,
        layers=layers,
        units=units,
        embedding=units,
        tied=True,
        dropout=dropout,
        min_count=MIN_COUNT,
        max_size=None,
        batch_size=20,
        epochs=epochs,
        patience=3,
        learning_rate=2e-3,
    )


def mlp(*, context: int, hidden: int, embedding: int, direct: bool) -> nplm.Config:
    """A network of the paper's shape; it stops by the validation text, as there."""
    return nplm.Config(
        context=context,
        hidden=hidden,
        embedding=embedding,
        direct=direct,
        boundary="document",
        min_count=MIN_COUNT,
        max_size=None,
        dropout=0.2,
        batch_size=512,
        epochs=10,
        patience=2,
        learning_rate=1e-3,
    )


def mixed_rows() -> dict[str, Mixed]:
    """The paper's mixtures, half a network and half the trigram; ours, with fitted weights."""
    paper = {
        f"mlp{n + 1}": Mixed((f"mlp{n}", TRIGRAM), weights=(0.5, 0.5)) for n in range(1, 10, 2)
    }
    return paper | {
        "class-500-and-kneser-ney-5": Mixed(("class-500", KNESER_NEY)),
        "nplm-and-kneser-ney-5": Mixed(("nplm", KNESER_NEY)),
        "lstm-and-kneser-ney-5": Mixed(("lstm", KNESER_NEY)),
        "gru-and-kneser-ney-5": Mixed(("gru", KNESER_NEY)),
        "elman-and-kneser-ney-5": Mixed(("elman", KNESER_NEY)),
        "all": Mixed(("lstm", "nplm", "class-200", "class-500", "class-2000", KNESER_NEY)),
    }
