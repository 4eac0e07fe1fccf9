"""Where things live and with how much of the machine to work: settings of a place, not of a run.

Nothing here changes what a run makes. Every field is read from ``LEXLOOM_<FIELD>``.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import available_timezones

from pydantic import AfterValidator, AliasChoices, ByteSize, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from pipelines.wording import plainly
from tasks.errors import ConfigError

if TYPE_CHECKING:
    from tasks.step import Resources


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _timezone(name: str) -> str:
    if name not in available_timezones():
        raise ValueError("there is no such time zone")
    return name


class Settings(BaseSettings):
    """Settings of this place; make one with ``Settings.load``.

    Attributes:
        home: the folder of everything that lexloom keeps, unless said otherwise below.
        store: a folder, or any URL that fsspec knows (``s3://bucket/prefix``).
        tracking_uri: where MLflow keeps runs and registered models.
        ray_address: of a running Ray to compute on; empty starts one for each run.
        memory: bytes that the tables of a step may take; what is larger goes through the disk.
        threads: threads that a step may use, and the CPUs of a Ray started here.
        workers: processes of a distributed training.
        gpus: GPUs of each of these workers.
        timezone: of the schedules that ``lexloom deploy`` makes.
    """

    model_config = SettingsConfigDict(env_prefix="LEXLOOM_", frozen=True, env_ignore_empty=True)

    home: Path = Path("~/.lexloom")
    store: str = ""
    tracking_uri: str = Field(
        default="",
        validation_alias=AliasChoices("LEXLOOM_TRACKING_URI", "MLFLOW_TRACKING_URI"),
    )
    ray_address: str = ""
    memory: ByteSize = Field(default=ByteSize(2**30), ge=2**20)
    threads: int = Field(default_factory=_cpus, ge=1)
    workers: int = Field(default=1, ge=1)
    gpus: int = Field(default=0, ge=0)
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"

    def model_post_init(self, _context: Any) -> None:
        """Fill in what follows from ``home``."""
        home = self.home.expanduser().absolute()
        derived = {
            "home": home,
            "store": self.store or str(home / "store"),
            "tracking_uri": self.tracking_uri or f"sqlite:///{home / 'mlflow.db'}",
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def resources(self) -> Resources:
        """With what the steps of a run work that is no training."""
        from tasks.step import Resources

        return Resources(threads=self.threads, memory=int(self.memory))

    @staticmethod
    def load() -> Settings:
        """The settings in the environment.

        Raises:
            ConfigError: one of the variables has a value that cannot be used.
        """
        try:
            return Settings()
        except ValidationError as error:
            first = error.errors()[0]
            name = "_".join(str(part) for part in first["loc"]).upper()
            where = name if name.endswith("TRACKING_URI") else f"LEXLOOM_{name}"
            raise ConfigError(
                plainly(first)[0],
                where=where,
                remedy="change or unset this environment variable",
            ) from None


ENVIRONMENT = {
    # Nothing that we build on tells anybody anything.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_V2_ENABLED": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Nothing from a registry is unpickled.
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    # The MLflow server here shows runs and models; its job runner costs half a minute of start.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # On a fresh home the temporary server migrates its database: half a minute alone on a machine,
    # and more than two beside work that takes all of it.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "900",
    # On a busy machine SQLite may take longer than 10 s to get its turn.
    "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
    "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": "60",
    # It then answers 503, and clients try again after 2, 4, 8 ... seconds.
    "PREFECT_CLIENT_MAX_RETRIES": "7",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray's default of 15 starves training on a machine that does anything else.
    "RAY_worker_niceness": "0",
    "TOKENIZERS_PARALLELISM": "false",
    # Threads that spin while they wait cost several times the work itself on a shared machine.
    "OMP_WAIT_POLICY": "passive",
}
"""Environment of every process of ours, unless the user has set the variable."""


def prepare_environment(settings: Settings, *, verbose: bool = False) -> None:
    """Set the environment of this process and of all that it starts.

    Call it before Prefect, Ray or MLflow is imported: they read theirs on import. A variable
    that is set already stays as it is.
    """
    home = settings.home
    token = home / "ray" / "token"
    values = ENVIRONMENT | {
        "LEXLOOM_HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "NUMBA_CACHE_DIR": str(home / "numba"),
        # Ray's own default is a token in ~/.ray that everybody may read.
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
    }
    if not settings.ray_address or settings.ray_address.startswith("127.0.0.1:"):
        # A Ray of this machine alone then listens on the loopback interface only.
        values["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if not verbose:
        values |= {"PREFECT_LOGGING_LEVEL": "WARNING", "PREFECT_LOGGING_SERVER_LEVEL": "ERROR"}
    for name, value in values.items():
        os.environ.setdefault(name, value)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"this folder cannot be made: {os.strerror(error.errno or 0)}",
            where=str(home),
            remedy="name one that can be written to with --home or LEXLOOM_HOME",
        ) from None
    if not token.exists():
        token.parent.mkdir(mode=0o700, exist_ok=True)
        _write_secret(token)


def _write_secret(path: Path) -> None:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    try:
        os.link(aside, path)  # of two that start at once the first wins
    except FileExistsError:
        pass
    finally:
        aside.unlink()
