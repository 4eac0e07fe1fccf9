"""Outlier detection, which word does not belong, after Camacho-Collados and Navigli (2016).

A group is some words that belong together and some that do not. Each outlier is put among the
members by itself, and the words are ordered by their mean cosine with all others. The accuracy is
the share of outliers that come last; the *outlier position percentage* (OPP) is the mean share of
members that stand before the outlier. A tie is no detection.

The layout of their 8-8-8 set, and of WikiSem500: a file a group, the members a line each, an empty
line, the outliers. The groups may stand in one file as well, under lines ``: TOPIC``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import vectors
from models.family import FloatArray
from tasks.artifacts import digest
from tasks.counted import counted
from tasks.errors import InputError
from tasks.evaluation import bootstrap
from tasks.evaluation.lexicon import CASE_POLICY, Words
from tasks.evaluation.score import LEAST_SCORED, Baseline, Score, too_few
from tasks.evaluation.sets import all_lines

LEAST_MEMBERS = 2
"""Members with a vector that a group takes: among fewer there is no belonging."""


@dataclass(frozen=True)
class Group:
    """Words that belong together, and words that do not belong to them."""

    topic: str
    members: tuple[str, ...]
    outliers: tuple[str, ...]


def read_groups(files: Mapping[str, Path], name: str = "") -> tuple[Group, ...]:
    """The groups in the files of a set; those of one without a ``: TOPIC`` go by its key.

    Raises:
        InputError: a group without members or without outliers, none at all, or no UTF-8.
    """
    found = list[Group]()
    for key, path in files.items():
        blocks = _blocks(key, all_lines(path))
        for topic, words in blocks:
            if len(words) != 2:
                raise InputError(
                    f"{counted(len(words), 'blocks')} of words under {topic!r}, not two",
                    where=f"{name}: {path.name}" if name else str(path),
                    remedy="write the members, an empty line and the outliers, a word a line",
                )
            members, outliers = (tuple(dict.fromkeys(block)) for block in words)
            found.append(Group(topic, members, outliers))
    if not found:
        raise InputError("there are no groups of words", where=name)
    return tuple(found)


def _blocks(topic: str, lines: Sequence[str]) -> list[tuple[str, list[list[str]]]]:
    """The blocks of words between empty lines, by topic."""
    found: list[tuple[str, list[list[str]]]] = [(topic, [])]
    inside = False
    for line in lines:
        word = line.strip()
        if heading := re.match(r":\s*(.*\S)", line):
            found.append((heading[1], []))
            inside = False
        elif not word:
            inside = False
        elif inside:
            found[-1][1][-1].append(word)
        else:
            found[-1][1].append([word])
            inside = True
    return found if found[0][1] else found[1:]


@dataclass(frozen=True)
class Found:
    """What became of the outliers of a group.

    Attributes:
        cases: outliers with a vector, in a group with enough members that have one.
        detected: those that came last.
        positions: summed shares of members before them.
        chance: summed chances to be detected where all orders are equally likely.
    """

    cases: int
    detected: int
    positions: float
    chance: float


def measure(name: str, words: Words, groups: Sequence[Group]) -> tuple[Score, Score]:
    """The accuracy and the OPP.

    Args:
        name: of the first score, "outliers.8-8-8"; the second is "outliers.8-8-8.opp".
        words: of the model.
        groups: the set.
    """
    tables = [(phrase_vectors(words, g.members), phrase_vectors(words, g.outliers)) for g in groups]
    found = [_detect(*map(_known, pair)) for pair in tables]
    cases = np.array([f.cases for f in found], dtype=np.float64)
    detected = np.array([f.detected for f in found], dtype=np.float64)
    positions = np.array([f.positions for f in found])
    scored, total = int(cases.sum()), sum(len(group.outliers) for group in groups)
    undefined = "" if scored >= LEAST_SCORED else too_few(scored, "outliers")
    chance = sum(f.chance for f in found) / scored if scored else None
    covered = [
        [_whole(members).tolist(), _whole(outliers).tolist(), group.topic]
        for group, (members, outliers) in zip(groups, tables, strict=True)
    ]
    terms = {
        "covered": digest(covered),
        "case_policy": CASE_POLICY[words.case],
        "unknown_policy": "members and outliers without a vector are skipped",
        "unknown_outliers": total - scored,
        "unknown_members": sum(int((~_whole(members)).sum()) for members, _ in tables),
        "groups": len(groups),
        "interval_method": f"{bootstrap.METHOD} of groups",
    }

    def score(name: str, title: str, sums: NDArray[np.float64], base: float | None) -> Score:
        value = float(sums.sum() / scored) if not undefined else None
        as_wrong = {"unknown outliers as wrong": float(sums.sum() / total)} if total else {}
        details: dict[str, Any] = {**terms, "method": title}
        details["other_policies"] = as_wrong if scored < total else {}
        return Score(
            name,
            value,
            unit="accuracy",
            scored=scored,
            total=total,
            items="outliers",
            policy=f"{title}, {terms['unknown_policy']}, {CASE_POLICY[words.case]}",
            undefined=undefined,
            baselines=(Baseline("random", base, "all orders equally likely"),),
            details=details,
            interval=bootstrap.interval(bootstrap.ratios(sums, cases)) if not undefined else None,
        )

    return (
        score(name, "accuracy", detected, chance),
        score(f"{name}.opp", "OPP", positions, 0.5 if scored else None),
    )


def phrase_vectors(words: Words, names: Sequence[str]) -> FloatArray:
    """(N, D) vectors of words and of names of several words.

    A name is looked up as it is written, with ``_`` and with a blank between its words; if the
    model has none of these it is the mean of its words, as in the authors' program.
    """
    table = words.vectors(names).copy()
    for i, name in enumerate(names):
        parts = re.split(r"[ _]+", name)
        if len(parts) < 2 or np.isfinite(table[i]).all():
            continue
        whole = _known(words.vectors(["_".join(parts), " ".join(parts)]))
        single = _known(words.vectors(parts))
        if len(whole):
            table[i] = whole[0]
        elif len(single):
            table[i] = single.mean(axis=0)
    return table


def _whole(table: FloatArray) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(table).all(axis=1))


def _known(table: FloatArray) -> FloatArray:
    return table[_whole(table)]


def _detect(members: FloatArray, outliers: FloatArray) -> Found:
    """Each of (M, D) outliers among (N, D) members."""
    n, cases = len(members), len(outliers)
    if n < LEAST_MEMBERS or not cases:
        return Found(0, 0, 0.0, 0.0)
    inside = vectors.unit(members).astype(np.float64)
    outside = vectors.unit(outliers).astype(np.float64)
    among = inside @ inside.T
    np.fill_diagonal(among, 0.0)
    across = outside @ inside.T
    before = ((among.sum(axis=1) + across) > across.sum(axis=1, keepdims=True)).sum(axis=1)
    return Found(cases, int((before == n).sum()), float((before / n).sum()), cases / (n + 1))
