from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from models.projection import principal_components
from models.quantization import quantize
from models.quantized import Config, Model
from models.vocabulary import Vocabulary
from tasks import wordmap_picture
from tasks.errors import ConfigError, InputError
from tasks.evaluation.lexicon import Lexicon
from tasks.wordmap import HEIGHT, WIDTH, content_words, label, make_map, thinned
from tasks.wordmap_file import write_map

NASTY = (
    "<b>&", 'say "no"', "$x_1$", "שלום", "كلمة", "水曜日", "a\u202eb", "x" * 60, "it's", "\x07",
)  # fmt: skip


def model(words: tuple[str, ...] = NASTY, more: int = 30) -> Model:
    vocabulary = (*words, *(f"word{chr(97 + i)}" for i in range(more)))
    rows = np.random.default_rng(0).standard_normal((len(vocabulary), 8)).astype(np.float32)
    config = Config(dim=8, sub_vectors=8, centroids=len(vocabulary))
    counts = np.arange(len(vocabulary), 0, -1)
    return Model(config, Vocabulary((), vocabulary, counts), quantize(rows, config, seed=1))


def test_principal_components_are_those_of_the_covariance() -> None:
    rows = np.random.default_rng(0).standard_normal((40, 6)) @ np.diag([5, 3, 1, 1, 0.5, 0.1])
    points, shares = principal_components(rows)
    values, directions = np.linalg.eigh(np.cov(rows.T))
    expected = (rows - rows.mean(axis=0)) @ directions[:, ::-1][:, :2]
    np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-9)
    np.testing.assert_allclose(shares, values[::-1][:2] / values.sum())
    # The sign is no accident of the library.
    np.testing.assert_allclose(principal_components(rows[:, ::-1])[0], points, atol=1e-9)
    turned = principal_components(rows * [1, -1, 1, 1, 1, 1])[0]
    assert np.allclose(turned[:, 0], points[:, 0])


def test_a_line_and_a_point_have_coordinates_too() -> None:
    points, shares = principal_components(np.array([[0.0], [2.0], [4.0]]))
    np.testing.assert_allclose(points, [[-2, 0], [0, 0], [2, 0]], atol=1e-12)
    assert shares.tolist() == [1, 0]
    assert principal_components(np.ones((3, 4)))[0].tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_a_page_shows_every_word_as_it_is(method: str, tmp_path: Path) -> None:
    found = make_map(model(), NASTY, frequent=20, method=method, title="<m>/1")  # type: ignore[arg-type]
    assert found.chosen.sum() == len(NASTY)
    assert ((found.points >= 0) & (found.points <= [WIDTH, HEIGHT])).all()
    path = tmp_path / "map.html"
    assert write_map(found, path) == []
    page = path.read_text("utf-8")
    assert "<m>" not in page
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)
    svg = re.search(r"<svg.*?</svg>", page, re.S)
    assert svg is not None
    groups = ET.fromstring(svg[0]).findall("g")
    texts = [group.findtext("text") for group in groups]
    assert texts[:6] == list(NASTY[:6])
    assert texts[6] == "a\\u202eb"
    assert texts[7] == "x" * 23 + "…"
    assert texts[9] == "\\x07"
    titles = [group.findtext("title") or "" for group in groups]
    assert "x" * 60 in titles[7]
    assert titles[3].startswith("\u2068שלום\u2069, seen ")
    assert groups[0].get("data-word") == "<b>&"


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_a_map_is_the_same_twice(method: str) -> None:
    once, again = (make_map(model(), frequent=25, method=method) for _ in range(2))  # type: ignore[arg-type]
    assert once.words == again.words
    assert np.array_equal(once.points, again.points)


def test_tsne_keeps_groups_together() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(8)[:3], 12, axis=0) + 0.05 * rng.standard_normal((36, 8))
    words = tuple(f"word{chr(97 + i % 26)}{i}" for i in range(36))
    config = Config(dim=8, sub_vectors=8, centroids=36)
    table = quantize(rows.astype(np.float32), config, seed=1)
    few = Model(config, Vocabulary((), words, np.arange(36, 0, -1)), table)
    points = make_map(few, words, method="tsne").points
    apart = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(36)
    assert (apart.argmin(axis=1) // 12 == np.arange(36) // 12).all()


def test_a_picture_is_a_png_and_tells_of_letters_without_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    notes = write_map(make_map(model(), NASTY, frequent=20, title="$m_1$"), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    from PIL import Image

    with Image.open(path) as image:
        assert image.size == (1920, 1344)
        assert len(set(image.convert("L").resize((96, 67)).tobytes())) > 10
    missing = wordmap_picture._families({"a", "\U000e0fff"})[1]
    assert missing == ["\U000e0fff"]
    assert all("no installed font has" in note for note in notes)


def test_labels_do_not_lie_on_each_other() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 300, (200, 2))
    widths: NDArray[np.float64] = rng.uniform(10, 60, 200)
    order = rng.permutation(200)
    kept = thinned(points, widths.tolist(), order)
    assert kept[order[0]]
    assert 10 < kept.sum() < 200
    shown = np.flatnonzero(kept)
    for i in shown:
        for j in shown[shown > i]:
            (x, y), (u, v) = points[i], points[j]
            assert x + 6 + widths[i] < u - 3 or u + 6 + widths[j] < x - 3 or abs(y - v) > 13


def test_frequent_words_are_no_function_words() -> None:
    words = ("the", "of", ",", "1999", "水", *(f"river{chr(97 + i)}" for i in range(20)))
    vocabulary = Vocabulary((), words, np.arange(len(words), 0, -1))
    lexicon = Lexicon.of(vocabulary, "exact")
    assert content_words(lexicon, 3) == ("水", "rivera", "riverb")
    assert content_words(lexicon, 3, beyond=2) == ("riverb", "riverc", "riverd")
    numbers = Vocabulary((), ("1", "2"), np.array([2, 1]))
    assert content_words(Lexicon.of(numbers, "exact"), 2) == ("1", "2")


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no vector for 'unseen', 'zebra'"):
        make_map(model(), ["worda", "unseen", "zebra"])
    with pytest.raises(InputError, match="a map by tsne takes 4 words, not 3"):
        make_map(model(), ["worda", "wordb", "wordc"], method="tsne")
    with pytest.raises(InputError, match="takes 2 words, not 1"):
        make_map(model(), ["worda", "worda"])
    with pytest.raises(ConfigError, match=r"\.html or \.png, not \.svg"):
        write_map(make_map(model(), ["worda", "wordb"]), tmp_path / "map.svg")


def test_joiners_stay_and_marks_of_direction_are_written_out() -> None:
    assert label("می\u200cخواهم") == "می\u200cخواهم"
    assert label("a\u202eb\n") == "a\\u202eb\\n"
