from __future__ import annotations

import io
import logging
import time
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.console import Pace, Watch, far, human, quieten, span
from tasks.artifacts import Artifact
from tasks.runner import Outcome


def outcome(name: str, *, reused: bool, computed: int = 1, total: int = 1) -> Outcome:
    artifact = Artifact("model", "train", "r" * 64, "c" * 64)
    return Outcome(artifact, name, reused, 12.3, computed, total, {})


def test_numbers_and_times_are_short() -> None:
    assert [human(n) for n in (0, 999, 1234, 45_678, 3.2e6, 9.99e9)] == [
        "0", "999", "1.2k", "46k", "3.2M", "10G",
    ]  # fmt: skip
    assert [span(s) for s in (0.44, 12.4, 59.9, 185, 3723)] == [
        "0.4 s", "12 s", "60 s", "3:05", "1:02:03",
    ]  # fmt: skip
    assert far(250, 1000, "words", 50) == "250/1.0k words, 50/s, 15 s left"
    assert far(0, 1000, "words") == "0/1.0k words"
    assert far(250, 0, "pages", 50) == "250 pages, 50/s"


def test_a_rate_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    assert pace.tell(0, 500, "words") == 0  # found done
    rates = [pace.tell(t, 500 + 10 * t, "words") for t in range(1, 101)]
    assert rates[0] == rates[-1] == pytest.approx(10)
    rates = [pace.tell(100 + t, 1500 + 50 * t, "words") for t in range(1, 41)]
    assert rates[4] < rates[-1] == pytest.approx(50)
    # Something else under the same name begins anew.
    assert pace.tell(141, 5, "questions") == 0
    assert pace.tell(143, 25, "questions") == pytest.approx(10)


def test_lines_without_a_terminal_tell_the_true_count(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now = io.StringIO(), 0.0
    monkeypatch.setattr("pipelines.console.time.monotonic", lambda: now)
    with Watch(Console(file=out, width=20)) as watch, watch.doing("pull"):
        for now in range(0, 64, 4):
            watch.advance("pull", 100 + now, 200, "words")
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[0] == "pull ..."
    assert [line.split()[1] for line in lines[1:-1]] == ["116/200", "132/200", "148/200"]
    assert lines[1].endswith("116/200 words, 1/s, 84 s left".replace("84 s", "1:24"))
    assert lines[-1].split() == ["pull", "1:00"]


def test_a_file_gets_a_line_for_each_step_and_no_control_characters() -> None:
    out = io.StringIO()
    with Watch(Console(file=out, width=80)) as watch:
        watch.begin("train word2vec")
        watch.advance("train word2vec", 10, 100, "words")
        watch.end(outcome("train word2vec", reused=False))
        watch.end(outcome("ingest", reused=True))
        watch.end(outcome("tokenize", reused=False, computed=2, total=5))
    lines = [line.split(maxsplit=2) for line in out.getvalue().splitlines()]
    assert lines[0] == ["train", "word2vec", "12 s"]
    assert lines[1][:2] == ["ingest", "reused"]
    assert out.getvalue().splitlines()[2].endswith("12 s, 2 of 5 partitions")
    assert "\x1b" not in out.getvalue()


def test_a_terminal_gets_a_bar_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True)
    with Watch(console) as watch:
        watch.begin("train word2vec")
        watch.advance("train word2vec", 0, 1000, "words")
        now = time.monotonic()
        monkeypatch.setattr("pipelines.console.time.monotonic", lambda: now + 5)
        watch.advance("train word2vec", 500, 1000, "words")
        assert watch._bars is not None
        watch._bars.refresh()
    text = out.getvalue()
    assert "train word2vec" in text
    assert "500/1.0k words, 100/s, 5.0 s left" in text


@pytest.mark.usefixtures("environment")
def test_what_libraries_say_goes_to_a_file(tmp_path: Path) -> None:
    shown = io.StringIO()
    logger = logging.getLogger("somelibrary")
    logger.handlers = [logging.StreamHandler(shown)]
    logger.propagate = False
    quieten(tmp_path / "logs" / "run.log")
    logger.warning("noise")
    assert shown.getvalue() == ""
    assert "WARNING somelibrary: noise" in (tmp_path / "logs" / "run.log").read_text()
