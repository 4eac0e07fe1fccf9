"""A whole local stack on a tiny corpus, and its Prefect API as the UI uses it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil
import pytest

from pipelines import stack as stacks

FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
LEXLOOM = str(Path(sys.executable).with_name("lexloom"))


def lexloom(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line as a person does, with nothing but its home of ours."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LEXLOOM_", "PREFECT_"))}
    command = [LEXLOOM, *arguments, "--home", str(home)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=400)


@dataclass(frozen=True)
class Api:
    """The Prefect API of a server."""

    url: str

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The JSON answer to a request; HTTPError if it was refused."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api{path}", data, headers, method=method)
        while True:
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    text = response.read()
            except HTTPError as error:
                if error.code != 503:  # which asks for another try
                    raise
                time.sleep(1)
            else:
                return json.loads(text) if text else None

    def run(self, deployment: str, **parameters: object) -> str:
        """Create a run as the UI's form does, and return its id."""
        found = self.call("GET", f"/deployments/name/{deployment}")
        body = {"state": {"type": "SCHEDULED"}, "parameters": parameters}
        return str(self.call("POST", f"/deployments/{found['id']}/create_flow_run", body)["id"])

    def refusal(self, deployment: str, **parameters: object) -> str:
        """Why the server refuses to create a run."""
        with pytest.raises(HTTPError) as caught:
            self.run(deployment, **parameters)
        return caught.value.read().decode()

    def wait(self, run: str, *, seconds: float = 300, until: Sequence[str] = FINAL) -> Any:
        """The run once its state is of one of the given types."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.call("GET", f"/flow_runs/{run}")
            if found["state_type"] in until:
                return found
            assert time.monotonic() < deadline, f"{run} is still {found['state_name']}"
            time.sleep(0.5)

    def set_state(self, run: str, type: str, name: str) -> None:
        """Ask for another state, as the UI's buttons do."""
        body = {"state": {"type": type, "name": name}}
        self.call("POST", f"/flow_runs/{run}/set_state", body)

    def tasks(self, run: str) -> list[tuple[str, str]]:
        """The task runs of a run in order: name and state."""
        body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC"}
        found = self.call("POST", "/task_runs/filter", body)
        return [(task["name"], task["state_name"]) for task in found]

    def settled_tasks(self, run: str) -> list[tuple[str, str]]:
        """The task runs of a run that has ended; Prefect records them a moment later."""
        seen, since = self.tasks(run), time.monotonic()
        while time.monotonic() - since < 4:
            time.sleep(0.5)
            if (now := self.tasks(run)) != seen:
                seen, since = now, time.monotonic()
        return seen

    def artifacts(self, run: str) -> list[Any]:
        """The artifacts of a run."""
        body = {"artifacts": {"flow_run_id": {"any_": [run]}}}
        return list(self.call("POST", "/artifacts/filter", body))


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 1,500 made-up sentences over some thirty words."""
    draw = random.Random(7)
    nouns = [
        "cat",
        "dog",
        "bird",
        "fish",
        "tree",
        "house",
        "river",
        "stone",
        "child",
        "horse",
        "wolf",
        "boat",
    ]
    verbs = ["sees", "likes", "finds", "carries", "follows", "hears", "leaves", "watches"]
    colours = ["small", "old", "green", "quiet", "bright", "cold"]
    lines = []
    for _ in range(1500):
        words = ["the", draw.choice(colours), draw.choice(nouns), draw.choice(verbs)]
        words += ["a", draw.choice(colours), draw.choice(nouns), "."]
        lines.append(" ".join(words))
    path = tmp_path_factory.mktemp("corpus") / "text.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def recipe(corpus_file: Path) -> Path:
    """A config over that text whose every part takes a moment only."""
    path = corpus_file.with_name("tiny.yaml")
    path.write_text(f"""
corpus:
  name: tiny
  train: {{paths: [{corpus_file}]}}
families:
  ngram: {{order: 3}}
  word2vec: {{dim: 8, epochs: 1, min_count: 1}}
  nplm: {{embedding: 8, hidden: 8, epochs: 1, batch_size: 256}}
evaluation: {{similarity: [], analogy: []}}
""")
    return path


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stacks.Stack]:
    """The local stack, up; after the last test it must go down and leave nothing."""
    home = tmp_path_factory.mktemp("stack")
    ports = ["--prefect-port", "0", "--mlflow-port", "0", "--ray-port", "0"]
    started = lexloom("up", *ports, home=home)
    assert started.returncode == 0, started.stdout + started.stderr
    found = stacks.find(home)
    assert found is not None
    members = stacks.processes(found)
    yield found
    stopped = lexloom("down", home=home)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert stacks.find(home) is None
    assert not [member for member in members if member.is_running()]
    assert not [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if str(home) in " ".join(process.info["cmdline"] or [])
    ]


@pytest.fixture(scope="session")
def stack_home(stack: stacks.Stack) -> Path:
    """The home of the stack."""
    return Path(stack.logs).parent


@pytest.fixture(scope="session")
def api(stack: stacks.Stack) -> Api:
    """The Prefect API of the stack."""
    return Api(stack.prefect)
