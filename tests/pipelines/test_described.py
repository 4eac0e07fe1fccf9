"""The settings that ``lexloom settings`` lists are those that a recipe takes, all of them told."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
from rich.console import Console

from models.families import FAMILIES
from pipelines.config import keys_at
from pipelines.described import REQUIRED, settings_of, settings_table
from tasks.errors import ConfigError

from .conftest import Cli


@pytest.mark.parametrize("family", ["", *(config.family for config in FAMILIES)])
def test_every_setting_has_a_description_values_and_a_default(family: str) -> None:
    found = settings_of(family)
    assert len({one.key for one in found}) == len(found)
    for one in found:
        assert one.description, one
        assert one.values, one
        assert one.default, one


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config.family)
def test_the_settings_of_a_family_are_its_fields(config: type) -> None:
    fields = {field.name: field.default for field in dataclasses.fields(config)}
    family = fields.pop("family")
    found = {one.key: one.default for one in settings_of(str(family))}
    assert list(found) == list(fields)
    for name, default in fields.items():
        if default is dataclasses.MISSING:
            assert found[name] == REQUIRED
        elif isinstance(default, bool | int | float):
            assert json.loads(found[name]) == default


def test_those_of_a_recipe_are_the_keys_that_it_takes() -> None:
    found = {one.key: one for one in settings_of()}
    for path in ((), ("corpus",), ("corpus", "train"), ("corpus", "filters", "gopher"), ("gate",)):
        before = "".join(f"{key}." for key in path)
        below = {key.removeprefix(before) for key in found if key.startswith(before)}
        assert {key.split(".")[0] for key in below} == set(keys_at({}, path) or ())
    told = {key: (one.default, one.values) for key, one in found.items()}
    assert told["corpus"] == (REQUIRED, "settings below")
    assert told["corpus.train"][0] == '{"paths": ["sample:wikipedia"], "format": "wikipedia"}'
    assert told["corpus.test"] == ("empty", "as corpus.train")
    assert told["corpus.split"][0] == "as below"
    assert told["corpus.split.valid"] == ("0.05", "number, at least 0 and less than 1")
    assert told["corpus.filters.max_words"] == ("empty", "empty or whole number, at least 1")
    assert told["mixtures.NAME.parts"] == (REQUIRED, "list of at least 2: text")
    assert "lexloom settings FAMILY" in told["families.NAME"][1]


@pytest.mark.parametrize("width", [80, 100, 10_000])
def test_a_table_fits(width: int) -> None:
    for family in ("", "word2vec"):
        console = Console(file=io.StringIO(), record=True, width=width)
        console.print(settings_table(settings_of(family), family))
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        assert ("window" if family else "max_record_bytes") in text


def test_the_command_lists_them_or_says_which_families_there_are(cli: Cli) -> None:
    listed = json.loads(cli("settings", "ngram", "--json").out)
    assert {"key", "default", "values", "description"} == set(listed[0])
    assert "order" in cli("settings", "ngram").out
    done = cli("settings", "word2vek")
    assert done.code == 2
    assert "there is no family 'word2vek'" in done.err
    assert "did you mean 'word2vec'? the families are: ngram, " in done.err
    with pytest.raises(ConfigError, match="there is no family 'x'"):
        settings_of("x")
