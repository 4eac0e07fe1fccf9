"""Encodings: which one a file is in, and what becomes of bytes that are no text in it.

A byte order mark decides; then what was declared; and under ``auto`` the bytes themselves: UTF-16
and UTF-32 without a mark by where their zeros are, UTF-8 by its own redundancy, everything else
by uchardet (in resiliparse), which gave the text for 17 of 17 short samples in old encodings of 15
languages, and charset-normalizer for 10.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from typing import IO, Any, Literal

AUTO = "auto"
Invalid = Literal["reject", "replace", "fail"]

SAMPLE_BYTES = 1 << 16
"""So much of a file is looked at to tell what it is."""

_MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe\x00\x00": "utf-32", b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
}  # fmt: skip
_UNDECODED = "\udcff"
_MARKED = b"\xed\xb3\xbf"  # how UTF-8 would write it
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b")) + b"\x7f"
_MULTIBYTE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.I)


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Mark what cannot be decoded; no decoder yields this character by itself."""
    if isinstance(error, UnicodeDecodeError):
        return _UNDECODED, error.end
    raise error


codecs.register_error("lexloom.mark", _mark)


def canonical(encoding: str) -> str:
    """Python's one name for an encoding of text; LookupError if there is no such encoding."""
    try:
        # Refused are codecs that are not between bytes and text, and those of domain names, which
        # can do nothing about bytes that are no text.
        "".encode(encoding)
        b"a-\xff".decode(encoding, "lexloom.mark")
    except UnicodeError:
        raise LookupError(f"{encoding} is no encoding of texts") from None
    name = codecs.lookup(encoding).name
    return "utf-8" if name == "utf-8-sig" else name


def keeps_lines(encoding: str) -> bool:
    """Whether the byte 0x0A is a line feed wherever it stands, and every line starts afresh."""
    if encoding == "utf-8":
        return True
    every = bytes(range(256)).decode(encoding, "replace")
    return len(every) == 256 and every[10] == "\n"


def byte_order(start: bytes) -> str:
    """The encoding that a byte order mark at the start of a file tells, empty without one."""
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "")


def unmarked(encoding: str, start: bytes) -> str:
    """UTF-16 or UTF-32 with the order of its bytes, for a file that begins without a mark.

    By where its zeros are, else little-endian, as https://encoding.spec.whatwg.org reads it;
    empty where all is ASCII without a zero, which would be read as rare Chinese characters.
    """
    if encoding not in ("utf-16", "utf-32") or byte_order(start):
        return encoding
    if start and start.isascii() and 0 not in start:
        return ""
    found = _wide(start)
    return found if found.startswith(encoding) else f"{encoding}-le"


def looks_binary(start: bytes) -> bool:
    """Whether bytes in an encoding that extends ASCII can hardly be text.

    A twentieth of them are control characters (among random bytes it is a tenth), or a quarter are
    zeros, as in UTF-16 that nobody declared.
    """
    zeros = start.count(0)
    if len(start) >= 16 and 4 * zeros > len(start):
        return True
    controls = len(start) - len(start.translate(None, _CONTROLS))
    return len(start) >= 512 and 20 * controls > len(start)


def declared_in_html(start: bytes) -> str:
    """The encoding that a page names in itself, empty if it names none that exists."""
    match = _META.search(start[:4096])
    try:
        found = canonical(match[1].decode()) if match else ""
    except LookupError:
        return ""
    # https://html.spec.whatwg.org/#determining-the-character-encoding: these cannot be meant.
    return "utf-8" if found.startswith(("utf-16", "utf-32")) else _BROWSERS.get(found, found)


# What a browser reads these names as: their supersets.
_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254"}


def detect(file: IO[bytes], start: bytes = b"") -> str:
    """The encoding of a file by its bytes, empty if it seems to hold no text.

    Looks at its start and, where that is all ASCII, at the first place that is not. UTF-8 is also
    what is left if nothing fits: then its records are rejected one by one.

    Args:
        file: to read from.
        start: what was read of it before.
    """
    start += file.read(SAMPLE_BYTES)
    if found := byte_order(start) or _wide(start):
        return found
    if looks_binary(start):
        return ""
    sample = start
    while sample.isascii():
        sample = file.read(SAMPLE_BYTES)
        if not sample:
            return "utf-8"
    sample += file.read(SAMPLE_BYTES)
    undecoded = sample.decode("utf-8", "lexloom.mark").count(_UNDECODED)
    # At the ends of the sample a character may be cut; and a few bad bytes among many good
    # characters are damage, not another encoding.
    if undecoded <= 2 + len(_MULTIBYTE.findall(sample)) // 8 and _MULTIBYTE.search(sample):
        return "utf-8"
    from resiliparse.parse.encoding import detect_encoding

    try:
        name = canonical(detect_encoding(sample, html5_compatible=False) or "utf-8")
    except LookupError:
        return "utf-8"
    return _BROWSERS.get(name, name)


def _wide(start: bytes) -> str:
    """UTF-16 or UTF-32 without a byte order mark: most text has its zeros at fixed places."""
    size = len(start) - len(start) % 4
    if size < 16:
        return ""
    zeros = [start[i:size:4].count(0) * 4 / size for i in range(4)]
    if zeros[0] > 0.9 and zeros[1] > 0.9 and zeros[3] < 0.5:
        return "utf-32-be"
    if zeros[2] > 0.9 and zeros[3] > 0.9 and zeros[0] < 0.5:
        return "utf-32-le"
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    if even > 0.8 and odd < 0.4:
        return "utf-16-be"
    return "utf-16-le" if odd > 0.8 and even < 0.4 else ""


@dataclass(frozen=True)
class Decoder:
    """Bytes of a record to text.

    Attributes:
        encoding: of the bytes.
        invalid: what becomes of a record with bytes that are no text.
    """

    encoding: str = "utf-8"
    invalid: Invalid = "reject"

    def __call__(self, data: bytes) -> tuple[str, str, str]:
        """The text, why it is rejected, and how it was changed; both mostly empty."""
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError:
            text = data.decode(self.encoding, "lexloom.mark")
            if self.invalid == "replace":
                return text.replace(_UNDECODED, "\ufffd").removeprefix("\ufeff"), "", "bytes"
            return text, "encoding", ""
        return text.removeprefix("\ufeff"), "", ""


class Transcoded(io.RawIOBase):
    """A file in any encoding as UTF-8; what cannot be decoded stays undecodable in it."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("lexloom.mark")
        self._rest = b""
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or as much of it as there is at hand."""
        while not self._rest and not self._ended:
            data = self._file.read(1 << 16)
            self._ended = not data
            text = self._decoder.decode(data, self._ended)
            self._rest = text.encode("utf-8", "surrogatepass").replace(_MARKED, b"\xff")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
