from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import nplm, word2vec
from models.families import FAMILIES
from pipelines.config import parse
from pipelines.plain import override
from pipelines.recipes import RECIPES, resolve, sample
from tasks.errors import ConfigError, InputError

GOOD = "corpus: {name: x, train: {paths: [a.txt]}}\nfamilies:\n  word2vec:\n"

WRONG = {
    "unknown key": (GOOD + "    dmi: 3\n", ":4: families.word2vec.dmi: there is no setting 'dmi'"),
    "close match": (GOOD + "    dmi: 3\n", "did you mean 'dim'?"),
    "wrong type": (
        GOOD + "    dim: wide\n",
        ":4: families.word2vec.dim: must be a whole number, not 'wide'",
    ),
    "out of range": (GOOD + "    dim: 0\n", ":4: families.word2vec.dim: must be at least 1, not 0"),
    "top level": (GOOD + "sede: 1\n", ":4: sede: there is no setting 'sede'\n  -> did you mean"),
    "deep": (GOOD + "gate: {thresholds: {a.b: {maxmum: 1}}}\n", "gate.thresholds.a.b.maxmum"),
    "no such family": (GOOD + "  w: {family: word3vec}\n", ":4: families.w: there is no family"),
    "no family": (
        GOOD + "  mine: {dim: 3}\n",
        "add `family:` with one of ngram, class-ngram, word2vec",
    ),
    "missing": ("corpus: {name: x}\n", "families: this setting is missing"),
    "none": ("corpus: {name: x}\nfamilies: {}\n", "families: must have at least 1 item"),
    "a name": (GOOD.replace("name: x", "name: a/b"), ":1: corpus.name: must match"),
    "twice": (GOOD + "    dim: 3\n    dim: 4\n", ":5: the key 'dim' stands here a second time"),
    "no list": (GOOD.replace("[a.txt]", "a.txt"), "corpus.train.paths: must be a list"),
    "no mapping": ("- a\n", "a config is a mapping with the keys corpus, families"),
    "no YAML": ("corpus: {name: x\nfamilies: 1\n", ":2: this is not YAML"),
    "fraction": (GOOD + "    dim: 2.5\n", "must be a whole number, not 2.5"),
    "no number": (GOOD + "    learning_rate: fast\n", "must be a number, not 'fast'"),
    "not finite": (GOOD + "    learning_rate: .nan\n", "must be a finite number, not nan"),
    "empty": (GOOD + "    dim: null\n", "must be a whole number, not empty"),
    "more": (GOOD + "    learning_rate: 0\n", "learning_rate: must be more than 0, not 0"),
    "most": (GOOD + "  ngram: {order: 11}\n", "families.ngram.order: must be at most 10, not 11"),
    "less": (GOOD.replace("x,", "x, split: {valid: 2},"), "must be less than 1, not 2"),
    "no bool": (
        GOOD.replace("x,", "x, normalize: {lowercase: perhaps},"),
        "corpus.normalize.lowercase: must be true or false, not 'perhaps'",
    ),
    "number as text": (GOOD.replace("x,", "2024,"), "must be text, not 2024\n  -> put it in q"),
    "a choice": (
        GOOD.replace("[a.txt]", "[a.txt], format: jsnl"),
        "wikipedia, dataset, not 'jsnl'\n  -> did you mean 'jsonl'?",
    ),
    "a path as list": (GOOD.replace("[a.txt]", "a.txt"), "-> put it in brackets: ["),
    "a value as mapping": (
        GOOD.replace("{paths: [a.txt]}", "a.txt"),
        "corpus.train: must be a mapping, not 'a.txt'\n  -> write one of its keys below it: paths",
    ),
    "a family as number": (GOOD + "  ngram: 3\n", "families.ngram: must be a mapping, not 3"),
    "yes as a number": (GOOD + "    dim: true\n", "word2vec.dim: must be a number, not true"),
    "no end": (GOOD + "seed: 99999999999999999999\n", "seed: must be at most 9223372036854775807"),
    "infinite": (GOOD + "gate: {slack: .inf}\n", "gate.slack: must be a finite number, not inf"),
    "no such day": (GOOD + "seed: 2001-99-99\n", "not YAML: month must be in 1..12"),
    "too deep": (GOOD + "seed: " + "[" * 5000, "not YAML: it is nested too deep"),
    "holds itself": ("corpus: &a [*a]\n", "its aliases stand for more than 100,000 values"),
    "billions in a few lines": (
        "".join(
            f"{k}: &{k} [{', '.join([v] * 9)}]\n"
            for k, v in zip("abcdefghi", ["x", *(f"*{c}" for c in "abcdefgh")], strict=True)
        ),
        "its aliases stand for more than 100,000 values",
    ),
    "not together": (
        GOOD + "  nplm: {hidden: 0}\n",
        "families.nplm: hidden: 0 leaves nothing to predict from; add direct: true\n  -> change",
    ),
    "nothing to fit on": (
        GOOD.replace("x,", "x, split: {valid: 0},") + "  ngram: {smoothing: jelinek-mercer}\n",
        "families.ngram.smoothing: jelinek-mercer fits its weights to held-out text, and there",
    ),
    "parts of nothing": (
        GOOD + "  rnnlm: {batch_size: 4, accumulate: 5}\n",
        "families.rnnlm.accumulate: a batch of 4 has no 5 parts",
    ),
    "families as list": (
        GOOD.replace("  word2vec:", "  - word2vec"),
        "families: must be a mapping, not a list",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve(str(path))
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n  -> " in str(caught.value)
    assert "valid" not in caught.value.problem.replace("valid, test", "")


FILES = {
    "corpus": (GOOD.replace("a.txt", "a.txt, no.txt"), ":1: corpus.train.paths.1: ", "no.txt: th"),
    "glob": (GOOD.replace("a.txt", "'*.none'"), ":1: corpus.train.paths.0: ", "no file matches"),
    "test": (
        GOOD.replace("[a.txt]}", "[a.txt]},\n test: {paths: [b.txt]}"),
        ":2: corpus.test.paths.0: ", "b.txt: there is no such file",
    ),
    "set": (GOOD + "evaluation:\n  similarity: [x353]\n", ":5: evaluation.similarity.0: ", "x353"),
    "analogy": (GOOD + "evaluation:\n  analogy:\n  - goggle\n", ":6: evaluation.a", "goggle"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "where", "message"), FILES.values(), ids=FILES.keys())
def test_a_file_that_is_not_there_is_told_with_who_names_it(
    text: str, where: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        resolve(str(path))
    assert str(caught.value).startswith(f"{path}{where}")
    assert message in caught.value.problem
    assert caught.value.remedy


def test_what_was_changed_stands_in_no_line_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(InputError) as missing:
        resolve(str(path), overrides=["corpus.train.paths.0=c.txt"])
    assert str(missing.value).startswith("--set corpus.train.paths.0: c.txt: there is no such file")
    with pytest.raises(ConfigError) as wrong:
        resolve(str(path), overrides=["seed=2", "families.word2vec.dim=wide"])
    assert str(wrong.value).startswith("--set families.word2vec.dim: must be a whole number")


def written(folder: Path, text: str) -> Path:
    """A config in a folder with the text that it names."""
    (folder / "a.txt").write_text("a text\n")
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def test_a_family_is_named_by_its_key(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + "  small: {family: word2vec, dim: 20}\n")
    families = resolve(str(path)).families
    assert families == {"word2vec": word2vec.Config(), "small": word2vec.Config(dim=20)}


@pytest.mark.parametrize(
    ("change", "message"),
    {
        "families.word2vec.dmi=3": "did you mean 'dim'?",
        "familys.word2vec.dim=3": "did you mean 'families'?",
        "families.word2vec.dim.x=3": "nothing can be set below it",
        "families.other.dim=3": "there is no setting 'other' in families",
        "corpus.train.paths.7=a": "there is no setting '7' in corpus.train.paths",
        "families.word2vec.dim": "an override has the form a.b=c",
        "families.word2vec.dim=wide": "must be a whole number",
        "families.word2vec.dim=true": "must be a number, not true",
        "corpus.train.format=2001-99-99": "must be one of",
        "seed=" + "[" * 5000: "must be a whole number",
    }.items(),
)
def test_a_change_that_fits_nowhere_is_an_error(change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        resolve("sample", overrides=[change])


def test_changes_take_the_type_of_the_setting(tmp_path: Path) -> None:
    text = tmp_path / "a b.txt"
    text.write_text("a text\n")
    config = resolve(
        "sample",
        overrides=[
            "corpus.name=123",
            "families.word2vec.learning_rate=1e-2",
            "families.word2vec.max_size=500",
            "families.ngram.max_size=null",
            f"corpus.train.paths.0={text}",
            "evaluation.similarity=[wordsim353]",
            "families.tiny={family: nplm, hidden: 4}",
        ],
    )
    assert config.corpus.name == "123"
    assert config.corpus.train.paths == (str(text),)
    assert config.evaluation.similarity == ("wordsim353",)
    assert config.families["tiny"] == nplm.Config(hidden=4)
    word2vec_config: Any = config.families["word2vec"]
    assert (word2vec_config.learning_rate, word2vec_config.max_size) == (0.01, 500)


def others_than(*families: str) -> str:
    return ", ".join(f for f in (str(c.family) for c in FAMILIES) if f not in families)


def test_families_are_chosen_by_name() -> None:
    chosen = resolve("sample", families=["nplm", "word2vec"])
    assert list(chosen.families) == ["nplm", "word2vec"]
    assert chosen.families["nplm"] == sample().families["nplm"]
    with pytest.raises(ConfigError, match="there is no family 'word2vecc'") as caught:
        resolve("sample", families=["word2vecc"])
    assert caught.value.remedy == (
        "did you mean 'word2vec'? this recipe has: ngram, word2vec, nplm; "
        f"with default settings also: {others_than('ngram', 'word2vec', 'nplm')}"
    )


def test_an_unknown_family_is_answered_with_those_of_the_recipe(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + "  small: {family: word2vec, dim: 20}\n")
    with pytest.raises(ConfigError) as caught:
        resolve(str(path), families=["bag-of-wrods"])
    assert caught.value.remedy == (
        f"this recipe has: word2vec, small; with default settings also: {others_than('word2vec')}"
    )


def test_paths_of_a_file_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = written(tmp_path, GOOD)
    assert resolve(str(path)).corpus.train.paths == (str(tmp_path / "a.txt"),)
    path.write_text(GOOD.replace("[a.txt]", "['-', 's3://b/a.txt', '~/a.txt']"))
    assert resolve(str(path)).corpus.train.paths == ("-", "s3://b/a.txt", "~/a.txt")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_plain_values(name: str) -> None:
    config = RECIPES[name].config(Path("text"))
    assert parse(config.model_dump(mode="json")) == config


@settings(deadline=None, max_examples=25)
@given(dim=st.integers(1, 4096), seed=st.integers(0, 2**31))
def test_a_change_changes_nothing_else(dim: int, seed: int) -> None:
    before = sample().model_dump(mode="json")
    after = parse(override(before, [f"families.word2vec.dim={dim}", f"seed={seed}"]))
    expected = sample().model_dump(mode="json")
    expected["families"]["word2vec"]["dim"], expected["seed"] = dim, seed
    assert after.model_dump(mode="json") == expected
