"""MLflow runs: one for every training, with its settings, live metrics and lineage.

A run is known by two tags, the recipe of the training and the store that the recipe lies in. A
training that was interrupted finds its run again by them and goes on in it; a reused model never
trains, so it never makes a run. Metrics leave from a thread of their own, so that a slow, locked
or dead MLflow neither stalls nor kills a training.

Labels (``Resources.labels``) that this module reads, all of them optional:

    experiment      the name of the experiment, which is the name of the corpus
    name            what to call the run; else "<experiment>-<family>"
    artifact_root   folder or URI for the artifacts of a new experiment; else "artifacts" beside
                    an SQLite database, or whatever the server says

Every other label becomes a tag ``lexloom.<label>``; usual ones are ``flow_run_id``,
``git_commit`` and ``corpus`` (the content of the corpus).
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import importlib.metadata
import json
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tasks.artifacts import Artifact, canonical_json
from tasks.errors import ConfigError
from tasks.step import Context
from tasks.training.tracker import Silent, Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

    from tasks.train import Train

logger = logging.getLogger(__name__)

RECIPE, STORE = "lexloom.recipe", "lexloom.store"
SEND_SECONDS = 1.0
"""Metrics are sent so often."""
BATCH = 1000
"""Metrics that MLflow takes at once."""
KEPT = 100_000
"""Metrics that wait for an MLflow that does not answer; older ones are lost."""
PATIENCE_SECONDS = 30.0
"""The end of a training waits so long for the last metrics to be taken."""


# --- MLflow ---------------------------------------------------------------------------------


def sqlite_path(tracking_uri: str) -> Path | None:
    """The database file of a tracking URI, None where MLflow is something else."""
    if not tracking_uri.startswith("sqlite:///"):
        return None
    return Path(tracking_uri.removeprefix("sqlite:///").partition("?")[0]).absolute()


@contextmanager
def answering(tracking_uri: str) -> Iterator[None]:
    """Failures to reach MLflow as ConnectionError, which is worth another try."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code in ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE"):
            first = str(error).splitlines()[0]
            raise ConnectionError(f"MLflow at {tracking_uri} does not answer: {first}") from error
        raise


@functools.cache
def connect(tracking_uri: str) -> MlflowClient:
    """A client of an MLflow; its SQLite database is made if there is none.

    Of many processes that start at once on a fresh database, one makes it and the others wait:
    MLflow itself has them all create the same tables.

    Raises:
        ConfigError: a folder as tracking URI, which MLflow no longer supports.
        ConnectionError: MLflow does not answer.
    """
    if "://" not in tracking_uri:
        raise ConfigError(
            f"{tracking_uri!r} is no address of an MLflow",
            where="MLFLOW_TRACKING_URI",
            remedy="give sqlite:////absolute/path/mlflow.db, http://host:port or the like",
        )
    from mlflow import MlflowClient

    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    with answering(tracking_uri):
        if database := sqlite_path(tracking_uri):
            database.parent.mkdir(parents=True, exist_ok=True)
            with database.with_name(f".{database.name}.lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not database.exists():
                    _make_database(database)
        return MlflowClient(tracking_uri, tracking_uri)


def _make_database(database: Path) -> None:
    """Make an SQLite database, whole or not at all; only under its lock."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    aside = database.with_name(f".{database.name}.new")
    aside.unlink(missing_ok=True)
    # The store of a client would give the default experiment, which UIs show, the folder "mlruns"
    # of wherever the process happens to be.
    artifacts = (database.parent / "artifacts").as_uri()
    store = SqlAlchemyStore(f"sqlite:///{aside}", artifacts)  # type: ignore[no-untyped-call]
    store.engine.dispose()
    aside.rename(database)


def experiment_id(client: MlflowClient, name: str, artifact_root: str = "") -> str:
    """The id of an experiment, made if there is none and restored if it was deleted."""
    from mlflow.exceptions import MlflowException

    for _ in range(2):
        if found := client.get_experiment_by_name(name):
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        if not artifact_root and (database := sqlite_path(client.tracking_uri)):
            artifact_root = (database.parent / "artifacts").as_uri()
        elif artifact_root.startswith("/"):
            artifact_root = Path(artifact_root).as_uri()
        location = f"{artifact_root.rstrip('/')}/{quote(name)}" if artifact_root else None
        # A run that starts at the same moment may make it first: then it is there to be found.
        with suppress(MlflowException):
            return str(client.create_experiment(name, location))
    raise ConnectionError(f"experiment {name!r} can neither be found nor made")


def find_run(
    client: MlflowClient, experiment_ids: list[str], recipe: str, store: str
) -> Run | None:
    """The run of a training, the oldest where there are several."""
    runs = client.search_runs(
        experiment_ids, f"tags.`{RECIPE}` = '{recipe}'", order_by=["attributes.start_time ASC"]
    )
    return next((run for run in runs if run.data.tags.get(STORE) == store), None)


def create_run(
    client: MlflowClient,
    experiment: str,
    recipe: str,
    store: str,
    params: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
    labels: Mapping[str, str],
) -> str:
    """A new run for a training, with its settings and lineage; returns its id.

    Args:
        client: of the MLflow.
        experiment: its id.
        recipe: of the training.
        store: its URL.
        params: of the training, as plain JSON.
        inputs: of the training.
        labels: see the module.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    family = str(params["family"]["family"])
    corpus = labels.get("experiment", "corpus")
    tags = {f"lexloom.{key}": value for key, value in labels.items() if value} | {
        RECIPE: recipe,
        STORE: store,
        "lexloom.family": family,
        "lexloom.version": version(),
        "mlflow.source.name": "lexloom",
        "mlflow.source.type": "JOB",
    }
    tags |= {f"lexloom.input.{role}": artifact.content for role, artifact in inputs.items()}
    if commit := labels.get("git_commit"):
        tags["mlflow.source.git.commit"] = commit
    name = labels.get("name") or f"{corpus}-{labels.get('family', family)}"
    run = client.create_run(experiment, tags=tags, run_name=name)
    datasets = [
        DatasetInput(
            Dataset(
                name=f"{corpus} {artifact.kind}",
                digest=artifact.content[:32],
                source_type="lexloom",
                source=json.dumps({"store": store, **artifact.to_json()}),
            ),
            [InputTag("mlflow.data.context", role)],
        )
        for role, artifact in inputs.items()
    ]
    client.log_inputs(run.info.run_id, datasets)
    return str(run.info.run_id)


def log_params(client: MlflowClient, run_id: str, params: Mapping[str, Any]) -> None:
    """The parameters of a training, one for every leaf; the family's settings without prefix."""
    from mlflow.entities import Param

    flat = dict(_flatten(params["family"]))
    flat |= dict(_flatten({key: value for key, value in params.items() if key != "family"}))
    client.log_batch(run_id, params=[Param(key, value) for key, value in sorted(flat.items())])


def _flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _flatten(item, f"{prefix}{key}.")
        else:
            yield prefix + key, item if isinstance(item, str) else json.dumps(item)


def version() -> str:
    """The version of lexloom that is installed."""
    try:
        return importlib.metadata.version("lexloom")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


# --- a training -----------------------------------------------------------------------------


@contextmanager
def open_tracker(
    context: Context, params: Train, inputs: Mapping[str, Artifact] | None = None
) -> Iterator[Tracker]:
    """A tracker for the training of one model: ``Silent`` without a tracking URI.

    The run ends as FINISHED, as FAILED with an error, or as KILLED where the process was asked to
    stop. One that was stopped without being asked stays RUNNING, and goes on when it is resumed.

    Args:
        context: of the step.
        params: of the step.
        inputs: of the step, for lineage.

    Raises:
        ConnectionError: MLflow does not answer at the beginning. Later it may come and go.
    """
    uri, labels = context.resources.tracking_uri, context.resources.labels
    if not uri:
        yield Silent()
        return
    client = connect(uri)
    plain = json.loads(canonical_json(params))
    with answering(uri):
        experiment = experiment_id(
            client, labels.get("experiment", "lexloom"), labels.get("artifact_root", "")
        )
        found = find_run(client, [experiment], context.recipe, context.store.url)
        last: dict[str, int] = {}
        if found:
            run_id = str(found.info.run_id)
            client.update_run(run_id, status="RUNNING")
            for key in found.data.metrics:
                last[key] = max(metric.step for metric in client.get_metric_history(run_id, key))
        else:
            run_id = create_run(
                client, experiment, context.recipe, context.store.url, plain, inputs or {}, labels
            )
        log_params(client, run_id, plain)
    live = Live(client, run_id, last)
    # A worker that is told to stop leaves without unwinding the thread that trains.
    atexit.register(live.close, "KILLED")
    status = "FAILED"
    try:
        yield live
        status = "FINISHED"
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        raise
    finally:
        atexit.unregister(live.close)
        live.close(status)


class Live:
    """Sends metrics to a run from a thread of its own, a batch a second.

    A batch that was not taken is sent again as it was, time stamps included, so MLflow keeps no
    metric twice. ``last`` is the last step of each metric that the run has: an interrupted
    training repeats the steps since its checkpoint, and those are passed over.
    """

    def __init__(self, client: MlflowClient, run_id: str, last: Mapping[str, int]) -> None:
        self._client, self.run_id, self._last = client, run_id, last
        self._waiting: deque[tuple[str, float, int, int]] = deque(maxlen=KEPT)
        self._batch: list[Metric] = []
        self._status = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True, name="mlflow-metrics")
        self._thread.start()

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Metrics at a step; returns at once."""
        now = time.time_ns() // 1_000_000
        for key, value in metrics.items():
            if step > self._last.get(key, -1) and math.isfinite(value):
                self._waiting.append((key, float(value), now, step))

    def close(self, status: str) -> None:
        """Send what is left and set the status of the run, in bounded time."""
        self._status = self._status or status
        self._closing.set()
        self._thread.join(PATIENCE_SECONDS)
        if lost := len(self._waiting) + len(self._batch):
            logger.warning("%d metrics of run %s did not reach MLflow", lost, self.run_id)
        elif self._thread.is_alive():
            logger.warning("run %s could not be closed in MLflow", self.run_id)

    def _work(self) -> None:
        while not self._closing.wait(SEND_SECONDS):
            self._send()
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not (self._send() and self._finish()) and time.monotonic() < give_up:
            time.sleep(SEND_SECONDS)

    def _send(self) -> bool:
        """Send what waits; False if MLflow did not take it."""
        from mlflow.entities import Metric

        while self._batch or self._waiting:
            while self._waiting and len(self._batch) < BATCH:
                self._batch.append(Metric(*self._waiting.popleft()))
            try:
                self._client.log_batch(self.run_id, metrics=self._batch)
            except Exception as error:
                logger.debug("MLflow did not take metrics: %s", error)
                return False
            self._batch = []
        return True

    def _finish(self) -> bool:
        try:
            self._client.set_terminated(self.run_id, self._status)
        except Exception as error:
            logger.debug("MLflow did not close the run: %s", error)
            return False
        return True
