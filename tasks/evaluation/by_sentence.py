"""What a language model gives each sentence of a file or of a split of a corpus.

Shapes: ``N`` tokens, ``S`` sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.family import Progress
from models.text import Sentences, Tokens
from tasks.errors import InputError
from tasks.evaluation.perplexity import (
    CHUNK,
    checked,
    chunks,
    reads_on,
    spelling_of,
    unknown_to,
)
from tasks.evaluation.score import Score
from tasks.lineage import read_catalogue
from tasks.registry import OpenedModel
from tasks.scoring import language_model, read_lines, score_lines
from tasks.store import Store
from tasks.tokenize import read_tokens


@dataclass(frozen=True, eq=False)
class SentenceScores:
    """What a model gives each sentence of a text.

    Attributes:
        nats: (S,) negative log-probability of its tokens and its end.
        scored: (S,) how many these are.
        spelling: (S,) bits that its unknown words take to be spelt.
        characters: (S,) as it was written, its end included.
    """

    nats: NDArray[np.float64]
    scored: NDArray[np.int64]
    spelling: NDArray[np.float64]
    characters: NDArray[np.int64]

    @property
    def bits(self) -> NDArray[np.float64]:
        """(S,) of each sentence, its unknown words spelt out."""
        return self.nats / math.log(2) + self.spelling

    @staticmethod
    def none() -> SentenceScores:
        """Of no sentences."""
        counts = np.zeros(0, np.int64)
        return SentenceScores(np.zeros(0), counts, np.zeros(0), counts)

    @staticmethod
    def joined(parts: Sequence[SentenceScores]) -> SentenceScores:
        """Of all sentences of the parts."""
        names = [each.name for each in fields(SentenceScores)]
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
        return SentenceScores(*columns)


def of_file(asked: OpenedModel, path: Path, progress: Progress) -> SentenceScores:
    """Score a file of raw text, sentence by sentence.

    Raises:
        InputError: the model gives no probability of text, or the file cannot be read.
    """
    model = language_model(asked)
    found, done = [SentenceScores.none()], 0
    for block in score_lines(model, asked.text, read_lines(str(path))):
        found.append(_summed(block.text, block.scores, block.spelling, block.characters))
        done += block.tally.tokens
        progress(done, 0, "tokens")
    return SentenceScores.joined(found)


def of_tokens(asked: OpenedModel, text: Tokens, progress: Progress) -> SentenceScores:
    """Score tokens, sentence by sentence.

    Raises:
        InputError: the model gives no probability of text.
    """
    model, done = language_model(asked), 0
    found, vocabulary = [SentenceScores.none()], model.vocabulary
    for part in text.partitions:
        spelling, before = spelling_of(part), 0
        characters = part.characters
        if characters is None:
            characters = np.zeros(len(part.text), np.int64)
        for chunk, first in chunks(part.under(vocabulary), CHUNK, whole=reads_on(model)):
            unknown = unknown_to(model, chunk)
            spelt = np.where(unknown, spelling[part.text.ids[first : first + len(unknown)]], 0)
            scores = checked(model.log_prob(chunk), chunk)
            mine = characters[before : before + len(chunk)]
            found.append(_summed(chunk, scores, spelt, mine))
            before += len(chunk)
            done += len(unknown)
            progress(done, text.n_tokens, "tokens")
    return SentenceScores.joined(found)


def _summed(
    text: Sentences,
    scores: NDArray[np.float64],
    spelling: NDArray[np.int64],
    characters: NDArray[np.int64],
) -> SentenceScores:
    """Sums by sentence of (N + S,) scores and of (N,) bytes that unknown words are spelt with."""
    starts = text.starts[:-1] + np.arange(len(text))
    return SentenceScores(
        -np.add.reduceat(scores, starts),
        np.diff(text.starts) + 1,
        np.add.reduceat(np.insert(8.0 * spelling, text.starts[1:], 0), starts),
        np.asarray(characters),
    )


# --- a split of a corpus --------------------------------------------------------------------


def scores_on_split(asked: OpenedModel, split: str) -> tuple[Score, ...]:
    """What a registered model got on a split when it was made.

    Raises:
        InputError: it is no registered model, or was never scored there.
    """
    names = (f"perplexity.{split}", f"bits_per_character.{split}")
    scores = asked.version.scores if asked.version else ()
    found = tuple(score for score in scores if score.name in names)
    if len(found) < len(names):
        raise InputError(
            f"there is no score of it on the split {split!r}",
            where=asked.reference,
            remedy="name a registered language model and a split that it was evaluated on, or "
            "give a file by --text",
        )
    return found


def tokens_of(store: Store, asked: OpenedModel, split: str) -> Tokens:
    """The tokens of a split on which a registered model was evaluated.

    Raises:
        InputError: they are not in the store.
    """
    manifests = read_catalogue(store).values()
    content = asked.version.content if asked.version else ""
    wanted = {
        inputs[f"tokens:{split}"]["content"]
        for inputs in (manifest.origin.get("inputs", {}) for manifest in manifests)
        if f"tokens:{split}" in inputs and inputs.get("model", {}).get("content") == content
    }
    for manifest in manifests:
        if manifest.kind == "tokens" and manifest.content in wanted:
            return read_tokens(store.reader(manifest.handle()))
    raise InputError(
        f"the split {split!r} that it was evaluated on is not in the store",
        where=asked.reference,
        remedy="run the recipe again, or give a file by --text",
    )
