"""What stops a process that follows a run, or a run that is followed: one clear sentence, exit
status 2, and nothing half written."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rehearsal_room.harness.following.verdict_log import FOLDER
from rehearsal_room.harness.log import writer
from rehearsal_room.harness.log.reader import open_reader
from tests.support.broker import Mosquitto, running_broker
from tests.support.cli import Rehearse, without_trust_line
from tests.support.commands import Commands
from tests.support.followed_runs import num_of, until_num
from tests.support.judged_runs import run_of_oracles
from tests.support.paths import LIBRARY
from tests.support.warm_process import WarmProcess

DEAD = "mqtt://127.0.0.1:9"
Mount = Callable[..., None]

RUN = ("run", LIBRARY, "-p", "oracle", "-o", "new", "--bus")
COMMANDS = {
    "run": (*RUN,),
    "run, judged elsewhere": (*RUN[:-1], "--judge", "elsewhere", "--bus"),
    "run in processes": (*RUN[:-1], "--judge", "elsewhere", "--processes", "2", "--bus"),
    "judge": ("judge", "night", "--follow", "-o", "new", "--bus"),
    "watch": ("show", "watch", "--bus"),
    "watch a run": ("show", "watch", "night", "--bus"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts a file system for the test; skips it where that is not allowed."""
    with ExitStack() as stack:

        def mounted(*arguments: object) -> None:
            done = subprocess.run(["mount", *map(str, arguments)], capture_output=True)
            if done.returncode:
                pytest.skip(f"this needs the right to mount: {done.stderr.decode().strip()}")
            if not str(arguments[1]).startswith("remount"):
                command = ["umount", "--lazy", str(arguments[-1])]
                stack.callback(subprocess.run, command, check=True)

        yield mounted


@contextmanager
def live_run(warm: WarmProcess, folder: Path, broker: Mosquitto) -> Iterator[Path]:
    """A run that is published and waits for its verdicts."""
    commands = Commands(warm, folder)
    night = folder / "here" / "night"
    flags = ("-p", "oracle", "--judge", "elsewhere", "--bus", broker.url)
    run, _ = commands.start("run", LIBRARY, *flags, "-o", night)
    try:
        until_num(night, "ended", 6)
        yield night
    finally:
        run.kill()


def refused(rehearse: Rehearse, *arguments: object) -> str:
    """The one sentence with which a command ends that is refused."""
    status, out, err = rehearse(*arguments)
    assert (status, out) == (2, "")
    err = without_trust_line(err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_broker_that_is_not_there(
    rehearse: Rehearse, folder: Path, arguments: tuple[object, ...]
) -> None:
    """The broker is named, and nothing is left."""
    sentence = refused(rehearse, *arguments, DEAD)
    assert sentence.startswith(f"the broker at {DEAD} cannot be reached: ")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["run, judged elsewhere", "judge", "watch"])
def test_a_login_that_is_refused(
    rehearse: Rehearse, folder: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """The broker is named and the password is not; nothing is left."""
    with running_broker(tmp_path_factory.mktemp("broker"), "allow_anonymous false") as broker:
        url = broker.url.replace("//", "//ada:p4ss@")
        sentence = refused(rehearse, *COMMANDS[name], url)
    assert sentence.startswith(f"the broker at {broker.url} refused the connection: ")
    assert "Not authorized" in sentence
    assert "p4ss" not in sentence
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_a_second_writer(
    rehearse: Rehearse,
    folder: Path,
    warm_cli: WarmProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A run, a judge and a copy of a run have one writer each; the others are refused, and change
    nothing."""
    files = tmp_path_factory.mktemp("broker")
    with running_broker(files) as broker, live_run(warm_cli, files, broker) as night:
        busy = f"{night}: another process is writing to this run"
        assert refused(rehearse, "judge", night) == busy
        assert refused(rehearse, "run", "-o", night, "--resume") == busy
        follow = ("judge", "night", "--follow", "--bus", broker.url, "-o")
        assert refused(rehearse, *follow, night) == busy
        assert num_of(night, "judged") == 0
        assert not (night / FOLDER).exists()
    assert not list(folder.iterdir())


def test_a_folder_that_is_read_only(rehearse: Rehearse, folder: Path, mount: Mount) -> None:
    """Where nothing can be written, nothing is judged or played; watching writes nothing."""
    run_of_oracles(rehearse, folder / "disk" / "run")
    (folder / "locked").mkdir()
    mount("--bind", folder / "disk", folder / "locked")
    mount("-o", "remount,ro,bind", folder / "locked")
    run = folder / "locked" / "run"
    for arguments in (("judge", run), ("run", "-o", run, "--resume")):
        sentence = refused(rehearse, *arguments)
        assert sentence == f"{run}: the run folder cannot be written: it is read-only"
    sentence = refused(rehearse, "judge", run, "--follow")
    assert sentence.startswith(f"{run / FOLDER}: the run folder cannot be written: ")
    status, out, _ = rehearse("show", "watch", run)
    assert (status, out.splitlines()[-1].partition(" · ")[0]) == (0, "run ended")
    with open_reader(run) as reader:
        assert reader.counts().keys() == {"started", "step", "ended"}


@pytest.mark.slow
def test_a_full_disk(
    rehearse: Rehearse,
    folder: Path,
    mount: Mount,
    monkeypatch: pytest.MonkeyPatch,
    warm_cli: WarmProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A judge whose disk is full ends with a sentence that names the file, here and on another
    machine; with space it judges what was left, and nothing twice."""
    monkeypatch.setattr(writer, "_FULL_PATIENCE_S", 0.3)
    run = run_of_oracles(rehearse, folder / "run")
    (run / FOLDER).mkdir()
    mount("-t", "tmpfs", "-o", "size=80k", "tmpfs", run / FOLDER)
    status, _, err = rehearse("judge", run, "--follow")
    assert status == 2
    assert err.splitlines()[-1].startswith(f"error: {run / FOLDER / 'episodes.sqlite'}: the log ")
    assert "full" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert num_of(run, "judged") == 0
    mount("-o", "remount,size=8m", run / FOLDER)
    assert rehearse("judge", run, "--follow")[0] == 0
    assert num_of(run, "judged") == 6

    (folder / "small").mkdir()
    mount("-t", "tmpfs", "-o", "size=120k", "tmpfs", folder / "small")
    files = tmp_path_factory.mktemp("broker")
    with running_broker(files) as broker, live_run(warm_cli, files, broker) as night:
        copy = folder / "small" / "copy"
        follow = ("judge", "night", "--follow", "--bus", broker.url, "-o", copy)
        status, _, err = rehearse(*follow)
        assert status == 2
        assert "full" in err.splitlines()[-1] or "No space" in err.splitlines()[-1]
        assert str(copy) in err.splitlines()[-1]
        assert "Traceback" not in err
        mount("-o", "remount,size=8m", folder / "small")
        assert rehearse(*follow)[0] == 0
        assert num_of(night, "judged") == 6
