"""Classes of words: a look at a model rather than a score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from models.capabilities import ClassesWords
from models.family import Model
from tasks.evaluation.lexicon import Lexicon
from tasks.evaluation.neighbours import telling_words

Clusters = Mapping[str, Sequence[str]]


def chosen_clusters(model: Model, n: int = 12, most: int = 15) -> Clusters:
    """The most frequent words of the classes of some telling words, by path, in the tree's order.

    Args:
        model: one that ``ClassesWords``.
        n: classes, at most.
        most: words of each.
    """
    if not isinstance(model, ClassesWords):
        raise TypeError(f"{type(model).__name__} has no classes of words")
    words, paths = model.vocabulary.words, model.paths()
    members = defaultdict[str, list[str]](list)
    for word, path in zip(words, paths, strict=True):
        members[path].append(word)
    of = dict(zip(words, paths, strict=True))
    chosen = {of[word] for word in telling_words(Lexicon.of(model.vocabulary, "exact"), n)}
    return {path: members[path][:most] for path in sorted(chosen)}
