"""Words and vectors as they are read: the policy for what cannot be used, and memory.

A record is a word with its vector. What is done with one that cannot be read as it stands is the
setting ``errors``:

========  =======================================================================================
strict    the first one ends the import, and the error says where it is
reject    it is left out, and counted by its reason
replace   bytes that are no UTF-8 become U+FFFD; of everything else as ``reject``
========  =======================================================================================

Reasons: ``invalid_utf8``, ``too_few_numbers``, ``not_a_number``, ``not_finite``, ``empty_word``,
``cut_off``, ``trailing``; and for a header that is wrong about the number of words ``missing`` and
``not_promised``. Two things are no errors, and only counted: ``empty_word``, as nobody can ask for
it, and ``duplicate``, a word that was there before; the first one counts. Under ``replace`` words
may have become equal.

Memory is that of the result: the table grows by a quarter where it lies, and is never allocated by
what a file says of itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from models.vocabulary import Vocabulary
from tasks.errors import InputError

Errors = Literal["strict", "reject", "replace"]
Place = Callable[[int], str]

SWAPPED_SHARE, PLAUSIBLE = 0.25, 2.0**60
"""Which share of numbers has to be beyond what size (or its inverse) to look into their bytes."""
LARGEST = 1e15
"""Numbers of a vector are below it."""
RECORDS = (
    "invalid_utf8", "too_few_numbers", "not_a_number", "not_finite", "nul", "empty_word",
    "duplicate",
)  # fmt: skip
"""Reasons that count whole records."""


class Gathering:
    """The words and vectors of a file, as far as it was read.

    Args:
        name: of the file, for messages.
        errors: the policy.
    """

    def __init__(self, name: str, errors: Errors) -> None:
        self.name, self.errors = name, errors
        self.stats: Counter[str] = Counter()
        self._rows: dict[str, int] = {}
        self._counts: list[NDArray[np.int64]] = []
        self._table = np.empty((0, 0), np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def seen(self) -> int:
        """Records so far, those that were left out included."""
        return len(self) + sum(self.stats[reason] for reason in RECORDS)

    def reject(self, reason: str, problem: str, where: str, n: int = 1) -> None:
        """Leave out what cannot be used.

        Raises:
            InputError: the policy is strict.
        """
        if self.errors == "strict":
            raise InputError(
                problem,
                where=f"{self.name}: {where}" if where else self.name,
                remedy="--errors reject leaves out such records and counts them"
                + ("; --errors replace puts U+FFFD in" if reason == "invalid_utf8" else ""),
            )
        self.stats[reason] += n

    def add(
        self,
        words: Sequence[bytes],
        vectors: NDArray[np.float32],
        place: Place,
        counts: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Take records.

        Args:
            words: N of them, in UTF-8.
            vectors: (N, D); may be changed.
            place: where the i-th stood, for people.
            counts: (N,) how often each word was seen, if the file says so.

        Returns:
            which of them were taken.
        """
        if not len(self) and len(vectors):
            self._check_order(vectors)
        # Of larger numbers the squares, and so the cosines, are not finite.
        finite = np.asarray((np.abs(vectors) < LARGEST).all(axis=1))
        rows, taken = self._rows, []
        for i, (word, good) in enumerate(zip(self._decoded(words, place), finite, strict=True)):
            if word is None:
                continue
            if not good:
                problem = f"the vector of {word!r} is not finite, or has numbers above {LARGEST:g}"
                self.reject("not_finite", problem, place(i))
            elif "\0" in word:
                self.reject("nul", f"the word {word!r} has a NUL in it", place(i))
            elif not word:
                self.stats["empty_word"] += 1
            elif word in rows:
                self.stats["duplicate"] += 1
            else:
                rows[word] = len(rows)
                taken.append(i)
        kept = np.array(taken, np.int64)
        self._append(vectors if len(kept) == len(vectors) else vectors[kept])
        self._counts.append(np.zeros(len(kept), np.int64) if counts is None else counts[kept])
        return kept

    def _decoded(self, words: Sequence[bytes], place: Place) -> list[str | None]:
        try:
            return [word.decode() for word in words]
        except UnicodeDecodeError:
            return [self._decode(word, place, i) for i, word in enumerate(words)]

    def _decode(self, word: bytes, place: Place, i: int) -> str | None:
        try:
            return word.decode()
        except UnicodeDecodeError as error:
            if self.errors == "replace":
                self.stats["replaced"] += 1
                return word.decode(errors="replace")
            shown = ascii(word.decode(errors="backslashreplace"))
            self.reject("invalid_utf8", f"the word {shown} is no UTF-8 ({error.reason})", place(i))
            return None

    def _append(self, vectors: NDArray[np.float32]) -> None:
        n, old = len(self._rows), len(self._rows) - len(vectors)
        if self._table.shape[1] != vectors.shape[1]:
            self._table = np.empty((0, vectors.shape[1]), np.float32)
        if n > len(self._table):
            # Where the system can, a large block grows without a copy.
            self._table.resize(
                (max(n, len(self._table) * 5 // 4), vectors.shape[1]), refcheck=False
            )
        self._table[old:n] = vectors

    def _check_order(self, vectors: NDArray[np.float32]) -> None:
        """Refuse numbers that only make sense with their bytes the other way round."""
        as_read, swapped = _implausible(vectors), _implausible(vectors.byteswap())
        if as_read > SWAPPED_SHARE and swapped < as_read / 10:
            raise InputError(
                "the numbers of these vectors have their bytes in the wrong order",
                where=self.name,
                remedy="write the file anew on a little-endian machine, or as text",
            )

    def vocabulary(self) -> Vocabulary:
        """The words with their counts."""
        return Vocabulary((), tuple(self._rows), np.concatenate([_NO_COUNTS, *self._counts]))

    def vectors(self) -> NDArray[np.float32]:
        """(V, D) the vectors; after this nothing more is taken.

        Raises:
            InputError: there are none.
        """
        if not len(self):
            left = {reason: n for reason, n in self.stats.items() if n}
            raise InputError(
                "there is no word in this file that can be used" + (f" ({left})" if left else ""),
                where=self.name,
                remedy="name its format with --format",
            )
        self._table.resize((len(self), self._table.shape[1]), refcheck=False)
        return self._table


_NO_COUNTS = np.zeros(0, np.int64)


def _implausible(vectors: NDArray[np.float32]) -> float:
    """The share of the numbers that are no part of any embedding."""
    with np.errstate(invalid="ignore"):
        sizes = np.abs(vectors[vectors != 0])
        good = (sizes < PLAUSIBLE) & (sizes > 1 / PLAUSIBLE)
    return cast(float, 1 - good.mean()) if len(sizes) else 0.0
