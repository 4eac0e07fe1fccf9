from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from models.blend import Blend, Unblendable, blend, learn_map
from models.char_birnn import Config as CharConfig
from models.family import Inputs
from models.family import Model as AnyModel
from models.imported import Config, Model
from models.text import Sentences, TokenPartition, Tokens
from models.vocabulary import Vocabulary


def table(vectors: Mapping[str, Sequence[float]], counts: Sequence[int] | None = None) -> Model:
    values = np.array(list(vectors.values()), np.float32)
    config = Config(format="word2vec", sha256="0", dim=values.shape[1])
    numbers = np.array(counts or [0] * len(vectors), np.int64)
    return Model(config, Vocabulary((), tuple(vectors), numbers), values)


MEANING = {"king": (3.0, 4.0), "queen": (0.0, 2.0), "cat": (1.0, 0.0)}
FORM = {"cat": (0.0, 0.0, 5.0), "king": (6.0, 0.0, 8.0), "kings": (0.0, 1.0, 0.0)}


def of(*parts: Model, **settings: object) -> Blend:
    names = [f"part{k}" for k in range(len(parts))]
    return blend(parts, names, names, **settings)  # type: ignore[arg-type]


def test_a_concatenation_has_zeros_for_the_half_that_is_not_known() -> None:
    found = of(table(MEANING), table(FORM))
    np.testing.assert_allclose(
        found.word_vectors(["king", "queen", "kings", "dog"]),
        [
            [0.6, 0.8, 0.6, 0.0, 0.8],
            [0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 1.0, 0.0],
            [np.nan] * 5,
        ],
        atol=1e-7,
    )
    assert set(found.vocabulary.words) == {"king", "queen", "cat", "kings"}


def test_a_word_that_one_part_lacks_is_lost_if_that_is_asked_for() -> None:
    found = of(table(MEANING), table(FORM), missing="nan")
    assert found.vocabulary.words == ("king", "cat")
    lost = np.isnan(found.word_vectors(["king", "queen", "kings"])).all(axis=1)
    assert lost.tolist() == [False, True, True]
    assert np.isfinite(found.tables()["input"]).all()


def test_a_sum_is_weighted_and_leaves_a_part_alone_where_the_other_knows_nothing() -> None:
    other = {"king": (10.0, 0.0), "kings": (0.0, 7.0)}
    found = of(table(MEANING), table(other), how="sum", weights=(1, 0.5), unit=False)
    expected = np.array([[8, 4], [0, 2], [0, 3.5]])
    np.testing.assert_allclose(found.word_vectors(["king", "queen", "kings"]), expected)
    with pytest.raises(ValueError, match="part0 has 2 dimensions and part1 has 3: a sum needs"):
        of(table(MEANING), table(FORM), how="sum")


def test_a_given_projection_is_multiplied_with_and_has_to_fit() -> None:
    projection = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    found = of(
        table(MEANING), table(FORM), how="sum", unit=False, projection="given", maps=[projection]
    )
    expected = np.array([[17, 12], [0, 1]])
    np.testing.assert_allclose(found.word_vectors(["king", "kings"]), expected)
    with pytest.raises(ValueError, match="the projection of part1 is 2 x 2, not 3 x 2"):
        of(table(MEANING), table(FORM), projection="given", maps=[projection[:2]])


def test_a_projection_that_there_is_is_found() -> None:
    """Of a model that is a turned copy of the first, both ways find the turn."""
    rng = np.random.default_rng(1)
    first = rng.standard_normal((50, 6))
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    words = [f"w{i}" for i in range(60)]
    hidden = np.vstack([first, rng.standard_normal((10, 6))])
    known = table(dict(zip(words, first.tolist(), strict=False)))
    other = table(dict(zip(words, (hidden @ turn.T).tolist(), strict=True)))
    for way in ("least-squares", "orthogonal"):
        made = of(known, other, how="sum", unit=False, projection=way)
        np.testing.assert_allclose(made.word_vectors(words[:50]), 2 * first, atol=1e-4)
        # A word that only the other knows gets the vector that the first would have had.
        np.testing.assert_allclose(made.word_vectors(words[50:]), hidden[50:], atol=1e-4)


def test_a_learnt_projection_is_the_nearest_of_its_kind() -> None:
    rng = np.random.default_rng(2)
    vectors, targets = rng.standard_normal((40, 3)), rng.standard_normal((40, 3))

    def loss(projection: np.ndarray) -> float:
        return float(((vectors @ projection - targets) ** 2).sum())

    least = learn_map(vectors, targets, "least-squares")
    turned = learn_map(vectors, targets, "orthogonal")
    np.testing.assert_allclose(turned.T @ turned, np.eye(3), atol=1e-6)
    for _ in range(50):
        step = 1e-2 * rng.standard_normal((3, 3))
        assert loss(least) < loss(least + step)
        assert loss(turned) < loss(turned @ np.linalg.qr(np.eye(3) + step - step.T)[0])
    with pytest.raises(ValueError, match="3 dimensions cannot be learnt from the 2 words"):
        learn_map(vectors[:2], targets[:2], "least-squares")
    # Into more dimensions there is a nearest one too; into fewer, lengths cannot be kept.
    wider = rng.standard_normal((40, 5))
    up = learn_map(vectors, wider, "orthogonal")
    np.testing.assert_allclose(up @ up.T, np.eye(3), atol=1e-6)
    best = float(((vectors @ up - wider) ** 2).sum())
    for _ in range(200):
        other = np.linalg.qr(up.T + 1e-2 * rng.standard_normal((5, 3)))
        turn = other[0] * np.sign(np.diag(other[1]))
        assert best < float(((vectors @ turn.T - wider) ** 2).sum())
    with pytest.raises(Unblendable, match="no orthogonal map takes 5 dimensions into 3") as caught:
        learn_map(wider, vectors, "orthogonal")
    assert "least-squares" in caught.value.remedy
    with pytest.raises(Unblendable, match="1 projections are given for 3 models"):
        of(table(MEANING), table(FORM), table(MEANING), projection="given", maps=[np.eye(2)])
    with pytest.raises(ValueError, match="part1 and part0 list no word in common"):
        of(table(MEANING), table({"dog": (1.0, 2.0)}), projection="orthogonal")


def test_counts_are_the_highest_and_give_the_order() -> None:
    found = of(table(MEANING, [9, 5, 1]), table(FORM, [7, 6, 2]))
    assert found.vocabulary.words == ("king", "cat", "queen", "kings")
    assert found.vocabulary.counts.tolist() == [9, 7, 5, 2]


def test_what_has_no_vectors_or_is_a_blend_is_no_part() -> None:
    made = of(table(MEANING), table(FORM))
    with pytest.raises(ValueError, match="part1 is a Blended vectors, which is no part"):
        of(table(MEANING), made)  # type: ignore[arg-type]

    @dataclass
    class Mute:
        config = made.config
        vocabulary = made.vocabulary

    with pytest.raises(ValueError, match="part1 has no word vectors"):
        of(table(MEANING), Mute())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no word is known to all of the models"):
        of(table(MEANING), table({"dog": (1.0, 2.0)}), missing="nan")
    with pytest.raises(ValueError, match=r"weights lie from 1e-06 to 1e\+06, unlike 1, 0"):
        of(table(MEANING), table(FORM), weights=(1, 0))


def test_it_is_the_same_when_it_is_read_again_and_spells_what_no_part_lists() -> None:
    words = ("walk", "walks", "été")
    sentences = Sentences(np.arange(3, dtype=np.int32), np.array([0, 3]), np.array([0, 1]))
    text = Tokens([TokenPartition(words, np.ones(3, np.int64), sentences)])
    vocabulary = Vocabulary((), words[:2], np.ones(2, np.int64))
    chars = CharConfig(units=3).build(Inputs({"train": text, "vocabulary": vocabulary}), seed=1)
    parts: list[AnyModel] = [table({"walk": (1.0, 2.0)}), chars]
    made = blend(parts, ["a", "b"], ["1", "2"])
    again = made.config.restore(made.vocabulary, made.state())
    asked = ["walk", "wlak", "zzz", "été"]
    found = made.word_vectors(asked)
    assert np.isfinite(found).all()
    assert (found[1:, :2] == 0).all()
    np.testing.assert_array_equal(again.word_vectors(asked), found)
    np.testing.assert_array_equal(
        made.tables()["input"], made.word_vectors(list(made.vocabulary.words))
    )
