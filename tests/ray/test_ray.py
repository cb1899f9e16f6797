"""Runs on Ray: a local cluster, and clusters of two nodes whose actors and nodes are killed.

Run by `just test-ray`, in an environment that has Ray; the folder is not collected elsewhere.
"""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import ray
import ray.cloudpickle
from ray._private.utils import get_ray_address_file
from ray.cluster_utils import Cluster

from rehearsal_room.harness.cluster import actor
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.scenarios import distribution
from rehearsal_room.scenarios.catalogue import find
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.cli import Rehearse
from tests.support.warm_process import Child, WarmProcess

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's own, of its Cluster
]
_WORLDS = ("shop_support", "claims_desk")
_EPISODES = 72
_PATIENCE = 90.0  # seconds
_STORE = 80 * 2**20


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, warm_cli: WarmProcess) -> Path:
    """A run of one process that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    words = ("run", *_WORLDS, "-n", _EPISODES, "-o", folder)
    assert warm_cli.start_command(*words, output=folder.parent / "out").wait() == 0
    return folder


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes with two CPUs each; the head notices a lost node within 2 s."""
    folder = tempfile.mkdtemp(prefix="rr-")  # short: it is part of the names of sockets
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    health = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 500,
        "health_check_failure_threshold": 3,
    }
    head = {
        "num_cpus": 2,
        "object_store_memory": _STORE,
        "include_dashboard": False,
        "temp_dir": folder,
        "_system_config": health,
    }
    # Cluster writes the address there, whatever folder it is given; a new machine has none.
    Path(get_ray_address_file(None)).parent.mkdir(parents=True, exist_ok=True)
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=2, object_store_memory=_STORE, temp_dir=folder)
    made.wait_for_nodes()
    try:
        yield made
    finally:
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


class Run:
    """A run on Ray that is under way."""

    def __init__(self, warm: WarmProcess, folder: Path, *flags: object) -> None:
        self.folder = folder
        self.output = folder.parent / f"{folder.name}.out"
        think = ("--think", "0.05:0.15", "-c", 12)
        engine = ("--engine", "ray", "--processes", 2)
        words = ("run", *_WORLDS, "-n", _EPISODES, *think, "-o", folder, *engine, *flags)
        self.child: Child = warm.start_command(*words, output=self.output)

    def wait_for(self, kind: str, num: int) -> None:
        """Wait until the log has so many records of this kind."""
        _until(lambda: self.child.poll() is not None or _count(self.folder, kind) >= num)
        assert self.child.poll() is None, self.output.read_text()

    def finish(self) -> str:
        """Wait for its end, which must be in order; returns its output."""
        status = self.child.wait(240)
        text = self.output.read_text()
        assert status == 0, text
        return text


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _count(folder: Path, kind: str) -> int:
    if not (folder / LOG_NAME).exists():
        return 0
    sql = "SELECT count(*) FROM events WHERE kind = ?"
    with closing(sqlite3.connect(folder / LOG_NAME)) as log:
        try:
            found: int = log.execute(sql, [kind]).fetchone()[0]
        except sqlite3.OperationalError:  # the log is being made
            return 0
    return found


def _actors(under: int | None = None) -> list[psutil.Process]:
    """The actors' processes, of one raylet or of all."""
    parents = psutil.process_iter() if under is None else [psutil.Process(under)]
    every = parents if under is None else psutil.Process(under).children(recursive=True)
    return [one for one in every if _title(one).startswith("ray::RolloutActor")]


def _title(process: psutil.Process) -> str:
    try:
        return (process.cmdline() or [""])[0]
    except psutil.Error:
        return ""


def _check_equal(folder: Path, undisturbed: Path) -> int:
    """Check that nothing was lost, doubled or changed; returns how many attempts went on after
    logged turns."""
    assert outcomes_of(folder) == outcomes_of(undisturbed)
    assert (folder / "report.json").read_bytes() == (undisturbed / "report.json").read_bytes()
    records = records_of(folder)
    verdicts = [one.episode for one in records if one.event.__struct_config__.tag == "judged"]
    assert sorted(verdicts) == [f"e{number:06d}" for number in range(_EPISODES)]
    return check_attempts(records)


def test_a_local_cluster_gives_the_same_and_leaves_nothing(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an address the run starts a cluster of its own: calls, states, verdicts and
    report.json are those of one process; its folder and processes are gone afterwards."""
    short = tempfile.mkdtemp(prefix="rr-")
    monkeypatch.setenv("TMPDIR", short)
    run = Run(warm_cli, tmp_path / "run")
    run.wait_for("ended", 1)
    assert len(_actors()) == 2
    run.finish()
    assert _check_equal(run.folder, undisturbed) == 0
    assert os.listdir(short) == []
    os.rmdir(short)
    _until(lambda: not _actors())


def test_a_node_that_is_removed_loses_and_doubles_nothing(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path, cluster: Cluster
) -> None:
    """One of two nodes is removed hard in mid-run: its episodes go on after their logged turns, on
    the other actor and on a new one of the node that is left."""
    run = Run(warm_cli, tmp_path / "run", "--address", cluster.address)
    run.wait_for("ended", 10)
    lost = cluster.list_all_nodes()[1]
    raylets = [info.process.pid for info in lost.all_processes["raylet"]]
    assert len(_actors(raylets[0])) == 1  # SPREAD: one actor on each node
    removed = time.time()
    cluster.remove_node(lost, allow_graceful=False)
    _until(lambda: "rollout_process_replaced" in run.output.read_text())
    detected = time.time()
    text = run.finish()
    assert text.count("rollout_process_replaced") == 1, text
    first = min(one.at for one in records_of(run.folder) if one.attempt > 1)
    sys.stdout.write(  # measured, not asserted: `just test-ray -s` shows it
        f"\na lost node: detected after {detected - removed:.2f} s, its first episode goes on "
        f"{first - detected:+.2f} s after that\n"
    )
    assert _check_equal(run.folder, undisturbed) > 0


def test_killed_actors_are_replaced(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path, cluster: Cluster
) -> None:
    """Actors whose process is killed are replaced, twice; nothing is lost or doubled."""
    run = Run(warm_cli, tmp_path / "run", "--address", cluster.address)
    for num in (8, 30):
        run.wait_for("ended", num)
        _actors()[0].kill()
    text = run.finish()
    assert text.count("rollout_process_replaced") == 2, text
    assert _check_equal(run.folder, undisturbed) > 0


def test_an_actor_that_comes_back_after_it_was_replaced_writes_nothing(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path, cluster: Cluster
) -> None:
    """An actor stands still for longer than --process-timeout and then goes on: it was replaced,
    and what it still sends does not reach the log."""
    flags = ("--address", cluster.address, "--process-timeout", 2)
    run = Run(warm_cli, tmp_path / "run", *flags)
    run.wait_for("ended", 8)
    stale = _actors()[0]
    stale.suspend()
    _until(lambda: "rollout_process_replaced" in run.output.read_text())
    before = _count(run.folder, "ended")
    stale.resume()
    run.wait_for("ended", before + 1)
    text = run.finish()
    assert text.count("no heartbeat for 2 s") == 1, text
    assert _check_equal(run.folder, undisturbed) > 0


def test_an_interrupted_run_goes_on_on_ray(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path, cluster: Cluster
) -> None:
    """Ctrl-C ends every episode as cancelled, in the log; --resume on Ray goes on after the logged
    turns, which the leases carry."""
    run = Run(warm_cli, tmp_path / "run", "--address", cluster.address)
    run.wait_for("ended", 12)
    run.child.send_signal(signal.SIGINT)
    assert run.child.wait(120) == 130, run.output.read_text()
    assert _count(run.folder, "started") == _count(run.folder, "ended") < _EPISODES
    _until(lambda: not _actors())
    words = ("run", "-o", run.folder, "--resume")
    assert warm_cli.start_command(*words, output=run.output).wait(200) == 0, run.output.read_text()
    assert _check_equal(run.folder, undisturbed) > 0


def test_the_actors_end_with_a_killed_driver(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path, cluster: Cluster
) -> None:
    """A driver that is killed leaves no actor; --resume in one process loses nothing."""
    run = Run(warm_cli, tmp_path / "run", "--address", cluster.address)
    run.wait_for("ended", 12)
    run.child.kill()
    run.child.wait()
    _until(lambda: not _actors())
    words = ("run", "-o", run.folder, "--resume", "--engine", "local", "--processes", 1)
    assert warm_cli.start_command(*words, output=run.output).wait() == 0, run.output.read_text()
    assert _check_equal(run.folder, undisturbed) > 0


def test_symmetric_run_as_on_slurm(tmp_path: Path) -> None:
    """`ray symmetric-run`, with which SLURM's example starts Ray on every node, runs the command on
    the cluster that it has started, also where Ray asks for a token."""
    alone = ("bwrap", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/")
    alone = (*alone, "--proc", "/proc")  # at its end it stops each Ray process that it sees
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="rr-")
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    started = ("--address", f"127.0.0.1:{port}", "--min-nodes", "1", "--num-cpus", "2")
    small = ("--object-store-memory", str(_STORE), "--include-dashboard", "false")
    run = ("-m", "rehearsal_room", "run", "shop_support", "-n", "12", "--processes", "2")
    engine = ("--engine", "ray", "--address", "auto", "-o", str(tmp_path / "run"))
    ray_command = (str(Path(sys.executable).parent / "ray"), "symmetric-run")
    words = (*ray_command, *started, *small, "--temp-dir", folder, "--", sys.executable, *run)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*alone, *words, *engine],
        env=os.environ | {"HOME": str(tmp_path), "PATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(outcomes_of(tmp_path / "run")) == 12


def test_what_a_cluster_cannot_do_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, cluster: Cluster
) -> None:
    """Too many CPUs, and a package that a node has in another form: one sentence, no folder."""
    base = ("run", "--engine", "ray", "--address", cluster.address, "-o", tmp_path / "run")
    status, _, err = rehearse(*base, "shop_support", "--actor-cpus", "3")
    assert (status, len(err.splitlines())) == (2, 1)
    assert err.startswith(
        "error: engine: the cluster has resources for 0 of 1 actors with CPU 3 each (its nodes: "
    )
    assert not (tmp_path / "run").exists()


def test_a_node_that_lacks_a_package_is_one_sentence(
    tmp_path: Path, warm_cli: WarmProcess, cluster: Cluster
) -> None:
    """An actor checks that its node has the scenarios with the driver's content: here the package
    changes after the driver has read it."""
    copy = tmp_path / "mine"
    shutil.copytree(find("shop_support").path, copy)
    run_words = ("run", copy, "-n", 4, "--engine", "ray", "--address", cluster.address)
    output, folder = tmp_path / "out", tmp_path / "run"
    child = warm_cli.start_command(*run_words, "-o", folder, output=output)
    _until(lambda: bool(_actors()) or child.poll() is not None)
    (copy / "policy.md").write_text("Other rules.")
    assert child.wait(120) == 2
    err = output.read_text()
    assert "has another scenario" in err or "cannot play" in err, err
    assert "Traceback" not in err
    assert not folder.exists()


def test_a_node_without_the_project_answers_with_one_sentence() -> None:
    """The actor's class travels by value: where the project is not installed it says so, and names
    the command that installs it."""
    ray.cloudpickle.register_pickle_by_value(actor)
    data = ray.cloudpickle.dumps(actor.RolloutActor)
    code = (
        "import asyncio, sys\n"
        f"sys.path.append({str(Path(ray.__file__).parent.parent)!r})\n"
        "import ray.cloudpickle\n"
        "made = ray.cloudpickle.loads(sys.stdin.buffer.read())\n"
        f"made = made('rehearsal-room', {distribution.version()!r}, 'pip install it')\n"
        "async def main():\n"
        "    return [one async for one in made.play(b'')]\n"
        "print(asyncio.run(main())[1])\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code]  # -S: no editable installs
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    text = done.stdout.decode()
    assert "cannot play: No module named 'rehearsal_room'" in text
    assert text.endswith("every node needs the same version of this package: pip install it\n")


async def test_a_node_with_another_version_answers_with_one_sentence() -> None:
    """The versions are compared before anything of the payload is read."""
    made = actor.RolloutActor("rehearsal-room", "0.1", "pip install it")
    _, sentence = [one async for one in made.play(b"not a payload")]
    assert sentence.startswith("node ")
    assert f" has version {distribution.version()} of rehearsal-room, the driver 0.1;" in sentence


def test_a_server_that_is_not_ray_is_one_sentence(tmp_path: Path, warm_cli: WarmProcess) -> None:
    """A port on which something else listens is refused, not waited for."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        words = ("run", "shop_support", "--engine", "ray", "--address", address)
        output = tmp_path / "out"
        child = warm_cli.start_command(*words, "-o", tmp_path / "run", output=output)
        assert child.wait(120) == 2
    err = output.read_text()
    assert err.splitlines()[-1].startswith(f"error: address: no Ray cluster answers at {address}")
