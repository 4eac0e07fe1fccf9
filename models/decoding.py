"""Decoders: how texts go on under a model, a word at a time.

Shapes: ``S`` texts, ``n`` context words, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.text import Sentences
from models.vocabulary import LM_RESERVED

NextLogProbs = Callable[[NDArray[np.int32]], NDArray[np.float64]]
"""(S, n) ids, the nearest word last and ``<s>`` before the first -> (S, V) nats."""


class Windowed:
    """The decoder of a model that looks back a fixed number of words.

    Attributes:
        contexts: (S, n) the last words of each text.
    """

    def __init__(self, next_log_probs: NextLogProbs, n: int, prefixes: Sentences) -> None:
        self._next = next_log_probs
        self.contexts = np.full((len(prefixes), n), LM_RESERVED.index("<s>"), np.int32)
        for text in range(len(prefixes)):
            words = prefixes.ids[prefixes.starts[text] : prefixes.starts[text + 1]]
            kept = words[max(0, len(words) - n) :]
            self.contexts[text, n - len(kept) :] = kept

    def log_probs(self) -> NDArray[np.float64]:
        """(S, V) see ``models.family.Decoder``."""
        return self._next(self.contexts)

    def append(self, words: NDArray[np.int32]) -> None:
        """See ``models.family.Decoder``."""
        longer = np.concatenate([self.contexts, np.asarray(words, np.int32)[:, None]], axis=1)
        self.contexts = longer[:, 1:]
