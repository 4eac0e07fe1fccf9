"""Text that a language model makes: it goes on from what somebody has begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.capabilities import Predicts, ReadsLetters, SpellsWords
from models.generation import Sampling, generate
from models.text import Sentences
from tasks.counted import counted
from tasks.errors import ConfigError, InputError
from tasks.registry import OpenedModel
from tasks.scoring import language_model
from tasks.subwords import CONTINUING
from tasks.tokenize import BLANK, Tokenize

MOST = 10_000_000
"""Words that are made at a time; all of them are held in memory."""


@dataclass(frozen=True)
class Made:
    """One text.

    Attributes:
        text: all of it, as it would be written.
        prefix: tokens that were given.
        tokens: that were made.
        ended: whether the model ended the sentence; else the length did.
        log_prob: nats of what was made, its end included, under the model as it is.
    """

    text: str
    prefix: tuple[str, ...]
    tokens: tuple[str, ...]
    ended: bool
    log_prob: float


def make_texts(
    asked: OpenedModel, prefix: str, count: int, *, how: Sampling, length: int, seed: int
) -> tuple[list[Made], int]:
    """Texts that go on from one beginning.

    Text ``i`` depends on the seed and ``i``, not on how many are made. A model that reads on from
    sentence to sentence takes the text for the beginning of a document.

    Args:
        asked: the model.
        prefix: the beginning of a sentence, as raw text; empty to begin one.
        count: texts to make.
        how: to draw words.
        length: words to add, at most.
        seed: of all texts.

    Returns:
        the texts, and how many words of the prefix the model does not know: it takes each for
        ``<unk>``.

    Raises:
        InputError: the model makes no text, or the prefix is more than one sentence.
        ConfigError: a count, length or seed that means nothing.
    """
    model = language_model(asked)
    if not isinstance(model, Predicts | SpellsWords):
        raise InputError(
            "this model scores text but gives no distribution of the next word",
            where=asked.reference,
            remedy="ask another one, such as ngram or nplm",
        )
    for what, value, least in (("count", count, 1), ("length", length, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(
                f"the {what} is {least} or more, not {value}",
                where=f"--{what}",
                remedy="give another number, or leave it out",
            )
    if count * length > MOST:
        raise ConfigError(
            f"{counted(count, 'texts')} of up to {length:,} words {'is' if count == 1 else 'are'} "
            f"more than {MOST:,} words",
            where="--count and --length",
            remedy="ask for fewer at a time, each time with another --seed",
        )
    begun = asked.text.sentences(prefix)
    if len(begun) > 1:
        raise InputError(
            f"a prefix is the beginning of one sentence, and these are {len(begun)}",
            where="--prefix",
            remedy="give the last one",
        )
    first, vocabulary = begun[0] if begun else [], model.vocabulary
    texts = Sentences.of(vocabulary, [first] * count)
    if isinstance(model, SpellsWords):
        _refuse_choice_of_words(how, asked.reference)
        try:
            spelt = model.spell_on(texts, seed=seed, length=length, temperature=how.temperature)
        except ValueError as error:
            raise ConfigError(str(error), where=asked.reference) from None
        return [_spelt(asked, model, first, words, length) for words in spelt], 0
    try:
        found = generate(
            model, texts, unknown=vocabulary.unknown, how=how, length=length, seed=seed
        )
    except ValueError as error:
        raise ConfigError(str(error), where=asked.reference) from None
    made = []
    for text in found:
        tokens = [vocabulary.entries[id_] for id_ in text.ids]
        shown = written([*first, *tokens], asked.text.tokenize)
        made.append(Made(shown, tuple(first), tuple(tokens), text.ended, text.log_prob))
    by_letters = isinstance(model, ReadsLetters)
    return made, 0 if by_letters else sum(word not in vocabulary for word in first)


def _refuse_choice_of_words(how: Sampling, reference: str) -> None:
    """A model that spells has no list of words to choose among."""
    for what, default in (("top_k", None), ("top_p", 1.0), ("unknown", False)):
        if getattr(how, what) != default:
            raise ConfigError(
                f"{reference} spells words letter by letter: there are none to choose among",
                where="--" + what.replace("_", "-"),
                remedy="leave it out; --temperature tells how daring the spelling is",
            )


def _spelt(
    asked: OpenedModel, model: Any, first: Sequence[str], words: Sequence[str], length: int
) -> Made:
    """A text of words that were spelt out, with what the model gives it.

    Scored alone, so that its last bits do not depend on the texts beside it.
    """
    said = Sentences.of(model.vocabulary, [[*first, *words]])
    ended = len(words) < length
    scores = model.log_prob(said)[len(first) : len(first) + len(words) + ended]
    shown = written([*first, *words], asked.text.tokenize)
    return Made(shown, tuple(first), tuple(words), ended, float(scores.sum()))


def written(tokens: Sequence[str], settings: Tokenize) -> str:
    """Tokens as a text: the other way round as far as it is known; blanks between words."""
    match settings.scheme:
        case "bpe" | "unigram" | "characters":
            return "".join(tokens).replace(BLANK, " ").strip()
        case "wordpiece":
            return " ".join(tokens).replace(f" {CONTINUING}", "")
        case "bytes":
            parts = [
                bytes([int(token[3:5], 16)]) if token.startswith("<0x") else token.encode()
                for token in tokens
            ]
            return b"".join(parts).decode("utf-8", "replace")
        case _:
            return " ".join(tokens)
