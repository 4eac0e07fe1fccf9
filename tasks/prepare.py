"""From a corpus to the artifacts that a family asks for."""

from __future__ import annotations

from models.family import Family, Want, WantsCooccurrence, WantsNgrams, WantsTokens, WantsVocabulary
from tasks.artifacts import Artifact
from tasks.cooccurrence import Cooccurrence, count_cooccurrence
from tasks.corpus import Corpus
from tasks.ngrams import count_ngrams
from tasks.runner import Runner
from tasks.vocabulary import VOCABULARY


def prepare(
    runner: Runner, corpus: Corpus, family: Family, base: Artifact | None = None
) -> dict[str, Artifact]:
    """The inputs of a family by role, made by whatever steps they take.

    What the corpus learnt to make tokens is among them, for the model's text pipeline; so is, as
    ``base``, the model that the training goes on from, if there is one.
    """
    wants = family.wants()
    wanted = wants["vocabulary"]
    if not isinstance(wanted, WantsVocabulary):
        raise TypeError(f"{family.family} asks for {wanted} as its vocabulary")
    bases = {} if base is None else {"base": base}
    vocabulary = runner.run(
        VOCABULARY, {"types": corpus.types, **bases}, wanted, label=family.family
    )

    def artifact(want: Want) -> Artifact:
        match want:
            case WantsTokens():
                return corpus.tokens[want.split]
            case WantsVocabulary():
                return vocabulary
            case WantsNgrams():
                return count_ngrams(runner, corpus.tokens["train"], vocabulary, want.order)
            case WantsCooccurrence():
                settings = Cooccurrence(want.window, want.weights, want.side, want.boundary)
                return count_cooccurrence(runner, corpus.tokens["train"], vocabulary, settings)

    return {role: artifact(want) for role, want in wants.items()} | dict(corpus.learnt) | bases
