"""What language models answer about text, and text that they make, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from models.generation import Sampling
from tasks.counted import counted
from tasks.errors import ConfigError
from tasks.evaluation.perplexity import Tally, policy
from tasks.generation import Made
from tasks.registry import OpenedModel
from tasks.scoring import language_model, no_words, read_lines, score_lines, summary


def sampling(temperature: float, top_k: int | None, top_p: float, unknown: bool) -> Sampling:
    """How to draw words.

    Raises:
        ConfigError: a figure that means nothing.
    """
    try:
        return Sampling(temperature, top_k, top_p, unknown)
    except ValueError as error:
        raise ConfigError(
            str(error),
            where="query generate",
            remedy="correct it, or leave it out to draw as the model is",
        ) from None


def made_json(made: Sequence[Made], unknown: int) -> dict[str, Any]:
    """Texts as JSON."""
    return {"texts": [asdict(text) for text in made], "unknown_in_prefix": unknown}


def surprise(opened: OpenedModel, text: str) -> dict[str, Any]:
    """What a text comes to, and the log-probability of each of its words in nats.

    Raises:
        InputError: the model gives no probability of text, or the text has no words.
    """
    model = language_model(opened)
    blocks = list(score_lines(model, opened.text, text.split("\n")))
    words = [
        {"word": word, "log_prob": score if possible else None, "known": not unknown}
        for block in blocks
        for word, score, possible, unknown in zip(
            [token for sentence in block.tokens for token in (*sentence, "</s>")],
            block.scores.tolist(),
            (block.scores > -float("inf")).tolist(),
            block.with_ends(block.unknown, 0).tolist(),
            strict=True,
        )
    ]
    if not words:
        raise no_words("TEXT")
    return {**summary(model, sum((block.tally for block in blocks), Tally())), "words": words}


def surprise_of_file(opened: OpenedModel, source: str) -> dict[str, Any]:
    """What the text of a file comes to, "-" for standard input; it may be larger than the memory.

    Raises:
        InputError: the model gives no probability of text, the file cannot be read, or it has no
            words.
    """
    model, sums = language_model(opened), Tally()
    for block in score_lines(model, opened.text, read_lines(source)):
        sums += block.tally
    if sums.tokens == 0:
        raise no_words(source)
    return summary(model, sums)


# --- for a terminal -------------------------------------------------------------------------


def totals(answer: Mapping[str, Any]) -> Text:
    """The figures of a scored text in a few lines."""
    head = f"perplexity {_figure(answer['perplexity'], ',.2f')}"
    if answer["impossible"]:
        head = (
            f"perplexity is infinite: the model holds {answer['impossible']:,} of "
            f"{answer['scored']:,} tokens and sentence ends for impossible"
        )
    crosses = "" if answer["context_crosses_sentences"] else "no "
    return Text.assemble(
        (head, "bold"),
        f"\n{_figure(answer['perplexity_of_known'], ',.2f')} with <unk> left out (of known words "
        f"and sentence ends), bits a character {_figure(answer['bits_per_character'], '.4f')}"
        f"\n{counted(answer['tokens'], 'tokens')} and "
        f"{counted(answer['sentence_ends'], 'sentence ends')}, "
        f"{answer['unknown']:,} unknown ({answer['unknown_share']:.2%}); {policy(answer)}, "
        f"{crosses}context across sentences, {answer['direction']}"
        f"\nvocabulary {answer['vocabulary']}, {counted(answer['vocabulary_entries'], 'entries')}",
    )


def surprise_table(answer: Mapping[str, Any]) -> RenderableType:
    """The figures, and below them the log-probabilities, a row a word."""
    table = Table(box=None)
    for heading in ("word", "log-probability (nats)", ""):
        table.add_column(Text(heading, overflow="fold"), overflow="fold")
    for row in answer["words"]:
        score = "-inf" if row["log_prob"] is None else f"{row['log_prob']:.3f}"
        unknown = "" if row["known"] else "<unk>"
        table.add_row(Text(row["word"]), Text(score, justify="right"), Text(unknown))
    return Group(totals(answer), table)


def written_line(out: Path, by: str, answer: Mapping[str, Any]) -> Text:
    """Where the scores are, with their totals."""
    rows = answer["scored"] if by == "token" else answer["sentence_ends"]
    return Text(f"{out}: {counted(rows, 'rows')}, one a {by}\n").append_text(totals(answer))


def _figure(value: float | None, form: str) -> str:
    return "undefined" if value is None else format(value, form)
