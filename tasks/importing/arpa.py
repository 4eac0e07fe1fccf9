"""n-gram models as ARPA files, as SRILM, KenLM, IRSTLM and lexloom write them.

A file is taken whole or not at all: an n-gram that was left out would change the probabilities of
others. What is not said has a meaning:

* no back-off weight: 1 (log10 0), as everywhere;
* no ``<unk>``: log10 -100, as KenLM reads it (``<UNK>`` is taken for ``<unk>``);
* no ``<s>``: it is added, without n-grams that begin with it; it is never predicted, whatever
  probability the file gives it;
* an n-gram without its first or without its last word is not listed (SRILM prunes so): it is
  added with the probability that it has by backing off, which leaves all probabilities as they are;
* ``-inf`` is the probability 0; -99 is taken as it stands, as KenLM does.

Probabilities that sum to more than 1 are taken too, for they are all that the file says; a few
contexts are tried, and the report tells. Everything else that is wrong is an error with its line.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from models.backoff import BOS, Table
from models.vocabulary import LM_RESERVED, Vocabulary
from tasks.errors import InputError

UNK_LOG10 = -100.0
HIGHEST_WEIGHT = 100.0
"""The highest log10 of a back-off weight that is read; what it is applied to is no less likely
than ``UNK_LOG10``, and a few of them in turn stay below infinity."""
LOWEST = -300.0
"""The lowest log10 that is read, but for that of the probability 0: below 1e-308 there is no
number."""
HIGHEST = 12
"""The highest order that is read; a header with more is taken for damaged."""

MEND = "correct the line, or have the program that made the file write it anew"

TRIED = 32
"""Contexts of each order whose probabilities are summed."""
SLACK = 0.01
"""So much more than 1 may they sum to: files with four decimals are off by a tenth of it."""

_ROWS = 1 << 16
_COUNT = re.compile(rb"ngram\s+(\d{1,3})\s*=\s*(\d{1,15})")


@dataclass(eq=False)
class _Grams:
    """The n-grams of one order as they are listed.

    Attributes:
        words: (M, order) ids.
        logs: (M, 2) log10 of probability and weight; NaN is the probability of what was added.
        lines: (M,) where each stood; 0 for what was added.
    """

    words: NDArray[np.int32]
    logs: NDArray[np.float64]
    lines: NDArray[np.int64]

    def add(self, words: NDArray[np.int32]) -> None:
        words = np.unique(words, axis=0)
        logs = np.tile([np.nan, 0.0], (len(words), 1))
        self.words = np.concatenate([self.words, words])
        self.logs = np.concatenate([self.logs, logs])
        self.lines = np.concatenate([self.lines, np.zeros(len(words), np.int64)])


class _Lines:
    """The lines of a file, stripped of ASCII white space, with their numbers."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name, self.number = name, 0
        self.awaited = "\\data\\"
        self._file: Iterator[bytes] = iter(file)

    def next(self) -> bytes:
        """The next line that is not empty."""
        for line in self._file:
            self.number += 1
            if self.number == 1:
                line = line.removeprefix(BOM_UTF8)
            if stripped := line.strip():
                return stripped
        if self.number == 0:
            raise InputError("the file is empty", where=self.name, remedy="fetch it again")
        problem = f"the file ends before {self.awaited}: it is cut off, or in another encoding"
        return self.fail(problem, "fetch it again; it is text in UTF-8, its lines end in \\n")

    def finish(self) -> None:
        """Nothing but empty lines may follow."""
        for line in self._file:
            self.number += 1
            if line.strip():
                self.fail(f"behind \\end\\ stands {_shown(line.strip())}")

    def fail(self, problem: str, remedy: str = MEND, line: int | None = None) -> NoReturn:
        where = f"{self.name}: line {line or self.number}"
        raise InputError(problem, where=where, remedy=remedy)


def read_arpa(file: BinaryIO, name: str) -> tuple[Vocabulary, Table, Counter[str]]:
    """The model in an ARPA file.

    Args:
        file: its bytes, unpacked.
        name: of the file, for messages.

    Returns:
        the vocabulary in the order of the file, the table, and how often what was not said had to
        be filled in: ``unk_missing``, ``start_missing``, ``ngrams_added``; ``sums_above_1`` are
        contexts, of the few that are tried, after which probabilities sum to more than 1.

    Raises:
        InputError: it is no ARPA file, or something in it is wrong; the message has the line.
    """
    lines, stats = _Lines(file, name), Counter[str]()
    while lines.next() != b"\\data\\":
        pass
    lines.awaited = "\\end\\"
    sizes, line = _header(lines)
    vocabulary, grams = None, []
    ids: dict[bytes, int] = {}
    for k, size in enumerate(sizes, 1):
        if line != b"\\%d-grams:" % k:
            lines.fail(f"here should stand \\{k}-grams:, not {_shown(line)}")
        found, line = _section(lines, k, size, ids)
        if k == 1:
            vocabulary, found = _unigrams(lines, ids, found, stats)
        grams.append(found)
    if line != b"\\end\\":
        lines.fail(f"here should stand \\end\\, not {_shown(line)}")
    lines.finish()
    assert vocabulary is not None
    table = _table(lines, vocabulary, grams, stats)
    stats["sums_above_1"] = _sums_above_one(lines, vocabulary, table)
    return vocabulary, table, stats


def _header(lines: _Lines) -> tuple[list[int], bytes]:
    """How many n-grams of each order there are to be, and the line behind."""
    sizes: list[int] = []
    while match := _COUNT.fullmatch(line := lines.next()):
        if int(match.group(1)) != len(sizes) + 1 or len(sizes) == HIGHEST:
            lines.fail(f"the orders in the header are not 1, 2, ... up to {HIGHEST} at most")
        sizes.append(int(match.group(2)))
    if sizes[:1] == [0]:
        lines.fail("the header promises no 1-grams, and a model has some")
    if not sizes:
        lines.fail(f'behind \\data\\ should stand "ngram 1=", not {_shown(line)}')
    return sizes, line


def _section(lines: _Lines, k: int, size: int, ids: dict[bytes, int]) -> tuple[_Grams, bytes]:
    """The n-grams of an order, and the line behind them; the first order gives words their ids."""
    parts: list[_Grams] = []
    begin, line = lines.number, b""
    while not line:
        numbers: list[int] = []
        words: list[int] = []
        logs: list[bytes] = []
        while len(numbers) < _ROWS:
            row = lines.next()
            if row.startswith(b"\\") and (row == b"\\end\\" or row.endswith(b"-grams:")):
                line = row
                break
            fields = row.split()
            if not k + 1 <= len(fields) <= k + 2:
                problem = f"{_shown(row)} has {len(fields)} fields; a number, {k} words"
                lines.fail(f"{problem} and perhaps a second number are {k + 1} or {k + 2}")
            if k == 1:
                if fields[1] in ids:
                    lines.fail(f"the word {_shown(fields[1])} is listed a second time")
                ids[fields[1]] = len(ids)
            try:
                words += [ids[word] for word in fields[1 : k + 1]]
            except KeyError as error:
                lines.fail(f"the word {_shown(error.args[0])} is not among the 1-grams")
            numbers.append(lines.number)
            logs += (fields[0], fields[k + 1] if len(fields) > k + 1 else b"0")
        grams = np.array(words, np.int32).reshape(-1, k)
        parts.append(_Grams(grams, _numbers(lines, logs, numbers), np.array(numbers, np.int64)))
    found = _Grams(
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.logs for part in parts]),
        np.concatenate([part.lines for part in parts]),
    )
    if len(found.words) != size:
        remedy = "the file is damaged, or was edited: write it anew"
        lines.fail(f"the header promises {size:,} {k}-grams, here are {len(found.words):,}", remedy,
                   begin)  # fmt: skip
    return found, line


def _numbers(lines: _Lines, logs: list[bytes], numbers: list[int]) -> NDArray[np.float64]:
    """(M, 2) the numbers of some lines."""
    try:
        if b"_" in b" ".join(logs):  # Python reads -0_4 as -4
            raise ValueError
        found = np.array([float(log) for log in logs]).reshape(-1, 2)
    except ValueError:
        for i, log in enumerate(logs):
            if not _is_number(log):
                lines.fail(f"{_shown(log)} is no number", line=numbers[i // 2])
        raise
    # A weight may be above 1, a probability may not.
    bad = ~((found <= [0.0, HIGHEST_WEIGHT]) & ((found >= LOWEST) | np.isneginf(found)))
    bad[:, 1] |= np.isneginf(found[:, 1])
    for row, column in np.argwhere(bad)[:1]:
        number = found[row, column]
        what = ("log10 of a probability", "log10 of a back-off weight")[column]
        if -np.inf < number < LOWEST:
            problem = f"{number:g} is lower than any {what} that is read, which is {LOWEST:g}"
            lines.fail(problem, "write -99 for what is impossible", numbers[row])
        lines.fail(f"{number:g} is no {what}", line=numbers[row])
    return found


def _unigrams(
    lines: _Lines, ids: dict[bytes, int], found: _Grams, stats: Counter[str]
) -> tuple[Vocabulary, _Grams]:
    """The vocabulary, reserved entries first, and the unigrams in its order; ids are renamed."""
    capital = b"<unk>" not in ids and b"<UNK>" in ids
    if capital:
        ids[b"<unk>"] = ids.pop(b"<UNK>")
    if b"</s>" not in ids:
        remedy = "a model of sentences needs their end; estimate it anew with sentence marks"
        lines.fail("</s> is not among the 1-grams", remedy, int(found.lines[-1]))
    marks = [mark.encode() for mark in LM_RESERVED]
    rows = {word: row for word, row in ids.items() if word not in marks}
    words = []
    for word, row in rows.items():
        try:
            words.append(word.decode())
        except UnicodeDecodeError as error:
            problem = f"the word {_shown(word)} is no UTF-8 ({error.reason})"
            lines.fail(problem, "convert the file to UTF-8", int(found.lines[row]))
        if "\0" in words[-1]:
            lines.fail(f"the word {_shown(word)} has a NUL in it", line=int(found.lines[row]))
    logs = np.array([[UNK_LOG10, 0.0], [-np.inf, 0.0], [-np.inf, 0.0]])
    for i, mark in enumerate(marks):
        if mark in ids:
            logs[i] = found.logs[ids[mark]]
    logs[BOS, 0] = -np.inf
    stats += Counter(unk_missing=marks[0] not in ids, start_missing=marks[BOS] not in ids)
    logs = np.concatenate([logs, found.logs[list(rows.values())]])
    for i, word in enumerate([*marks, *rows]):
        ids[word] = i
    if capital:
        ids[b"<UNK>"] = 0
    counts = np.zeros(len(words), np.int64)
    everything = np.arange(len(logs), dtype=np.int32)[:, None]
    vocabulary = Vocabulary(LM_RESERVED, tuple(words), counts)
    return vocabulary, _Grams(everything, logs, np.zeros(len(logs), np.int64))


def _table(
    lines: _Lines, vocabulary: Vocabulary, grams: list[_Grams], stats: Counter[str]
) -> Table:
    """The table of all n-grams, and of those that are missing between them."""
    from models.kernels.trie import link

    n_words = len(vocabulary)
    listed = sum(len(level.words) for level in grams)
    while True:
        keys, order = _keys(lines, grams, n_words)
        if keys is None:
            continue
        sizes = np.array([len(level.words) for level in grams], np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        first = np.searchsorted(keys, np.arange(starts[-2] + 1) * n_words) + n_words
        first = np.concatenate([first, np.full(starts[-1] - starts[-2], len(keys) + n_words)])
        contexts = link(keys, first, np.concatenate([[0], starts]))
        lacking = [
            level.words[rows[contexts[starts[k] : starts[k + 1]] == -2]]
            for k, (level, rows) in enumerate(zip(grams, order, strict=True))
        ]
        if not any(map(len, lacking)):
            break
        for k, words in enumerate(lacking[2:], 2):
            grams[k - 1].add(words[:, :-1])
    logs = np.concatenate([level.logs[rows] for level, rows in zip(grams, order, strict=True)])
    values = np.power(10.0, logs)
    probabilities, weights = values[:, 0].copy(), values[: starts[-2], 1].copy()
    for k in range(1, len(sizes)):
        added = starts[k] + np.flatnonzero(np.isnan(logs[starts[k] : starts[k + 1], 0]))
        backed = weights[contexts[added]] * probabilities[keys[added - n_words] // n_words]
        probabilities[added] = backed
    stats["ngrams_added"] = int(sizes.sum()) - listed
    return Table(sizes, keys, probabilities, weights)


def _keys(
    lines: _Lines, grams: list[_Grams], n_words: int
) -> tuple[NDArray[np.int64] | None, list[NDArray[np.int64]]]:
    """The keys of ``Table``, and by order which row each n-gram was.

    None for the keys if n-grams were missing that others end in; these have been added then.
    """
    keys = np.zeros(0, np.int64)
    sizes, order = [n_words], [np.arange(n_words)]
    nothing = np.zeros(0)
    for k, level in enumerate(grams[1:], 2):
        table = Table(np.array(sizes, np.int64), keys, nothing, nothing)
        number = level.words[:, -1].astype(np.int64)
        for j in range(2, k):
            found = np.full(len(number), -1, np.int64)
            known = np.flatnonzero(number >= 0)
            first = level.words[known, -j].astype(np.int64)
            found[known] = table.find(j, number[known], first)
            number = found
        if (number < 0).any():
            grams[k - 2].add(level.words[number < 0][:, 1:])
            return None, order
        mine = number * n_words + level.words[:, 0]
        rows = np.argsort(mine, kind="stable")
        mine = mine[rows]
        if (again := np.flatnonzero(mine[1:] == mine[:-1])).size:
            line = int(level.lines[rows[again + 1]].min())
            lines.fail(f"a {k}-gram is listed a second time", line=line)
        keys = np.concatenate([keys, mine])
        sizes.append(len(mine))
        order.append(rows)
    return keys, order


def _is_number(log: bytes) -> bool:
    try:
        float(log)
    except ValueError:
        return False
    return b"_" not in log


def _sums_above_one(lines: _Lines, vocabulary: Vocabulary, table: Table) -> int:
    """After how many of some contexts, the empty one among them, more than 1 is given away.

    A single word that gets more than 1 is an error: no text with it could be scored.
    """
    n_words, above = int(table.sizes[0]), 0
    contexts = [np.zeros(0, np.int64)]
    for k in range(1, table.order):
        here = table.numbers(k)
        spread = np.linspace(here.start, here.stop - 1, min(TRIED, here.stop - here.start))
        high = here.start + np.argsort(table.weights[here.start : here.stop])[-TRIED:]
        for number in np.union1d(spread.astype(np.int64), high).tolist():
            words = []
            while number >= n_words:
                number, first = divmod(int(table.keys[number - n_words]), n_words)
                words.append(first)
            contexts.append(np.array([*words, number]))
    for context in contexts:
        given = table.next_words(context)
        above += bool(given.sum() > 1 + SLACK)
        if given.max() > 1 + SLACK:
            said = " ".join(vocabulary.entries[word] for word in context[::-1])
            word = vocabulary.entries[int(given.argmax())]
            problem = f"after {said!r} the word {word!r} has a probability of {given.max():.2g}"
            problem += ": the back-off weight there is too high"
            raise InputError(problem, where=lines.name, remedy=MEND)
    return above


def _shown(text: bytes) -> str:
    return ascii(text[:80].decode(errors="backslashreplace"))
