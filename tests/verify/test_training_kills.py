"""Training on two Ray workers: killed in part or whole, it ends as if it had never been."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psutil
import pytest

from tests.tasks.training.trainee import Log

pytestmark = [pytest.mark.verify, pytest.mark.timeout(900)]
PROGRAM = Path(__file__).with_name("train_on_ray.py")
LAST = 900
"""A step that a training reaches, but not its last."""


class Training:
    """The program of a training, run as often as it takes."""

    def __init__(self, home: Path, family: str = "nplm") -> None:
        self.home, self.log, self.family = home, Log(home.with_suffix(".log")), family

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.home), str(self.log.path), self.family],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])},
        )

    def finish(self, process: subprocess.Popen[str]) -> str:
        """Let it go on as fast as it can and wait for the end; the content hash of the model."""
        self.slow.unlink(missing_ok=True)
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        return out.split()[-1]

    @property
    def slow(self) -> Path:
        """Names the step from which on the training takes its time, so that it can be killed."""
        return self.log.path.with_suffix(".slow")

    def reach(self, process: subprocess.Popen[str], step: int) -> None:
        """Wait until the process itself tells of its work, and a step has been told."""
        before = self.lines()
        self.slow.write_text(str(step))
        while self.lines() == before or max(self.log.read()) < step:
            assert process.poll() is None, "it ended before the kill"
            time.sleep(0.02)

    def lines(self) -> int:
        """How many steps have been told, by this process and those before it."""
        return self.log.path.read_text().count("\n") if self.log.path.exists() else 0


def name(process: psutil.Process) -> str:
    """What a process calls itself, "" if it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


Calm = Callable[[str], tuple[str, Log]]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Calm:
    """What comes of a family's training that nothing befalls."""

    @cache
    def undisturbed(family: str) -> tuple[str, Log]:
        training = Training(tmp_path_factory.mktemp("calm") / "home", family)
        return training.finish(training.start()), training.log

    return undisturbed


@pytest.mark.parametrize("family", ["nplm", "rnnlm"])
def test_a_lost_worker_is_replaced_and_leaves_no_trace(
    family: str, tmp_path: Path, calm: Calm
) -> None:
    training, (known, told) = Training(tmp_path / "home", family), calm(family)
    process = training.start()
    step = random.randrange(50, LAST)
    training.reach(process, step)
    workers = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "RayTrainWorker" in name(child)
    ]
    assert len(workers) == 2
    random.choice(workers).kill()
    assert (training.finish(process), training.log.read()) == (known, told.read()), step


def test_a_lost_worker_of_a_sweep_is_replaced_and_leaves_no_trace(tmp_path: Path) -> None:
    calm, training = (Training(tmp_path / name, "word2vec") for name in ("calm", "killed"))
    known = calm.finish(calm.start())
    process = training.start()
    while training.lines() < 3:
        assert process.poll() is None, "it ended before the kill"
        time.sleep(0.02)
    family = psutil.Process(process.pid).children(recursive=True)
    random.choice([child for child in family if "RayTrainWorker" in name(child)]).kill()
    assert training.finish(process) == known


def test_a_killed_run_leaves_no_worker_and_its_rerun_ends_alike(tmp_path: Path, calm: Calm) -> None:
    training, (known, told) = Training(tmp_path / "home"), calm("nplm")
    steps = sorted(random.sample(range(50, LAST), 2))
    for step, everything in zip(steps, (False, True), strict=True):
        process = training.start()
        training.reach(process, step)
        family = psutil.Process(process.pid).children(recursive=True)
        names = {child.pid: name(child) for child in family}
        assert any("RayTrainWorker" in called for called in names.values())
        if everything:
            for child in family:
                child.send_signal(signal.SIGKILL)
        process.kill()
        process.wait()
        # Ray's own agents take their time; whatever works for the training is gone at once.
        working = [child for child in family if "Agent" not in names[child.pid]]
        _, alive = psutil.wait_procs(working, timeout=60)
        assert not [names[child.pid] for child in alive]
    assert training.finish(training.start()) == known, steps
    assert training.log.read() == told.read(), steps
    # What the training kept to go on from is gone with its end.
    assert not list((training.home / "store" / "checkpoint").glob("*"))
