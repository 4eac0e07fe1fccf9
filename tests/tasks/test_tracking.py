from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from models.word2vec import Config
from tasks import tracking
from tasks.artifacts import Artifact, recipe_of
from tasks.errors import ConfigError
from tasks.mlflow_client import connect
from tasks.step import Context, Resources
from tasks.store import Store, Writer
from tasks.tracking import Live, bury_dead, bury_dead_if_possible, open_tracker, read_curves
from tasks.train import Train
from tasks.training.tracker import Silent
from tests.tasks.trained import TEXT

TOKENS = Artifact("tokens", "tokenize", "1" * 64, "c0ffee" * 10 + "abcd")
LABELS = {"experiment": "tracked", "git_commit": "beef", "flow_run_id": "f-1", "corpus": "cafe"}


def context(store: Store, uri: str, recipe: str, labels: dict[str, str] | None = None) -> Context:
    resources = Resources(tracking_uri=uri, labels=LABELS if labels is None else labels)
    out = Writer(store, "train", recipe)
    return Context(store, recipe, out, resources, lambda done, total, unit: None)


def params(dim: int = 7) -> Train:
    return Train(Config(dim=dim), TEXT)


def recipe(seed: int) -> str:
    return recipe_of("train", 1, {"seed": seed}, {})


def runs(uri: str, recipe: str) -> list[Any]:
    client = connect(uri)
    everywhere = [e.experiment_id for e in client.search_experiments()]
    return list(client.search_runs(everywhere, f"tags.`lexloom.recipe` = '{recipe}'"))


def test_nothing_is_tracked_without_an_address(store: Store) -> None:
    with open_tracker(context(store, "", recipe(0)), params()) as tracker:
        assert isinstance(tracker, Silent)


def test_a_run_says_what_was_trained_on_what(store: Store, tracking_uri: str) -> None:
    with open_tracker(context(store, tracking_uri, recipe(1)), params(), {"train": TOKENS}) as t:
        t.log({"loss": 3.5, "tokens_per_second": 1e6}, 10)
        t.log({"loss": 2.5}, 20)
    (run,) = runs(tracking_uri, recipe(1))
    assert run.info.status == "FINISHED"
    assert run.data.params["dim"] == "7"
    assert run.data.params["text.tokenize.scheme"] == "words"
    assert run.data.metrics["loss"] == 2.5
    curves = read_curves(tracking_uri, run.info.run_id)
    assert curves == {"loss": [(10, 3.5), (20, 2.5)]}  # what was logged once is no curve
    tags = run.data.tags
    assert tags["lexloom.input.train"] == TOKENS.content
    assert (tags["lexloom.git_commit"], tags["lexloom.flow_run_id"]) == ("beef", "f-1")
    assert (tags["mlflow.source.git.commit"], tags["lexloom.corpus"]) == ("beef", "cafe")
    (dataset,) = run.inputs.dataset_inputs
    assert TOKENS.content.startswith(dataset.dataset.digest)
    client = connect(tracking_uri)
    experiment = client.get_experiment_by_name("tracked")
    home = Path(tracking_uri.removeprefix("sqlite:///")).parent
    assert experiment.artifact_location == (home / "artifacts" / "tracked").as_uri()


def test_an_interrupted_training_goes_on_in_its_run(store: Store, tracking_uri: str) -> None:
    at = context(store, tracking_uri, recipe(2))

    def train(steps: range, end: BaseException | None = None) -> None:
        with open_tracker(at, params()) as tracker:
            for step in steps:
                tracker.log({"loss": float(step)}, step)
            if end:
                raise end

    for end, status in ((ZeroDivisionError(), "FAILED"), (KeyboardInterrupt(), "KILLED")):
        with pytest.raises(type(end)):
            train(range(5), end)
        assert [run.info.status for run in runs(tracking_uri, recipe(2))] == [status]
    train(range(3, 8))  # goes on from a checkpoint at step 3
    (run,) = runs(tracking_uri, recipe(2))
    history = connect(tracking_uri).get_metric_history(run.info.run_id, "loss")
    assert sorted(metric.step for metric in history) == list(range(8))
    assert run.info.status == "FINISHED"
    other = Store(str(Path(store.url).with_name("other")), store.cache)
    with open_tracker(context(other, tracking_uri, recipe(2)), params()):
        pass
    assert len(runs(tracking_uri, recipe(2))) == 2  # of another store: no resumption of ours


def test_a_training_that_is_told_to_stop_or_dies(store: Store, tracking_uri: str) -> None:
    program = """
        import signal, sys, threading, time
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from tasks.store import Store
        from tasks.tracking import open_tracker
        from tests.tasks.test_tracking import context, params, recipe

        store, uri = Store(sys.argv[1], Path(sys.argv[1])), sys.argv[2]

        def train():
            with open_tracker(context(store, uri, recipe(int(sys.argv[3]))), params()) as tracker:
                for step in range(1000):
                    ThreadPoolExecutor(1).submit(tracker.log, {"loss": 1.0}, step).result()
                    if step == 3:
                        time.sleep(1.5)
                        print("training", flush=True)
                    time.sleep(0.05)

        threading.Thread(target=train, daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        time.sleep(60)
    """
    ends = {3: (signal.SIGTERM, "KILLED"), 4: (signal.SIGKILL, "RUNNING")}
    processes = {
        seed: subprocess.Popen(
            [
                *(sys.executable, "-c", textwrap.dedent(program)),
                *(store.url, tracking_uri, str(seed)),
            ],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for seed in ends
    }
    for seed, (killer, status) in ends.items():
        process = processes[seed]
        assert process.stdout is not None
        assert process.stdout.readline() == b"training\n"
        process.send_signal(killer)
        process.wait(20)
        process.stdout.close()
        (run,) = runs(tracking_uri, recipe(seed))
        assert run.info.status == status
        steps = connect(tracking_uri).get_metric_history(run.info.run_id, "loss")
        assert {0, 1, 2, 3} <= {metric.step for metric in steps}
    # Whoever trains next sees who is dead, and nobody else is taken for dead.
    with open_tracker(context(store, tracking_uri, recipe(6)), params()):
        assert [run.info.status for run in runs(tracking_uri, recipe(4))] == ["KILLED"]
        assert bury_dead(tracking_uri) == 0
        assert [run.info.status for run in runs(tracking_uri, recipe(6))] == ["RUNNING"]


def test_a_training_begun_anew_has_a_run_of_its_own(store: Store, tracking_uri: str) -> None:
    at = context(store, tracking_uri, recipe(7))
    for anew, factor in ((True, 1.0), (False, 3.0), (True, 2.0)):
        with open_tracker(at, params(), anew=anew) as tracker:
            for step in (10, 20):
                tracker.log({"loss": factor * step}, step)
        assert len(runs(tracking_uri, recipe(7))) == 1 + (factor == 2.0)
    client = connect(tracking_uri)
    newest = tracking.find_run(client, ["0", *_experiments(client)], recipe(7), store.url)
    assert newest is not None
    assert read_curves(tracking_uri, newest.info.run_id) == {"loss": [(10, 20.0), (20, 40.0)]}


def _experiments(client: Any) -> list[str]:
    return [one.experiment_id for one in client.search_experiments()]


class Flaky:
    """An MLflow that takes nothing at first, and in the middle takes a batch without saying so."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.taken, self.status = refusals, dict[Any, int](), ""

    def log_batch(self, run_id: str, metrics: list[Any]) -> None:
        self.refusals -= 1
        if self.refusals > 0:
            raise OSError("database is locked")
        for metric in metrics:
            self.taken[(metric.key, metric.step, metric.timestamp)] = metric.value
        if self.refusals == 0:
            raise OSError("the answer was lost")

    def set_terminated(self, run_id: str, status: str) -> None:
        self.status = status


def test_a_locked_mlflow_neither_stalls_nor_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "SEND_SECONDS", 0.02)
    client = Flaky(refusals=8)
    live = Live(client, "r", {"loss": 99})  # type: ignore[arg-type]
    began = time.monotonic()
    # Workers that are started anew in the middle tell what they told before.
    for step in (*range(2000), *range(500, 3000)):
        live.log({"loss": 0.5, "rate": 0.1, "broken": float("nan")}, step)
    assert time.monotonic() - began < 1
    live.close("FINISHED")
    assert client.status == "FINISHED"
    steps = [(key, step) for key, step, _ in client.taken]
    assert len(steps) == len(set(steps))
    assert set(steps) == {("loss", s) for s in range(100, 3000)} | {
        ("rate", s) for s in range(3000)
    }


def test_a_dead_mlflow_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracking, "SEND_SECONDS", 0.02)
    monkeypatch.setattr(tracking, "PATIENCE_SECONDS", 0.3)
    live = Live(Flaky(refusals=10**6), "r", {})  # type: ignore[arg-type]
    live.log({"loss": 1.0}, 0)
    began = time.monotonic()
    live.close("FINISHED")
    assert time.monotonic() - began < 2
    assert "1 metrics of run r did not reach MLflow" in caplog.text


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        connect(str(tmp_path / "mlruns"))


def test_a_server_that_is_not_there(store: Store) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9 does not answer"):
        open_tracker(context(store, "http://127.0.0.1:9", recipe(5)), params()).__enter__()
    assert time.monotonic() - began < 5


def test_a_server_that_is_too_old() -> None:
    class Old(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"2.9.1")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Old) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ConfigError, match=r"is 2\.9\.1; its client here is 3\."):
            connect(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_a_database_of_another_version(tracking_uri: str, tmp_path: Path) -> None:
    connect(tracking_uri)
    old = tmp_path / "old.db"
    shutil.copyfile(tracking_uri.removeprefix("sqlite:///"), old)
    with closing(sqlite3.connect(old)) as database:
        database.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
        database.commit()
    with pytest.raises(ConfigError, match="mlflow db upgrade"):
        connect(f"sqlite:///{old}").search_experiments()


def test_what_is_no_database_or_no_address(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_text("this is no database")
    with pytest.raises(ConfigError, match="file is not a database"):
        connect(f"sqlite:///{broken}").search_experiments()
    assert broken.read_text() == "this is no database"
    with pytest.raises(ConfigError, match="MLflow knows no such address"):
        connect("nosuch://x")


def test_tidying_up_makes_no_database_and_minds_no_failure(tmp_path: Path) -> None:
    database = tmp_path / "none" / "mlflow.db"
    bury_dead_if_possible(f"sqlite:///{database}")
    assert not database.parent.exists()
    broken = tmp_path / "broken.db"
    broken.write_text("this is no database")
    bury_dead_if_possible(f"sqlite:///{broken}")
    assert broken.read_text() == "this is no database"
