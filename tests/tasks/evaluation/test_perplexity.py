"""Perplexity: by hand, whatever the partitions, and never across vocabularies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import BOS, EOS, LM_RESERVED, UNK, Vocabulary
from tasks.errors import InputError, TrainingError
from tasks.evaluation.perplexity import measure, tally, unigram
from tasks.evaluation.score import Baseline, Score, incomparable
from tasks.evaluation.sets import read_text
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.tokenize import Tokenize

Text = Sequence[Sequence[str]]


def partition(sentences: Text) -> TokenPartition:
    counts = Counter(word for sentence in sentences for word in sentence)
    types = Vocabulary((), tuple(counts), np.array([*counts.values()], dtype=np.int64))
    # Written with a blank between two tokens and a line end.
    characters = [sum(len(word) + 1 for word in sentence) for sentence in sentences]
    text = Sentences.of(types, sentences)
    return TokenPartition(types.words, types.counts, text, np.array(characters, np.int64))


def tokens(*partitions: Text) -> Tokens:
    return Tokens([partition(sentences) for sentences in partitions])


def vocabulary(**counts: int) -> Vocabulary:
    return Vocabulary(LM_RESERVED, tuple(counts), np.array([*counts.values()], dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Scorer:
    """A model that gives probabilities and nothing else."""

    vocabulary: Vocabulary
    log_prob: Callable[[Sentences], np.ndarray]
    config: object = None

    def state(self) -> dict[str, np.ndarray]:
        return {}


def fixed(words: dict[str, int], **probabilities: float) -> Scorer:
    """A model that gives every entry the same probability wherever it stands."""
    known = vocabulary(**words)
    with np.errstate(divide="ignore"):
        table = np.log([probabilities.get(entry, math.nan) for entry in known.entries])

    def log_prob(sentences: Sentences) -> np.ndarray:
        return np.insert(table[sentences.ids], sentences.starts[1:], math.log(probabilities[EOS]))

    return Scorer(known, log_prob)


HALVES = {"a": 0.5, "b": 0.25, UNK: 0.125, EOS: 0.125}
TEXT = (("a", "b", "a"), ("zebra", "a"))


def test_by_hand() -> None:
    model = fixed({"a": 3, "b": 1}, **HALVES)
    score, bits = measure("test", model, tokens(TEXT), source="t", train=tokens(TEXT))
    # Bits: a b a </s> <unk> a </s> = 1 + 2 + 1 + 3 + 3 + 1 + 3 = 14 over 7 positions.
    assert score.value == pytest.approx(4)
    assert score.scored == score.total == 7
    assert score.details["tokens"] == 5
    assert score.details["sentence_ends"] == 2
    assert score.details["unknown_share"] == pytest.approx(0.2)
    assert score.details["perplexity_of_known"] == pytest.approx(2 ** (11 / 6))
    assert score.details["vocabulary"] == model.vocabulary.hash
    # "a b a\nzebra a\n" has 14 characters; "zebra" and its end are spelt with 48 bits more.
    assert bits.value == pytest.approx((14 + 48) / 14)
    assert (score.name, bits.name) == ("perplexity.test", "bits_per_character.test")
    assert "20.00% unknown words scored as <unk>" in score.line
    # Add-one over <unk> </s> a b with the counts 1, 2, 3, 1, of the 11 there are then.
    unigram_bits = sum(n * math.log2(11 / (n + 1)) for n in (1, 2, 3, 1))
    assert score.baselines == (
        Baseline("unigram", pytest.approx(2 ** (unigram_bits / 7)), score.baselines[0].note),
    )
    assert bits.baselines[0].value == pytest.approx((unigram_bits + 48) / 14)
    assert Score.from_json(score.to_json()) == score


def test_an_interval_is_that_of_sentences_or_of_runs_of_them() -> None:
    rng = np.random.default_rng(0)
    short = [["a"] * int(n) for n in rng.integers(1, 9, 400)]
    model = fixed({"a": 1}, **{"a": 0.25, UNK: 0.5, EOS: 0.25})
    alike, _ = measure("x", model, tokens(short))
    # A token is as likely as an end here, so nothing depends on what is drawn.
    assert alike.interval == pytest.approx((alike.value, alike.value))
    mixed = [["a", "b"][int(n) % 2 :][:1] * int(n) for n in rng.integers(1, 9, 3000)]
    uneven = fixed({"a": 1, "b": 1}, **{**HALVES, "b": 1 / 16})
    whole, _ = measure("x", uneven, tokens(mixed[:1000], mixed[1000:]))
    low, high = whole.interval
    assert low < whole.value < high
    part, bits = measure("x", uneven, tokens(mixed[:300]))
    assert part.interval[1] - part.interval[0] > 2 * (high - low)
    assert bits.interval is None
    few, _ = measure("x", uneven, tokens(mixed[:5]))
    assert (few.value is None, few.interval) == (False, None)


def test_without_the_training_text_the_baseline_is_uniform() -> None:
    model = fixed({"a": 3, "b": 1}, **HALVES)
    score, _ = measure("x", model, tokens(TEXT))
    assert score.baselines[0].value == pytest.approx(4)  # a b <unk> </s>


def test_the_unigram_baseline_of_a_vocabulary_that_has_grown_is_of_the_new_text() -> None:
    """Counts of the vocabulary are sums over both texts, more than the new one has words."""
    grown = vocabulary(a=1003, b=501, old=90)
    found = unigram(grown, tokens(TEXT))(Sentences.of(grown, [["a", "b", "old", "zebra"]]))
    # Of 5 words and 2 ends, each entry but <s> one more: a 3, b 1, zebra unknown.
    expected = np.log(np.array([4, 2, 1, 2, 3]) / 12)
    np.testing.assert_allclose(found, expected)


def test_the_unigram_baseline_never_predicts_a_sentence_start_and_sums_to_one() -> None:
    known = vocabulary(a=3, b=1)
    log_prob = unigram(known, tokens(TEXT))
    each = log_prob(Sentences.of(known, [[word] for word in known.words]))
    unknown_and_end = log_prob(Sentences.of(known, [["never"]]))
    assert np.exp(each[[0, 2]]).sum() + np.exp(unknown_and_end).sum() == pytest.approx(1)
    assert log_prob(Sentences.of(known, [[BOS]]))[0] == unknown_and_end[0]


texts = st.lists(st.lists(st.sampled_from("abcxyz"), max_size=7), min_size=1, max_size=12)


@given(texts, st.integers(1, 9), st.integers(0, 12))
def test_neither_partitions_nor_chunks_matter(text: Text, size: int, cut: int) -> None:
    counts = Counter(word for sentence in text for word in sentence)
    known = vocabulary(a=counts["a"], b=counts["b"], c=counts["c"])
    log_prob = unigram(known, tokens(text))
    seen: list[Sentences] = []

    def watched(sentences: Sentences) -> np.ndarray:
        seen.append(sentences)
        return log_prob(sentences)

    whole = tally(log_prob, known, tokens(text))
    pieces = tally(watched, known, tokens(text[:cut], text[cut:]), size=size)
    assert pieces.nll == pytest.approx(whole.nll, rel=1e-12)
    assert pieces.nll_known == pytest.approx(whole.nll_known, rel=1e-12)
    for field in ("tokens", "ends", "unknown", "characters", "spelling_bytes"):
        assert getattr(pieces, field) == getattr(whole, field)
    assert all(len(s.ids) < size + 7 and s.starts[0] == 0 for s in seen)


def test_an_empty_text_is_undefined() -> None:
    for score in measure("x", fixed({"a": 1}, **HALVES), tokens(())):
        assert (score.value, score.total, score.undefined) == (None, 0, "the text is empty")
        assert score.baselines[0].value is None


def test_probability_zero_is_undefined_and_says_how_often() -> None:
    model = fixed({"a": 3, "b": 1}, **HALVES | {UNK: 0.0})
    for score in measure("x", model, tokens(TEXT)):
        assert score.value is None
        assert "1 token for impossible" in score.undefined
        assert score.details["nats"] is None


@pytest.mark.parametrize("wrong", [math.nan, 1.5])
def test_what_is_no_probability_is_an_error(wrong: float) -> None:
    with pytest.raises(TrainingError, match="above 0 or not a number"):
        measure("x", fixed({"a": 3, "b": 1}, **HALVES | {"b": wrong}), tokens(TEXT))


def test_a_wrong_number_of_log_probabilities_is_an_error() -> None:
    known = vocabulary(a=1)
    with pytest.raises(ValueError, match="5 tokens and 2 ends"):
        tally(lambda sentences: np.zeros(5), known, tokens(TEXT))


def test_perplexities_of_different_vocabularies_do_not_compare_but_their_bits_do() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in (rng.pareto(1.0, 4000) * 3).astype(int)]
    text = [words[i : i + 10] for i in range(0, len(words), 10)]
    ordered = Counter(words).most_common()
    small, large = vocabulary(**dict(ordered[:20])), vocabulary(**dict(ordered))

    def scores(known: Vocabulary) -> tuple[Score, Score]:
        model = Scorer(known, unigram(known, tokens(text)))
        return measure("test", model, tokens(text), source="same")

    (first, first_bits), (second, second_bits) = scores(small), scores(large)
    # The figure that misleads: knowing fewer words makes it look better.
    assert first.value < second.value
    assert "vocabularies differ" in incomparable(first, second)
    assert incomparable(first, first) == ""
    assert incomparable(first_bits, second_bits) == ""
    assert first_bits.value > second_bits.value


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("direction", "right to left", "different directions"),
        ("sentence_ends_counted", False, "sentence ends"),
        ("context_crosses_sentences", True, "across sentences"),
        ("text", "another", "different texts"),
    ],
)
def test_perplexities_on_other_terms_do_not_compare(key: str, value: object, why: str) -> None:
    score, _ = measure("x", fixed({"a": 1, "b": 1}, **HALVES), tokens(TEXT), source="one")
    other = Score.from_json({**score.to_json(), "details": {**score.details, key: value}})
    assert why in incomparable(score, other)


@dataclass(frozen=True, eq=False)
class BothWays(Scorer):
    """A model that reads in both directions."""

    log_prob_backward: Callable[[Sentences], np.ndarray] | None = None
    scores_backward: bool = True


def test_the_backward_direction_has_a_score_of_its_own_that_never_compares() -> None:
    ahead = fixed({"a": 3, "b": 1}, **HALVES)

    def back(sentences: Sentences) -> np.ndarray:
        return 2 * ahead.log_prob(sentences)

    both = BothWays(ahead.vocabulary, ahead.log_prob, log_prob_backward=back)
    plain = measure("test", ahead, tokens(TEXT), source="same")
    *scores, backward = measure("test", both, tokens(TEXT), source="same")
    assert scores == list(plain)
    assert backward.name == "perplexity_backward.test"
    assert backward.value == pytest.approx(scores[0].value ** 2)
    assert backward.details["direction"] == "right to left"
    assert "right to left" in backward.policy
    assert incomparable(backward, scores[0])
    renamed = Score.from_json({**backward.to_json(), "name": "perplexity.test"})
    assert "different directions" in incomparable(renamed, scores[0])


def test_a_score_is_never_nan_and_an_undefined_one_says_why() -> None:
    with pytest.raises(ValueError, match="undefined score is None"):
        Score("x", math.nan, "perplexity", 1, 1, "tokens", "")
    with pytest.raises(ValueError, match="says why"):
        Score("x", None, "perplexity", 1, 1, "tokens", "")


def test_raw_text_goes_through_the_pipeline_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("The  Cat, sat.\n\n<unk> </s>\n", "utf-8")
    read, _ = read_text(path, TextPipeline(Normalize(lowercase=True), Tokenize()))
    part = read.partitions[0]
    assert [part.types[i] for i in part.text.ids[:5]] == ["the", "cat", ",", "sat", "."]
    # Marks that stand in a text are unknown words of it, no marks.
    marks = next(read.under(vocabulary(the=1)))
    assert set(marks.ids.tolist()) == {0, 3}
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path / "none.txt", TextPipeline(Normalize(), Tokenize()))
