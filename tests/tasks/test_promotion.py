from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter, ValidationError

from models.word2vec import Config
from tasks.errors import InputError
from tasks.evaluation.score import Score
from tasks.mlflow_client import connect
from tasks.promotion import Bound, Gate, Promotion, objections, promote, rollback
from tasks.registry import Version, find_version, register
from tasks.store import Store
from tests.tasks.trained import train_small


def perplexity(value: float | None, vocabulary: str = "v1") -> Score:
    return Score(
        "perplexity.test",
        value,
        "perplexity",
        scored=90,
        total=90,
        items="tokens",
        policy="all",
        undefined="" if value else "the text is empty",
        details={"vocabulary": vocabulary, "text": "t", "tokens": 90},
    )


def spearman(value: float | None) -> Score:
    undefined = "" if value is not None else "all gold scores are equal"
    return Score("similarity.pairs", value, "spearman", 8, 10, "pairs", "fold", undefined)


def version(number: int, *scores: Score, tags: Mapping[str, str] | None = None) -> Version:
    return Version(
        name="m",
        version=number,
        aliases=(),
        family="nplm",
        content=str(number),
        vocabulary="v1",
        capabilities=("scores",),
        scores=scores,
        created=0.0,
        run_id="",
        location="",
        tags=tags or {},
    )


CHAMPION = version(1, perplexity(100.0), spearman(0.4))
BEST = Gate(
    thresholds={"perplexity.test": Bound(maximum=120), "similarity.pairs": Bound(minimum=0.3)},
    slack=None,
)
NOT_WORSE = Gate(no_regression={"perplexity.test": 2.0, "similarity.pairs": 0.01})


@pytest.mark.parametrize(
    ("gate", "scores", "champion", "reason"),
    [
        (Gate(), (), CHAMPION, "none of the scores of the champion, version 1 (perplexity.test"),
        (Gate(), (), version(1), None),
        (Gate(slack=None), (), CHAMPION, None),
        (Gate(), (perplexity(119.0), spearman(0.33)), CHAMPION, None),
        (Gate(), (perplexity(121.0),), CHAMPION, "121.0, worse than the 100.0"),
        (Gate(), (perplexity(500.0, "v2"), spearman(0.4)), CHAMPION, None),
        (Gate(), (spearman(None),), CHAMPION, "undefined"),
        (BEST, (perplexity(120.0), spearman(0.3)), CHAMPION, None),
        (BEST, (perplexity(120.1), spearman(0.3)), None, "perplexity.test is 120.1, above 120.0"),
        (BEST, (perplexity(90.0), spearman(0.29)), None, "pairs is 0.290, below 0.300"),
        (BEST, (perplexity(None), spearman(0.3)), None, "undefined: the text is empty"),
        (BEST, (perplexity(90.0), spearman(None)), None, "undefined: all gold scores are equal"),
        (BEST, (perplexity(90.0),), None, "there is no score similarity.pairs"),
        (NOT_WORSE, (perplexity(102.0), spearman(0.39)), CHAMPION, None),
        (NOT_WORSE, (perplexity(1.0), spearman(0.9)), CHAMPION, None),
        (NOT_WORSE, (perplexity(500.0), spearman(0.01)), None, None),
        (NOT_WORSE, (perplexity(102.1), spearman(0.4)), CHAMPION, "102.1, worse than the 100.0"),
        (NOT_WORSE, (perplexity(99.0), spearman(0.38)), CHAMPION, "0.380, worse than the 0.400"),
        (NOT_WORSE, (perplexity(90.0, "v2"), spearman(0.4)), CHAMPION, "vocabularies differ"),
        (NOT_WORSE, (perplexity(99.0), spearman(None)), CHAMPION, "undefined"),
        (NOT_WORSE, (perplexity(99.0), spearman(0.4)), version(1, perplexity(None)), None),
    ],
)
def test_the_gate(
    gate: Gate, scores: tuple[Score, ...], champion: Version | None, reason: str | None
) -> None:
    found = objections(gate, version(2, *scores), champion)
    if reason is None:
        assert found == ()
    else:
        assert len(found) == 1
        assert reason in found[0]


def test_every_objection_is_told() -> None:
    found = objections(BEST, version(2, perplexity(200.0), spearman(0.1)), CHAMPION)
    assert len(found) == 2


def test_a_gate_is_read_from_a_config() -> None:
    adapter = TypeAdapter(Gate)
    value = {"thresholds": {"perplexity.test": {"maximum": 120}}, "automatic": False}
    assert adapter.validate_python(value).thresholds["perplexity.test"] == Bound(maximum=120)
    for wrong in (
        {"threshold": {}},
        {"thresholds": {"x": {"max": 1}}},
        {"no_regression": {"perplexity.test": -1}},
    ):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_champions_come_and_go(store: Store, tracking_uri: str) -> None:
    name = "champions"

    def enter(seed: int, *scores: Score) -> int:
        model = train_small(store, Config(dim=4, min_count=1), seed=seed)
        return register(
            store, model, name, tracking_uri=tracking_uri, scores=scores, tags={}
        ).version

    def champion() -> int:
        return find_version(f"{name}@champion", tracking_uri).version

    gate = Gate(no_regression={"perplexity.test": 1.0})
    enter(1, perplexity(100.0))
    assert promote(name, 1, tracking_uri=tracking_uri, gate=gate) == Promotion(
        name, 1, True, champion=1, previous=None
    )
    enter(2, perplexity(110.0))
    refused = promote(name, 2, tracking_uri=tracking_uri, gate=gate)
    assert (refused.promoted, refused.champion) == (False, 1)
    assert "worse than the 100.0 of the champion, version 1" in refused.reasons[0]
    assert "worse" in find_version(f"{name}/2", tracking_uri).tags["refused"]
    # The gate that a version met is the one it meets again, whoever asks.
    assert not promote(name, 2, tracking_uri=tracking_uri, by_hand=True).promoted
    assert champion() == 1

    enter(3, perplexity(90.0))
    enter(4, perplexity(80.0))
    assert promote(name, 3, tracking_uri=tracking_uri, gate=gate).previous == 1
    assert promote(name, 4, tracking_uri=tracking_uri, gate=gate).previous == 3
    assert promote(name, 4, tracking_uri=tracking_uri, gate=gate).promoted  # a rerun
    assert rollback(name, tracking_uri=tracking_uri) == Promotion(name, 3, True, 3, 4)
    assert champion() == 3
    # What was rolled back does not come back by itself.
    again = promote(name, 4, tracking_uri=tracking_uri, gate=gate)
    assert (again.promoted, champion()) == (False, 3)
    assert "rolled back" in again.reasons[0]
    assert rollback(name, tracking_uri=tracking_uri).champion == 1
    with pytest.raises(InputError, match="only champion there ever was"):
        rollback(name, tracking_uri=tracking_uri)
    assert promote(name, 4, tracking_uri=tracking_uri, by_hand=True).promoted
    assert "rolled_back" not in find_version(f"{name}/4", tracking_uri).tags
    # The alias is the truth, whoever moved it.
    connect(tracking_uri).set_registered_model_alias(name, "champion", "2")
    assert promote(name, 3, tracking_uri=tracking_uri, gate=gate, by_hand=True).previous == 2
    assert rollback(name, tracking_uri=tracking_uri).champion == 2


def test_a_gate_that_waits_for_a_person(store: Store, tracking_uri: str) -> None:
    model = train_small(store, Config(dim=4, min_count=1), seed=9)
    register(store, model, "waits", tracking_uri=tracking_uri, scores=[], tags={})
    waiting = promote("waits", 1, tracking_uri=tracking_uri, gate=Gate(automatic=False))
    assert (waiting.promoted, waiting.champion) == (False, None)
    assert "lexloom models promote waits/1" in waiting.reasons[0]
    assert promote("waits", 1, tracking_uri=tracking_uri, by_hand=True).champion == 1
