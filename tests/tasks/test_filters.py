"""Filters: each rule drops what it is about, in the stated order, and nothing else."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tasks.filters import C4, FILTER, Filters, FilterStep, Gopher, identify, judge
from tasks.ingest import REJECTS
from tasks.repetition import repetition
from tasks.runner import Runner
from tasks.store import Store
from tests.tasks.corpora import documents, texts

PROSE = """The old mill stood at the bend of the river, and nobody there knew who had built it.
In winter the wheel was locked by ice, so that the miller went to town with his two sons.
They sold flour, candles and a little honey; people said that it tasted of heather and smoke.
When the thaw came, the first carts rolled down to the water before the sun was up."""
C4_RULES, GOPHER_RULES = Filters(c4=C4()), Filters(gopher=Gopher())


def lines(*more: str) -> str:
    return "\n".join([PROSE, *more])


@pytest.mark.parametrize("rules", [Filters(), C4_RULES, GOPHER_RULES, Filters(languages=("en",))])
def test_prose_is_kept_as_it_is(rules: Filters) -> None:
    assert judge(PROSE, rules) == (PROSE, "")
    assert rules.enabled == (rules != Filters())


FIRST, *_ = PROSE.split("\n")
NUMBER_SIGNS = PROSE.replace(" the", " the #").replace(" a", " # a").replace(" of", " of #")
ELLIPSES = PROSE.replace(" the", " the... ").replace(",", "…").replace(" t", " … t")
FOREIGN = "Die alte Mühle stand an der Biegung des Flusses im Dorf. "


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The mill and the river, with that.", "gopher_too_short"),
        ("the of and " * 40_000, "gopher_too_long"),
        ("it is to be of us " * 12, "gopher_word_length"),
        ("the and " + "internationalization " * 60, "gopher_word_length"),
        (NUMBER_SIGNS, "gopher_symbols"),
        (ELLIPSES, "gopher_symbols"),
        ("\n".join("- " + line for line in PROSE.split("\n")), "gopher_bullets"),
        (PROSE.replace(".\n", "...\n", 2), "gopher_ellipses"),
        (PROSE + " 1234" * 20, "gopher_alphabetic"),
        (FOREIGN * 6, "gopher_stop_words"),
        (lines(PROSE), "gopher_repeated_lines"),
        (lines(FIRST * 2, FIRST * 2), "gopher_repeated_line_characters"),
        (" ".join([PROSE, *["with honey"] * 40]), "gopher_top_2gram"),
        (" ".join(PROSE.split() * 2), "gopher_repeated_5grams"),
    ],
)
def test_each_rule_of_gopher(text: str, reason: str) -> None:
    assert judge(text, GOPHER_RULES) == (text, reason)


@pytest.mark.parametrize(
    ("text", "left", "reason"),
    [
        (lines("Read on", "Home. About."), PROSE, ""),
        (lines("Please turn on Javascript to read this page."), PROSE, ""),
        (lines("By reading on you accept our Privacy Policy now."), PROSE, ""),
        (lines("and so it went on for a very long time..."), PROSE, ""),
        (lines("Lorem ipsum dolor sit amet, consectetur."), None, "c4_lorem_ipsum"),
        (lines("function main() { return nothing at all. }"), None, "c4_brace"),
        ("\n".join(["Home", "About us"]), None, "c4_no_line_left"),
        ("One sentence of six words here. And another one.", None, "c4_few_sentences"),
    ],
)
def test_each_rule_of_c4(text: str, left: str | None, reason: str) -> None:
    assert judge(text, C4_RULES) == (text if left is None else left, reason)


def test_rules_can_be_given_away_and_words_named() -> None:
    lenient = Gopher(min_words=0, min_stop_words=0)
    assert judge("Only one short line stands here", Filters(gopher=lenient))[1] == ""
    assert judge(PROSE, Filters(c4=C4(bad_words=("honey",))))[1] == "c4_bad_word"
    assert judge(PROSE, Filters(c4=C4(bad_words=("hone",))))[1] == ""


def test_the_first_reason_in_the_stated_order_is_the_one() -> None:
    text = "{ ein sehr kurzer Text ohne Ende"
    all_rules = Filters(min_words=20, c4=C4(), gopher=Gopher(), languages=("en",))
    found = []
    for weaker in ({}, {"min_words": 0}, {"c4": None}, {"gopher": None}, {"languages": ()}):
        all_rules = replace(all_rules, **weaker)
        found.append(judge(text, all_rules)[1])
    assert found == ["too_short", "c4_brace", "gopher_too_short", "language_de", ""]
    assert judge(text, Filters(max_words=3))[1] == "too_long"


def test_languages_are_told_apart() -> None:
    said = {
        "en": "The mill stood by the river for a hundred years.",
        "de": "Die Mühle stand hundert Jahre lang am Fluss.",
        "fr": "Le moulin est resté cent ans au bord de la rivière.",
        "fi": "Mylly seisoi joen rannalla sata vuotta.",
        "ja": "水車小屋は百年の間川のそばに立っていた。",
        "zh": "磨坊在河边矗立了一百年。",
    }
    assert {language: identify(text)[0] for language, text in said.items()} == {k: k for k in said}
    kept = Filters(languages=("fi", "ja"))
    assert {k for k, text in said.items() if not judge(text, kept)[1]} == {"fi", "ja"}
    assert judge("7 7 7", kept)[1] == "language_unsure"
    assert FilterStep.of(kept).py3langid
    assert not FilterStep.of(C4_RULES).py3langid


# --- repetition against a plain count -----------------------------------------------------------


def plain(words: list[str], n: int) -> tuple[float, float]:
    """The shares of the top n-gram and of the repeated ones, word by word."""
    ngrams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    counts = Counter(ngrams)
    most = max(counts.values(), default=0)
    sizes = [len("".join(ngram)) for ngram, count in counts.items() if count == most]
    total = len("".join(words))
    top = most * max(sizes) / total if most > 1 else 0.0
    seen: set[tuple[str, ...]] = set()
    covered: set[int] = set()
    for i, ngram in enumerate(ngrams):
        if ngram in seen:
            covered.update(range(i, i + n))
        seen.add(ngram)
    return top, sum(len(words[i]) for i in covered) / total if total else 0.0


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "the"]), max_size=40))
def test_repetition_is_what_a_plain_count_finds(words: list[str]) -> None:
    sizes = (2, 3, 4, 5)
    found = repetition(words, sizes, sizes)
    expected = zip(*(plain(words, n) for n in sizes), strict=True)
    assert [pytest.approx(list(shares)) for shares in expected] == list(found)


# --- the step ---------------------------------------------------------------------------------


def test_every_document_is_kept_or_dropped_with_one_reason(store: Store) -> None:
    shuffled = " ".join(random.Random(1).sample(PROSE.split(), len(PROSE.split())))
    source = documents(store, [PROSE, "x", lines("Read on")], [], ["{ " + PROSE, shuffled])
    step = FilterStep.of(Filters(min_words=2, c4=C4()))
    artifact = Runner(store).map(FILTER, {"documents": source}, step)
    assert texts(store, artifact) == [[PROSE, PROSE], [], []]
    reader = store.reader(artifact)
    ids = reader.table("documents.parquet")["id"].to_pylist()
    assert ids[0] == ids[1]
    dropped = {"too_short": 1, "c4_brace": 1, "c4_no_line_left": 1}
    stats = store.manifest(artifact).stats
    assert stats == {
        "read": 5, "kept": 2, "changed.lines": 1, **{f"dropped.{k}": n for k, n in dropped.items()},
    }  # fmt: skip
    rejects = [row for i in range(3) for row in reader.table(REJECTS, i).to_pylist()]
    assert Counter(row["reason"] for row in rejects) == dropped
    assert rejects[0] == {"origin": "test:0", "reason": "too_short", "start": "x"}


@pytest.mark.parametrize(
    "value",
    [
        {"languages": ["English"]},
        {"c4": {"x": 1}},
        {"gopher": {"max_top_ngrams": [0.1]}},
        {"min_words": -1},
    ],
)
def test_settings_are_checked(value: dict[str, object]) -> None:
    adapter = TypeAdapter(Filters)
    assert adapter.validate_python({"c4": {}, "gopher": {}}) == Filters(c4=C4(), gopher=Gopher())
    with pytest.raises(ValidationError):
        adapter.validate_python(value)
