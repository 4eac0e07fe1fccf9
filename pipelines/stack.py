"""The local stack: Prefect server and UI, a worker, the MLflow UI and one Ray that all runs share.

Everything listens on the loopback interface only. Every service leads a session of its own, and it
and whatever it starts carry the stack's mark in their environment. ``down`` finds them by either:
some leave the session, and some overwrite the memory in which the kernel shows their environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

from pipelines.settings import Settings
from tasks.errors import InputError, LexloomError

HOST = "127.0.0.1"
MARK = "LEXLOOM_STACK"
START_SECONDS = 180.0
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Ports:
    """Where the services listen; 0 takes any free port."""

    prefect: int = 4200
    mlflow: int = 5000
    ray: int = 6379


@dataclass(frozen=True)
class Stack:
    """A stack that is up.

    Attributes:
        mark: in the environment of its processes.
        prefect: its address.
        mlflow: the address of the MLflow UI, or of the MLflow server that was there already.
        ray: the address of Ray, ``host:port``.
        logs: the folder of the log files.
        sessions: led by its services, by name.
        booted: when this machine was, so that ids of processes mean something.
        deployments: what was registered.
    """

    mark: str
    prefect: str
    mlflow: str
    ray: str
    logs: str
    sessions: Mapping[str, int] = field(default_factory=dict)
    booted: int = 0
    deployments: tuple[str, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to work with this stack."""
        return {"PREFECT_API_URL": f"{self.prefect}/api", "LEXLOOM_RAY_ADDRESS": self.ray}


def find(home: Path) -> Stack | None:
    """The stack of a home, if one is up."""
    stack = _read(home)
    return stack if stack and processes(stack) else None


def processes(stack: Stack) -> list[psutil.Process]:
    """The processes of a stack that run now."""
    if abs(stack.booted - psutil.boot_time()) > 60:
        return []
    # A leader that is alive shows its mark; if it is dead, its id is not given out again while
    # anything of its session lives.
    sessions = {
        pid
        for pid in stack.sessions.values()
        if not psutil.pid_exists(pid) or _is_marked(pid, stack)
    }
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            ours = os.getsid(process.pid) in sessions or _is_marked(process.pid, stack)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _is_marked(pid: int, stack: Stack) -> bool:
    try:
        return bool(psutil.Process(pid).environ().get(MARK) == stack.mark)
    except (psutil.Error, OSError):
        return False


def up(settings: Settings, ports: Ports, say: Callable[[str], None] = lambda _: None) -> Stack:
    """Start the stack of a home and register the deployments; returns when all of it answers.

    Raises:
        InputError: a port is taken.
        LexloomError: a service did not start; its log is named.
    """
    home = settings.home
    with _exclusive(home):
        if stack := find(home):
            return stack
        logs = home / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(_ray_folder(home), ignore_errors=True)
        remote = settings.tracking_uri.startswith(("http://", "https://"))
        stack = Stack(
            mark=secrets.token_hex(8),
            prefect=f"http://{HOST}:{_port(ports.prefect, 'Prefect')}",
            mlflow=settings.tracking_uri
            if remote
            else f"http://{HOST}:{_port(ports.mlflow, 'MLflow')}",
            ray=f"{HOST}:{_port(ports.ray, 'Ray')}",
            logs=str(logs),
            booted=int(psutil.boot_time()),
        )
        # Written before anything starts: whatever happens, `down` finds what is there.
        _write(home, stack)
        try:
            return _start(settings, stack, own_mlflow=not remote, say=say)
        except BaseException:
            _stop(home)
            raise


def down(home: Path) -> int:
    """Stop the stack of a home; returns how many processes were stopped.

    Raises:
        LexloomError: a process could not be ended.
    """
    with _exclusive(home):
        return _stop(home)


# --- starting -------------------------------------------------------------------------------


def _start(
    settings: Settings, stack: Stack, *, own_mlflow: bool, say: Callable[[str], None]
) -> Stack:
    home = settings.home
    defaults = {
        # Runs are picked up soon; a poll costs this server little.
        "PREFECT_WORKER_QUERY_SECONDS": "3",
        # Why a 503 was answered stands in the log of the server.
        "PREFECT_SERVER_LOG_RETRYABLE_ERRORS": "true",
    }
    env = {**defaults, **os.environ, **stack.environment, MARK: stack.mark}

    def start(name: str, *command: str) -> subprocess.Popen[bytes]:
        nonlocal stack
        say(f"starting {name}")
        with (Path(stack.logs) / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=home,
                start_new_session=True,
            )
        stack = replace(stack, sessions={**stack.sessions, name: process.pid})
        _write(home, stack)
        return process

    prefect_port, ray_port = stack.prefect.rsplit(":", 1)[1], stack.ray.rsplit(":", 1)[1]
    server = start("prefect", "prefect", "server", "start", "--host", HOST, "--port", prefect_port)
    head = start(
        "ray", "ray.scripts.scripts", "start", "--head", "--block", "--node-ip-address", HOST,
        "--port", ray_port, "--num-cpus", str(settings.threads), "--include-dashboard", "false",
        "--object-store-memory", str(256 * 2**20), "--temp-dir", str(_ray_folder(home)),
        "--disable-usage-stats",
    )  # fmt: skip
    waiting = {
        "prefect": (server, lambda: _answers(f"{stack.prefect}/api/health")),
        "ray": (head, lambda: _listens(stack.ray)),
    }
    if own_mlflow:
        # A server would make the database in place, where a run that starts meanwhile finds half.
        _run_python(
            "from pipelines.settings import Settings; from tasks.mlflow_client import connect; "
            "connect(Settings.load().tracking_uri)",
            env,
            Path(stack.logs) / "database.log",
        )
        port = stack.mlflow.rsplit(":", 1)[1]
        # A viewer on the database that runs write to; it hands out no artifacts of its own.
        ui = start(
            "mlflow", "mlflow", "server", "--host", HOST, "--port", port, "--workers", "1",
            "--backend-store-uri", settings.tracking_uri, "--no-serve-artifacts",
            "--default-artifact-root", str(home / "artifacts"),
        )  # fmt: skip
        waiting["mlflow"] = (ui, lambda: _answers(f"{stack.mlflow}/health"))
    _await(waiting, stack.logs)

    say("registering deployments")
    names = _run_python(
        "from pipelines.deployments import register; from pipelines.settings import Settings; "
        "print(*register(Settings.load()), sep='\\n')",
        env,
        Path(stack.logs) / "deploy.log",
    )
    worker = start(
        "worker", "prefect", "worker", "start", "--pool", "lexloom", "--type", "process",
        "--name", "lexloom", "--install-policy", "never",
    )  # fmt: skip
    _await({"worker": (worker, lambda: _worker_is_online(stack))}, stack.logs)
    stack = replace(stack, deployments=tuple(names))
    _write(home, stack)
    return stack


def _await(
    waiting: Mapping[str, tuple[subprocess.Popen[bytes], Callable[[], bool]]], logs: str
) -> None:
    """Wait until every service answers."""
    deadline = time.monotonic() + START_SECONDS
    for name, (process, ready) in waiting.items():
        while not ready():
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise LexloomError(
                    f"{name} {'ended' if ended else 'did not answer'} while it was started",
                    where=f"{logs}/{name}.log",
                    remedy=_tail(Path(logs) / f"{name}.log"),
                )
            time.sleep(0.3)


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    return "its log ends with: " + " | ".join(lines[-3:])


def _run_python(code: str, env: Mapping[str, str], log: Path) -> list[str]:
    """The lines that a piece of Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    log.write_text(done.stdout + done.stderr)
    if done.returncode:
        raise LexloomError(
            f"the {log.stem} step of the start failed", where=str(log), remedy=_tail(log)
        )
    return done.stdout.split()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _listens(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((host, int(port))) == 0


def _worker_is_online(stack: Stack) -> bool:
    request = urllib.request.Request(
        f"{stack.prefect}/api/work_pools/lexloom/workers/filter",
        data=b"{}",
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return any(worker["status"] == "ONLINE" for worker in json.load(response))
    except OSError:
        return False


def _port(wanted: int, service: str) -> int:
    """A port that is free on the loopback interface.

    Raises:
        InputError: the wanted one is not.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError:
            option = f"--{service.lower()}-port"
            raise InputError(
                f"port {wanted}, where {service} is to listen, is taken",
                where=option,
                remedy=f"give another one, or 0 for any: lexloom up {option} 0",
            ) from None
        return int(probe.getsockname()[1])


# --- stopping -------------------------------------------------------------------------------


def _stop(home: Path) -> int:
    """Stop the worker and what it runs first, so that flow runs can still report; then the rest."""
    stack = _read(home)
    if stack is None:
        return 0
    count = len(processes(stack))
    leaders = dict(stack.sessions)
    worker = leaders.pop("worker", -1)
    services = set(leaders.values())
    _end(lambda: [p for p in processes(stack) if _session(p) not in services], {worker})
    _end(lambda: processes(stack), services)
    if left := processes(stack):
        raise LexloomError(
            f"processes {', '.join(str(process.pid) for process in left)} do not end",
            where=str(_state(home)),
        )
    _state(home).unlink(missing_ok=True)
    shutil.rmtree(_ray_folder(home), ignore_errors=True)
    return count


def _session(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except OSError:
        return -1


def _end(members: Callable[[], list[psutil.Process]], leaders: set[int]) -> None:
    """End processes: the leaders are asked to end the others first, then everyone, then killed."""
    for signal, to_leaders_only, patience in (
        ("terminate", True, STOP_SECONDS),
        ("terminate", False, 5.0),
        ("kill", False, 5.0),
    ):
        group = members()
        for process in group:
            if process.pid in leaders or not to_leaders_only:
                with contextlib.suppress(psutil.Error):
                    getattr(process, signal)()
        psutil.wait_procs(group, patience)


# --- where it is noted ----------------------------------------------------------------------


def _state(home: Path) -> Path:
    return home / "stack.json"


def _read(home: Path) -> Stack | None:
    try:
        value = json.loads(_state(home).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return Stack(**{**value, "deployments": tuple(value["deployments"])})


def _write(home: Path, stack: Stack) -> None:
    aside = _state(home).with_suffix(".new")
    aside.write_text(json.dumps(asdict(stack)))
    aside.replace(_state(home))


def _ray_folder(home: Path) -> Path:
    # Ray puts sockets there, whose paths must be short; a home may lie anywhere.
    name = hashlib.sha256(str(home).encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"lexloom-{os.getuid()}-{name}"


@contextlib.contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    """One `up` or `down` of a home at a time."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "stack.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
