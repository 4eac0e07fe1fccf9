from __future__ import annotations

import numpy as np

from models.output import frequencies
from models.vocabulary import LM_RESERVED, UNK, Vocabulary
from tests.models.test_nplm import tokens


def test_frequencies_of_a_vocabulary_that_has_grown() -> None:
    """Words have sums over all texts, unknown words and ends those of the text that is trained on.

    Noise is drawn by them, so ``<unk>`` must not vanish where the sums are above the text's words.
    """
    text = tokens([["a", "b", "x"], ["a", "y", "x"], ["a"]], partitions=2)
    words = ("a", "b", "old")
    own = Vocabulary(LM_RESERVED, words, np.array([3, 1, 0]))
    grown = Vocabulary(LM_RESERVED, words, np.array([903, 501, 90]))
    assert LM_RESERVED[0] == UNK
    assert frequencies(own, text).tolist() == [3, 0, 3, 3, 1, 0]
    assert frequencies(grown, text).tolist() == [3, 0, 3, 903, 501, 90]
