"""Words as points of a plane, near each other where their vectors are: the map, as numbers.

Vectors are compared by direction, so they are brought to length 1 first. Principal components show
the plane in which they differ most, and say how much of their variance that is; t-SNE (van der
Maaten and Hinton 2008) keeps neighbours together, and its distances mean nothing else. How it is
drawn is in ``tasks.wordmap_page`` and ``tasks.wordmap_picture``.

Shapes: ``N`` words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.capabilities import EmbedsWords
from models.family import Model
from models.projection import principal_components
from models.vectors import unit
from tasks.errors import InputError
from tasks.evaluation.lexicon import Lexicon

Method = Literal["pca", "tsne"]
Points = NDArray[np.float64]

WIDTH, HEIGHT, MARGIN = 1000.0, 700.0, 40.0
"""Of the sheet that a map is drawn on, in units of its own."""
SIZE = 12.0
"""Of labels, in these units."""
PERPLEXITY = 30.0
"""Of t-SNE: neighbours that count, about; the authors' 5 to 50."""
FREQUENT, FEWEST = 300, 20
"""Words on the map that a report shows, and words that a model has at least for that."""
LONGEST = 24
"""Characters of a label."""


@dataclass(frozen=True, eq=False)
class WordMap:
    """A map of words.

    Attributes:
        title: what it is of.
        words: the words.
        counts: (N,) how often each was seen in training.
        chosen: (N,) whether somebody asked for the word by name.
        points: (N, 2) on the sheet, from its upper left corner.
        caption: what the axes are.
    """

    title: str
    words: tuple[str, ...]
    counts: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    points: Points
    caption: str

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """(N,) which words have room for a label beside their point; those asked for come first."""
        order = np.lexsort((np.arange(len(self.words)), -self.counts, ~self.chosen))
        return thinned(self.points, [label_width(word) for word in self.words], order)


def content_words(lexicon: Lexicon, n: int, beyond: int = 100) -> tuple[str, ...]:
    """The n most frequent words that are probably no function words.

    They have letters only, more than three of them or one of a script without an alphabet, and
    ``beyond`` words are more frequent, if there are enough.
    """
    letters = [word for word in lexicon.words if word.isalpha() and (len(word) > 3 or _wide(word))]
    if len(letters) >= n + beyond:
        return tuple(letters[beyond : beyond + n])
    return tuple(letters[:n] or lexicon.words[:n])


def make_map(
    model: Model,
    words: Sequence[str] = (),
    *,
    frequent: int = 0,
    method: Method = "pca",
    title: str = "",
    seed: int = 1,
) -> WordMap:
    """The map of some words of a model.

    Args:
        model: one that ``EmbedsWords``.
        words: asked for by name.
        frequent: and so many frequent content words.
        method: principal components or t-SNE.
        title: of the map; also what errors call the model.
        seed: of t-SNE.

    Raises:
        InputError: the model has no word vectors, or none for a word; or there are too few words.
    """
    if not isinstance(model, EmbedsWords):
        raise InputError(
            "this model has no word vectors",
            where=title,
            remedy="ask a model of another family, such as word2vec",
        )
    lexicon = Lexicon.of(model.vocabulary, "exact")
    asked = list(dict.fromkeys(words))
    shown = list(dict.fromkeys([*asked, *content_words(lexicon, frequent)]))
    table = model.word_vectors(shown)
    unknown = [w for w, row in zip(shown, table, strict=True) if not np.isfinite(row).all()]
    if unknown:
        raise InputError(
            f"the model has no vector for {', '.join(map(repr, unknown[:10]))}",
            where=title,
            remedy="words are compared as they are written",
        )
    least = 4 if method == "tsne" else 2
    if len(shown) < least:
        raise InputError(
            f"a map by {method} takes {least} words, not {len(shown)}",
            where=title,
            remedy="name more words, or give --frequent",
        )
    points, caption = _project(unit(table), method, seed)
    seen = dict(zip(model.vocabulary.words, model.vocabulary.counts.tolist(), strict=True))
    return WordMap(
        title,
        tuple(shown),
        np.array([seen.get(word, 0) for word in shown], np.int64),
        np.arange(len(shown)) < len(asked),
        _placed(points),
        caption,
    )


def frequent_words_map(model: Model, title: str) -> WordMap | None:
    """The map of frequent content words; None without word vectors, or with few words."""
    if not isinstance(model, EmbedsWords) or len(model.vocabulary.words) < FEWEST:
        return None
    return make_map(model, frequent=FREQUENT, title=title)


def _project(units: NDArray[np.float32], method: Method, seed: int) -> tuple[Points, str]:
    """(N, 2) points, and what their axes are."""
    points, shares = principal_components(units)
    if method == "pca":
        across, up = (f"{share:.1%}" for share in shares)
        return points, f"principal components: {across} of the variance across, {up} up"
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(PERPLEXITY, (len(units) - 1) / 3)
    spread = points[:, 0].std() or 1.0
    start = (points / spread * 1e-4).astype(np.float32)
    with threadpool_limits(1):  # sums in one order, so that the map is the same every time
        moved = TSNE(perplexity=perplexity, init=start, random_state=seed).fit_transform(units)
    caption = f"t-SNE, perplexity {perplexity:g}: who is near whom; long distances mean nothing"
    return np.asarray(moved, np.float64), caption


def _placed(points: Points) -> Points:
    """Points on the sheet: one scale for both axes, room at the right for labels."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([WIDTH - 4 * MARGIN, HEIGHT - 2 * MARGIN])
    scale = min(room / np.maximum(high - low, 1e-12 * max(1.0, float(np.abs(points).max()))))
    middle = np.array([WIDTH / 2 - MARGIN, HEIGHT / 2])
    placed: Points = middle + (points - (low + high) / 2) * scale * np.array([1, -1])
    return placed


# --- labels ---------------------------------------------------------------------------------


def label(word: str) -> str:
    """A word as it is shown: shortened, with what has no shape written as an escape."""
    clean = "".join(c if _shows(c) else c.encode("unicode_escape").decode() for c in word)
    return clean if len(clean) <= LONGEST else f"{clean[: LONGEST - 1]}…"


def _shows(character: str) -> bool:
    # Joiners shape the letters around them; marks that turn the direction of a line do not.
    return character.isprintable() or character in "\u200c\u200d"


def label_width(word: str) -> float:
    """About how wide a label is, in units of the sheet."""
    text = label(word)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    marks = sum(unicodedata.combining(c) > 0 for c in text)
    return SIZE * (0.58 * (len(text) - wide - marks) + 1.02 * wide)


def _wide(word: str) -> bool:
    return any(unicodedata.east_asian_width(c) in "WF" for c in word)


def thinned(
    points: Points, widths: Sequence[float], order: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """(N,) which labels are shown so that none lies on another or on a labelled point.

    Args:
        points: (N, 2); a label begins right of its point.
        widths: (N,) of the labels.
        order: (N,) who is asked first.
    """
    kept = np.zeros(len(points), np.bool_)
    boxes = np.empty((0, 4))
    gap, up, down = SIZE / 2, 0.75 * SIZE, 0.35 * SIZE
    for i in order:
        x, y = points[i]
        box = np.array([x - gap / 2, x + gap + widths[i], y - up, y + down])
        apart = (
            (boxes[:, 0] > box[1])
            | (boxes[:, 1] < box[0])
            | (boxes[:, 2] > box[3])
            | (boxes[:, 3] < box[2])
        )
        if apart.all():
            kept[i] = True
            boxes = np.vstack([boxes, box])
    return kept
