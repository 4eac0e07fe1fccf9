"""Subwords: what Hugging Face makes of tokenizer.json is what stands in the corpus."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, pre_tokenizers, trainers
from tokenizers import models as hf
from transformers import PreTrainedTokenizerFast

from models.vocabulary import MARKS
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.errors import ConfigError, InputError
from tasks.models import TextPipeline
from tasks.normalize import Normalize, normalize_text
from tasks.phrases import Phrases
from tasks.runner import Runner
from tasks.sources import Source
from tasks.store import Store
from tasks.subwords import TOKENIZER, LearnSubwords, load_tokenizer, train_tokenizer
from tasks.tokenize import SUBWORDS, Tokenize, read_tokens
from tests.tasks.corpora import texts, write

STEMS = ["weav", "spin", "loom", "thread", "shuttl", "warp", "weft", "colour", "pattern", "border"]
ENDINGS = ["er", "ing", "ed", "s", "", "ful", "less"]


def lines(seed: int, n: int = 300) -> list[str]:
    rng = random.Random(seed)
    words = [stem + ending for stem in STEMS for ending in ENDINGS]
    marks = ["", "", "", ",", ".", "!", "'s"]
    return [
        " ".join(rng.choice(words) + rng.choice(marks) for _ in range(rng.randint(3, 9)))
        for _ in range(n)
    ]


def corpus(store: Store, folder: Path, scheme: str, **options: object) -> tuple[Corpus, Runner]:
    folder = write(folder, {f"{i}.txt": "\n".join(lines(i)) for i in range(2)})
    source = Source((str(folder / "*.txt"),), format="text", document="line")
    tokenize = Tokenize(scheme, vocab_size=120)  # type: ignore[arg-type]
    runner = Runner(store)
    config = CorpusConfig("woven", source, tokenize=tokenize, **options)  # type: ignore[arg-type]
    return build_corpus(runner, config), runner


@pytest.mark.parametrize("scheme", SUBWORDS)
def test_tokens_are_those_of_the_tokenizer_file(store: Store, tmp_path: Path, scheme: str) -> None:
    made, _ = corpus(store, tmp_path, scheme)
    file = store.reader(made.learnt["subwords"]).path(TOKENIZER)
    tokenizer = Tokenizer.from_file(str(file))
    assert tokenizer.get_vocab_size() <= 120
    for split in ("train", "valid", "test"):
        documents = texts(store, made.documents[split])
        tokens = read_tokens(store.reader(made.tokens[split]))
        for part, partition in zip(tokens.partitions, documents, strict=True):
            encodings = [tokenizer.encode(line) for text in partition for line in text.split("\n")]
            names = [tokenizer.id_to_token(i) for e in encodings for i in e.ids]
            assert [part.types[i] for i in part.text.ids] == names
            assert np.diff(part.text.starts).tolist() == [len(e.ids) for e in encodings]
            assert dict(zip(part.types, part.counts.tolist(), strict=True)) == Counter(names)
            # Bits a character are over what was written, however it is cut.
            written = [len(line) + 1 for text in partition for line in text.split("\n")]
            assert part.characters is not None
            assert part.characters.tolist() == written
            theirs = PreTrainedTokenizerFast(tokenizer_file=str(file))(partition[0].split("\n"))
            assert theirs["input_ids"] == [e.ids for e in encodings[: len(theirs["input_ids"])]]
            decoded = tokenizer.decode(encodings[0].ids)
            assert scheme == "wordpiece" or decoded.strip() == partition[0].split("\n")[0]
    text = TextPipeline(Normalize(), Tokenize(scheme), subwords=file.read_text())  # type: ignore[arg-type]
    raw = "A weaver\u200b spins,\n\nwarpless ☃."
    expected = [
        [tokenizer.id_to_token(i) for i in tokenizer.encode(line).ids]
        for line in normalize_text(raw, Normalize()).split("\n")
        if line
    ]
    assert text.sentences_and_characters(raw) == (
        expected,
        [len("A weaver spins,") + 1, len("warpless ☃.") + 1],
    )


@pytest.mark.parametrize("scheme", SUBWORDS)
def test_marks_in_a_text_are_text(scheme: str) -> None:
    marks = [*sorted(MARKS), "__label__x", "▁"]
    pieces = [*marks * 50, "<", "a"]
    counts = np.full(len(set(pieces)), 50)
    params = LearnSubwords.of(Tokenize(scheme, vocab_size=300))  # type: ignore[arg-type]
    tokenizer = train_tokenizer(sorted(set(pieces)), counts, params)
    vocabulary = tokenizer.get_vocab()
    reserved = "[UNK]" if scheme == "wordpiece" else "<unk>"
    assert MARKS & set(vocabulary) == {reserved}
    assert vocabulary[reserved] == 0
    for mark in marks:
        assert 0 not in tokenizer.encode(mark).ids
    assert 0 in tokenizer.encode("☃").ids


@pytest.mark.parametrize("scheme", SUBWORDS)
def test_the_file_does_not_depend_on_the_order_of_counts(scheme: str) -> None:
    counts = Counter(word for line in lines(5) for word in line.split())
    params = LearnSubwords.of(Tokenize(scheme, vocab_size=150))  # type: ignore[arg-type]
    made = set()
    for seed in range(3):
        items = random.Random(seed).sample([*counts.items()], len(counts))
        words, numbers = zip(*items, strict=True)
        made.add(train_tokenizer(words, np.array(numbers), params).to_str())
    assert len(made) == 1
    assert load_tokenizer(made.pop()).encode("weaver").ids


def test_merges_are_those_of_the_librarys_own_trainer() -> None:
    text = lines(7, 500)
    counts = Counter(word for line in text for word in line.split())
    params = LearnSubwords.of(Tokenize("bpe", vocab_size=200))
    ours = train_tokenizer([*counts], np.array([*counts.values()]), params)
    theirs = Tokenizer(hf.BPE(unk_token="<unk>"))
    theirs.pre_tokenizer = ours.pre_tokenizer
    theirs.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=200, min_frequency=2, special_tokens=["<unk>"], show_progress=False
        ),
    )
    assert ours.get_vocab() == theirs.get_vocab()
    held_out = lines(8)
    for a, b in zip(ours.encode_batch(held_out), theirs.encode_batch(held_out), strict=True):
        assert a.ids == b.ids


def test_only_the_training_split_is_learnt_from(store: Store, tmp_path: Path) -> None:
    made, runner = corpus(store, tmp_path, "unigram")
    names = [outcome.name for outcome in runner.outcomes]
    assert names.count("subwords") == 1
    types = next(o.artifact for o in runner.outcomes if o.name == "types")
    manifest = store.manifest(made.learnt["subwords"])
    assert manifest.origin["inputs"] == {"types": types.to_json()}
    words, runner = corpus(store, tmp_path, "bpe")
    assert {o.name for o in runner.outcomes if not o.reused} == {
        "subwords", "encode train", "encode valid", "encode test", "types subwords",
    }  # fmt: skip
    assert words.learnt["subwords"].content != made.learnt["subwords"].content


def test_what_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="phrases join words, and the scheme 'bpe' cuts them"):
        corpus(store, tmp_path, "bpe", phrases=Phrases())
    with pytest.raises(InputError, match=r"tokenizer.json: this is no tokenizer"):
        load_tokenizer("{}")


def test_metaspace_comes_before_punctuation() -> None:
    params = LearnSubwords.of(Tokenize("bpe", vocab_size=100))
    tokenizer = train_tokenizer(["(a", "b)"], np.array([3, 3]), params)
    assert isinstance(tokenizer.pre_tokenizer, pre_tokenizers.Sequence)
    assert tokenizer.encode("(a b).").tokens == ["▁", "(", "a", "▁b", ")", "<unk>"]
