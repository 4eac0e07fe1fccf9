"""The local stack does what its UI promises: shown on a real server that the tests start and stop.

``lexloom down`` is proved by the teardown of the ``stack`` fixture.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from models.families import FAMILIES
from pipelines import stack as stacks

pytestmark = [pytest.mark.verify, pytest.mark.timeout(600)]

CORPUS = ["ingest train", "normalize train", "dedup train", "split train", "tokenize train"]


def computing(stack: stacks.Stack) -> list[int]:
    """The processes of the stack's Ray that are computing a step now."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        title = (process.info["cmdline"] or [""])[0]
        if title.startswith(("ray::_narrate", "ray::execute")):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(process.pid) == stack.sessions["ray"]:
                    found.append(process.pid)
    return found


def test_the_stack_listens_on_the_loopback_interface_only(stack: stacks.Stack) -> None:
    addresses = {
        connection.laddr.ip
        for process in stacks.processes(stack)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_deployments_are_registered_one_of_them_with_a_schedule(api: Any, stack: Any) -> None:
    families = [f"train-{config.family}/train-{config.family}" for config in FAMILIES]
    assert {"train-ngram/train-ngram", "train-nplm/train-nplm"} <= set(families)
    assert set(stack.deployments) == {
        "embeddings/embeddings", "embeddings/nightly", "corpus/corpus", *families,
    }  # fmt: skip
    (schedule,) = api.call("GET", "/deployments/name/embeddings/nightly")["schedules"]
    assert schedule["schedule"]["cron"] == "0 2 * * *"
    assert schedule["schedule"]["timezone"] == "UTC"


def test_registering_again_keeps_a_schedule_that_was_switched_on(
    api: Any, stack: stacks.Stack, stack_home: Path
) -> None:
    made = api.call("GET", "/deployments/name/train-ngram/train-ngram")["id"]
    # As the UI makes one: without a slug.
    hourly = {"schedule": {"cron": "0 * * * *", "timezone": "UTC"}, "active": False}
    api.call("POST", f"/deployments/{made}/schedules", [hourly])
    nightly = api.call("GET", "/deployments/name/embeddings/nightly")
    schedule = f"/deployments/{nightly['id']}/schedules/{nightly['schedules'][0]['id']}"
    api.call("PATCH", schedule, {"active": True})
    try:
        code = "from pipelines.cli import main; main()"
        env = {**os.environ, **stack.environment}
        command = [sys.executable, "-c", code, "deploy", "--home", str(stack_home)]
        subprocess.run(command, env=env, check=True, capture_output=True)
        (kept,) = api.call("GET", "/deployments/name/embeddings/nightly")["schedules"]
        assert kept["active"] is True
        (kept,) = api.call("GET", "/deployments/name/train-ngram/train-ngram")["schedules"]
        assert kept["schedule"]["cron"] == "0 * * * *"
    finally:
        api.call("PATCH", schedule, {"active": False})


def test_a_form_says_what_its_fields_mean_and_refuses_bad_values(api: Any) -> None:
    form = api.call("GET", "/deployments/name/train-word2vec/train-word2vec")
    field = form["parameter_openapi_schema"]["properties"]["dim"]
    assert field["minimum"] == 1
    assert field["description"]
    assert "dim" in api.refusal("train-word2vec/train-word2vec", dim=0)
    assert "window" in api.refusal("train-word2vec/train-word2vec", window="wide")


def test_a_run_with_a_changed_parameter_finishes_and_redoes_no_more(api: Any, recipe: Path) -> None:
    common = {"recipe": str(recipe), "epochs": 1, "min_count": 1}
    first = api.wait(api.run("train-word2vec/train-word2vec", **common, dim=8))
    assert first["state_type"] == "COMPLETED", first["state"]["message"]
    second = api.wait(api.run("train-word2vec/train-word2vec", **common, dim=12))
    assert second["state_type"] == "COMPLETED", second["state"]["message"]
    states = dict(api.settled_tasks(second["id"]))
    assert [states[name] for name in CORPUS] == ["Reused"] * len(CORPUS)
    assert states["vocabulary word2vec"] == "Reused"
    assert states["train word2vec"] == states["evaluate word2vec"] == "Completed"
    keys = {artifact["key"] for artifact in api.artifacts(second["id"])}
    assert {"leaderboard-tiny", "report-tiny"} <= keys


def test_an_error_that_no_retry_mends_is_the_message_of_the_state(api: Any) -> None:
    run = api.wait(api.run("embeddings/embeddings", recipe="nowhere"))
    assert run["state_type"] == "FAILED"
    assert run["state"]["message"].startswith("there is no recipe 'nowhere'")


def test_scheduled_runs_over_a_growing_folder_compute_what_is_new(api: Any, tmp_path: Path) -> None:
    """They start by themselves; a file more is one partition more, and what joins partitions."""
    draw = random.Random(3)
    words = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]

    def add(name: str) -> None:
        lines = (" ".join(draw.choices(words, k=12)) for _ in range(25_000))
        (tmp_path / name).write_text("\n".join(lines))  # large enough for a partition of its own

    add("monday.txt")
    add("tuesday.txt")
    config = tmp_path / "growing.yaml"
    train = f"{{paths: ['{tmp_path}/*.txt']}}"
    config.write_text(f"corpus: {{name: growing, train: {train}}}\nfamilies: {{ngram: {{}}}}")
    deployment = api.call("GET", "/deployments/name/corpus/corpus")["id"]
    wanted = {
        "deployments": {"id": {"any_": [deployment]}},
        "flow_runs": {"state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}},
    }

    def tonight(total: int) -> dict[str, str]:
        """What the steps of one scheduled run computed, of so many partitions."""
        # So long that runs do not pile up.
        body = {
            "schedule": {"interval": 40.0, "anchor_date": "2026-01-01T00:00:00Z"},
            "parameters": {"recipe": str(config)},
            "active": True,
        }
        (schedule,) = api.call("POST", f"/deployments/{deployment}/schedules", [body])
        try:
            deadline = time.monotonic() + 180
            while time.monotonic() < deadline:
                for run in api.call("POST", "/flow_runs/filter", wanted):
                    assert run["auto_scheduled"]
                    assert run["state_type"] == "COMPLETED", run["state"]["message"]
                    of = {"logs": {"flow_run_id": {"any_": [run["id"]]}}}
                    logs = str(api.call("POST", "/logs/filter", of))
                    found = re.findall(r"(\w+ train): [\d.]+ s, (\d+) of (\d+) partitions", logs)
                    steps = {step: f"{computed} of {all_}" for step, computed, all_ in found}
                    # Lines of a log arrive when they like, so that of the last step is awaited.
                    if steps.get("tokenize train", "").endswith(f" of {total}"):
                        return steps
                time.sleep(1)
        finally:
            api.call("DELETE", f"/deployments/{deployment}/schedules/{schedule['id']}")
        raise AssertionError("no scheduled run has finished")

    assert set(tonight(2).values()) == {"2 of 2"}
    add("wednesday.txt")
    grown = tonight(3)
    assert {"ingest train", "normalize train", "tokenize train"} <= set(grown)
    assert set(grown.values()) == {"1 of 3"}


def test_a_failed_run_that_is_retried_redoes_only_what_failed(api: Any, recipe: Path) -> None:
    config = recipe.with_name("failing.yaml")
    # Another width than in the other tests: what they trained would be reused here.
    good = recipe.read_text().replace("name: tiny", "name: failing").replace("dim: 8", "dim: 9")
    config.write_text(good.replace("min_count: 1", "min_count: 1000000"))
    run = api.run("embeddings/embeddings", recipe=str(config), families=["ngram", "word2vec"])
    failed = api.wait(run)
    assert failed["state_type"] == "FAILED"
    assert "no word" in failed["state"]["message"]
    first = dict(api.settled_tasks(run))
    assert (first["train ngram"], first["train word2vec"]) == ("Completed", "Failed")

    config.write_text(good)
    api.set_state(run, "SCHEDULED", "AwaitingRetry")
    api.wait(run, until=("PENDING", "RUNNING"))
    mended = api.wait(run)
    assert mended["state_type"] == "COMPLETED", mended["state"]["message"]
    assert mended["run_count"] == 2
    again = dict(api.settled_tasks(run))  # of each name the last
    assert [again[name] for name in CORPUS] == ["Reused"] * len(CORPUS)
    assert (again["train ngram"], again["train word2vec"]) == ("Reused", "Completed")


def test_a_cancelled_run_leaves_no_ray_task(api: Any, recipe: Path, stack: stacks.Stack) -> None:
    run = api.run("train-nplm/train-nplm", recipe=str(recipe), epochs=100_000, hidden=8)
    deadline = time.monotonic() + 120
    while dict(api.tasks(run)).get("train nplm") != "Running" or not computing(stack):
        assert time.monotonic() < deadline, api.tasks(run)
        time.sleep(0.5)
    time.sleep(3)
    api.set_state(run, "CANCELLING", "Cancelling")
    assert api.wait(run, seconds=60)["state_type"] == "CANCELLED"
    deadline = time.monotonic() + 30
    while computing(stack):
        assert time.monotonic() < deadline, "Ray goes on with a cancelled run"
        time.sleep(0.5)


def test_runs_at_the_same_time_share_one_ray(api: Any, recipe: Path, stack: stacks.Stack) -> None:
    """A training takes all CPUs of the stack's Ray, so another one waits for it to end."""
    runs = [
        api.run("train-word2vec/train-word2vec", recipe=str(recipe), dim=dim, epochs=200)
        for dim in (30, 40)
    ]
    samples = []
    deadline = time.monotonic() + 300
    while any(api.call("GET", f"/flow_runs/{run}")["end_time"] is None for run in runs):
        samples.append(len(computing(stack)))
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [api.wait(run)["state_type"] for run in runs] == ["COMPLETED"] * 2
    assert samples.count(1) > 10
    assert samples.count(2) < samples.count(1) / 4
    assert max(samples) <= 2


def test_the_command_line_joins_the_stack_of_its_home(
    api: Any, recipe: Path, stack_home: Path
) -> None:
    before = len(api.call("POST", "/flow_runs/filter", {}))
    code = "from pipelines.cli import main; main()"
    command = [sys.executable, "-c", code, "run", str(recipe), "--families", "ngram", "--json"]
    done = subprocess.run(
        [*command, "--home", str(stack_home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["models"][0]["promoted"]
    assert len(api.call("POST", "/flow_runs/filter", {})) == before + 1
