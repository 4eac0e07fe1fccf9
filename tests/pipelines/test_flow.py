"""The flows on a real, temporary Prefect server, whose start takes most of the time."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_HOME,
    temporary_settings,
)
from prefect.testing.utilities import prefect_test_harness
from rich.console import Console

from models import word2vec
from models.families import FAMILIES
from pipelines import flow as flows
from pipelines.console import Watch
from pipelines.embeddings import embeddings
from pipelines.flow import concluding
from pipelines.settings import ENVIRONMENT
from pipelines.train import TRAIN_FLOWS, merged, train_word2vec
from tasks.cluster import RayCluster
from tasks.errors import InputError
from tasks.prefect_task import as_prefect_task


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("prefect")
    with temporary_settings({PREFECT_HOME: home}), prefect_test_harness(120):
        yield


@pytest.fixture(autouse=True)
def home(cli_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEXLOOM_HOME", str(cli_home))


def task_states(state: Any, *expected: str) -> dict[str, str]:
    """The states of a flow run's tasks by name, once those expected are recorded.

    Prefect records task runs from events, a moment after the flow has ended.
    """
    run = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    deadline = time.monotonic() + 60
    with get_client(sync_client=True) as client:
        while True:
            tasks = client.read_task_runs(flow_run_filter=run)
            final = {t.name: t.state_name or "" for t in tasks if t.state and t.state.is_final()}
            if len(final) == len(tasks) and set(expected) <= set(final):
                return final
            assert time.monotonic() < deadline, f"{expected} are not all among {final}"
            time.sleep(0.2)


def test_every_family_has_a_flow_of_its_own_with_its_settings_as_parameters() -> None:
    assert [flow.name for flow in TRAIN_FLOWS] == [f"train-{f.family}" for f in FAMILIES]
    schema = train_word2vec.parameters.properties
    assert schema["dim"]["default"] == 100
    assert schema["dim"]["minimum"] == 1
    assert schema["dim"]["description"] == "Width of the vectors"
    for parameter in ("recipe", "seed"):
        assert schema[parameter]["description"]


def test_a_flow_shows_its_steps_and_reuses_them(recipe: Path, ray_cluster: RayCluster) -> None:
    settings: Any = {"recipe": str(recipe), "dim": 7, "epochs": 1, "min_count": 1}
    first = train_word2vec(**settings, return_state=True)
    assert first.is_completed(), first.message
    second = train_word2vec(**settings, return_state=True)
    states = task_states(second, "report")
    assert states.pop("publish card") == "Completed"
    assert states.pop("register word2vec") == "Completed"
    assert states.pop("report") == "Completed"
    assert set(states.values()) == {"Reused"}
    assert "train word2vec" in states
    result = second.result()
    assert [row.family for row in result.rows] == ["word2vec"]
    assert all(outcome.reused for outcome in result.outcomes)
    assert "rank of the word" in result.report.read_text()


def test_the_report_is_named_without_a_link_that_browsers_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    monkeypatch.setattr(flows, "create_table_artifact", lambda *_, **__: None)
    monkeypatch.setattr(flows, "show_card", lambda *_: None)
    monkeypatch.setattr(flows, "create_markdown_artifact", lambda text, **_: made.append(text))
    result: Any = SimpleNamespace(
        corpus=SimpleNamespace(config=SimpleNamespace(name="sea")),
        rows=(), report=Path("/home/me/sea.html"), card=Path("/home/me/card.md"), published=None,
    )  # fmt: skip
    flows.show_result(result)
    assert made[0].startswith("`/home/me/sea.html`\n")
    assert "file:" not in made[0]


def test_four_flows_at_once_all_end_well() -> None:
    @flow
    def busy(number: int) -> int:
        for i in range(15):
            as_prefect_task(f"step {number}.{i}", lambda: number, lambda _: "")
        return number

    with ThreadPoolExecutor(4) as threads:
        states = list(threads.map(lambda n: busy(n, return_state=True), range(4)))
    assert [state.name for state in states] == ["Completed"] * 4
    for number, state in enumerate(states):
        expected = [f"step {number}.{i}" for i in range(15)]
        assert task_states(state, *expected) == dict.fromkeys(expected, "Completed")


def test_a_server_that_is_busy_is_asked_again() -> None:
    asked = []

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(503 if len(asked) < 8 else 200)
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Busy)
    Thread(target=server.serve_forever, daemon=True).start()
    changed = {
        PREFECT_API_URL: f"http://127.0.0.1:{server.server_port}/api",
        PREFECT_CLIENT_MAX_RETRIES: int(ENVIRONMENT["PREFECT_CLIENT_MAX_RETRIES"]),
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,
    }
    with temporary_settings(changed), get_client(sync_client=True) as client:
        assert client.read_flow_runs() == []
    server.shutdown()
    assert len(asked) == 8


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_flow_that_is_stopped_at_a_command_line_is_cancelled(end: type[BaseException]) -> None:
    @flow
    def stopped() -> None:
        def action() -> None:
            raise end

        return concluding(lambda: as_prefect_task("working", action, lambda _: ""))

    token = flows.watching.set(Watch(Console(file=io.StringIO())))
    state = stopped(return_state=True)
    flows.watching.reset(token)
    assert state.name == "Cancelled"
    assert "what was finished is kept" in str(state.message)


def test_a_permanent_error_comes_out_of_a_flow_as_it_is() -> None:
    calls = []

    @flow
    def failing() -> None:
        def action() -> None:
            calls.append(1)
            raise InputError("this file is broken", where="a.txt", remedy="mend it")

        return concluding(lambda: as_prefect_task("reading", action, lambda _: ""))

    with pytest.raises(InputError) as caught:
        failing()
    assert (caught.value.where, caught.value.remedy) == ("a.txt", "mend it")
    assert len(calls) == 1
    state = failing(return_state=True)
    assert state.is_failed()
    assert state.message == "a.txt: this file is broken\n  -> mend it"
    assert task_states(state, "reading") == {"reading": "Failed"}


def test_a_transient_error_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prefect.tasks.exponential_backoff", lambda backoff_factor: lambda n: [0.1])
    calls = []

    def action() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("nobody answers")
        return "answer"

    @flow
    def patient() -> str:
        return as_prefect_task("asking", action, lambda _: "")

    assert patient() == "answer"
    assert len(calls) == 3


def test_a_bug_is_not_tried_again() -> None:
    calls = []

    def action() -> None:
        calls.append(1)
        raise ZeroDivisionError

    @flow
    def broken() -> None:
        as_prefect_task("dividing", action, lambda _: "")

    with pytest.raises(ZeroDivisionError):
        broken()
    assert len(calls) == 1


def test_the_main_flow_refuses_a_config_before_it_starts(recipe: Path) -> None:
    state = embeddings(str(recipe), overrides=["families.word2vec.dmi=1"], return_state=True)
    assert state.is_failed()
    assert "there is no setting 'dmi'" in str(state.message)
    assert task_states(state) == {}


def test_a_form_changes_what_it_says_and_leaves_the_recipe_the_rest() -> None:
    config = word2vec.Config
    form = {"dim": 100, "window": 5, "epochs": 1}
    recipe = [{"family": "ngram", "order": 3}, {"family": "word2vec", "dim": 20, "epochs": 7}]
    assert merged(config, recipe, form) == {"family": "word2vec", "dim": 20, "epochs": 1}
    assert merged(config, recipe[:1], form) == {"family": "word2vec", "epochs": 1}
