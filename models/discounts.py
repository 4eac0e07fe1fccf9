"""Which discounts a smoothing takes, found before anything is estimated with them.

Every order has its own, from the numbers ``n_r`` of its n-grams that occur ``r`` times. Where they
are undefined, a fixed row takes their place, and ``Discounts.lacking`` names the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from models.katz import HALF, good_turing, good_turing_fallback
from models.kneser_ney import FALLBACK, FALLBACK_SINGLE, estimate_discounts, estimate_single
from models.trie import Trie

Smoothing = Literal[
    "modified-kneser-ney",
    "kneser-ney",
    "backoff-kneser-ney",
    "katz",
    "jelinek-mercer",
    "add-k",
    "maximum-likelihood",
]


def is_discounted(smoothing: Smoothing) -> bool:
    """Whether a smoothing takes discounts."""
    return smoothing == "katz" or smoothing.endswith("kneser-ney")


@dataclass(frozen=True, eq=False)
class Discounts:
    """What is taken of counts.

    Attributes:
        smoothing: that takes it.
        counts: (T,) what is discounted: the counts of n-grams, or the adjusted ones.
        taken: (order, R) by order and count, the last column for all higher counts.
        spectra: by order, the numbers of n-grams with the counts 0, 1, 2, ... (4 and more of them).
        lacking: orders whose own discounts are undefined.
    """

    smoothing: Smoothing
    counts: NDArray[np.int64]
    taken: NDArray[np.float64]
    spectra: tuple[NDArray[np.int64], ...]
    lacking: tuple[int, ...]

    def refusal(self) -> str:
        """Why a model cannot be made with these alone."""
        shown = "; ".join(
            f"order {k}: " + ", ".join(f"n{i}={int(spectrum[i])}" for i in range(1, 5))
            for k, spectrum in enumerate(self.spectra, 1)
        )
        return (
            f"the discounts of order {_listed(self.lacking)} are undefined ({shown}): the text is "
            "small, has copies, or its vocabulary has no rare words; let discounts be 'fallback', "
            "lower the order, or train on more text"
        )

    def report(self) -> dict[str, float | int | str]:
        """The numbers of n-grams by count, the discounts, and which of these are fixed."""
        told: dict[str, float | int | str] = {"fallback_orders": " ".join(map(str, self.lacking))}
        for k, (spectrum, row) in enumerate(zip(self.spectra, self.taken, strict=True), 1):
            told |= {f"order_{k}.n{i}": int(spectrum[i]) for i in range(1, 5)}
            told |= {f"order_{k}.d{i}": float(row[i]) for i in range(1, len(row)) if row[i]}
        if self.lacking:
            fixed = {"modified-kneser-ney": "0.5, 1 and 1.5", "katz": f"{HALF} up to the cut-off"}
            told["warning"] = (
                f"the discounts of order {_listed(self.lacking)} could not be estimated and are "
                f"{fixed.get(self.smoothing, FALLBACK_SINGLE[1])}: "
                "the text is small, has copies, or its vocabulary has no rare words"
            )
        return told


def find_discounts(trie: Trie, smoothing: Smoothing, cutoff: int) -> Discounts | None:
    """The discounts of all orders; None for a smoothing that takes none.

    Args:
        trie: T n-grams.
        smoothing: whose.
        cutoff: of Katz.
    """
    if not is_discounted(smoothing):
        return None
    estimate: Callable[[NDArray[np.int64]], tuple[float, ...] | None]
    if smoothing == "katz":
        counts, fallback = trie.counts(), good_turing_fallback(cutoff)

        def estimate(spectrum: NDArray[np.int64]) -> tuple[float, ...] | None:
            return good_turing(spectrum[: cutoff + 2], cutoff)

    elif smoothing == "modified-kneser-ney":
        counts, fallback, estimate = trie.adjusted, FALLBACK, estimate_discounts
    else:
        counts, fallback, estimate = trie.adjusted, FALLBACK_SINGLE, estimate_single
    highest = max(4, cutoff + 1) if smoothing == "katz" else 4
    spectra = tuple(trie.spectrum(counts, k, highest) for k in range(1, trie.order + 1))
    rows = [estimate(spectrum) for spectrum in spectra]
    if smoothing == "katz" and spectra[0][0] <= 1:
        # Only <s> never occurs: no unigram is unseen, so nothing has to be set free for any.
        rows[0] = (0.0,) * (cutoff + 2)
    lacking = tuple(k for k, row in enumerate(rows, 1) if row is None)
    return Discounts(smoothing, counts, _table(rows, fallback), spectra, lacking)


def _table(
    rows: Sequence[tuple[float, ...] | None], fallback: tuple[float, ...]
) -> NDArray[np.float64]:
    return np.array([fallback if row is None else row for row in rows])


def _listed(orders: Sequence[int]) -> str:
    return ", ".join(map(str, orders))
