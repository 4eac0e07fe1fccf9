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
import importlib.metadata
import json
import logging
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from tasks.artifacts import Artifact, canonical_json
from tasks.mlflow_client import answering, connect, experiment_id, sqlite_path
from tasks.step import Context
from tasks.training.tracker import Silent, Tracker

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

logger = logging.getLogger(__name__)

RECIPE, STORE, PROCESS = "lexloom.recipe", "lexloom.store", "lexloom.process"
SEND_SECONDS = 1.0
"""Metrics are sent so often."""
BATCH = 1000
"""Metrics that MLflow takes at once."""
KEPT = 100_000
"""Metrics that wait for an MLflow that does not answer; older ones are lost."""
PATIENCE_SECONDS = 30.0
"""The end of a training waits so long for the last metrics to be taken."""


# --- runs -----------------------------------------------------------------------------------


def find_run(
    client: MlflowClient, experiment_ids: list[str], recipe: str, store: str
) -> Run | None:
    """The run of a training, the newest where there are several."""
    runs = client.search_runs(
        experiment_ids, f"tags.`{RECIPE}` = '{recipe}'", order_by=["attributes.start_time DESC"]
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


def trained_recipes(tracking_uri: str, store: str) -> set[str]:
    """The recipes of all trainings over a store whose runs were not deleted."""
    client = connect(tracking_uri)
    with answering(tracking_uri):
        everywhere = [one.experiment_id for one in client.search_experiments()]
        found: set[str] = set()
        token = None
        while everywhere:
            page = client.search_runs(everywhere, page_token=token)
            found |= {
                run.data.tags[RECIPE]
                for run in page
                if RECIPE in run.data.tags and run.data.tags.get(STORE) == store
            }
            token = page.token
            if not token:
                break
    return found


def read_curves(tracking_uri: str, run_id: str) -> dict[str, list[tuple[float, float]]]:
    """The metrics of a run that were logged more than once, as (step, value), by name."""
    client = connect(tracking_uri)
    with answering(tracking_uri):
        names = sorted(client.get_run(run_id).data.metrics)
        histories = {name: client.get_metric_history(run_id, name) for name in names}
    return {
        name: sorted((metric.step, metric.value) for metric in history)
        for name, history in histories.items()
        if len(history) > 1
    }


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
    context: Context,
    params: object,
    inputs: Mapping[str, Artifact] | None = None,
    *,
    anew: bool = False,
) -> Iterator[Tracker]:
    """A tracker for the training of one model: ``Silent`` without a tracking URI.

    The run ends as FINISHED, as FAILED with an error, or as KILLED where the process was asked to
    stop. A process that dies without being asked leaves it RUNNING, until ``bury_dead`` sees that.

    Args:
        context: of the step.
        params: of the step.
        inputs: of the step, for lineage.
        anew: the training has nothing to go on from, so a run that has ended is not its own.

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
        if found and not (anew and found.info.status == "FINISHED"):
            run_id = str(found.info.run_id)
            client.update_run(run_id, status="RUNNING")
            for key in found.data.metrics:
                last[key] = max(metric.step for metric in client.get_metric_history(run_id, key))
        else:
            run_id = create_run(
                client, experiment, context.recipe, context.store.url, plain, inputs or {}, labels
            )
        client.set_tag(run_id, PROCESS, _identity(os.getpid()))
        bury_dead(uri, experiment)
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
    except RuntimeError:
        if _is_leaving():
            status = "KILLED"
        raise
    finally:
        atexit.unregister(live.close)
        live.close(status)


def _is_leaving() -> bool:
    """Whether the interpreter leaves, so that thread pools refuse work of a thread that trains."""
    main = threading.main_thread()
    if threading.current_thread() is main:
        return False
    main.join(1.0)  # pools are closed a moment before it counts as stopped
    return not main.is_alive()


def bury_dead(tracking_uri: str, experiment: str = "") -> int:
    """Mark runs as KILLED whose process on this machine is no more; returns how many.

    Args:
        tracking_uri: of the MLflow.
        experiment: the id of the one to look into; all of them if empty.
    """
    client = connect(tracking_uri)
    with answering(tracking_uri):
        ids = [experiment] if experiment else [e.experiment_id for e in client.search_experiments()]
        here, dead = f"{socket.gethostname()}:", 0
        for run in client.search_runs(ids, "attributes.status = 'RUNNING'"):
            process = run.data.tags.get(PROCESS, "")
            if process.startswith(here) and process != _identity(int(process.split(":")[1])):
                client.set_terminated(run.info.run_id, "KILLED")
                dead += 1
    return dead


def bury_dead_if_possible(tracking_uri: str) -> None:
    """``bury_dead`` where there is an MLflow that lets us; tidying up must not stand in the way."""
    database = sqlite_path(tracking_uri)
    if database and not database.exists():
        return
    try:
        bury_dead(tracking_uri)
    except Exception as error:
        logger.debug("runs that were interrupted stay as they are: %s", error)


def _identity(pid: int) -> str:
    """The name of a process, with the time of its start: numbers of processes come again."""
    try:
        started = int(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return ""
    return f"{socket.gethostname()}:{pid}:{started}"


class Live:
    """Sends metrics to a run from a thread of its own, a batch a second.

    A batch that was not taken is sent again as it was, time stamps included, so MLflow keeps no
    metric twice. ``last`` is the last step of each metric that the run has: a training that was
    interrupted, or whose workers were started anew, tells steps again, and those are passed over.
    """

    def __init__(self, client: MlflowClient, run_id: str, last: Mapping[str, int]) -> None:
        self._client, self.run_id, self._last = client, run_id, dict(last)
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
                self._last[key] = step

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
