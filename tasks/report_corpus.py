"""The section of a report about the corpus: what went in, and what was dropped and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tasks import charts
from tasks.artifacts import Stats
from tasks.card import read_card, zipf
from tasks.corpus import Corpus
from tasks.counted import counted
from tasks.report_pieces import plain, table
from tasks.runner import Outcome
from tasks.store import Store
from tasks.vocabulary import read_types


def corpus_section(corpus: Corpus, outcomes: Sequence[Outcome], store: Store | None) -> str:
    """What went in by stage, what was dropped, and what the card and the counts show."""
    stages = [
        [escape(stage), _counts(stats, dropped=False), _counts(stats, dropped=True)]
        for stage, stats in corpus.stats.items()
    ]
    parts = ["<h3>Stages</h3>", table(["stage", "counts", "dropped"], stages)]
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
        parts += ["<h3>Vocabularies</h3>", table(head, vocabularies, right={1, 2, 3, 4, 5})]
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
        [escape(split), escape(name.replace("_", " ")), *map(plain, sizes[name].values())]
        for split, sizes in card["splits"].items()
        for name in ("tokens_a_document", "tokens_a_sentence")
        if sizes[name]
    ]
    head = ["split", "", "shortest", "25%", "median", "75%", "99%", "longest", "mean"]
    n = sum(card["languages"].values())
    languages = ", ".join(f"{escape(name)} {plain(k)}" for name, k in card["languages"].items())
    dropped = [
        [
            escape(stage),
            escape(reason),
            "<br>".join(f"<code>{escape(text)}</code>" for text in texts),
        ]
        for stage, reasons in card["dropped"].items()
        for reason, texts in reasons.items()
    ]
    parts = ["<h3>Lengths</h3>", table(head, lengths, right=range(2, 9))]
    parts += ["<h3>Languages</h3>", f"<p>Of {counted(n, 'documents')} drawn: {languages}</p>"]
    if dropped:
        examples = table(["stage", "reason", "begin with"], dropped)
        parts.append(
            f"<details><summary>Examples of what was dropped</summary>{examples}</details>"
        )
    return "".join(parts)


def _counts(stats: Stats, *, dropped: bool) -> str:
    chosen = {
        key.removeprefix("dropped."): value
        for key, value in stats.items()
        if key.startswith("dropped.") == dropped and (value or not dropped)
    }
    return ", ".join(f"{escape(key)} {plain(value)}" for key, value in chosen.items())
