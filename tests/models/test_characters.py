"""Spellings by hand: the table of a text, rows of characters, ids that tell unknown words apart."""

from __future__ import annotations

import numpy as np
import pytest

from models.characters import (
    BEGIN,
    END,
    MARKS,
    PAD,
    RESERVED,
    UNKNOWN,
    Characters,
    by_form,
    forms_of,
)
from models.text import Sentences
from models.vocabulary import LM_RESERVED, Vocabulary
from tests.models.test_nplm import tokens

VOCABULARY = Vocabulary(LM_RESERVED, ("ab", "b"), np.array([5, 3]))


def test_the_table_of_a_text_counts_every_word_also_those_no_vocabulary_keeps() -> None:
    text = tokens([["ab", "b", "ab"], ["zé"], ["é", "ab"]], partitions=2)
    table = Characters.of(text)
    assert table.characters == ("b", "a", "é", "z")
    assert table.counts.tolist() == [4, 3, 2, 1]
    assert Characters.of(text, min_count=2).characters == ("b", "a", "é")
    assert Characters.of(tokens([["ab", "b", "ab"], ["zé"], ["é", "ab"]])).hash == table.hash
    assert len(Characters.of(tokens([]))) == RESERVED


def test_a_table_is_an_array_and_back() -> None:
    table = Characters("code point", ("b", "é", "\U0001f40d"), np.array([4, 3, 2]))
    again = Characters.from_array(table.to_array())
    assert again.characters == table.characters
    assert again.counts.tolist() == [4, 3, 2]
    with pytest.raises(ValueError, match="graphemes"):
        Characters("grapheme", ("na\u0308",), np.array([1])).to_array()


def test_rows_by_hand() -> None:
    table = Characters("code point", ("b", "a"), np.array([2, 1]))
    b, a = RESERVED, RESERVED + 1
    forms = forms_of(VOCABULARY, [["b", "abba", ""], ["x" * 300, "abba"]])
    assert forms.entries == (*LM_RESERVED, "ab", "b", "abba", "", "x" * 300)
    rows = table.spell(forms, longest=5)
    assert rows.dtype == np.int32
    assert rows.tolist() == [
        *([BEGIN, MARKS[mark], END, PAD, PAD, PAD, PAD] for mark in LM_RESERVED),
        [BEGIN, a, b, END, PAD, PAD, PAD],
        [BEGIN, b, END, PAD, PAD, PAD, PAD],
        [BEGIN, a, b, b, a, END, PAD],
        [BEGIN, END, PAD, PAD, PAD, PAD, PAD],
        [BEGIN, *[UNKNOWN] * 5, END],
    ]
    # No wider than the longest form, and never too narrow for a mark.
    assert table.spell(forms_of(VOCABULARY, []), 50).shape == (5, 4)
    assert table.spell(Vocabulary(LM_RESERVED, (), np.zeros(0, int)), 50).shape == (3, 3)
    # What somebody has merged before is read as in a text, and written with its letters.
    assert table.read(["<unk>", "ab"], width=9).tolist() == [
        [BEGIN, MARKS["<unk>"], END, *[PAD] * 4],
        [BEGIN, a, b, END, *[PAD] * 3],
    ]
    assert table.encode(["<unk>"], width=9)[0, 1:6].tolist() == [UNKNOWN] * 5
    assert len(set(MARKS.values()) | {PAD, UNKNOWN, BEGIN, END}) == RESERVED


def test_forms_tell_unknown_words_apart_and_keep_the_ids_of_known_ones() -> None:
    said = [["ab", "zz", "b"], [], ["yy", "zz", "<unk>", "<s>"]]
    sentences = Sentences.of(VOCABULARY, said)
    assert sentences.ids.tolist() == [3, 0, 4, 0, 0, 0, 0]
    text, forms = by_form(sentences, VOCABULARY)
    assert [forms.entries[i] for i in text.ids] == [w for s in said for w in s]
    assert text.ids[[0, 2]].tolist() == [3, 4]
    assert text.ids[5] == 0  # merged before us
    assert text.ids[6] >= len(VOCABULARY)  # no beginning of a sentence
    assert text.starts is sentences.starts
    bare = Sentences(sentences.ids, sentences.starts, sentences.documents)
    assert by_form(bare, VOCABULARY) == (bare, VOCABULARY)
    # Only the forms that stand in the text, whatever its table holds.
    part = sentences.stretch(0, 1, np.array([0, 1]))
    assert by_form(part, VOCABULARY)[1].words == ("ab", "b", "zz")
    empty = Sentences.of(VOCABULARY, [[], []])
    assert by_form(empty, VOCABULARY)[1].words == ("ab", "b")
