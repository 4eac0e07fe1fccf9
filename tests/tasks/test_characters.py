"""The character table: exact, in an order of its own, and what a word becomes by it."""

from __future__ import annotations

import pytest

from models.characters import BEGIN, END, PAD, UNKNOWN
from tasks.characters import CHARACTERS, CountCharacters, read_characters, split_word
from tasks.runner import Runner
from tasks.store import Store
from tests.tasks.test_vocabulary import types


def test_counts_order_and_words(store: Store) -> None:
    artifact = types(store, ["ab ab", "b zé"], ["é <s>"])
    made = Runner(store).run(CHARACTERS, {"types": artifact}, CountCharacters(max_size=4))
    table = read_characters(store.reader(made))
    assert table.characters == ("b", "a", "é", "<")  # ties by bytes; < > s z are seen once
    assert table.counts.tolist() == [3, 2, 2, 1]
    assert table.encode(["ab", "<s>", "", "bbbbb"], width=5).tolist() == [
        [BEGIN, 8, 7, END, PAD],
        [BEGIN, 10, UNKNOWN, UNKNOWN, END],
        [BEGIN, END, PAD, PAD, PAD],
        [BEGIN, 7, 7, 7, END],
    ]
    assert len(table) == 11
    with pytest.raises(ValueError, match="width must be at least 3"):
        table.encode(["a"], width=2)
    again = types(store, ["zé <s>", "b é ab"], ["ab"])
    other = Runner(store).run(CHARACTERS, {"types": again}, CountCharacters(max_size=4))
    assert read_characters(store.reader(other)).hash == table.hash
    fewer = Runner(store).run(CHARACTERS, {"types": artifact}, CountCharacters(min_count=2))
    assert read_characters(store.reader(fewer)).characters == ("b", "a", "é")


def test_graphemes(store: Store) -> None:
    made = Runner(store).run(
        CHARACTERS, {"types": types(store, ["na\u0308 👍🏽"])}, CountCharacters("grapheme")
    )
    table = read_characters(store.reader(made))
    assert set(table.characters) == {"n", "a\u0308", "👍🏽"}
    row = table.encode(["na\u0308"], lambda word: split_word(word, table.unit), width=5)[0]
    assert UNKNOWN not in row
    assert row.tolist().index(END) == 3
