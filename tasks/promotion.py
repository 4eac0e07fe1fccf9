"""Who is champion: the gate that a version must pass, and the way back.

A version becomes ``champion`` only through a gate, which holds its scores against thresholds and
against the scores of the version that is champion now. What the gate was and what it found is
kept in tags: ``lexloom.gate`` and ``lexloom.refused`` on the version, and on the registered model
``lexloom.champions``, the versions that were champion, the present one last.

A score that is undefined or missing passes nothing, and two scores are compared only if they mean
the same (``tasks.evaluation.incomparable``): perplexities over two vocabularies do not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, TypeAdapter

from tasks.errors import InputError
from tasks.evaluation.score import Baseline, Score, incomparable, show
from tasks.mlflow_client import answering, connect
from tasks.versions import CHAMPION, Version, find_version

if TYPE_CHECKING:
    from mlflow import MlflowClient

GATE, REFUSED, CHAMPIONS = "lexloom.gate", "lexloom.refused", "lexloom.champions"
ROLLED_BACK = "lexloom.rolled_back"


@dataclass(frozen=True)
class Bound:
    """Limits of a score, both included."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    minimum: Annotated[float | None, Field(description="Lowest value that passes")] = None
    maximum: Annotated[float | None, Field(description="Highest value that passes")] = None


@dataclass(frozen=True)
class Gate:
    """What a version must show to become champion.

    Attributes:
        thresholds: limits by score, ``similarity.wordsim353`` or ``perplexity.test``.
        no_regression: scores that must not be worse than the champion's, each with how much worse
            is still passed over, in its own unit.
        slack: the same for all other scores that compare with the champion's, as a share of its
            score; None compares none of them.
        automatic: hold every version against the gate when it is registered; else only a person
            promotes.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    thresholds: Annotated[
        Mapping[str, Bound], Field(description="Limits by score, such as perplexity.test")
    ] = field(default_factory=dict)
    no_regression: Annotated[
        Mapping[str, Annotated[float, Field(ge=0)]],
        Field(description="Scores that may be at most so much worse than the champion's"),
    ] = field(default_factory=dict)
    slack: Annotated[
        float | None,
        Field(ge=0, description="Share by which any other score may be worse than the champion's"),
    ] = 0.2
    automatic: Annotated[bool, Field(description="Promote without being asked")] = True


@dataclass(frozen=True)
class Promotion:
    """What was decided.

    Attributes:
        name: of the registered model.
        version: that was held against the gate.
        promoted: whether it is champion now.
        champion: the version that is champion now, None if there is none.
        previous: the version that was champion before, None if there was none.
        reasons: why it is not; empty if it is.
    """

    name: str
    version: int
    promoted: bool
    champion: int | None
    previous: int | None
    reasons: tuple[str, ...] = ()


def objections(gate: Gate, candidate: Version, champion: Version | None) -> tuple[str, ...]:
    """Why a version does not pass a gate; empty if it passes."""
    found = []
    for name, bound in gate.thresholds.items():
        score = _score(candidate, name)
        if score is None or score.value is None:
            found.append(_without_value(name, score))
        elif bound.minimum is not None and score.value < bound.minimum:
            found.append(f"{name} is {score.shown}, below {show(bound.minimum, score.unit)}")
        elif bound.maximum is not None and score.value > bound.maximum:
            found.append(f"{name} is {score.shown}, above {show(bound.maximum, score.unit)}")
    for name, tolerance in gate.no_regression.items():
        if objection := _regression(name, tolerance, candidate, champion):
            found.append(objection)
    if gate.slack is not None and champion is not None:
        if objection := _unscored(candidate, champion):
            found.append(objection)
        for best in champion.scores:
            if best.name not in gate.no_regression and _compares(
                _score(candidate, best.name), best
            ):
                tolerance = gate.slack * abs(best.value or 0.0)
                if objection := _regression(best.name, tolerance, candidate, champion):
                    found.append(objection)
    return tuple(found)


def _unscored(candidate: Version, champion: Version) -> str | None:
    """Why nothing can be said of a version beside a champion that has scores."""
    known = [best.name for best in champion.scores if best.value is not None]
    if champion.version == candidate.version or not known:
        return None
    if any(_score(candidate, name) is not None for name in known):
        return None
    return (
        f"it has none of the scores of the champion, version {champion.version} "
        f"({', '.join(known[:3])}{', ...' * (len(known) > 3)})"
    )


def _compares(score: Score | None, best: Score) -> bool:
    """Whether a score can be held against the champion's; an undefined one falls behind it."""
    if score is None or best.value is None:
        return False
    return score.value is None or not incomparable(score, best)


def _regression(
    name: str, tolerance: float, candidate: Version, champion: Version | None
) -> str | None:
    score = _score(candidate, name)
    if score is None or score.value is None:
        return _without_value(name, score)
    if champion is None or champion.version == candidate.version:
        return None
    best = _score(champion, name)
    who = f"the champion, version {champion.version}"
    if best is None or best.value is None:
        # A champion without this score cannot be fallen behind.
        return None
    if reason := incomparable(score, best):
        return f"{name} cannot be compared with that of {who}: {reason}"
    worse = score.value - best.value if score.lower_is_better else best.value - score.value
    if worse > tolerance and not math.isclose(worse, tolerance):
        return f"{name} is {score.shown}, worse than the {best.shown} of {who}"
    return None


def _score(version: Version, name: str) -> Score | None:
    return next((score for score in version.scores if score.name == name), None)


def _without_value(name: str, score: Score | None) -> str:
    return f"{name} is undefined: {score.undefined}" if score else f"there is no score {name}"


def promote(
    name: str, version: int, *, tracking_uri: str, gate: Gate | None = None, by_hand: bool = False
) -> Promotion:
    """Make a version champion if it passes the gate.

    Args:
        name: of the registered model.
        version: of it.
        tracking_uri: of the MLflow.
        gate: None takes the one that the version met before.
        by_hand: a person asks. That also promotes a version that was rolled back, or whose gate
            is not automatic; it does not pass by the gate.

    Raises:
        InputError: there is no such version.
        ConnectionError: MLflow does not answer.
    """
    client = connect(tracking_uri)
    with answering(tracking_uri):
        candidate = find_version(f"{name}/{version}", tracking_uri)
        champion = _champion(client, name, tracking_uri)
        gate = gate or _kept_gate(candidate)
        client.set_model_version_tag(name, str(version), GATE, json.dumps(asdict(gate)))
        reasons = objections(gate, candidate, champion)
        if not by_hand:
            reasons = (*_reservations(gate, candidate), *reasons)
        current = champion.version if champion else None
        if reasons and current != version:
            client.set_model_version_tag(name, str(version), REFUSED, "; ".join(reasons))
            return Promotion(name, version, False, current, current, reasons)
        if current != version:
            _crown(client, name, [*_history(client, name, current), version])
        for tag in (REFUSED, ROLLED_BACK):
            if tag.removeprefix("lexloom.") in candidate.tags:
                client.delete_model_version_tag(name, str(version), tag)
    return Promotion(name, version, True, version, current)


def beside_champion(
    scores: Sequence[Score], promotion: Promotion, tracking_uri: str
) -> tuple[Score, ...]:
    """Scores of a version, each beside the champion's that it was held against and compares with.

    Args:
        scores: of the version.
        promotion: what was decided about it.
        tracking_uri: of the MLflow.

    Raises:
        InputError: the champion is gone.
        ConnectionError: MLflow does not answer.
    """
    previous = promotion.previous
    if previous is None or previous == promotion.version:
        return tuple(scores)
    champion = find_version(f"{promotion.name}/{previous}", tracking_uri)
    name = "last champion" if promotion.promoted else "champion"

    def beside(score: Score) -> Score:
        best = _score(champion, score.name)
        if best is None or incomparable(score, best):
            return score
        return score.beside(Baseline(name, best.value, f"version {previous}"))

    return tuple(beside(score) for score in scores)


def rollback(name: str, *, tracking_uri: str) -> Promotion:
    """Make the version champion that was so before. The present one stays off until a person asks.

    Raises:
        InputError: there is no such model, or no champion before this one.
        ConnectionError: MLflow does not answer.
    """
    client = connect(tracking_uri)
    with answering(tracking_uri):
        champion = find_version(f"{name}@{CHAMPION}", tracking_uri)
        *earlier, _ = _history(client, name, champion.version)
        if not earlier:
            raise InputError(
                f"version {champion.version} is the only champion there ever was",
                where=name,
                remedy="`lexloom models list` shows other versions to promote",
            )
        _crown(client, name, earlier)
        client.set_model_version_tag(name, str(champion.version), ROLLED_BACK, "true")
    return Promotion(name, earlier[-1], True, earlier[-1], champion.version)


def _reservations(gate: Gate, candidate: Version) -> tuple[str, ...]:
    """Why only a person may promote a version."""
    found = []
    if not gate.automatic:
        found.append("the gate is not automatic")
    if "rolled_back" in candidate.tags:
        found.append("it was champion and was rolled back")
    advice = f"`lexloom models promote {candidate.reference}` promotes it"
    return tuple(f"{reason}; {advice}" for reason in found)


def _kept_gate(candidate: Version) -> Gate:
    text = candidate.tags.get("gate")
    return TypeAdapter(Gate).validate_json(text) if text else Gate()


def _champion(client: MlflowClient, name: str, tracking_uri: str) -> Version | None:
    aliases = client.get_registered_model(name).aliases
    return find_version(f"{name}@{CHAMPION}", tracking_uri) if CHAMPION in aliases else None


def _history(client: MlflowClient, name: str, current: int | None) -> list[int]:
    """The versions that were champion up to the present one.

    The alias is the truth: a promotion that was interrupted may have noted more, and somebody may
    have moved the alias in the UI of MLflow.
    """
    text = client.get_registered_model(name).tags.get(CHAMPIONS, "[]")
    noted = [int(version) for version in json.loads(text)]
    if current is None:
        return []
    if current in noted:
        return noted[: len(noted) - noted[::-1].index(current)]
    return [*noted, current]


def _crown(client: MlflowClient, name: str, history: list[int]) -> None:
    client.set_registered_model_tag(name, CHAMPIONS, json.dumps(history))
    client.set_registered_model_alias(name, CHAMPION, str(history[-1]))
