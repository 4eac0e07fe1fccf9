"""What people ask of a corpus from the command line, checked against plain counting."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from .conftest import Cli

TEXT = """The loom is old. [b]bold[/b] \\[x]
the "loom" is the loom
""\t a,b\tc

naïve 日本 loom
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "loom.txt"
    path.write_text(TEXT)
    return path


def expected() -> Counter[str]:
    return Counter(token for line in TEXT.splitlines() for token in line.split())


def test_words_are_counted_to_the_terminal_and_to_files(
    cli: Cli, file: Path, tmp_path: Path
) -> None:
    words = [str(file), "--set", "tokenize.scheme=whitespace"]
    shown = cli("corpus", "vocab", *words, "--top", "0", "--json")
    assert shown.code == 0, shown.err
    rows = [(row["type"], row["count"]) for row in json.loads(shown.out)]
    assert dict(rows) == expected()
    assert rows == sorted(rows, key=lambda row: (-row[1], row[0].encode()))
    tsv, parquet = tmp_path / "words.tsv", tmp_path / "words.parquet"
    for path in (tsv, parquet):
        assert cli("corpus", "vocab", *words, "--min-count", "2", "--out", str(path)).code == 0
    frequent = [row for row in rows if row[1] > 1]
    assert tsv.read_text().splitlines() == ["type\tcount", *(f"{w}\t{n}" for w, n in frequent)]
    assert [tuple(row.values()) for row in pq.read_table(parquet).to_pylist()] == frequent
    table = cli("corpus", "vocab", *words)
    assert "[b]bold[/b]" in table.out  # words are no markup


def test_ngrams_are_counted_within_sentences(cli: Cli, file: Path) -> None:
    options = ["--order", "2", "--set", "tokenize.scheme=whitespace", "--top", "0", "--json"]
    done = cli("corpus", "ngrams", str(file), *options)
    assert done.code == 0, done.err
    pairs: Counter[str] = Counter()
    for line in filter(str.strip, TEXT.splitlines()):
        words = ["<s>", *line.split(), "</s>"]
        pairs.update(" ".join(pair) for pair in pairwise(words))
    assert {row["ngram"]: row["count"] for row in json.loads(done.out)} == pairs


def test_plain_words_are_counted_as_they_are(cli: Cli, file: Path) -> None:
    done = cli("corpus", "vocab", str(file), "--plain", "whitespace", "--top", "0", "--json")
    assert done.code == 0, done.err
    assert {row["type"]: row["count"] for row in json.loads(done.out)} == expected()
    missing = cli("corpus", "vocab", "/no/such.txt", "--plain", "words")
    assert (missing.code, missing.out) == (2, "")


def test_pairs_are_weighed_by_their_distance(cli: Cli, file: Path) -> None:
    options = ["--window", "2", "--top", "0", "--json", "--set", "tokenize.scheme=whitespace"]
    done = cli("corpus", "cooccurrence", str(file), *options)
    assert done.code == 0, done.err
    pairs: Counter[tuple[str, ...]] = Counter()
    for line in TEXT.splitlines():
        words = line.split()
        for i, word in enumerate(words):
            for distance in (1, 2):
                for other in words[i + distance : i + distance + 1]:
                    # The table is symmetric and half of it is shown: itself beside itself twice.
                    pairs[tuple(sorted((word, other)))] += (2 if word == other else 1) / distance
    found = {tuple(sorted((r["word"], r["beside"]))): r["weight"] for r in json.loads(done.out)}
    assert found == pytest.approx(dict(pairs))
    wide = cli("corpus", "cooccurrence", str(file), "--window", "40")
    assert (wide.code, "--window: a window of 40 is too wide" in wide.err) == (2, True)


def test_a_corpus_is_looked_into(cli: Cli, file: Path) -> None:
    documents = json.loads(cli("corpus", "show", str(file), "--json").out)
    assert [row["text"] for row in documents][-1] == "naïve 日本 loom"
    found = json.loads(cli("corpus", "show", str(file), "--word", "loom", "--json").out)
    assert [(row["left"], row["right"][:8]) for row in found] == [
        ("The", "is old ."),
        ('the "', '" is the'),
        ('the " loom " is the', ""),
        ("naïve 日 本", ""),
    ]
    figures = json.loads(cli("corpus", "stats", str(file), "--json").out)
    assert (figures["documents"], figures["sentences"]) == (4, 4)
    stages = json.loads(cli("corpus", "ingest", str(file), "--json").out)["stages"]
    assert stages["ingest train"]["dropped.empty"] == 1


def test_files_of_several_formats_are_refused(cli: Cli) -> None:
    done = cli("corpus", "vocab", "a.txt", "b.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "several formats: jsonl, text" in done.err


def test_a_model_is_found_from_a_document_and_kept_from_gc(
    cli: Cli, recipe: Path, corpus_file: Path
) -> None:
    assert cli("run", str(recipe), "--direct").code == 0
    about = json.loads(cli("corpus", "where", str(corpus_file), "--json").out)
    assert "sea-word2vec/1" in about["models"]
    one = about["documents"][0][0]
    assert json.loads(cli("corpus", "where", one, "--json").out)["documents"][0][0] == one
    unknown = cli("corpus", "where", "0" * 32)
    assert (unknown.code, unknown.out) == (2, "")
    listed = json.loads(cli("gc", "--older", "0", "--json").out)
    assert not [one for one in listed["garbage"] if one["path"].startswith("train/")]
    kept = json.loads(cli("gc", "--older", "0", "--recipe", str(recipe), "--delete", "--json").out)
    assert kept["deleted"]
    again = json.loads(cli("run", str(recipe), "--direct", "--json").out)
    assert all(step["reused"] for step in again["steps"])


def test_a_corpus_without_pairs_has_an_empty_table(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "alone.txt"
    path.write_text("one\ntwo\n")
    done = cli("corpus", "cooccurrence", str(path), "--json")
    assert (done.code, json.loads(done.out)) == (0, []), done.err


def test_a_word_without_end_hides_no_count(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "endless.txt"
    path.write_text("x" * 50_000 + " loom loom\n")
    done = cli("corpus", "vocab", str(path))
    assert done.out.splitlines()[1].split() == ["2", "loom"]
    assert "x... and 49,000 more characters" in done.out


def test_a_table_that_cannot_be_written_leaves_the_old_one(
    cli: Cli, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines import corpus_tables

    out = tmp_path / "words.tsv"
    assert cli("corpus", "vocab", str(file), "--out", str(out)).code == 0
    before = out.read_bytes()

    def full(table: object) -> Iterator[bytes]:
        yield b"type\tcount\n"
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(corpus_tables, "_lines", full)
    done = cli("corpus", "vocab", str(file), "--out", str(out))
    assert (done.code, out.read_bytes()) == (2, before)
    assert "No space left on device" in done.err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".words")] == []


def test_a_reader_that_has_enough_ends_it_in_silence(file: Path, tmp_path: Path) -> None:
    big = tmp_path / "big.txt"
    big.write_text("".join(f"w{i}\n" for i in range(50_000)))
    command = "from pipelines.cli import main; main()"
    words = ["corpus", "vocab", str(big), "--out", "-", "--home", str(tmp_path / "home")]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"type\tcount\n"
    process.stdout.close()
    told = process.stderr.read().decode()
    process.wait()
    assert "lexloom:" not in told, told
    assert "Traceback" not in told, told
