"""The inputs of a family: from artifacts in the store to the values that its model reads."""

from __future__ import annotations

from collections.abc import Mapping

from models.family import (
    Family,
    Inputs,
    Want,
    WantsCooccurrence,
    WantsNgrams,
    WantsTokens,
    WantsVocabulary,
)
from tasks.cooccurrence import read_cooccurrence
from tasks.ngrams import read_ngrams
from tasks.store import Reader
from tasks.tokenize import read_tokens
from tasks.vocabulary import read_vocabulary


def read_inputs(family: Family, readers: Mapping[str, Reader]) -> Inputs:
    """The artifacts that a family asked for, as the values that its model reads."""

    def value(want: Want, reader: Reader) -> object:
        match want:
            case WantsTokens():
                return read_tokens(reader)
            case WantsVocabulary():
                return read_vocabulary(reader)
            case WantsNgrams():
                return read_ngrams(reader)
            case WantsCooccurrence():
                return read_cooccurrence(reader)

    return Inputs({role: value(want, readers[role]) for role, want in family.wants().items()})
