"""The corpus card: exact figures, one account of every record, and what it shows of odd text."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.text import Sentences, TokenPartition, Tokens
from tasks.card import (
    CARD_JSON,
    CARD_MARKDOWN,
    _histogram,
    _quantiles,
    growth,
    log_card,
    read_card,
    with_card,
    zipf,
)
from tasks.corpus import Corpus, CorpusConfig, build_corpus
from tasks.filters import Filters
from tasks.mlflow_client import connect
from tasks.neardup import NearDuplicates
from tasks.normalize import Normalize
from tasks.runner import Runner
from tasks.sources import Source
from tasks.split import Fractions
from tasks.store import Store
from tests.tasks.corpora import write

LINES = [
    "The mill stood by the river and the wheel turned all day long.",
    "The mill stood by the river and the wheel turned all day long.",
    "The MILL stood by the river, and the wheel turned all day long!",
    "In winter the river froze and nobody came to the mill for weeks.",
    "too | short `x` \u202e",
    "",
    "Die Kinder gingen jeden Morgen mit dem Hund am Ufer spazieren.",
]


def made(store: Store, tmp_path: Path) -> Corpus:
    folder = write(tmp_path / "text", {"a.txt": "\n".join(LINES) + "\n"})
    (folder / "b.txt").write_bytes(b"bro\xffken\n")
    config = CorpusConfig(
        "mill",
        Source((str(folder / "*.txt"),)),
        normalize=Normalize(invisible=False),
        filters=Filters(min_words=6),
        near_duplicates=NearDuplicates(),
        split=Fractions(0, 0),
    )
    runner = Runner(store)
    return with_card(runner, build_corpus(runner, config))


def test_the_card_accounts_for_every_record(store: Store, tmp_path: Path) -> None:
    corpus = made(store, tmp_path)
    assert corpus.card is not None
    card = read_card(store, corpus.card)
    dropped = {
        stage: {k.removeprefix("dropped."): n for k, n in stats.items() if "dropped" in k and n}
        for stage, stats in card["stages"].items()
    }
    assert {stage: reasons for stage, reasons in dropped.items() if reasons} == {
        "ingest train": {"empty": 1, "encoding": 1},
        "filter train": {"too_short": 1},
        "dedup train": {"duplicate": 1},
        "near train": {"near_duplicate": 1},
    }
    assert card["dropped"]["dedup train"] == {"duplicate": [LINES[1]]}
    assert card["dropped"]["near train"] == {"near_duplicate": [LINES[2]]}
    assert card["dropped"]["filter train"] == {"too_short": [LINES[4]]}
    assert set(card["dropped"]["ingest train"]) == {"encoding"}
    train = card["splits"]["train"]
    assert (train["documents"], train["sentences"], train["tokens"]) == (3, 3, 40)
    assert card["splits"]["test"]["tokens_a_document"] == {}
    assert card["languages"] == {"en": 2, "de": 1}
    assert card["most_frequent"][0] == ["the", 4]
    text = store.reader(corpus.card).path(CARD_MARKDOWN).read_text()
    assert "| filter train | too_short | `too ¦ short ˋxˋ \\u202e` |" in text


def test_a_card_is_found_again_and_knows_what_counts_changed(store: Store, tmp_path: Path) -> None:
    first = made(store, tmp_path)
    assert made(store, tmp_path).card == first.card
    # The same text with other counts on the way is another card.
    (tmp_path / "text" / "c.txt").write_bytes(b"\n\n")
    runner = Runner(store)
    corpus = with_card(runner, build_corpus(runner, first.config))
    assert corpus.card is not None
    assert corpus.card != first.card
    assert read_card(store, corpus.card)["stages"]["ingest train"]["dropped.empty"] == 3


def test_the_card_goes_to_mlflow_once(store: Store, tmp_path: Path, tracking_uri: str) -> None:
    corpus = made(store, tmp_path)
    assert corpus.card is not None
    run_id = log_card(store, corpus.card, "mill", tracking_uri)
    assert log_card(store, corpus.card, "mill", tracking_uri) == run_id
    client = connect(tracking_uri)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["documents.train"] == 3
    assert {file.path for file in client.list_artifacts(run_id)} == {CARD_JSON, CARD_MARKDOWN}


# --- figures ----------------------------------------------------------------------------------


def tokens_of(*partitions: list[str]) -> Tokens:
    def partition(words: list[str]) -> TokenPartition:
        types = list(dict.fromkeys(words))
        ids = np.array([types.index(word) for word in words], np.int32)
        counts = np.array([words.count(kind) for kind in types], np.int64)
        text = Sentences(ids, np.array([0, len(ids)]), np.array([0, 1]))
        return TokenPartition(types, counts, text)

    return Tokens([partition(words) for words in partitions])


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=30), min_size=1, max_size=4))
def test_types_grow_as_a_plain_count_says(partitions: list[list[str]]) -> None:
    words = [word for part in partitions for word in part]
    found = growth(tokens_of(*partitions))
    assert found == [[n, len(set(words[:n]))] for n, _ in found]
    assert not words or found[-1] == [len(words), len(set(words))]


@given(st.lists(st.lists(st.integers(0, 50), max_size=30), min_size=1, max_size=3))
def test_lengths_are_summed_up_exactly(parts: list[list[int]]) -> None:
    histogram = np.zeros(1, np.int64)
    for part in parts:
        histogram = _histogram(histogram, np.array(part, np.int64))
    lengths = np.array([n for part in parts for n in part])
    found = _quantiles(histogram)
    if not len(lengths):
        assert found == {}
        return
    for name, share in (("min", 0), ("25%", 0.25), ("50%", 0.5), ("99%", 0.99), ("max", 1)):
        assert found[name] == np.quantile(lengths, share, method="inverted_cdf")
    assert found["mean"] == pytest.approx(lengths.mean(), abs=0.006)


def test_frequencies_by_rank() -> None:
    counts = np.array(sorted(Counter("abracadabra").values(), reverse=True))
    assert zipf(counts) == [[1, 5], [2, 2], [3, 2], [4, 1], [5, 1]]
    assert zipf(counts[:0]) == []
