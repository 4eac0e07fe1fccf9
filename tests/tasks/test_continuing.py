"""A base is found, fetched and held against what shall go on from it."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import glove, ngram, nplm, ppmi, rnnlm, word2vec
from models.vocabulary import LM_RESERVED, Vocabulary, grown
from tasks.artifacts import Artifact
from tasks.continuing import Base, check_bases, check_text, continued, find_base, learnt_by
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.errors import ConfigError, InputError
from tasks.export.pull import pull
from tasks.mlflow_client import connect
from tasks.models import TextPipeline
from tasks.normalize import Normalize
from tasks.phrases import Phrases, read_joining
from tasks.registry import register
from tasks.runner import Runner
from tasks.sources import Source
from tasks.store import Store
from tasks.tokenize import Tokenize, read_tokens
from tests.tasks.trained import TEXT, train_small

SMALL = word2vec.Config(dim=6, min_count=1)


def registered(store: Store, uri: str, name: str, model: Artifact) -> str:
    done = register(store, model, name, tracking_uri=uri, scores=[], tags={"experiment": "news"})
    return f"{done.name}/{done.version}"


def base_of(family: Any, text: TextPipeline = TEXT) -> Base:
    handle = Artifact("model", "train", "0" * 64, "ab" * 32)
    settings = dataclasses.asdict(family)
    return Base("news-model/3", "news-model", "news", handle, settings, text)


# --- the vocabulary -------------------------------------------------------------------------


def test_a_vocabulary_grows() -> None:
    base = Vocabulary(LM_RESERVED, ("a", "b", "c"), np.array([9, 4, 1]))
    words, counts = ["new", "c", "rare", "a", "more", "<s>"], np.array([5, 4, 1, 2, 5, 9])
    found = grown(base, words, counts, min_count=2, max_size=None)
    assert found.reserved == LM_RESERVED
    assert found.words == ("a", "c", "more", "new", "b")
    assert found.counts.tolist() == [11, 5, 5, 5, 4]
    assert grown(base, words, counts, min_count=2, max_size=4).words == ("a", "c", "more", "b")
    assert set(grown(base, words, counts, min_count=2, max_size=1).words) == {"a", "b", "c"}
    assert grown(base, [], np.zeros(0, np.int64), min_count=1, max_size=None).words == base.words


@given(
    st.dictionaries(st.text("abé", min_size=1, max_size=3), st.integers(1, 9), max_size=9),
    st.dictionaries(st.text("abé", min_size=1, max_size=3), st.integers(1, 9), max_size=9),
    st.integers(1, 5),
)
def test_every_old_word_stays_and_counts_add_up(
    old: dict[str, int], new: dict[str, int], least: int
) -> None:
    base = Vocabulary((), tuple(old), np.array([*old.values()], np.int64))
    found = grown(base, [*new], np.array([*new.values()], np.int64), min_count=least, max_size=None)
    expected = {w: n + new.get(w, 0) for w, n in old.items()}
    expected |= {w: n for w, n in new.items() if w not in old and n >= least}
    assert dict(zip(found.words, found.counts.tolist(), strict=True)) == expected
    assert found.counts.tolist() == sorted(expected.values(), reverse=True)


# --- finding a base -------------------------------------------------------------------------


def test_a_base_is_found_by_name_in_the_store_or_fetched(
    store: Store, tracking_uri: str, tmp_path: Path
) -> None:
    model = train_small(store, SMALL)
    reference = registered(store, tracking_uri, "news-found", model)
    base = find_base(store, "news-found@challenger", tracking_uri)
    assert (base.reference, base.name, base.experiment) == (reference, "news-found", "news")
    assert base.model == model
    assert (base.settings, base.text) == (dataclasses.asdict(SMALL), TEXT)
    # Another store has it not: what is fetched has the same content, so it makes the same keys.
    other = Store(str(tmp_path / "other"), tmp_path / "cache")
    fetched = find_base(other, reference, tracking_uri).model
    assert (fetched.content, fetched.kind) == (model.content, "model")
    assert find_base(other, reference, tracking_uri).model == fetched
    folder = tmp_path / "pulled"
    pull(reference, "native", folder, tracking_uri=tracking_uri)
    assert find_base(other, str(folder), tracking_uri).model == fetched
    # It was there and is gone.
    store.discard(model.step, model.recipe)
    again = find_base(store, reference, tracking_uri).model
    assert (again.content, again.step) == (model.content, "model")


def test_a_base_that_was_deleted_is_refused(store: Store, tracking_uri: str) -> None:
    reference = registered(store, tracking_uri, "news-deleted", train_small(store, SMALL))
    connect(tracking_uri).delete_model_version("news-deleted", "1")
    with pytest.raises(InputError, match="there is no"):
        find_base(store, reference, tracking_uri)


# --- what has to agree ----------------------------------------------------------------------


@pytest.mark.parametrize("family", [ngram.Config(), ppmi.Config()], ids=lambda c: c.family)
def test_counts_do_not_go_on(family: Any) -> None:
    with pytest.raises(ConfigError, match=r"families\.x: .*counts.*\n.*both texts"):
        continued(family, base_of(family), "families.x")


@pytest.mark.parametrize("setting", [{"embedding": 0}, {"objective": "adaptive-softmax"}])
def test_a_base_that_takes_in_no_new_words_is_refused_before_anything_is_read(
    setting: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match=r"families\.x: .*no new words.*\n.*both texts"):
        continued(rnnlm.Config(), base_of(rnnlm.Config(**setting)), "families.x")


def test_a_base_of_another_family_is_refused() -> None:
    with pytest.raises(ConfigError, match="of the family glove, this is word2vec"):
        continued(word2vec.Config(), base_of(glove.Config()), "families.x")


def test_what_shapes_the_vectors_is_the_bases_and_all_else_is_as_asked() -> None:
    base = base_of(word2vec.Config(dim=50, architecture="cbow", window=9, epochs=3))
    found = continued(word2vec.Config(learning_rate=0.01), base, "families.x")
    assert found == word2vec.Config(dim=50, architecture="cbow", learning_rate=0.01)
    with pytest.raises(ConfigError, match=r"families\.x\.dim: news-model/3 has dim 50.*for 60"):
        continued(word2vec.Config(dim=60), base, "families.x")
    with pytest.raises(ConfigError, match=r"negative-sampling.*asks for.*nce"):
        continued(word2vec.Config(objective="nce"), base, "families.x")
    tree = base_of(word2vec.Config(objective="hierarchical-softmax"))
    with pytest.raises(ConfigError, match=r"negatives .9. has no part.*as in news-model/3"):
        continued(word2vec.Config(negatives=9), tree, "families.x")
    assert continued(nplm.Config(), base_of(nplm.Config(hidden=7)), "x") == nplm.Config(hidden=7)


def test_text_that_is_read_otherwise_is_refused() -> None:
    base = base_of(SMALL, replace(TEXT, normalize=Normalize(lowercase=True)))
    corpus = CorpusConfig(normalize=Normalize(lowercase=True))
    check_text(corpus, base)
    for changed, key, told in (
        (CorpusConfig(), "normalize.lowercase", "true, and this corpus has false"),
        (
            replace(corpus, tokenize=Tokenize(scheme="whitespace")),
            "tokenize.scheme",
            '"words", and this corpus has "whitespace"',
        ),
        (replace(corpus, phrases=Phrases()), "phrases", "none, and this corpus has 1 pass"),
    ):
        with pytest.raises(ConfigError) as error:
            check_text(changed, base)
        assert error.value.where == f"corpus.{key}"
        assert told in str(error.value)
        assert "lexloom continue news-model/3" in str(error.value)


def test_bases_are_held_against_the_families_and_each_other() -> None:
    families = {"word2vec": SMALL, "glove": glove.Config()}
    check_bases(CorpusConfig(), families, {"word2vec": base_of(SMALL)})
    with pytest.raises(ConfigError, match=r"bases\.nplm: .*none of the families"):
        check_bases(CorpusConfig(), families, {"nplm": base_of(nplm.Config())})
    cut = CorpusConfig(tokenize=Tokenize(scheme="bpe"))
    pieces = [replace(TEXT, tokenize=cut.tokenize, subwords=text) for text in ("one", "two")]
    two = {"word2vec": base_of(SMALL, pieces[0]), "glove": base_of(glove.Config(), pieces[1])}
    with pytest.raises(ConfigError, match="other subwords or phrases"):
        check_bases(cut, families, two)


# --- what a base has learnt to make tokens --------------------------------------------------


def corpus_of(runner: Runner, folder: Path, name: str, given: Any, **how: Any) -> Corpus:
    draw = random.Random(name)
    words = ["new york", "los angeles", "boat", "river", "mill", "turns", name]
    lines = [" ".join(draw.choice(words) for _ in range(12)) for _ in range(200)]
    path = folder / f"{name}.txt"
    path.write_text("\n".join(lines))
    config = CorpusConfig(name=name, train=Source(paths=(str(path),)), **how)
    return build_corpus(runner, config, given)


@pytest.mark.parametrize(
    "how",
    [
        {"tokenize": Tokenize(scheme="bpe", vocab_size=300)},
        {"phrases": Phrases(threshold=1.0, min_count=2, passes=2, connectors="english")},
    ],
    ids=["subwords", "phrases"],
)
def test_what_a_base_has_learnt_cuts_the_new_text(
    store: Store, tmp_path: Path, how: dict[str, Any]
) -> None:
    runner = Runner(store)
    first = corpus_of(runner, tmp_path, "first", {}, **how)
    readers = {role: store.reader(artifact) for role, artifact in first.learnt.items()}
    text = TextPipeline(first.config.normalize, first.config.tokenize).with_learnt(readers)
    base = replace(base_of(SMALL, text), model=train_small(store, SMALL, text=text))
    check_text(first.config, base)
    given = learnt_by(runner, base)
    second = corpus_of(runner, tmp_path, "second", given, **how)
    assert second.learnt == given
    again = {role: store.reader(artifact) for role, artifact in given.items()}
    assert TextPipeline(text.normalize, text.tokenize).with_learnt(again) == text
    # The tokens are those that the base's own pipeline makes of the raw text.
    part = read_tokens(store.reader(second.tokens["train"])).partitions[0]
    ids = [part.text.ids[a:b] for a, b in zip(part.text.starts, part.text.starts[1:], strict=False)]
    lines = {" ".join(part.types[i] for i in line) for line in ids}
    raw = (tmp_path / "second.txt").read_text()
    assert lines <= {" ".join(tokens) for tokens in text.sentences(raw)}
    if text.phrases:
        assert any("new_york" in line for line in lines)
        assert read_joining([*again.values()]) == text.phrases
    learnt_anew = corpus_of(runner, tmp_path, "second", {}, **how)
    assert learnt_anew.learnt != second.learnt
