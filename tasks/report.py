"""The report of a run: one HTML file that needs nothing from elsewhere, and the leaderboard.

The page shows what went in, what was dropped and why, what every model is worth beside its
baseline, and from what contents it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from tasks import charts
from tasks.artifacts import Stats
from tasks.card import read_card, zipf
from tasks.corpus import Corpus
from tasks.evaluation.score import Score, show
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
    standing,
)
from tasks.runner import Outcome
from tasks.store import Store
from tasks.vocabulary import read_types

__all__ = [
    "Registered", "Row", "leaderboard", "leaderboard_json", "leaderboard_markdown", "write_report",
]  # fmt: skip

CSS = Path(__file__).with_name("report.css")
LOSSES = (
    "<p class='small'>A loss is what training made small, by an estimator of its own: it does not "
    "compare with a score, nor with the loss of another family.</p>"
)


def write_report(
    path: Path,
    *,
    title: str,
    corpus: Corpus,
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    facts: Mapping[str, str],
    store: Store | None = None,
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
    """
    sections = {
        "Leaderboard": _leaderboard(rows),
        "Corpus": _corpus(corpus, outcomes, store),
        "Models": "".join(_model(row, rows) for row in rows),
        "Steps": _steps(outcomes),
        "Lineage": _lineage(corpus, rows),
    }
    links = "".join(f'<a href="#{name.lower()}">{name}</a>' for name in sections)
    bodies = "".join(
        f'<section id="{name.lower()}"><h2>{name}</h2>{body}</section>'
        for name, body in sections.items()
    )
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    head = _facts({"written": made, "corpus": corpus.content[:12], **facts})
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>lexloom: {escape(title)}</title><style>{CSS.read_text('utf-8')}</style></head>"
        f"<body><h1>{escape(title)}</h1><nav>{links}</nav>{head}{bodies}</body></html>\n"
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
                _value(score, row, rows, marks),
                _soft(score.range),
                escape(baselines(score)),
                _soft(coverage(score)),
            ]
            for score in row.scores
        ]
        about = f"<strong>{escape(row.title)}</strong><br>{_soft(row.paper)}<br>{_soft(row.seeds)}"
        trained = f"{row.seconds}<br>{_soft(row.rate + ', reused' * row.reused)}"
        body.append([about, trained, _table([], scores, right={1}), _registered(row)])
    notes = "".join(
        f"<p class='small'>{mark} not ranked: {escape(why)}</p>" for why, mark in marks.items()
    )
    head = ["model", "trained in", "score, baseline, measured on", "registered"]
    return _table(head, body) + notes + _pictures(rows)


def _pictures(rows: Sequence[Row]) -> str:
    """A bar a model for every score that more than one model has, or that is the only one."""
    names = {score.name: label(score) for row in rows for score in row.scores}
    figures = []
    for name, title in names.items():
        found = [(row, score) for row in rows for score in row.scores if score.name == name]
        lower = ", lower is better" if found[0][1].lower_is_better else ""
        figures.append(
            charts.bars([_bar(row.family, score) for row, score in found], caption=title + lower)
        )
    hint = (
        "<p class='small'>The line across a bar is the baseline of the score. In brackets stands "
        "the 95 % confidence interval over the items of a set; seeds add to it.</p>"
    )
    return f'<div class="charts">{"".join(figures)}</div>{hint if figures else ""}'


def _bar(name: str, score: Score) -> charts.Bar:
    base = score.baselines[0].value if score.baselines else None
    return charts.Bar(name, score.value, score.shown, base, score.line)


def _corpus(corpus: Corpus, outcomes: Sequence[Outcome], store: Store | None) -> str:
    stages = [
        [escape(stage), _counts(stats, dropped=False), _counts(stats, dropped=True)]
        for stage, stats in corpus.stats.items()
    ]
    parts = ["<h3>Stages</h3>", _table(["stage", "counts", "dropped"], stages)]
    vocabularies = [
        [
            escape(outcome.name.removeprefix("vocabulary ")),
            *(f"{outcome.stats[key]:,}" for key in ("size", "types", "covered", "tokens")),
            f"{int(outcome.stats['covered']) / max(1, int(outcome.stats['tokens'])):.2%}",
        ]
        for outcome in outcomes
        if outcome.name.startswith("vocabulary ")
    ]
    head = ["model", "entries", "types in the text", "tokens covered", "tokens", "coverage"]
    if vocabularies:
        parts += ["<h3>Vocabularies</h3>", _table(head, vocabularies, right={1, 2, 3, 4, 5})]
    sizes = {split: corpus.stats.get(f"tokenize {split}", {}) for split in corpus.tokens}
    tokens = {split: int(stats.get("tokens", 0)) for split, stats in sizes.items()}
    splits = [charts.Bar(split, n, f"{n:,}") for split, n in tokens.items()]
    pictures = charts.bars(splits, caption="Tokens by split", label_width=60, tail=100)
    more = ""
    if store is not None:
        pictures = _zipf(corpus, store) + pictures
        if corpus.card is not None:
            card = read_card(store, corpus.card)
            pictures += _growth(card)
            more = _card(card)
    return f'{"".join(parts)}<div class="charts">{pictures}</div>{more}'


def _zipf(corpus: Corpus, store: Store) -> str:
    _, counts = read_types(store.reader(corpus.types))
    points = [(float(rank), float(count)) for rank, count in zipf(counts)]
    law = [(x, points[0][1] / x) for x, _ in points if points[0][1] / x >= 1]
    return charts.lines(
        {"this corpus": points, "1 / rank": law},
        x="rank of the word",
        y="Count by rank",
        log_x=True,
        log_y=True,
        dashed=["1 / rank"],
    )


def _growth(card: Mapping[str, Any]) -> str:
    points = [(float(tokens), float(types)) for tokens, types in card["growth"]]
    return charts.lines(
        {"types": points}, x="tokens read", y="Types by tokens", log_x=True, log_y=True
    )


def _card(card: Mapping[str, Any]) -> str:
    """Lengths, languages and what was dropped, out of the card of the corpus."""
    lengths = [
        [escape(split), escape(name.replace("_", " ")), *map(_plain, sizes[name].values())]
        for split, sizes in card["splits"].items()
        for name in ("tokens_a_document", "tokens_a_sentence")
        if sizes[name]
    ]
    head = ["split", "", "shortest", "25%", "median", "75%", "99%", "longest", "mean"]
    n = sum(card["languages"].values())
    languages = ", ".join(f"{escape(name)} {_plain(k)}" for name, k in card["languages"].items())
    dropped = [
        [
            escape(stage),
            escape(reason),
            "<br>".join(f"<code>{escape(text)}</code>" for text in texts),
        ]
        for stage, reasons in card["dropped"].items()
        for reason, texts in reasons.items()
    ]
    parts = ["<h3>Lengths</h3>", _table(head, lengths, right=range(2, 9))]
    parts += ["<h3>Languages</h3>", f"<p>Of {n:,} documents drawn: {languages}</p>"]
    if dropped:
        examples = _table(["stage", "reason", "begin with"], dropped)
        parts.append(
            f"<details><summary>Examples of what was dropped</summary>{examples}</details>"
        )
    return "".join(parts)


def _model(row: Row, rows: Sequence[Row]) -> str:
    parts = [
        f'<div class="card"><h3>{escape(row.title)} {_registered(row)}</h3>',
        f"<p class='small'>{escape(row.paper)}</p>",
        _facts(
            {
                key.replace("_", " ").replace(".", " "): _plain(value)
                for key, value in row.training.items()
            }
        ),
        LOSSES if any("loss" in key for key in [*row.training, *row.curves]) else "",
        _curves(row),
        _table(["score", "value", "baseline", "coverage and policy"], _scores(row, rows)),
        f'<div class="charts">{"".join(_parts(score) for score in row.scores)}</div>',
    ]
    if row.neighbours:
        near = [
            [f"<strong>{escape(word)}</strong>", _near(found)]
            for word, found in row.neighbours.items()
        ]
        parts += ["<h3>Nearest neighbours, with their cosine</h3>", _table([], near)]
    return "".join(parts) + "</div>"


def _scores(row: Row, rows: Sequence[Row]) -> Iterable[list[str]]:
    for score in row.scores:
        held = "<br>".join(
            f"{escape(b.name)} {show(b.value, score.unit)} {_soft(b.note)}" for b in score.baselines
        )
        more = {k: v for k, v in score.details.items() if isinstance(v, int | float | str)}
        listed = _facts(
            {key.replace("_", " ").replace(".", " "): _plain(value) for key, value in more.items()}
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
            f"<strong>{score.shown}</strong><br>{_soft(score.range)}",
            held,
            f"{escape(coverage(score))}<br>{_soft(remark)}"
            f"<details class='small'><summary>details</summary>{listed}</details>",
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
    count = f"<p>{len(outcomes)} steps, {reused} of them reused, {duration(spent)} in all.</p>"
    return count + _table(head, body, right={2, 3})


def _lineage(corpus: Corpus, rows: Sequence[Row]) -> str:
    contents = {f"tokens {split}": tokens.content for split, tokens in corpus.tokens.items()}
    contents |= {"types": corpus.types.content, "corpus": corpus.content}
    contents |= {f"model {row.registered or row.family}": row.content for row in rows}
    body = [[escape(name), f"<code>{escape(content)}</code>"] for name, content in contents.items()]
    about = "<p>Content hashes: what has the same hash is the same, wherever it was made.</p>"
    return about + _table(["artifact", "content"], body)


# --- pieces ---------------------------------------------------------------------------------


def _table(head: Sequence[str], body: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table of cells that are HTML already; the columns of ``right`` hold numbers."""
    places = set(right)

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=right' if i in places else ''}>{cell}</{tag}>"
            for i, cell in enumerate(cells)
        )

    top = f"<thead><tr>{line([escape(cell) for cell in head], 'th')}</tr></thead>" if head else ""
    rows = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in body)
    return f'<div class="scroll"><table>{top}<tbody>{rows}</tbody></table></div>'


def _facts(facts: Mapping[str, str]) -> str:
    items = [f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items() if v]
    return f"<dl>{''.join(items)}</dl>" if items else ""


def _soft(text: str) -> str:
    return f'<span class="soft small">{escape(text)}</span>'


def _value(score: Score, row: Row, rows: Sequence[Row], marks: Mapping[str, str]) -> str:
    place = standing(score, row, rows)
    style = ' class="first"' if place.place == 1 else ""
    return f"<span{style}>{score.shown}{marks.get(place.reason, '')}</span>"


def _registered(row: Row) -> str:
    if row.registered is None:
        return ""
    aliases = "".join(
        f' <span class="tag">@{escape(alias)}</span>' for alias in row.registered.aliases
    )
    return (
        f'<span class="tag">{escape(row.registered.name)} v{row.registered.version}</span>{aliases}'
    )


def _near(found: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{escape(word)} {_soft(f'{cosine:.2f}')}" for word, cosine in found)


def _counts(stats: Stats, *, dropped: bool) -> str:
    chosen = {
        key.removeprefix("dropped."): value
        for key, value in stats.items()
        if key.startswith("dropped.") == dropped and (value or not dropped)
    }
    return ", ".join(f"{escape(key)} {_plain(value)}" for key, value in chosen.items())


def _plain(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value.is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.5g}"
