"""The section of a report about a model: scores, curves, neighbours, and what it has forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tasks import charts
from tasks.evaluation.forgetting import NEIGHBOURS, Change
from tasks.evaluation.score import Score, show
from tasks.leaderboard import Row, coverage, label, standing
from tasks.report_pieces import listed, plain, registered_as, soft, table
from tasks.wordmap_page import map_figure

LOSSES = (
    "<p class='small'>A loss is what training made small, by an estimator of its own: it does not "
    "compare with a score, nor with the loss of another family.</p>"
)


def model_section(row: Row, rows: Sequence[Row]) -> str:
    """A card about one of the models of ``rows``."""
    parts = [
        f'<div class="card"><h3>{escape(row.called)} {registered_as(row)}</h3>',
        f"<p class='small'>{escape(row.paper)}</p>",
        listed(
            {
                key.replace("_", " ").replace(".", " "): plain(value)
                for key, value in row.training.items()
            }
        ),
        LOSSES if any("loss" in key for key in [*row.training, *row.curves]) else "",
        _curves(row),
        table(["score", "value", "baseline", "coverage and policy"], _scores(row, rows)),
        f'<div class="charts">{"".join(_parts(score) for score in row.scores)}</div>',
    ]
    if row.neighbours:
        near = [
            [f"<strong>{escape(word)}</strong>", _near(found)]
            for word, found in row.neighbours.items()
        ]
        parts += ["<h3>Nearest neighbours, with their cosine</h3>", table([], near)]
    if row.clusters:
        some = [[f"<code>{path}</code>", escape(", ".join(w))] for path, w in row.clusters.items()]
        parts += ["<h3>Some classes of words, by their path in the tree</h3>", table([], some)]
    if row.change:
        parts.append(_change(row.base, row.change))
    if row.words:
        parts += ["<h3>Frequent words</h3>", map_figure(row.words)]
    return "".join(parts) + "</div>"


def _change(base: str, change: Change) -> str:
    """What became of what the base knew."""
    facts = {
        "words of both": f"{change.shared:,}",
        "new words": f"{change.new:,}",
        "not in the new text": "" if change.absent is None else f"{change.absent:,}",
        f"overlap@{NEIGHBOURS}": f"{change.overlap:.3f}",
        "cosine, aligned": f"{change.cosine:.3f}",
        "cosine, as they are": "" if change.unaligned is None else f"{change.unaligned:.3f}",
    }
    scores = [
        [
            escape(kept.name.partition(".")[2]),
            show(kept.before, kept.unit),
            show(kept.after, kept.unit),
            soft(f"{kept.scored:,} of {kept.total:,} {kept.items}"),
        ]
        for kept in change.scores
    ]
    bands = [
        [
            f"{band.first:,} to {band.last:,}",
            f"{band.drawn:,}",
            f"{band.overlap:.3f}",
            f"{band.cosine:.3f}",
        ]
        for band in change.bands
    ]
    moved = [
        [
            f"<strong>{escape(word.word)}</strong>",
            f"{word.overlap:.1f}",
            f"{word.cosine:.2f}",
            escape(", ".join(word.before)),
            escape(", ".join(word.after)),
        ]
        for word in change.moved
    ]
    near = f"overlap@{NEIGHBOURS}"
    return "".join(
        [
            f"<h3>What became of {escape(base)}</h3>",
            "<p class='small'>Asked about words of both, among words of both; neighbours are the "
            f"{NEIGHBOURS} nearest, cosines those of the vectors turned onto each other.</p>",
            listed(facts),
            table(["score", "before", "now", "measured on"], scores, right={1, 2}),
            table(["rank of the word", "words drawn", near, "cosine"], bands, right={1, 2, 3}),
            table(["changed most", near, "cosine", "near before", "near now"], moved, right={1, 2}),
        ]
    )


def _scores(row: Row, rows: Sequence[Row]) -> Iterable[list[str]]:
    for score in row.scores:
        held = "<br>".join(
            f"{escape(b.name)} {show(b.value, score.unit)} {soft(b.note)}" for b in score.baselines
        )
        more = {k: v for k, v in score.details.items() if isinstance(v, int | float | str)}
        details = listed(
            {key.replace("_", " ").replace(".", " "): plain(value) for key, value in more.items()}
        )
        where = standing(score, row, rows).reason
        remark = "; ".join(
            filter(
                None,
                [score.policy, score.otherwise, score.undefined, where and f"not ranked: {where}"],
            )
        )
        yield [
            escape(label(score)),
            f"<strong>{score.shown}</strong><br>{soft(score.range)}",
            held,
            f"{escape(coverage(score))}<br>{soft(remark)}"
            f"<details class='small'><summary>details</summary>{details}</details>",
        ]


def _parts(score: Score) -> str:
    """Bars of the sections of an analogy set, or of the frequency bands of word pairs."""
    if bands := score.details.get("bands"):
        rows = [
            charts.Bar(
                band["band"],
                band["value"],
                f"{show(band['value'], score.unit)} of {band['scored']:,} of {band['total']:,}",
                title=band["undefined"],
            )
            for band in bands
        ]
        caption = f"{label(score)} by the count of the rarer word"
        return charts.bars(rows, caption=caption, width=600, tail=150)
    if "sections" not in score.details:
        return ""
    groups = {**score.details.get("subsets", {}), **score.details["sections"]}
    rows = [
        charts.Bar(
            name,
            tally["accuracy"],
            f"{show(tally['accuracy'], 'accuracy')} of {tally['scored']:,} asked",
            title=f"{tally['correct']:,} right of {tally['scored']:,} asked of {tally['total']:,}",
        )
        for name, tally in groups.items()
    ]
    return charts.bars(rows, caption=f"{label(score)} by section", width=600, tail=130)


def _curves(row: Row) -> str:
    figures = (
        charts.lines({name: points}, x="step", y=name.replace("_", " "))
        for name, points in row.curves.items()
        if len(points) > 1
    )
    return f'<div class="charts">{"".join(figures)}</div>'


def _near(found: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{escape(word)} {soft(f'{cosine:.2f}')}" for word, cosine in found)
