"""Encodings: which one is found, and what becomes of what is none."""

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.encodings import (
    Decoder,
    Transcoded,
    byte_order,
    canonical,
    declared_in_html,
    detect,
    keeps_lines,
    looks_binary,
    unmarked,
)

SAMPLES = {
    "cp1252": "L'été dernier, nous étions à la plage où il faisait très chaud. Ça alors ! " * 3,
    "iso8859-2": "Zażółć gęślą jaźń. Wszystko będzie dobrze, proszę pana. " * 3,
    "koi8-r": "Старый ткацкий станок стоял у окна, и никто его не трогал. " * 3,
    "cp1251": "Старый ткацкий станок стоял у окна, и никто его не трогал. " * 3,
    "shift_jis": "古い機織り機が窓のそばに立っていた。誰も触らなかった。" * 3,
    "gb18030": "老织布机立在窗边，没有人碰它。她织了雨和墙上的影子。" * 3,
    "utf-8": "Naïve café — “quoted” text. " * 3,
    "utf-16-le": "The loom stood by the window. Naïve! " * 3,
    "utf-16-be": "The loom stood by the window. Naïve! " * 3,
    "utf-32-le": "The loom stood by the window. Naïve! " * 3,
}


@pytest.mark.parametrize("encoding", SAMPLES)
def test_auto_finds_the_encoding(encoding: str) -> None:
    data = SAMPLES[encoding].encode(encoding)
    assert detect(io.BytesIO(data)) == encoding
    if keeps_lines(encoding):  # what is not ASCII may come late
        assert detect(io.BytesIO(b"plain text\n" * 20_000 + data)) == encoding


def test_a_wide_file_without_a_mark_is_read_by_its_zeros() -> None:
    text = "The loom stood by the window."
    for encoding in ("utf-16", "utf-32"):
        for order in ("le", "be"):
            assert unmarked(encoding, text.encode(f"{encoding}-{order}")) == f"{encoding}-{order}"
        assert unmarked(encoding, text.encode(encoding)) == encoding  # the decoder takes the mark
        assert unmarked(encoding, text.encode()) == ""  # ASCII, and no Chinese
    assert unmarked("utf-16", "窗边".encode("utf-16-le")) == "utf-16-le"
    assert unmarked("koi8-r", b"loom") == "koi8-r"


def test_auto_takes_damage_for_damage() -> None:
    assert detect(io.BytesIO(("é" * 99).encode() + b" \xff " + ("ü" * 99).encode())) == "utf-8"
    assert detect(io.BytesIO(b"")) == "utf-8"
    cut = "x" * (2**16 - 1) + "é" * 2**16  # the sample ends inside a character
    assert detect(io.BytesIO(cut.encode())) == "utf-8"
    assert detect(io.BytesIO(random.Random(1).randbytes(9999))) == ""


def test_bytes_that_are_no_text_are_known() -> None:
    assert looks_binary(random.Random(2).randbytes(4096))
    assert looks_binary("UTF-16 in disguise".encode("utf-16-le"))
    for text in (b"", b"\0", b"alpha\0beta gamma\nde\0lta\n\0\n", b"\x01\x02\x1b[31mred\x1b[0m"):
        assert not looks_binary(text)


@given(st.text(st.characters(codec="utf-16"), max_size=200), st.sampled_from(["utf-16", "utf-32"]))
def test_a_file_in_any_encoding_is_read_as_utf8(text: str, encoding: str) -> None:
    file = io.BufferedReader(Transcoded(io.BytesIO(text.encode(encoding)), encoding), 16)
    assert file.read().decode() == text


def test_what_cannot_be_decoded_stays_so() -> None:
    data = "ok\n".encode("utf-16-le") + b"\x00\xd8\x0a\x00" + "end".encode("utf-16-le") + b"\x00"
    file = io.BufferedReader(Transcoded(io.BytesIO(data), "utf-16-le"))
    good, bad, cut = file.read().split(b"\n")
    assert Decoder()(good) == ("ok", "", "")
    assert Decoder()(bad)[1] == Decoder()(cut)[1] == "encoding"
    assert Decoder(invalid="replace")(bad) == ("\ufffd", "", "bytes")


def test_names_of_encodings() -> None:
    assert canonical("UTF8") == canonical("utf-8-sig") == "utf-8"
    for name in ("utf-99", "hex", "rot13"):
        with pytest.raises(LookupError):
            canonical(name)
    assert all(map(keeps_lines, ("utf-8", "cp1252", "koi8-r")))
    assert not any(map(keeps_lines, ("utf-16-le", "cp037", "gb18030")))
    assert byte_order(b"\xff\xfe\0\0a\0\0\0") == "utf-32"
    assert byte_order(b"\xff\xfea\0") == "utf-16"


def test_what_a_page_says_of_itself() -> None:
    assert declared_in_html(b'<meta charset="ISO-8859-1">') == "cp1252"
    old = b'<META http-equiv="Content-Type" content="text/html; charset=koi8-r">'
    assert declared_in_html(old) == "koi8-r"
    assert declared_in_html(b"<meta charset=utf-16>") == "utf-8"
    assert declared_in_html(b"<meta charset=klingon>") == declared_in_html(b"<p>") == ""
