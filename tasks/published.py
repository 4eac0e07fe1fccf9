"""Figures that a paper published, and the table that sets a run's beside them.

Perplexities of another edition of a text, or under another vocabulary, do not compare with ours;
what compares is how the models of one table stand to each other. So each score is also shown as its
ratio to that of one model, ours to ours and the paper's to the paper's. Of ours there is no ratio
where the two do not compare (``score.incomparable``), but for one thing: papers hold models that
read on across sentences against others that do not, so then there is one, and a remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from rich import box
from rich.table import Table

from tasks.evaluation.score import Score, incomparable, show
from tasks.leaderboard import Row, label


class Published(BaseModel):
    """What a paper has to say of the models of a recipe.

    Attributes:
        source: the paper, and the table in it.
        against: the name of the model to which ratios are told.
        notes: how its figures and ours differ in what they measure.
        scores: by the name of a model in the recipe, then by that of a score.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    against: str
    notes: tuple[str, ...] = ()
    scores: Annotated[dict[str, dict[str, float]], Field(min_length=1)]

    @property
    def names(self) -> list[str]:
        """The scores that there are figures of."""
        return list(dict.fromkeys(name for scores in self.scores.values() for name in scores))


Cells = list[str]


def published_table(rows: Sequence[Row], published: Published) -> tuple[Cells, list[Cells]]:
    """The head and the lines of the table: one a model of the run, ours first.

    A model that the paper does not have stands there too; one of the paper's that was not trained
    does not.
    """
    ours = {row.name: {s.name: s for s in row.scores} for row in rows}
    units = {s.name: (label(s), s.unit) for row in rows for s in row.scores}
    names = [name for name in published.names if name in units]
    head = ["model", "trained in"]
    for name in names:
        head += [units[name][0], "ratio", "published", "ratio"]
    lines = []
    for row in rows:
        line = [row.name, row.seconds]
        for name in names:
            base = ours.get(published.against, {}).get(name)
            line += _ours(ours[row.name].get(name), base)
            line += _theirs(published, row.name, name, units[name][1])
        lines.append(line)
    return head, lines


def _ours(score: Score | None, base: Score | None) -> Cells:
    """A score, and its ratio to that of another model where they compare."""
    if score is None or score.value is None:
        return ["", ""]
    compares = base is not None and not incomparable(_as_if_reading(score, base), base)
    ratio = score.value / base.value if base is not None and base.value and compares else None
    return [score.shown, "" if ratio is None else f"{ratio:.3f}"]


def _theirs(published: Published, model: str, name: str, unit: str) -> Cells:
    """A figure of the paper, and its ratio to that of another model."""
    value = published.scores.get(model, {}).get(name)
    base = published.scores.get(published.against, {}).get(name)
    if value is None:
        return ["", ""]
    return [show(value, unit), f"{value / base:.3f}" if base else ""]


CROSSES = "context_crosses_sentences"


def _as_if_reading(score: Score, base: Score) -> Score:
    """The score as if its model saw as much of a document as that of the base."""
    return replace(score, details={**score.details, CROSSES: base.details.get(CROSSES)})


def show_published(rows: Sequence[Row], published: Published) -> Table:
    """The table for a terminal."""
    head, lines = published_table(rows, published)
    table = Table(box=box.HORIZONTALS, caption=remarks(published, rows), caption_justify="left")
    for i, title in enumerate(head):
        table.add_column(title, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for line in lines:
        table.add_row(*line)
    return table


def published_markdown(rows: Sequence[Row], published: Published) -> str:
    """The table as Markdown."""
    head, lines = published_table(rows, published)
    ruler = ["---", *["---:"] * (len(head) - 1)]
    written = [f"| {' | '.join(line)} |" for line in [head, ruler, *lines]]
    return "\n".join([*written, "", remarks(published, rows)]) + "\n"


def remarks(published: Published, rows: Sequence[Row]) -> str:
    """What has to be known to read the table."""
    about = f"Published: {published.source}. Ratios are to {published.against}."
    return " ".join([about, *published.notes, *_apart(rows, published)])


def _apart(rows: Sequence[Row], published: Published) -> list[str]:
    """Which models are not quite on the terms of the one to which ratios are told."""
    against = next((row for row in rows if row.name == published.against), None)
    base = {score.name: score for score in against.scores} if against else {}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        found = (
            incomparable(score, base[score.name])
            for score in row.scores
            if score.name in base and score.name in published.names
        )
        for reason in dict.fromkeys(filter(None, found)):
            reasons.setdefault(reason, []).append(row.name)
    return [
        f"Beside {published.against}, of {', '.join(names)}: {reason}."
        for reason, names in reasons.items()
    ]
