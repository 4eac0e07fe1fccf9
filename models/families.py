"""The union of all families: the only registry there is.

A family joins by its file, its lines here, its flow in ``pipelines/train.py`` and its row in
``tests/models/test_contract.py``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from models import (
    awd_lstm,
    birnn,
    blend,
    blend_lm,
    char_birnn,
    char_cnn,
    class_ngram,
    elmo,
    fasttext,
    glove,
    imported,
    imported_ngram,
    joined,
    mixture,
    ngram,
    nplm,
    ppmi,
    quantized,
    rnnlm,
    spelling_lm,
    word2vec,
)

FamilyConfig = Annotated[
    ngram.Config
    | class_ngram.Config
    | word2vec.Config
    | fasttext.Config
    | nplm.Config
    | rnnlm.Config
    | awd_lstm.Config
    | char_cnn.Config
    | elmo.Config
    | birnn.Config
    | char_birnn.Config
    | blend_lm.Config
    | spelling_lm.Config
    | glove.Config
    | ppmi.Config,
    Field(discriminator="family"),
]
"""The settings of a model of any family; validate with ``pydantic.TypeAdapter(FamilyConfig)``."""

FAMILIES: tuple[
    type[ngram.Config]
    | type[class_ngram.Config]
    | type[word2vec.Config]
    | type[fasttext.Config]
    | type[nplm.Config]
    | type[rnnlm.Config]
    | type[awd_lstm.Config]
    | type[char_cnn.Config]
    | type[elmo.Config]
    | type[birnn.Config]
    | type[char_birnn.Config]
    | type[blend_lm.Config]
    | type[spelling_lm.Config]
    | type[glove.Config]
    | type[ppmi.Config],
    ...,
] = (
    ngram.Config,
    class_ngram.Config,
    word2vec.Config,
    fasttext.Config,
    nplm.Config,
    rnnlm.Config,
    awd_lstm.Config,
    char_cnn.Config,
    elmo.Config,
    birnn.Config,
    char_birnn.Config,
    blend_lm.Config,
    spelling_lm.Config,
    glove.Config,
    ppmi.Config,
)
"""The Config classes themselves, in the order in which leaderboards and docs list families."""

StoredConfig = Annotated[
    FamilyConfig
    | imported.Config
    | imported_ngram.Config
    | quantized.Config
    | mixture.Config
    | blend.Config
    | joined.Config,
    Field(discriminator="family"),
]
"""The settings of any model that a store or a registry may hold: of families, of what is read from
files, and of what is made of other models. All but the first are not trained, so they are neither
forms nor parts of a recipe."""
