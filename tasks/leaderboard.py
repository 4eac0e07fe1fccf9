"""The leaderboard: one row a model, in a terminal, as Markdown and as JSON.

A place is given only among scores that compare: equal vocabulary and text for perplexities, equal
covered items for the rest (``score.incomparable``). Where they do not, it says so instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tasks.artifacts import Stats
from tasks.counted import counted
from tasks.evaluation.compare import Spread
from tasks.evaluation.forgetting import Change
from tasks.evaluation.score import Score, incomparable, show
from tasks.wordmap import WordMap

FRAME, GAP = 4, 2
"""Columns of a terminal that the frame of a leaderboard takes, and between two of its columns."""

BEST = "★"
"""Marks the best of the scores that compare."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Registered:
    """Where a model is registered.

    Attributes:
        name: of the registered model.
        version: of it.
        aliases: that point to this version, "champion".
    """

    name: str
    version: int
    aliases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([f"{self.name} v{self.version}", *(f"@{alias}" for alias in self.aliases)])


@dataclass(frozen=True)
class Row:
    """One model of a run.

    Attributes:
        family: the discriminator, "word2vec".
        name: of the model in its run, "small".
        title: what a leaderboard calls it.
        paper: its source.
        training: the stats of the train step (``training_seconds``, ``tokens_per_second``, ...).
        scores: what it is worth.
        content: the content hash of the model.
        reused: whether the model was in the store already.
        registered: where it is registered, if it is.
        curves: training curves by metric, as (step, value).
        neighbours: nearest neighbours with their cosine, by word.
        clusters: words of some classes, by their path, if it has classes.
        spreads: of its scores over models that differ by their seed alone, if there are several.
        base: the model that the training went on from, "NAME/3"; empty where it began anew.
        change: what became of what the base knew.
        words: a map of frequent words, if it has vectors of words.
    """

    family: str
    title: str
    paper: str
    training: Stats
    scores: tuple[Score, ...]
    content: str = ""
    reused: bool = False
    registered: Registered | None = None
    curves: Mapping[str, Points] = field(default_factory=dict)
    neighbours: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    clusters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    spreads: tuple[Spread, ...] = ()
    words: WordMap | None = None
    name: str = ""
    base: str = ""
    change: Change | None = None

    @property
    def called(self) -> str:
        """What to call it for people: its family, and its name where this is another."""
        return self.title if self.name in ("", self.family) else f"{self.title}, {self.name}"

    @property
    def goes_on(self) -> str:
        """From what the training went on, and what became of it, in one line for people."""
        if not self.base:
            return ""
        return f"goes on from {self.base}" + (f": {self.change.line}" if self.change else "")

    @property
    def seconds(self) -> str:
        """The training time for people."""
        value = self.training.get("training_seconds")
        return duration(float(value)) if value is not None else "-"

    @property
    def rate(self) -> str:
        """Tokens or records of a co-occurrence table a second, for people."""
        for unit in ("tokens", "records"):
            if (value := self.training.get(f"{unit}_per_second")) is not None:
                return f"{float(value):,.0f} {unit}/s"
        return "-"

    @property
    def seeds(self) -> str:
        """Mean and standard deviation over seeds, for people; empty where there is one seed."""
        names = {score.name: label(score) for score in self.scores}
        shown = [
            f"{names[spread.name]} {spread.shown}"
            for spread in self.spreads
            if spread.name in names and spread.deviation is not None and not spread.reason
        ]
        return f"over {len(self.spreads[0].values)} seeds: {', '.join(shown)}" if shown else ""


@dataclass(frozen=True)
class Standing:
    """Where a score stands.

    Attributes:
        place: from 1, equal scores share one; None where there is nothing to be ranked against.
        reason: why it is not ranked against others of its name, if so.
        best: it is the first of all others, and better than its baselines.
    """

    place: int | None
    reason: str = ""
    best: bool = False


def standing(score: Score, row: Row, rows: Sequence[Row]) -> Standing:
    """The place of a score of a row among all rows."""
    others = [s for other in rows if other is not row for s in other.scores if s.name == score.name]
    reasons = [incomparable(score, other) for other in others]
    rivals = [other for other, why in zip(others, reasons, strict=True) if not why]
    reason = next((why for why in reasons if why), "")
    if not rivals or score.value is None:
        return Standing(None, reason)
    place = 1 + sum(_better(rival.value, score) for rival in rivals)
    held = [b.value for b in score.baselines if b.name != "champion"]
    beaten = not any(_better(value, score) or value == score.value for value in held)
    return Standing(place, reason, best=place == 1 and not reason and beaten)


def _better(value: float | None, than: Score) -> bool:
    """Whether a value is better than a score."""
    if value is None or than.value is None:
        return than.value is None and value is not None
    return value < than.value if than.lower_is_better else value > than.value


TEXT_KINDS = {
    "perplexity": "perplexity",
    "perplexity_backward": "perplexity backward",
    "pseudo_perplexity": "pseudo-perplexity",
    "bits_per_character": "bits/char",
}


def label(score: Score) -> str:
    """The name of a score for people: "perplexity test", "wordsim353", "google 3CosAdd", "ap"."""
    kind, _, name = score.name.partition(".")
    if kind in TEXT_KINDS:
        return f"{TEXT_KINDS[kind]} {name}"
    method = score.details.get("method")
    return f"{name.removesuffix('.3cosmul').removesuffix('.opp')} {method}" if method else name


def coverage(score: Score) -> str:
    """What a score rests on, for people."""
    if score.unit == "perplexity":
        ends = "+</s>" if score.details["sentence_ends_counted"] else ""
        return f"{score.total:,} tokens{ends}, {score.details['unknown_share']:.1%} <unk>"
    if score.unit == "pseudo_perplexity":
        about = "tokens hidden in turn"
        return f"{score.scored:,} {about}, {score.details['unknown_share']:.1%} <unk>"
    if score.unit == "bits_per_character":
        return f"{score.total:,} chars, <unk> spelt out"
    return f"{score.scored:,} of {counted(score.total, score.items)} ({score.coverage:.0%})"


def baselines(score: Score) -> str:
    """What a score is to be held against, for people."""
    return ", ".join(f"{b.name} {show(b.value, score.unit)}" for b in score.baselines)


def duration(seconds: float) -> str:
    """A time for people: "0.4 s", "2 min 05 s", "3 h 07 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def footnotes(rows: Sequence[Row]) -> dict[str, str]:
    """The marks of scores that are not ranked, by the reason why."""
    marks: dict[str, str] = {}
    for row in rows:
        for score in row.scores:
            if reason := standing(score, row, rows).reason:
                marks.setdefault(reason, "*†‡§¶"[len(marks) % 5])
    return marks


def leaderboard(rows: Sequence[Row]) -> Leaderboard:
    """The leaderboard for a terminal: one row a model."""
    return Leaderboard(tuple(rows))


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard that fits the width of its terminal; what rich can print.

    Names and values are never cut or folded. Where a terminal is too narrow, the baselines of a
    score stand one below the other, and what it rests on is folded between words; where there is
    no room for these either, confidence intervals give way, and at last what a score rests on and
    its baselines.
    """

    rows: tuple[Row, ...]

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """The table, and below it why some scores are not ranked."""
        marks = footnotes(self.rows)
        cells = [
            [
                (Text(label(score)), _value(score, row, self.rows, marks), Text(score.range, "dim"),
                 Text(baselines(score)), Text(coverage(score)))
                for score in row.scores
            ]
            for row in self.rows
        ]  # fmt: skip
        widths = _widths([line for lines in cells for line in lines], options.max_width - FRAME)
        table = Table(box=box.HORIZONTALS, show_header=False, show_lines=True)
        for row, lines in zip(self.rows, cells, strict=True):
            scores = Table.grid(padding=(0, GAP, 0, 0))
            kept = [i for i, width in enumerate(widths) if width]
            for i in kept:
                scores.add_column(width=widths[i], justify="right" if i == 1 else "left")
            for line in lines:
                scores.add_row(*(line[i] for i in kept))
            table.add_row(Group(*_about(row), scores))
        yield table
        if any(standing(s, row, self.rows).best for row in self.rows for s in row.scores):
            yield Text(f"{BEST} the best of those that compare", "dim")
        for reason, mark in marks.items():
            yield Text(f"{mark} not ranked: {reason}", "italic")


def _widths(lines: Sequence[Sequence[Text]], room: int) -> list[int]:
    """The widths of the columns: name, value, interval, baselines, coverage; 0 leaves one out."""
    widths = [max((line[i].cell_len for line in lines), default=1) for i in range(5)]
    name, value, interval, baseline, _ = widths
    if _across(widths) <= room:
        return widths
    # One baseline a line, with its comma; then folds between the words of the coverage.
    single = 1 + _longest(part for line in lines for part in line[3].plain.split(", "))
    baseline = min(baseline, single)
    word = _longest(word for line in lines for word in line[4].plain.split())
    for shown in (interval, 0):
        kept = [name, value, shown, baseline]
        left = room - _across([*kept, 0]) - GAP
        if left >= word:
            return [*kept, left]
    without = [name, value, 0, baseline, 0]
    return without if _across(without) <= room else [name, value, 0, 0, 0]


def _across(widths: Sequence[int]) -> int:
    """What columns take with the gaps behind them."""
    return sum(width + GAP for width in widths if width)


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _about(row: Row) -> Iterator[Text]:
    yield Text.assemble(
        (row.called, "bold"), f"  {row.seconds}, {row.rate}{', reused' * row.reused}"
    )
    yield Text(row.paper, "dim")
    if row.goes_on:
        yield Text(row.goes_on)
    if row.registered:
        yield Text(f"registered as {row.registered}", "cyan", overflow="fold")
    if row.seeds:
        yield Text(row.seeds, overflow="fold")


def _value(score: Score, row: Row, rows: Sequence[Row], marks: Mapping[str, str]) -> Text:
    place = standing(score, row, rows)
    mark = marks.get(place.reason, "")
    best = place.best
    return Text(f"{score.shown}{BEST * best}{mark}", "bold green" if best else "")


def leaderboard_markdown(rows: Sequence[Row]) -> str:
    """The leaderboard as Markdown: one row a model, a column a score."""
    marks = footnotes(rows)
    names = {score.name: label(score) for row in rows for score in row.scores}
    head = ["model", "trained in", *names.values(), "registered"]
    lines = [_line(head), _line(["---"] * len(head))]
    for row in rows:
        scores = {score.name: score for score in row.scores}
        cells = [_cell(scores.get(name), row, rows, marks) for name in names]
        parts = [f"**{row.called}** ({row.paper})", row.seeds, row.goes_on]
        about = "; ".join(filter(None, parts))
        lines.append(
            _line([about, f"{row.seconds}, {row.rate}", *cells, str(row.registered or "-")])
        )
    notes = [f"{mark} not ranked: {reason}" for reason, mark in marks.items()]
    return "\n".join(lines) + "".join(f"\n\n{note}" for note in notes) + "\n"


def _cell(score: Score | None, row: Row, rows: Sequence[Row], marks: Mapping[str, str]) -> str:
    if score is None:
        return "-"
    place = standing(score, row, rows)
    shown = f"**{score.shown}**" if place.best else score.shown
    mark = marks.get(place.reason, "").replace("*", "\\*")
    about = "; ".join(filter(None, [baselines(score), coverage(score)]))
    return " ".join(filter(None, [f"{shown}{mark}", score.range, f"({about})"]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def leaderboard_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The leaderboard as JSON: one object a model, with every detail of its scores."""
    found = []
    for row in rows:
        value = asdict(replace(row, scores=(), curves={}, neighbours={}, clusters={}))
        for unused in ("curves", "neighbours", "clusters"):
            del value[unused]
        value["training"] = dict(row.training)
        value["scores"] = [
            {**score.to_json(), **asdict(standing(score, row, rows))} for score in row.scores
        ]
        found.append(value)
    return found
