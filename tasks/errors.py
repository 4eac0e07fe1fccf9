"""The two kinds of error: bad input, which no retry mends, and everything else."""

from __future__ import annotations


class LexloomError(Exception):
    """A permanent error that a user can mend: never retried, shown without a traceback.

    Args:
        problem: what is wrong, in one sentence.
        where: file, line, key or name that it is about.
        remedy: what to do about it.
    """

    def __init__(self, problem: str, *, where: str = "", remedy: str = "") -> None:
        self.problem, self.where, self.remedy = problem, where, remedy
        place = f"{where}: " if where else ""
        advice = f"\n  -> {remedy}" if remedy else ""
        super().__init__(f"{place}{problem}{advice}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.where, self.remedy)


def not_utf8(error: UnicodeDecodeError) -> str:
    """Where in a text that was decoded whole; lines and their bytes count from 1."""
    before = bytes(error.object[: error.start])
    line, byte = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
    return f"not UTF-8 in line {line} at byte {byte}"


def _rebuild(kind: type[LexloomError], problem: str, where: str, remedy: str) -> LexloomError:
    return kind(problem, where=where, remedy=remedy)


class ConfigError(LexloomError):
    """A setting is unknown, of the wrong type or out of range."""


class InputError(LexloomError):
    """A corpus, a file or a model that was named cannot be used."""


class TrainingError(LexloomError):
    """Training cannot go on: a loss that is not finite, or nothing to train on."""
