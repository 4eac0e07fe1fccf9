"""What changed between models: nothing by a turn, all that was moved, never that words came."""

from __future__ import annotations

import numpy as np
import pytest

from models.vocabulary import Vocabulary
from tasks.errors import InputError
from tasks.evaluation.forgetting import BANDS, Change, compare
from tasks.evaluation.sets import AnalogySet, PairSet, Question, WordPair

from .table import Table

WORDS = [f"w{i}" for i in range(300)]


def table(dim: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((len(WORDS), dim)).astype(np.float32)


def turn(dim: int = 16) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(9).standard_normal((dim, dim)))[0]


def test_a_model_has_forgotten_nothing_of_itself() -> None:
    model = Table.of(WORDS, table())
    change = compare(model, model, goes_on=True)
    assert (change.shared, change.gone, change.new, change.absent) == (300, 0, 0, 300)
    assert change.overlap == 1
    assert change.cosine == pytest.approx(1, abs=1e-6)
    assert change.unaligned == pytest.approx(1, abs=1e-6)
    assert [(band.first, band.last, band.drawn) for band in change.bands] == [
        (1, 100, 100),
        (101, 300, 200),
    ]
    assert BANDS[0] == 100
    assert compare(model, model, goes_on=False).absent is None


def test_a_turn_and_a_stretch_change_nothing_that_is_measured() -> None:
    first = Table.of(WORDS, table())
    second = Table.of(WORDS, 7 * table() @ turn())
    change = compare(first, second, goes_on=False)
    assert change.overlap == 1
    assert change.cosine == pytest.approx(1, abs=1e-5)
    assert change.unaligned is not None
    assert abs(change.unaligned) < 0.5


def test_another_width_is_filled_up() -> None:
    first = Table.of(WORDS, table())
    wider = Table.of(WORDS, np.hstack([table(), np.zeros((300, 8))]) @ turn(24))
    for a, b in ((first, wider), (wider, first)):
        change = compare(a, b, goes_on=False)
        assert change.overlap == 1
        assert change.cosine == pytest.approx(1, abs=1e-5)
        assert change.unaligned is None


def test_words_that_moved_are_found_with_their_neighbours_before_and_after() -> None:
    before, after = table(dim=64), table(dim=64)
    groups = np.random.default_rng(4).standard_normal((25, 64))
    for rows in (before, after):
        rows[:] = np.repeat(groups, 12, axis=0) + 0.1 * rows
    after[[40, 200]] = after[[200, 40]]  # w40 and w200 change places
    change = compare(Table.of(WORDS, before), Table.of(WORDS, after), goes_on=False)
    assert {moved.word for moved in change.moved[:2]} == {"w40", "w200"}
    first = next(moved for moved in change.moved if moved.word == "w40")
    assert first.overlap == 0
    assert first.count == 260
    assert set(first.before) < {f"w{i}" for i in range(36, 48)}
    assert set(first.after) < {f"w{i}" for i in range(192, 204)}
    assert first.cosine < 0.5
    assert 0.9 < change.overlap < 1
    assert Change.from_json(change.to_json()) == change


def test_new_words_among_the_nearest_change_nothing() -> None:
    rows = table()
    first = Table.of(WORDS, rows)
    crowd = [f"new{i}" for i in range(50)]
    second = Table.of(
        [*crowd, *WORDS],
        np.vstack([np.repeat(rows[:5], 10, axis=0) * 1.01, rows]),
        [1] * 50 + [n + 5 * (n % 2) for n in range(300, 0, -1)],
    )
    pairs = PairSet(tuple(WordPair(f"w{i}", f"w{i + 1}", i % 7) for i in range(20)))
    unknown = PairSet((*pairs.pairs, WordPair("new1", "w1", 3.0)))
    asked = AnalogySet(
        {"all": (Question("w1", "w2", "w3", ("w4",)), Question("w1", "w2", "new1", ("w4",)))}
    )
    change = compare(
        first, second, goes_on=True,
        pairs={"similarity.pairs": unknown}, questions={"analogy.asked": asked},
    )  # fmt: skip
    assert (change.shared, change.new, change.gone, change.absent) == (300, 50, 0, 150)
    assert change.overlap == 1
    similarity, add, mul = change.scores
    assert (similarity.scored, similarity.total, add.scored, add.total) == (20, 21, 1, 2)
    assert similarity.before == similarity.after is not None
    assert (add.before, mul.before) == (add.after, mul.after)
    assert change.line.startswith("50 new words, 50% of the old ones not in the new text, overlap")
    assert "pairs" in change.line
    assert mul.name not in change.line


def test_counts_of_a_model_with_reserved_entries_are_its_words() -> None:
    first = Table.of(WORDS, table())
    vocabulary = Vocabulary(("<unk>",), tuple(WORDS), np.arange(300, 0, -1) + 1)
    second = Table(vocabulary, np.vstack([np.zeros((1, 16), np.float32), table()]))
    change = compare(first, second, goes_on=True)
    assert (change.absent, change.overlap) == (0, 1)


def test_what_cannot_be_compared_is_said() -> None:
    class Dumb:
        config = type("Config", (), {"title": "dumb"})
        vocabulary = Vocabulary((), (), np.zeros(0, np.int64))

    model = Table.of(WORDS, table())
    with pytest.raises(InputError, match="no word vectors"):
        compare(model, Dumb(), goes_on=False)  # type: ignore[arg-type]
    stranger = Table.of([f"x{i}" for i in range(300)], table())
    object.__setattr__(model, "config", Dumb.config)
    object.__setattr__(stranger, "config", Dumb.config)
    with pytest.raises(InputError, match="0 words in common"):
        compare(model, stranger, goes_on=False)
