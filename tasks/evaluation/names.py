"""Evaluation sets by name: where they are found, and how they become inputs of a step.

A name is looked up in a folder that the user gives, then in the package gensim, whose wheel holds
WordSim-353, SimLex-999 and the Google analogies; nothing of them is copied into this project. What
is no name is a path. A set may be a folder of files, each of them a section of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from tasks.artifacts import Artifact
from tasks.errors import InputError
from tasks.files import import_files
from tasks.store import Store

Kind = Literal["similarity", "analogy", "categorization", "outliers"]
KINDS: tuple[Kind, ...] = get_args(Kind)

NAMES: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "similarity": {
        "wordsim353": ("wordsim353", "ws353", "ws353all", "combined"),
        "wordsim353-sim": ("wordsim353sim", "ws353sim", "wordsimsimilaritygoldstandard"),
        "wordsim353-rel": ("wordsim353rel", "ws353rel", "wordsimrelatednessgoldstandard"),
        "simlex999": ("simlex999", "simlex"),
        "men": ("men", "mendatasetnaturalformfull", "mendatasetlemmaformfull", "mentr3k", "men3k"),
        "rg65": ("rg65", "rg"),
        "mc30": ("mc30", "mc"),
        "mturk287": ("mturk287", "mturk"),
        "mturk771": ("mturk771",),
        "rw": ("rw", "rw2034", "rwstanford", "rarewords"),
        "yp130": ("yp130", "yp"),
        "verb143": ("verb143", "baker143"),
        "simverb3500": ("simverb3500", "simverb"),
        "tr9856": ("tr9856", "termrelatednessresults"),
    },
    "analogy": {
        "google": ("google", "questionswords", "googlequestionswords"),
        "bats": ("bats", "bats30"),
    },
    "categorization": {
        "ap": ("ap", "almuhareb"),
        "battig": ("battig",),
        "bless": ("bless",),
        "esslli-concrete": ("esslliconcrete", "esslli1a", "essli1a"),
        "esslli-abstract": ("esslliabstract", "esslli2b", "essli2b"),
        "esslli-verbs": ("esslliverbs", "esslli2c", "essli2c"),
    },
    "outliers": {
        "8-8-8": ("888", "888dataset"),
        "wikisem500": ("wikisem500",),
    },
}
"""Known sets, each with the names of files or folders by which its distributors give it: lower
case, letters and digits only, without ``EN-`` before and what follows a dot."""

PACKAGED = {
    "wordsim353": "wordsim353.tsv",
    "simlex999": "simlex999.txt",
    "google": "questions-words.txt",
}
"""The files of sets that gensim's wheel holds."""

UNNAMEABLE = re.compile(r"[^\w.\- ]")
"""What no name of a metric may hold in MLflow."""
SUFFIXES = (".txt", ".tsv", ".csv", ".tab")


def find_set(reference: str, kind: Kind, folder: str = "") -> tuple[str, Path]:
    """The name of a set and its file or folder.

    Args:
        reference: a key of ``NAMES[kind]``, or the path of a file or a folder.
        kind: what the set is for.
        folder: where named sets lie, at most three folders deep; empty for none.

    Raises:
        InputError: there is neither such a set nor such a file.
    """
    names = NAMES[kind]
    if folder and not Path(folder).expanduser().is_dir():
        raise InputError(
            "there is no such folder of evaluation sets",
            where=folder,
            remedy="name a folder, or leave it out and name files",
        )
    if reference in names:
        if found := _beneath(folder, names[reference]) or _packaged(reference):
            return reference, found
        raise InputError(_absence(reference, folder), where=reference, remedy=_remedy(reference))
    path = Path(reference).expanduser()
    if not path.exists():
        raise InputError(
            "there is no such evaluation set and no such file",
            where=reference,
            remedy=f"name a file or one of: {', '.join(sorted(names))}",
        )
    name = path.absolute().name if path.is_dir() else path.stem
    return UNNAMEABLE.sub("_", name), path


def _beneath(folder: str, aliases: Sequence[str]) -> Path | None:
    """The file or folder that goes by the first of some names, the least deep one."""
    if not folder:
        return None
    root = Path(folder).expanduser()
    there = [path for depth in ("*", "*/*", "*/*/*") for path in sorted(root.glob(depth))]
    for alias in aliases:
        for path in there:
            if _plain(path) == alias and (path.is_dir() or path.suffix.lower() in ("", *SUFFIXES)):
                return path
    return None


def _plain(path: Path) -> str:
    stem = path.name.lower() if path.is_dir() else path.stem.lower()
    return re.sub(r"[^a-z0-9]", "", stem.removeprefix("en-"))


def _packaged(reference: str) -> Path | None:
    spec = find_spec("gensim") if reference in PACKAGED else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "test" / "test_data" / PACKAGED[reference]
        if path.is_file():
            return path
    return None


def _absence(reference: str, folder: str) -> str:
    if reference in PACKAGED:
        return "this set comes with the package gensim, which is not installed"
    where = f"no file under {folder} has one of its names" if folder else "no folder is given"
    return f"this set is not at hand: {where}"


def _remedy(reference: str) -> str:
    if reference in PACKAGED:
        return "pip install 'lexloom[sample]', or name a file"
    return "give the folder it lies in (evaluation.folder, --sets), or name its file"


def files_of(path: Path) -> dict[str, Path]:
    """The files of a set: itself, or those of a folder by name, in the order of their paths.

    Raises:
        InputError: the folder has no files, or two of the same name.
    """
    if not path.is_dir():
        return {path.stem: path}
    found: dict[str, Path] = {}
    for file in sorted(path.rglob("*")):
        if file.suffix.lower() in SUFFIXES and file.is_file():
            if file.stem in found:
                raise InputError(
                    f"two files are called {file.stem!r}", where=str(path), remedy="rename one"
                )
            found[file.stem] = file
    if not found:
        raise InputError(
            f"no files that end in {', '.join(SUFFIXES)} in this folder",
            where=str(path),
            remedy="name the folder that the files of the set lie in",
        )
    return found


def import_sets(
    store: Store, references: Sequence[str], kind: Kind, folder: str = ""
) -> tuple[dict[str, Artifact], dict[str, tuple[str, ...]]]:
    """Sets as artifacts, under roles such as ``similarity:NAME``, and the names of their files.

    Args:
        store: takes them.
        references: names and paths.
        kind: what the sets are for.
        folder: see ``find_set``.

    Returns:
        The artifacts, a file a partition; and, for folders alone, the names of the files: sections
        are called by them.

    Raises:
        InputError: a set cannot be found, or two of them have the same name.
    """
    found: dict[str, Artifact] = {}
    sections: dict[str, tuple[str, ...]] = {}
    for reference in references:
        name, path = find_set(reference, kind, folder)
        role = f"{kind}:{name}"
        if role in found:
            raise InputError(
                "two evaluation sets have this name", where=name, remedy="rename one of the files"
            )
        files = files_of(path)
        found[role] = import_files(store, [*files.values()], kind)
        if path.is_dir():
            sections[role] = tuple(files)
    return found, sections
