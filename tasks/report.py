"""The report of a run: one HTML file that needs nothing from elsewhere, and the leaderboard.

The page shows what went in, what was dropped and why, what every model is worth beside its
baseline, and from what contents it was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tasks import charts
from tasks.corpus import Corpus
from tasks.counted import counted
from tasks.evaluation.score import Score, incomparable
from tasks.leaderboard import (
    Registered,
    Row,
    baselines,
    coverage,
    duration,
    footnotes,
    label,
    leaderboard,
    leaderboard_json,
    leaderboard_markdown,
)
from tasks.published import Published, published_table, remarks
from tasks.report_corpus import corpus_section
from tasks.report_model import model_section
from tasks.report_pieces import listed, registered_as, shown_value, soft, table
from tasks.runner import Outcome
from tasks.store import Store
from tasks.wordmap_page import map_style_and_script

__all__ = [
    "Registered", "Row", "leaderboard", "leaderboard_json", "leaderboard_markdown", "write_report",
]  # fmt: skip

CSS = Path(__file__).with_name("report.css")


def write_report(
    path: Path,
    *,
    title: str,
    corpus: Corpus,
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    facts: Mapping[str, str],
    store: Store | None = None,
    published: Published | None = None,
) -> None:
    """Write the report as one HTML file.

    Args:
        path: of the file; its folder is made.
        title: of the run.
        corpus: what the models were trained on, with its counts.
        rows: one a model.
        outcomes: the steps of the run.
        facts: more about the run for its head (store, MLflow, git commit, flow run).
        store: of the corpus, for the picture of its word frequencies.
        published: figures of a paper, to be set beside those of the models.
    """
    sections = {
        "Leaderboard": _leaderboard(rows),
        **({"Published": _published(rows, published)} if published else {}),
        "Corpus": corpus_section(corpus, outcomes, store),
        "Models": "".join(model_section(row, rows) for row in rows),
        "Steps": _steps(outcomes),
        "Lineage": _lineage(corpus, rows),
    }
    links = "".join(f'<a href="#{name.lower()}">{name}</a>' for name in sections)
    bodies = "".join(
        f'<section id="{name.lower()}"><h2>{name}</h2>{body}</section>'
        for name, body in sections.items()
    )
    style, script = map_style_and_script() if any(row.words for row in rows) else ("", "")
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    head = listed({"written": made, "corpus": corpus.content[:12], **facts})
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>lexloom: {escape(title)}</title>"
        f"<style>{CSS.read_text('utf-8')}{style}</style></head>"
        f"<body><h1>{escape(title)}</h1><nav>{links}</nav>{head}{bodies}{script}</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Names and words of a corpus may hold anything; the file is UTF-8 all the same.
    path.write_bytes(page.encode("utf-8", "replace"))


# --- sections -------------------------------------------------------------------------------


def _leaderboard(rows: Sequence[Row]) -> str:
    marks = footnotes(rows)
    body = []
    for row in rows:
        scores = [
            [
                escape(label(score)),
                shown_value(score, row, rows, marks),
                soft(score.range),
                escape(baselines(score)),
                soft(coverage(score)),
            ]
            for score in row.scores
        ]
        about = f"<strong>{escape(row.called)}</strong><br>{soft(row.paper)}<br>{soft(row.seeds)}"
        about += f"<br>{soft(row.goes_on)}" * bool(row.goes_on)
        trained = f"{row.seconds}<br>{soft(row.rate + ', reused' * row.reused)}"
        body.append([about, trained, table([], scores, right={1}), registered_as(row)])
    notes = "".join(
        f"<p class='small'>{mark} not ranked: {escape(why)}</p>" for why, mark in marks.items()
    )
    head = ["model", "trained in", "score, baseline, measured on", "registered"]
    return table(head, body) + notes + _pictures(rows)


def _published(rows: Sequence[Row], published: Published) -> str:
    head, lines = published_table(rows, published)
    body = [[escape(cell) for cell in line] for line in lines]
    about = f"<p class='small'>{escape(remarks(published, rows))}</p>"
    return table(head, body, right=set(range(1, len(head)))) + about


def _pictures(rows: Sequence[Row]) -> str:
    """A chart for every score with a bar a model; what does not compare has charts apart."""
    names = {score.name: label(score) for row in rows for score in row.scores}
    figures = []
    for name, title in names.items():
        charted: list[list[tuple[Row, Score]]] = []
        for one in ((row, score) for row in rows for score in row.scores if score.name == name):
            alike = (group for group in charted if not incomparable(one[1], group[0][1]))
            if (group := next(alike, None)) is not None:
                group.append(one)
            else:
                charted.append([one])
        for group in charted:
            lower = ", lower is better" if group[0][1].lower_is_better else ""
            why = incomparable(group[0][1], charted[0][0][1])
            caption = f"{title}{lower}{f' (apart: {why})' if why else ''}"
            figures.append(charts.bars([_bar(r.family, s) for r, s in group], caption=caption))
    hint = (
        "<p class='small'>The line across a bar is the baseline of the score. In brackets stands "
        "the 95 % confidence interval over the items of a set; seeds add to it.</p>"
    )
    return f'<div class="charts">{"".join(figures)}</div>{hint if figures else ""}'


def _bar(name: str, score: Score) -> charts.Bar:
    base = score.baselines[0].value if score.baselines else None
    return charts.Bar(name, score.value, score.shown, base, score.line)


def _steps(outcomes: Sequence[Outcome]) -> str:
    reused = sum(outcome.reused for outcome in outcomes)
    spent = sum(outcome.seconds for outcome in outcomes)
    body = [
        [
            escape(outcome.name),
            '<span class="tag">reused</span>' if outcome.reused else "computed",
            f"{outcome.computed} of {outcome.total}",
            duration(outcome.seconds),
            f"<code>{outcome.artifact.content[:12]}</code>",
        ]
        for outcome in outcomes
    ]
    head = ["step", "", "partitions computed", "took", "content"]
    steps = counted(len(outcomes), "steps")
    count = f"<p>{steps}, {reused} of them reused, {duration(spent)} in all.</p>"
    return count + table(head, body, right={2, 3})


def _lineage(corpus: Corpus, rows: Sequence[Row]) -> str:
    contents = {f"tokens {split}": tokens.content for split, tokens in corpus.tokens.items()}
    contents |= {"types": corpus.types.content, "corpus": corpus.content}
    contents |= {f"model {row.registered or row.family}": row.content for row in rows}
    body = [[escape(name), f"<code>{escape(content)}</code>"] for name, content in contents.items()]
    about = "<p>Content hashes: what has the same hash is the same, wherever it was made.</p>"
    return about + table(["artifact", "content"], body)
