"""The Brown corpus, cut where Bengio et al. (2003) cut theirs.

The first 800,000 tokens are for training, the next 200,000 for validation, the rest is the test
text: the corpus in its order, from the press (ca01) to humor (cr09), so that the test text is
fiction and humor alone. A sentence is a line of tokens, case kept; part-of-speech tags are dropped.
A sentence that a cut goes through ends there, and begins anew behind it.

W. N. Francis and H. Kučera, *Brown Corpus Manual* (1964, 1979), in the edition that NLTK has. It
has 1,161,192 tokens, where the paper counts 1,181,041 with marks of texts and paragraphs.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tasks.errors import InputError
from tasks.export.aside import written_aside

SPLITS = ("train", "valid", "test")
CUTS = (800_000, 200_000)
"""Tokens of the training and of the validation text."""
_FILE = re.compile(r"c[a-r]\d\d")


def find_brown(data: str, home: Path) -> Path:
    """A folder with ``train.txt``, ``valid.txt`` and ``test.txt``.

    Args:
        data: a folder that has them, or NLTK's ``brown`` or ``brown.zip``, which is then cut; empty
            for what was cut before, else what NLTK has on this machine or downloads.
        home: the folder in which what is cut is kept.

    Raises:
        InputError: nothing there is the Brown corpus, or it cannot be downloaded.
    """
    if not data:
        kept = home / "data" / "brown"
        return kept if _is_cut(kept) else cut_brown(_nltk(home), kept)
    given = Path(data).expanduser().absolute()
    if _is_cut(given):
        return given
    found = [given, given / "brown", given / "brown.zip", given / "corpora" / "brown.zip"]
    for path in found:
        if any(_texts(path)):
            return cut_brown(path, home / "data" / "brown")
    raise InputError(
        "there is no Brown corpus",
        where=str(given),
        remedy="name a folder with train.txt, valid.txt and test.txt, or NLTK's brown or brown.zip",
    )


def cut_brown(corpus: Path, folder: Path) -> Path:
    """Write the three splits of NLTK's folder or archive; returns their folder.

    Raises:
        InputError: a file is not tagged text, or there are not enough tokens.
    """
    sentences = (words for name, text in _texts(corpus) for words in untagged(text, name))
    folder.mkdir(parents=True, exist_ok=True)
    parts = cut(sentences, CUTS)
    if len(parts) < len(SPLITS):
        count = sum(len(words) for part in parts for words in part)
        raise InputError(
            f"the corpus has {count:,} tokens, which leaves nothing to test on",
            where=str(corpus),
            remedy="fetch it again: python -m nltk.downloader brown",
        )
    for name, part in zip(SPLITS, parts, strict=True):
        with written_aside(folder / f"{name}.txt") as path:
            path.write_text("".join(" ".join(words) + "\n" for words in part), "utf-8")
    return folder


def untagged(text: str, where: str = "") -> Iterator[list[str]]:
    """The sentences of a text of ``word/tag``, a line each.

    Raises:
        InputError: a word without a tag.
    """
    for number, line in enumerate(text.split("\n"), 1):
        words = []
        for token in line.split():
            word, slash, _ = token.rpartition("/")
            if not slash or not word:
                raise InputError(
                    f"{token!r} is no word with a tag",
                    where=f"{where}:{number}",
                    remedy="fetch the corpus again: python -m nltk.downloader brown",
                )
            words.append(word)
        if words:
            yield words


def cut(sentences: Iterable[list[str]], sizes: Iterable[int]) -> list[list[list[str]]]:
    """Parts of so many words each, and one of what is left; a sentence may be cut in two."""
    parts: list[list[list[str]]] = []
    left, rest = iter(sentences), list[str]()
    for size in sizes:
        part, missing = list[list[str]](), size
        while missing:
            rest = rest or next(left, [])
            if not rest:
                return [*parts, part] if part else parts
            part.append(rest[:missing])
            missing -= len(part[-1])
            rest = rest[len(part[-1]) :]
        parts.append(part)
    last = [*([rest] if rest else []), *left]
    return [*parts, last] if last else parts


def _is_cut(folder: Path) -> bool:
    return all((folder / f"{name}.txt").is_file() for name in SPLITS)


def _texts(corpus: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of the corpus' files in order, in a folder or an archive."""
    if corpus.is_dir():
        files = sorted(path for path in corpus.iterdir() if _FILE.fullmatch(path.name))
        yield from ((str(path), path.read_text("ascii", "replace")) for path in files)
    elif zipfile.is_zipfile(corpus):
        with zipfile.ZipFile(corpus) as archive:
            names = [name for name in archive.namelist() if _FILE.fullmatch(Path(name).name)]
            for name in sorted(names):
                yield f"{corpus}/{name}", archive.read(name).decode("ascii", "replace")


def _nltk(home: Path) -> Path:
    """NLTK's archive or folder, downloaded into the home where there is none."""
    import nltk

    folder = home / "data" / "nltk"
    roots = [*map(Path, nltk.data.path), folder]
    places = [root / "corpora" / name for root in roots for name in ("brown", "brown.zip")]
    if found := next((place for place in places if any(_texts(place))), None):
        return found
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings(record=True) as odd:
        loaded = nltk.download("brown", download_dir=str(folder), quiet=True)
    archive = folder / "corpora" / "brown.zip"
    if not loaded or not any(_texts(archive)):
        lines = [*said.getvalue().splitlines(), *(str(warning.message) for warning in odd)]
        reason = " ".join(line.removeprefix("[nltk_data]").strip() for line in lines)
        raise InputError(
            f"the Brown corpus is not on this machine, and NLTK cannot download it: {reason}",
            where=str(folder),
            remedy="name its folder with --data, or run python -m nltk.downloader brown where "
            "there is a network",
        )
    return archive
