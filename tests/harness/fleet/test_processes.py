"""Runs with several rollout processes, which are killed, stopped and interrupted. All are real."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from rehearsal_room.harness.core.errors import ProcessError, SettingsError
from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.fleet.coordinator import start_workers
from rehearsal_room.harness.fleet.engine import share_of
from rehearsal_room.harness.fleet.faults import WorkerTraceback
from rehearsal_room.harness.fleet.messages import FromWorker, from_worker
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.rollout.session import sole_exception
from rehearsal_room.harness.settings.policy import PolicySettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios import distribution
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.broker import running_broker
from tests.support.cli import Rehearse
from tests.support.judge_server import Speaks, good
from tests.support.judged_runs import COMPLETED, no_environment, served
from tests.support.warm_process import Child, WarmProcess

_WORLDS = ("shop_support", "claims_desk")
_EPISODES = 72
_THINK = ("--think", "0.01:0.04")
_PATIENCE = 30.0  # seconds
_OTHER_VERSION = (
    r"^rollout process \d \(pid \d+\) has version 0\.1 of rehearsal-room, this process \S+; "
    "install the same version everywhere$"
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, warm_cli: WarmProcess) -> Path:
    """A run of one process that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    words = ("run", *_WORLDS, "-n", _EPISODES, "-o", folder)
    assert warm_cli.start_command(*words, output=folder.parent / "out").wait() == 0
    return folder


class Run:
    """A run with several processes that is under way."""

    def __init__(self, warm: WarmProcess, folder: Path, *flags: object) -> None:
        self.folder = folder
        self.output = folder.parent / f"{folder.name}.out"
        words = ("run", *_WORLDS, "-n", _EPISODES, *_THINK, "-c", 24, "-o", folder, *flags)
        self.child: Child = warm.start_command(*words, output=self.output)

    def workers(self) -> list[psutil.Process]:
        """Its rollout processes, which are forked from its fork server."""
        servers = psutil.Process(self.child.pid).children()
        return [one for server in servers for one in server.children()]

    def wait_for(self, kind: str, num: int) -> None:
        """Wait until the log has so many records of this kind."""
        _until(lambda: _count(self.folder, kind) >= num)

    def finish(self) -> str:
        """Wait for its end, which must be in order; returns its output."""
        status = self.child.wait()
        text = self.output.read_text()
        assert status == 0, text
        return text


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


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


def _check_equal(folder: Path, undisturbed: Path) -> int:
    """Check that nothing was lost, doubled or changed; returns how many attempts went on after
    logged turns."""
    assert outcomes_of(folder) == outcomes_of(undisturbed)
    assert (folder / "report.json").read_bytes() == (undisturbed / "report.json").read_bytes()
    records = records_of(folder)
    verdicts = [one.episode for one in records if one.event.__struct_config__.tag == "judged"]
    assert sorted(verdicts) == [f"e{number:06d}" for number in range(_EPISODES)]
    return check_attempts(records)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_report_and_results_do_not_depend_on_the_number_of_processes(
    processes: int, tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """One, two and three processes give the same calls, states, verdicts and report.json."""
    run = Run(warm_cli, tmp_path / "run", "--processes", processes)
    run.finish()
    _check_equal(run.folder, undisturbed)


@pytest.mark.slow
def test_killed_processes_are_replaced_and_nothing_is_lost_or_doubled(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """Two processes are killed in mid-run: their episodes go on after their logged turns."""
    run = Run(warm_cli, tmp_path / "run", "--processes", 2)
    for num_ended in (8, 30):
        run.wait_for("ended", num_ended)
        run.workers()[0].kill()
    text = run.finish()
    assert text.count("rollout_process_replaced") == 2
    assert text.count("signal 9") == 2
    assert _check_equal(run.folder, undisturbed) > 0


@pytest.mark.slow
def test_a_hung_process_is_noticed_and_replaced(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """A process that stands still sends no heartbeat; it is killed and nothing is lost or
    doubled."""
    run = Run(warm_cli, tmp_path / "run", "--processes", 2, "--process-timeout", 1)
    run.wait_for("ended", 8)
    run.workers()[1].send_signal(signal.SIGSTOP)
    text = run.finish()
    assert text.count("no heartbeat for 1 s") == 1
    assert _check_equal(run.folder, undisturbed) > 0


@pytest.mark.slow
def test_a_stopped_coordinator_does_not_take_its_workers_for_hung(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """Where the whole run stood still (Ctrl-Z), no process is replaced when it goes on."""
    run = Run(warm_cli, tmp_path / "run", "--processes", 2, "--process-timeout", 1)
    run.wait_for("ended", 5)
    everyone = [psutil.Process(run.child.pid), *run.workers()]
    for each in everyone:
        each.suspend()
    time.sleep(1.8)  # longer than a heartbeat may be away
    for each in everyone:
        each.resume()
        time.sleep(0.1)  # the coordinator is first: it finds that nothing has come
    assert "rollout_process_replaced" not in run.finish()
    _check_equal(run.folder, undisturbed)


@pytest.mark.slow
def test_an_interrupted_run_records_its_endings_and_goes_on_with_another_number(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """Ctrl-C ends every episode as cancelled, in the log; --resume with three processes goes on."""
    run = Run(warm_cli, tmp_path / "run", "--processes", 2)
    run.wait_for("ended", 12)
    run.child.send_signal(signal.SIGINT)
    assert run.child.wait() == 130
    assert "to continue: rehearse run" in run.output.read_text()
    assert _count(run.folder, "started") == _count(run.folder, "ended") < _EPISODES
    words = ("run", "-o", run.folder, "--resume", "--processes", 3)
    assert warm_cli.start_command(*words, output=run.output).wait() == 0, run.output.read_text()
    assert _check_equal(run.folder, undisturbed) > 0


@pytest.mark.slow
def test_the_processes_end_with_their_coordinator(
    tmp_path: Path, warm_cli: WarmProcess, undisturbed: Path
) -> None:
    """A killed coordinator leaves no process behind, not even a hung one; --resume in one process
    loses nothing."""
    run = Run(warm_cli, tmp_path / "run", "--processes", 2)
    run.wait_for("ended", 12)
    workers = run.workers()
    servers = psutil.Process(run.child.pid).children()
    workers[0].suspend()
    run.child.kill()
    run.child.wait()
    _until(lambda: not any(_runs(one) for one in (*workers, *servers)))
    words = ("run", "-o", run.folder, "--resume", "--processes", 1)
    assert warm_cli.start_command(*words, output=run.output).wait() == 0, run.output.read_text()
    assert _check_equal(run.folder, undisturbed) > 0


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_a_judge_that_asks_models_is_one_for_all_processes(
    tmp_path: Path, warm_cli: WarmProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judging models are asked by the coordinator, with one budget and one cache: killed processes
    and a broker that follows the run change no verdict."""
    no_environment(monkeypatch)
    with served(Speaks(good(lambda _: COMPLETED))) as server, running_broker(tmp_path) as broker:
        judge = ("--judge", "llm", "--judge-model", "m", "--judge-base-url", server.url)
        flags = (*judge, "--bus", broker.url, "--processes", 2)
        run = Run(warm_cli, tmp_path / "run", *flags)
        run.wait_for("ended", 8)
        run.workers()[0].kill()
        run.finish()
    verdicts = [one for one in records_of(run.folder) if isinstance(one.event, Judged)]
    assert sorted(one.episode for one in verdicts) == [f"e{n:06d}" for n in range(_EPISODES)]
    assert {(v.event.judge, v.event.label) for v in verdicts} == {("llm:m", COMPLETED)}
    assert (run.folder / "verdicts.sqlite").exists()


class _Policy:
    """A policy whose agents run a function."""

    name = "faulty"

    def __init__(self, reply: Callable[[], object]) -> None:
        self._reply = reply

    async def __aenter__(self) -> "_Policy":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def statistics(self) -> dict[str, float]:
        """It counts nothing."""
        return {}

    def agent(self, assignment: Assignment) -> "_Policy":
        """The agent of every episode."""
        return self

    async def reply(self, window: object) -> object:
        """Run the function."""
        return self._reply()


def _divide() -> object:
    return 1 / 0


def _die() -> object:
    os._exit(3)


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Runs episodes of a policy in two processes that are forked from this one."""
    monkeypatch.setattr("rehearsal_room.harness.launch.tune_garbage_collector", lambda: None)

    def play(reply: Callable[[], object], kind: type[_Policy] = _Policy) -> None:
        launch(
            Settings(scenarios=("shop_support",), processes=2, concurrency=4),
            tmp_path / "run",
            resume=False,
            open_judge=None,
            policy=kind(reply),  # type: ignore[arg-type]  # its replies are none
            progress=False,
        )

    yield play


def test_a_bug_in_an_episode_is_raised_with_its_traceback(
    launched: Callable[..., None], tmp_path: Path
) -> None:
    """The bug comes out of the run as it is, its place in the other process with it; the episodes
    that had begun are cancelled."""
    with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
        launched(_divide)
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in _divide" in str(caught.value.__cause__)
    with open_reader(tmp_path / "run") as reader:
        assert {row.ending for row in reader.episodes()} == {"cancelled"}


class _Renamed(_Policy):
    """Lets the process that opens it have another version of the project."""

    async def __aenter__(self) -> "_Renamed":
        distribution.version = lambda: "0.1"  # type: ignore[assignment]
        return self


def test_a_worker_of_another_version_is_refused(launched: Any, tmp_path: Path) -> None:
    """One sentence names both versions; nothing was played, so no folder is left."""
    with pytest.raises(ProcessError, match=_OTHER_VERSION):
        launched(_die, kind=_Renamed)
    assert distribution.version() != "0.1"  # only the worker's was changed
    assert not (tmp_path / "run").exists()


async def test_a_worker_that_does_not_say_its_version_is_refused() -> None:
    """An older worker, whose message lacks the version, gets the same sentence."""
    old = from_worker(msgspec.msgpack.encode({"type": "ready", "level": ""}))
    with pytest.raises(BaseExceptionGroup) as caught:
        await start_workers(lambda number: _OneMessage(number, old), 1, silence=1.0)
    assert str(sole_exception(caught.value)).startswith("worker 0 has version unknown of ")


class _OneMessage:
    """A WorkerHandle that sends one message."""

    ahead = 1

    def __init__(self, number: int, message: FromWorker) -> None:
        self.number, self.name = number, "worker 0"
        self._message = message

    async def receive(self, within: float) -> FromWorker:
        return self._message

    def end(self) -> str:
        return "ended"


@pytest.mark.slow
def test_processes_that_always_die_end_the_run(launched: Callable[..., None]) -> None:
    """After five deaths without a finished episode the run ends with one sentence."""
    with pytest.raises(ProcessError) as caught:
        launched(_die)
    text = str(caught.value)
    assert text.startswith("rollout processes died 5 times in a row without finishing an episode")
    assert "exit status 3" in text


def test_a_policy_with_its_model_in_the_process_is_refused(tmp_path: Path) -> None:
    """Policy `local` cannot be divided; the message says what to do."""
    policy = PolicySettings(name="local")
    settings = Settings(scenarios=("shop_support",), processes=2, policy=policy)
    with pytest.raises(SettingsError, match=r"processes: policy 'local' has .*serve-policy"):
        launch(settings, tmp_path / "run", resume=False, open_judge=None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--processes", "0"), "processes"),
        (("--processes", "two"), "processes"),
        (("--process-timeout", "0"), "--process-timeout: must be at least 1"),
        (
            ("--processes", "2", "--policy", "scripted", "--script", "nothing.jsonl"),
            "nothing.jsonl",
        ),
    ],
)
def test_bad_input_gives_one_sentence(
    flags: tuple[str, ...], message: str, rehearse: Rehearse, tmp_path: Path
) -> None:
    """What cannot be run is refused in one line, and leaves no folder and no process."""
    before = psutil.Process().children()
    status, _, err = rehearse("run", "shop_support", *flags, "-o", tmp_path / "run")
    assert (status != 0, message in err, "Traceback" in err) == (True, True, False), err
    assert (tmp_path / "run").exists() is False
    assert psutil.Process().children() == before


def test_the_shares_of_the_processes_add_up() -> None:
    """Concurrency is divided: the processes together run as many episodes as one would."""
    settings = Settings(concurrency=11, processes=3)
    assert [share_of(settings, number).concurrency for number in range(3)] == [4, 4, 3]
