from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.stack import Stack
from tasks.versions import list_models

from .conftest import Cli, Done

LEXLOOM = str(Path(sys.executable).with_name("lexloom"))
HEAVY = ["numpy", "torch", "prefect", "ray", "mlflow", "pyarrow", "numba", "pydantic"]


def test_help_names_the_first_command() -> None:
    done = subprocess.run([LEXLOOM, "--help"], capture_output=True, text=True, check=True)
    assert "Begin with: lexloom run sample" in done.stdout


def test_the_command_line_imports_nothing_slow() -> None:
    code = f"import pipelines.cli, sys; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "empty.txt"
    path.write_text("")
    return path


MISTAKES: dict[str, tuple[Sequence[str], int, str]] = {
    "unknown key": (["--set", "families.word2vec.dmi=3"], 2, "there is no setting 'dmi'"),
    "wrong type": (["--set", "families.word2vec.dim=x"], 2, "must be a whole number, not 'x'"),
    "missing file": (["--set", "corpus.train.paths=[/no/such.txt]"], 2, "/no/such.txt: there is"),
    "empty corpus": (["--set", "corpus.train.paths=[EMPTY]"], 2, "the corpus is empty"),
    "rare words": (["--set", "families.word2vec.min_count=9999"], 1, "no word of the training"),
    "no family": (["--families", "word3vec"], 2, "there is no family 'word3vec'"),
    "bad name": (["--set", "corpus.name=a/b"], 2, "corpus.name: must match"),
    "no test set": (["--set", "evaluation.similarity=[no-set]"], 2, "no-set"),
    "no option": (["--sett", "a=b"], 2, "No such option"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_message_and_registers_nothing(
    arguments: Sequence[str],
    code: int,
    message: str,
    cli: Cli,
    recipe: Path,
    empty_file: Path,
    tmp_path: Path,
) -> None:
    changed = [argument.replace("EMPTY", str(empty_file)) for argument in arguments]
    done = cli("run", str(recipe), "--direct", *changed, home=tmp_path)
    assert done.code == code
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    if (database := tmp_path / "mlflow.db").exists():  # made by the card of a corpus
        assert list_models(f"sqlite:///{database}") == []


def test_an_unknown_recipe_names_those_that_are_known(cli: Cli) -> None:
    done = cli("run", "smaple", "--direct")
    assert (done.code, done.out) == (2, "")
    assert "recipes are: sample" in done.err


def test_a_relative_path_that_leads_nowhere_names_the_folder(cli: Cli) -> None:
    done = cli("run", "mine/run.yaml", "--direct")
    assert (done.code, done.out) == (2, "")
    assert f"there is no recipe 'mine/run.yaml', and no such file in {Path.cwd()}" in done.err
    assert "full path on the machine of the worker" in done.err


def run(cli: Cli, recipe: Path, *arguments: str) -> Any:
    done = cli("run", str(recipe), "--direct", "--json", *arguments)
    assert done.code == 0, done.err
    return json.loads(done.out)


def computed(result: Any) -> list[str]:
    """The steps that were not found in the store."""
    return [step["name"] for step in result["steps"] if not step["reused"]]


@pytest.fixture
def trained(cli: Cli, recipe: Path) -> Any:
    """What the first run came to, or another one that finds it all."""
    return run(cli, recipe)


def test_a_second_run_redoes_nothing(cli: Cli, recipe: Path, trained: Any) -> None:
    again = run(cli, recipe)
    assert computed(again) == []
    assert [s["content"] for s in again["steps"]] == [s["content"] for s in trained["steps"]]
    assert again["models"] == [{**trained["models"][0], "promoted": again["models"][0]["promoted"]}]


def test_a_change_redoes_what_depends_on_it(cli: Cli, recipe: Path, trained: Any) -> None:
    wider = run(cli, recipe, "--set", "families.word2vec.dim=9")
    assert computed(wider) == ["train word2vec", "evaluate word2vec"]
    rarer = run(cli, recipe, "--set", "families.word2vec.min_count=3")
    assert "vocabulary word2vec" in computed(rarer)
    assert not [name for name in computed(rarer) if name.startswith(("ingest", "tokenize"))]
    assert wider["models"][0]["version"] != rarer["models"][0]["version"]


def test_fresh_trains_anew_and_reads_nothing_anew(cli: Cli, recipe: Path, trained: Any) -> None:
    fresh = computed(run(cli, recipe, "--fresh"))
    assert fresh[0] == "train word2vec"


def test_a_run_ends_with_where_everything_is(
    cli: Cli, recipe: Path, trained: Any, cli_home: Path
) -> None:
    done = cli("run", str(recipe), "--direct")
    assert done.code == 0
    up = f"lexloom up --home {cli_home}  # "
    for text in (trained["report"], trained["store"], trained["tracking_uri"], up):
        assert text in done.out
    assert "train word2vec" in done.err
    assert "reused" in done.err
    assert Path(trained["report"]).is_file()


def test_data_is_for_recipes_that_need_it(cli: Cli, recipe: Path, tmp_path: Path) -> None:
    told = {
        "sample": "the recipe 'sample' brings its own text",
        str(recipe): "a YAML file says itself where its text lies",
        "brown": "there is no Brown corpus",
    }
    for name, problem in told.items():
        done = cli("run", name, "--direct", "--data", str(tmp_path))
        assert (done.code, problem in done.err) == (2, True), done.err


def test_while_the_stack_is_up_a_run_ends_with_where_its_pages_are(
    cli: Cli, recipe: Path, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = Stack("mark", "http://127.0.0.1:4210", "http://127.0.0.1:5010", "", "")
    monkeypatch.setattr("pipelines.display.find", lambda home: up)
    done = cli("run", str(recipe), "--direct")
    assert "http://127.0.0.1:4210" not in done.out  # which has not seen this run
    assert "http://127.0.0.1:5010/#/models\n" in done.out
    assert "lexloom up" not in done.out


def test_a_version_that_is_not_champion_stands_beside_it(
    cli: Cli, tmp_path: Path, corpus_file: Path
) -> None:
    recipe = tmp_path / "seas.yaml"
    recipe.write_text(
        f"corpus: {{name: seas, train: {{paths: [{corpus_file}]}}}}\nfamilies: {{ngram: }}\n"
        "evaluation: {similarity: [], analogy: []}\n"
    )

    def baselines(*changes: str) -> list[tuple[str, float]]:
        board = run(cli, recipe, *changes)["leaderboard"]
        return [(b["name"], b["value"]) for b in board[0]["scores"][0]["baselines"]]

    assert [name for name, _ in baselines("--set", "families.ngram.order=4")] == ["unigram"]
    best = run(cli, recipe, "--set", "families.ngram.order=4")["leaderboard"][0]["scores"][0]
    assert baselines("--set", "families.ngram.order=1")[1:] == [("champion", best["value"])]
    # Under another vocabulary there is nothing to compare.
    assert len(baselines("--set", "families.ngram.max_size=9")) == 1
    assert "champion " in cli("run", str(recipe), "--direct", "--set", "families.ngram.order=1").out


def test_a_registered_model_is_shown_asked_and_pulled(
    cli: Cli, recipe: Path, trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, *_) = json.loads(cli("models", "list", "--json").out)
    assert first["name"] == "sea-word2vec"
    monkeypatch.setenv("COLUMNS", "20")  # which is not asked where there is no terminal
    listed = cli("models", "list").out.splitlines()
    assert len(listed) == 1 + len(json.loads(cli("models", "list", "--json").out))
    assert "sea-word2vec" in listed[1]
    shown = cli("models", "show", "sea-word2vec@champion")
    assert (shown.code, "content" in shown.out) == (0, True)

    model = "sea-word2vec@champion"
    asked = json.loads(cli("query", "neighbours", model, "ship", "-k", "3", "--json").out)
    assert len(asked["ship"]) == 3
    nearest, cosine = asked["ship"][0]
    answer = json.loads(cli("query", "similarity", model, "ship", nearest, "--json").out)
    assert answer["cosine"] == pytest.approx(cosine, abs=1e-6)
    answers = json.loads(cli("query", "analogy", model, "ship", "sailor", "gull", "--json").out)
    assert len(answers) == 5
    summed = json.loads(
        cli("query", "neighbours", model, "sailor - ship + gull", "-k", "5", "--json").out
    )
    assert summed["sailor - ship + gull"] == [[w, pytest.approx(s, abs=1e-6)] for w, s in answers]
    other = cli("query", "neighbours", model, "ship", "-k", "3", "--json", "--vectors", "output")
    assert json.loads(other.out) != asked
    ranked = json.loads(cli("query", "rank", model, "ship", asked["ship"][2][0], "--json").out)
    assert ranked == {"rank": 3, "closer": [word for word, _ in asked["ship"][:2]]}
    odd = json.loads(cli("query", "odd-one-out", model, "ship", "sailor", "gull", "--json").out)
    assert odd["odd"] == odd["words"][-1][0]
    offsets = cli("query", "similarity", model, "ship", "gull", "--pair", "gull", "ship")
    assert offsets.out.strip() == "-1.0000  cosine of the offsets gull - ship and ship - gull"
    told = cli("query", "odd-one-out", model, "ship", "sailor", "gull").out
    assert told.startswith(f"the odd one out is {odd['odd']}\n")
    unknown = cli("query", "neighbours", model, "Ship")
    assert (unknown.code, "it knows 'ship'" in unknown.err) == (2, True)
    speechless = cli("query", "perplexity", model, "the ship")
    assert (speechless.code, "no probability of text" in speechless.err) == (2, True)

    out = tmp_path / "vectors.txt"
    assert cli("pull", model, "--format", "word2vec", "--out", str(out)).code == 0
    assert out.read_text().split()[1] == "8"
    summed_out = tmp_path / "summed.txt"
    written = cli(
        *("pull", model, "--format", "word2vec", "--vectors", "sum", "--out", str(summed_out))
    )
    assert (written.code, summed_out.read_text() != out.read_text()) == (0, True)
    folder = tmp_path / "native"
    refused = cli("pull", model, "--vectors", "sum", "--out", str(folder))
    assert (refused.code, "native format has all tables" in refused.err) == (2, True)
    assert cli("pull", model, "--out", str(folder)).code == 0
    same = json.loads(cli("query", "neighbours", str(folder), "ship", "-k", "3", "--json").out)
    assert same == asked


def test_evaluate_asks_for_something_to_evaluate_on(cli: Cli, trained: Any, tmp_path: Path) -> None:
    def check(done: Done, code: int, text: str) -> None:
        assert (done.code, text in done.err + done.out) == (code, True), done

    model = "sea-word2vec@champion"
    check(cli("evaluate", model), 2, "at least one of")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("ship\tsailor\t7.5\nwave\trope\t2.0\ngull\tisland\t4.0\n")
    check(cli("evaluate", model, "--similarity", str(pairs)), 0, "3 of 3 pairs")
    check(cli("evaluate", model, "--similarity", "/none.tsv"), 2, "/none.tsv")
    check(cli("evaluate", model, "--categorization", "ap"), 2, "--sets")
    (tmp_path / "pulled").mkdir()
    copy = str(tmp_path / "pulled" / "sea")
    assert cli("pull", model, "--out", copy).code == 0
    two = ("evaluate", model, copy, "--similarity", str(pairs))
    assert "mean ± sd" not in cli(*two).out  # a folder does not say how it was made
    check(cli(*two), 0, "undefined, 3 of 3 covered by both")
    both = json.loads(cli(*two, "--json").out)
    assert [len(one["scores"]) for one in both["models"]] == [1, 1]
    assert both["spread"][0]["name"] == both["difference"][0]["name"] == "similarity.pairs"
    assert both["spread"][0]["mean"] is None
