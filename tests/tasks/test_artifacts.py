import json
import math
import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.artifacts import Artifact, Manifest, Part, canonical_json, digest, recipe_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_canonical_json_is_one_text_for_a_value(value: object) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == text


@dataclass(frozen=True)
class Params:
    b: float
    a: tuple[int, ...]


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, object(), {1: 2}, b"x", {"a": {3.0}}, lambda: 1, Params]
)
def test_what_has_no_canonical_json_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical_json(value)


def test_keys_are_the_same_in_another_process() -> None:
    program = (
        "from tasks.artifacts import digest;"
        "print(digest({'z': [1, 2.5, None], 'ä': {'b': True, 'a': '\\u2028'}}))"
    )
    here = digest({"ä": {"a": "\u2028", "b": True}, "z": [1, 2.5, None]})
    there = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert there == {here}
    # Golden: a change of the key format orphans every store, so it must be deliberate.
    assert here == "ba92b18f6fe429632fdee6a45791ebbfaff3252b669480e17fab323d2fc296d8"


def test_a_recipe_depends_on_step_version_params_roles_and_contents() -> None:
    a, b = (Artifact("rows", "s", "r" * 64, c * 64) for c in "ab")
    base = recipe_of("s", 1, Params(1.0, (1,)), {"x": a})
    elsewhere = Artifact("rows", "other", "q" * 64, "a" * 64)
    assert recipe_of("s", 1, Params(1.0, (1,)), {"x": elsewhere}) == base
    others = {
        recipe_of("t", 1, Params(1.0, (1,)), {"x": a}),
        recipe_of("s", 2, Params(1.0, (1,)), {"x": a}),
        recipe_of("s", 1, Params(1.5, (1,)), {"x": a}),
        recipe_of("s", 1, Params(1.0, (1,)), {"y": a}),
        recipe_of("s", 1, Params(1.0, (1,)), {"x": b}),
    }
    assert len(others | {base}) == 6


def test_a_partition_is_the_same_content_whatever_its_number() -> None:
    def part(partition: int, sha: str) -> Part:
        return Part(partition, "x", f"p{partition}", sha * 64, 1)

    one = Manifest("rows", "s", 1, "r", (part(0, "a"), part(1, "b")), {})
    two = Manifest("rows", "s", 1, "q", (part(0, "b"), part(1, "a")), {})
    assert one.handle(0).content == two.handle(1).content
    assert one.content != two.content
    with pytest.raises(IndexError):
        one.handle(2)


def test_a_manifest_that_was_tampered_with_is_refused() -> None:
    manifest = Manifest("rows", "s", 1, "r", (Part(0, "x", "p", "a" * 64, 1),), {"kept": 1})
    text = manifest.to_json()
    assert Manifest.from_json(text) == manifest
    for bad in (text.replace("a" * 64, "b" * 64), text.replace('"format": 1', '"format": 2'), "[]"):
        with pytest.raises(ValueError):
            Manifest.from_json(bad)
