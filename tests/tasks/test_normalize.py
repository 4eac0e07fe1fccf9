"""Normalization: what is the same text, what is removed, and that once is enough."""

import hashlib
import time
import unicodedata
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.normalize import NORMALIZE, Normalize, NormalizeStep, normalize_text
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
