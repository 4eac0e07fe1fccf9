"""Normalization: what is the same text, what is removed, and that once is enough."""

import hashlib
import time
import unicodedata
from itertools import product
from typing import get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.normalize import (
    NORMALIZE,
    Normalize,
    NormalizeStep,
    document_id,
    normalize_line,
    normalize_text,
)
from tasks.runner import Runner
from tasks.store import Store
from tasks.wikipedia import strip_wikitext
from tests.tasks.corpora import documents, texts

PLAIN = Normalize()
SETTINGS = [
    Normalize(unicode=u, lowercase=low) for u, low in product(("NFC", "none"), (False, True))
]

# Characters at which normalization has something to do, and any others.
NASTY = (
    "a bÉé\u0301\u0323\u0345\u1100\u1161\u11a8İΣσſﬁǅ😀\n\n\r\t\v\x00\x1c\x85\xa0\xad"
    "\u200b\u200d\u2028\ufeff\ud800\udc00"
)
anything = st.text(st.one_of(st.sampled_from(NASTY), st.characters()), max_size=40)


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("  two\t\twords \xa0\u3000here  ", "two words here"),
        ("one\rtwo\x0bthree\x85four\u2028five", "one two three four five"),
        ("a\n\n \n\nb\n", "a\n\nb"),
        ("\n\n a", "a"),
        (" \t\n\r \u200b\x00", ""),
        ("ab\0cd ef", "abcd ef"),
        ("\ufeffse\xadcret\u2060ly\u202e\x1b", "secretly"),
        ("zero\u200bwidth", "zero width"),
        ("می\u200cخواهم 👩\u200d👧", "می\u200cخواهم 👩\u200d👧"),
        ("e\u0301 e\x00\u0301 \ud800x", "é é x"),
        ("\u212b", "\u00c5"),
        ("ﬁ ① Å", "ﬁ ① Å"),
    ],
)
def test_what_becomes_of_text(raw: str, normal: str) -> None:
    assert normalize_text(raw, PLAIN) == normal


def test_settings_do_what_they_say() -> None:
    assert normalize_text("STRASSE Éa", Normalize(lowercase=True)) == "strasse éa"
    assert normalize_text("e\u0301", Normalize(unicode="none")) == "e\u0301"
    # A query is never taken for markup because the corpus was.
    assert normalize_text("[[a|b]]", Normalize(markup="auto")) == "[[a|b]]"
    assert normalize_text("[[a|b]]", Normalize(markup="wikitext")) == "b"


@given(text=anything, params=st.sampled_from(SETTINGS))
def test_normal_text_is_clean_and_stays_as_it_is(text: str, params: Normalize) -> None:
    normal = normalize_text(text, params)
    assert normalize_text(normal, params) == normal
    normal.encode()
    if params.unicode == "NFC":
        assert unicodedata.is_normalized("NFC", normal)
    assert "\n\n\n" not in normal
    for line in normal.split("\n"):
        assert line == " ".join(line.split())
        assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in line)


@pytest.mark.parametrize("params", SETTINGS)
def test_every_character_is_normalized_once_and_for_all(params: Normalize) -> None:
    # Beyond the second plane there are only ideographs and private characters, all alike.
    for start in range(0, 0x20000, 4096):
        text = "\n".join(f"a{chr(c)}b" for c in range(start, start + 4096))
        normal = normalize_text(text, params)
        assert normalize_text(normal, params) == normal


@given(text=st.text(st.characters(exclude_categories=["C", "Z"])))
def test_letters_and_signs_are_never_lost(text: str) -> None:
    assert normalize_text(text, PLAIN) == unicodedata.normalize("NFC", text)


def test_the_step_names_documents_by_their_text_and_counts_the_rest(store: Store) -> None:
    raw = documents(store, ["e\u0301 x", "\x00 ", "\xad"], [], ["\xe9  x", "y"])
    artifact = Runner(store).map(NORMALIZE, {"documents": raw}, NormalizeStep(PLAIN))
    assert texts(store, artifact) == [["é x"], [], ["é x", "y"]]
    ids = [store.reader(artifact).table("documents.parquet", i)["id"].to_pylist() for i in (0, 2)]
    assert ids[0][0] == ids[1][0] == hashlib.blake2b("é x".encode(), digest_size=16).digest()
    stats = store.manifest(artifact).stats
    assert stats == {"kept": 3, "dropped.empty": 2, "changed.invisible": 2}


# --- every switch -----------------------------------------------------------------------------

CHOICES = {
    name: (False, True) if kind is bool else kind.__args__
    for name, kind in get_type_hints(Normalize).items()
    if name not in ("markup", "__pydantic_config__")
}
everything = st.builds(Normalize, **{k: st.sampled_from(v) for k, v in CHOICES.items()})

# Pieces at which the switches have something to do, alone and with one another.
PIECES = [
    "&", "&amp;", "amp;", "&num;38;", "&#xFF06;", "&lt;", ";", "&NewLine;", "&#12", "Ã©", "â€™",
    "schÃ¶n", "“", "’", "—", "\u2212", "é", "e\u0301", "ß", "İ", "ﬁ", "①", "½", "３", "7", "1.5",
    ".", "http://", "www.", "a.b", "x@y.org", "@", "_url_", "_", "\u00a0", " ", "\n", "\x85",
    "\u200b", "\xad", "\ud800", "´", "ǅ", "ΌΣ", "\u0345", "\u0f71\u0f72", "각", "ไทย", "हि",
    "\u01d5\u0301",
]  # fmt: skip
pieces = st.lists(st.one_of(st.sampled_from(PIECES), st.characters()), max_size=12).map("".join)


@settings(max_examples=600, deadline=None)
@given(text=pieces, params=everything)
def test_no_combination_of_switches_leaves_work_for_a_second_time(
    text: str, params: Normalize
) -> None:
    normal = normalize_text(text, params)
    assert normalize_text(normal, params) == normal
    normal.encode()
    if params.unicode != "none":
        assert unicodedata.is_normalized(params.unicode, normal)
    if params.digits != "keep" and params.unicode == "NFKC":
        assert not {c for c in normal if c.isdecimal()} - {"0"}
    if params.quotes or params.dashes:
        assert not set(normal) & set("“”«" * params.quotes + "—\u2212" * params.dashes)
    if params.casefold and params.unicode != "none":
        assert unicodedata.normalize(params.unicode, normal.casefold()) == normal


@pytest.mark.parametrize(
    ("switch", "raw", "normal"),
    [
        ({"unicode": "NFKC"}, "ﬁn ① ℌ ２ e\u0301", "fin 1 H 2 é"),
        ({"casefold": True}, "Straße ΌΣΟΣ", "strasse όσοσ"),
        ({"casefold": True, "unicode": "NFKC"}, "Ink™ ℡", "inktm tel"),
        ({"lowercase": True, "unicode": "NFKC"}, "Ink™ ℡", "inktm tel"),
        ({"invisible": False}, "a\x00b\ud800 \ufeff", "a\x00b \ufeff"),
        ({"whitespace": False}, " a \t b\xa0\n\n\nc ", " a \t b\xa0\n\n\nc "),
        ({"whitespace": False}, " \n\t\n", ""),
        ({"mojibake": True}, "schÃ¶n, voilÃ\xa0 âœ”", "schön, voilà ✔"),
        ({"mojibake": True}, "schön, voilà Ã", "schön, voilà Ã"),
        ({"entities": True}, "R&amp;D &lt;b&gt; &#233;&#xe9; &amp;amp;lt;", "R&D <b> éé <"),
        ({"entities": True}, "AT&T; a&b &nosuch; &lt &#10;x", "AT&T; a&b &nosuch; &lt x"),
        ({"quotes": True}, "“Don’t,” ‘she’ «said» 5′ `x`", "\"Don't,\" 'she' \"said\" 5′ `x`"),
        ({"dashes": True}, "1914–18 — so \u22125 non‑breaking", "1914-18 - so -5 non-breaking"),
        ({"accents": True}, "naïve Ångström Łódź й ñ हिंदी 각", "naive Angstrom Łodz и n हिंदी 각"),
        (
            {"urls": True},
            "See https://a.b/c?d=(e), www.x.org. HTTP://Q! x://y www.",
            "See _url_), _url_. _url_! x://y www.",
        ),
        ({"emails": True}, "me.too+1@mail.example.org, @me, a@b", "_email_, @me, a@b"),
        ({"digits": "zero"}, "in 1984, ٣ of 3.5m", "in 0000, 0 of 0.0m"),
        ({"digits": "class"}, "in 1,000.5 of 3. x2", "in _number_ of _number_. x_number_"),
        ({"entities": True, "unicode": "NFKC"}, "&#xFF06;lt; ＆ａｍｐ；", "< &"),
        ({"entities": True, "lowercase": True}, "&Amp;LT;", "<"),
        ({"accents": True, "casefold": True, "digits": "class"}, "É½ ß", "e½ ss"),
    ],
)  # fmt: skip
def test_each_switch(switch: dict[str, object], raw: str, normal: str) -> None:
    params = Normalize(**switch)  # type: ignore[arg-type]
    assert normalize_text(raw, params) == normal
    if "\n" not in raw:
        assert normalize_line(raw, params).strip() == normal.strip()


# Rows as in Unicode's NormalizationTest: a source, its NFC and its NFKC.
@pytest.mark.parametrize(
    ("source", "nfc", "nfkc"),
    [
        ("1E0A", "1E0A", "1E0A"),
        ("0044 0307 0323", "1E0C 0307", "1E0C 0307"),
        ("0344", "0308 0301", "0308 0301"),
        ("0958", "0915 093C", "0915 093C"),
        ("2126", "03A9", "03A9"),
        ("FB03", "FB03", "0066 0066 0069"),
        ("3300", "3300", "30A2 30D1 30FC 30C8"),
        ("1112 1161 11AB", "D55C", "D55C"),
        ("FF76 FF9E", "FF76 FF9E", "30AC"),
        ("2F868", "36FC", "36FC"),
        ("0061 0315 0300 05AE 0062", "00E0 05AE 0315 0062", "00E0 05AE 0315 0062"),
    ],
)
def test_unicode_forms(source: str, nfc: str, nfkc: str) -> None:
    def characters(row: str) -> str:
        return "".join(chr(int(code, 16)) for code in row.split())

    assert normalize_text(characters(source), PLAIN) == characters(nfc)
    assert normalize_text(characters(source), Normalize(unicode="NFKC")) == characters(nfkc)


ALL = Normalize(
    "NFKC", casefold=True, mojibake=True, entities=True, quotes=True, dashes=True, accents=True,
    urls=True, emails=True, digits="class",
)  # fmt: skip


@pytest.mark.parametrize(
    "unit",
    ["&amp;", "&", ";", "&#", "&num;38;", "amp;", "&#xFF06;", "a@", "a.", "@a.", "www.", "http://",
     "http://;", "1.", "1,", "x", "é", "Ã", "“", " ", "-"],
)  # fmt: skip
def test_no_line_takes_more_than_linear_time(unit: str) -> None:
    began = time.process_time()
    normalize_text("&" + unit * (200_000 // len(unit)) + "@", ALL)
    assert time.process_time() - began < 5  # quadratic time would be minutes


@pytest.mark.parametrize(
    "params",
    [PLAIN, Normalize("NFKC", lowercase=True), Normalize(casefold=True), Normalize("none"),
     Normalize(accents=True, quotes=True, dashes=True, mojibake=True), Normalize(invisible=False),
     Normalize(whitespace=False), Normalize(digits="zero"), Normalize(markup="wikitext")],
)  # fmt: skip
def test_the_step_does_to_many_what_is_done_to_one(store: Store, params: Normalize) -> None:
    # Every character alone and beside marks that it may be composed with; every blank everywhere.
    characters = [chr(c) for c in [*range(0xD800), *range(0xE000, 0x10000)]]
    raw = [f"A{c}b" for c in characters] + [f"{c}\u0301" for c in characters[:0x600]]
    raw += ["".join(letters) for n in range(6) for letters in product(" \nA", repeat=n)]
    artifact = Runner(store).map(
        NORMALIZE, {"documents": documents(store, raw)}, NormalizeStep(params)
    )
    expected = [text for each in raw if (text := normalize_text(each, params))]
    assert texts(store, artifact) == [expected]
    table = store.reader(artifact).table("documents.parquet")
    assert table["id"].to_pylist() == [document_id(text) for text in expected]


def test_the_step_counts_what_each_switch_changed_and_keys_its_libraries(store: Store) -> None:
    raw = documents(store, ["R&amp;D", "“R&amp;D”", "schÃ¶n", "as it is"])
    step = NormalizeStep.of(Normalize(mojibake=True, entities=True, quotes=True))
    assert step.ftfy
    assert not NormalizeStep.of(PLAIN).ftfy
    stats = store.manifest(Runner(store).map(NORMALIZE, {"documents": raw}, step)).stats
    assert stats == {
        "kept": 4, "dropped.empty": 0, "changed.invisible": 0,
        "changed.entities": 2, "changed.quotes": 1, "changed.mojibake": 1,
    }  # fmt: skip


# --- wiki markup ------------------------------------------------------------------------------

PAGE = """{{Infobox|name={{PAGENAME}}|x={|no table|} }}
[[File:Tree.jpg|thumb|200px|A [[tree|big tree]] by a {{convert|2|m}} wall]]
The '''yew''' (''[[Taxus]]''; {{de|Eibe}}) is [[tree]]s'.<ref name="a">{{cite|x}} [http://x z]</ref>
<ref name="a"/>
<!-- hidden {{ [[ -->
== Uses ==
* Bows<br/>and [[Longbow (weapon)|longbows]]&nbsp;&ndash; see [https://a.b/c the site] or [https://a.b]
#; Poison
{| class="wikitable"
|-
| a || {{b}} || {| nested
|}
|}
<math>\\frac{{a}}{[[b]]}</math>Tail of [[:Category:Trees|trees]] and [[Star Trek: Picard]].
----
Unclosed {{ braces, [[ brackets and a < b stay. H<sub>2</sub>O
__NOTOC__
[[Category:Trees]]
[[Категория:Дървета]]
[[de:Eiben]]"""

TEXT = """The yew (Taxus) is trees'.
Uses
Bows
and longbows – see the site or
Poison
Tail of trees and Star Trek: Picard.
Unclosed braces, brackets and a < b stay. H2O"""


def test_wiki_markup_leaves_what_a_reader_sees() -> None:
    lines = normalize_text(PAGE, Normalize(markup="wikitext")).split("\n")
    assert [line for line in lines if line] == TEXT.split("\n")


@pytest.mark.parametrize(
    "unit",
    ["{{", "[[", "<ref>", "<ref ", "<!--", "<math>", "[//", "[[]]", "{{[[", "\n{|", "=", "( ", " ",
     "<a ", "''", "[[File:x|", "\n[[a:b]]", "[[a|b]]", "__ABC", "[//a b"],
)  # fmt: skip
def test_no_markup_takes_more_than_linear_time(unit: str) -> None:
    began = time.process_time()
    strip_wikitext(unit * 50_000 + "]]}}" * 50_000)
    assert time.process_time() - began < 5  # quadratic time would be minutes


@given(st.text("{}[]|<>!-/ref=:a\n", max_size=60))
def test_broken_markup_raises_nothing(markup: str) -> None:
    assert isinstance(strip_wikitext(markup), str)
