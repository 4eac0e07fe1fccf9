"""Ingestion: which records a file holds, however it is packed, and what becomes of bad ones."""

import bz2
import gzip
import io
import json
import lzma
import random
import time
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from tasks.artifacts import Stats
from tasks.errors import InputError
from tasks.files import locate
from tasks.ingest import INGEST, REJECTS
from tasks.readers import Ingest
from tasks.runner import Runner
from tasks.sources import Source, import_source
from tasks.store import Store
from tests.tasks.corpora import texts

ZSTD = partial(pa.compress, codec="zstd", asbytes=True)


def ingest(
    store: Store, path: Path, data: bytes, params: Ingest
) -> tuple[list[list[str]], Stats, list[dict[str, str]]]:
    """The texts by partition, the stats and the rejects of a file with these bytes."""
    path.write_bytes(data)
    source = import_source(store, Source((str(path),)))
    artifact = Runner(store).map(INGEST, {"source": source}, params)
    reader = store.reader(artifact)
    rejects = [
        row for i in range(reader.n_partitions) for row in reader.table(REJECTS, i).to_pylist()
    ]
    return texts(store, artifact), store.manifest(artifact).stats, rejects


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\rtwo\nthree\r\n", ["one\rtwo", "three"]),
        (b"a\r\r\nb\x0bc\x0cd\xc2\x85e\xe2\x80\xa8f", ["a\r", "b\x0bc\x0cd\x85e\u2028f"]),
        (b"no end", ["no end"]),
        (b"ab\0cd ef\n", ["abcd ef"]),
        (b"\n \n\r\n\tx\n", ["\tx"]),
        (b"", []),
    ],
)
def test_only_lf_and_crlf_end_a_line(
    store: Store, tmp_path: Path, data: bytes, lines: list[str]
) -> None:
    assert ingest(store, tmp_path / "f", data, Ingest())[0] == [lines]


def test_a_file_can_be_one_document(store: Store, tmp_path: Path) -> None:
    found = ingest(store, tmp_path / "f", b"one\r\ntwo\n\nthree", Ingest(document="file"))[0]
    assert found == [["one\ntwo\n\nthree"]]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, ZSTD])
def test_packing_changes_nothing_whatever_the_name(store: Store, tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    lines = [f"line {i} ä" for i in range(5000)]
    halves = ["".join(f"{line}\n" for line in half).encode() for half in (lines[:99], lines[99:])]
    found = ingest(store, tmp_path / "f.txt", b"".join(map(pack, halves)), Ingest())[0]
    assert found == [lines]


def zipped(data: bytes, name: str = "a.txt") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return file.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, ZSTD, zipped])
@pytest.mark.parametrize("cut", [9, 1])
def test_a_packed_file_that_was_cut_off_is_named(store: Store, tmp_path: Path, pack, cut) -> None:  # type: ignore[no-untyped-def]
    data = pack(b"".join(b"%d\n" % (i * i) for i in range(9999)))
    with pytest.raises(InputError, match=r"broken\.bin: the \w+ file is damaged or was cut off"):
        ingest(store, tmp_path / "broken.bin", data[: len(data) - len(data) // 10 * cut], Ingest())


def test_damage_inside_a_packed_file_is_told(store: Store, tmp_path: Path) -> None:
    for pack in (gzip.compress, bz2.compress, lzma.compress, zipped):
        data = bytearray(pack(b"".join(b"%d\n" % (i * i) for i in range(9999))))
        data[len(data) // 2] ^= 255
        with pytest.raises(InputError, match=r"file is damaged or was cut off"):
            ingest(store, tmp_path / "f", bytes(data), Ingest())


def test_every_file_in_a_zip_is_read(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("folder")
        archive.writestr("folder/b.txt", "one\ntwo")
        archive.writestr("a.txt.gz", gzip.compress(b"three"))
        archive.writestr("empty", "")
        archive.writestr("inner.zip", zipped(b"four" * 999))
        archive.writestr("wide.txt", "fünf".encode("utf-16"))
    found, stats, rejects = ingest(store, path, path.read_bytes(), Ingest())
    assert found == [["one", "two", "three", "fünf"]]
    assert stats["encoding.utf-16"] == 1
    assert [r["reason"] for r in rejects] == ["binary"]
    bad = bytearray(zipped(b"text", "locked"))
    bad[6] |= 1  # both headers say that it is encrypted
    bad[bad.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(InputError, match=r"z: locked: a file in the zip cannot be read"):
        ingest(store, path, bytes(bad), Ingest())


def test_records_that_are_no_utf8_are_rejected_alone(store: Store, tmp_path: Path) -> None:
    data = b"good\n\xff\nalso \xf0\x9f\x98\x80\n\xed\xa0\x80\ncut \xc3"
    found, stats, rejects = ingest(store, tmp_path / "f", data, Ingest())
    assert found == [["good", "also \U0001f600"]]
    assert stats["read"] == 5
    assert stats["dropped.encoding"] == 3
    assert [(r["origin"].split(":")[1], r["reason"]) for r in rejects] == [
        ("2", "encoding"), ("4", "encoding"), ("5", "encoding"),
    ]  # fmt: skip
    assert rejects[2]["start"] == "cut \ufffd"


def test_invalid_bytes_follow_the_policy(store: Store, tmp_path: Path) -> None:
    data = b"good\na\xffb \xed\xa0\x80c\n"
    found, stats, _ = ingest(store, tmp_path / "f", data, Ingest(invalid="replace"))
    assert found == [["good", "a\ufffdb \ufffd\ufffd\ufffdc"]]
    assert (stats["changed.bytes"], stats["kept"]) == (1, 2)
    with pytest.raises(InputError, match=r"f:2: these bytes are no text in utf-8"):
        ingest(store, tmp_path / "f", data, Ingest(invalid="fail"))


def test_zero_bytes_follow_the_policy(store: Store, tmp_path: Path) -> None:
    data = b"ab\0cd ef\n\0\nrest\n"
    for nul, kept in {"remove": ["abcd ef", "rest"], "space": ["ab cd ef", "rest"]}.items():
        found, stats, _ = ingest(store, tmp_path / "f", data, Ingest(nul=nul))  # type: ignore[arg-type]
        assert found == [kept]
        assert (stats["changed.nul"], stats["dropped.empty"]) == (2, 1)
    found, stats, rejects = ingest(store, tmp_path / "f", data, Ingest(nul="reject"))
    assert found == [["rest"]]
    assert (stats["dropped.nul"], rejects[0]["start"]) == (2, "ab\0cd ef")


def test_a_file_that_is_no_text_is_one_reject(store: Store, tmp_path: Path) -> None:
    for data in (random.Random(1).randbytes(2**16), "no mark here".encode("utf-16-be")):
        for encoding in ("utf-8", "latin-1"):
            params = Ingest(encoding=encoding)
            _, stats, rejects = ingest(store, tmp_path / "f", data, params)
            assert (stats["read"], stats["kept"], stats["dropped.binary"]) == (1, 0, 1)
            assert len(rejects) == 1


def test_the_encoding_that_was_found_is_recorded(store: Store, tmp_path: Path) -> None:
    text = "Старый ткацкий станок стоял у окна.\n"
    found, stats, _ = ingest(store, tmp_path / "f", text.encode("koi8-r"), Ingest(encoding="auto"))
    assert found == [[text.strip()]]
    assert stats["encoding.koi8-r"] == 1


def test_a_page_gives_its_main_text(store: Store, tmp_path: Path) -> None:
    article = "".join(
        f"<p>Paragraph {i} of the café &amp; its loom, with words enough.</p>" for i in range(9)
    )
    page = (
        "<!DOCTYPE html><html><head><meta charset=windows-1252><title>T</title>"
        "<script>var a='<p>never</p>';</script><style>p{}</style></head><body>"
        "<nav><ul><li><a href=/>Home</a><li><a href=/x>Contact us</a></ul></nav>"
        f"<main><article><h1>The loom</h1>{article}<!-- hidden --></article></main>"
        "<footer>All rights reserved</footer></body></html>"
    )
    params = Ingest.of(Source(("x",), format="html"))
    assert params.libraries.startswith("resiliparse ")
    found, stats, _ = ingest(store, tmp_path / "f", page.encode("cp1252"), params)
    ((text,),) = found
    assert text.split("\n\n")[:2] == [
        "The loom",
        "Paragraph 0 of the café & its loom, with words enough.",
    ]
    assert not any(word in text for word in ("never", "Home", "hidden", "rights"))
    assert stats["encoding.cp1252"] == 1


def test_hostile_pages_are_rejected_or_read(store: Store, tmp_path: Path) -> None:
    params = Ingest("html")
    began = time.process_time()
    for n, page in enumerate(("<div>" * 99_999, "<b>" * 5000 + "x" + "</b>" * 5000)):
        _, stats, _ = ingest(store, tmp_path / f"{n}", page.encode(), params)
        assert stats["dropped.too_deep"] == 1
    assert time.process_time() - began < 5
    flat = "<p>enough words in a paragraph\n<br><img src=x>" * 3000
    assert ingest(store, tmp_path / "flat", flat.encode(), params)[1]["kept"] == 1
    _, stats, _ = ingest(store, tmp_path / "bad", b"<p>caf\xe9", params)
    assert stats["dropped.encoding"] == 1


def test_json_records_are_rejected_by_reason(store: Store, tmp_path: Path) -> None:
    long = "x" * 20_000_000
    records: list[tuple[str, str]] = [
        (json.dumps({"text": "ok", "n": 1}), ""),
        ('{"text": ', "invalid_json"),
        ("[" * 99_999, "invalid_json"),
        ('["text"]', "not_an_object"),
        ('{"other": "x"}', "missing_field"),
        (json.dumps({"text": long}), ""),
        ('{"text": null}', "null"),
        ('{"text": 7}', "not_a_string"),
        ("", "empty"),
        (json.dumps({"text": "  "}), "empty"),
        ('{"text": "\udcff"}', "encoding"),
        (json.dumps({"text": "a\0b"}), ""),
        (json.dumps({"text": "c\ud800d"}), ""),  # half of a character, as an escape
    ]
    data = "\r\n".join(line for line, _ in records).encode("utf-8", "surrogateescape")
    params = Ingest("jsonl", field="text")
    found, stats, rejects = ingest(store, tmp_path / "f", b"\xef\xbb\xbf" + data, params)
    assert [text for part in found for text in part] == ["ok", long, "ab", "cd"]
    reasons = Counter(reason for _, reason in records if reason)
    assert {k: v for k, v in stats.items() if k.startswith("dropped.")} == {
        f"dropped.{reason}": count for reason, count in reasons.items()
    }
    assert stats["changed.surrogates"] == 1
    source = import_source(store, Source((str(tmp_path / "f"),)))
    assert [(locate(store, source, r["origin"]), r["reason"]) for r in rejects] == [
        (f"f:{n}", reason)
        for n, (_, reason) in enumerate(records, 1)
        if reason not in ("", "empty")
    ]
    assert max(len(r["start"]) for r in rejects) == 200


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-be", "latin-1", "cp1252"])
def test_other_encodings_are_read_when_named(store: Store, tmp_path: Path, encoding: str) -> None:
    data = "schön\ncafé\r\nÿ\n".encode(encoding)
    found, _, _ = ingest(store, tmp_path / "f", data, Ingest(encoding=encoding))
    assert found == [["schön", "café", "ÿ"]]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides_and_goes(store: Store, tmp_path: Path, encoding: str) -> None:
    found, stats, _ = ingest(store, tmp_path / "f", "tëxt\r\nb\n".encode(encoding), Ingest())
    assert found == [["tëxt", "b"]]
    assert stats.get(f"encoding.{encoding}", 0) == (encoding != "utf-8-sig")


def test_partitions_are_bounded_by_bytes_and_cut_alike_when_a_file_grows(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.ingest.PARTITION_BYTES", 1000)
    monkeypatch.setattr("tasks.records._RUN_BYTES", 100)
    lines = [f"{'ä' * (i % 40)}{i}" for i in range(500)]
    partitions = []
    for n in (400, 500):
        data = "\n".join(lines[:n]).encode()
        found, _, _ = ingest(store, tmp_path / "f", data, Ingest())
        assert [text for part in found for text in part] == lines[:n]
        assert all(sum(len(text.encode()) + 32 for text in part) < 1300 for part in found)
        partitions.append(found)
    assert partitions[0][:-1] == partitions[1][: len(partitions[0]) - 1]


def test_a_file_that_changes_after_it_was_keyed_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"first\n")
    source = import_source(store, Source((str(path),)))
    path.write_bytes(b"other\n")
    with pytest.raises(InputError, match="changed while it was read"):
        Runner(store).map(INGEST, {"source": source}, Ingest())


DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" xml:lang="en">
<siteinfo><sitename>Tiny</sitename></siteinfo>
<page><title>A</title><ns>0</ns><id>1</id>
<revision><id>1</id><text xml:space="preserve">[[a|An]] ''A'' &amp;lt; B</text></revision></page>
<page><title>B</title><ns>0</ns><redirect title="A"/>
<revision><text>#REDIRECT [[A]]</text></revision></page>
<page><title>C</title><revision><text>#redirect [[A]]</text></revision></page>
<page><title>Talk:A</title><ns>1</ns><revision><text>Talk</text></revision></page>
<page><title>D</title><ns>0</ns><revision><text deleted="deleted"/></revision></page>
<page><title>E</title><ns>0</ns><revision><text>old</text></revision>
<revision><text>new</text></revision></page>
</mediawiki>"""


def test_a_dump_gives_its_articles(store: Store, tmp_path: Path) -> None:
    data = bz2.compress(DUMP.encode())
    found, stats, rejects = ingest(store, tmp_path / "f", data, Ingest("wikipedia"))
    assert found == [["[[a|An]] ''A'' &lt; B", "new"]]
    assert stats == {
        "files": 1, "read": 6, "kept": 2, "bytes": 24,
        "dropped.redirect": 2, "dropped.namespace": 1, "dropped.empty": 1,
    }  # fmt: skip
    assert [r["reason"] for r in rejects] == ["redirect", "redirect", "namespace"]


def test_half_a_dump_is_refused(store: Store, tmp_path: Path) -> None:
    for data in (DUMP[:700].encode(), b"no XML at all"):
        with pytest.raises(InputError, match="no whole Wikipedia XML dump"):
            ingest(store, tmp_path / "f", data, Ingest("wikipedia"))
