"""A frozen vocabulary: reserved entries first, then words by falling count.

Ties in count are broken by the UTF-8 bytes of the word, so a vocabulary depends on the counts
alone, never on the order in which text was read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

UNK = "<unk>"
BOS = "<s>"
EOS = "</s>"
LM_RESERVED = ("<unk>", "<s>", "</s>")
"""The reserved entries of a language model, with the ids 0, 1 and 2."""

OPEN = "<spelt>"
"""A reserved entry that is never read nor predicted: it tells a vocabulary that only lists words,
of a model that spells any, from one that bounds what a model can predict."""

MARKS = frozenset({UNK, BOS, EOS, "<UNK>", "<pad>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
"""Strings that some tool reads as a mark. As *words of a text* they never enter a vocabulary."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words with their ids and counts.

    Attributes:
        reserved: entries that are no words of a text, with the first ids; empty for static vectors.
        words: the words, most frequent first; the id of ``words[i]`` is ``len(reserved) + i``.
        counts: (len(words),) int64, how often each word stands in the training text.
    """

    reserved: tuple[str, ...]
    words: tuple[str, ...]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.words) != len(self.counts):
            raise ValueError(f"{len(self.words)} words but {len(self.counts)} counts")

    def __len__(self) -> int:
        return len(self.reserved) + len(self.words)

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """All entries in the order of their ids."""
        return self.reserved + self.words

    @cached_property
    def unknown(self) -> int:
        """The id that an unknown word gets: that of ``<unk>``, or -1 where there is none."""
        return self.reserved.index(UNK) if UNK in self.reserved else -1

    @cached_property
    def _ids(self) -> dict[str, int]:
        base = len(self.reserved)
        return {word: base + i for i, word in enumerate(self.words)}

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """The id of a word; a reserved string is no word, so it is unknown like any other."""
        return self._ids.get(word, self.unknown)

    def ids(self, words: Iterable[str]) -> NDArray[np.int32]:
        """(N,) int32, the ids of the words, ``unknown`` where a word is not in the vocabulary."""
        # By map, no step of Python's is run for a word: 60 ns and not 100.
        return np.fromiter(map(self._ids.get, words, repeat(self.unknown)), dtype=np.int32)

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits that two vocabularies share exactly if their entries agree in order.

        Perplexities are comparable only where this agrees.
        """
        text = json.dumps([self.reserved, self.words], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def to_json(self) -> dict[str, object]:
        """A JSON object from which ``from_json`` makes the same vocabulary."""
        return {
            "reserved": list(self.reserved),
            "words": list(self.words),
            "counts": self.counts.tolist(),
        }

    @staticmethod
    def from_json(value: dict[str, Sequence[str]]) -> Vocabulary:
        """The vocabulary that ``to_json`` wrote."""
        return Vocabulary(
            reserved=tuple(value["reserved"]),
            words=tuple(value["words"]),
            counts=np.asarray(value["counts"], dtype=np.int64),
        )


def select(
    words: Sequence[str],
    counts: NDArray[np.int64],
    *,
    min_count: int,
    max_size: int | None,
    reserved: tuple[str, ...],
) -> Vocabulary:
    """The vocabulary of the words seen at least ``min_count`` times, at most ``max_size`` of them.

    Args:
        words: distinct words in any order.
        counts: (len(words),) their counts.
        min_count: at least 1; a word seen less often is unknown.
        max_size: exact top-k by (count, bytes of the word); None for no limit.
        reserved: the reserved entries.

    Raises:
        ValueError: ``min_count`` below 1.
    """
    if min_count < 1:
        raise ValueError(f"min_count must be at least 1, not {min_count}")
    kept = [i for i in np.flatnonzero(counts >= min_count).tolist() if words[i] not in MARKS]
    kept = _by_count(kept, words, counts)[:max_size]
    return Vocabulary(reserved, tuple(words[i] for i in kept), counts[kept].astype(np.int64))


def grown(
    base: Vocabulary,
    words: Sequence[str],
    counts: NDArray[np.int64],
    *,
    min_count: int,
    max_size: int | None,
) -> Vocabulary:
    """A vocabulary that has met another text: all words of the base, and the new ones.

    A word of the base stays, however rare; its count is the sum over both texts. What the base had
    left out for its rarity is not known any more, so a new word is judged, and counted, by the new
    text alone.

    Args:
        base: what is known already; its reserved entries stay.
        words: distinct words of the new text in any order.
        counts: (len(words),) their counts.
        min_count: at least 1; a new word seen less often stays unknown.
        max_size: new words are taken, most frequent first, until the whole has so many words; None
            for no limit.

    Raises:
        ValueError: ``min_count`` below 1.
    """
    news = [i for i, word in enumerate(words) if word not in base]
    room = None if max_size is None else max(0, max_size - len(base.words))
    new = select(
        [words[i] for i in news], counts[news], min_count=min_count, max_size=room, reserved=()
    )
    seen = dict(zip(words, counts.tolist(), strict=True))
    again = np.array([seen.get(word, 0) for word in base.words], np.int64)
    everything = base.words + new.words
    totals = np.concatenate([base.counts + again, new.counts])
    order = _by_count(range(len(everything)), everything, totals)
    return Vocabulary(base.reserved, tuple(everything[i] for i in order), totals[order])


def _by_count(chosen: Iterable[int], words: Sequence[str], counts: NDArray[np.int64]) -> list[int]:
    """Indices of words, the most frequent first, equal ones by the bytes of the word."""
    by_bytes = sorted(chosen, key=words.__getitem__)  # code points have the order of their UTF-8
    places = np.array(by_bytes, np.int64)
    found: list[int] = places[np.argsort(-counts[places], kind="stable")].tolist()
    return found
