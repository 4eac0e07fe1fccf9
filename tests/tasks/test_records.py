"""Records of text and of tables: where they begin and end, which are odd, how large they may be."""

import csv
import io
import itertools
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.encodings import Decoder
from tasks.errors import InputError
from tasks.parquet import cells
from tasks.records import Record, Run, blocks, column_finder, lines, rows, runs, whole

LIMIT = 1000


def read_runs(data: bytes, limit: int = LIMIT) -> list[Record]:
    """What ``runs`` gives, one by one."""
    found: list[Record] = []
    for item in runs(io.BytesIO(data), Decoder(), limit):
        if isinstance(item, Run):
            texts = enumerate(item.texts, item.number)
            found += [Record(number, text) for number, text in texts]
            assert item.size == sum(len(text.encode()) for text in item.texts)
        else:
            found.append(item)
    return found


PIECES = [
    b"a",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xff",
    "\ufeff".encode(),
    "é\u2028".encode(),
    b"b" * 9,
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.integers(1, 30))
def test_many_lines_at_a_time_are_the_lines_one_by_one(pieces: list[bytes], limit: int) -> None:
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.records._RUN_BYTES", 7)
        assert read_runs(data, limit) == list(lines(io.BytesIO(data), Decoder(), limit))


def test_a_record_that_is_too_large_is_rejected_alone() -> None:
    data = b"one\n" + b"x" * 3000 + b"\ntwo\n" + b"y" * 1000 + b"\r\n" + b"z" * 1001
    expected = [(1, ""), (2, "too_large"), (3, ""), (4, ""), (5, "too_large")]
    for found in (read_runs(data), list(lines(io.BytesIO(data), Decoder(), LIMIT))):
        assert [(record.number, record.reason) for record in found] == expected
    (record,) = whole(io.BytesIO(data), Decoder(), LIMIT)
    assert record.reason == "too_large"


def test_blocks_stand_between_empty_lines() -> None:
    data = b"\n\na\r\nb\n \t\n\nc\n" + b"x" * 600 + b"\n" + b"y" * 600 + b"\n\nd\xff\n\ne"
    found = list(blocks(io.BytesIO(data), Decoder(), LIMIT))
    assert [(r.number, r.reason) for r in found] == [
        (3, ""), (7, "too_large"), (11, "encoding"), (13, ""),
    ]  # fmt: skip
    assert (found[0].text, found[3].text) == ("a\nb", "e")


# --- CSV ------------------------------------------------------------------------------------------


def read_rows(text: str, delimiter: str = ",", *, quoted: bool = True, name: str = "t"):  # type: ignore[no-untyped-def]
    column = column_finder(name, "f")
    file = io.BufferedReader(io.BytesIO(text.encode()))  # type: ignore[arg-type]
    options = {"delimiter": delimiter, "quoted": quoted, "column": column}
    return list(rows(file, Decoder(), LIMIT, **options))  # type: ignore[arg-type]


def test_rows_are_read_as_rfc_4180_says() -> None:
    text = '\ufeffn,t\r\n1,plain\r\n2,"a ""word"", a\r\nline\n\nmore"\r\n\n3\r\n4,5" pipe\n5,"end"'
    assert read_rows(text) == [
        Record(2, "plain"),
        Record(3, 'a "word", a\nline\n\nmore'),
        Record(7, ""),
        Record(8, "3", "missing_field"),
        Record(9, '5" pipe'),
        Record(10, "end"),
    ]


def test_a_stray_quote_costs_its_own_line_only() -> None:
    never_closed = 't,n\n"open,1\n' + "x,2\n" * 900 + "last,3\n"
    found = read_rows(never_closed)
    assert (found[0].number, found[0].reason) == (2, "too_large")
    assert [r.text for r in found[1:]] == ["x"] * 900 + ["last"]
    short = read_rows('t,n\n"open,1\nx,2\n')
    assert [(r.text, r.reason) for r in short] == [('"open,1', "invalid_csv"), ("x", "")]
    closed_by_another = read_rows('t,n\n"open,1\n"fine",2\nx,3\n')
    assert [r.reason for r in closed_by_another] == ["invalid_csv", "", ""]


def test_in_tsv_quotes_may_mean_nothing() -> None:
    found = read_rows('n\tt\n1\t"Yes, she\n2\t he said."\n', "\t", quoted=False)
    assert [r.text for r in found] == ['"Yes, she', ' he said."']


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InputError, match="set field to one of: n, t"):
        read_rows("n,t\n1,2\n", name="text")


CELL = st.text(st.sampled_from('ab,"\n é\u2028;\t'), max_size=8)


@settings(deadline=None)
@given(st.lists(st.tuples(CELL, CELL), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_what_csv_wrote_is_read(table: list[tuple[str, str]], end: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([("n", "t"), *table])
    assert [r.text for r in read_rows(text.getvalue())] == [cell for _, cell in table]


# --- Parquet --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), "dictionary"])
def test_a_column_of_parquet(tmp_path: Path, kind: object) -> None:
    values = ["one", None, "zwölf \u2028", "", "x" * 2000] * 300
    column = pa.array(values, pa.string())
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(kind)
    pq.write_table(pa.table({"n": range(1500), "t": column}), tmp_path / "f", row_group_size=99)
    found = list(cells(tmp_path / "f", Decoder(), LIMIT, "t"))
    assert [r.number for r in found] == list(range(1, 1501))
    reasons = ["", "null", "", "", "too_large"] * 300
    assert [r.reason for r in found] == reasons
    assert [r.text for r in found if not r.reason] == ["one", "zwölf \u2028", ""] * 300


def test_a_column_of_nothing_but_nulls_is_nulls(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": pa.nulls(3)}), tmp_path / "f")
    assert [r.reason for r in cells(tmp_path / "f", Decoder(), LIMIT, "t")] == ["null"] * 3


def test_invalid_utf8_in_parquet_follows_the_policy(tmp_path: Path) -> None:
    bad = pa.array([b"ok", b"a\xffb"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"t": bad}), tmp_path / "f")
    read = partial(cells, tmp_path / "f", limit=LIMIT, column="t")
    assert [r.reason for r in read(Decoder())] == ["", "encoding"]
    assert [r.text for r in read(Decoder(invalid="replace"))] == ["ok", "a\ufffdb"]


def test_parquet_faults_are_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "t": ["x"]}), tmp_path / "f")
    with pytest.raises(InputError, match="holds no text"):
        list(cells(tmp_path / "f", Decoder(), LIMIT, "n"))
    with pytest.raises(InputError, match="set field to one of: n, t"):
        list(cells(tmp_path / "f", Decoder(), LIMIT, "text"))
    data = (tmp_path / "f").read_bytes()
    for broken in (b"", b"no", data[:-9], data[:40]):
        (tmp_path / "f").write_bytes(broken)
        with pytest.raises(InputError, match="no whole Parquet file"):
            list(cells(tmp_path / "f", Decoder(), LIMIT, "t"))


def test_every_record_has_its_line() -> None:
    text = "t\n" + "".join(f'"{n}\n{n}"\n' for n in range(50))
    assert [r.number for r in read_rows(text)] == list(itertools.islice(itertools.count(2, 2), 50))
