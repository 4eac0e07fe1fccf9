"""Answers to questions about one model, as values and as tables for a terminal."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from models.expressions import signed_words
from models.tables import Choice
from models.vectors import Method
from models.word_vectors import UnknownWord
from pipelines.cli_common import UNFOLDED
from tasks.errors import InputError, not_utf8
from tasks.evaluation.forgetting import NEIGHBOURS, Change
from tasks.evaluation.score import Score
from tasks.questions import approximate_word_vectors, unknown_word, word_vectors
from tasks.registry import OpenedModel, Version

Ranking = list[tuple[str, float]]


def neighbours(
    opened: OpenedModel,
    asked: Sequence[str],
    k: int,
    choice: Choice = "own",
    approximate: Callable[[float], None] | None = None,
) -> dict[str, Ranking]:
    """The nearest words of each word, or of each signed sum of words.

    Args:
        opened: the model.
        asked: words, or sums such as ``king - boy + girl``.
        k: neighbours of each.
        choice: which of the model's vectors.
        approximate: told which share of the neighbours a search by a graph finds, which then
            answers; None for an exact search.

    Raises:
        ConfigError: the library that an approximate search takes is not installed.
        InputError: the model has no word vectors, or none for one of the words; or something is
            neither a word nor a sum of words.
    """
    if approximate:
        vectors, recall = approximate_word_vectors(opened, choice)
        approximate(recall)
    else:
        vectors = word_vectors(opened, choice)
    with _answering(opened):
        signed = {text: signed_words(text, vectors.lists) for text in asked}
        means = [
            vectors.mean_vector([word for _, word in terms], [weight for weight, _ in terms])
            for terms in signed.values()
        ]
        for text, mean in zip(signed, means, strict=True):
            if not mean.any():
                raise ValueError(f"{text!r} is a vector of zeros, to which nothing is near")
        words = [[word for _, word in terms] for terms in signed.values()]
        found = vectors.nearest(np.stack(means), k, words)
    return dict(zip(signed, found, strict=True))


def analogy(
    opened: OpenedModel,
    question: Sequence[str],
    k: int,
    method: Method,
    choice: Choice = "own",
) -> Ranking:
    """The best answers to "a is to b as c is to ?", or to a signed sum.

    Args:
        opened: the model.
        question: the words a, b and c, or one sum such as ``king - boy + girl``.
        k: answers.
        method: how they are found.
        choice: which of the model's vectors.

    Raises:
        InputError: the model has no word vectors, or none for one of the words; or something is
            neither a word nor a sum of words.
    """
    vectors = word_vectors(opened, choice)
    with _answering(opened):
        if len(question) == 1:
            return vectors.solve(signed_words(question[0], vectors.lists), k, method)
        a, b, c = question
        return vectors.analogy(a, b, c, k, method)


def similarity(
    opened: OpenedModel,
    first: str,
    second: str,
    pair: tuple[str, str] | None = None,
    choice: Choice = "own",
) -> float:
    """The cosine of two words or of the means of two sets of words, or of two offsets.

    Args:
        opened: the model.
        first: a word, or words with spaces between them.
        second: as the first.
        pair: two words; then first and second are words too, and the cosine is that of the ways
            from the first to the second of either pair.
        choice: which of the model's vectors.

    Raises:
        InputError: the model has no word vectors, or none for one of the words.
    """
    vectors = word_vectors(opened, choice)
    with _answering(opened):
        if pair is not None:
            return vectors.offset_similarity((first, second), pair)
        sets = [listed(opened, text) for text in (first, second)]
        if not all(sets):
            raise ValueError("a text without words is similar to none")
        return vectors.n_similarity(*sets)


def odd_one_out(opened: OpenedModel, words: Sequence[str], choice: Choice = "own") -> Ranking:
    """The words by their cosine with the mean of all; the last one is the odd one out.

    Raises:
        InputError: the model has no word vectors, or none for one of the words; or there are no
            three different words.
    """
    vectors = word_vectors(opened, choice)
    with _answering(opened):
        if len(set(words)) < 3:
            raise ValueError("of fewer than three different words none is the odd one out")
        return vectors.doesnt_match(words)


def rank(
    opened: OpenedModel, word: str, other: str, choice: Choice = "own"
) -> tuple[int, list[str]]:
    """The place of the other among the neighbours of a word, and the words that are nearer.

    Raises:
        InputError: the model has no word vectors, or none for one of the words.
    """
    vectors = word_vectors(opened, choice)
    with _answering(opened):
        closer = vectors.closer_than(word, other)
    return len(closer) + 1, closer


def from_stdin() -> str:
    """The text of standard input.

    Raises:
        InputError: there is none, or it is not UTF-8.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed", where="-", remedy="pipe a text in")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(not_utf8(error), where="-", remedy="convert it to UTF-8") from None


def listed(opened: OpenedModel, text: str) -> list[str]:
    """The words of a text with spaces between them; a text that is one as a whole is that word."""
    return [text] if text in opened.model.vocabulary else text.split()


def composed(opened: OpenedModel, words: Iterable[str]) -> list[str]:
    """Those of the words of an answer that the model does not list, in their order.

    It has a vector of each all the same, composed of its characters or n-grams; any other word
    would have been refused.
    """
    return [word for word in dict.fromkeys(words) if word not in opened.model.vocabulary]


def words_of(opened: OpenedModel, asked: Iterable[str]) -> list[str]:
    """The words of what ``neighbours`` was asked, those of sums one by one."""
    vocabulary = opened.model.vocabulary
    terms = (signed_words(text, vocabulary.__contains__) for text in asked)
    return [word for signed in terms for _, word in signed]


@contextmanager
def _answering(opened: OpenedModel) -> Iterator[None]:
    """What a question cannot be answered for, as an error of ours."""
    try:
        yield
    except UnknownWord as unknown:
        raise unknown_word(opened, unknown.word) from None
    except ValueError as error:
        raise InputError(str(error), where=opened.reference) from None


# --- tables ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitting:
    """The first of some ways to show the same that is not too wide; else the last one.

    Attributes:
        ways: the widest first.
    """

    ways: Sequence[RenderableType]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """The one that fits."""
        endless = options.update(width=UNFOLDED)
        widths = (Measurement.get(console, endless, way).maximum for way in self.ways)
        ways = zip(self.ways, widths, strict=True)
        yield next((way for way, width in ways if width <= options.max_width), self.ways[-1])


def _table(*headings: str, rows: Iterable[Sequence[Text | str]], header: bool = True) -> Table:
    """A table that cuts nothing: what does not fit is folded."""
    table = Table(box=None, show_header=header)
    for heading in headings:
        table.add_column(Text(heading, overflow="fold"), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def neighbours_table(answer: Mapping[str, Ranking]) -> RenderableType:
    """Neighbours, a column a word; one word below the other where there is no room for that."""
    depth = max((len(ranking) for ranking in answer.values()), default=0)
    none = (Text(), Text())
    padded = [[*map(_ranked, r), *[none] * (depth - len(r))] for r in answer.values()]
    rows = [[cell for item in row for cell in item] for row in zip(*padded, strict=True)]
    columns = _table(*(h for word in answer for h in (word, COSINE)), rows=rows)
    singly = [_table(word, COSINE, rows=map(_ranked, r)) for word, r in answer.items()]
    return Fitting((columns, Group(*singly)))


COSINE = "cosine"
"""The heading over cosines."""


def beside_tables(answers: Mapping[str, Mapping[str, Ranking]]) -> RenderableType:
    """Neighbours by some vectors of a model and by others: a table a word, a column a choice."""
    asked = next(iter(answers.values()), {})
    return Group(
        *(
            neighbours_table({f"{word}, {choice}": answers[choice][word] for choice in answers})
            for word in asked
        )
    )


def _ranked(item: tuple[str, float]) -> tuple[Text, Text]:
    return Text(item[0]), Text(f"{item[1]:.3f}", "dim")


def ranking_table(answer: Ranking, score: str = COSINE) -> Table:
    """Words with their scores, which are called by a name."""
    return _table("word", score, rows=map(_ranked, answer))


def odd_table(answer: Ranking) -> RenderableType:
    """Which word is the odd one out, and below it all of them with their cosines."""
    odd = answer[-1][0]
    verdict = [Text("")] * (len(answer) - 1) + [Text("the odd one out", "bold")]
    rows = [(*_ranked(item), mark) for item, mark in zip(answer, verdict, strict=True)]
    return Group(
        Text.assemble("the odd one out is ", (odd, "bold"), overflow="fold"),
        _table("word", "cosine with the mean of all", "", rows=rows),
    )


def similarity_line(
    cosine: float, first: str, second: str, pair: tuple[str, str] | None = None
) -> Text:
    """A cosine, and of what it is."""
    if pair is not None:
        what = f"the offsets {second} - {first} and {pair[1]} - {pair[0]}"
    else:
        sides = (f"the mean of {one!r}" if " " in one else one for one in (first, second))
        what = " and ".join(sides)
    return Text(f"{cosine:.4f}  cosine of {what}")


def composed_line(words: Sequence[str]) -> Text:
    """That words are not in the vocabulary, and where their vectors are from."""
    one = len(words) == 1
    are, vectors = ("is", "its vector is") if one else ("are", "their vectors are")
    return Text(
        f"{', '.join(words)} {are} not in the vocabulary: {vectors} composed of characters or "
        "parts of words"
    )


def rank_line(place: int, closer: Sequence[str], k: int) -> Text:
    """A rank, with the first k of the words that are nearer."""
    shown, more = ", ".join(closer[:k]), len(closer) - k
    rest = f" and {more:,} more" if more > 0 else ""
    return Text(f"rank {place:,}" + (f"; nearer: {shown}{rest}" if shown else ""))


def versions_table(versions: Sequence[Version]) -> RenderableType:
    """Registered versions, a row each; on a narrow terminal less beside one another."""

    def ways() -> Iterator[RenderableType]:
        yield _table(*_VERSION, rows=[_cells(v, ", ") for v in versions])
        for without in ((), ("created",), ("created", "family")):
            kept = [i for i, heading in enumerate(_VERSION) if heading not in without]
            rows = [[_cells(version, "\n")[i] for i in kept] for version in versions]
            yield _table(*(_VERSION[i] for i in kept), rows=rows)
        yield Group(*(_listed(version) for version in versions))

    return Fitting(tuple(ways()))


_VERSION = ("name", "version", "alias", "family", "scores", "created")


def _cells(version: Version, between: str) -> list[str]:
    scores = between.join(f"{score.name} {score.shown}" for score in version.scores)
    created = time.strftime("%Y-%m-%d %H:%M", time.localtime(version.created))
    aliases = ", ".join(version.aliases)
    return [version.name, str(version.version), aliases, version.family, scores, created]


def _listed(version: Version) -> Text:
    """A version with a line for each of its scores."""
    aliases = "".join(f" @{alias}" for alias in version.aliases)
    lines = [f"{version.name} v{version.version}{aliases}"]
    lines += [f"  {score.name} {score.shown}" for score in version.scores]
    return Text("\n".join(lines), overflow="fold")


TAGS = ("base", "corpus", "flow_run_id", "git_commit", "parent", "quantization", "recipe")
"""Of a version, shown with what it was made from."""


def version_table(version: Version) -> Table:
    """All that is known of a version."""
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    facts: dict[str, object] = {
        "name": version.name,
        "version": version.version,
        "aliases": ", ".join(version.aliases),
        "family": version.family,
        "content": version.content,
        "created": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(version.created)),
        "MLflow run": version.run_id,
        "can": ", ".join(_can(version)),
        "vocabulary": version.vocabulary,
        "files": version.location,
        **{score.name: _score_lines(score) for score in version.scores},
        **{
            name: value
            for name, value in sorted(version.tags.items())
            if name.startswith("input.") or name in TAGS
        },
    }
    for name, value in facts.items():
        table.add_row(Text(name), Text(str(value)))
    return table


def _can(version: Version) -> Iterator[str]:
    """What it can do; what gives the probability of text makes text, too."""
    for able in version.capabilities:
        yield able
        if able == "scores":
            yield "generates"


SCORE_WIDTH = 70
"""Columns of a score, so that beside its name it fits a terminal of 100."""


def _score_lines(score: Score) -> str:
    """A score on lines of its own: value and baselines, coverage, and what was done with words."""
    lines: list[str] = []
    for part in score.line.removeprefix(f"{score.name}: ").split(" | "):
        if lines and len(lines[-1]) + len(part) + 3 <= SCORE_WIDTH:
            lines[-1] += f" | {part}"
        else:
            lines += textwrap.wrap(part, SCORE_WIDTH)
    return "\n".join(lines)


def change_table(before: str, after: str, change: Change) -> RenderableType:
    """What changed from one model to another."""
    absent = "" if change.absent is None else f", {change.absent:,} of them not in the new text"
    plain = "" if change.unaligned is None else f", {change.unaligned:.3f} as they are"
    head = Text(
        f"{before} to {after}\n"
        f"{change.shared:,} words of both{absent}; {change.new:,} new, {change.gone:,} gone\n"
        f"overlap@{NEIGHBOURS} {change.overlap:.3f}; cosine {change.cosine:.3f} aligned{plain}"
    )
    scores = [
        (kept.name, kept.shown, f"{kept.scored:,} of {kept.total:,} {kept.items}")
        for kept in change.scores
    ]
    bands = [
        (f"{band.first:,} to {band.last:,}", str(band.drawn), f"{band.overlap:.3f}",
         f"{band.cosine:.3f}")
        for band in change.bands
    ]  # fmt: skip
    moved = [
        (word.word, f"{word.overlap:.1f}", ", ".join(word.before), ", ".join(word.after))
        for word in change.moved
    ]
    near = f"overlap@{NEIGHBOURS}"
    return Group(
        head,
        *([_table("score", "", "measured on", rows=scores)] if scores else []),
        _table("rank of the word", "drawn", near, "cosine", rows=bands),
        _table("changed most", near, f"near in {before}", f"near in {after}", rows=moved),
    )
