"""Near-duplicates: what exact resemblance says, the first of each cluster, wherever it stands."""

import random
import re
import time
from itertools import combinations

import numpy as np
import pytest

from models.kernels.minhash import EMPTY, functions, signatures
from tasks.artifacts import Artifact
from tasks.dedup import DEDUP, KEPT, Deduplicate
from tasks.neardup import NEAR, SIGN, NearDuplicates
from tasks.runner import Runner
from tasks.store import Store
from tests.tasks.corpora import documents

WORDS = [
    a + b for a in ("lo", "mi", "ta", "ré", "su", "ven") for b in ("m", "na", "to", "rak", "i")
]
"""Thirty words."""


def shingles(text: str, width: int) -> set[tuple[str, ...]]:
    """The shingles of a text, plainly."""
    words = re.findall(r"[\u3000-\ua4ff]|[a-z0-9\x80-\u2fff]+", text.lower())
    n = max(1, len(words) - width + 1) if words else 0
    return {tuple(words[i : i + width]) for i in range(n)}


def jaccard(one: str, other: str, width: int) -> float:
    a, b = shingles(one, width), shingles(other, width)
    return len(a & b) / len(a | b)


def corpus(n: int, seed: int = 0) -> list[str]:
    """Texts of about 80 words; each second one is an earlier text with some words changed."""
    draw = random.Random(seed)
    made: list[str] = []
    for i in range(n):
        words = [draw.choice(WORDS) for _ in range(draw.randint(60, 100))]
        if i % 2 and made:
            words = draw.choice(made).split()
            for _ in range(draw.choice([0, 1, 2, 3, 5, 9, 20])):
                words[draw.randrange(len(words))] = draw.choice(WORDS)
        made.append(" ".join(words))
    return made


def sign(texts: list[str], width: int, k: int) -> np.ndarray:
    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, data)])
    return signatures(np.frombuffer(b"".join(data), np.uint8), ends, width, *functions(k))


def kept(store: Store, source: Artifact, params: NearDuplicates, exact: bool = True) -> list[bool]:
    runner = Runner(store)
    first = runner.run(DEDUP, {"documents": source}, Deduplicate(exact))
    signed = runner.map(SIGN, {"documents": source}, params)
    near = runner.run(NEAR, {"kept": first, "signatures": signed}, params)
    reader = store.reader(near)
    return [x for i in range(reader.n_partitions) for x in reader.tensors(KEPT, i)["kept"].tolist()]


@pytest.mark.parametrize("width", [1, 3, 5])
def test_signatures_estimate_the_exact_resemblance(width: int) -> None:
    texts = corpus(60)
    signs = sign(texts, width, 1024)
    errors = [
        float((signs[i] == signs[j]).mean()) - jaccard(texts[i], texts[j], width)
        for i, j in combinations(range(len(texts)), 2)
    ]
    # The standard error is at most sqrt(1 / 4 / 1024) = 0.016.
    assert np.abs(errors).max() < 4.5 * 0.016
    assert abs(np.mean(errors)) < 0.002


def test_what_a_word_is() -> None:
    same = ["The Old mill, 1907!", "the OLD\nmill -- 1907", "(the) old 'mill' 1907"]
    other = ["the old mill 1908", "theold mill 1907", "the old mill", "old the mill 1907"]
    signs = sign([*same, *other, "...", "", "水車小屋", "水 車,小 屋", "水車小"], 5, 64)
    assert (signs[:3] == signs[0]).all()
    assert all((signs[i] != signs[0]).any() for i in range(3, 7))
    assert (signs[7:9] == EMPTY).all()
    assert (signs[9] == signs[10]).all()
    assert (signs[9] != signs[11]).any()


def test_of_each_cluster_the_first_document_stays(store: Store) -> None:
    texts, params = corpus(120), NearDuplicates(0.7, 512, 3)
    exact = {(i, j): jaccard(texts[i], texts[j], 3) for i, j in combinations(range(len(texts)), 2)}
    margin = 0.06  # three standard errors: nearer to the threshold an estimate may go either way

    def first(threshold: float) -> list[bool]:
        roots = list(range(len(texts)))
        for (i, j), similar in sorted(exact.items()):
            if similar >= threshold:
                low, high = sorted((roots[i], roots[j]))
                roots = [low if root == high else root for root in roots]
        return [root == i for i, root in enumerate(roots)]

    found = kept(store, documents(store, texts), params, exact=False)
    lenient, strict = first(params.threshold - margin), first(params.threshold + margin)
    assert all(
        sure_kept <= x <= sure_dropped
        for sure_kept, x, sure_dropped in zip(lenient, found, strict, strict=True)
    )
    assert 40 < sum(found) < 100
    assert sum(a != b for a, b in zip(lenient, strict, strict=True)) < 12


def test_partitions_do_not_matter_and_a_new_one_computes_its_own(store: Store) -> None:
    texts, params = [*corpus(40), "", "?", "?"], NearDuplicates()
    whole = kept(store, documents(store, texts), params)
    for cuts in ([13], [1, 2, 30], [0, 20, 20]):
        parts = [texts[i:j] for i, j in zip([0, *cuts], [*cuts, None], strict=True)]
        assert kept(store, documents(store, *parts), params) == whole
    assert whole[-3:] == [True, True, False]  # without words there is no near-duplicate
    runner = Runner(store)
    runner.map(SIGN, {"documents": documents(store, texts[:9], texts[9:])}, params)
    runner.map(SIGN, {"documents": documents(store, texts[:9], texts[9:], ["new"])}, params)
    assert [outcome.computed for outcome in runner.outcomes] == [2, 1]


def test_many_copies_take_no_quadratic_time_and_leave_one(store: Store) -> None:
    words = [a + b for a in WORDS for b in WORDS[:6]]
    texts = [f"{words[i % len(words)]} {' '.join(words)}" for i in range(20_000)]
    source = documents(store, texts[:2500], texts[2500:])
    began = time.process_time()
    assert sum(kept(store, source, NearDuplicates(), exact=False)) == 1
    assert time.process_time() - began < 20  # pair by pair it would be hours


@pytest.mark.parametrize(
    ("threshold", "permutations"), [(0.8, 128), (0.5, 128), (0.95, 64), (0.1, 16)]
)
def test_bands_let_few_slip_through(threshold: float, permutations: int) -> None:
    params = NearDuplicates(threshold, permutations)
    assert params.bands * params.rows <= permutations
    missed = (1 - threshold**params.rows) ** params.bands
    assert missed <= 0.01 or params.rows == 1


def test_signatures_are_what_they_were() -> None:
    """If this fails on purpose, raise the version of the step."""
    signs = sign(["the loom stood by the window, old and tall", "水車小屋"], 5, 128)
    assert signs[:, 0].tolist() == [78430741, 3109708458]
    assert int(signs.sum(dtype=np.uint64)) == 370439877981
