"""The store and the runner: reuse, damage, kills, company, and the same on Ray and on S3."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest

from tasks.artifacts import Artifact
from tasks.cluster import RayCluster
from tasks.errors import InputError
from tasks.files import import_files
from tasks.ingest import INGEST
from tasks.readers import Ingest
from tasks.runner import Runner
from tasks.sources import Source, import_source
from tasks.step import execute
from tasks.storage import LocalFiles
from tasks.store import Store, Writer, map_tensors
from tests.tasks.steps import GENERATE, SHIFT, TOTAL, Size, pipeline

PROGRAM = Path(__file__).with_name("steps.py")


def work(runner: Runner) -> dict[str, int]:
    """Partitions computed, by step."""
    return {outcome.name: outcome.computed for outcome in runner.outcomes}


def test_a_second_run_computes_nothing_and_a_change_only_what_depends_on_it(store: Store) -> None:
    first, again, other = Runner(store), Runner(store), Runner(store)
    total = pipeline(first)
    assert work(first) == {"generate": 1, "shift": 3, "total": 1}
    assert store.reader(total).json("total.json") == sum(range(30))

    assert pipeline(again) == total
    assert work(again) == {"generate": 0, "shift": 0, "total": 0}
    assert all(outcome.reused for outcome in again.outcomes)

    assert pipeline(other, offset=1).content != total.content
    assert work(other) == {"generate": 0, "shift": 3, "total": 1}


def test_a_new_partition_leaves_the_others_alone(store: Store) -> None:
    pipeline(Runner(store), n=3)
    more = Runner(store)
    pipeline(more, n=5)
    assert work(more) == {"generate": 1, "shift": 2, "total": 1}


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest"])
def test_a_damaged_artifact_is_made_again_with_the_same_content(store: Store, damage: str) -> None:
    total = pipeline(Runner(store))
    manifest = store.manifest(total)
    part = Path(store.url, manifest.parts[0].path)
    if damage == "truncate":
        part.write_bytes(part.read_bytes()[:-1])
    elif damage == "remove":
        part.unlink()
    else:
        Path(store.url, total.step, total.recipe, "manifest.json").write_text('{"format": 1')
    with pytest.raises(InputError, match="not in the store, or not whole"):
        store.reader(total)
    again = Runner(store)
    assert pipeline(again).content == total.content
    assert work(again) == {"generate": 0, "shift": 0, "total": 1}


def test_a_failing_step_leaves_nothing_that_a_reader_accepts(store: Store) -> None:
    from tasks.step import Step

    def fail(context, readers, params):  # type: ignore[no-untyped-def]
        context.out.json("half.json", 1)
        raise OSError(28, "No space left on device")

    step = Step("fail", 1, "rows", fail)
    with pytest.raises(OSError, match="No space"):
        execute(step, store, {}, Size())
    recipe = next(Path(store.url, "fail").iterdir()).name
    assert store.find("fail", recipe) is None

    def succeed(context, readers, params):  # type: ignore[no-untyped-def]
        context.out.json("whole.json", 2)
        return {}

    manifest, reused = execute(Step("fail", 1, "rows", succeed), store, {}, Size())
    assert not reused
    assert [part.name for part in manifest.parts] == ["whole.json"]
    # The unfinished attempt is swept away with the next one.
    assert len(list(Path(store.url, "fail", recipe).glob("attempt-*"))) == 1


def start(folder: Path, delay: float) -> subprocess.Popen[bytes]:
    root = PROGRAM.parents[2]
    command = [sys.executable, str(PROGRAM), str(folder / "store"), "4", str(delay)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def test_killed_at_random_moments_the_rerun_gives_the_undisturbed_content(tmp_path: Path) -> None:
    undisturbed = json.loads(start(tmp_path / "a", 0.0).communicate()[0])["content"]
    rng = random.Random(5)
    kills = 0
    folder = tmp_path / "b"
    for _ in range(8):
        process = start(folder, 0.05)
        # Imports take about half a second; what follows is mostly spent between two parts.
        manifests = Path(folder, "store")
        while not manifests.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 2
    assert json.loads(start(folder, 0.0).communicate()[0])["content"] == undisturbed


def test_two_runs_at_once_share_their_work(tmp_path: Path) -> None:
    both = [start(tmp_path, 0.05) for _ in range(2)]
    results = [json.loads(process.communicate()[0]) for process in both]
    assert results[0]["content"] == results[1]["content"]
    # generate, four partitions of shift and total, each computed by one of the two.
    assert len(list(tmp_path.glob("store/*/*/attempt-*"))) == 6


def test_the_loser_of_a_race_adopts_the_winner(store: Store) -> None:
    first, _ = execute(GENERATE, store, {}, Size())
    out = Writer(store, "generate", first.recipe)
    out.json("late.json", 1)
    late = replace(first, parts=out.parts)
    assert store.commit(late) == first


def test_ray_makes_the_same_artifacts(
    store: Store, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    here = pipeline(Runner(store), n=7)
    elsewhere = Store(str(tmp_path / "other"), tmp_path / "cache")
    with_ray = Runner(elsewhere, ray=ray_cluster)
    assert pipeline(with_ray, n=7) == here
    assert work(with_ray) == {"generate": 1, "shift": 7, "total": 1}


def test_an_error_of_the_user_comes_out_of_ray_as_it_is(
    store: Store, ray_cluster: RayCluster
) -> None:
    missing = Artifact("rows", "generate", "0" * 64, "0" * 64)
    with pytest.raises(InputError, match="run the flow again"):
        Runner(store, ray=ray_cluster).run(TOTAL, {"rows": missing}, Size())


def test_partitions_must_match(store: Store) -> None:
    runner = Runner(store)
    three, four = runner.run(GENERATE, {}, Size(3)), runner.run(GENERATE, {}, Size(4))
    with pytest.raises(ValueError, match="partitions"):
        runner.map(SHIFT, {"rows": three, "other": four}, Size())


def test_files_are_keyed_by_their_bytes(store: Store, tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("text")
    two.write_text("text")
    artifact = import_files(store, [one], "source")
    assert import_files(store, [two], "source") == artifact
    one.write_text("TEXT")
    # The file it referred to holds other bytes of the same size: the other file takes its place.
    assert import_files(store, [two], "source") == artifact
    assert store.reader(artifact).path("file").read_text() == "text"
    one.unlink()
    with pytest.raises(InputError, match="No such file"):
        import_files(store, [one], "source")


def test_tensors_are_mapped_and_a_cut_file_is_refused(store: Store) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "b": np.array([], np.float32),
        "c": np.array([True, False]),
    }
    out = Writer(store, "t", "r" * 64)
    with out.path("t.safetensors") as path:
        import safetensors.numpy

        safetensors.numpy.save_file(arrays, path)
        kept = path.read_bytes()
    copy = Path(store.url, "copy")
    copy.write_bytes(kept)
    for key, value in map_tensors(copy).items():
        np.testing.assert_array_equal(value, arrays[key])
        assert value.dtype == arrays[key].dtype
    for size in (4, len(kept) - 1):
        copy.write_bytes(kept[:size])
        with pytest.raises(InputError):
            map_tensors(copy)


# --- an object store ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A bucket on an S3 emulator."""
    pytest.importorskip("s3fs")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    keys |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    before = {key: os.environ.get(key) for key in keys}
    os.environ |= keys
    boto3.client("s3").create_bucket(Bucket="lexloom")
    yield "s3://lexloom"
    server.stop()
    for key, value in before.items():
        os.environ.pop(key) if value is None else os.environ.update({key: value})


def test_an_object_store_keeps_the_same_contract(s3: str, store: Store, tmp_path: Path) -> None:
    remote = Store(f"{s3}/one", tmp_path / "fetched")
    first, again = Runner(remote), Runner(remote)
    total = pipeline(first)
    assert total == pipeline(Runner(store))
    assert pipeline(again) == total
    assert work(again) == {"generate": 0, "shift": 0, "total": 0}
    assert not remote.files.create(f"{total.step}/{total.recipe}/manifest.json", b"{}")
    remote.files.remove(remote.manifest(total).parts[0].path)
    assert pipeline(Runner(remote)) == total
    text = tmp_path / "text"
    text.write_text("bytes travel")
    assert remote.reader(import_files(remote, [text], "source")).path("file").read_text() == (
        "bytes travel"
    )


def test_a_corpus_on_an_object_store_is_the_corpus_here(
    s3: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.files.RANGE_BYTES", 100)
    remote = Store(f"{s3}/corpus", tmp_path / "fetched")
    texts = {"a.txt": "a small file\n", "b.txt": "".join(f"line {i}\n" for i in range(99))}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        fsspec.filesystem("s3").pipe(f"{s3}/texts/{name}", text.encode())
    fsspec.filesystem("s3").invalidate_cache()
    made = []
    for place, paths in (
        (store, f"{tmp_path}/*.txt"),
        (store, f"{s3}/texts/*.txt"),
        (remote, f"{s3}/texts/*.txt"),
    ):
        source = import_source(place, Source((paths,)))
        made.append(Runner(place).map(INGEST, {"source": source}, Ingest()))
    assert made[0] == made[1] == made[2]
    with pytest.raises(InputError, match="no file matches"):
        import_source(store, Source((f"{s3}/texts/*.md",)))
    with pytest.raises(InputError, match=r"cannot be fetched|no such file"):
        import_source(store, Source(("s3://no-such-bucket/x.txt",)))


def test_two_processes_on_an_object_store_end_with_one_set(s3: str, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tasks.store import Store;"
        "from tasks.runner import Runner; import tests.tasks.steps as steps;"
        "steps.DELAY = 0.05;"
        "print(steps.pipeline(Runner(Store(sys.argv[1], Path(sys.argv[2])))).content)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])}
    command = [sys.executable, "-c", program, f"{s3}/two", str(tmp_path)]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    contents = {process.communicate()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(contents) == 1
    remote = Store(f"{s3}/two", tmp_path)
    folders = [
        f"{step}/{r}" for step in ("generate", "shift", "total") for r in remote.files.names(step)
    ]
    attempts = [name for f in folders for name in remote.files.names(f) if "attempt" in name]
    assert len(attempts) == 5


def test_a_dead_holder_gives_up_its_lease(s3: str, tmp_path: Path) -> None:
    files = Store(f"{s3}/three", tmp_path).files
    assert not isinstance(files, LocalFiles)
    program = (
        "import os, sys; from pathlib import Path; from tasks.store import Store\n"
        "with Store(sys.argv[1], Path('.')).lease('s', 'r'): os._exit(1)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])}
    subprocess.run([sys.executable, "-c", program, f"{s3}/three"], env=environment, check=False)
    began = time.monotonic()
    with files.lease("s/r/lease"):
        assert time.monotonic() - began < 30
