"""Sentences, stems and lemmas: golden words, and what is not installed is said."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.corpus.reader.wordnet import WordNetCorpusReader

from tasks import wordforms
from tasks.analyze import ANALYZE, Analyze, AnalyzeStep, analyze_text
from tasks.errors import InputError
from tasks.runner import Runner
from tasks.store import Store
from tests.tasks.corpora import documents, texts

WORDS = "looked decided got are parents feet unhealthy"

# A dictionary of our own in the form of WordNet's files.
DICTIONARY = {
    "index.noun": "  1 licence\nare n 1\nfoot n 1\nglass n 1\nle n 1\nparent n 1\nu n 1\nus n 1\n",
    "noun.exc": "feet foot\n",
    "index.verb": "be v 1\ndecide v 1\nget v 1\nlook v 1\nparent v 1\nsaw v 1\nsee v 1\n",
    "verb.exc": "are be\ngot get\nsaw see\n",
    "index.adj": "big a 1\nunhealthy a 1\n",
    "adj.exc": "bigger big\n",
    "index.adv": "well r 1\n",
    "adv.exc": "better well\n",
}


def forget() -> None:
    wordforms._wordnet.cache_clear()
    wordforms._lemmatizer.cache_clear()


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in DICTIONARY.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    return tmp_path


def lemma(part_of_speech: str, text: str = WORDS) -> str:
    return analyze_text(text, Analyze(words="lemma", part_of_speech=part_of_speech))  # type: ignore[arg-type]


def test_golden_stems() -> None:
    assert analyze_text(WORDS, Analyze(words="porter")) == (
        "look decid got are parent feet unhealthi"
    )
    assert analyze_text("Running, don't x2 _url_ naïve's", Analyze(words="snowball")) == (
        "run, don't x2 _url_ naïv"
    )
    german = Analyze(words="snowball", language="de")
    assert analyze_text("aufeinanderfolgenden Häusern", german) == "aufeinanderfolg haus"


def test_golden_lemmas(dictionary: Path) -> None:
    assert lemma("noun") == "looked decided got are parent foot unhealthy"
    assert lemma("verb") == "look decide get be parent feet unhealthy"
    assert Analyze(words="lemma").part_of_speech == "noun"
    # The shortest of several entries, a word in no entry and a word that is one as they are.
    assert lemma("noun", "Us glasses Feet LOOKED Are") == "u glass foot LOOKED Are"
    # One ending at most is taken off.
    assert lemma("noun", "less glassess") == "less glassess"
    assert lemma("verb", "saw") == "saw"
    assert lemma("adjective", "Bigger unhealthier") == "big unhealthier"
    assert lemma("adverb", "better well wells") == "well well wells"


PARTS = {"noun": ("noun", "n"), "verb": ("verb", "v"), "adjective": ("adj", "a")}
STEMS = sorted({word for text in DICTIONARY.values() for word in text.split() if word.isalpha()})


@given(
    part=st.sampled_from(sorted(PARTS)),
    stem=st.sampled_from(STEMS),
    ending=st.lists(st.sampled_from(["s", "es", "ed", "ing", "er", "est", "men"]), max_size=3),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lemmas_are_those_of_nltk(
    dictionary: Path, part: str, stem: str, ending: list[str]
) -> None:
    name, pos = PARTS[part]
    entries = [line.split()[0] for line in DICTIONARY[f"index.{name}"].splitlines()]
    irregular = map(str.split, DICTIONARY[f"{name}.exc"].splitlines())
    theirs = object.__new__(WordNetCorpusReader)  # its rules alone: it has no files to read
    theirs._lemma_pos_offset_map = {entry: {pos: [1]} for entry in entries}
    theirs._exception_map = {pos: {form: rest for form, *rest in irregular}}
    word = stem + "".join(ending)
    assert lemma(part, word) == min(theirs._morphy(word, pos), key=len, default=word)


def test_golden_lemmas_of_wordnet_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    try:
        wordforms.wordnet_version("noun")
    except InputError:
        pytest.skip("WordNet is not installed")
    assert lemma("noun") == "looked decided got are parent foot unhealthy"
    assert lemma("verb") == "look decide get be parent feet unhealthy"


def test_a_dictionary_may_be_packed_and_is_part_of_the_key(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, noun = (
        AnalyzeStep.of(Analyze(words="lemma", part_of_speech=p)).wordnet for p in ("verb", "noun")
    )  # type: ignore[arg-type]
    assert verb != noun
    (tmp_path / "corpora").mkdir()
    with zipfile.ZipFile(tmp_path / "corpora" / "wordnet.zip", "w") as packed:
        for name in DICTIONARY:
            packed.write(tmp_path / name, f"wordnet/{name}")
    forget()
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    monkeypatch.setattr(wordforms, "_INSTALLED", ())
    assert AnalyzeStep.of(Analyze(words="lemma", part_of_speech="verb")).wordnet == verb
    assert lemma("verb") == "look decide get be parent feet unhealthy"


def test_a_dictionary_that_is_missing_is_said_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordforms, "_folders", lambda: iter([tmp_path]))
    with pytest.raises(InputError, match=r"WordNet.*\n.*apt-get install wordnet-base"):
        AnalyzeStep.of(Analyze(words="lemma"))


def test_sentences_within_a_line() -> None:
    text = 'Dr. Smith paid 3.50 dollars. "Why?" he asked.\n\nIt rained, e.g. in Bonn. So what'
    split = Analyze(sentences="split")
    once = analyze_text(text, split)
    assert once.split("\n") == [
        "Dr. Smith paid 3.50 dollars.", '"Why?" he asked.', "",
        "It rained, e.g. in Bonn.", "So what",
    ]  # fmt: skip
    assert analyze_text(once, split) == once
    assert analyze_text("", split) == ""
    german = Analyze(sentences="split", language="de")
    assert analyze_text("Er kam am 3. Mai. Sie ging.", german).count("\n") == 1
    japanese = Analyze(sentences="split", language="ja")
    assert analyze_text("猫がいる。犬もいる。", japanese) == "猫がいる。\n犬もいる。"


def test_the_step_keeps_who_a_document_is(store: Store) -> None:
    source = documents(store, ["Feet looked. Parents got."], [], ["x"])
    asked = Analyze(sentences="split", words="porter")
    step = AnalyzeStep.of(asked)
    assert step.nltk
    assert step.sentencex
    assert not step.wordnet
    made = Runner(store).map(ANALYZE, {"documents": source}, step)
    assert texts(store, made) == [["feet look.\nparent got."], [], ["x"]]
    before, after = (store.reader(a).table("documents.parquet") for a in (source, made))
    assert before["id"].to_pylist() == after["id"].to_pylist()


@pytest.mark.parametrize(
    "asked",
    [
        {"words": "porter", "language": "de"},
        {"words": "lemma", "language": "fr"},
        {"words": "snowball", "language": "zh"},
    ],
)
def test_what_there_is_no_stemmer_for_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        Analyze(**asked)  # type: ignore[arg-type]
