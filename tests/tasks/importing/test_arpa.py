from __future__ import annotations

import gzip
import io
import math
from codecs import BOM_UTF8
from pathlib import Path

import kenlm
import numpy as np
import pytest

from models import backoff
from models.backoff import BOS
from models.imported_ngram import Config, Model
from models.text import Sentences
from tasks.errors import InputError
from tasks.export.arpa import write_arpa
from tasks.importing.arpa import read_arpa
from tasks.importing.detecting import detect
from tasks.importing.steps import import_model
from tasks.models import capabilities, read_model
from tasks.runner import Runner
from tasks.store import Store
from tests.models.ngram_reference import fitted, golden_text

# As SRILM writes: blanks and tabs, no weight where it is 1, -99 for <s>, one weight above 1.
SMALL = """
\\data\\
ngram 1=6
ngram 2=5
ngram 3=2

\\1-grams:
-0.9\t</s>
-99\t<s>\t-0.3
-1.1\t<unk>
-0.5\ta\t-0.25
-0.6\tb\t0.125
-0.7\té

\\2-grams:
-0.2\t<s> a\t-0.1
-0.4\ta b\t-0.2
-0.3\tb </s>
-0.35\tb a\t-0.15
-0.45\ta é

\\3-grams:
-0.05\t<s> a b
-0.15\ta b </s>

\\end\\
"""
SAID = [["a", "b"], ["b", "a", "b", "a", "é"], ["é", "zebra", "a"], []]


def read(text: str | bytes) -> tuple[Model, dict[str, int]]:
    data = text if isinstance(text, bytes) else text.encode()
    vocabulary, table, stats = read_arpa(io.BytesIO(data), "x.arpa")
    config = Config(format="arpa", sha256="", order=table.order)
    return Model(config, vocabulary, table), {
        reason: n for reason, n in stats.items() if n and reason != "sums_above_1"
    }


def scores(model: Model, text: list[list[str]]) -> np.ndarray:
    return model.log_prob(Sentences.of(model.vocabulary, text)) / math.log(10)


def kenlm_scores(path: Path, text: list[list[str]]) -> list[float]:
    reader = kenlm.Model(str(path))
    return [row[0] for line in text for row in reader.full_scores(" ".join(line))]


def test_a_file_by_hand_scores_as_in_kenlm(tmp_path: Path) -> None:
    (tmp_path / "x.arpa").write_text(SMALL.lstrip(), "utf-8")
    model, stats = read(SMALL)
    assert stats == {}
    assert model.vocabulary.words == ("a", "b", "é")
    assert model.table.sizes.tolist() == [6, 5, 2]
    assert model.table.probabilities[BOS] == 0
    np.testing.assert_allclose(scores(model, SAID), kenlm_scores(tmp_path / "x.arpa", SAID),
                               atol=1e-6)  # fmt: skip
    # b's weight is above 1 and is needed after "b": b(b) P(b) = 10 ** (0.125 - 0.6).
    assert scores(model, [["b", "b"]])[1] == pytest.approx(0.125 - 0.6)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_what_is_written_is_read_and_written_the_same(order: int, tmp_path: Path) -> None:
    model, _ = fitted(golden_text(), order, min_count=2)
    write_arpa(model, tmp_path / "one.arpa")
    found, stats = read((tmp_path / "one.arpa").read_bytes())
    assert stats == {}
    write_arpa(found, tmp_path / "two.arpa")
    assert (tmp_path / "one.arpa").read_bytes() == (tmp_path / "two.arpa").read_bytes()
    text = [*golden_text(), ["zebra"], []]
    ours = model.log_prob(Sentences.of(model.vocabulary, text)) / math.log(10)
    np.testing.assert_allclose(scores(found, text), ours, atol=1e-6)


def test_a_weight_above_1_is_written(tmp_path: Path) -> None:
    write_arpa(read(SMALL)[0], tmp_path / "x.arpa")
    assert "-0.6000000\tb\t0.1250000\n" in (tmp_path / "x.arpa").read_text("utf-8")


def edited(*pairs: tuple[str, str]) -> str:
    text = SMALL
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_ngrams_that_others_are_parts_of_are_added_and_change_nothing() -> None:
    longer = edited(
        ("ngram 3=2", "ngram 3=4\nngram 4=1"),
        ("-0.15\ta b </s>", "-0.15\ta b </s>\n-0.11\té b a\n-0.12\tb b é"),
        ("\n\\end\\", "\n\\4-grams:\n-0.01\té é a b\n\n\\end\\"),
    )
    model, stats = read(longer)
    # Of orders 2 and 3: é b, b b, b é, é é, é a; é é a.  "é a b" is the end of the 4-gram.
    assert stats == {"ngrams_added": 7}
    text = [["é", "b", "a"], ["b", "b", "é"], ["é", "é", "a", "b"], ["é", "é", "b"]]
    found = scores(model, text)
    # What is added has the weight 1; the other way back is over b(<s>) = -0.3 and b(b a) = -0.15.
    expected = [-0.3 - 0.7, -0.6, -0.11, -0.9 - 0.25]
    np.testing.assert_allclose(found[:3], expected[:3])
    np.testing.assert_allclose(found[6], -0.12)
    np.testing.assert_allclose(found[11], -0.01)
    np.testing.assert_allclose(found[15], -0.6)
    contexts = model.vocabulary.ids(["é", "é", "a"])[None, :]
    row = model.next_log_probs(contexts)[0] / math.log(10)
    assert row[model.vocabulary.ids(["b"])[0]] == pytest.approx(-0.01)


def test_a_byte_order_mark_is_no_part_of_the_file() -> None:
    marked = BOM_UTF8 + SMALL.lstrip().encode()
    assert detect(marked, "x.arpa") == "arpa"
    assert scores(read(marked)[0], SAID).tolist() == scores(read(SMALL)[0], SAID).tolist()


def test_what_is_not_said() -> None:
    no_unk = edited(("ngram 1=6", "ngram 1=5"), ("-1.1\t<unk>\n", ""))
    model, stats = read(no_unk)
    assert stats == {"unk_missing": 1}
    assert scores(model, [["zebra"]])[0] == pytest.approx(-0.3 - 100)
    capital = read(edited(("<unk>", "<UNK>"), ("a é", "a <UNK>")))[0]
    assert scores(capital, [["a", "zebra"]])[1] == pytest.approx(-0.1 - 0.45)
    model, stats = read(
        edited(("ngram 1=6", "ngram 1=5"), ("-99\t<s>\t-0.3\n", ""), ("ngram 2=5", "ngram 2=4"),
               ("-0.2\t<s> a\t-0.1\n", ""), ("ngram 3=2", "ngram 3=1"), ("-0.05\t<s> a b\n", ""))
    )  # fmt: skip
    assert stats == {"start_missing": 1}
    assert scores(model, [["a"]])[0] == pytest.approx(-0.5)
    never = read(edited(("-0.7\té", "-inf\té")))[0]
    assert np.isneginf(scores(never, [["é"]])[0])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("ngram 2=5", "ngram 2=6", 15, "promises 6 2-grams, here are 5"),
        ("ngram 2=5", "ngram 3=5", 4, "orders in the header"),
        ("ngram 1=6\nngram 2=5\nngram 3=2\n", "", 4, 'should stand "ngram 1="'),
        ("\\2-grams:", "\\3-grams:", 15, "should stand .2-grams:"),
        ("\\end\\\n", "", 25, "cut off"),
        ("-0.15\ta b </s>\n\n\\end\\\n", "", 23, "cut off"),
        ("-0.5\ta", "0.5\ta", 11, "0.5 is no log10 of a probability"),
        ("-0.5\ta", "nan\ta", 11, "nan is no log10 of a probability"),
        ("-0.25", "nan", 11, "nan is no log10 of a back-off weight"),
        ("-0.25", "inf", 11, "inf is no log10 of a back-off weight"),
        ("-0.25", "500", 11, "500 is no log10 of a back-off weight"),
        ("-0.25", "-inf", 11, "-inf is no log10 of a back-off weight"),
        ("-0.25", "-400", 11, "-400 is lower than any log10 of a back-off weight"),
        ("-0.5\ta", "-400\ta", 11, "-400 is lower than any log10 of a probability"),
        ("ngram 1=6\nngram 2=5\nngram 3=2\n", "ngram 1=0\n", 5, "promises no 1-grams"),
        (SMALL, "the old town", 1, "ends before .data.:"),
        ("-0.4\ta b", "-0.4x\ta b", 17, "'-0.4x' is no number"),
        ("-0.4\ta b", "-0_4\ta b", 17, "'-0_4' is no number"),
        ("\\end\\\n", "\\end\\\n\n-0.4\ta b\n", 28, "behind .end. stands '-0.4.*"),
        ("-0.4\ta b\t-0.2", "-0.4\ta", 17, "has 2 fields"),
        ("-0.4\ta b\t-0.2", "-0.4\ta b c d", 17, "has 5 fields"),
        ("-0.4\ta b", "-0.4\ta z", 17, "'z' is not among the 1-grams"),
        ("-0.35\tb a", "-0.35\ta b", 19, "2-gram is listed a second time"),
        ("-0.6\tb", "-0.6\ta", 12, "'a' is listed a second time"),
        ("</s>", "</S>", 13, "</s> is not among the 1-grams"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read(edited((old, new)))
    assert error.value.where == f"x.arpa: line {line}"


def test_probabilities_that_sum_to_more_than_1_are_told(tmp_path: Path) -> None:
    model, _ = fitted(golden_text(), 3)
    write_arpa(model, tmp_path / "model.arpa")
    text = (tmp_path / "model.arpa").read_bytes()
    assert read_arpa(io.BytesIO(text), "x.arpa")[2]["sums_above_1"] == 0
    lines = text.split(b"\n")
    row = next(i for i, line in enumerate(lines) if b"\tMarta\t" in line)
    lines[row] = b"-0.01\t" + lines[row].split(b"\t", 1)[1]
    assert read_arpa(io.BytesIO(b"\n".join(lines)), "x.arpa")[2]["sums_above_1"] > 1


def test_a_weight_that_lifts_a_word_above_1_is_refused() -> None:
    problem = "after 'b' the word 'é' has a probability of 79: the back-off weight"
    text = edited(("-0.6\tb\t0.125", "-0.6\tb\t2.6"), ("-0.3\tb </s>", "-0.3\tb b"))
    with pytest.raises(InputError, match=problem):
        read(text)


def test_a_text_that_is_next_to_impossible_has_one_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product of its probabilities is smaller than any float."""
    text = edited(
        ("-1.1\t<unk>", "-100\t<unk>"), ("a\t-0.25", "a\t-99"), ("b a\t-0.15", "b a\t-299")
    )
    model = read(text)[0]
    said = Sentences.of(model.vocabulary, [["b", "a", "zebra"]])
    expected = (-100 - 99 - 299) * np.log(10)
    assert model.log_prob(said)[2] == pytest.approx(expected)
    monkeypatch.setattr(backoff, "FEW", 0)
    assert model.log_prob(said)[2] == pytest.approx(expected)


@pytest.mark.parametrize("word", [b"\xff", b"a\xed\xa0\x80", b"a\0b"])
def test_words_that_are_no_text(word: bytes) -> None:
    with pytest.raises(InputError, match=r"no UTF-8|NUL") as error:
        read(SMALL.encode().replace(b"\xc3\xa9", word))
    assert error.value.where == "x.arpa: line 13"


def test_a_packed_file_becomes_a_model_that_scores(tmp_path: Path) -> None:
    runner = Runner(Store(str(tmp_path / "store"), tmp_path / "cache"))
    path = tmp_path / "small.arpa.gz"
    path.write_bytes(gzip.compress(SMALL.encode()))
    reader = runner.store.reader(import_model(runner, str(path), "auto", "strict"))
    model = read_model(reader)
    assert capabilities(model) == ("scores",)
    np.testing.assert_allclose(scores(model, SAID), scores(read(SMALL)[0], SAID))
    assert runner.outcomes[-1].stats == {
        "words": 9 - 3,
        "format": "arpa",
        "sums_above_1": 4,  # it was made up by hand
    }
    with pytest.raises(InputError, match="other probabilities"):
        import_model(runner, str(path), "arpa", "reject")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"small\.arpa\.gz"):
        import_model(runner, str(path), "auto", "strict")
