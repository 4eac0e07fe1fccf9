"""The connection to MLflow: an SQLite database of our own, or a server."""

from __future__ import annotations

import fcntl
import functools
import importlib.metadata
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tasks.errors import ConfigError

if TYPE_CHECKING:
    from mlflow import MlflowClient

ADDRESSES = "give sqlite:////absolute/path/mlflow.db, http://host:port or the like"
SERVER_MAJOR = 3
"""The first major version of MLflow that keeps models as we register them."""


def sqlite_path(tracking_uri: str) -> Path | None:
    """The database file of a tracking URI, None where MLflow is something else."""
    if not tracking_uri.startswith("sqlite:///"):
        return None
    return Path(tracking_uri.removeprefix("sqlite:///").partition("?")[0]).absolute()


@contextmanager
def answering(tracking_uri: str) -> Iterator[None]:
    """Failures to reach MLflow as ConnectionError, which is worth another try."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking.registry import UnsupportedModelRegistryStoreURIException
    from sqlalchemy.exc import DatabaseError

    try:
        yield
    except UnsupportedModelRegistryStoreURIException as error:
        raise ConfigError(
            "MLflow knows no such address", where=tracking_uri, remedy=ADDRESSES
        ) from error
    except DatabaseError as error:
        raise ConfigError(
            f"the database of MLflow cannot be used: {error.orig}",
            where=tracking_uri,
            remedy="if it is no database, move it away: a new one is made",
        ) from error
    except MlflowException as error:
        first = str(error).splitlines()[0]
        if "out-of-date database schema" in first:
            raise ConfigError(
                "this database was made by another version of MLflow",
                where=tracking_uri,
                remedy=f"keep a copy of it, then run: mlflow db upgrade {tracking_uri}",
            ) from error
        if error.error_code in ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE"):
            raise ConnectionError(f"MLflow at {tracking_uri} does not answer: {first}") from error
        raise


@functools.cache
def connect(tracking_uri: str) -> MlflowClient:
    """A client of an MLflow; its SQLite database is made if there is none.

    Of many processes that start at once on a fresh database, one makes it and the others wait:
    MLflow itself has them all create the same tables.

    Raises:
        ConfigError: a folder as tracking URI, which MLflow no longer supports; a server or
            database of another version.
        ConnectionError: MLflow does not answer.
    """
    if "://" not in tracking_uri:
        raise ConfigError(
            f"{tracking_uri!r} is no address of an MLflow",
            where="MLFLOW_TRACKING_URI",
            remedy=ADDRESSES,
        )
    from mlflow import MlflowClient

    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
    with answering(tracking_uri):
        if database := sqlite_path(tracking_uri):
            database.parent.mkdir(parents=True, exist_ok=True)
            with database.with_name(f".{database.name}.lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not database.exists():
                    _make_database(database)
        elif tracking_uri.startswith("http"):
            _meet_server(tracking_uri)
        return MlflowClient(tracking_uri, tracking_uri)


def _meet_server(tracking_uri: str) -> None:
    """Refuse a server that is not there, or too old: MLflow tries for minutes, then is obscure."""
    try:
        with urllib.request.urlopen(f"{tracking_uri.rstrip('/')}/version", timeout=15) as answer:
            server = answer.read(100).decode("ascii", "replace").strip()
    except urllib.error.HTTPError:
        return  # something answers, if not to strangers
    except OSError as error:
        if "SSL" in str(error):
            return  # the client of MLflow has settings for that
        problem = f"MLflow at {tracking_uri} does not answer: {error}"
        raise ConnectionError(problem) from error
    major = server.partition(".")[0]
    if major.isdigit() and int(major) < SERVER_MAJOR:
        raise ConfigError(
            f"this MLflow is {server}; its client here is {importlib.metadata.version('mlflow')}",
            where=tracking_uri,
            remedy=f"use a server of version {SERVER_MAJOR} or newer",
        )


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
